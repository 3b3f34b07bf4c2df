"""How it looks: pictures of the main screens at the usual sizes, compared with those that were approved."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from textual.pilot import Pilot

from tests.ui.driving import SIZES, StillApp, ToldSession, still_app

IDS = [f"{width}x{height}" for width, height in SIZES]
Compare = Callable[..., bool]


@pytest.mark.parametrize("size", SIZES, ids=IDS)
@pytest.mark.parametrize("state", ["hung", "slow", "multi"])
def test_main_screen(snap_compare: Compare, state: str, size: tuple[int, int]) -> None:
    assert snap_compare(still_app(state), terminal_size=size)


@pytest.mark.parametrize("theme", ["paper", "ansi"])
def test_main_screen_in_another_theme(snap_compare: Compare, theme: str) -> None:
    assert snap_compare(still_app("hung", theme=theme), terminal_size=(120, 40))


def test_stacks(snap_compare: Compare) -> None:
    assert snap_compare(still_app("dump"), terminal_size=(120, 40), press=["v"])


def test_evidence_in_full(snap_compare: Compare) -> None:
    assert snap_compare(still_app("hung"), terminal_size=(120, 40), press=["e"])


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
        await pilot.press("down", "down")
        await pilot.pause(0.3)

    assert snap_compare(still_app("hung"), terminal_size=(120, 40), run_before=move)


def test_without_colours(snap_compare: Compare) -> None:
    assert snap_compare(still_app("hung", theme="mono"), terminal_size=(80, 24))
