"""The ranks as a tree below their parents, in several orders, with what each of them does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ui import fakes
from tests.ui.driving import still_app, text
from tui.model import ChildGroup, ProcView
from tui.ui.ranks import ORDERS, doing, tree

LAUNCHER = fakes.process("a", None, 10, 0, ppid=1)
BUILDING = fakes.process(
    "a",
    0,
    11,
    0,
    ppid=10,
    children=(ChildGroup("ptxas", 8, 900.0), ChildGroup("sh", 1, 0.0)),
    children_cpu_pct=(780.0, 0.0),
)
WAITING = fakes.process("a", 1, 12, 1, ppid=10, wchan="futex_wait_queue")
ELSEWHERE = fakes.process("b", 2, 11, 0, ppid=3)


def shape(processes: list[ProcView], order: int = 0) -> list[str]:
    return [
        f"{n.guide}{n.process.pid if n.child is None else n.process.children[n.child].comm}"
        for n in tree(processes, ORDERS[order][1])
    ]


def test_processes_stand_below_their_parents_and_children_below_their_rank() -> None:
    assert shape([WAITING, ELSEWHERE, BUILDING, LAUNCHER]) == ["10", "├ 11", "│ ├ ptxas", "│ └ sh", "└ 12", "11"]


def test_a_circle_of_parents_ends() -> None:
    a, b = replace(WAITING, pid=5, ppid=6), replace(WAITING, pid=6, ppid=5)
    assert tree([a, b, LAUNCHER], ORDERS[0][1])


def test_every_order_keeps_every_process_once() -> None:
    processes = [*fakes.snapshot("multi").launches[0].processes]
    for _, order in ORDERS:
        nodes = tree(processes, order)
        assert sorted((n.process.host, n.process.pid) for n in nodes if n.child is None) == sorted(
            (p.host, p.pid) for p in processes
        )


@pytest.mark.parametrize(
    ("process", "words"),
    [
        (BUILDING, "8× ptxas at 7.8 cores"),
        (WAITING, "sleeps in futex_wait_queue"),
        (replace(WAITING, cpu_pct=99.4, state="R"), "1.0 cores"),
        (replace(WAITING, read_mib_s=310.0, state="D"), "reads 310M/s"),
        (replace(WAITING, state="D", wchan="rpc_wait_bit_killable"), "blocked in rpc_wait_bit_killable"),
        (replace(WAITING, state="T"), "stopped"),
        (replace(WAITING, state="Z", cpu_pct=99.0), "has ended, not yet reaped"),
        (replace(WAITING, wchan=None, cpu_pct=None, read_mib_s=None), "sleeps"),
    ],
)
def test_what_a_process_does_in_a_few_words(process: ProcView, words: str) -> None:
    assert doing(process) == words


async def test_the_open_pane_shows_the_tree_and_is_put_in_another_order() -> None:
    app = still_app("hung")
    async with app.run_test(size=(160, 40)) as pilot:
        await pilot.press("p")
        await pilot.pause()
        shown = text(app)
        assert "├ scheduler" in shown
        assert "sleeps in futex_wait_queue" in shown
        await pilot.press("o")
        await pilot.pause()
        assert "most CPU" in text(app)


async def test_in_a_narrow_pane_it_is_still_said_what_every_rank_does() -> None:
    app = still_app("hung")
    async with app.run_test(size=(48, 40)) as pilot:
        await pilot.press("p")
        await pilot.pause()
        shown = next(row for row in text(app).splitlines() if "├ scheduler 1 " in row)
        assert "S   futex_wait_queue" in shown and len(shown.rstrip()) <= 48


async def test_a_column_is_hidden_and_shown_again() -> None:
    app = still_app("hung")
    async with app.run_test(size=(200, 50)) as pilot:
        assert "on SIGABRT" in text(app)
        hide = next(c for c in app.get_system_commands(app.screen) if c.title == "Hide the column on SIGABRT")
        hide.callback()
        await pilot.pause()
        assert "on SIGABRT" not in text(app)
        show = next(c for c in app.get_system_commands(app.screen) if c.title == "Show the column on SIGABRT")
        show.callback()
        await pilot.pause()
        assert "on SIGABRT" in text(app)
