"""Lines that come back on a clock: neither progress nor alarm, whether their text is known or was never seen before."""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass
from math import inf
from typing import Literal

from tui.diagnose.advance import Advance

Novelty = Literal["new", "again", "clock", "work"]
"""new: a line of a kind not seen before, or of a burst that still goes on. again: a kind seen earlier. clock: a kind
that comes at a steady period, or at gaps that double. work: a kind seen earlier whose figures count work."""

_HEX = re.compile(r"0x[0-9a-fA-F]+")
_WRITER = re.compile(r"\b(?:[TPD]P|EP|[Rr]ank[ =:]?|RANK |pid[ =]?)(\d+)")
_FIGURES = b"0123456789.,:+-%"
_BURST_S = 5.0
_CLOSE_S = 0.5
_KINDS = 512
_STEADY = 0.25


@dataclass(slots=True)
class _Kind:
    """When one kind of line came first and last, and whether its last burst came on a clock."""

    first: float
    last: float
    on_clock: bool = False


@dataclass(slots=True)
class _Clock:
    """When one writer said one kind of line last, at what gaps, and whether its figures counted work when they were
    read last, at ``said``."""

    last: float
    gap: float = 0.0
    steady: int = 0
    said: float = 0.0
    works: bool = False
    figures: Advance | None = None


class Recurrence:
    """Tells kinds of lines apart by their text without figures, and keeps when each came last, writer by writer.

    Ranks that beat in turn beat each on its own clock, though all say the same.
    """

    def __init__(self) -> None:
        self._kinds: OrderedDict[bytes, _Kind] = OrderedDict()
        self._clocks: OrderedDict[tuple[bytes | str, ...], _Clock] = OrderedDict()

    def note(self, text: str, t: float | None, writer: str = "") -> Novelty:
        """Take a line in; ``t`` ``None`` is what lay there before anybody looked."""
        shape = (_HEX.sub("", text[:200]) if "0x" in text else text[:200]).encode().translate(None, _FIGURES)
        when = float("-inf") if t is None else t
        key = (shape, writer, *_WRITER.findall(text[:200]))
        kind = self._kinds.get(shape)
        if kind is None:
            self._kinds[shape] = _Kind(when, when)
            if len(self._kinds) > _KINDS:
                self._kinds.popitem(last=False)
            self._beats(key, when)
            if t is not None:
                self._counts_work(key, text, when)
            return "new"
        self._kinds.move_to_end(shape)
        gap, kind.last = when - kind.last, when
        works = t is not None and self._counts_work(key, text, when)
        if t is None or (gap < _BURST_S and when - kind.first < _BURST_S):
            return "new"
        if gap >= _BURST_S:  # what comes together with a beat belongs to it
            kind.on_clock = self._beats(key, when)
        if works:
            return "work"
        return "clock" if kind.on_clock else "again"

    def _counts_work(self, key: tuple[bytes | str, ...], text: str, when: float) -> bool:
        """Whether this writer's figures say that it does something, whatever clock its lines come on."""
        clock = self._clocks.get(key)
        if clock is None:
            return False
        if clock.figures is None:
            clock.said, clock.figures = when, Advance(text)
        elif when - clock.said >= _CLOSE_S:  # of a flood a few lines tell as much
            gap, clock.said = when - clock.said, when
            clock.works = clock.figures.note(text, gap)
        return clock.works

    def _beats(self, key: tuple[bytes | str, ...], when: float) -> bool:
        """Whether this writer's line came on its clock; what comes together with a beat belongs to it."""
        clock = self._clocks.get(key)
        if clock is None:
            self._clocks[key] = _Clock(when)
            if len(self._clocks) > 4 * _KINDS:
                self._clocks.popitem(last=False)
            return False
        self._clocks.move_to_end(key)
        gap, clock.last = when - clock.last, when
        if not _BURST_S <= gap < inf:  # its last time is not known, only that it lay there; or still the same burst
            return clock.steady >= 1
        usual, clock.gap = clock.gap, gap
        likely = (
            usual,
            2 * usual,
            usual / 2,
        )  # on time, after a beat that was missed or a wait that doubles, after that
        steady = usual > 0 and any(abs(gap - expected) <= _STEADY * expected for expected in likely)
        clock.steady = clock.steady + 1 if steady else 0
        return clock.steady >= 1
