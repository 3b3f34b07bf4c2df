"""What a launch shares with its hosts, as looks found it: memory, storage, links, and what the kernel says of them."""

from __future__ import annotations

import re

from tui.diagnose import kernel_log
from tui.diagnose.facts import concerning, figure, newest
from tui.diagnose.observe import Scene
from tui.diagnose.views import ProcView
from tui.model import Fact
from tui.untyped import mapped, number

SHM_S = 300.0
LINKS_S = 180.0
DEATH_S = 20.0
"""A kernel line that tells of a death belongs to a process that was seen to end within this."""

_KILLED = re.compile(r"Killed process (\d+)|\bpid=(\d+)")
_BLOCKED_TASK = re.compile(r"task [^:]+:(\d+) blocked for more than")
_NFS_SERVER = re.compile(r"server (\S+) (not responding|OK)")


def shm(scene: Scene) -> tuple[float, float | None] | None:
    """Free and total MiB of the fullest ``/dev/shm`` of the launch; ``None`` where nobody has looked."""
    rows: dict[str, list[tuple[float, float, float | None]]] = {}
    for host, fact in concerning(scene, "shm_free_mib", SHM_S):
        free = figure(fact, "shm_free_mib")
        if free is not None:
            rows.setdefault(host, []).append((fact.t, free, number(mapped(fact.value).get("shm_total_mib"))))
    rows_now = [row for seen in rows.values() for row in seen if row[0] >= seen[-1][0] - 1.0]
    fullest = min(rows_now, key=lambda row: row[1], default=None)
    return None if fullest is None else fullest[1:]


def memory_kill(scene: Scene, dead: list[ProcView]) -> str | None:
    """What says that the kernel killed one of ``dead`` for memory: its log naming the process, or the count of their
    control group that rose. A line about another launch's process says nothing; one about a process that nobody knows
    says nothing either where their group's count was watched through the death and did not rise, or where the kernel
    counts processes as the launch does."""
    pids = {view.member.pid for view in dead}
    ended = [died for view in dead if (died := scene.died_t(view)) is not None]
    known = {pid for host in scene.hosts for pid, _ in host.procs} - {member.pid for member in scene.launch.members}
    counts = concerning(scene, "cgroup_oom_kill", 3600.0)
    watched = any(fact.t < min(ended, default=0.0) for _, fact in counts)
    rose = any(figure(fact, "cgroup_oom_kill") for _, fact in counts)
    for line, t, _ in reversed(scene.kernel_lines):
        victim = _KILLED.search(line) if kernel_log.of_memory(line) else None
        pid = int(victim[1] or victim[2]) if victim is not None else None
        about = abs(t - min(ended, key=lambda died: abs(t - died))) <= DEATH_S if ended else True
        about = about and pid not in known and (rose or not (watched or _numbered_as_by_the_kernel(scene)))
        if kernel_log.of_memory(line) and (pid in pids or about):
            return f"kernel log: {line[:160]}"
    for host, fact in reversed(counts):
        count = figure(fact, "cgroup_oom_kill") or 0.0
        if count > _killed_before(counts, host, min(ended, default=scene.now) - DEATH_S):
            many = "a process" if count == 1 else f"{count:.0f} processes"
            return f"the kernel killed {many} of its control group for memory"
    return None


def _killed_before(counts: list[tuple[str, Fact]], host: str, until: float) -> float:
    """The highest count of a host's that was seen before ``until``: those kills were of others."""
    earlier = [figure(fact, "cgroup_oom_kill") or 0.0 for name, fact in counts if name == host and fact.t < until]
    return max(earlier, default=0.0)


INIT_PID_NAMESPACE = "pid:[4026531836]"
"""The one whose numbers the kernel log uses (PROC_PID_INIT_INO, include/linux/proc_ns.h)."""


def _numbered_as_by_the_kernel(scene: Scene) -> bool:
    """Whether the launch's processes are seen by the numbers that the kernel log uses: they run in no container."""
    identities = (
        host.identities.get((member.pid, member.start_ticks))
        for member in scene.launch.members
        if (host := scene.history.host(member.host)) is not None
    )
    return any(identity is not None and identity.pid_ns == INIT_PID_NAMESPACE for identity in identities)


def storage_trouble(scene: Scene) -> str | None:
    """The kernel's last complaint about storage that it has not taken back, of the last ten minutes."""
    trouble: str | None = None
    for line, t, _ in scene.kernel_lines:
        server = _NFS_SERVER.search(line)
        if server is not None and server[2] == "OK" and trouble is not None and server[1] in trouble:
            trouble = None
        elif kernel_log.of_storage(line) and t >= scene.now - 600.0 and _is_ours(scene, line):
            trouble = line
    return None if trouble is None else trouble[:160]


def _is_ours(scene: Scene, line: str) -> bool:
    """A blocked task counts where it is a process of this launch; a server that does not answer is everybody's."""
    task = _BLOCKED_TASK.search(line)
    return task is None or int(task[1]) in {member.pid for member in scene.launch.members} or not _live(scene)


def _live(scene: Scene) -> bool:
    """Whether the hosts are asked, so that process numbers are real."""
    return any("kernel_log" in host.facts for host in scene.hosts)


def rdma_mb_s(scene: Scene) -> float | None:
    """MB a second through the busiest InfiniBand port of the launch's hosts between the last two looks; ``None`` where
    that was not seen, or no port is there."""
    rates = [
        rate
        for fact in newest(scene, "infiniband", LINKS_S).values()
        for value in mapped(mapped(fact.value).get("rates")).values()
        if (rate := number(value)) is not None
    ]
    return max(rates, default=None)


def alone_on_hosts(scene: Scene) -> bool:
    """Whether every GPU of its hosts is the launch's, so that what their links carry is, too."""
    return len(scene.gpus) == sum(len(host.last_gpus) for host in scene.hosts) > 0
