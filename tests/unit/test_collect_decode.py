"""Frames become samples: right values as they are, wrong ones unknown, hostile text clean, and never an exception."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.collect import decode
from tui.collect.decode import Hello
from tui.collect.logbook import MOST_LOGS, LogBook
from tui.model import ChildGroup, Gpu, GpuProcess, Identity, LogLine, Proc, Sample

HELLO = Hello(boot_id="boot", simulated=True)


def sample(**frame: Any) -> Sample:
    return decode.sample({"type": "tick", "mono": 10.0, "wall": 1e9, **frame}, "host1", HELLO, 5.0, ())


def test_a_full_frame():
    got = sample(
        gpus=[
            {"index": 0, "uuid": "GPU-1", "util_pct": 100, "power_w": 70.5, "processes": [[17, None], [18, 1024]]},
            {"index": 1, "error": "GPU is lost", "throttle": ["hw_thermal"], "xids": [79], "processes": None},
        ],
        procs=[
            {"pid": 17, "start_ticks": 5, "cpu_s": 1.5, "children": [["ninja", 2, 0.5]], "sig_caught": (1 << 64) - 1}
        ],
        new=[{"pid": 17, "start_ticks": 5, "cmdline": ["python", "x.py"], "env": {"RANK": "3"}, "listens": [30000]}],
        gone=[[4, 5]],
        net={"rx_bytes": 1, "tx_bytes": 2},
        load1=0.5,
        self={"cpu_s": 0.1, "rss_mib": 12.5},
        notes=["no"],
    )
    assert got == Sample(
        host="host1",
        t=5.0,
        mono=10.0,
        wall=1e9,
        boot_id="boot",
        simulated=True,
        gpus=(
            Gpu(0, "GPU-1", util_pct=100.0, power_w=70.5, processes=(GpuProcess(17), GpuProcess(18, 1024.0))),
            Gpu(1, error="GPU is lost", throttle=("hw_thermal",), xids=(79,)),
        ),
        procs=(Proc(17, 5, cpu_s=1.5, children=(ChildGroup("ninja", 2, 0.5),), sig_caught=(1 << 64) - 1),),
        new=(Identity(17, 5, cmdline=("python", "x.py"), env={"RANK": "3"}, listens=(30000,)),),
        gone=((4, 5),),
        net_rx_bytes=1.0,
        net_tx_bytes=2.0,
        load1=0.5,
        agent_cpu_s=0.1,
        agent_rss_mib=12.5,
        notes=("no",),
    )


def test_missing_is_unknown_and_never_zero():
    got = sample(gpus=[{"index": 0}], procs=[{"pid": 1, "start_ticks": 2}])
    assert got.gpus == (Gpu(0),)
    assert got.procs == (Proc(1, 2),)
    assert (got.load1, got.net_rx_bytes, got.agent_cpu_s) == (None, None, None)


def test_wrong_values_are_unknown_and_entries_without_their_key_are_left_out():
    got = sample(
        gpus=[
            {"index": 0, "util_pct": 2147483632, "power_w": "N/A", "temp_c": True, "mem_used_mib": float("nan")},
            {"uuid": "GPU-2"},
            "?",
        ],
        procs=[{"pid": 1}, {"pid": "1", "start_ticks": 2}, {"pid": 3, "start_ticks": 10**40}, None],
        gone=[[1], ["1", 2], {"pid": 1}, [1, 2, 3], [8, 9]],
        notes=[1, "kept"],
    )
    assert got.gpus == (Gpu(0),)
    assert got.procs == ()
    assert got.gone == ((8, 9),)
    assert got.notes == ("kept",)


def test_no_reading_of_the_gpus_differs_from_no_gpus():
    assert sample(gpus=[]).gpus == ()
    unread = sample(gpus=None, gpu_error="Driver/library version mismatch")
    assert (unread.gpus, unread.gpu_error) == (None, "Driver/library version mismatch")
    assert sample().gpu_error


def test_an_old_reading_of_the_gpus_is_none_of_this_tick():
    assert sample(gpus=[{"index": 0}], gpus_age_s=1.2).gpus == (Gpu(0),)
    old = sample(gpus=[{"index": 0}], gpus_age_s=47.0)
    assert old.gpus is None
    assert old.gpu_error == "NVML last answered 47 s ago."


def test_every_string_is_cleaned():
    bad = "a\x1b]52;c;aGk=\x07b\x1b[2J\u202e\ud800\n"
    got = sample(
        gpu_error=bad,
        gpus=[{"index": 0, "name": bad, "throttle": [bad], "error": bad}],
        procs=[{"pid": 1, "start_ticks": 2, "comm": bad, "wchan": bad, "children": [[bad, 1, None]]}],
        new=[{"pid": 1, "start_ticks": 2, "cmdline": [bad], "env": {bad: bad}, "cwd": bad}],
        notes=[bad],
    )
    assert "\\x1b" not in repr(got)
    assert "\\u202e" not in repr(got)
    assert "\\ud800" not in repr(got)


def test_an_answer_keeps_a_long_document_whole_and_clean():
    got = decode.answer({"type": "answer", "id": 1, "data": "QUJD" * 10_000, "error": "\x1b[31mno\x1b[0m"})
    assert got["data"] == "QUJD" * 10_000
    assert got["error"] == "no"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
KEYS = st.sampled_from(
    ["gpus", "gpu_error", "gpus_age_s", "procs", "new", "gone", "logs", "net", "load1", "self", "notes", "mono", "wall"]
)
INNER = st.sampled_from(
    ["index", "pid", "start_ticks", "processes", "children", "env", "key", "path", "data", "offset"]
)
ENTRIES = JSON | st.lists(st.dictionaries(INNER, JSON | st.integers(0, 9), max_size=6), max_size=3)


@given(st.dictionaries(KEYS, ENTRIES))
def test_no_frame_whatever_raises(frame: dict[str, Any]):
    logs = LogBook().read(frame, 1.0)
    assert isinstance(decode.sample(frame, "h", HELLO, 1.0, logs), Sample)
    assert isinstance(decode.hello(frame), Hello)


# ------------------------------------------------------------------------------------------------------- followed logs


class Log:
    """Plays one file to a log book: what an agent would send of it."""

    def __init__(self) -> None:
        self.book = LogBook()

    def update(self, data: bytes, offset: int, size: int, t: float, **more: Any) -> Any:
        entry = {"key": "k", "path": "/l", "inode": 7, "offset": offset, "size": size, **more}
        (got,) = self.book.read({"logs": [{**entry, "data": base64.b64encode(data).decode()}]}, t)
        return got


def test_what_lay_there_before_has_no_time_and_what_comes_has():
    log = Log()
    first = log.update(b"old\nhal", 0, 7, 100.0)
    then = log.update(b"f\nnew\n", 7, 13, 101.0)
    assert first.lines == (LogLine("old"), LogLine("hal", open=True))
    assert then.lines == (LogLine("half", 101.0), LogLine("new", 101.0))
    assert (first.read_to, then.read_to) == (7, 13)


def test_head_and_tail_of_a_large_file_are_old_and_not_joined_over_the_gap():
    log = Log()
    head = log.update(b"a\nb", 0, 1000, 100.0, skipped_bytes=0)
    tail = log.update(b"y\nz\n", 996, 1000, 101.0, skipped_bytes=993)
    assert [line.text for line in head.lines] == ["a", "b"]
    assert [(line.text, line.t) for line in tail.lines] == [("b", 101.0), ("y", None), ("z", None)]
    assert tail.skipped_bytes == 993


def test_bytes_that_come_twice_after_a_reconnect_count_once():
    log = Log()
    log.update(b"one\ntw", 0, 6, 100.0)
    again = log.update(b"two\nthree\n", 4, 14, 105.0)
    assert [line.text for line in again.lines] == ["two", "three"]
    assert log.update(b"one\ntwo\n", 0, 14, 106.0).lines == ()


@pytest.mark.parametrize(
    ("more", "change"),
    [({"change": "rotated", "inode": 8}, "rotated"), ({"inode": 8}, "rotated"), ({"change": "truncated"}, "truncated")],
)
def test_a_new_file_in_place_of_the_old_begins_anew(more: dict[str, Any], change: str):
    log = Log()
    log.update(b"one\nhalf", 0, 8, 100.0)
    new = log.update(b"first\n", 0, 6, 101.0, **more)
    assert new.change == change
    assert new.lines == (LogLine("half", 101.0), LogLine("first", 101.0))
    assert new.read_to == 6


def test_a_file_that_shrank_while_no_agent_was_there_was_truncated():
    log = Log()
    log.update(b"one\ntwo\n", 0, 8, 100.0)
    assert log.update(b"new\n", 0, 4, 101.0).change == "truncated"


def test_an_error_without_data_is_passed_on():
    log = Log()
    got = log.update(b"", 0, 0, 100.0, error="permission denied")
    assert (got.error, got.lines) == ("permission denied", ())


def test_a_host_cannot_fill_the_memory_with_logs_of_its_own():
    book = LogBook()
    for n in range(0, 3000, 500):
        book.read({"logs": [{"key": str(k), "path": "/l"} for k in range(n, n + 500)]}, 1.0)
    assert len(book._logs) == MOST_LOGS
