"""How it looks: pictures of the main screens at the usual sizes, compared with those that were approved."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from tests.ui.driving import SIZES, StillApp, ToldSession, still_app

Compare = Callable[..., bool]

ALL_SIZES = (*SIZES, (48, 12))
THEMES = ("dusk", "paper", "ansi")
"""The dark and the light default, and sixteen colours."""

SCREENS: dict[str, tuple[str, str]] = {
    "hung": ("hung", ""),
    "slow": ("slow", ""),
    "hosts": ("multi", ""),
    "fleet": ("fleet", "f"),
    "stacks": ("dump", "v"),
    "evidence": ("hung", "e"),
    "timeline": ("hung", "m"),
    "log": ("hung", "l"),
    "ranks": ("slow", "p"),
    "help": ("hung", "question_mark"),
    "abort": ("hung", "A"),
}
"""What is shown, and the key that leads to it."""


def size_id(size: tuple[int, int]) -> str:
    return f"{size[0]}x{size[1]}"


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", ALL_SIZES, ids=size_id)
@pytest.mark.parametrize("screen", SCREENS)
def test_screen(snap_compare: Compare, screen: str, size: tuple[int, int], theme: str) -> None:
    state, key = SCREENS[screen]
    assert snap_compare(still_app(state, theme=theme), terminal_size=size, press=[key] if key else [])


@pytest.mark.parametrize("size", [(120, 40), (48, 40)], ids=["120x40", "48x40"])
def test_where_there_is_nothing_to_watch(snap_compare: Compare, size: tuple[int, int]) -> None:
    still_app()  # its clock
    app = StillApp(lambda: ToldSession("nogpu"), theme="dusk", open_demo=ToldSession)
    assert snap_compare(app, terminal_size=size)


def test_themes_to_choose_from(snap_compare: Compare) -> None:
    """The third is worn while the cursor is on it."""

    async def move(pilot: Pilot[None]) -> None:
        await pilot.press("T")
        await pilot.pause(0.3)
        pilot.app.screen.query_one(Input).cursor_blink = False
        await pilot.press("down", "down")
        await pilot.pause(0.3)

    assert snap_compare(still_app("hung"), terminal_size=(120, 40), run_before=move)


def test_without_colours(snap_compare: Compare) -> None:
    assert snap_compare(still_app("hung", theme="mono"), terminal_size=(80, 24))
