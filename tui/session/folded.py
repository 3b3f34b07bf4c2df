"""Stacks as the agent folds them: a table of frames, and threads as lists of numbers into it."""

from __future__ import annotations

from typing import Any, cast

from tui.model import Frame, ThreadStack
from tui.safetext import clean
from tui.stacks.frames import bounded, frame
from tui.stacks.pyspy import MAX_THREADS, mark_main


def unfold(value: object, pid: int) -> tuple[ThreadStack, ...]:
    """The threads of one process, main thread first; see the agent's ``dumper.fold``. What is not as expected is left
    out; never raises."""
    said = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    frames = [_frame(row) for row in _list(said.get("frames"))]
    threads = [_thread(row, frames) for row in _list(said.get("threads"))[:MAX_THREADS]]
    return mark_main([thread for thread in threads if thread is not None], pid)


def _frame(row: object) -> Frame:
    function, file, line = (*_list(row), None, None, None)[:3]
    return frame(function, file, line)


def _thread(row: object, frames: list[Frame]) -> ThreadStack | None:
    fields = _list(row)
    if len(fields) < 6:
        return None
    tid, thread_id, name, active, owns_gil, stack = fields[:6]
    numbers = [n for n in _list(stack) if isinstance(n, int) and 0 <= n < len(frames)]
    return ThreadStack(
        os_thread_id=_integer(tid),
        name=clean(name, 256) if isinstance(name, str) else "",
        frames=bounded([frames[n] for n in numbers]),
        active=active if isinstance(active, bool) else None,
        owns_gil=owns_gil if isinstance(owns_gil, bool) else None,
        thread_id=_integer(thread_id),
    )


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64 else None
