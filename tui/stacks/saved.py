"""The JSON of ``dump --json``, version 1, back to the stacks that it was made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast, get_args

from tui.model import ProcessStacks, ThreadStack
from tui.safetext import clean
from tui.stacks.called import Called, Finding, FindingKind
from tui.stacks.frames import bounded, frame

_MOST_PROCESSES = 16384
_MOST_THREADS = 4096
_MOST_SOURCES = 16
_MOST_FINDINGS = 1000
_MOST_RANKS = 1 << 17
_TEXT = 256


def from_json(value: object) -> list[ProcessStacks]:
    """Its processes, those included that gave no stack and say why. What else is there is left out; never raises."""
    rows = _rows(cast("Mapping[str, Any]", value), "processes") if isinstance(value, dict) else []
    found = [_process(row) for row in rows[:_MOST_PROCESSES]]
    return [process for process in found if process.error or any(thread.frames for thread in process.threads)]


def called_from_json(value: object) -> list[Called]:
    """What flight recorders and RAS said, as ``dump --json`` printed it; never raises."""
    rows = _rows(cast("Mapping[str, Any]", value), "called") if isinstance(value, dict) else []
    return [
        Called(
            source=_text(row, "source") or "",
            findings=tuple(_finding(one) for one in _rows(row, "findings")[:_MOST_FINDINGS]),
            known=frozenset(_numbers(row, "known")),
            moves=_flag(row, "moves") or False,
        )
        for row in rows[:_MOST_SOURCES]
    ]


def _finding(row: Mapping[str, Any]) -> Finding:
    kind = _text(row, "kind")
    known: FindingKind = next((k for k in get_args(FindingKind) if k == kind), "unfinished")
    return Finding(known, _text(row, "group") or "", tuple(_numbers(row, "ranks")), _text(row, "says", 1000) or "")


def _process(row: Mapping[str, Any]) -> ProcessStacks:
    seconds: object = row.get("duration_s")
    return ProcessStacks(
        host=_text(row, "host") or "",
        pid=_integer(row, "pid"),
        rank=_integer(row, "rank"),
        method=_text(row, "method") or "py-spy",
        threads=tuple(_thread(thread) for thread in _rows(row, "threads")[:_MOST_THREADS]),
        error=_text(row, "error"),
        role=_text(row, "role") or "rank",
        duration_s=float(seconds) if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) else None,
    )


def _thread(row: Mapping[str, Any]) -> ThreadStack:
    frames = [frame(one.get("function"), one.get("file"), one.get("line")) for one in _rows(row, "frames")]
    return ThreadStack(
        os_thread_id=_integer(row, "os_thread_id"),
        name=_text(row, "name") or "",
        frames=bounded(frames),
        active=_flag(row, "active"),
        owns_gil=_flag(row, "owns_gil"),
        main=_flag(row, "main") or False,
        thread_id=_integer(row, "thread_id"),
        state=_text(row, "state"),
        wchan=_text(row, "wchan"),
        syscall=_text(row, "syscall"),
    )


def _rows(row: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    value: object = row.get(key)
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("Mapping[str, Any]", item) for item in items if isinstance(item, dict)]


def _text(row: Mapping[str, Any], key: str, limit: int = _TEXT) -> str | None:
    value: object = row.get(key)
    return clean(value, limit) if isinstance(value, str) else None


def _numbers(row: Mapping[str, Any], key: str) -> list[int]:
    value: object = row.get(key)
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [n for n in items[:_MOST_RANKS] if type(n) is int and 0 <= n < _MOST_RANKS]


def _integer(row: Mapping[str, Any], key: str) -> int | None:
    value: object = row.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64 else None


def _flag(row: Mapping[str, Any], key: str) -> bool | None:
    value: object = row.get(key)
    return value if isinstance(value, bool) else None
