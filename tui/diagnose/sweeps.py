"""What a sweep over every thread of a process showed: the answers to the ``threads`` look, two of them compared.

A process's CPU and main thread can look asleep while another of its threads is blocked in storage or in the driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from tui.model import Fact

BUSY_PCT = 20.0


@dataclass(frozen=True, slots=True)
class Sweep:
    """One process's threads, by the last two looks. ``busy``: names of those that burned a fifth of a core between
    them; ``blocked``: where those wait that were in uninterruptible sleep both times; ``names``: all, as the kernel
    cuts them."""

    t: float
    threads: int
    busy: tuple[str, ...]
    blocked: tuple[str, ...]
    names: frozenset[str]

    @property
    def asleep(self) -> bool:
        return not self.busy and not self.blocked


def sweep(facts: Sequence[Fact], pid: int) -> Sweep | None:
    """``facts``: one host's ``threads`` answers, oldest first. ``None`` where the process is not in the newest."""
    looks = [(fact.t, rows) for fact in facts[-4:] if (rows := _rows(fact.value, pid)) is not None]
    if not looks:
        return None
    t, now = looks[-1]
    earlier = looks[-2] if len(looks) > 1 else None
    before = {row.get("tid"): row for row in earlier[1]} if earlier is not None else {}
    busy = [
        _name(row) for row in now if earlier is not None and _burned(row, before.get(row.get("tid")), t - earlier[0])
    ]
    blocked = [
        str(row.get("wchan") or "?")
        for row in now
        if row.get("state") == "D" and before.get(row.get("tid"), {}).get("state") == "D"
    ]
    return Sweep(t, len(now), tuple(busy), tuple(blocked), frozenset(_name(row) for row in now))


def _rows(value: object, pid: int) -> list[Mapping[str, Any]] | None:
    """The threads of ``pid`` in an answer, which may carry them under its own name or bare."""
    if not isinstance(value, dict):
        return None
    answer = cast("dict[str, Any]", value)
    threads = answer.get("threads", answer)
    rows = cast("dict[str, Any]", threads).get(str(pid)) if isinstance(threads, dict) else None
    if not isinstance(rows, list):
        return None
    return [cast("Mapping[str, Any]", row) for row in cast("list[object]", rows) if isinstance(row, dict)]


def _name(row: Mapping[str, Any]) -> str:
    return str(row.get("comm") or "?")


def _burned(row: Mapping[str, Any], before: Mapping[str, Any] | None, seconds: float) -> bool:
    now, then = row.get("cpu_s"), None if before is None else before.get("cpu_s")
    if not isinstance(now, (int, float)) or not isinstance(then, (int, float)) or seconds <= 0:
        return False
    return 100.0 * (now - then) / seconds >= BUSY_PCT
