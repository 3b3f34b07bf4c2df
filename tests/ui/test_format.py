"""Numbers read as people read them, and what is not known is never a zero."""

from __future__ import annotations

import pytest

from tui.ui import format as fmt


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "–"),
        (-3, "0s"),
        (0.9, "0s"),
        (59.99, "59s"),
        (64, "1m 04s"),
        (3599, "59m 59s"),
        (3600, "1h 00m"),
        (7380, "2h 03m"),
        (86400 * 3 + 4 * 3600 + 59, "3d 04h"),
    ],
)
def test_durations_have_two_units_and_are_never_rounded_up(seconds: float | None, words: str) -> None:
    assert fmt.duration(seconds) == words


def test_an_unknown_value_is_a_dash_everywhere() -> None:
    for make in (fmt.clock, fmt.number, fmt.count, fmt.percent, fmt.watts, fmt.gib, fmt.rate, fmt.size):
        assert make(None) == "–"
    assert fmt.memory(None, 100) == "–"


@pytest.mark.parametrize(
    ("mib", "words"), [(0, "0.0"), (563, "0.55"), (76_012, "74.2"), (143_771, "140"), (102_350, "100")]
)
def test_gib_keeps_three_digits(mib: float, words: str) -> None:
    assert fmt.gib(mib) == words


def test_a_memory_total_of_zero_is_left_out() -> None:
    """Some drivers report a total of zero, which must neither be shown nor divided by."""
    assert fmt.memory(1024, 0) == "1.00 GiB"
    assert fmt.memory(76_012, 143_771) == "74.2/140 GiB"


@pytest.mark.parametrize(("mib_s", "words"), [(0, "0"), (0.44, "0.4M"), (12.2, "12M"), (3174.4, "3.1G")])
def test_rates_stay_short(mib_s: float, words: str) -> None:
    assert fmt.rate(mib_s) == words


def test_ranks_are_drawn_together_in_runs() -> None:
    assert fmt.ranks((7, 0, 1, 2, 3, 4)) == "0–4, 7"
    assert fmt.ranks((0, 1)) == "0, 1"
    assert fmt.rank_words((5,)) == "rank 5"
    assert fmt.rank_words((5, 6, 7)) == "ranks 5–7"


def test_sizes_and_counts() -> None:
    assert fmt.size(812) == "812 B"
    assert fmt.size(10_013) == "9.8 KiB"
    assert fmt.size(3 * 1024**3) == "3.0 GiB"
    assert fmt.count(12_345.0) == "12,345"
    assert fmt.count(0.5) == "0.5"
    assert fmt.plural(1, "host") == "1 host"
    assert fmt.plural(4, "host") == "4 hosts"


def test_one_is_not_several_and_thousands_are_set_apart() -> None:
    assert [fmt.plural(n, "line") for n in (0, 1, 2, 1200)] == ["0 lines", "1 line", "2 lines", "1,200 lines"]
