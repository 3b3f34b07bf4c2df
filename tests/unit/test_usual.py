"""What is usual by a few past launches: one range or two, without outliers, in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.headless.snapshot import as_json
from tui.headless.snapshot_text import write
from tui.model import Launch, LaunchView, PhaseSpan, Snapshot, Usual, Verdict
from tui.record.usual import Took, span, usual, words


def took(*seconds: float) -> list[Took]:
    return [Took(s, 0.0) for s in seconds]


def test_nothing_is_usual_by_nothing_and_one_launch_is_the_last_time() -> None:
    assert usual([]) == ()
    (once,) = usual(took(41.2))
    assert words(once) == "41 s last time"


def test_of_a_few_launches_all_count() -> None:
    (known,) = usual(took(51.3, 38.4, 44.0))
    assert (known.low_s, known.high_s, known.launches, known.start) == (38.4, 51.3, 3, "")
    assert words(known) == "usually 38–52 s (3 launches)"


def test_of_many_the_outer_tenths_are_left_out() -> None:
    """One start on a bad day does not make the usual time."""
    (known,) = usual(took(*(40.0 + n for n in range(19)), 900.0))
    assert (known.low_s, known.high_s, known.launches) == (42.0, 57.0, 20)
    (known,) = usual(took(40, 41, 42, 43, 300))
    assert (known.low_s, known.high_s) == (41.0, 43.0), "of five, the fastest and the slowest"


def test_first_starts_compile_and_later_ones_read_the_cache() -> None:
    warm, cold = usual(took(330, 40, 44, 41, 250, 38, 52, 45, 43))
    assert (warm.start, warm.launches, warm.high_s <= 52) == ("warm", 7, True)
    assert (cold.start, cold.launches, cold.low_s, cold.high_s) == ("cold", 2, 250.0, 330.0)
    assert words(warm) == "usually 40–45 s (7 launches)"
    assert words(cold) == "cold starts took 4–6 min (2)"


@pytest.mark.parametrize(
    "seconds",
    [
        (40, 42, 300),  # one slow start alone is no kind of start
        (40, 300),
        (40, 41, 60, 80, 81),  # less than twice as long
        (0.2, 0.2, 0.9, 0.9),  # below a second, a ratio means nothing
    ],
)
def test_two_kinds_of_starts_need_two_launches_each_and_a_clear_gap(seconds: tuple[float, ...]) -> None:
    assert [known.start for known in usual(took(*seconds))] == [""]


@given(st.lists(st.floats(min_value=0, max_value=1e6), min_size=1, max_size=60))
def test_every_launch_counts_once_and_ranges_do_not_overlap(seconds: list[float]) -> None:
    known = usual(took(*seconds))
    assert sum(k.launches for k in known) == len(seconds)
    assert all(k.low_s <= k.high_s for k in known)
    assert len(known) == 1 or known[0].high_s < known[1].low_s
    assert {k.start for k in known} in ({""}, {"warm", "cold"})


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (38.4, 51.3, "38–52 s"),
        (112.0, 118.9, "112–119 s"),
        (250.0, 330.0, "4–6 min"),
        (40.0, 400.0, "40 s to 7 min"),
        (240.0, 240.0, "4 min"),
        (0.2, 0.8, "0–1 s"),
        (7200.0, 11_000.0, "2–4 h"),
        (2.0, 2.0, "2 s"),
    ],
)
def test_ranges_in_words(low: float, high: float, said: str) -> None:
    assert span(low, high) == said


def test_a_snapshot_for_people_and_scripts_says_it(capsys: pytest.CaptureFixture[str]) -> None:
    verdict = Verdict(1010.0, "slow", phase="warmup", phase_since=1000.0)
    known = {"warmup": (Usual(38, 51.36, 0, 7, "warm"),)}
    view = LaunchView(Launch("a", "a", ("h",)), verdict, (PhaseSpan("warmup", 1000.0),), usual=known)
    snapshot = Snapshot(1010.0, 0.0, launches=(view,))
    write(snapshot, markdown=False)
    assert "phase warmup, usually 38–52 s (7 launches), " in capsys.readouterr().out
    (said,) = as_json(snapshot)["launches"]
    assert said["usual"] == {"low_s": 38, "high_s": 51.4, "launches": 7, "start": "warm"}


def test_past_the_warm_starts_the_cold_ones_are_told() -> None:
    warm, cold = Usual(38, 52, 0, 7, "warm"), Usual(250, 330, 0, 2, "cold")
    view = LaunchView(
        Launch("a", "a", ("h",)),
        Verdict(1000.0, phase="warmup", phase_since=1000.0),
        (PhaseSpan("import", 900.0, 1000.0), PhaseSpan("warmup", 1000.0)),
        usual={"warmup": (warm, cold)},
    )
    assert view.usual_at(1010.0) is warm
    assert view.usual_at(1060.0) is cold
    assert view.usual_at(2000.0) is cold, "longer than any: the slowest is all there is to say"
