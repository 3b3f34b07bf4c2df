"""Many launches and many hosts: which launch keys are about, how every launch is reached, and what still fits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ui import fakes
from tests.ui.driving import rows, still_app, text, told
from tui.model import Snapshot
from tui.ui.fleet import fleet
from tui.ui.screens.abort import AbortScreen
from tui.ui.screens.dumps import DumpScreen
from tui.ui.screens.fleet import FleetScreen
from tui.ui.view import View
from tui.ui.widgets.fleet import short_names
from tui.ui.widgets.header import paint_header

FLEET = fakes.snapshot("fleet")


def launches(count: int) -> Snapshot:
    """So many launches, named by their numbers, on the hosts of the fleet; every fourth hangs."""
    made = [FLEET.launches[n % 4] for n in range(count)]
    named = [
        replace(view, launch=replace(view.launch, id=f"id-{n}", name=f"sglang model-{n}"))
        for n, view in enumerate(made, 1)
    ]
    return replace(FLEET, launches=tuple(named))


# ------------------------------------------------------------------------------------------ the fleet's chosen host


async def test_on_the_fleet_screen_keys_are_about_the_launch_of_the_chosen_host() -> None:
    """Its row is marked: stacks, and still more SIGABRT, must not go to the launch of the screen behind."""
    app = still_app("fleet")
    async with app.run_test(size=(120, 40)) as pilot:
        assert app.view.launch is not None and app.view.launch.launch.id == "job-7781"
        await pilot.press("f", "slash", *"host:gpu-d01", "enter", "A")
        await pilot.pause()
        assert isinstance(app.screen, AbortScreen)
        assert "ABORT sglang orion-1" in text(app)
        await pilot.press("escape", "d")
        await pilot.pause()
        assert isinstance(app.screen, DumpScreen)
        assert told(app).calls == ["stacks serve-1"]
        assert app.view.launch.launch.id == "serve-1", "the screen of stacks shows those that were asked for"
        await pilot.press("escape")
        assert isinstance(app.screen, FleetScreen)


async def test_a_pane_that_is_opened_from_the_fleet_screen_is_of_the_chosen_hosts_launch() -> None:
    app = still_app("fleet")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("f", "slash", *"host:gpu-d01", "enter", "e")
        await pilot.pause()
        assert app.screen is app.main and app.main.full == "evidence"
        assert app.view.launch is not None and app.view.launch.launch.id == "serve-1"


async def test_where_no_launch_runs_on_the_chosen_host_keys_say_so() -> None:
    app = still_app("fleet")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("f", "slash", *"host:gpu-d16", "enter", "d", "A")
        await pilot.pause()
        assert isinstance(app.screen, FleetScreen) and told(app).calls == []
        assert [said.message for said in app._notifications] == ["No launch runs on the chosen host."]


async def test_enter_opens_a_host_that_is_looked_at_already() -> None:
    """Choosing it again on the main screen shows all; entering it here does not."""
    app = still_app("fleet")
    async with app.run_test(size=(120, 40)) as pilot:
        for _ in range(2):
            await pilot.press("f", "slash", *"host:gpu-d16", "enter", "enter")
            await pilot.pause()
            assert app.view.host == "gpu-d16"


def test_silent_longest_first_by_the_silence_that_is_shown() -> None:
    """Verdicts are made in turns: one that is older has been silent for longer than it says."""
    first, second = FLEET.launches[1:3]
    older = replace(first, verdict=replace(first.verdict, silent_s=100.0, t=FLEET.t - 20.0))
    newer = replace(second, verdict=replace(second.verdict, silent_s=110.0, t=FLEET.t))
    ordered = fleet(replace(FLEET, launches=(older, newer)), 3)
    assert [item.launch and item.launch.launch.id for item in ordered[:8]] == ["serve-0"] * 7 + ["serve-1"]


# ------------------------------------------------------------------------------------------------ more than nine


async def test_every_launch_of_many_is_reached_by_a_key_and_by_its_number_in_the_palette() -> None:
    app = still_app(first=launches(12))
    async with app.run_test(size=(120, 40)) as pilot:
        seen: list[str] = []
        await pilot.press("9")
        for _ in range(4):
            await pilot.press("0")
            assert app.view.launch is not None
            seen.append(app.view.launch.launch.name)
        assert seen == [f"sglang model-{n}" for n in (10, 11, 12, 1)]
        commands = {command.title: command for command in app.get_system_commands(app.screen)}
        assert commands["Launch 12"].help == "sglang model-12" and "Launch 13" not in commands
        commands["Launch 12"].callback()
        assert app.view.launch is not None and app.view.launch.launch.id == "id-12"


@pytest.mark.parametrize("count", [12, 40, 64])
@pytest.mark.parametrize("width", [48, 64, 80, 120, 200])
def test_the_first_line_names_the_launch_that_is_looked_at(count: int, width: int) -> None:
    """Whichever it is; and how many there are beside what fits is said, and leads to them."""
    snapshot = launches(count)
    for number in (1, 2, count):
        line, spots = paint_header(View(snapshot, snapshot.launches[number - 1]), width)
        words = "".join(part for part, _ in line)
        assert len(words) == width
        name = "sglang…" if width < 64 else f"sglang model-{number}"
        assert any(f" {number} {glyph} {name} " in words for glyph in "✗✓~»")
        shown = [target for _, _, target in spots if target.startswith("launch:")]
        hidden = count - len(shown)
        assert (f" +{hidden} " in words and "launches:" in [t for _, _, t in spots]) if hidden else True
        assert all(end <= width for _, end, _ in spots)
        assert "fleet:" in [target for _, _, target in spots], "hosts that have no room are told of"


async def test_the_session_is_told_which_launch_is_looked_at() -> None:
    app = still_app("fleet")
    async with app.run_test(size=(120, 40)) as pilot:
        assert told(app).attended == "job-7781"
        await pilot.press("3")
        assert told(app).attended == "serve-1"
        await pilot.press("f", "slash", *"host:gpu-c09", "enter")
        await pilot.pause()
        app.draw()
        assert told(app).attended == "serve-0", "on the fleet screen that of the chosen host"
        await pilot.press("escape", "escape")
        await pilot.pause()
        app.draw()
        assert told(app).attended == "serve-1"


# ----------------------------------------------------------------------------------------------------- sizes of it


@pytest.mark.parametrize("count", [1, 17, 64])
async def test_the_fleet_screen_in_any_size(count: int) -> None:
    """It is resized while it is looked at; every row keeps its width, the chosen host stays in sight."""
    state = replace(FLEET, hosts=FLEET.hosts[:count])
    app = still_app(first=state)
    async with app.run_test(size=(200, 50)) as pilot:
        await pilot.press("f", "end")
        await pilot.pause()
        last = fleet(state)[-1].name
        for size in ((48, 12), (80, 24), (30, 6), (120, 40), (48, 12)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert {len(row) for row in rows(app)} == {size[0]}
            assert last in text(app)


async def test_of_more_hosts_than_fit_it_is_said_which_are_in_sight() -> None:
    """A page of fifty-one looks whole: nothing else says that more follow."""
    app = still_app("fleet")
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("f")
        await pilot.pause()
        assert "1–51 of 64 hosts, 504 GPUs" in rows(app)[0]
        await pilot.press("end")
        await pilot.pause()
        assert "52–64 of 64 hosts" in rows(app)[0]
        await pilot.press("slash", *"gpu-", "enter")
        await pilot.resize_terminal(80, 12)
        await pilot.pause()
        assert "64–64 of 64 hosts" in rows(app)[0]
        await pilot.resize_terminal(200, 50)
        await pilot.pause()
        assert "fleet  64 hosts" in rows(app)[0]
        await pilot.press("slash", *"verdict:hung", "enter")
        await pilot.resize_terminal(48, 12)
        await pilot.pause()
        assert "36–40 of 40 hosts of 64" in rows(app)[0]


def test_names_that_are_cut_stay_apart() -> None:
    assert short_names(["gpu-a01", "gpu-a02"], 8) == ["gpu-a01", "gpu-a02"]
    assert short_names(["ip-10-0-12-7", "ip-10-0-12-8"], 8) == ["…-0-12-7", "…-0-12-8"]
    assert short_names(["node01.hpc.local", "node02.hpc.local"], 8) == ["node01", "node02"]
    assert short_names(["trainer-abc.a.example", "server-xyz.b.example"], 8) == ["trainer…", "server-…"]


async def test_the_other_launches_of_a_host_are_told_of() -> None:
    app = still_app(first=launches(12))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("f")
        await pilot.pause()
        assert "HUNG  sglang model-1  and 2 launches more" in text(app)
