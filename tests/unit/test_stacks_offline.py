"""Files that someone sent: each kind is recognised by what is in it, and one alone is enough to name the rank."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bench import stacks as bench
from tui.errors import UsageError
from tui.headless.dump_files import read_files
from tui.headless.dump_output import as_json
from tui.model import MergedStacks, ProcessStacks
from tui.stacks.merge import merge
from tui.stacks.offline import Reading, rank_of, read

SAMPLES = Path(__file__).parent.parent / "samples"
TORCH = SAMPLES / "torch213"
"""Real dumps of ``train.py.txt`` there: ``lock``, ``skip``, and ``groups`` (``lock`` with two more process groups)."""
KINDS = {
    "py-spy JSON": "rank{}.pyspy.json",
    "py-spy text": "rank{}.pyspy.txt",
    "faulthandler": "rank{}.stderr.log",
    "flight recorder": "comm_lib_trace_rank_{}",
    "flight recorder as JSON": "comm_lib_trace_rank_{}.json",
}


def sent(*paths: Path, **texts: str) -> Reading:
    files = [(str(p), p.read_bytes()) for p in paths] + [(name, text.encode()) for name, text in texts.items()]
    return read(files)


def merged(reading: Reading) -> MergedStacks:
    return merge(reading.processes, reading.called, reading.before)


def gloo8(kind: str, ranks: int = 8) -> dict[str, str]:
    return {f"incident/rank{r}.{kind}": (SAMPLES / "gloo8" / f"rank{r}.{kind}").read_text() for r in range(ranks)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", ["lock", "skip"])
def test_rank_5_is_named_with_the_reason_from_each_source_alone(case: str, kind: str) -> None:
    """A real job of torch 2.13 under torchrun: rank 5 stuck in a lock; rank 5 left out a barrier."""
    found = merged(sent(*(TORCH / case / KINDS[kind].format(r) for r in range(8))))
    assert found.odd_ranks == (5,), found.why
    if case == "lock":
        assert "refill (train.py:15)" in found.why or "has not called collective 9" in found.why
    else:
        assert "left out" in found.why and "all_reduce" in found.why and "barrier" in found.why


def test_a_whole_folder_with_everything_in_it() -> None:
    reading = read_files([TORCH / "lock"])
    assert [p.rank for p in reading.processes] == [*range(8)]
    found = merged(reading)
    assert found.odd_ranks == (5,)
    assert found.why.startswith("Rank 5 stands in refill (train.py:15); the other 7 wait in all_reduce.")
    assert "The flight recorder agrees: rank 5 has not called collective 9 of default_pg" in found.why
    assert found.odd[0].pid is not None


def test_a_rank_whose_record_is_not_there_is_unknown_and_never_blamed() -> None:
    found = merged(sent(*(TORCH / "lock" / f"comm_lib_trace_rank_{r}" for r in range(8) if r != 5)))
    assert found.odd == () and "of rank 5 there is no record" in found.why


def test_files_of_one_job_whose_shared_log_names_nobody() -> None:
    """Eight py-spy files, and one log into which all eight dumped: the thread ids say whose each dump is."""
    files = gloo8("pyspy.json", 7)
    files["incident/job.log"] = "".join(gloo8("stderr.log").values())
    files["incident/notes.txt"] = "we looked at it at noon..."
    reading = sent(**files)
    assert [p.rank for p in reading.processes] == [*range(7), None]
    assert reading.unread.keys() == {"incident/notes.txt"}
    assert merged(reading).odd_ranks == (5,)


def test_ranks_whose_files_hold_no_stack_are_said_to_have_given_none() -> None:
    files = gloo8("pyspy.json")
    files["incident/rank3.pyspy.json"] = "Error: Permission denied"
    reading = sent(**files)
    assert [p.rank for p in reading.processes if p.error] == [3]
    assert merged(reading).why.endswith("Rank 3 gave no stack.")


def test_what_dump_printed_as_json_is_read_back_whole() -> None:
    """Every process, thread and rank that went into ``dump --json``, whatever the file is called."""
    reading = sent(*(TORCH / "lock" / KINDS[k].format(r) for r in range(8) for k in ("py-spy JSON", "flight recorder")))
    failed = ProcessStacks("node2", 77, 8, "py-spy", error="it has ended")
    processes = (*reading.processes, failed)
    printed = json.dumps(as_json(processes, merged(reading), reading.called))
    again = sent(out=printed)
    assert again.processes == processes and not again.unread
    assert again.called == reading.called
    assert merged(again).why.startswith(merged(reading).why)
    alone = {f"rank{p.rank}.json": json.dumps(as_json([replace(p, rank=None)], merge([p]))) for p in reading.processes}
    assert [p.rank for p in sent(**alone).processes] == [*range(8)]


@pytest.mark.parametrize(
    "text", ["{}", "[]", '{"processes": 3}', '{"processes": [{"threads": [{"frames": [7]}], "pid": "x"}]}']
)
def test_other_json_is_no_stack(text: str) -> None:
    assert sent(a=text).unread.keys() == {"a"}


def test_the_rank_is_in_the_name() -> None:
    assert rank_of("dumps/rank5.json") == 5
    assert rank_of("/logs/attempt_0/default_3/RANK_12.stderr") == 12
    assert rank_of("worker-7.log") == 7
    assert rank_of("/home/host3/out.log") is None
    assert rank_of("out.log") is None


def test_what_cannot_be_used_is_said_in_a_sentence_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = (TORCH / "lock" / "comm_lib_trace_rank_0").read_bytes()
    (tmp_path / "comm_lib_trace_rank_0").write_bytes(whole[:900])
    (tmp_path / "comm_lib_trace_rank_1.json").write_text('{"entries": [{"pg_id": 0, ')
    (tmp_path / "comm_lib_trace").write_bytes(whole)
    (tmp_path / "evil_rank_2").write_bytes(b"\x80\x02cos\nsystem\nq\x00U\x04trueq\x01\x85q\x02Rq\x03.")
    (tmp_path / "ras.txt").write_text('{"communicators": [')
    (tmp_path / "rank4.json").write_bytes((TORCH / "lock" / "rank4.pyspy.json").read_bytes())
    reading = read_files([tmp_path])
    said = capsys.readouterr().err
    assert [p.rank for p in reading.processes if p.threads] == [4]
    assert "comm_lib_trace_rank_0: it is cut short, or no pickle" in said
    assert "comm_lib_trace_rank_1.json: it is cut short, or no JSON" in said
    assert "comm_lib_trace: it is a flight recorder's, but its name does not end in the rank" in said
    assert "evil_rank_2: it holds more than data (opcode 0x63); nothing of it was run" in said
    assert "ras.txt: it is cut short, or no JSON" in said
    (tmp_path / "rank4.json").unlink()
    with pytest.raises(UsageError, match="none of these files holds stacks"):
        read_files([tmp_path / "comm_lib_trace"])
    with pytest.raises(UsageError, match="no such file"):
        read_files([tmp_path / "gone"])


# ----------------------------------------------------------------------------------------------- what programs print


def test_the_dumps_of_vllms_watchdog_tell_worker_pid_and_what_moved() -> None:
    """It appends: the later dump counts, the earlier one tells what moved."""
    text = (SAMPLES / "faulthandler" / "3.11.7.usr1_registered.stderr").read_text()
    header = ">>> Call stack dump #{} at 2026-11-29 13:0{}:53.120 due to feed timeout\n"
    both = header.format(1, 6) + text + header.format(2, 7) + text.replace("line 65 in <module>", "line 66 in <module>")
    reading = sent(**{"dumps/VLLM_STACK_DUMP_for_worker_3_4711.log": both})
    (process,) = reading.processes
    assert (process.rank, process.pid, process.method) == (3, 4711, "faulthandler")
    assert process.threads[0].main and process.threads[0].frames[-1].line == 66
    assert reading.before[0].rank == 3 and (process.taken_wall or 0) - (reading.before[0].taken_wall or 0) == 60.0
    assert merged(reading).why.startswith("Rank 3 ")


def test_of_a_log_with_several_dumps_of_one_process_the_last_counts_and_what_moved_is_seen() -> None:
    """``dump_traceback_later(60, repeat=True)``: the safe way to have stacks of a job that is watched by nobody."""
    files = {f"rank{r}.log": (TORCH / "lock" / f"rank{r}.stderr.log").read_text() * 2 for r in range(8)}
    files["rank5.log"] = files["rank5.log"].replace("line 15 in refill", "line 12 in refill", 1)
    reading = sent(**files)
    assert [p.rank for p in reading.processes] == [*range(8)] and len(reading.before) == 8
    found = merged(reading)
    assert found.odd_ranks == (5,) and "stands in refill (train.py:15)" in found.why
    assert found.why.endswith("Its stack changed since an earlier look: it is slow, not hung.")


def test_sglangs_own_dumps_in_its_log_tell_the_rank_by_the_process_title() -> None:
    texts = [(TORCH / "lock" / f"rank{r}.pyspy.txt").read_text() for r in range(8)]
    log = ["[2026-11-29 13:06:53 TP0] Scheduler hit an exception"]
    for rank, text in enumerate(texts):
        body = text.replace("/srv/train/venvs/bin/python -u train.py lock", f"sglang::scheduler_TP{rank}")
        assert f"sglang::scheduler_TP{rank}" in body
        log += [f"[2026-11-29 13:06:53 TP{rank}] Pyspy dump for PID {rank}:", body, "Killed process"]
    found = sent(**{"server.log": "\n".join(log)})
    assert [p.rank for p in found.processes] == [*range(8)]
    assert merged(found).odd_ranks == (5,)


def test_a_log_in_which_torchrun_mixes_the_lines_of_all_ranks() -> None:
    lines = [
        [f"[default{r}]:{line}" for line in (TORCH / "lock" / f"rank{r}.stderr.log").read_text().splitlines()]
        for r in range(8)
    ]
    mixed = [own.pop(0) for _ in range(max(map(len, lines))) for own in lines if own]
    assert merged(sent(**{"job.log": "\n".join(mixed)})).odd_ranks == (5,)
    shown = [
        [f"{r}: {line}" for line in (TORCH / "lock" / f"rank{r}.pyspy.txt").read_text().splitlines()] for r in range(8)
    ]
    mixed = [own.pop(0) for _ in range(max(map(len, shown))) for own in shown if own]
    assert len([p for p in sent(**{"job.log": "\n".join(mixed)}).processes if p.threads[0].frames]) == 8


def test_ray_names_the_process_before_each_line() -> None:
    body = (SAMPLES / "faulthandler" / "ray260.actor.sigabrt.stderr").read_text().splitlines()
    mixed = "\n".join(f"(RayWorker pid={pid}, ip=10.0.0.1) {line}" for line in body for pid in (4711, 4712))
    assert [(p.pid, p.threads[0].main) for p in sent(**{"driver.log": mixed}).processes] == [(4711, True), (4712, True)]


def test_a_process_whose_main_thread_was_cut_off_is_said_to_lack_it() -> None:
    (process,) = sent(SAMPLES / "faulthandler" / "3.11.7.many.stderr").processes
    assert len(process.threads) == 100
    assert process.error is not None and "main thread is not among the 100 threads" in process.error


def test_c10_and_faulthandler_of_one_process_are_one_process_with_its_pid() -> None:
    (both,) = sent(SAMPLES / "faulthandler" / "torch213.c10_then_fh.SIGABRT.stderr").processes
    assert both.method == "faulthandler" and both.pid == 504
    (alone,) = sent(SAMPLES / "faulthandler" / "torch213.c10.SIGABRT.stderr").processes
    assert alone.method == "c10" and alone.pid == 32432 and alone.threads[0].frames[1].function == "clock_nanosleep"
    assert len(alone.threads) == 3


@pytest.mark.parametrize("name", ["rank5.pystack.remote.txt", "rank5.pystack.native.txt"])
def test_pystack_shows_the_same_main_thread(name: str) -> None:
    (process,) = sent(SAMPLES / "debuggers" / name).processes
    main = process.threads[0]
    assert (process.rank, process.pid, main.main, main.os_thread_id) == (5, 4193, True, 4193)
    python = [(f.function, f.line) for f in main.frames if f.file.endswith("train_gloo.py")]
    assert python == [("refill", 26), ("get", 31), ("train_step", 54), ("main", 82), ("<module>", 90)]


def test_gdb_shows_a_lock_in_native_frames() -> None:
    (process,) = sent(SAMPLES / "debuggers" / "gdb.txt").processes
    assert [t.main for t in process.threads] == [True, False]
    assert process.pid == process.threads[0].os_thread_id
    assert "waits for a lock" in merged(sent(SAMPLES / "debuggers" / "gdb.txt")).why


def test_what_many_large_dumps_cost_to_read_and_merge() -> None:
    """128 ranks of 60 threads, from py-spy's JSON on disk to the named rank, against ``json.loads`` of the same bytes
    on the same machine. Measured with 512: 2.1 times, 0.6 s and 13 MB; the promise for merging is 2 s and 300 MB."""
    table = bench.main(128)
    floor = table["floor"][0]
    assert table["sent"][0] < 6 * floor and table["sent"][1] < 100
    assert table["in_memory"][0] < floor


def test_every_sample_of_the_suite_is_recognised() -> None:
    """Those that hold a stack, a record or an answer; what a silent process left holds none."""
    empty = {"3.11.7.int_default.stderr", "3.11.7.pyhandler.stderr", "3.11.7.register_abrt.stderr"}
    for path in sorted(SAMPLES.rglob("*")):
        if path.is_file() and not path.name.endswith(("proc.json", ".py.txt")):
            assert bool(sent(path).unread) == (path.name in empty), path
