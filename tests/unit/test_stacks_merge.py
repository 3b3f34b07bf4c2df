"""All ranks in one picture, and the one that stands elsewhere named by evidence, never by rarity alone."""

from __future__ import annotations

import json
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from tui.model import Frame, MergedStacks, ProcessStacks, ThreadStack
from tui.stacks import faulthandler, pyspy
from tui.stacks.called import Called, Finding, FindingKind
from tui.stacks.merge import merge
from tui.stacks.tree import draw, tree
from tui.stacks.waits import meaning

SAMPLES = Path(__file__).parent.parent / "samples"
C10D = "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
SHM = "/venv/lib/python3.12/site-packages/vllm/distributed/device_communicators/shm_broadcast.py"
CORE = "/venv/lib/python3.12/site-packages/vllm/v1/engine/core.py"


def stack(*frames: tuple[str, str, int], **thread: object) -> ThreadStack:
    """A main thread; frames root first, as people read them."""
    made = tuple(Frame(*f) for f in reversed(frames))
    return replace(ThreadStack(1, "MainThread", made, main=True), **thread)  # type: ignore[arg-type]


def process(rank: int | None, thread: ThreadStack | None, role: str = "rank", pid: int | None = None) -> ProcessStacks:
    number = pid if pid is not None else 1000 + (rank or 0)
    return ProcessStacks("gpu01", number, rank, "py-spy", (thread,) if thread else (), role=role)


def step(*more: tuple[str, str, int], line: int = 58, **thread: object) -> ThreadStack:
    return stack(("<module>", "train.py", 90), ("train_step", "train.py", line), *more, **thread)


REDUCE = step(("all_reduce", C10D, 3252))
BARRIER = step(("barrier", C10D, 4800), line=61)
LOCK = step(("BatchCache.refill", "cache.py", 26), line=54, wchan="futex_do_wait", state="S")


def samples(kind: str) -> list[ProcessStacks]:
    found: list[ProcessStacks] = []
    for rank in range(8):
        text = (SAMPLES / "gloo8" / f"rank{rank}.{kind}").read_text()
        threads = pyspy.from_json(json.loads(text)) if kind.endswith("json") else faulthandler.parse(text)[0].threads
        found.append(ProcessStacks("gpu01", 4188 + rank, rank, kind, threads))
    return found


# ---------------------------------------------------------------------------------------------------- the gold sample


@pytest.mark.parametrize("kind", ["pyspy.json", "stderr.log"])
def test_rank_5_of_a_real_torchrun_job_is_named_from_either_source(kind: str) -> None:
    merged = merge(samples(kind))
    assert merged.odd_ranks == (5,)
    assert [g.ranks for g in merged.groups] == [(5,), (0, 1, 2, 3, 4, 6, 7)]
    assert merged.groups[0].odd and not merged.groups[1].odd
    assert merged.common == ("<module> (train_gloo.py:90)", "main (train_gloo.py:82)")
    assert merged.groups[0].frames[-1].endswith("refill (train_gloo.py:26)")
    assert "refill (train_gloo.py:26)" in merged.why and "the other 7 wait in all_reduce" in merged.why


def test_sources_compare_one_rank_by_py_spy_and_the_rest_by_faulthandler() -> None:
    mixed = [samples("pyspy.json")[0], *samples("stderr.log")[1:]]
    merged = merge(mixed)
    assert [g.ranks for g in merged.groups] == [(5,), (0, 1, 2, 3, 4, 6, 7)]
    assert merged.groups[1].frames[-2] == "_exception_logger.<locals>.wrapper (c10d_logger.py:83)"


def test_the_tree_says_once_what_is_shared_and_begins_with_the_odd_branch() -> None:
    taken = samples("pyspy.json")
    (root,) = tree(merge(taken).groups, taken)
    assert root.title == "8 of 8  ranks 0–7  main (train_gloo.py:82)" and len(root.frames) == 2
    assert [(b.count, b.who) for b in root.children] == [("1 of 8", "rank 5"), ("7 of 8", "ranks 0–4, 6–7")]
    assert root.children[1].at == "all_reduce (distributed_c10d.py:3252)"
    assert root.children[1].does == "waits in all_reduce"
    assert root.children[0].odd
    assert draw((root,))[3].startswith("  1 of 8  rank 5  ") and draw((root,))[3].endswith("  <- stands elsewhere")


def test_ranks_that_are_ending_are_counted_as_without_a_stack() -> None:
    """Two of eight were already in interpreter shutdown when they dumped: they say nothing of the hang."""
    threads = [
        faulthandler.parse((SAMPLES / "gloo8_ending" / f"rank{r}.stderr.log").read_text())[0].threads for r in range(8)
    ]
    merged = merge([ProcessStacks("gpu01", r, r, "faulthandler", t) for r, t in enumerate(threads)])
    assert merged.odd_ranks == (5,)
    assert merged.why.endswith("Ranks 6-7 gave no stack.")


# ------------------------------------------------------------------------------------------------- who is to be named


def test_the_kernel_tells_a_lock_that_no_frame_shows() -> None:
    merged = merge([process(r, LOCK if r == 5 else REDUCE) for r in range(8)])
    assert merged.why == (
        "Rank 5 waits for a lock or condition (futex) in BatchCache.refill (cache.py:26); "
        "the other 7 wait in all_reduce."
    )
    assert merged.odd[0].pid == 1005 and merged.odd[0].role == "rank"


def test_whoever_is_not_in_the_collective_is_named_be_they_the_majority() -> None:
    merged = merge([process(r, REDUCE if r < 2 else LOCK) for r in range(8)])
    assert merged.odd_ranks == (2, 3, 4, 5, 6, 7)
    assert merged.why.startswith("Ranks 2-7 wait for a lock")


def test_of_two_ranks_the_one_outside_the_collective_is_named() -> None:
    assert merge([process(0, REDUCE), process(1, step(("load_batch", "data.py", 7)))]).odd_ranks == (1,)


def test_two_halves_in_two_collectives_convict_nobody() -> None:
    merged = merge([process(r, REDUCE if r < 4 else BARRIER) for r in range(8)])
    assert merged.odd == () and len(merged.groups) == 2
    assert "nobody can be named" in merged.why


def test_two_ranks_in_two_collectives_convict_nobody() -> None:
    assert merge([process(0, REDUCE), process(1, BARRIER)]).odd == ()


def test_pipeline_stages_convict_nobody() -> None:
    """Stage 0 reduces among itself while the later stages wait for its activations: all as it should be."""
    later = step(("recv_forward", "/m/megatron/core/pipeline_parallel/p2p_communication.py", 300))
    assert merge([process(r, REDUCE if r < 2 else later) for r in range(8)]).odd == ()
    assert merge([process(r, REDUCE if r == 0 else later) for r in range(8)]).odd == ()


def test_one_rank_in_another_collective_than_all_others_is_named() -> None:
    """Rank 5 left out a barrier and waits in the next all_reduce: the seven that wait for it are not to blame."""
    merged = merge([process(r, REDUCE if r == 5 else BARRIER) for r in range(8)])
    assert merged.odd_ranks == (5,)
    assert "left out a call or made one too many" in merged.why


def test_rank_0_alone_in_a_barrier_that_the_others_never_enter() -> None:
    """The others wait for requests, as servers do: the culprit is the one inside the collective."""
    idle = stack(("<module>", "serve.py", 1), ("recv_requests", "/s/sglang/srt/managers/scheduler.py", 900))
    assert merge([process(r, BARRIER if r == 0 else idle) for r in range(8)]).odd_ranks == (0,)


def test_rank_0_alone_in_a_barrier_while_the_rest_stand_together_unexplained() -> None:
    """Either they never come or it went in alone: the stacks cannot tell, and that is what is said."""
    merged = merge([process(r, BARRIER if r == 0 else step(("decode", "codec.py", 3))) for r in range(8)])
    assert merged.odd == ()
    assert "either they never come, or it went in alone" in merged.why


def counted(*blamed: int, kind: FindingKind = "uncalled", says: str = "rank 5 has called 29, the others 30") -> Called:
    return Called("the flight recorder", (Finding(kind, "default_pg", blamed, says),), frozenset(range(8)))


def test_among_ranks_that_all_wait_the_one_that_called_fewer_collectives_is_late() -> None:
    stacks = [process(r, REDUCE) for r in range(8)]
    merged = merge(stacks, [counted(5)])
    assert merged.odd_ranks == (5,)
    assert merged.why == "Rank 5 has called 29, the others 30 (the flight recorder)."
    assert merged.odd[0].pid == 1005
    assert [(g.ranks, g.odd) for g in merged.groups] == [((5,), True), ((0, 1, 2, 3, 4, 6, 7), False)]
    (root,) = tree(merged.groups)
    assert [(b.who, b.odd) for b in root.children] == [("rank 5", True), ("ranks 0–4, 6–7", False)]
    assert merge(stacks, [counted(says="all have called 30")]).odd == ()


def test_not_being_in_the_collective_comes_before_what_was_called() -> None:
    stacks = [process(r, LOCK if r == 5 else REDUCE) for r in range(8)]
    merged = merge(stacks, [counted(5)])
    assert merged.odd_ranks == (5,)
    assert merged.why.endswith("The flight recorder agrees: rank 5 has called 29, the others 30.")
    other = merge(stacks, [counted(2, says="rank 2 is late")])
    assert other.odd_ranks == (5,) and other.why.endswith("The flight recorder: rank 2 is late.")


def test_counts_of_collectives_name_a_rank_without_any_stack() -> None:
    merged = merge([], [counted(5)])
    assert merged.odd_ranks == (5,) and merged.groups == ()
    assert merged.odd[0].pid is None and "was not looked at" not in merged.why
    assert merge([process(5, None)], [counted(5)]).odd[0].pid == 1005


def test_collectives_that_go_on_being_called_accuse_nobody() -> None:
    moving = replace(counted(5), moves=True)
    merged = merge([process(r, REDUCE) for r in range(8)], [moving])
    assert merged.odd == () and merged.why.endswith("go on being called: slow, not hung.")


def test_what_was_called_comes_before_the_interpreters_lock() -> None:
    held = step(("all_reduce", C10D, 3252), owns_gil=True, active=False)
    stacks = [process(r, held if r == 2 else REDUCE) for r in range(4)]
    assert merge(stacks, [counted(1, says="rank 1 is late")]).odd_ranks == (1,)
    assert merge([*stacks, process(4, LOCK)]).odd_ranks == (4,), "whoever is outside comes first of all"


def later(processes: list[ProcessStacks], seconds: float, **changed: ThreadStack) -> list[ProcessStacks]:
    return [
        replace(p, taken_wall=seconds, threads=(changed[f"r{p.rank}"],) if f"r{p.rank}" in changed else p.threads)
        for p in processes
    ]


def test_a_stack_that_moves_is_slow_and_one_that_stands_is_said_to() -> None:
    stacks = [process(r, step(("decode", "codec.py", 3)) if r == 5 else REDUCE) for r in range(8)]
    before = later(stacks, 10.0)
    stood = merge(later(stacks, 13.0), before=before)
    assert stood.odd_ranks == (5,) and stood.why.endswith("It was there 3 s before too.")
    moved = merge(later(stacks, 13.0, r5=step(("decode", "codec.py", 4))), before=before)
    assert moved.why.endswith("Its stack changed within 3 s: it is slow, not hung.")
    too_soon = merge(later(stacks, 10.5), before=before)
    assert too_soon.why.endswith("the other 7 wait in all_reduce.")


def test_where_nobody_waits_whoever_stands_still_while_the_others_move_is_named() -> None:
    stacks = [process(r, step(("decode", "codec.py", 3))) for r in range(4)]
    on = {f"r{r}": step(("decode", "codec.py", 5 + r)) for r in range(3)}
    merged = merge(later(stacks, 13.0, **on), before=later(stacks, 10.0))
    assert merged.odd_ranks == (3,)
    assert merged.why.startswith("Rank 3 stands in decode (codec.py:3); the other 3 move on. It was there 3 s before")


def test_all_in_one_frame_is_no_python_culprit() -> None:
    merged = merge([process(r, REDUCE) for r in range(8)])
    assert merged.odd == ()
    assert merged.why == (
        "All 8 wait in all_reduce: no Python code holds them up; look below it, at the GPUs and the network, and for a "
        "rank that is missing."
    )


def test_the_culprit_may_be_the_engine_core_and_no_rank() -> None:
    worker = stack(("<module>", "spawn.py", 1), ("worker_busy_loop", CORE, 700), ("MessageQueue.dequeue", SHM, 560))
    core = stack(
        ("<module>", "spawn.py", 1), ("run_busy_loop", CORE, 400), ("_grammar", CORE, 90), wchan="futex_do_wait"
    )
    merged = merge([*(process(r, worker) for r in range(8)), process(None, core, "engine_core", 77)])
    assert merged.odd_ranks == ()
    assert [(o.pid, o.role) for o in merged.odd] == [(77, "engine_core")]
    assert merged.groups[0].odd and merged.groups[0].ranks == ()
    assert "all 8 wait for the next message in dequeue" in merged.why


def test_an_idle_server_convicts_nobody() -> None:
    worker = stack(("<module>", "spawn.py", 1), ("worker_busy_loop", CORE, 700), ("MessageQueue.dequeue", SHM, 560))
    queue = ("get", "/usr/lib/python3.12/queue.py", 171)
    core = stack(("<module>", "spawn.py", 1), ("run_busy_loop", CORE, 400), ("_process_input_queue", CORE, 90), queue)
    loop = stack(("<module>", "api.py", 1), ("run_forever", "/usr/lib/python3.12/asyncio/base_events.py", 640))
    stacks = [
        *(process(r, worker) for r in range(8)),
        process(None, core, "engine_core", 77),
        process(None, loop, "api", 78),
    ]
    assert merge(stacks).odd == ()


def test_one_busy_worker_among_idle_ones_is_named() -> None:
    worker = stack(("<module>", "spawn.py", 1), ("worker_busy_loop", CORE, 700), ("MessageQueue.dequeue", SHM, 560))
    busy = stack(("<module>", "spawn.py", 1), ("worker_busy_loop", CORE, 710), ("execute_model", CORE, 3), state="R")
    merged = merge([process(r, busy if r == 3 else worker) for r in range(8)])
    assert merged.odd_ranks == (3,)
    assert merged.why.startswith("Rank 3 runs in execute_model (core.py:3)")


def test_holding_the_interpreter_lock_without_running_is_a_deadlock() -> None:
    held = step(("all_reduce", C10D, 3252), owns_gil=True, active=False)
    merged = merge([process(r, held if r == 2 else REDUCE) for r in range(4)])
    assert merged.odd_ranks == (2,)
    assert "holds the interpreter lock and does not run" in merged.why


def test_a_data_loader_child_in_storage_is_named_while_its_rank_waits_with_the_rest() -> None:
    child = stack(("<module>", "train.py", 1), ("__getitem__", "data.py", 5), wchan="folio_wait_bit_common", state="D")
    merged = merge([*(process(r, REDUCE) for r in range(8)), process(None, child, "helper", 500)])
    assert [o.pid for o in merged.odd] == [500]
    assert "waits for storage (folio_wait_bit_common)" in merged.why


def test_the_compiling_rank_is_named_and_what_it_does_is_said() -> None:
    text = (SAMPLES / "hangs" / "cpp_jit_compile.pyspy.txt").read_text()
    building = pyspy.from_text(text)[0].threads[0]
    merged = merge([process(r, building if r == 0 else BARRIER) for r in range(8)])
    assert merged.odd_ranks == (0,)
    assert merged.why.startswith("Rank 0 waits for a compiler in _run_ninja_build; the other 7 wait in barrier")


def test_processes_without_ranks_are_peers_of_each_other() -> None:
    merged = merge([process(None, LOCK if n == 2 else REDUCE, "process", 100 + n) for n in range(3)])
    assert [o.pid for o in merged.odd] == [102] and merged.odd_ranks == ()
    assert merged.why.startswith("Process 102 on gpu01 waits for a lock")


def test_what_was_not_seen_is_said() -> None:
    merged = merge([process(0, REDUCE), process(1, None), process(3, REDUCE)])
    assert merged.odd == ()
    assert merged.why.endswith("Rank 1 gave no stack. Rank 2 was not looked at.")
    assert merge([]).why == "No process gave a stack."
    assert merge([]).groups == ()


# ------------------------------------------------------------------------------------------------------------- grouping


def test_a_poll_caught_at_several_lines_is_one_place_and_another_call_is_another() -> None:
    at = [stack(("<module>", "s.py", 1), ("loop", "s.py", 8), ("acquire_read", SHM, n)) for n in (500, 503, 503)]
    merged = merge([process(r, t) for r, t in enumerate(at)])
    assert [g.frames for g in merged.groups] == [
        ("<module> (s.py:1)", "loop (s.py:8)", "acquire_read (shm_broadcast.py:500,503)")
    ]
    elsewhere = stack(("<module>", "s.py", 1), ("loop", "s.py", 9), ("acquire_read", SHM, 500))
    assert len(merge([process(0, at[0]), process(1, elsewhere)]).groups) == 2


def test_a_stack_that_ends_where_others_go_on_keeps_its_branch() -> None:
    short = stack(("<module>", "train.py", 90), ("train_step", "train.py", 58), wchan="futex_do_wait")
    (root,) = tree(merge([process(0, short), process(1, REDUCE), process(2, REDUCE)]).groups)
    assert [(b.frames, b.ranks, b.odd) for b in root.children] == [
        ((), (0,), True),
        (("all_reduce (distributed_c10d.py:3252)",), (1, 2), False),
    ]


def test_512_ranks_of_60_threads_merge_in_time_and_memory() -> None:
    """The promise is 2 s and 300 MB; what the machine does besides is given room."""
    rest = tuple(replace(ThreadStack(n, f"t{n}", REDUCE.frames * 6)) for n in range(59))
    stacks = [
        replace(process(r, None), host=f"gpu{r // 8:02}", threads=((LOCK if r == 333 else REDUCE), *rest))
        for r in range(512)
    ]
    tracemalloc.start()
    began = time.process_time()
    merged = merge(stacks)
    spent, peak = time.process_time() - began, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert merged.odd_ranks == (333,)
    assert spent < 2 and peak < 50e6


# ------------------------------------------------------------------------------------------------- what a stack means

MEANINGS = {
    "cond_wait_timeout_loop": "queue",
    "cpp_jit_compile": "jit_build",
    "dataloader_worker_stuck": "data_loader",
    "file_baton": "file_baton",
    "filestore_wait": "communicator_init",
    "mp_queue_join_at_exit": "child",
    "socket_recv": "download",
    "tcpstore_master_waits_workers": "communicator_init",
    "zombie_child_killed": "child",
}
KERNEL = {"flock": "file_lock", "tcpstore_get_wait": "events"}
"""Cases whose Python frames show nothing: the kernel tells."""


@pytest.mark.parametrize("case", sorted(MEANINGS | KERNEL | {"busy_python": ""}))
def test_what_real_hangs_mean(case: str) -> None:
    main = pyspy.from_text((SAMPLES / "hangs" / f"{case}.pyspy.txt").read_text())[0].threads[0]
    proc = json.loads((SAMPLES / "hangs" / f"{case}.proc.json").read_text())
    wait = meaning(replace(main, wchan=proc["wchan"] if proc["wchan"] != "0" else None, state=proc["state"]))
    assert (wait.id if wait else "") == (MEANINGS | KERNEL).get(case, "")


def test_native_frames_tell_a_store_wait() -> None:
    main = pyspy.from_text((SAMPLES / "hangs" / "tcpstore_get_wait.pyspy.native.txt").read_text())[0].threads[0]
    wait = meaning(main)
    assert wait is not None and (wait.id, wait.kind) == ("store_wait", "peers")


def test_a_lock_is_named_by_who_waits_for_it_where_the_interpreter_has_its_library_in_itself() -> None:
    """As of Debian, conda and uv: native frames are then those of ``python3.11``, not of ``libpython3.11.so``."""
    for binary in ("python3.11", "/usr/bin/python3.13t", "/opt/conda/bin/python"):
        wait = meaning(
            stack(
                ("share_embeddings", "/app/shards.py", 61),
                ("PyThread_acquire_lock_timed", binary, 0),
                ("__futex_abstimed_wait_common64", "libc.so.6", 0),
            )
        )
        assert wait is not None and wait.says == "waits for a lock in share_embeddings (shards.py:61)"


def test_a_lock_inside_a_server_loop_is_no_waiting_for_requests() -> None:
    """The loop's own function lies outside what it called: only what waits in it directly is idle."""
    busy = stack(
        ("event_loop_normal", "/s/sglang/srt/managers/scheduler.py", 1), ("forward", "/s/sglang/srt/model.py", 2)
    )
    assert meaning(busy) is None


# ------------------------------------------------------------------------------------------------------ whatever comes


def test_why_is_one_true_sentence_in_every_combination() -> None:
    """Whatever stands where, there is a sentence, odd processes are in odd groups, and ranks are never invented."""
    places = [REDUCE, BARRIER, LOCK, step(("decode", "codec.py", 3)), None]
    for a in places:
        for b in places:
            for c in places:
                merged = merge([process(0, a), process(1, b), process(2, c)])
                assert merged.why.endswith(".")
                assert set(merged.odd_ranks) <= {0, 1, 2}
                assert {r for g in merged.groups if g.odd for r in g.ranks} >= set(merged.odd_ranks)


def test_merged_stacks_of_nothing_at_all() -> None:
    assert isinstance(merge([process(0, None)]), MergedStacks)


def test_the_kernels_word_without_a_frame_convicts_only_where_it_is_decisive() -> None:
    """A rank that py-spy could not read sleeps on a futex, as gloo's waiters do; one in storage is held for sure."""
    futex, storage = (replace(REDUCE, frames=(), wchan=wchan) for wchan in ("futex_do_wait", "nfs_wait_bit_killable"))
    unread = merge([process(r, futex if r == 3 else REDUCE) for r in range(4)])
    assert unread.odd == () and unread.why.endswith("Rank 3 gave no stack.")
    assert (3,) in [g.ranks for g in unread.groups], "it is shown all the same"
    assert merge([process(r, storage if r == 3 else REDUCE) for r in range(4)]).odd_ranks == (3,)
