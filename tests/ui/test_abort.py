"""SIGABRT is sent only by somebody who read what it does: typed, letter by letter, after half a second, entered."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.events import Paste
from textual.pilot import Pilot

from tests.ui import fakes
from tests.ui.driving import SIZES, StillApp, still_app, text, told
from tui.ui.screens import abort
from tui.ui.screens.abort import AbortScreen


@pytest.fixture(autouse=True)
def keen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most tests need not wait for the deaf time; the one about it sets it back."""
    monkeypatch.setattr(abort, "DEAF_S", 0.0)


async def opened(pilot: Pilot[None]) -> None:
    await pilot.press("A")
    await pilot.pause()


async def test_typing_the_word_and_enter_sends_it() -> None:
    app = still_app("hung")
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await pilot.press(*"abort", "enter")
        await pilot.pause()
        assert told(app).calls == ["abort gpu-a17:4700"]


@pytest.mark.parametrize(
    "keys", [["enter"], [*"abor", "enter"], [*"aborted", "enter"], ["escape"], [*"abort", "escape"]]
)
async def test_anything_else_sends_nothing(keys: list[str]) -> None:
    app = still_app("hung")
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await pilot.press(*keys)
        await pilot.pause()
        assert told(app).calls == []


async def test_pasted_text_is_ignored() -> None:
    app = still_app("hung")
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        app.screen.post_message(Paste("abort"))
        await pilot.pause()
        assert "pasted text is ignored" in text(app)
        await pilot.press("enter")
        await pilot.pause()
        assert told(app).calls == []
        assert isinstance(app.screen, AbortScreen)


async def test_the_first_half_second_is_deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(abort, "DEAF_S", 0.5)
    app = still_app("hung")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("A", *"abort", "enter")
        assert isinstance(app.screen, AbortScreen)
        await pilot.pause(0.6)
        await pilot.press("enter")
        assert told(app).calls == []
        await pilot.press(*"abort", "enter")
        await pilot.pause()
        assert told(app).calls == ["abort gpu-a17:4700"]


async def test_where_ranks_would_die_mute_a_second_word_is_asked_for() -> None:
    """faulthandler is off in ranks 2 and 3: they would be lost for nothing."""
    shown = fakes.snapshot("hung")
    view = shown.launches[0]
    mute = [replace(p, sigabrt="death_no_dump") if p.rank in (2, 3) else p for p in view.processes]
    app = still_app(first=replace(shown, launches=(replace(view, processes=tuple(mute)), *shown.launches[1:])))
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await pilot.press(*"abort", "enter")
        await pilot.pause()
        assert told(app).calls == []
        assert "not sent yet: ranks 2, 3 would die without printing anything" in text(app)
        await pilot.press(*"abort", "enter")
        await pilot.pause()
        assert told(app).calls == [], "the same word again is not the second one"
        await pilot.press(*"nevertheless", "enter")
        await pilot.pause()
        assert told(app).calls == ["abort gpu-a17:4700"]


@pytest.mark.parametrize("size", SIZES)
async def test_every_process_is_listed_with_its_fate(size: tuple[int, int]) -> None:
    app: StillApp = still_app("hung")
    async with app.run_test(size=size) as pilot:
        await opened(pilot)
        seen = text(app)
        for _ in range(6):
            await pilot.press("pagedown")
            seen += text(app)
        for rank in range(8):
            assert f"rank {rank} " in seen
        assert "prints the" in seen
        assert "detokenizer" in seen


async def test_letters_do_not_reach_the_screen_below() -> None:
    app = still_app("hung")
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await pilot.press("q", "d", "l")
        assert app.is_running and told(app).calls == []
        assert isinstance(app.screen, AbortScreen)
