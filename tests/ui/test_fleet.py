"""The fleet screen: sixty-four hosts are seen at once, the grave ones first; filters find, enter opens."""

from __future__ import annotations

import pytest

from tests.ui import fakes
from tests.ui.driving import rows, still_app, text
from tui.errors import UsageError
from tui.ui.fleet import ORDERS, fleet
from tui.ui.screens.fleet import FleetScreen
from tui.ui.widgets.fleet import columns_of

FLEET = fakes.snapshot("fleet")


def test_what_needs_somebody_stands_first_and_hosts_without_a_launch_last() -> None:
    verdicts = [item.verdict or "none" for item in fleet(FLEET)]
    assert verdicts == sorted(verdicts, key=["hung", "slow", "progressing", "ready", "none"].index)
    assert verdicts.count("hung") == 40


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        ("", 64),
        ("verdict:hung", 40),
        ("verdict:h*", 40),
        ("host:gpu-a1*", 7),
        ("host:gpu-a1* verdict:ready", 0),
        ("state:lost", 1),
        ("llama", 40),
        ("phase:serving", 7),
    ],
)
def test_filters_keep_what_they_name(wanted: str, count: int) -> None:
    assert len(fleet(FLEET, wanted=wanted)) == count


def test_a_filter_by_something_unknown_says_what_there_is() -> None:
    with pytest.raises(UsageError, match="'verdikt' is no filter: host, verdict"):
        fleet(FLEET, wanted="verdikt:hung")


def test_every_order_holds_every_host_once() -> None:
    for order in range(len(ORDERS)):
        assert sorted(item.name for item in fleet(FLEET, order)) == sorted(h.name for h in FLEET.hosts)


def test_as_many_columns_as_it_takes() -> None:
    assert columns_of(64, 196, 43) == 2
    assert columns_of(4, 196, 43) == 1
    assert columns_of(64, 44, 30) == 1, "a side pane has no room for a second one"


async def test_sixty_four_hosts_with_eight_gpus_are_seen_at_once() -> None:
    app = still_app("fleet")
    async with app.run_test(size=(200, 50)) as pilot:
        await pilot.press("f")
        await pilot.pause()
        shown = text(app)
        assert all(host.name in shown for host in FLEET.hosts)
        assert "40 hung" in shown
        assert "gpu-b02" in shown and "lost" in shown


async def test_enter_opens_the_chosen_host_and_escape_leads_back() -> None:
    app = still_app("fleet")
    async with app.run_test(size=(200, 50)) as pilot:
        await pilot.press("f", "j", "j", "enter")
        await pilot.pause()
        assert not isinstance(app.screen, FleetScreen)
        assert app.view.host == fleet(FLEET)[2].name
        await pilot.press("f", "escape")
        await pilot.pause()
        assert not isinstance(app.screen, FleetScreen)


async def test_a_filter_is_typed_and_taken_back() -> None:
    app = still_app("fleet")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("f", "slash", *"verdict:slow", "enter")
        await pilot.pause()
        assert "7 of 64 hosts" in rows(app)[0]
        assert isinstance(app.screen, FleetScreen)
        await pilot.press("escape")
        await pilot.pause()
        assert "64 hosts" in rows(app)[0]


async def test_blocks_change_what_they_show_and_the_choice_stays_with_its_host() -> None:
    app = still_app("fleet")
    async with app.run_test(size=(200, 50)) as pilot:
        await pilot.press("f", "end", "b", "c")
        await pilot.pause()
        assert isinstance(app.screen, FleetScreen)
        chosen = app.screen.chosen
        assert "blocks power, colour power" in rows(app)[0]
        await pilot.press("o")
        await pilot.pause()
        assert chosen is not None and app.screen.chosen is not None
        assert app.screen.chosen.name == chosen.name


async def test_a_second_click_opens() -> None:
    app = still_app("fleet")
    async with app.run_test(size=(200, 50)) as pilot:
        await pilot.press("f")
        await pilot.pause()
        name = fleet(FLEET)[4].name
        for _ in range(2):
            await pilot.click("#fleet", offset=(8, 5))
            await pilot.pause()
        assert app.view.host == name
