"""A host's times on the monitor's timeline are not moved by jitter, reconnects, sleep or drift."""

from __future__ import annotations

import pytest

from tui.collect.clock import SPAN_S, Timeline, WallOffset


def test_late_frames_are_put_where_they_belong():
    line = Timeline()
    assert line.at(1000.0, 50.0) == 50.0
    assert line.at(1001.0, 53.5) == pytest.approx(51.0)  # 2.5 s late
    assert line.at(1002.0, 53.5) == pytest.approx(52.0)
    assert line.at(1003.0, 53.0) == pytest.approx(53.0)


def test_a_first_frame_that_was_late_does_not_stretch_what_follows():
    line = Timeline()
    times = [line.at(1000.0, 52.0), line.at(1001.0, 51.1), line.at(1002.0, 52.1)]
    assert times == [52.0, 52.0, pytest.approx(52.1)]


def test_the_monitors_sleep_makes_no_gap():
    """Asleep for an hour the monitor's clock stood still while the host's went on."""
    line = Timeline()
    line.at(1000.0, 50.0)
    assert line.at(4601.0, 51.0) == pytest.approx(51.0)


def test_a_paused_host_and_drifting_clocks_are_followed_within_two_spans():
    line = Timeline()
    line.at(0.0, 0.0)
    received = 0.0
    for second in range(1, int(2 * SPAN_S) + 2):
        received = second + 10.0  # the host's clock stood still for 10 s
        t = line.at(float(second), received)
    assert t == pytest.approx(received)


def test_time_never_runs_backwards():
    line = Timeline()
    times = [line.at(mono, mono / 2 + 100) for mono in range(200)]
    assert times == sorted(times)


def test_the_wall_offset_is_taken_from_the_quickest_round_trip():
    wall = WallOffset()
    assert wall.seconds is None and wall.uncertain_s is None
    wall.add(100.0, 2.0, 105.0)
    assert wall.uncertain_s == pytest.approx(1.0), "half the way there and back"
    wall.add(110.0, 0.02, 115.01)
    wall.add(120.0, 1.0, 129.0)
    assert wall.seconds == pytest.approx(5.0)
    assert wall.uncertain_s == pytest.approx(0.01), "of the quickest trip, which gives the offset"
