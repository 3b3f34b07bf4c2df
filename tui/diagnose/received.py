"""What a process receives over TCP, by the looks at its sockets: no counter of the kernel is a process's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from tui.history import HostHistory
from tui.untyped import number

FRESH_S = 45.0
"""The rate between the last two looks, in seconds, stands for now."""


def received_bps(host: HostHistory, pid: int, now: float) -> float | None:
    """Bytes a second between the last two looks; ``None`` where they are too long ago, or there were none."""
    for fact in reversed(host.facts.get("sockets", ())):
        if fact.t < now - FRESH_S:
            return None
        rate = number(_table(_table(fact.value).get("rates")).get(str(pid)))
        if rate is not None:
            return rate
    return None


def received_bytes(host: HostHistory, pid: int) -> float | None:
    """What its connections have brought so far, those that ended before a look left out; ``None`` where not known."""
    totals: list[float] = []
    for fact in host.facts.get("sockets", ()):
        row = _table(_table(_table(fact.value).get("sockets")).get(str(pid)))
        if "received" in row:
            totals.append(sum(number(count) or 0.0 for count in _table(row["received"]).values()))
    return max(totals, default=None)


def _table(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
