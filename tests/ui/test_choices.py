"""What is chosen with keys and commands is so again at the next start; the configuration and --theme go before."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.ui.driving import StillApp, ToldSession
from tests.ui.terminal import on_a_terminal, read_until
from tui.cli import main
from tui.config.choices import Choices, Kept
from tui.config.settings import NO_NOTICES, Settings


@pytest.fixture(autouse=True)
def colours(monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal that the tests are run in does not decide which theme suits it."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)


def app_with(folder: Path, *, theme: str | None = None, configured: str | None = None) -> StillApp:
    StillApp.now = 1000.0
    settings = replace(Settings(notices=NO_NOTICES), theme=configured)
    return StillApp(lambda: ToldSession("hung"), theme=theme, settings=settings, kept=Kept(folder))


async def leave(app: StillApp, pilot: Pilot[None]) -> None:
    await pilot.press("q")
    assert app._kept is not None
    app._kept.close()


def command(app: StillApp, title: str) -> None:
    next(c for c in app.get_system_commands(app.screen) if c.title == title).callback()


async def test_theme_panes_their_order_columns_and_the_order_of_the_ranks_are_kept(tmp_path: Path) -> None:
    app = app_with(tmp_path)
    async with app.run_test(size=(120, 50)) as pilot:
        await pilot.press("t", "o", "tab", "J")
        moved = app.main.order
        assert moved[:2] == ["processes", "gpus"]
        command(app, "Hide the column on SIGABRT")
        command(app, "Hide the pane timeline")
        theme = app.theme
        await leave(app, pilot)
    again = app_with(tmp_path)
    async with again.run_test(size=(120, 50)):
        assert again.theme == theme != "dusk"
        assert again.main.order == moved
        assert again.main.ranks.order_words == "most CPU"
        assert again.main.ranks.hidden == {"sigabrt"}
        assert again.main.hidden == {"timeline"}
        assert again.main.ranks.region.y < again.main.panes["gpus"].region.y


async def test_it_is_written_while_the_monitor_runs(tmp_path: Path) -> None:
    """Who kills it, or loses the terminal, has chosen nevertheless."""
    app = app_with(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("o")
        app._tick()
        assert app._kept is not None
        app._kept.close()
        assert Kept(tmp_path).choices == Choices(ranks_order="most CPU")


async def test_a_start_without_a_choice_writes_nothing(tmp_path: Path) -> None:
    app = app_with(tmp_path, theme="paper", configured="ember")
    async with app.run_test(size=(120, 40)) as pilot:
        app._tick()
        await leave(app, pilot)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "configured", "worn"),
    [(None, None, "ember"), (None, "paper", "paper"), ("mono", None, "mono"), ("mono", "paper", "mono")],
)
async def test_the_configuration_goes_before_what_was_chosen(
    tmp_path: Path, words: str | None, configured: str | None, worn: str
) -> None:
    kept = Kept(tmp_path)
    kept.keep(Choices({"dusk": "ember"}))
    kept.close()
    app = app_with(tmp_path, theme=words, configured=configured)
    async with app.run_test(size=(120, 40)) as pilot:
        assert app.theme == worn
        await pilot.press("o")
        await leave(app, pilot)
    assert Kept(tmp_path).choices == Choices({"dusk": "ember"}, ranks_order="most CPU"), "nobody chose another theme"


async def test_the_theme_of_another_kind_of_terminal_is_another_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Kept(tmp_path)
    kept.keep(Choices({"dusk": "ember"}))
    kept.close()
    monkeypatch.setenv("NO_COLOR", "1")
    assert app_with(tmp_path).theme == "mono"


async def test_a_theme_that_is_only_passed_is_not_chosen(tmp_path: Path) -> None:
    app = app_with(tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("T")
        await pilot.pause(0.3)
        await pilot.press("down", "down")
        await pilot.pause(0.1)
        app._tick()
        assert app.theme != "dusk"
        await pilot.press("escape")
        await pilot.pause(0.1)
        await leave(app, pilot)
    assert not list(tmp_path.iterdir())


async def test_names_of_another_release_are_passed_over(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.keep(Choices({"dusk": "gone"}, ("gone",), ("gone", "log", "log"), ("gone", "rank"), "gone"))
    kept.close()
    app = app_with(tmp_path)
    async with app.run_test(size=(120, 40)):
        assert (app.theme, app.main.hidden, app.main.ranks.hidden, app.main.ranks.order) == ("dusk", set(), set(), 0)
        assert app.main.order == ["log", "gpus", "processes", "evidence", "timeline"]


async def test_a_pane_changes_places_with_its_neighbour_and_stays_where_there_is_none() -> None:
    StillApp.now = 1000.0
    app = StillApp(lambda: ToldSession("hung"), theme="dusk")
    async with app.run_test(size=(120, 50), notifications=True) as pilot:
        await pilot.press("J")  # no pane has the focus
        await pilot.press("tab", "K")  # the GPUs are the first
        assert app.main.order == list(app.main.panes)
        await pilot.press("J", "J", "J", "J", "J")
        shown = sorted((p for p in app.main.panes.values() if p.display), key=lambda p: p.region.y)
        assert [p.id for p in shown] == ["processes", "log", "gpus"]
        assert app.main.focused is app.main.panes["gpus"]
        await pilot.press("tab")
        assert app.main.focused is app.main.panes["processes"], "tab goes round in the order that is seen"


def test_the_program_itself_keeps_what_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key and the end close behind it: what the key chose is in the state directory."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    scenario = Path(__file__).parent.parent / "scenarios" / "seed-slow-capture"
    with on_a_terminal("-m", "tui", "replay", str(scenario)) as terminal:
        read_until(terminal, b"quit", 20)
        os.write(terminal, b"oq")
        read_until(terminal, None, 5)
    assert Kept(tmp_path / "gputop-hang").choices == Choices(ranks_order="most CPU")


def test_the_configuration_command_says_that_a_theme_was_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    kept = Kept(tmp_path / "gputop-hang")
    kept.keep(Choices({"dusk": "ember", "ansi": "ember"}))
    kept.close()
    assert main(["config"]) == 0
    assert "theme       ember (chosen in the monitor)" in capsys.readouterr().out
