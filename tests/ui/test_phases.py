"""The phase bar says what past launches took, at every width, and gives way to what matters more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ui import fakes
from tui.model import Progress, Usual
from tui.ui.lines import plain
from tui.ui.view import View
from tui.ui.widgets.phases import band, paint_phases

WARM, COLD = Usual(38, 52, 0, 7, "warm"), Usual(250, 330, 0, 2, "cold")


def bar(width: int, height: int, usual: tuple[Usual, ...], after_s: float = 10.0) -> list[str]:
    """The bar ``after_s`` seconds into the present phase of a launch that is silent after loading."""
    snapshot = fakes.snapshot("hung", fakes.START)
    (launch, *_) = snapshot.launches
    start = snapshot.t - after_s
    spans = (*launch.spans[:-1], replace(launch.spans[-1], start=start))
    verdict = launch.verdict if width >= 60 else replace(launch.verdict, ranks=())  # there, ranks apart need the room
    launch = replace(launch, spans=spans, verdict=verdict, usual={verdict.phase: usual})
    rows = paint_phases(View(replace(snapshot, launches=(launch,)), launch), width, height)
    said = [plain(row).rstrip() for row in rows]
    assert all(len(row) <= width for row in said)
    return said


@pytest.mark.parametrize(("width", "height"), [(196, 4), (116, 4), (76, 2), (56, 3), (44, 3)])
def test_it_is_said_at_every_size(width: int, height: int) -> None:
    assert any("usually 38–52 s (7 launches)" in row for row in bar(width, height, (WARM, COLD)))
    assert any("cold starts took 4–6 min (2)" in row for row in bar(width, height, (WARM, COLD), 60.0))
    assert any("45 s last time" in row for row in bar(width, height, (Usual(45, 45, 0, 1),)))


def test_without_past_launches_nothing_is_said() -> None:
    assert not any("usual" in row or "took" in row for row in bar(116, 4, ()))


def test_the_present_runs_through_the_usual_range() -> None:
    usual = Usual(low_s=60.0, high_s=100.0, quiet_s=0.0, launches=7)
    early, within, late = (plain(band(seconds, usual, 24, "info")) for seconds in (30.0, 80.0, 240.0))
    assert early == "━" * 6 + "─" * 6 + "═" * 8 + "─" * 4
    assert within.startswith("━" * 12 + "═" * 4)
    assert late.count("═") < early.count("═"), "the longer it lasts, the smaller what is usual looks beside it"
    assert len(late) == 24
    lit = [role for text, role in band(80.0, usual, 24, "info") for _ in text]
    assert lit[:16] == ["info"] * 16
    assert set(lit[16:]) == {"dim", "track"}


@pytest.mark.parametrize(
    ("verdict", "done", "said"),
    [
        ("progressing", 12, True),
        ("slow", 12, True),
        ("progressing", 64, False),
        ("waiting", 12, False),
        ("hung", 12, False),
        ("unknown", 12, False),
    ],
)
def test_a_rate_is_said_only_of_what_moves_and_is_not_done(verdict: str, done: int, said: bool) -> None:
    """``64/64 shards  5.3/s`` stood for minutes over a launch in which nothing moved."""
    snapshot = fakes.snapshot("progressing")
    view = snapshot.launches[0]
    progress = Progress(done, 64, "shards", 5.3, 9.0)
    launch = replace(view, verdict=replace(view.verdict, id=verdict, progress=progress))
    text = "\n".join(plain(row) for row in paint_phases(View(snapshot, launch), 120, 4))
    assert f"{done}/64 shards" in text
    assert ("5.3/s" in text) is said and ("9s left" in text) is said
