"""Threads as ``/proc/PID/task`` shows them, and their join with what py-spy saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from tui.model import ThreadStack


def from_look(rows: object, pid: int) -> tuple[ThreadStack, ...]:
    """The agent's answer for one process (objects with ``tid``, ``comm``, ``state``, ``wchan``, ``syscall``), main
    thread first, without frames."""
    items = cast("list[object]", rows) if isinstance(rows, list) else []
    threads = [_thread(cast("Mapping[str, Any]", item), pid) for item in items if isinstance(item, dict)]
    return tuple(sorted(threads, key=lambda t: not t.main))


def joined(stacks: Sequence[ThreadStack], kernel: Sequence[ThreadStack]) -> tuple[ThreadStack, ...]:
    """Stacks with the kernel's word on each thread. In another PID namespace ids differ and only the main thread,
    which both sides know as such, is joined."""
    by_tid = {t.os_thread_id: t for t in kernel}
    main = next((t for t in kernel if t.main), None)
    result: list[ThreadStack] = []
    for stack in stacks:
        at = main if stack.main else by_tid.get(stack.os_thread_id)
        result.append(stack if at is None else replace(stack, state=at.state, wchan=at.wchan, syscall=at.syscall))
    return tuple(result)


def _thread(row: Mapping[str, Any], pid: int) -> ThreadStack:
    tid: object = row.get("tid")
    wchan = _text(row, "wchan")
    return ThreadStack(
        os_thread_id=tid if isinstance(tid, int) else None,
        name=_text(row, "comm") or "",
        frames=(),
        main=tid == pid,
        state=_text(row, "state"),
        wchan=None if wchan == "0" else wchan,  # "0": it runs, or the reader may not know
        syscall=_text(row, "syscall"),
    )


def _text(row: Mapping[str, Any], key: str) -> str | None:
    value: object = row.get(key)
    return value if isinstance(value, str) and value else None
