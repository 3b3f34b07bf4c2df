"""Lines that come back on a clock: neither progress nor alarm, whether their text is known or was never seen before."""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass
from math import isinf
from typing import Literal

Novelty = Literal["new", "again", "clock"]
"""new: a line of a kind not seen before, or of a burst that still goes on. again: a kind seen earlier. clock: a kind
that comes at a steady period, or at gaps that double."""

_FIGURES = re.compile(r"0x[0-9a-fA-F]+|[0-9]+")
_BURST_S = 5.0
_KINDS = 512
_STEADY = 0.25


@dataclass(slots=True)
class _Kind:
    first: float
    last: float
    gap: float = 0.0
    steady: int = 0


class Recurrence:
    """Tells kinds of lines apart by their text without figures, and keeps when each came last."""

    def __init__(self) -> None:
        self._kinds: OrderedDict[str, _Kind] = OrderedDict()

    def note(self, text: str, t: float | None) -> Novelty:
        """Take a line in; ``t`` ``None`` is what lay there before anybody looked."""
        shape = _FIGURES.sub("#", text[:200])
        when = float("-inf") if t is None else t
        kind = self._kinds.get(shape)
        if kind is None:
            self._kinds[shape] = _Kind(when, when)
            if len(self._kinds) > _KINDS:
                self._kinds.popitem(last=False)
            return "new"
        self._kinds.move_to_end(shape)
        gap, kind.last = when - kind.last, when
        if gap < _BURST_S or t is None:
            return "new" if when - kind.first < _BURST_S or t is None else "again"
        if isinf(gap):  # its last time is not known, only that it lay there
            return "again"
        usual, kind.gap = kind.gap, gap
        on_clock = usual > 0 and (abs(gap - usual) <= _STEADY * usual or abs(gap - 2 * usual) <= _STEADY * usual)
        kind.steady = kind.steady + 1 if on_clock else 0
        return "clock" if kind.steady >= 1 else "again"
