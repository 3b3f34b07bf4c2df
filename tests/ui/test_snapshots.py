"""How it looks: pictures of the main screens at the usual sizes, compared with those that were approved."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.ui.driving import SIZES, still_app

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
