"""The log pane: which lines began a phase, who speaks, several logs, long lines, and reading back while it grows."""

from __future__ import annotations

from dataclasses import replace

from tests.ui import fakes
from tests.ui.driving import rows, still_app, text, told
from tui.model import LogLine, LogView, Snapshot
from tui.ui.lines import plain
from tui.ui.view import View
from tui.ui.widgets.log import paint_log

HUNG = fakes.snapshot("hung")
LOG = HUNG.launches[0].logs[0]


def with_log(log: LogView, snapshot: Snapshot = HUNG, *more: LogView) -> Snapshot:
    view = replace(snapshot.launches[0], logs=(log, *more))
    return replace(snapshot, launches=(view,))


def painted(log: LogView, width: int = 120, **options: bool) -> list[str]:
    snapshot = with_log(log)
    return [plain(row) for row in paint_log(View(snapshot, snapshot.launches[0]), log, width, True, "", **options).rows]


def test_a_line_that_began_a_phase_names_it_and_no_other_does() -> None:
    named = [row for row in painted(LOG) if "▸" in row]
    assert [row.split("▸ ")[1] for row in named] == ["dist init", "weight load"]
    assert "TP0] Init torch distributed begin" in named[0]


def test_a_mark_is_found_behind_what_a_carrier_put_before_it() -> None:
    line = LogLine("2026-01-01T00:00:00Z stdout F Load weight begin.", t=10.0)
    assert "▸ weight load" in painted(replace(LOG, tail=(line,), marks=(("weight_load", "Load weight begin."),)))[0]


def test_ranks_have_colours_of_their_own_and_the_odd_one_is_lit() -> None:
    tail = tuple(LogLine(f"[2026-01-01 00:00:00 TP{n}] hello", t=10.0 + n) for n in range(8))
    view = View(HUNG, HUNG.launches[0])
    spans = paint_log(view, replace(LOG, tail=tail), 120, True, "").rows
    roles = [next(role for said, role in row if said == f"TP{n}") for n, row in enumerate(spans)]
    assert roles[5] == "odd", "rank 5 is the odd one of this hang"
    assert roles[0] != roles[1]
    assert roles[0] == roles[4]


def test_long_lines_wrap_or_are_cut() -> None:
    log = replace(LOG, tail=(LogLine("word " * 100, t=1.0),))
    assert len(painted(log)) > 3
    assert len(painted(log, wraps=False)) == 1
    assert painted(log, wraps=False)[0].endswith("…")


async def test_one_jumps_between_the_lines_that_began_a_phase() -> None:
    filler = tuple(LogLine(f"line {n}", t=100.0 + n) for n in range(200))
    tail = (*filler[:50], LogLine("Load weight begin.", t=150.5), *filler[50:])
    app = still_app(first=with_log(replace(LOG, tail=tail, marks=(("weight_load", "Load weight begin."),))))
    async with app.run_test(size=(120, 40)) as pilot:
        assert "Load weight begin." not in text(app)
        await pilot.press("left_curly_bracket")
        await pilot.pause()
        assert "Load weight begin." in text(app)
        assert "paused; end follows again" in text(app)
        await pilot.press("end")
        await pilot.pause()
        assert "line 199" in text(app)
        assert "paused" not in text(app)


async def test_reading_back_is_not_disturbed_by_new_lines() -> None:
    tail = tuple(LogLine(f"line {n}", t=100.0 + n) for n in range(200))
    app = still_app(first=with_log(replace(LOG, tail=tail)))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("l", "ctrl+u", "ctrl+u")
        await pilot.pause()
        before = [row for row in rows(app) if "line " in row]
        told(app).post(with_log(replace(LOG, tail=(*tail, LogLine("line 200", t=301.0)))))
        app.draw()
        await pilot.pause()
        assert [row for row in rows(app) if "line " in row] == before


async def test_every_log_is_reached_wherever_the_last_written_one_stands() -> None:
    paths = ("/var/log/a.log", "/var/log/b.log", "/var/log/c.log")
    first, *others = (replace(LOG, path=path, silent_s=900.0 - n) for n, path in enumerate(paths))
    others[0] = replace(others[0], silent_s=1.0)
    app = still_app(first=with_log(first, HUNG, *others))
    async with app.run_test(size=(120, 40)) as pilot:
        seen: list[str] = []
        for _ in range(4):
            seen += [path for path in paths if path in text(app)]
            await pilot.press("L")
            await pilot.pause()
        assert seen == ["/var/log/b.log", "/var/log/c.log", "/var/log/a.log", "/var/log/b.log"]


async def test_several_logs_are_gone_through_and_the_last_written_one_comes_first() -> None:
    old = replace(LOG, path="/var/log/serve/router.log", silent_s=900.0, tail=(LogLine("the router waits", t=1.0),))
    app = still_app(first=with_log(LOG, HUNG, old))
    async with app.run_test(size=(120, 40)) as pilot:
        assert "log 1/2" in text(app) and "orion-v3.log" in text(app)
        await pilot.press("L")
        await pilot.pause()
        assert "log 2/2" in text(app) and "the router waits" in text(app)
        await pilot.press("L")
        await pilot.pause()
        assert "orion-v3.log" in text(app)


async def test_the_end_of_the_hits_is_said_once_and_briefly() -> None:
    """Whoever holds ``N`` down reads the log, which a heap of the same words lay over for five seconds each."""
    app = still_app("hung")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("slash", *"begin.", "enter", *"NNNNNNNNNNNNNNNN")
        said = [shown for shown in app._notifications if shown.message == "No more hits that way."]
        assert len(said) == 1 and said[0].timeout <= 2.0
