"""Answers of looks become facts of one shape, and rules read them: what is missing or another's says nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.simulated_launch import ASLEEP, SPIN, SPINNING, Doing, SimulatedLaunch, sglang_until_loaded
from tests.unit.test_diagnose import Watch, loaded
from tui.diagnose.answers import Answers
from tui.diagnose.facts.holdups import pipes, tracer
from tui.diagnose.facts.locks import lock_files, orphaned_lock
from tui.diagnose.facts.sockets import meeting
from tui.diagnose.facts.surroundings import INIT_PID_NAMESPACE, memory_kill, shm, storage_trouble
from tui.diagnose.lock_owner import owner_alive
from tui.diagnose.observe import Scene
from tui.errors import HostError
from tui.model import Fact, Wanted
from tui.session.looks import Looks

POLLING = Doing(0.5, wchan="hrtimer_nanosleep", wakes=10.0)
EIGHT = [4000 + rank for rank in range(8)]

BATON = {
    "path": "/root/.cache/torch_extensions/py312_cu128/cpu_adam/lock", "kind": "baton", "age_s": 90061.2, "size": 0,
    "fs": "ext4", "owner": None, "owner_lives": False, "all_asked": True, "made_here": None, "quiet_s": 90061.2,
    "waiters": [], "open_by": [], "concerns": EIGHT,
}  # fmt: skip
HELD = {
    **BATON, "path": "/root/.triton/x.lock", "kind": "flock", "owner": 4711, "owner_comm": "python3",
    "owner_state": "S", "owner_lives": True, "owner_cpu_s": 3.0, "waiters": [4002],
}  # fmt: skip


SEEN = {"whole_host": True, "launched_s": 120.0}
"""Beside the locks: all containers' processes were in sight, and the launch is two minutes old."""


class Host:
    """A launch whose host answers looks as an agent would: what is wanted is answered a second later."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.answers = Answers()
        self.says: dict[str, Mapping[str, Any]] = {}
        self.asked: list[tuple[float, str]] = []
        self.last: dict[str, float] = {}

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.watch.tick()
            assert self.watch.last is not None
            for want in self.watch.last.wanted:
                t = self.watch.sim.t
                if t - self.last.get(want.what, -99.0) >= 8.0:  # as the session bounds it
                    self.last[want.what] = t
                    self.asked.append((t, want.what))
                    pids = [pid for pid, _ in want.args["procs"]]
                    answer = {"looked": pids, **self.says.get(want.what, {})}
                    self.watch.sim.facts += self.answers.facts(want.what, answer, t)

    def scene(self) -> Scene:
        return Scene(self.watch.history, self.watch.sim.launch, self.watch.sim.t)


def reasons(watch: Watch) -> str:
    return " | ".join(watch.now.reasons)


# ------------------------------------------------------------------------------------------------------ what is asked


def test_nothing_is_asked_of_a_launch_that_goes_on() -> None:
    """One look when it is first seen, against which counts are compared later; then none."""
    host = Host(Watch(SimulatedLaunch(4)))
    host.watch.sim.doing = dict.fromkeys(range(4), SPINNING)
    for step in range(120):
        host.watch.sim.lines = [f"[2026-02-22 11:42:{step % 60:02}] step {step} loss 2.{step}"]
        host.run(1)
    assert [what for _, what in host.asked] == ["surroundings"]


def test_a_stall_is_looked_at_within_seconds_and_at_a_bounded_rate() -> None:
    """Every kind that a rival explanation wants, 13 s after the last line at most; none more often than every 8 s, and
    once all has been said, once a minute."""
    host = Host(loaded())
    began = host.watch.sim.t
    host.watch.sim.doing = dict.fromkeys(range(8), ASLEEP)
    host.run(60)
    first = {what: t - began for t, what in reversed(host.asked)}
    assert {"locks", "surroundings", "kernel_log", "holdups", "threads"} <= set(first)
    assert max(first[what] for what in ("locks", "kernel_log", "holdups", "threads")) <= 13
    host.run(700)
    late = [what for t, what in host.asked if t > began + 400]
    assert 0 < len(late) <= 8 * 6
    assert all(late.count(what) <= 7 for what in late if what != "threads")


def test_the_dead_are_asked_after_for_two_minutes() -> None:
    host = Host(loaded())
    host.run(3)
    del host.watch.sim.doing[3]
    died = host.watch.sim.t
    host.run(400)
    asked = [t - died for t, what in host.asked if what == "kernel_log"]
    assert asked and asked[0] <= 15 and max(asked) <= 150


async def test_launches_of_one_host_are_looked_at_together_and_a_look_that_fails_is_not_repeated_at_once() -> None:
    """Two want the same kind: one look about both, whose answer waits for a sample. A failure is a fact, too."""
    asked: list[tuple[str, list[Any], float]] = []

    async def ask(host: str, what: str, args: Mapping[str, Any]) -> dict[str, Any]:
        asked.append((what, sorted(args["procs"]), args.get("since_s", 0.0)))
        if what == "locks":
            raise HostError("node1: no answer within 10 s: what was looked at hangs")
        return {"lines": [{"age_s": 1.0, "text": "NVRM: Xid (PCI:0000:3b:00): 79, gone"}], "readable": True}

    tasks: list[asyncio.Task[None]] = []
    looks = Looks(ask, lambda work, name: tasks.append(asyncio.ensure_future(work)))
    lives = ((7, 60.0), (8, 90.0))
    wanted = [Wanted("node1", "kernel_log", {"procs": [[pid, 1]], "since_s": since}) for pid, since in lives]
    for now in (100.0, 104.0):
        looks.want([*wanted, Wanted("node1", "locks", {"procs": [[7, 1]]})], now)
    await asyncio.gather(*tasks)
    assert asked == [("kernel_log", [[7, 1], [8, 1]], 90.0), ("locks", [[7, 1]], 0.0)]
    found = {fact.name: fact.value for fact in looks.take("node1")}
    assert found["kernel_line"].endswith("79, gone") and found["kernel_log"]["pids"] == [7, 8]
    assert "hangs" in found["locks"]["error"] and looks.take("node1") == ()


# -------------------------------------------------------------------------------------------------------------- locks


def test_a_stale_baton_is_told_with_path_and_age() -> None:
    host = Host(loaded())
    host.says["locks"] = {"locks": [BATON], **SEEN}
    began = host.watch.sim.t
    host.watch.sim.doing = dict.fromkeys(range(8), POLLING)
    host.run(30)
    hung = host.watch.first("hung")
    assert hung is not None and hung - began <= 24
    assert (host.watch.now.cause, host.watch.now.strength) == ("stale_lock", "proven")
    assert "cpu_adam/lock, 25 h old: nobody has it open and nothing builds in its folder" in reasons(host.watch)


@pytest.mark.parametrize(
    "why, row",
    [
        ("it is another launch's", {**BATON, "concerns": [77777]}),
        ("who made it may live on another host", {**BATON, "fs": "nfs4", "quiet_s": 60.0}),
        ("it is held", {**BATON, "owner_lives": True, "owner": 4711, "owner_comm": "ninja"}),
    ],
)
def test_other_locks_prove_nothing(why: str, row: dict[str, Any]) -> None:
    host = Host(loaded())
    host.says["locks"] = {"locks": [row], **SEEN}
    host.watch.sim.doing = dict.fromkeys(range(8), POLLING)
    host.run(45)
    assert host.watch.now.cause != "stale_lock", why
    assert host.watch.first("hung") is None, why


SOFT = {**BATON, "path": "/hub/x.lock", "kind": "soft", "owner": 99, "made_here": True, "quiet_s": None}


@pytest.mark.parametrize(
    "alive, row, around",
    [
        (False, BATON, {}),
        (None, {**BATON, "age_s": 4.0}, {}),
        (None, {**BATON, "all_asked": False}, {}),
        (None, {**BATON, "quiet_s": 60.0}, {"whole_host": False}),
        (False, BATON, {"whole_host": False}),
        (False, {**BATON, "fs": "overlay"}, {"whole_host": False}),
        (False, {**BATON, "fs": "lustre"}, {}),
        (None, {**BATON, "fs": "lustre", "quiet_s": 3000.0}, {}),
        (None, {**BATON, "fs": "lustre", "quiet_s": None}, {}),
        (None, {**BATON, "fs": "lustre"}, {"launched_s": 100000.0}),
        (False, SOFT, {}),
        (None, {**SOFT, "made_here": False}, {}),
        (None, SOFT, {"whole_host": False}),
        (True, HELD, {}),
        (None, {**HELD, "owner_lives": False}, {}),
    ],
)
def test_an_owner_is_dead_where_nobody_who_could_be_it_is_out_of_sight(
    alive: bool | None, row: dict[str, Any], around: dict[str, Any]
) -> None:
    """Not a lock just made; not where a container, another host or another user's process may have it, unless its
    folder has been quiet for an hour; and no flock, which the kernel takes from the dead."""
    assert owner_alive(row, {**SEEN, **around}) is alive
    assert owner_alive({"kind": row["kind"], "owner_lives": False}, {}) is None, "what is missing is no proof"


def test_a_recording_says_itself_whether_the_owner_lives() -> None:
    """As it was judged then: recordings keep the fact, not what it was judged by."""
    for alive in (True, False, None):
        host = Host(loaded())
        row = {"lock_file": "/c/lock", "lock_age_s": 262000, "lock_owner_pid_alive": alive}
        host.watch.sim.facts.append(Fact(host.watch.sim.t, "lock_file", row))
        host.watch.tick()
        (lock,) = lock_files(host.scene()) or []
        assert lock.owner_alive is alive


def test_sleep_that_is_not_that_of_who_polls_a_lock_needs_more_than_a_stale_lock() -> None:
    """A rendezvous wakes a hundred times a second, a heartbeat once: neither waits for the file that happens to lie."""
    for wakes in (100.0, 1.0):
        host = Host(loaded())
        host.says["locks"] = {"locks": [BATON], **SEEN}
        host.watch.sim.doing = dict.fromkeys(range(8), Doing(0.5, wchan="hrtimer_nanosleep", wakes=wakes))
        host.run(40)
        assert host.watch.first("hung") is None, wakes


def test_a_lock_that_was_removed_is_not_held_against_the_launch() -> None:
    """The newest look replaces what an older one found."""
    host = Host(loaded())
    host.says["locks"] = {"locks": [BATON], **SEEN}
    host.watch.sim.doing = dict.fromkeys(range(8), Doing(0.5, wchan="hrtimer_nanosleep", wakes=1.0))
    host.run(16)
    assert orphaned_lock(host.scene()) is not None
    host.says["locks"] = {"locks": []}
    host.run(64)  # what is refuted otherwise is looked at once a minute
    assert lock_files(host.scene()) == []


def test_a_flock_names_its_holder_and_a_stopped_one_decides() -> None:
    host = Host(loaded())
    host.says["locks"] = {"locks": [HELD]}
    waiting = {rank: Doing(0.1, wchan="locks_lock_inode_wait") if rank == 2 else ASLEEP for rank in range(8)}
    host.watch.sim.doing = dict(waiting)
    host.run(120)
    assert host.watch.now.cause == "lock_held"
    assert "/root/.triton/x.lock, 25 h old: held by process 4711 (python3, 0 % CPU)" in reasons(host.watch)
    stopped = Host(loaded())
    stopped.says["locks"] = {"locks": [{**HELD, "owner_state": "T"}]}
    began = stopped.watch.sim.t
    stopped.watch.sim.doing = dict(waiting)
    stopped.run(30)
    hung = stopped.watch.first("hung")
    assert hung is not None and hung - began <= 24 and "(python3, stopped)" in reasons(stopped.watch)


def test_who_waits_for_a_lock_whose_holder_works_is_not_hung() -> None:
    """The holder burns a core between two looks: it builds, elsewhere than under this launch."""
    host = Host(loaded())
    host.watch.sim.doing = {
        rank: Doing(0.1, wchan="locks_lock_inode_wait") if rank == 2 else ASLEEP for rank in range(8)
    }
    for second in range(0, 200, 5):
        host.says["locks"] = {"locks": [{**HELD, "owner_cpu_s": 3.0 + second}]}
        host.run(5)
    assert "lock_held" not in [e.cause for e in host.watch.now.explanations if e.alive]


# -------------------------------------------------------------------------------------------------------- surroundings


def group(**more: Any) -> dict[str, Any]:
    return {"folders": ["/sys/fs/cgroup/job"], "pids": EIGHT, "oom_kills": 5, **more}


def test_kills_count_from_the_first_look_on_and_name_the_cause_of_a_death() -> None:
    """Five were killed in this group before; the sixth dies while it is watched. The group is asked for after that."""
    host = Host(loaded())
    host.says["surroundings"] = {"groups": [group()]}
    host.run(5)
    del host.watch.sim.doing[3]
    host.says["surroundings"] = {"groups": [group(oom_kills=6)]}
    host.run(30)
    assert (host.watch.now.id, host.watch.now.cause) == ("crashed", "oom_kill")
    other = Host(loaded())
    other.says["surroundings"] = {"groups": [group()]}
    other.run(5)
    del other.watch.sim.doing[3]
    other.run(30)
    assert (other.watch.now.id, other.watch.now.cause) == ("crashed", "dead_rank")


def test_a_kill_that_the_kernel_log_tells_of_another_process_is_not_ours() -> None:
    """By its number, when it is one of ours; by its time, when it is nobody's that is known."""
    line = "Memory cgroup out of memory: Killed process {} (python3) total-vm:181448kB"
    for pid, age_s, cause in ((4003, 1.0, "oom_kill"), (9999, 1.0, "oom_kill"), (9999, 300.0, "dead_rank")):
        host = Host(loaded())
        host.says["kernel_log"] = {"lines": [{"age_s": age_s, "text": line.format(pid)}], "readable": True}
        host.run(5)
        del host.watch.sim.doing[3]
        host.run(25)
        assert (host.watch.now.id, host.watch.now.cause) == ("crashed", cause), (pid, age_s)


def test_a_kill_of_a_stranger_is_not_ours_where_our_group_lost_nobody() -> None:
    """Another container's process is killed in the second in which a rank of ours dies of something else."""
    line = "Memory cgroup out of memory: Killed process 9999 (python3) total-vm:181448kB"
    for kills, cause in ((5, "dead_rank"), (6, "oom_kill")):
        host = Host(loaded())
        host.says["surroundings"] = {"groups": [group()]}
        host.run(5)
        host.says["kernel_log"] = {"lines": [{"age_s": 1.0, "text": line}], "readable": True}
        del host.watch.sim.doing[3]
        host.says["surroundings"] = {"groups": [group(oom_kills=kills)]}
        host.run(25)
        assert (host.watch.now.id, host.watch.now.cause) == ("crashed", cause), kills


def test_a_kill_of_a_stranger_is_not_ours_where_the_kernel_counts_as_we_do() -> None:
    """Outside of containers the number in the line is the process, whether or not its group was looked at in time."""
    line = "Memory cgroup out of memory: Killed process {} (python3) total-vm:181448kB"
    for pid, cause in ((9999, "dead_rank"), (4003, "oom_kill")):
        watch = Watch(SimulatedLaunch(8))
        watch.sim.pid_ns = INIT_PID_NAMESPACE
        host = Host(watch)
        sglang_until_loaded(watch.sim, watch.tick)
        host.says["kernel_log"] = {"lines": [{"age_s": 1.0, "text": line.format(pid)}], "readable": True}
        del watch.sim.doing[3]
        host.run(25)
        assert (watch.now.id, watch.now.cause) == ("crashed", cause), pid


def test_throttled_periods_between_two_looks_are_a_share() -> None:
    """Nine of ten periods ended in waiting, whatever the counters were before."""
    answers = Answers()
    row = group(quota_cores=0.1, periods=1000, throttled=3)
    assert "cgroup_throttled_pct" not in [f.name for f in answers.facts("surroundings", {"groups": [row]}, 10.0)]
    row = group(quota_cores=0.1, periods=1100, throttled=93)
    found = {f.name: f.value for f in answers.facts("surroundings", {"groups": [row]}, 20.0)}
    assert found["cgroup_throttled_pct"] == {
        "cgroup_throttled_pct": 90.0, "cgroup_cpu_quota_cores": 0.1, "pids": EIGHT
    }  # fmt: skip
    late = answers.facts("surroundings", {"groups": [group(quota_cores=0.1, periods=9999, throttled=94)]}, 500.0)
    assert "cgroup_throttled_pct" not in [f.name for f in late]  # a rate over eight minutes says nothing of now


def test_two_groups_are_not_compared_with_each_other() -> None:
    answers = Answers()
    one, other = group(refaults=0, folders=["/m/a", "/c/a"]), group(refaults=10**9, folders=["/m/a", "/c/b"])
    answers.facts("surroundings", {"groups": [one]}, 10.0)
    found = answers.facts("surroundings", {"groups": [other]}, 20.0)
    assert "cgroup_refault_mbps" not in [f.name for f in found]


def test_a_few_pages_that_come_back_are_nothing() -> None:
    """Two pages a second; and the limit is said where there is one."""
    answers = Answers()
    answers.facts("surroundings", {"groups": [group(refaults=100, memory_max=1 << 36)]}, 10.0)
    later = answers.facts("surroundings", {"groups": [group(refaults=120, memory_max=1 << 36)]}, 20.0)
    found = {fact.name: fact.value for fact in later}
    assert found["cgroup_refault_mbps"]["cgroup_refault_mbps"] == 0.0
    assert found["cgroup_refault_mbps"]["cgroup_memory_limit_gib"] == 64.0


@pytest.mark.parametrize(
    ("memory", "cause"),
    [
        ({"memory_max": 64 << 30, "memory_used": 63 << 30}, "memory_refault"),
        ({"memory_max": 64 << 30}, "memory_refault"),  # how much is used was not read
        ({"memory_max": 64 << 30, "memory_used": 9 << 30}, "slow_storage"),
        ({"memory_max": None, "memory_used": 9 << 30}, "slow_storage"),
    ],
)
def test_pages_that_come_back_are_held_against_a_limit_only_where_it_is_reached(
    memory: dict[str, Any], cause: str
) -> None:
    """Rank 2 reads 20 MB/s while as much comes back in the control group, which others may share: without a limit, or
    far from it, those pages are not evicted for the launch's sake."""
    host = Host(loaded())
    host.watch.sim.doing = {**dict.fromkeys(range(8), ASLEEP), 2: Doing(5.0, "S", "folio_wait_bit", read_bps=2e7)}
    for second in range(60):
        host.says["surroundings"] = {"groups": [group(refaults=5000 * second, **memory)]}
        host.run(1)
    assert (host.watch.now.id, host.watch.now.cause) == ("slow", cause)


def test_a_full_dev_shm_decides_and_that_of_others_does_not() -> None:
    for pids, cause in ((EIGHT, "shm_full"), ([1], None)):
        host = Host(loaded())
        host.says["surroundings"] = {"shm": [{"free": 0, "total": 64 << 20, "pids": pids}]}
        host.watch.sim.doing = dict.fromkeys(range(8), ASLEEP)
        host.run(25)
        assert host.watch.now.cause == cause
        assert ("0 MiB free of 64 MiB in /dev/shm" in reasons(host.watch)) == (cause is not None)


# ------------------------------------------------------------------------------------------------------------ hold-ups


def test_a_stopped_rank_names_its_tracer() -> None:
    host = Host(loaded())
    row = {"state": "t", "tracer": {"pid": 999, "comm": "gdb", "state": "T"}, "stdout": None, "stderr": None}
    host.says["holdups"] = {"processes": {"4002": row}}
    host.watch.sim.doing = {rank: Doing(0.0, state="t") if rank == 2 else ASLEEP for rank in range(8)}
    host.run(45)
    assert (host.watch.now.id, host.watch.now.cause) == ("hung", "stopped")
    assert "traced by process 999 (gdb, stopped)" in reasons(host.watch)


def test_a_full_pipe_names_its_reader_and_a_stopped_reader_decides() -> None:
    for state, within_s in (("S", 130), ("T", 25)):
        host = Host(loaded())
        pipe = {
            "pipe": "pipe:[1]",
            "bytes": 65536,
            "size": 65536,
            "readers": [{"pid": 55, "comm": "less", "state": state}],
        }
        host.says["holdups"] = {"processes": {"4000": {"state": "S", "tracer": None, "stdout": pipe, "stderr": None}}}
        began = host.watch.sim.t
        host.watch.sim.doing = {rank: Doing(0.0, wchan="anon_pipe_write") if rank == 0 else ASLEEP for rank in range(8)}
        host.run(130)
        hung = host.watch.first("hung")
        assert hung is not None and hung - began <= within_s, state
        assert "holds 65536 of 65536 bytes, to be read by process 55 (less," in reasons(host.watch)


# ------------------------------------------------------------------------------------------------------------- sockets


def test_a_rank_that_is_not_where_the_others_meet_is_named() -> None:
    """Seven are connected to the store, rank 5 is not: it is there, and has not come."""
    watch = Watch(SimulatedLaunch(8))
    watch.sim.env = {"MASTER_ADDR": "node1", "MASTER_PORT": "29500"}
    host = Host(watch)
    rows = {str(pid): {"states": {}, "tcp": [], "received": {}, "meets": pid != 4005} for pid in EIGHT}
    master = {"name": "node1", "port": 29500, "here": True, "listening": True}
    host.says["sockets"] = {"sockets": rows, "master": master}
    watch.sim.lines = ["[2026-02-22 11:42:10 TP0] Init torch distributed begin."]
    host.run(60)
    assert "rank 5" in reasons(watch) and "not connected to node1:29500" in reasons(watch)
    host.run(240)
    assert [odd.rank for odd in watch.now.odd] == [5]


def test_calls_in_vain_are_told() -> None:
    watch = Watch(SimulatedLaunch(8))
    host = Host(watch)
    tcp = [{"state": "syn_sent", "peer": "10.0.0.9:29500", "tries": 3}]
    host.says["sockets"] = {"sockets": {"4003": {"states": {"syn_sent": 1}, "tcp": tcp}}}
    watch.sim.lines = ["[2026-02-22 11:42:10 TP0] Init torch distributed begin."]
    host.run(60)
    seen = [p.seen for e in watch.now.explanations for p in e.predictions if p.signal == "sockets"]
    assert "process 4003 calls 10.0.0.9:29500 and gets no answer" in seen


def test_bytes_received_between_two_looks_are_a_rate() -> None:
    """What one connection brought, and one that is new since; one that ended takes nothing away."""
    answers = Answers()

    def of(**received: int) -> dict[str, float]:
        answers_facts = answers.facts("sockets", {"sockets": {"7": {"received": received}}}, t)
        return answers_facts[-1].value["rates"]

    t = 10.0
    assert of(a=1000, b=5000) == {}
    t = 20.0
    assert of(a=21000, c=10000) == {"7": 3000.0}


# ------------------------------------------------------------------------------------------------------- hostile hosts


def test_what_a_host_says_is_cleaned() -> None:
    row = {
        **BATON,
        "path": "/c/\x1b[31mred\u202e/lock",
        "owner_comm": "\x1b]0;x\x07sh",
        "owner_lives": True,
        "owner": 7,
    }
    (lock,) = [f.value for f in Answers().facts("locks", {"locks": [row], **SEEN}, 1.0) if f.name == "lock_file"]
    assert "\x1b" not in str(lock) and "\u202e" not in str(lock)


def test_a_line_of_the_kernel_is_told_once_at_its_own_time() -> None:
    answers = Answers()
    line = {"age_s": 100.0, "text": "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."}
    (fact, _) = answers.facts("kernel_log", {"lines": [line]}, 1000.0)
    assert fact == Fact(900.0, "kernel_line", line["text"])
    again = {**line, "age_s": 115.4}
    assert [f.name for f in answers.facts("kernel_log", {"lines": [again]}, 1015.0)] == ["kernel_log"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(
            ["locks", "path", "owner", "waiters", "concerns", "groups", "folders", "pids", "shm", "free", "total",
             "lines", "text", "age_s", "processes", "stdout", "readers", "sockets", "tcp", "received", "4000", "master",
             "ports", "oom_kills", "periods", "throttled", "quota_cores", "refaults", "owner_cpu_s", "state", "meets"]
        ),
        inner, max_size=6),
    max_leaves=24,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["locks", "groups", "shm", "lines", "processes", "sockets", "ports", "master",
                                        "looked", "error"]), JSON))  # fmt: skip
def test_no_answer_breaks_the_readers(answer: dict[str, Any]) -> None:
    """Whatever a host answers to whatever look, twice: facts come out, and readers make something or nothing of it."""
    watch = Watch(SimulatedLaunch(2))
    answers = Answers()
    for t in (10.0, 20.0):
        for what in ("locks", "surroundings", "kernel_log", "holdups", "sockets", "infiniband"):
            watch.sim.facts += answers.facts(what, {"looked": [4000], **answer}, t)
        watch.tick()
    scene = Scene(watch.history, watch.sim.launch, watch.sim.t)
    for view in scene.procs:
        assert tracer(scene, view) is None or isinstance(tracer(scene, view), str)
        assert all(isinstance(pipe.text, str) for pipe in pipes(scene, view))
    assert all(isinstance(lock.text, str) for lock in lock_files(scene) or ())
    met = meeting(scene)
    assert met is None or isinstance(met.trouble, str)
    shm(scene), storage_trouble(scene), memory_kill(scene, scene.procs)


# ---------------------------------------------------------------------------------------------- GPUs, links and storage


def spinning(host: Host) -> None:
    host.watch.sim.doing = dict.fromkeys(range(8), SPINNING)
    host.watch.sim.gpus = dict.fromkeys(range(8), SPIN)


def test_a_fault_that_the_driver_tells_of_needs_no_kernel_log() -> None:
    """NVML's events are there without any right to read the kernel's log."""
    host = Host(loaded())
    began = host.watch.sim.t
    spinning(host)
    host.watch.sim.xids = {3: (79,)}
    host.run(35)
    hung = host.watch.first("hung")
    assert hung is not None and hung - began <= 25 and host.watch.now.cause == "gpu_fault"
    assert "the driver reports Xid 79 on GPU 3" in reasons(host.watch)


@pytest.mark.parametrize("per_look, alive", [(10_000, True), (10**10, False)])
def test_a_collective_that_moves_bytes_between_hosts_does_not_spin(per_look: int, alive: bool) -> None:
    """100 % without memory traffic, and a gigabyte a second on the InfiniBand port: it is at work."""
    host = Host(loaded())
    spinning(host)
    sent = 0
    for _ in range(20):
        sent += per_look
        port = {"device": "mlx5_0", "port": "1", "state": "ACTIVE", "rx_bytes": sent, "tx_bytes": sent, "errors": {}}
        host.says["infiniband"] = {"ports": [port]}
        host.run(5)
    spins = [e for e in host.watch.now.explanations if e.cause == "collective_spin"]
    assert [e.alive for e in spins] == [alive]


def test_a_server_of_files_that_does_not_answer_is_named_until_it_does() -> None:
    host = Host(loaded())
    lines = [{"age_s": 5.0, "text": "nfs: server filer7 not responding, still trying"}]
    host.says["kernel_log"] = {"lines": lines, "readable": True}
    host.watch.sim.doing = {rank: Doing(0.0, state="D", wchan="rpc_wait_bit_killable") for rank in range(8)}
    host.run(60)
    said = [p.seen for e in host.watch.now.explanations if e.cause == "io_stall" for p in e.predictions]
    assert "nfs: server filer7 not responding, still trying" in said
    lines.append({"age_s": 0.0, "text": "nfs: server filer7 OK"})
    host.run(70)
    assert storage_trouble(host.scene()) is None


def test_a_blocked_task_of_another_launch_is_not_ours() -> None:
    for pid, ours in ((4003, True), (9999, False)):
        host = Host(loaded())
        text = f"INFO: task python3:{pid} blocked for more than 122 seconds."
        host.says["kernel_log"] = {"lines": [{"age_s": 5.0, "text": text}], "readable": True}
        host.watch.sim.doing = {rank: Doing(0.0, state="D", wchan="folio_wait_bit_common") for rank in range(8)}
        host.run(40)
        assert (storage_trouble(host.scene()) == text) == ours
