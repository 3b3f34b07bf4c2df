"""Keys do what the help says, from the screen a person sees."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ui import fakes
from tests.ui.driving import SIZES, rows, still_app, text, told
from tui.ui.keys import BINDINGS
from tui.ui.screens.dumps import DumpScreen
from tui.ui.screens.help import HelpScreen


def test_every_binding_has_an_id_of_its_own_and_a_tooltip() -> None:
    ids = [binding.id for binding in BINDINGS]
    assert all(ids) and len(set(ids)) == len(ids)
    assert all(binding.tooltip for binding in BINDINGS)


def test_every_binding_leads_to_an_action() -> None:
    app = still_app()
    for binding in BINDINGS:
        assert hasattr(app, "action_" + binding.action.split("(")[0]), binding.action


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("key", "pane"), [("l", "log"), ("p", "processes"), ("e", "evidence"), ("g", "gpus")])
async def test_a_letter_opens_its_pane_in_full_and_closes_it(key: str, pane: str, size: tuple[int, int]) -> None:
    app = still_app("hung")
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        before = app.main.panes[pane].display
        await pilot.press(key)
        assert [name for name, p in app.main.panes.items() if p.display] == [pane]
        assert "HUNG" in text(app)
        await pilot.press(key)
        assert app.main.panes[pane].display is before


async def test_enter_opens_the_focused_pane_and_escape_closes_it() -> None:
    app = still_app("hung")
    async with app.run_test(size=(200, 50)) as pilot:
        await pilot.press("tab", "tab", "enter")
        assert app.main.full == "processes"
        await pilot.press("escape")
        assert app.main.full is None


async def test_digits_choose_launches_and_brackets_hosts() -> None:
    app = still_app("multi")
    async with app.run_test(size=(200, 50)) as pilot:
        await pilot.press("2")
        assert "READY" in text(app)
        await pilot.press("1", "right_square_bracket", "right_square_bracket")
        assert app.view.host == "gpu-a18"
        assert "gpu-a18:/scratch" not in text(app).split("log", 1)[0]
        assert next(row for row in rows(app) if "g GPUs" in row).strip().startswith("g GPUs  gpu-a18")
        await pilot.press("left_square_bracket", "left_square_bracket")
        assert app.view.host is None


async def test_space_freezes_what_is_shown_until_it_is_pressed_again() -> None:
    app = still_app("hung")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("space")
        assert "FROZEN at 14:20:00" in text(app)
        told(app).post(fakes.snapshot("hung", 500.0))
        await pilot.pause(0.4)
        assert "4m 04s" in text(app)
        await pilot.press("space")
        assert "5m 44s" in text(app)
        assert "FROZEN" not in text(app)


async def test_movement_scrolls_the_log_and_end_follows_again() -> None:
    app = still_app("hung")
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("l", "home")
        assert "server_args" in text(app)
        await pilot.press("ctrl+d", "j", "k", "end")
        assert app.main.log_pane.following
        assert "silent for" in text(app)
        await pilot.press("k")
        assert not app.main.log_pane.following


async def test_search_marks_the_hits_and_steps_between_them() -> None:
    app = still_app("hung")
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("l", "slash", *"begin.", "enter")
        log = app.main.log_pane
        assert "“begin.” 9 rows" in text(app)
        lowest = log.top
        await pilot.press("N", "N", "N")
        assert log.top < lowest
        await pilot.press("n", "n", "n")
        assert log.top >= lowest - 3
        await pilot.press("escape")
        assert log.query_text == ""


async def test_letters_belong_to_the_search_while_it_asks() -> None:
    """``q``, ``A`` and digits typed into the search must neither quit nor abort."""
    app = still_app("hung")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("slash", "q", "A", "2", "d")
        assert "/qA2d" in text(app)
        assert not told(app).calls
        await pilot.press("escape")
        assert app.is_running


async def test_help_lists_every_key_and_closes() -> None:
    app = still_app("hung")
    async with app.run_test(size=(120, 130)) as pilot:
        await pilot.press("question_mark")
        await pilot.pause()
        assert isinstance(app.screen, HelpScreen)
        for binding in BINDINGS:
            if not binding.action.startswith("launch("):
                assert binding.description.split(":")[0][:50] in text(app)
        await pilot.press("escape")
        assert not isinstance(app.screen, HelpScreen)


async def test_d_takes_the_stacks_and_shows_them_filling() -> None:
    app = still_app("hung")
    async with app.run_test(size=(200, 50)) as pilot:
        await pilot.press("d")
        await pilot.pause()
        assert told(app).calls == ["stacks gpu-a17:4700"]
        assert isinstance(app.screen, DumpScreen)
        for n, words in ((0, "0 of 8 in"), (3, "3 of 8 in"), (8, "8 of 8 in")):
            told(app).post(fakes.hung(401.0 + n, (fakes.stacks(n, 401.0),)))
            await pilot.pause(0.4)
            assert words in text(app)
        body = text(app)
        assert body.index("1 of 8  rank 5") < body.index("6 of 8  ranks 0–4, 7")
        assert "permission denied" in body


async def test_raw_dumps_are_browsed_by_rank_and_earlier_ones_by_comma() -> None:
    newer = replace(fakes.stacks(8, 400.0), id=2, method="abort")
    app = still_app(first=fakes.hung(400.0, (fakes.stacks(8, 380.0), newer)))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("v")
        await pilot.pause()
        assert "stacks at SIGABRT" in text(app) and "2 of 2" in text(app)
        await pilot.press("comma")
        assert "stacks, nothing paused" in text(app)
        await pilot.press("right_square_bracket")
        assert "rank 0  gpu-a17 pid 4711" in text(app)
        await pilot.press("left_square_bracket")
        assert "rank 5  gpu-a17 pid 4716" in text(app)
        await pilot.press("tab")
        assert "merged  2 groups" in text(app)
        await pilot.press("escape")
        assert "HUNG" in text(app)


async def test_what_a_session_raises_becomes_a_message() -> None:
    app = still_app("hung")

    async def broken(launch_id: str) -> None:
        raise RuntimeError("py-spy is [/not] there")

    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        told(app).take_stacks = broken  # type: ignore[method-assign]
        await pilot.press("d")
        await pilot.pause(0.3)
        assert "py-spy is [/not] there" in text(app)


async def test_every_action_is_in_the_palette() -> None:
    app = still_app("hung")
    async with app.run_test(size=(120, 40)):
        titles = {command.title for command in app.get_system_commands(app.screen)}
    assert {"Take the stacks of all ranks, stopping none", "Quit at once", "Choose a theme"} <= titles


async def test_hostile_text_survives_every_pane_and_screen() -> None:
    app = still_app("hostile")
    async with app.run_test(size=(120, 40)) as pilot:
        for key in ("l", "p", "e", "g", "escape", "tab", "question_mark", "escape", "v", "right_square_bracket"):
            await pilot.press(key)
            await pilot.pause()
            assert "cannot be drawn" not in text(app)
        assert "[bold]x[/]" in text(app)


async def test_where_there_is_nothing_to_take_stacks_of_the_keys_say_so() -> None:
    """A replay has no processes: no empty screen and no question that leads nowhere."""
    app = still_app("hung")
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        told(app).why_no_stacks = "This is a replay."
        for key in ("d", "A"):
            await pilot.press(key)
            await pilot.pause()
            assert "This is a replay." in text(app)
            assert len(app.screen_stack) == 1
    assert told(app).calls == []


async def test_ctrl_c_leaves_and_says_so() -> None:
    app = still_app("hung")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("ctrl+c")
        await pilot.pause()
    assert app.return_value == 130
