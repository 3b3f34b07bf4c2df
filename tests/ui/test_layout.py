"""Whatever the size and the needs: every part lies on the screen, none over another (but the timers in the verdict's
corner), and the verdict always shows."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.ui.layout import Needs, Rect, columns, plan

PANES = ("gpus", "processes", "evidence", "timeline", "log")
NEEDS = st.builds(
    Needs,
    launch=st.booleans(),
    alarm=st.booleans(),
    gpu_rows=st.integers(1, 600),
    gpu_rows_compact=st.integers(1, 80),
    process_rows=st.integers(1, 600),
    full=st.sampled_from([None, "log", "gpus", "evidence", "processes", "timeline"]),
    hidden=st.frozensets(st.sampled_from(PANES)),
    order=st.sampled_from([()]) | st.permutations(PANES).map(tuple),
)


def overlap(a: Rect, b: Rect) -> bool:
    beside = a.x + a.width <= b.x or b.x + b.width <= a.x
    return not beside and not (a.y + a.height <= b.y or b.y + b.height <= a.y)


@given(st.integers(20, 300), st.integers(8, 90), NEEDS)
def test_parts_lie_on_the_screen_and_beside_each_other(width: int, height: int, needs: Needs) -> None:
    rects = plan(width, height, needs)
    for name, rect in rects.items():
        assert rect.width > 0 and rect.height > 0, name
        assert rect.x >= 0 and rect.x + rect.width <= width, name
        assert rect.y >= 0 and rect.y + rect.height <= height, name
    over = {pair for pair in combinations(rects, 2) if overlap(rects[pair[0]], rects[pair[1]])}
    assert over <= {("verdict", "timers")}
    if over:
        assert rects["timers"].y == rects["verdict"].y and rects["timers"].height <= rects["verdict"].height
    assert {"header", "verdict", "footer"} <= set(rects)


@pytest.mark.parametrize(("width", "height"), [(200, 50), (120, 40), (80, 24), (48, 40)])
def test_eight_gpus_and_the_log_are_seen_at_the_usual_sizes(width: int, height: int) -> None:
    rects = plan(width, height, Needs(True, True, 10, 9, 12))
    assert rects["gpus"].height >= 9
    assert rects["log"].height >= 3


def test_the_wide_screen_shows_everything_at_once() -> None:
    rects = plan(200, 50, Needs(True, True, 10, 9, 12))
    assert set(rects) == {
        *("header", "verdict", "timers", "phases", "gpus", "processes", "evidence", "timeline", "log", "footer"),
    }


@pytest.mark.parametrize(("width", "height"), [(200, 50), (120, 40), (80, 24), (48, 40), (48, 12)])
@pytest.mark.parametrize("pane", ["gpus", "processes", "timeline", "evidence", "log"])
def test_a_hidden_pane_is_gone_and_the_others_keep_their_order(width: int, height: int, pane: str) -> None:
    whole = plan(width, height, Needs(True, True, 10, 9, 12))
    without = plan(width, height, Needs(True, True, 10, 9, 12, hidden=frozenset({pane})))
    assert pane not in without
    both = [name for name in whole if name in without]
    places = [[(rects[name].x, rects[name].y) for name in both] for rects in (whole, without)]
    order = [sorted(range(len(both)), key=lambda i, where=where: where[i]) for where in places]
    assert order[0] == order[1]


@pytest.mark.parametrize(("width", "height"), [(200, 50), (120, 50), (80, 24), (48, 40), (48, 12)])
def test_panes_in_another_order_keep_their_columns_and_their_rows(width: int, height: int) -> None:
    usual = plan(width, height, Needs(True, True, 10, 9, 12))
    turned = plan(width, height, Needs(True, True, 10, 9, 12, order=PANES[::-1]))
    assert {name: rect._replace(y=0) for name, rect in usual.items()} == {
        name: rect._replace(y=0) for name, rect in turned.items()
    }
    stands = {frozenset(column): column for column in columns(_panes(turned))}
    assert all(stands[frozenset(column)] == column[::-1] for column in columns(_panes(usual)))
    assert max(r.y + r.height for r in turned.values()) == max(r.y + r.height for r in usual.values())


def _panes(rects: dict[str, Rect]) -> dict[str, Rect]:
    return {name: rect for name, rect in rects.items() if name in PANES}


def test_twelve_rows_hold_verdict_phase_gpus_and_log() -> None:
    rects = plan(48, 12, Needs(True, True, 10, 9, 12))
    assert {"verdict", "phases", "gpus", "log"} <= set(rects)
    assert rects["verdict"].height >= 7


@pytest.mark.parametrize(("height", "least"), [(8, 3), (12, 6), (24, 14), (40, 20)])
@pytest.mark.parametrize("width", [48, 80, 120])
def test_a_pane_in_full_gets_most_of_the_screen_and_the_verdict_its_first_rows(
    width: int, height: int, least: int
) -> None:
    """At 48x12 the ranks in full were their own heading and no rank."""
    rects = plan(width, height, Needs(True, True, 10, 9, 12, full="processes"))
    assert rects["processes"].height >= least
    assert rects["verdict"].height >= 2
