"""A key acts on the screen that is seen; and what was asked of a launch is asked of it as it is now."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ui import fakes
from tests.ui.driving import SIZES, rows, still_app, text, told
from tui.ui.screens.abort import AbortScreen
from tui.ui.screens.dumps import DumpScreen
from tui.ui.screens.fleet import FleetScreen


@pytest.mark.parametrize("screen", ["v", "f"])
async def test_a_letter_of_a_pane_leads_from_another_screen_to_that_pane(screen: str) -> None:
    app = still_app("hung")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press(screen, "e")
        await pilot.pause()
        assert app.screen is app.main
        assert app.main.full == "evidence"
        await pilot.press(screen, "e")
        await pilot.pause()
        assert app.main.full == "evidence", "it is opened, not closed unseen"


@pytest.mark.parametrize("screen", ["v", "f"])
async def test_keys_of_the_main_screen_change_nothing_behind_another(screen: str) -> None:
    app = still_app("multi")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("tab")
        wraps, order = app.main.log_pane.wraps, list(app.main.order)
        await pilot.press(screen, "x", "J", "w", "N", "plus")
        await pilot.pause()
        assert app.screen is not app.main
        assert (app.main.hidden, app.main.order, app.main.log_pane.wraps) == (set(), order, wraps)
        assert not app.main.prompt.display


async def test_the_palette_of_another_screen_offers_only_what_acts_there() -> None:
    app = still_app("hung")
    async with app.run_test(size=(120, 40)) as pilot:
        here = {command.title for command in app.get_system_commands(app.screen)}
        await pilot.press("v")
        await pilot.pause()
        there = {command.title for command in app.get_system_commands(app.screen)}
        assert {"Wrap long lines, or cut them", "Hide the pane log"} <= here
        assert not {"Wrap long lines, or cut them", "Hide the pane log", "Freeze what is shown, or go on"} & there
        assert {"Log in full", "This help"} <= there


async def test_stacks_come_in_while_what_is_shown_is_frozen() -> None:
    app = still_app("hung")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("space", "d")
        for n in (1, 8):
            coming = replace(fakes.snapshot("hung", 400.0 + n), dumps=(fakes.stacks(n, 400.0 + n),))
            told(app).post(coming)
            await pilot.pause(0.4)
            assert f"{n} of 8 in" in text(app)
        assert isinstance(app.screen, DumpScreen)
        await pilot.press("escape")
        assert "FROZEN at 14:20:00" in text(app)


async def test_the_fleet_says_that_it_is_frozen_or_past() -> None:
    app = still_app("fleet")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("f", "space")
        assert "FROZEN at 14:20:00" in rows(app)[0]
        await pilot.press("space")
        assert "FROZEN" not in text(app)


async def test_abort_lists_the_processes_of_now_whatever_moment_is_looked_at() -> None:
    app = still_app("hung")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("space")
        now = fakes.snapshot("hung", 460.0)
        launch = now.launches[0]
        restarted = tuple(replace(p, pid=p.pid + 1000) for p in launch.processes)
        told(app).post(replace(now, launches=(replace(launch, processes=restarted),)))
        await pilot.press("A")
        await pilot.pause()
        assert isinstance(app.screen, AbortScreen)
        assert "5711" in text(app)
        await pilot.press("escape")
        told(app).post(replace(now, launches=()))
        await pilot.press("A")
        await pilot.pause()
        assert app.screen is app.main
        assert "is gone" in [n.message for n in app._notifications][-1]


async def test_digits_choose_whose_stacks_are_seen_and_the_head_names_the_launch() -> None:
    app = still_app("multi")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("v")
        assert "torchrun llama-70b" in rows(app)[0]
        await pilot.press("2")
        assert "sglang orion-v3-fp8" in rows(app)[0]
        await pilot.press("escape", "f", "1")
        assert isinstance(app.screen, FleetScreen)


@pytest.mark.parametrize("size", SIZES)
async def test_the_last_line_says_how_to_leave_a_full_pane_and_a_held_moment(size: tuple[int, int]) -> None:
    app = still_app("hung")
    async with app.run_test(size=size) as pilot:
        await pilot.press("l")
        assert "esc back" in rows(app)[-1] and "/ search" in rows(app)[-1]
        await pilot.press("space", "escape")
        assert "space go on" in rows(app)[-1] and "freeze" not in rows(app)[-1]
        assert "esc back" not in rows(app)[-1]
        await pilot.press("space")
        assert "go on" not in rows(app)[-1]


async def test_choosing_a_theme_begins_at_the_one_that_is_worn() -> None:
    app = still_app("hung", theme="paper")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("T")
        await pilot.pause(0.3)
        assert app.theme == "paper"


async def test_hosts_for_which_the_first_line_has_no_room_are_counted_and_a_click_shows_them() -> None:
    app = still_app("fleet")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        first = rows(app)[0]
        shown = first.count("gpu-")
        assert f"+{64 - shown} " in first
        await pilot.click("#header", offset=(first.index("+"), 0))
        assert isinstance(app.screen, FleetScreen)


@pytest.mark.parametrize("key", ["escape", "ctrl+c"])
async def test_a_question_is_left_and_its_text_erased_as_in_a_shell(key: str) -> None:
    app = still_app("hung")
    async with app.run_test(size=(48, 40)) as pilot:
        await pilot.press("slash", *"one two", "ctrl+w")
        assert rows(app)[-1].strip() == "/one▏"
        await pilot.press("ctrl+u", *("x" * 60), "end")
        assert rows(app)[-1].rstrip().endswith("xxx▏"), "its end is seen, where one types"
        await pilot.press(key)
        assert "q quit" in rows(app)[-1] and app.is_running
