"""Stacks with C frames are compared with those without by their Python frames."""

from __future__ import annotations

from tui.model import Dump, Frame, Launch, Member, ProcessStacks, ThreadStack
from tui.session.taking import Taking

PYTHON = (Frame("all_reduce", "/srv/collective.py", 37), Frame("_run_code", "<frozen runpy>", 88))
SYMBOLS = Frame("sock_recv", "socketmodule.c", 3567)
"""C code of an interpreter with debug symbols: it has a line."""


def stacks(*frames: Frame, method: str = "py-spy") -> ProcessStacks:
    return ProcessStacks("a", 1, 0, method, (ThreadStack(1, "MainThread", frames, main=True),))


async def taken(first: ProcessStacks, second: ProcessStacks, native: ProcessStacks) -> Dump:
    shown: list[Dump] = []
    launch = Launch("l", "l", ("a",), members=(Member("a", 1, 10, 0),))
    taking = Taking(1, launch, "stacks", launch.members, shown.append)
    taking.put(first)
    taking.put_again(second)
    taking.put_native([native])
    taking.finish()
    return shown[-1]


async def test_c_frames_with_lines_are_no_movement() -> None:
    dump = await taken(stacks(*PYTHON), stacks(*PYTHON), stacks(SYMBOLS, *PYTHON))
    assert dump.before[0].threads == dump.processes[0].threads


async def test_another_python_frame_is() -> None:
    elsewhere = Frame("broadcast", "/srv/collective.py", 61)
    dump = await taken(stacks(elsewhere, PYTHON[1]), stacks(*PYTHON), stacks(SYMBOLS, *PYTHON))
    assert dump.before[0].threads != dump.processes[0].threads
