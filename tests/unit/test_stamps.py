"""Stamps of every kind are differences of seconds; several kinds in one log lie on one clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.diagnose.stamps import BarClock, Stamps, spread_back, stamp


@pytest.mark.parametrize(
    ("first", "second", "seconds"),
    [
        ("[2026-02-22 11:42:09 TP0] a", "[2026-02-22 11:43:10 TP1] b", 61.0),
        ("2026-05-13T23:59:59.5Z INFO a", "2026-05-14T00:00:01.25Z INFO b", 1.75),
        ("2026-05-13 09:00:05,200 - lmdeploy - INFO", "2026-05-13 09:00:06,100 - lmdeploy - INFO", 0.9),
        ("[11/03/2026-08:12:22] [TRT-LLM] a", "[11/04/2026-08:12:22] [TRT-LLM] b", 86400.0),
        ("(Worker_TP0 pid=7) INFO 02-28 02:18:48 [x.py:1] a", "INFO 03-01 02:18:48 [x.py:1] b", 2 * 86400.0),
        ("I0513 09:00:03.123456 1 x.cc:277] a", "E0513 09:00:04.000000 1 x.cc:277] b", 0.876544),
        ("[rank0]:[W1021 09:14:20.123456789 P.cpp:1]", "[rank0]:[W1021 09:14:21.123456789 P.cpp:1]", 1.0),
        ("Nov 29 17:00:01 n1 kernel: a", "Nov  9 17:00:01 n1 kernel: b", -20 * 86400.0),
        ("[12345.678901] NVRM: Xid a", "[12346.678901] NVRM: Xid b", 1.0),
        ("0.00.100.012 I a", "1.02.100.012 I b", 62.0),
        ("1767225600.25 a", "1767225601.75 b", 1.5),
        ("1767225600000000", "1767225600500000", 0.5),
        ("[09:00:01] a", "[09:00:03] b", 2.0),
    ],
)
def test_every_kind_of_stamp(first: str, second: str, seconds: float) -> None:
    a, b = stamp(first), stamp(second)
    assert a is not None and b is not None and b - a == pytest.approx(seconds, abs=1e-5)


@pytest.mark.parametrize("text", ["", "no stamp here", "2026-13-45 99:99:99", "12:34 shards", "[rank3]: x", "10.0.0.1"])
def test_what_is_no_stamp_is_none(text: str) -> None:
    assert stamp(text) is None


def read(*texts: str) -> list[float | None]:
    stamps = Stamps()
    return [stamps.read(text) for text in texts]


def test_a_stamp_without_a_year_joins_the_clock_of_those_with_one() -> None:
    times = read("INFO 11-05 01:21:20 [x.py:1] a", "2026-11-05 01:21:24,000 b", "INFO 11-05 01:21:30 [x.py:1] c")
    assert times[0] is not None and times[2] is not None and times[2] - times[0] == 10.0
    assert times[1] is not None and 0.0 <= times[1] - times[0] <= 10.0


def test_another_time_zone_joins_the_clock() -> None:
    """A library that stamps in UTC in a log that is stamped in local time."""
    a, b, c = read("[2026-02-22 11:42:09] a", "2026-02-22T10:42:11Z b", "[2026-02-22 11:42:15] c")
    assert (b or 0) - (a or 0) == 2.0 and (c or 0) - (a or 0) == 6.0


def test_another_time_zone_joins_the_clock_after_a_silence() -> None:
    """Forty seconds lie between the lines of two loggers, one of which stamps in UTC."""
    a, b = read("[2026-02-22 11:42:09] a", "2026-02-22T10:42:49Z b")
    assert (b or 0) - (a or 0) == 40.0


def test_the_time_of_day_goes_on_over_midnight() -> None:
    a, b = read("[23:59:58] a", "[00:00:03] b")
    assert (b or 0) - (a or 0) == 5.0


def test_lines_end_at_the_files_last_write_and_an_earlier_clock_before_them() -> None:
    assert spread_back([100.0, None, 130.0], 1000.0) == [970.0, 970.0, 1000.0]
    assert spread_back([None, None], 7.0) == [7.0, 7.0]
    assert spread_back([None, 5.0], 7.0) == [None, 7.0]
    assert spread_back([5000.0, 5010.0, 20.0, 30.0], 100.0) == [80.0, 90.0, 90.0, 100.0], "a run by another clock"


def test_bars_tell_the_time_between_two_stamps() -> None:
    bars = BarClock()
    assert bars.drawn(3.0) is None
    bars.stamped(100.0)
    assert [bars.drawn(s) for s in (0.0, 30.0, 30.0, 2.0, 4.0)] == [100.0, 130.0, 130.0, 132.0, 134.0]


@given(st.lists(st.none() | st.floats(0, 1e9), max_size=30), st.floats(0, 1e9))
def test_times_never_run_ahead_of_the_last_write(stamps: list[float | None], until: float) -> None:
    times = spread_back(stamps, until)
    assert len(times) == len(stamps) and all(t is None or t <= until for t in times)
