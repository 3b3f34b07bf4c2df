"""What looks at the hosts found out about one launch, read from its facts: typed, and forgiving to what is missing.

A fact that names the processes it is about (``pids``) counts only for the launch that has one of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from tui.diagnose import kernel_log
from tui.diagnose.observe import Scene
from tui.diagnose.untyped import number
from tui.diagnose.views import ASLEEP_PCT, ProcView
from tui.model import Fact

LOCKS_S = 180.0
"""For so long a look at lock files counts; the newest look of a host replaces what an older one found."""

HOLDUPS_S = 180.0
SHM_S = 300.0
DEATH_S = 20.0
"""A kernel line that tells of a death belongs to a process that was seen to end within this."""

_KILLED = re.compile(r"Killed process (\d+)|\bpid=(\d+)")
_BLOCKED_TASK = re.compile(r"task [^:]+:(\d+) blocked for more than")
_NFS_SERVER = re.compile(r"server (\S+) (not responding|OK)")


@dataclass(frozen=True, slots=True)
class LockFile:
    """A lock file at the last look. ``kind``: ``flock`` (the kernel's), ``baton`` (a mere file), ``soft`` (a file that
    names its maker), empty where a recording does not say. ``owner_cpu``: per cent of a core that its owner and its
    descendants burned between two looks. ``waiters``: processes that the kernel has waiting for it."""

    host: str
    path: str
    age_s: float | None
    owner_alive: bool | None
    kind: str = ""
    owner: int | None = None
    owner_comm: str = ""
    owner_state: str = ""
    owner_cpu: float | None = None
    waiters: tuple[int, ...] = ()

    @property
    def orphaned(self) -> bool:
        return self.owner_alive is False

    @property
    def held(self) -> bool:
        return self.owner_alive is True

    @property
    def owner_stopped(self) -> bool:
        return self.held and self.owner_state in ("T", "t")

    @property
    def owner_idle(self) -> bool | None:
        """Whether its owner does nothing for it: ``None`` where that was not seen twice."""
        if self.owner_stopped:
            return True
        return None if self.owner_cpu is None else self.owner_cpu < ASLEEP_PCT

    @property
    def text(self) -> str:
        """
        >>> LockFile("a", "/c/lock", 90000.0, False, "baton").text
        '/c/lock, 25 h old: nobody has it open and nothing builds in its folder, its owner is dead'
        """
        old = "" if self.age_s is None else f", {span(self.age_s)} old"
        return f"{self.path}{old}: {self._owner_text}"

    @property
    def _owner_text(self) -> str:
        if self.orphaned:
            seen = {
                "baton": "nobody has it open and nothing builds in its folder, ",
                "soft": f"process {self.owner}, which it names, does not exist, " if self.owner else "",
            }.get(self.kind, "")
            return f"{seen}its owner is dead"
        if not self.held:
            return "its owner is not known"
        if self.owner is None:
            return "its owner lives"
        doing = "stopped" if self.owner_stopped else "" if self.owner_cpu is None else f"{self.owner_cpu:.0f} % CPU"
        named = ", ".join(part for part in (self.owner_comm, doing) if part)
        return f"held by process {self.owner}{f' ({named})' if named else ''}"


def span(seconds: float) -> str:
    """
    >>> span(45), span(600), span(90000), span(260000)
    ('45 s', '10 min', '25 h', '3 d')
    """
    for unit, size, most in (("s", 1, 120), ("min", 60, 120), ("h", 3600, 48)):
        if seconds < most * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"


# ---------------------------------------------------------------------------------------------------- of this launch


def concerning(scene: Scene, name: str, within_s: float) -> list[tuple[str, Fact]]:
    """(host, fact) of that name that is about a process of this launch, oldest first."""
    found: list[tuple[str, Fact]] = []
    for host in scene.hosts:
        members = {member.pid for member in scene.launch.members if member.host == host.name}
        for fact in host.facts.get(name, ()):
            pids = mapping(fact.value).get("pids")
            if fact.t >= scene.now - within_s and (not isinstance(pids, list) or members & {*cast("list[int]", pids)}):
                found.append((host.name, fact))
    return sorted(found, key=lambda item: item[1].t)


def mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def newest_figure(scene: Scene, word: str, within_s: float) -> tuple[float | None, Mapping[str, Any]]:
    """The newest number whose name begins with ``word``, whatever fact carries it, and what that fact says beside."""
    best: tuple[float, float, Mapping[str, Any]] | None = None
    names = dict.fromkeys(name for host in scene.hosts for name in host.facts)
    for name in names:
        for _, fact in concerning(scene, name, within_s):
            table = mapping(fact.value) or {fact.name: fact.value}
            for key, value in table.items():
                known = number(value) if key.startswith(word) else None
                if known is not None and (best is None or fact.t >= best[0]):
                    best = (fact.t, known, table)
    return (None, {}) if best is None else best[1:]


def _newest(scene: Scene, name: str, within_s: float) -> dict[str, Fact]:
    """The newest such fact of each host."""
    return dict(concerning(scene, name, within_s))


def figure(fact: Fact, name: str) -> float | None:
    """A fact's number; it may carry more beside it."""
    table = mapping(fact.value)
    return number(table.get(name) if table else fact.value)


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


# -------------------------------------------------------------------------------------------------------------- locks


def lock_files(scene: Scene) -> list[LockFile] | None:
    """The locks that the newest looks showed, the most telling last; ``None`` where nobody has looked."""
    found: list[LockFile] = []
    facts = concerning(scene, "lock_file", LOCKS_S)
    looked = {host: fact.t for host, fact in concerning(scene, "locks", LOCKS_S) if "error" not in mapping(fact.value)}
    for host, fact in facts:
        newest = max([t for other, t in [*looked.items(), *((h, f.t) for h, f in facts)] if other == host])
        row = mapping(fact.value)
        if row and fact.t >= newest - 1.0:
            found.append(_lock(host, row))
    if not found and not looked:
        return None
    return sorted(
        dict.fromkeys(found), key=lambda lock: (lock.orphaned, bool(lock.waiters), lock.held, -(lock.age_s or 0.0))
    )


def _lock(host: str, row: Mapping[str, Any]) -> LockFile:
    alive, owner = row.get("lock_owner_pid_alive"), row.get("lock_owner_pid")
    waiters: object = row.get("lock_waiters")
    return LockFile(
        host=host,
        path=text(row.get("lock_file")),
        age_s=number(row.get("lock_age_s")),
        owner_alive=alive if isinstance(alive, bool) else None,
        kind=text(row.get("lock_kind")),
        owner=owner if type(owner) is int else None,
        owner_comm=text(row.get("lock_owner_comm")),
        owner_state=text(row.get("lock_owner_state")),
        owner_cpu=number(row.get("lock_owner_cpu_pct")),
        waiters=tuple(cast("list[int]", waiters)) if isinstance(waiters, list) else (),
    )


def orphaned_lock(scene: Scene) -> LockFile | None:
    """The youngest lock whose owner is dead: what is waited for now was left last."""
    orphans = [lock for lock in lock_files(scene) or () if lock.orphaned]
    return orphans[-1] if orphans else None


def held_lock(scene: Scene) -> LockFile | None:
    """A lock that somebody who lives holds: first one that the kernel has a process of this launch waiting for."""
    members = {(member.host, member.pid) for member in scene.launch.members}
    held = [lock for lock in lock_files(scene) or () if lock.held]
    waited = [lock for lock in held if any((lock.host, pid) in members for pid in lock.waiters)]
    return (waited or held or [None])[-1]


# -------------------------------------------------------------------------------------------------------- surroundings


def shm(scene: Scene) -> tuple[float, float | None] | None:
    """Free and total MiB of the fullest ``/dev/shm`` of the launch; ``None`` where nobody has looked."""
    rows: dict[str, list[tuple[float, float, float | None]]] = {}
    for host, fact in concerning(scene, "shm_free_mib", SHM_S):
        free = figure(fact, "shm_free_mib")
        if free is not None:
            rows.setdefault(host, []).append((fact.t, free, number(mapping(fact.value).get("shm_total_mib"))))
    newest = [row for seen in rows.values() for row in seen if row[0] >= seen[-1][0] - 1.0]
    fullest = min(newest, key=lambda row: row[1], default=None)
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
    for _, fact in reversed(counts):
        if count := figure(fact, "cgroup_oom_kill"):
            many = "a process" if count == 1 else f"{count:.0f} processes"
            return f"the kernel killed {many} of its control group for memory"
    return None


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


# ----------------------------------------------------------------------------------------------------------- storage


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


# --------------------------------------------------------------------------------------------------------------- links


def rdma_mb_s(scene: Scene) -> float | None:
    """MB a second through the busiest InfiniBand port of the launch's hosts between the last two looks; ``None`` where
    that was not seen, or no port is there."""
    rates = [
        rate
        for fact in _newest(scene, "infiniband", HOLDUPS_S).values()
        for value in mapping(mapping(fact.value).get("rates")).values()
        if (rate := number(value)) is not None
    ]
    return max(rates, default=None)


def alone_on_hosts(scene: Scene) -> bool:
    """Whether every GPU of its hosts is the launch's, so that what their links carry is, too."""
    return len(scene.gpus) == sum(len(host.last_gpus) for host in scene.hosts) > 0


# ------------------------------------------------------------------------------------------------------------ hold-ups


def _holdup(scene: Scene, view: ProcView) -> Mapping[str, Any]:
    fact = _newest(scene, "holdups", HOLDUPS_S).get(view.member.host)
    processes = mapping(mapping(fact.value if fact is not None else None).get("processes"))
    return mapping(processes.get(str(view.member.pid)))


def tracer(scene: Scene, view: ProcView) -> str | None:
    """Who traces a process: ``process 4711 (gdb, stopped)``; empty where nobody does, ``None`` where not looked at."""
    row = _holdup(scene, view)
    return None if "tracer" not in row else "" if not row["tracer"] else _named(mapping(row["tracer"]))


@dataclass(frozen=True, slots=True)
class PipeEnd:
    """An output of a process that leads into a pipe: bytes in it, its size, and who should read it."""

    name: str
    waiting: float | None
    size: float | None
    readers: tuple[Mapping[str, Any], ...]

    @property
    def full(self) -> bool | None:
        """Short writes leave rooms in the pages of a pipe, half of it at worst (``pipe_write`` in fs/pipe.c)."""
        return None if self.waiting is None or self.size is None else self.waiting >= 0.5 * self.size

    @property
    def reader_stopped(self) -> bool:
        return bool(self.readers) and all(reader.get("state") in ("T", "t", "Z") for reader in self.readers)

    @property
    def text(self) -> str:
        fill = "" if self.full is None else f" holds {self.waiting or 0:.0f} of {self.size or 0:.0f} bytes"
        whom = ", ".join(_named(reader) for reader in self.readers[:3])
        return f"the pipe of its {self.name}{fill}, to be read by {whom or 'nobody in sight'}"


def pipes(scene: Scene, view: ProcView) -> list[PipeEnd]:
    """The pipes behind a process's standard output and error, as last looked at; the fuller one first."""
    found: list[PipeEnd] = []
    for key, name in (("stdout", "standard output"), ("stderr", "standard error")):
        row = mapping(_holdup(scene, view).get(key))
        if row:
            readers: object = row.get("readers")
            rows = tuple(mapping(item) for item in cast("list[object]", readers)) if isinstance(readers, list) else ()
            found.append(PipeEnd(name, number(row.get("bytes")), number(row.get("size")), rows))
    return sorted(found, key=lambda pipe: pipe.full is not True)


_STATE_WORDS = {"T": "stopped", "t": "stopped", "Z": "a zombie", "S": "asleep", "D": "blocked", "R": "running"}


def _named(row: Mapping[str, Any]) -> str:
    state = _STATE_WORDS.get(text(row.get("state")), "")
    inside = ", ".join(part for part in (text(row.get("comm")), state) if part)
    return f"process {row.get('pid')}{f' ({inside})' if inside else ''}"


# ------------------------------------------------------------------------------------------------------------- sockets


@dataclass(frozen=True, slots=True)
class Meeting:
    """How ranks stand to the address where they meet. ``listening``: whether anybody accepts there, where that is a
    watched host. ``calls_in_vain``: (process, address) whose connection is asked for and not answered. ``absent``:
    living ranks that are not connected to it while others are."""

    address: str
    listening: bool | None
    calls_in_vain: tuple[tuple[int, str], ...]
    absent: tuple[ProcView, ...]

    @property
    def absent_text(self) -> str:
        names = ", ".join(view.name for view in self.absent[:8])
        return f"{names} {'is' if len(self.absent) == 1 else 'are'} not connected"

    @property
    def trouble(self) -> str:
        """What is wrong, in words; empty where nothing is."""
        parts: list[str] = []
        if self.calls_in_vain:
            whom = ", ".join(dict.fromkeys(address for _, address in self.calls_in_vain))[:120]
            parts.append(f"process {self.calls_in_vain[0][0]} calls {whom} and gets no answer")
        if self.listening is False:
            parts.append(f"nobody listens at {self.address}, where the ranks are to meet")
        if self.absent:
            parts.append(f"{self.absent_text} at {self.address}, where the others are")
        return "; ".join(parts)


def meeting(scene: Scene) -> Meeting | None:
    """By the last look at sockets; ``None`` where nobody has looked."""
    newest = _newest(scene, "sockets", HOLDUPS_S)
    if not newest:
        return None
    vain: list[tuple[int, str]] = []
    meets: dict[tuple[str, int], bool] = {}
    address, listening = "", None
    for host, fact in newest.items():
        answer = mapping(fact.value)
        for pid, row in mapping(answer.get("sockets")).items():
            tcp: object = mapping(row).get("tcp")
            if isinstance(mapping(row).get("meets"), bool) and pid.isdigit():
                meets[host, int(pid)] = mapping(row)["meets"]
            for item in cast("list[object]", tcp) if isinstance(tcp, list) else []:
                told = mapping(item)
                if told.get("state") == "syn_sent" and (number(told.get("tries")) or 0) >= 1:
                    vain.append((int(pid) if pid.isdigit() else 0, text(told.get("peer"))))
        master = mapping(answer.get("master"))
        address = f"{text(master.get('name'))}:{master.get('port')}" if master else address
        if master.get("here") is True and isinstance(master.get("listening"), bool):
            listening = master["listening"]
    absent = [view for view in scene.ranks if meets.get((view.member.host, view.member.pid)) is False]
    return Meeting(address, listening, tuple(vain), tuple(absent) if any(meets.values()) else ())
