"""The timeline shows what was measured where it was measured, and stepping back brings every pane along."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.ui import fakes
from tests.ui.driving import still_app, text, told
from tui.model import Course, Snapshot
from tui.ui.lines import plain
from tui.ui.moment import Moment
from tui.ui.past import Past
from tui.ui.timeline import BINS_S, LABEL, axis, growth, means, paint_timeline


def snapshots(n: int, begin: float = fakes.START) -> list[Snapshot]:
    return [fakes.snapshot("hung", begin + i) for i in range(n)]


def test_an_axis_holds_its_whole_stretch_and_begins_with_a_whole_cell() -> None:
    for span in (3.0, 61.0, 394.0, 5000.0, 80_000.0):
        made = axis(17.3, 17.3 + span, 60)
        assert made.start <= 17.3
        assert made.end > 17.3 + span
        assert made.start % (2 * made.bin_s) == pytest.approx(0)
        assert made.bin_s == BINS_S[0] or (made.end - made.start) < 2.2 * span, "half of it would be empty"


def test_what_was_not_read_is_blank_and_zero_is_a_dot() -> None:
    times = [0.0, 1.0, 2.0, 100.0, 101.0]
    values = means(times, [0.0, 0.0, math.nan, 50.0, 70.0], axis(0.0, 103.0, 53))
    assert values[0] == 0.0
    assert values[1] == 0.0
    assert values[2] is None, "a reading that is missing"
    assert values[100:102] == [50.0, 70.0]
    late = means([0.0, 200.0], [1.0, 1.0], axis(0.0, 200.0, 100))
    assert late[1] is None, "nothing was seen for more than a minute"


def test_growth_is_counted_from_the_reading_before() -> None:
    grown = growth([0.0, 1.0, 2.0, 3.0], [100.0, 100.0, 400.0, 400.0], axis(0.0, 4.0, 3))
    assert grown[:4] == [0.0, 0.0, 300.0, 0.0]


def test_the_verdicts_and_phases_stand_where_they_began() -> None:
    view = fakes.snapshot("hung").launches[0]
    made = axis(view.spans[0].start, fakes.START, 100)
    rows = [plain(row) for row in paint_timeline(view, made, fakes.START, 8, fakes.WALL)]
    assert len(rows) == 8
    assert rows[1].index("hung") == LABEL + made.cell(view.course.verdicts[-1][0])
    assert rows[0].index("│post load") == LABEL + made.cell(view.spans[-1].start)
    assert "54%" in rows[6]


def test_from_an_earlier_moment_on_the_verdicts_go_on_as_the_lanes_do() -> None:
    view = fakes.snapshot("hung").launches[0]
    made = axis(view.spans[0].start, fakes.START, 100)
    now, earlier = (plain(paint_timeline(view, made, t, 8, fakes.WALL)[1]) for t in (fakes.START, fakes.START - 300.0))
    assert earlier == now


def test_snapshots_come_back_as_they_were_but_for_courses_and_stacks() -> None:
    past = Past()
    kept = snapshots(5)
    for snapshot in kept:
        past.keep(snapshot)
        past.keep(replace(snapshot, t=snapshot.t + 0.25))
    assert len(past) == 5, "one a second is enough"
    bare = replace(kept[2], launches=tuple(replace(v, course=Course()) for v in kept[2].launches))
    assert past.at(kept[2].t + 0.5) == bare
    assert past.at(0.0) is not None, "before the first one, the first one"


def test_memory_is_bounded_and_the_newest_are_kept_whole() -> None:
    past = Past(most_bytes=100_000)
    for snapshot in snapshots(200):
        past.keep(snapshot)
    newest = [past.at(fakes.START + i) for i in range(190, 200)]
    assert len({s.t for s in newest if s}) == 10
    assert past.first_t == fakes.START, "old moments are thinned, not cut off"
    assert len(past) < 120


def test_one_steps_back_and_forth_and_on_to_now() -> None:
    made = snapshots(30)
    moment = Moment(made[0])
    for snapshot in made:
        moment.take(snapshot)
    assert not moment.held
    moment.step(-5.0)
    assert moment.held
    assert moment.shown.t == made[24].t
    assert moment.shown.launches[0].course == made[-1].launches[0].course
    moment.step(3.0)
    assert moment.shown.t == made[27].t
    moment.step(3.0)
    assert not moment.held, "at the newest it goes on"


def test_changes_of_phase_and_verdict_are_stepped_to() -> None:
    made = [fakes.snapshot("hung", t) for t in range(int(fakes.HANG_AT) - 60, int(fakes.START), 2)]
    moment = Moment(made[0])
    for snapshot in made:
        moment.take(snapshot)
    launch = moment.latest.launches[0]
    seen: list[float] = []
    for _ in range(3):
        moment.step_change(-1, launch)
        seen.append(moment.shown.t)
    changes = sorted({t for t, _ in launch.course.verdicts} | {span.start for span in launch.spans})
    for t, change in zip(seen, reversed(changes), strict=False):
        assert 0 <= t - change <= 2.0
    moment.step_change(1, launch)
    assert moment.shown.t > seen[-1]


async def test_every_pane_follows_a_step_back_and_space_returns_to_now() -> None:
    first, *rest = snapshots(40, fakes.HANG_AT + 20)
    app = still_app(first=first)
    async with app.run_test(size=(200, 50)) as pilot:
        for snapshot in rest:
            told(app).post(snapshot)
        await pilot.pause()
        app.draw()
        await pilot.pause()
        now = text(app)
        assert "m timeline" in now
        await pilot.press(*[","] * 8)
        await pilot.pause()
        then = text(app)
        assert "FROZEN at" in then
        assert "ago" in then
        behind = app.view.behind_s
        assert behind > 20
        silent = int(app.view.launch.verdict.silent_s or 0) if app.view.launch else -1
        assert f"{silent}s" in then, "the timers are the moment's"
        await pilot.press("space")
        await pilot.pause()
        assert "FROZEN" not in text(app)


async def test_a_click_on_the_timeline_shows_that_moment() -> None:
    first, *rest = snapshots(40, fakes.HANG_AT + 20)
    app = still_app(first=first)
    async with app.run_test(size=(200, 50)) as pilot:
        for snapshot in rest:
            told(app).post(snapshot)
        app.draw()
        await pilot.pause()
        pane = app.main.timeline
        latest = app.view.snapshot.t
        assert pane._axis is not None
        x = LABEL + pane._axis.cell(latest - 30)
        await pilot.click(pane, offset=(x, 2))
        await pilot.pause()
        assert 20 <= latest - app.view.snapshot.t <= 40


async def test_where_nothing_earlier_is_kept_a_step_back_says_so() -> None:
    """The timeline reaches back to before the monitor came; the pictures do not."""
    app = still_app("hung")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("comma", "comma", "comma", "less_than_sign", "less_than_sign")
        said = {shown.message for shown in app._notifications}
        assert {"Nothing earlier is kept.", "No change before it is kept."} <= said
