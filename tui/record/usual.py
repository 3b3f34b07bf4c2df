"""From what a phase took in past launches to what is usual: pure, and simple enough to be explained in a sentence.

A first start compiles what later ones read from a cache, so the times of one phase may come in two clusters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from tui.model import Usual

FEW = 5
"""Of fewer launches, all count; from this many on, the fastest and the slowest tenth are left out."""

APART = 2.0
"""Two clusters lie further apart than this ratio, with two launches and more in each."""


class Took(NamedTuple):
    """A phase of a past launch: its seconds, and the longest in it that nobody was seen at work (``None``: unknown)."""

    seconds: float
    quiet_s: float | None


def usual(past: Sequence[Took]) -> tuple[Usual, ...]:
    """What is usual by ``past``: one range, or that of warm and that of cold starts; nothing by nothing."""
    known = sorted(past)
    if not known:
        return ()
    cut = _cut([took.seconds for took in known])
    if cut is None:
        return (_range(known),)
    return _range(known[:cut], "warm"), _range(known[cut:], "cold")


def _cut(seconds: Sequence[float]) -> int | None:
    """Where the sorted times fall apart: at their largest ratio, if it is large enough."""
    ratios = [(max(b, 1.0) / max(a, 1.0), n) for n, (a, b) in enumerate(pairwise(seconds), 1)]
    ratio, cut = max(ratios[1:-1], default=(0.0, 0))
    return cut if ratio > APART else None


def _range(known: Sequence[Took], start: str = "") -> Usual:
    low, high = _inner([took.seconds for took in known])
    _, quiet_s = _inner(sorted(took.quiet_s or 0.0 for took in known))
    return Usual(low, high, quiet_s, len(known), start)


def _inner(known: Sequence[float]) -> tuple[float, float]:
    """The least and the greatest without the outer tenths; without one at each end where a tenth is less."""
    last = len(known) - 1
    if len(known) < FEW:
        return known[0], known[last]
    return known[math.ceil(last / 10)], known[math.floor(9 * last / 10)]


def words(past: Usual) -> str:
    """``usually 38–52 s (7 launches)``, ``cold starts took 4–6 min (2)``, ``41 s last time``."""
    took = span(past.low_s, past.high_s)
    if past.launches == 1:
        return f"{took} last time"
    if past.start == "cold":
        return f"cold starts took {took} ({past.launches})"
    return f"usually {took} ({past.launches} launches)"


def span(low_s: float, high_s: float) -> str:
    """A range of seconds in one unit, rounded outwards: ``38–52 s``, ``4–6 min``, ``2–3 h``."""
    size, unit = (1, "s") if high_s < 180 else (60, "min") if high_s < 10_800 else (3600, "h")
    low, high = math.floor(low_s / size), math.ceil(high_s / size)
    if low_s == high_s:
        return f"{round(low_s / size)} {unit}"
    if low == 0 and size > 1:
        return f"{span(low_s, low_s)} to {high} {unit}"
    return f"{low}–{high} {unit}" if high > low else f"{high} {unit}"
