"""What the configuration sets is so on the screen: keys, themes, and the demo where there is nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from textual.color import Color
from textual.command import CommandList

from tests.ui.driving import StillApp, ToldSession, rows, still_app, text, told
from tests.ui.test_themes import THEMES
from tui.config.settings import NO_NOTICES, Settings
from tui.errors import UsageError
from tui.ui.keys import BINDINGS, SCREENS, Keys, WrongKey
from tui.ui.screens.dumps import DumpScreen
from tui.ui.themes import shipped


def app_with(state: str = "hung", **settings: object) -> StillApp:
    StillApp.now = 1000.0
    made = replace(Settings(notices=NO_NOTICES), **settings)  # type: ignore[arg-type]
    return StillApp(lambda: ToldSession(state), settings=made)


# ----------------------------------------------------------------------------------------------------------------- keys


async def test_a_remapped_key_does_its_work_and_the_old_one_none() -> None:
    app = app_with(keys={"stacks": "D", "open.log": "ctrl+o", "scroll.down": "s,down"})
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("d", "l")
        assert told(app).calls == [] and app.main.full is None
        await pilot.press("ctrl+o")
        assert app.main.full == "log"
        await pilot.press("home")
        top = app.main.log_pane.top
        await pilot.press("s", "j", "down")
        assert app.main.log_pane.top == top + 2
        await pilot.press("escape", "D")
        assert told(app).calls == ["stacks gpu-a17:4700"]


async def test_footer_hints_titles_help_and_palette_name_the_present_keys() -> None:
    app = app_with(keys={"stacks": "ctrl+s", "open.gpus": "G", "help": "f1"})
    async with app.run_test(size=(120, 60)) as pilot:
        await pilot.pause()
        shown = rows(app)
        assert "ctrl+s stacks" in shown[-1] and "f1 help" in shown[-1]
        assert any(row.strip().startswith("G GPUs") for row in shown)
        assert any("next" in row and "ctrl+s" in row for row in shown)
        commands = {command.title: command.help for command in app.get_system_commands(app.screen)}
        assert commands["GPUs in full"].startswith("G  ")
        await pilot.press("f1")
        await pilot.pause()
        assert any("ctrl+s     take the stacks" in row for row in rows(app))
        assert any("G          GPUs in full" in row and row.rstrip().endswith("open.gpus") for row in rows(app))


async def test_moving_keys_are_the_same_on_every_screen() -> None:
    app = app_with("dump", keys={"scroll.bottom": "z", "pane.back": "backspace"})
    async with app.run_test(size=(80, 20)) as pilot:
        await pilot.press("v")
        await pilot.pause()
        screen = app.screen
        assert isinstance(screen, DumpScreen)
        await pilot.press("z")
        assert screen.active.top == screen.active.overflow > 0
        await pilot.press("backspace")
        assert not isinstance(app.screen, DumpScreen)


async def test_every_action_of_every_key_is_in_the_palette() -> None:
    app = still_app("dump")
    async with app.run_test(size=(120, 40)) as pilot:
        titles = {command.title for command in app.get_system_commands(app.screen)}
        for binding in BINDINGS:
            id = binding.id or ""
            if id != "palette" and (id == "launch.1" or not id.startswith("launch.")):  # there is one launch
                words = binding.description.split("; ")[0]
                assert words[0].upper() + words[1:] in titles, id
        await pilot.press("v")
        await pilot.pause()
        titles = {command.title for command in app.get_system_commands(app.screen)}
        assert {"The next rank", "Take the stacks of all ranks, stopping none"} <= titles


def test_by_default_no_key_does_two_things_and_no_function_key_is_needed() -> None:
    Keys()
    for bindings in SCREENS:
        for binding in bindings:
            assert not any(key.startswith("f") and key[1:].isdigit() for key in binding.key.split(","))
            assert not {"h"} & set(binding.key.split(","))


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"stacks": "v"}, "'v' cannot be the key of 'stacks': it is that of 'dumps'"),
        ({"stacks": "x", "dumps": "x"}, "'x' cannot be the key of"),
        ({"search": "ctrl+d"}, "it is that of 'scroll.page_down'"),
        ({"nothing": "x"}, "there is no action 'nothing'"),
        ({"stacks": "hyperspace"}, "is no key"),
        ({"stacks": "x,"}, "is no key"),
    ],
)
def test_keys_that_cannot_be_are_said(keys: dict[str, str], words: str) -> None:
    with pytest.raises(WrongKey, match=words):
        Keys(keys)


def test_keys_may_change_places_and_be_written_as_characters() -> None:
    keys = Keys({"stacks": "v", "dumps": "d", "search": "!", "help": "_", "palette": "@"})
    assert [keys[id] for id in ("stacks", "dumps", "search", "help", "palette")] == ["v", "d", "!", "_", "@"]


# --------------------------------------------------------------------------------------------------------------- themes


def own_theme(tmp_path: Path, name: str = "mine") -> Path:
    folder = tmp_path / "themes"
    folder.mkdir(exist_ok=True)
    text = (shipped() / "dusk.toml").read_text().replace('name = "dusk"', f'name = "{name}"')
    (folder / f"{name}.toml").write_text(text.replace("#12161c", "#101010"))
    return tmp_path / "config.toml"


async def test_own_themes_stand_beside_the_shipped_and_a_bad_one_is_said(tmp_path: Path) -> None:
    path = own_theme(tmp_path)
    (tmp_path / "themes" / "bad.toml").write_text("name = [")
    app = app_with(path=path, theme="mine")
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await pilot.pause()
        assert app.theme == "mine" and set(app.theme_names) == {*THEMES, "mine"}
        assert "bad.toml cannot be read" in text(app)


def test_a_theme_of_the_configuration_that_is_none_is_told_with_its_place(tmp_path: Path) -> None:
    made = 'hosts = []\ntheme = "nope"\n'
    with pytest.raises(UsageError, match=r"config\.toml, line 2, column 1: There is no theme 'nope'; there are "):
        app_with(path=tmp_path / "config.toml", text=made, theme="nope")


async def test_themes_are_worn_while_they_are_passed_and_escape_brings_the_first_back() -> None:
    app = still_app("hung")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("T")
        await pilot.pause(0.3)
        seen = set()
        for _ in range(3):
            await pilot.press("down")
            await pilot.pause(0.1)
            seen.add(app.theme)
        assert len(seen) == 3
        await pilot.press("escape")
        await pilot.pause(0.1)
        assert app.theme == "dusk"
        await pilot.press("T", *"paper")
        await pilot.pause(0.5)
        app.screen.query_one(CommandList)
        await pilot.press("enter")
        await pilot.pause(0.3)
        assert app.theme == "paper"


@pytest.mark.parametrize("theme", [None, "paper"])
async def test_no_color_means_none_unless_a_theme_is_named(monkeypatch: pytest.MonkeyPatch, theme: str | None) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    StillApp.now = 1000.0
    app = StillApp(lambda: ToldSession("hung"), theme=theme)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        styles = [s.style for strip in app.screen._compositor.render_strips() for s in strip if s.style]
    coloured = [
        s
        for s in styles
        if not ((s.color is None or s.color.is_default) and (s.bgcolor is None or s.bgcolor.is_default))
    ]
    assert app.theme == (theme or "mono")
    assert bool(coloured) is (theme is not None)


# ---------------------------------------------------------------------------------------------------------- first steps


async def test_where_there_is_nothing_to_watch_enter_starts_the_demo() -> None:
    demo = ToldSession("progressing")
    StillApp.now = 1000.0
    app = StillApp(lambda: ToldSession("nogpu"), open_demo=lambda: demo)
    async with app.run_test(size=(48, 40)) as pilot:
        await pilot.pause()
        first = told(app)
        assert "start the demo" in text(app) and "gputop-hang gpu01 gpu02" in text(app)
        assert "Start the demo" in {command.title for command in app.get_system_commands(app.screen)}
        await pilot.press("enter")
        await pilot.pause(0.5)
        assert told(app) is demo and first.calls == ["stop"]
        assert "PROGRESSING" in text(app) and "start the demo" not in text(app)


@pytest.mark.parametrize("state", ["hung", "empty", "connecting", "lost"])
async def test_the_demo_is_not_offered_where_there_is_something(state: str) -> None:
    StillApp.now = 1000.0
    app = StillApp(lambda: ToldSession(state), open_demo=lambda: ToldSession("ready"))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        assert "start the demo" not in text(app)
        await pilot.press("enter")
        assert "READY" not in text(app)


async def test_a_demo_that_cannot_start_is_said() -> None:
    def broken() -> ToldSession:
        raise UsageError("the demo needs Linux")

    StillApp.now = 1000.0
    app = StillApp(lambda: ToldSession("nogpu"), open_demo=broken)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await pilot.press("enter")
        await pilot.pause(0.3)
        assert "the demo needs Linux" in text(app)


async def test_a_theme_that_is_passed_is_worn_by_everything_on_the_screen() -> None:
    """By the band's tint and the rows of the palette itself too; and by what is frozen."""
    app = still_app("hung")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("space", "T")
        await pilot.pause(0.3)
        for theme, is_light in (("paper", True), ("contrast", False), ("paper", True)):
            app.theme = theme
            await pilot.pause(0.3)
            strips = app.screen._compositor.render_strips()
            wide = [
                s.style.bgcolor for strip in strips for s in strip if len(s.text) > 20 and s.style and s.style.bgcolor
            ]
            assert wide
            assert all((Color.from_rich_color(colour).brightness > 0.5) is is_light for colour in wide), (theme, wide)
