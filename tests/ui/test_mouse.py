"""What can be pressed can be clicked: hints, titles, launches, hosts, the wheel."""

from __future__ import annotations

from tests.ui.driving import rows, still_app, text
from tui.ui.screens.dumps import DumpScreen


async def test_a_hint_does_what_its_key_does() -> None:
    app = still_app("hung")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        x = rows(app)[-1].index("log")
        await pilot.click(offset=(x, 39))
        await pilot.pause()
        assert app.main.full == "log"
        x = rows(app)[-1].index("dumps")
        await pilot.click(offset=(x, 39))
        await pilot.pause()
        assert isinstance(app.screen, DumpScreen)


async def test_a_title_opens_its_pane_and_closes_it_again() -> None:
    app = still_app("hung")
    async with app.run_test(size=(200, 50)) as pilot:
        for name in ("evidence", "gpus", "processes", "timeline", "log"):
            await pilot.click(f"#{name}", offset=(4, 0))
            await pilot.pause()
            assert app.main.full == name
            await pilot.click(f"#{name}", offset=(4, 0))
            await pilot.pause()
            assert app.main.full is None


async def test_launches_and_hosts_are_chosen_in_the_header() -> None:
    app = still_app("multi")
    async with app.run_test(size=(200, 50)) as pilot:
        await pilot.pause()
        await pilot.click(offset=(rows(app)[0].index("gpu-b04"), 0))
        await pilot.pause()
        assert app.view.host == "gpu-b04"
        await pilot.click(offset=(rows(app)[0].index(" 2 ") + 1, 0))
        await pilot.pause()
        assert app.view.launch is not None
        assert app.view.launch.launch.id == app.view.snapshot.launches[1].launch.id


async def test_a_storm_of_sizes_leaves_a_whole_picture() -> None:
    app = still_app("hung")
    async with app.run_test(size=(200, 50)) as pilot:
        for step in range(40):
            await pilot.resize_terminal(30 + step * 37 % 180, 6 + step * 13 % 50)
        await pilot.resize_terminal(120, 40)
        await pilot.pause()
        assert len(rows(app)) == 40
        assert "cannot be drawn" not in text(app)
        fresh = still_app("hung")
        async with fresh.run_test(size=(120, 40)) as other:
            await other.pause()
            assert text(app) == text(fresh)


async def test_a_hint_of_the_fleet_is_the_fleets_own() -> None:
    app = still_app("fleet")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("f")
        await pilot.pause()
        await pilot.click(offset=(rows(app)[-1].index("order"), 39))
        await pilot.pause()
        assert "by name" in rows(app)[0]
        await pilot.click(offset=(rows(app)[-1].index("back"), 39))
        await pilot.pause()
        assert app.screen is app.main
