"""Bytes to meaning: the same whatever the reads, never an error, this run and not the last, late as well as live."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.log_cases import LogCase, load_cases
from tui import toml
from tui.collect.logtext import LogSplitter
from tui.collect.replay import Replay
from tui.diagnose.reader import LogReader
from tui.history import History
from tui.model import LogLine, LogUpdate, Sample

SCENARIOS = Path(__file__).parent.parent / "scenarios"
CASES = {case.name: case for case in load_cases()}
ROWS = sorted({row.data for case in CASES.values() for row in case.rows})
JUNK = [
    b"\r",
    b"\n",
    b"noise 17 of 33\n",
    b"\x1b[1m",
    b"\0",
    "é█".encode(),
    b"\xff\n",
    b'  File "x.py", line 3, in f\n',
]


def lines_of(*texts: str, t: float | None = None) -> list[LogLine]:
    return [LogLine(text, t) for text in texts]


def told(reader: LogReader) -> dict[str, Any]:
    """All that a log has said, in plain values."""
    run = reader.run
    return {
        "spans": list(run.spans),
        "phase": run.phase,
        "attempt": run.attempt,
        "ranks": {rank: (phase, t) for rank, (phase, t, _) in run.ranks.items()},
        "counter": run.counter and (run.counter.done, run.counter.total, run.counter.unit),
        "fatal": [(line.marker.name, line.rank, line.text) for line in run.fatal],
        "tracebacks": [(trace.text, trace.rank) for trace in run.tracebacks],
        "state": (run.ready, run.ready_t, run.over, run.framework, run.waits_for_baton, run.deduplicated),
        "when": (run.progress_t, reader.news_t, reader.heard),
    }


def read_in(pieces: list[bytes]) -> LogReader:
    splitter, reader = LogSplitter(), LogReader()
    for piece in pieces:
        reader.read(splitter.feed(piece, 5.0), 5.0)
    return reader


@settings(max_examples=150)
@given(
    st.lists(st.sampled_from(ROWS) | st.sampled_from(JUNK), max_size=25), st.lists(st.integers(0, 1 << 20), max_size=12)
)
def test_any_cut_of_the_bytes_means_the_same(rows: list[bytes], cuts: list[int]) -> None:
    """Lines of all frameworks in any order, redraws, JSON, parts and tracebacks: wherever the reads end."""
    data = b"".join(rows)
    at = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    assert told(read_in([data[a:b] for a, b in pairwise(at)])) == told(read_in([data]))


@pytest.mark.parametrize("name", CASES)
def test_a_log_read_byte_by_byte_means_the_same(name: str) -> None:
    data = CASES[name].data
    assert told(read_in([data[i : i + 1] for i in range(len(data))])) == told(read_in([data]))


TEXTS = st.text(max_size=60) | st.sampled_from(
    [
        "Traceback (most recent call last):",
        '{"log": 3}',
        '{"message": "a\\nb"}',
        "{" * 3000,
        "99%| 1/" + "9" * 3000,
        "3: ",
        "[1,9]<stdout>:",
    ]
    + [
        "comm 0x1 rank 99999999999999999999 nranks 7 - Init START NCCL INFO",
        "9" * 4000,
        "0001-01-01 00:00:00",
        "2026-99-99 99:99:99",
    ]
    + ['{"fields":' * 300 + "{}" + "}" * 300, "Fatal Python error: Aborted", "5% (1/0)", "0%| 0/0 [00:00<?, ?it/s]"]
    + [row.decode("utf-8", "replace").strip() for row in ROWS[::7]]
)


@settings(max_examples=200)
@given(
    st.lists(st.builds(LogLine, TEXTS, st.none() | st.floats(0, 1e9), st.booleans(), st.booleans()), max_size=20),
    st.none() | st.floats(0, 1e9),
)
def test_no_input_raises(lines: list[LogLine], lay_until: float | None) -> None:
    reader = LogReader()
    reader.read(lines, lay_until)
    for run in (reader.run, reader.run_since(5.0)):
        assert run.phase and (run.counter is None or run.counter.progress())


@given(st.binary(max_size=400))
def test_arbitrary_bytes_never_raise(data: bytes) -> None:
    read_in([data[:200], data[200:]])


# ------------------------------------------------------------------------------------------- this run, not the last

OLD = CASES["sglang/0.5.9-eagle-healthy"]
NEW = CASES["sglang/0.5.9-stuck-one-rank-loads"]


def at(case: LogCase, hour: int) -> bytes:
    return case.data.replace(b"2026-02-22 11:", f"2026-02-22 {hour}:".encode())


def test_two_runs_in_one_file_are_told_apart_by_the_banner() -> None:
    reader = LogReader()
    reader.read(LogSplitter().feed(at(OLD, 10) + at(NEW, 13)), 1000.0)
    run = reader.run
    assert (run.phase, run.ready, run.spans[0][0]) == ("post_load", False, "spawn")
    assert run.attempt == 1, "the run of three hours ago was another launch"
    assert reader.run_since(500.0) is run and reader.attempt_since(500.0) == 1


def test_without_a_banner_the_start_of_the_processes_tells_them_apart() -> None:
    """Only what was written after the launch's processes started counts, by the lines' own stamps."""
    old = [f"2026-05-13 09:{m:02}:00 - lmdeploy - INFO - x.py:1 - Building Model." for m in range(3)]
    old += ["2026-05-13 09:10:00 - lmdeploy - INFO - x.py:1 - Engine warmup completed in 17.10 seconds."]
    new = ["2026-05-13 11:00:10 - lmdeploy - INFO - x.py:1 - Creating processes."]
    reader = LogReader()
    reader.read(lines_of(*old), 8000.0 - 6610.0)
    assert reader.run_since(7980.0).phase == "unknown", "it has not written anything yet"
    reader.read(lines_of(*new, t=8000.0), None)
    assert (reader.run_since(7980.0).phase, reader.run_since(7980.0).spans[0]) == ("spawn", ("spawn", 8000.0))
    reader.read(lines_of("2026-05-13 11:00:30 - lmdeploy - INFO - x.py:1 - Building Model.", t=8020.0), None)
    assert [phase for phase, _ in reader.run_since(7980.0).spans] == ["spawn", "weight_load"]
    assert reader.run_since(7980.0).counter is None and not reader.run_since(7980.0).ready


def test_an_old_fatal_line_does_not_condemn_the_new_run() -> None:
    reader = LogReader()
    died = "[2026-02-22 10:11:00 TP0] Scheduler hit an exception: Traceback (most recent call last):"
    reader.read([*lines_of(died), *LogSplitter().feed(at(NEW, 13))], 1000.0)
    assert not reader.run.fatal and reader.run.phase == "post_load"


def test_three_attempts_are_counted_from_the_launchs_own_start() -> None:
    """A crash loop in one file, after a run of yesterday: attempt 3, not 4."""
    failed = b"[2026-02-22 11:43:40 TP1] Scheduler hit an exception: Traceback (most recent call last):\n"
    yesterday = OLD.data.replace(b"2026-02-22", b"2026-02-21")
    once = b"".join(row.data for row in NEW.rows[:9])
    later = [once.replace(b"11:42", f"11:{m}".encode()) for m in (44, 46)]
    splitter, reader = LogSplitter(), LogReader()
    reader.read(
        splitter.feed(yesterday + once + failed + later[0] + failed.replace(b"43:40", b"45:40") + later[1]), 900.0
    )
    assert (reader.run.phase, reader.run.fatal) == ("weight_load", [])
    assert reader.attempt_since(900.0 - 400.0) == 3
    assert reader.run.attempt == 3, "also where nobody knows when it started: yesterday's is too long ago"


def test_after_a_failure_a_rank_that_begins_again_is_another_attempt() -> None:
    """A launcher without a banner restarts its workers."""
    reader = LogReader()
    begin = "Initializing TorchBackend in DeepSpeed with backend nccl"
    reader.read(lines_of(begin, t=10.0), None)
    reader.read(lines_of("RuntimeError: Rank 5 failed to pass monitoredBarrier in 480000 ms", t=490.0), None)
    reader.read(lines_of(begin, t=500.0), None)
    assert (reader.run.attempt, reader.run.fatal) == (2, [])


def test_two_banners_of_one_start_are_one_attempt() -> None:
    """Several front-ends of one launch print the version, some seconds apart."""
    reader = LogReader()
    for pid, t in ((1, 5.0), (2, 6.0), (3, 14.0)):
        reader.read(
            lines_of(
                f"(APIServer pid={pid}) INFO 05-13 09:00:06 [api_server.py:1839] vLLM API server version 0.19.1", t=t
            ),
            None,
        )
    assert reader.run.attempt == 1


# ------------------------------------------------------------------------------------------------------- roll-calls


@pytest.mark.parametrize("folder", sorted(path for path in SCENARIOS.iterdir() if path.is_dir()), ids=lambda p: p.name)
def test_no_rank_is_called_behind_that_prints_nothing_by_design(folder: Path) -> None:
    """In a recording that went well no rank lacks a line for twenty seconds that others have printed."""
    truth = toml.loads((folder / "truth.toml").read_text())
    history = History()
    for t, samples, launch in Replay(folder).steps():
        for sample in samples:
            history.add(sample)
        logs = [log for ref in launch.logs if (log := history.log(ref.host, ref.path)) is not None]
        for roll, ranks in filter(None, (log.reader.run.behind() for log in logs)):
            late = roll.last_t is not None and t - roll.last_t > 20.0
            assert not late or truth["outcome"] in ("hung", "crashed"), (t, roll.marker.name, ranks)


# ------------------------------------------------------------------------------------------------------ late attach


def test_attached_in_the_middle_of_a_bar() -> None:
    """Phases and durations come from the stamps and the bar's own clock; the silence begins at the last write."""
    head = b"".join(row.data for row in NEW.rows[:9])
    bar = b"\rMulti-thread loading shards:  50% Completed | 32/64 [05:00<05:00,  9.4s/it]"
    bar += b"\rMulti-thread loading shards:  52% Co"
    sample = Sample(
        host="h",
        t=1000.0,
        mono=1000.0,
        wall=5000.0,
        logs=(LogUpdate("log", mtime=4940.0, lines=tuple(LogSplitter().feed(head + bar))),),
    )
    history = History()
    history.add(sample)
    log = history.log("h", "log")
    assert log is not None and log.silent_s(1000.0) == 60.0
    run = log.reader.run
    assert run.phase == "weight_load" and run.counter is not None
    progress = run.counter.progress()
    assert (progress.done, progress.total, progress.unit, progress.eta_s) == (32, 64, "shards", 300.0)
    assert progress.rate == pytest.approx(1 / 9.4)
    assert dict(run.spans)["weight_load"] == pytest.approx(940.0 - 300.0, abs=2.0)
    assert dict(run.spans)["dist_init"] == pytest.approx(940.0 - 305.0, abs=2.0)


def test_head_and_tail_of_a_large_log_are_one_lump() -> None:
    """The head's times are told by the tail's last stamp, not by the file's last write."""

    def update(*texts: str) -> LogUpdate:
        return LogUpdate("log", mtime=5000.0, lines=tuple(lines_of(*texts)), skipped_bytes=7)

    head = update(
        "[2026-02-22 08:00:00] server_args=ServerArgs(tp_size=1)", "[2026-02-22 08:00:30] Init torch distributed begin."
    )
    tail = update("[2026-02-22 11:00:00] Load weight begin. avail mem=138.28 GB")
    history = History()
    history.add(Sample(host="h", t=100.0, mono=100.0, wall=5000.0, logs=(head, tail)))
    log = history.log("h", "log")
    assert log is not None and log.skipped_bytes == 14
    assert list(log.reader.run.spans) == [("spawn", -10700.0), ("dist_init", -10670.0), ("weight_load", 100.0)]


# ------------------------------------------------------------------------------------------------------- heartbeats


def silence_after(lines: list[tuple[float, str]]) -> float:
    reader = LogReader()
    for t, text in lines:
        reader.read(lines_of(text, t=t), None)
    assert reader.spoke_t is not None
    return lines[-1][0] - reader.spoke_t


def test_a_line_on_a_clock_never_seen_before_is_silence() -> None:
    """Same text up to its figures, at a steady period with some jitter, one beat missed."""
    beats = [(t, f"sidecar alive, {t} s, pid 77") for t in (10, 20.4, 29.8, 40, 50.1, 70, 80)]
    assert silence_after([(0.0, "something"), *beats]) == pytest.approx(80 - 20.4)


def test_gaps_that_double_are_a_clock_too() -> None:
    assert silence_after([(t, f"still waiting for {t} s") for t in (10, 30, 70, 150, 310)]) == 280.0


def test_ranks_that_beat_in_turn_beat_each_on_its_own_clock() -> None:
    """Eight ranks, each every 60 s, spread over the minute: no gap between two lines is the same."""
    offsets = (0, 7, 9, 20, 31, 33, 44, 58)
    beats = sorted(
        (60.0 * n + o, f"[2026-01-01 00:00:00 TP{r}] monitor: queue empty")
        for n in range(6)
        for r, o in enumerate(offsets)
    )
    assert silence_after(beats) >= 180.0


def test_all_ranks_at_once_are_one_beat() -> None:
    beats = [(60.0 * n + r * 0.01, "monitor: queue empty") for n in range(6) for r in range(8)]
    assert silence_after(beats) >= 180.0


def test_irregular_lines_speak() -> None:
    assert silence_after([(t, f"request {t} done") for t in (0, 11, 17, 60, 72, 140)]) == 0.0


# -------------------------------------------------------------------------------------------------------- tracebacks


def test_tracebacks_of_interleaved_ranks_are_one_event_each_and_their_source_is_no_message() -> None:
    reader = LogReader()
    for rank in (0, 1):
        reader.read(lines_of(f"[rank{rank}]: Traceback (most recent call last):", t=1.0), None)
    for line in (
        '  File "/app/t.py", line 7, in load',
        "    log('Load weight end. avail mem=')",
        "ValueError: bad shape",
    ):
        reader.read(lines_of(f"[rank1]: {line}", f"[rank0]: {line}", t=1.0), None)
    assert [(t.rank, t.text) for t in reader.run.tracebacks] == [
        (1, "ValueError: bad shape (load t.py:7)"),
        (0, "ValueError: bad shape (load t.py:7)"),
    ]
    assert reader.run.phase == "unknown"


def test_a_traceback_begun_by_a_stamped_line_goes_on_without_stamps_while_others_write() -> None:
    reader = LogReader()
    reader.read(
        lines_of(
            "[2026-02-22 11:43:00 TP1] Scheduler hit an exception: Traceback (most recent call last):",
            '  File "/app/scheduler.py", line 3, in run',
            "[2026-02-22 11:43:00 TP0] Load weight begin. avail mem=138.28 GB",
            "    raise RuntimeError('CUDA out of memory')",
            "RuntimeError: Rank 5 failed to pass monitoredBarrier in 480000 ms",
            t=9.0,
        ),
        None,
    )
    assert [line.marker.cause for line in reader.run.fatal] == ["exception", "collective_timeout"]
    assert reader.run.tracebacks[0].rank == 1 and reader.run.phase == "weight_load"


def test_a_faulthandler_dump_is_one_event() -> None:
    reader = LogReader()
    dump = [
        "Fatal Python error: Aborted",
        "",
        "Current thread 0x00007f2d (most recent call first):",
        '  File "/a.py", line 3 in f',
    ]
    reader.read(lines_of(*dump, "Extension modules: numpy, torch (total: 99)", t=3.0), None)
    assert [line.marker.id for line in reader.run.fatal] == ["fatal.python"]


# ------------------------------------------------------------------------------------------------------------- JSON


@pytest.mark.parametrize(
    "row",
    [
        {"message": "Load weight begin. avail mem=1 GB", "levelname": "INFO"},
        {"event": "Load weight begin. avail mem=1 GB", "timestamp": "2026-01-01T00:00:00Z"},
        {"fields": {"message": "Load weight begin. avail mem=1 GB"}, "span": {"rank": 3}},
        {"MESSAGE": "Load weight begin. avail mem=1 GB", "__REALTIME_TIMESTAMP": "1767225600000000", "_PID": "7"},
        {"log": "Load weight begin. avail mem=1 GB\n", "stream": "stderr", "time": "2026-01-01T00:00:00Z"},
        {"msg": "first\nLoad weight begin. avail mem=1 GB\nlast"},
    ],
)
def test_json_logs_are_read_by_their_message(row: dict[str, Any]) -> None:
    reader = LogReader()
    reader.read(lines_of(json.dumps(row), t=1.0), None)
    assert reader.run.phase == "weight_load"


def test_what_json_kept_escaped_is_cleaned_when_it_is_opened() -> None:
    reader = LogReader()
    row = {"message": "\x1b]52;c;aGk=\x07CUDA out of memory. \u202eTried"}
    reader.read(lines_of(json.dumps(row), t=1.0), None)
    assert reader.run.fatal[0].text == "CUDA out of memory. \ufffdTried"
