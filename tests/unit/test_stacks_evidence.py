"""What finished stacks say for and against causes, and what the verdict makes of it."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.simulated_launch import ASLEEP
from tests.unit.test_diagnose import Watch, loaded
from tui.diagnose.phases import CAUSES
from tui.model import Frame, ProcessStacks, ThreadStack
from tui.stacks import pyspy
from tui.stacks.called import Called, Finding
from tui.stacks.evidence import Testimony as Said
from tui.stacks.evidence import speaks_for
from tui.stacks.waits import causes_of, healthy_of, known_ids

SAMPLES = Path(__file__).parent.parent / "samples"
C10D = "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
BATON = "/venv/lib/python3.11/site-packages/torch/utils/file_baton.py"
THREADING = "/usr/lib/python3.11/threading.py"


def main(*frames: tuple[str, str, int], **thread: Any) -> ThreadStack:
    """Frames root first."""
    made = tuple(Frame(*f) for f in reversed((("<module>", "train.py", 90), *frames)))
    return replace(ThreadStack(1, "MainThread", made, main=True), **thread)


REDUCE = main(("all_reduce", C10D, 3252))
LOCK = main(("refill", "cache.py", 26), ("acquire", THREADING, 300))
OTHER = ThreadStack(2, "evictor", (Frame("evict", "cache.py", 9),))


def ranks(**odd: ThreadStack) -> list[ProcessStacks]:
    """Eight in all_reduce but those given (``r5=...``)."""
    return [ProcessStacks("host1", 1000 + r, r, "py-spy", (odd.get(f"r{r}", REDUCE), OTHER)) for r in range(8)]


def sample(case: str) -> ThreadStack:
    """The main thread of a real hang, with the kernel's word."""
    thread = pyspy.from_text((SAMPLES / "hangs" / f"{case}.pyspy.txt").read_text())[0].threads[0]
    wchan = json.loads((SAMPLES / "hangs" / f"{case}.proc.json").read_text())["wchan"]
    return replace(thread, wchan=None if wchan == "0" else wchan)


CASES = {
    "file_baton": ("stale_lock", "lock_held"),
    "flock": ("lock_held", "stale_lock"),
    "dataloader_worker_stuck": ("io_stall", "thread_deadlock"),
    "cond_wait_timeout_loop": ("thread_deadlock",),
    "socket_recv": ("download_stall",),
}


@pytest.mark.parametrize("case", CASES)
def test_a_real_hang_of_one_rank_speaks_for_its_cause(case: str) -> None:
    said = speaks_for(ranks(r5=sample(case)))
    assert said.causes == (*CASES[case], "rank_wait"), said.text
    assert [(o.host, o.pid, o.rank) for o in said.odd] == [("host1", 1005, 5)]
    assert said.text.startswith("Rank 5 waits for")


def test_a_compiler_is_healthy_work_and_no_cause_of_a_hang() -> None:
    said = speaks_for(ranks(r0=sample("cpp_jit_compile")))
    assert said.healthy == ("kernel_build", "rank0_preparing") and said.causes == ("rank_wait",)
    assert "kernel_build" not in said.refutes


def test_healthy_work_that_no_stack_shows_is_refuted_where_all_were_read() -> None:
    assert set(speaks_for(ranks(r5=LOCK)).refutes) == {"torch_compile", "kernel_build", "slow_import"}
    unread = [*ranks(r5=LOCK)[:7], ProcessStacks("host1", 1007, 7, "py-spy", error="it has ended")]
    assert speaks_for(unread).refutes == ()
    assert speaks_for(ranks(r5=main(("decode", "codec.py", 3)))).refutes == (), "what nobody knows may be work"


def test_the_interpreters_lock_held_by_one_that_sleeps() -> None:
    held = replace(REDUCE, owns_gil=True, active=False)
    said = speaks_for(ranks(r2=held))
    assert said.causes == ("gil_deadlock", "rank_wait") and [o.rank for o in said.odd] == [2]


def test_the_interpreters_lock_held_by_another_thread_that_sleeps() -> None:
    """A callback in C keeps it: the main thread only seems to wait for a signal."""
    main_ = main(("held", "faults.py", 79), ("wait", THREADING, 320), active=False)
    callback = ThreadStack(3, "native-callback", (Frame("pause", "faults.py", 71),), active=False, owns_gil=True)
    stacks = ranks()
    stacks[2] = replace(stacks[2], threads=(main_, callback))
    said = speaks_for(stacks)
    assert said.causes == ("gil_deadlock", "rank_wait") and [o.rank for o in said.odd] == [2]
    assert "waits for the interpreter lock, which its thread “native-callback” holds without running" in said.text
    before = [replace(p, threads=tuple(replace(t, owns_gil=None) for t in p.threads)) for p in stacks]
    assert "gil_deadlock" not in speaks_for(stacks, before=before).causes, "held for a moment only"
    running = replace(callback, active=True)
    stacks[2] = replace(stacks[2], threads=(main_, running))
    assert speaks_for(stacks).causes == ("thread_deadlock", "rank_wait")


def test_ranks_in_two_collectives_are_a_mismatch() -> None:
    said = speaks_for(ranks(r5=main(("barrier", C10D, 4800))))
    assert said.causes[0] == "collective_mismatch" and [o.rank for o in said.odd] == [5]


def test_all_in_one_collective_is_below_python() -> None:
    said = speaks_for(ranks())
    assert said.causes == ("collective_spin", "rank_wait") and said.odd == ()
    assert "no Python code holds them up" in said.text


def test_a_fork_that_lost_the_holder_of_a_lock() -> None:
    child = ProcessStacks("host1", 2000, None, "py-spy", (LOCK,), role="helper")
    said = speaks_for([*ranks(), child])
    assert "though it has no other thread to release it" in said.text
    assert [o.pid for o in said.odd] == [2000] and said.causes[0] == "thread_deadlock"


def test_a_stuck_worker_of_a_data_loader_says_why_its_rank_waits() -> None:
    """Megatron-Bridge's case: one rank's DataLoader worker in Lustre's cl_sync_io_wait, 255 ranks in a collective."""
    frames = (Frame("__getitem__", "data.py", 5), Frame("<module>", "train.py", 1))
    worker = ThreadStack(9, "MainThread", frames, main=True, wchan="cl_sync_io_wait", state="D")
    idle = replace(sample("cond_wait_timeout_loop"), wchan="futex_do_wait")
    children = [
        ProcessStacks("host1", 2000 + n, None, "py-spy", (worker if n == 2 else idle,), role="data_worker")
        for n in range(4)
    ]
    said = speaks_for([*ranks(r5=sample("dataloader_worker_stuck")), *children])
    assert [(o.rank, o.pid) for o in said.odd] == [(5, 1005), (None, 2002)]
    assert said.causes == ("io_stall", "thread_deadlock", "rank_wait")
    assert (
        "; on the same host data worker 2002 on host1 waits for storage (cl_sync_io_wait) in __getitem__" in said.text
    )


def test_what_was_called_and_what_is_dead() -> None:
    def by(kind: Any, *ranks_: int) -> Called:
        return Called("NCCL RAS", (Finding(kind, "", ranks_, "it is so"),), frozenset(range(8)))

    assert speaks_for(ranks(), [by("other_call", 5)]).causes == ("collective_mismatch", "rank_wait")
    assert speaks_for(ranks()[:5], [by("gone", 5)]).causes == ("dead_rank", "rank_wait")
    assert speaks_for(ranks(), [by("gone", 5)]).causes == ("rank_wait",), "one that gave a stack is not dead"
    assert speaks_for(ranks(), [by("uncalled", 5)]).firm
    assert speaks_for(ranks(), [replace(by("uncalled", 5), moves=True)]).moving


def test_two_looks_tell_what_stands_from_what_moves() -> None:
    before = [replace(p, taken_wall=10.0) for p in ranks(r5=LOCK)]
    stood = speaks_for([replace(p, taken_wall=13.0) for p in ranks(r5=LOCK)], before=before)
    assert stood.firm and not stood.moving
    moved = speaks_for([replace(p, taken_wall=13.0) for p in ranks(r5=main(("refill", "cache.py", 31)))], before=before)
    assert moved.moving and not moved.firm and "slow, not hung" in moved.text


def test_every_cause_of_the_table_is_one_of_the_verdicts() -> None:
    for wait in known_ids():
        assert {*causes_of(wait), *healthy_of(wait)} <= CAUSES.keys()
        assert not any(CAUSES[c].healthy for c in causes_of(wait)) and all(CAUSES[c].healthy for c in healthy_of(wait))


def test_the_fact_is_plain_json() -> None:
    fact = speaks_for(ranks(r5=LOCK)).as_fact("launch-1")
    assert json.loads(json.dumps(fact)) == fact and fact["odd"][0]["rank"] == 5


# --------------------------------------------------------------------------------------------------------- the verdict


@cache
def _hung() -> Watch:
    watch = loaded()
    watch.sim.doing = dict.fromkeys(range(8), ASLEEP)
    watch.run(120)
    assert (watch.now.id, watch.now.cause) == ("hung", "rank_wait")
    return watch


def hung(said: Said | dict[str, Any]) -> Watch:
    """Eight ranks that sleep until they are called hung; then their stacks are taken."""
    watch = copy.deepcopy(_hung())
    watch.sim.facts = [("stacks", said.as_fact(watch.sim.launch.id) if isinstance(said, Said) else said)]
    watch.run(3)
    return watch


@pytest.mark.parametrize(
    ("stack", "cause"),
    [(LOCK, "thread_deadlock"), (sample("file_baton"), "stale_lock"), (sample("flock"), "lock_held")],
)
def test_a_dump_makes_the_cause_precise_and_names_the_rank(stack: ThreadStack, cause: str) -> None:
    now = hung(speaks_for(ranks(r5=stack))).now
    assert (now.id, now.cause) == ("hung", cause)
    assert [odd.rank for odd in now.odd] == [5] and now.next_probe == "dumps"
    assert any(reason.startswith("stacks: Rank 5 waits for") for reason in now.reasons)


def test_what_the_stacks_name_stands_in_the_table_and_is_not_struck_out_there() -> None:
    """Seen from outside, a process among eight that sleep cannot be one whose threads wait for each other."""
    assert all(e.refuted for e in _hung().now.explanations if e.cause == "thread_deadlock")
    now = hung(speaks_for(ranks(r5=LOCK))).now
    (named,) = [e for e in now.explanations if e.cause == now.cause]
    assert named.alive and not named.refuted and "rank 5" in named.title
    assert [(p.outcome, p.seen.startswith("Rank 5 waits")) for p in named.predictions if p.signal == "stacks"] == [
        ("fits", True)
    ]
    baton = hung(speaks_for(ranks(r5=sample("file_baton")))).now
    assert any(e.cause == "stale_lock" and e.alive for e in baton.explanations)


def test_a_lock_held_by_a_thread_that_sleeps_is_a_deadlock_of_the_interpreter() -> None:
    assert hung(speaks_for(ranks(r5=replace(REDUCE, owns_gil=True, active=False)))).now.cause == "gil_deadlock"


def test_stacks_that_only_wait_leave_the_cause_as_it_is() -> None:
    now = hung(speaks_for(ranks())).now
    assert (now.id, now.cause) == ("hung", "rank_wait") and now.odd == ()


def test_a_stack_that_moves_takes_hung_back_for_a_while() -> None:
    before = [replace(p, taken_wall=10.0) for p in ranks(r5=LOCK)]
    moved = speaks_for([replace(p, taken_wall=13.0) for p in ranks(r5=main(("refill", "cache.py", 31)))], before=before)
    watch = hung(moved)
    assert watch.now.id == "suspect" and watch.now.reasons[0].startswith("the stacks move: Rank 5 stands in refill")
    watch.run(200)
    assert watch.now.id == "hung", "a loop that polls moves for ever"


def test_stacks_taken_before_something_moved_say_nothing_any_more() -> None:
    watch = hung(speaks_for(ranks(r5=LOCK)))
    watch.sim.lines = ["[2026-02-22 11:43:45 TP0] Capture cuda graph begin. This can take"]
    watch.sim.doing = {}
    watch.run(30)
    watch.sim.doing = dict.fromkeys(range(8), ASLEEP)
    watch.run(300)
    assert watch.now.id in ("suspect", "hung") and not any("stacks: " in r for r in watch.now.reasons)


@pytest.mark.parametrize("value", [{}, {"causes": 3, "odd": [4, {}], "text": None}, {"causes": ["kernel_build", "x"]}])
def test_a_fact_that_is_not_as_expected_changes_nothing(value: dict[str, Any]) -> None:
    now = hung(value).now
    assert (now.id, now.cause) == ("hung", "rank_wait") and now.odd == ()


def test_stacks_of_another_launch_are_not_this_ones() -> None:
    now = hung(speaks_for(ranks(r5=LOCK)).as_fact("another")).now
    assert now.cause == "rank_wait" and now.odd == ()
