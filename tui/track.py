"""Readings of one thing (a GPU, a process) over time, in bounded memory: numbers in columns, three resolutions.

Every sample for ten minutes, one in ten seconds for three hours, one a minute for a day. A missing reading is a NaN in
its column and nowhere else; what leaves this module is ``None``.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

_TIERS = ((0.0, 600.0), (10.0, 10_800.0), (60.0, 86_400.0))
"""(least distance of two rows, how long a row is kept), in seconds."""

COVERED = 0.8
"""Least sampled share of a window; below it nothing is known about the window."""

NAN = math.nan

_WINDOWS = 16
"""So many windows' coverage is remembered from one row to the next."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A figure over a window: ``value`` is ``None`` where the window is not covered or the reading is missing."""

    value: float | None
    coverage: float = 0.0
    span_s: float = 0.0


UNKNOWN = Reading(None)


class _Tier:
    __slots__ = ("columns", "every", "kept", "times")

    def __init__(self, width: int, every: float, kept: float) -> None:
        self.every, self.kept = every, kept
        self.times = array("d")
        self.columns = [array("d") for _ in range(width)]

    def add(self, t: float, row: Sequence[float | None]) -> None:
        times = self.times
        if times and t - times[-1] < max(self.every, 1e-6):
            return
        times.append(t)
        for column, value in zip(self.columns, row, strict=True):
            column.append(NAN if value is None else value)
        if times[0] < t - 1.25 * self.kept:  # a fifth at once, so that the cost of moving memory is spread
            stale = bisect_left(times, t - self.kept)
            del times[:stale]
            for column in self.columns:
                del column[:stale]


class Track:
    """Rows of ``fields`` at rising times (seconds on the monitor's timeline, paced by the host's own clock)."""

    __slots__ = ("_covered", "_index", "_tiers")

    def __init__(self, fields: tuple[str, ...]) -> None:
        self._index = {name: i for i, name in enumerate(fields)}
        self._tiers = tuple(_Tier(len(fields), every, kept) for every, kept in _TIERS)
        self._covered: dict[tuple[float, float, float], float] = {}

    def add(self, t: float, row: Sequence[float | None]) -> None:
        self._covered.clear()
        for tier in self._tiers:
            tier.add(t, row)

    @property
    def first_t(self) -> float | None:
        return next((tier.times[0] for tier in reversed(self._tiers) if tier.times), None)

    @property
    def last_t(self) -> float | None:
        times = self._tiers[0].times
        return times[-1] if times else None

    def everything(self) -> tuple[array[float], dict[str, array[float]]]:
        """All rows that are kept, oldest first, each stretch in its finest resolution: times, and values by field."""
        times: array[float] = array("d")
        columns = {name: array("d") for name in self._index}
        for i, tier in enumerate(reversed(self._tiers)):
            finer = [other.times[0] for other in self._tiers[: len(self._tiers) - 1 - i] if other.times]
            end = bisect_left(tier.times, min(finer, default=math.inf))
            times.extend(tier.times[:end])
            for name, index in self._index.items():
                columns[name].extend(tier.columns[index][:end])
        return times, columns

    def _tier(self, since: float) -> _Tier:
        for tier in self._tiers:
            if tier.times and tier.times[0] <= since:
                return tier
        return min(self._tiers, key=lambda tier: (tier.times[0] if tier.times else math.inf, tier.every))

    def window(self, field: str, since: float, until: float) -> tuple[array[float], array[float]]:
        """Times and values (NaN: missing) of the rows in ``[since, until]``."""
        tier = self._tier(since)
        lo, hi = bisect_left(tier.times, since), bisect_right(tier.times, until)
        return tier.times[lo:hi], tier.columns[self._index[field]][lo:hi]

    def values(self, field: str, since: float, until: float) -> list[float]:
        """The known values of the rows in ``[since, until]``."""
        return [value for value in self.window(field, since, until)[1] if value == value]

    def recent(self, field: str, since: float, until: float, gap_s: float) -> list[float]:
        """As :meth:`values`; where the next row is a little late, the last one before."""
        values = self.values(field, since, until)
        return values or self.values(field, until - gap_s, until)[-1:]

    def last(self, field: str) -> float | None:
        column = self._tiers[0].columns[self._index[field]]
        return column[-1] if column and column[-1] == column[-1] else None

    def last_growth(self, field: str, since: float, until: float, per_s: float) -> float | None:
        """When a counter grew last by at least ``per_s`` a second between two rows, in ``[since, until]``."""
        times, column = self._tiers[0].times, self._tiers[0].columns[self._index[field]]
        for i in range(bisect_right(times, until) - 1, 0, -1):
            if times[i] < since:
                break
            if column[i] - column[i - 1] >= per_s * (times[i] - times[i - 1]):  # never true of a NaN
                return times[i]
        return None

    def coverage(self, since: float, until: float, gap_s: float) -> float:
        """The share of ``[since, until]`` that lies within ``gap_s`` of a row at its end."""
        if until <= since:
            return 0.0
        covered = self._covered.get(asked := (since, until, gap_s))
        if covered is None:  # every field of a row is asked for the same few windows
            if len(self._covered) >= _WINDOWS:
                self._covered.clear()
            covered = self._covered[asked] = self._coverage(since, until, gap_s)
        return covered

    def _coverage(self, since: float, until: float, gap_s: float) -> float:
        tier = self._tier(since)
        times, gap = tier.times, max(gap_s, 1.5 * tier.every)
        hi = bisect_right(times, until)
        covered, right = 0.0, until
        for i in range(hi - 1, -1, -1):
            left = times[i]
            if right - left <= gap:
                covered += right - max(left, since)
            right = left
            if left <= since:
                break
        return min(1.0, covered / (until - since))

    def mean(self, field: str, since: float, until: float, gap_s: float) -> Reading:
        """The mean of a gauge over the window."""
        coverage = self.coverage(since, until, gap_s)
        values = self.recent(field, since, until, gap_s)
        if not values or coverage < COVERED:
            return Reading(None, coverage, until - since)
        return Reading(sum(values) / len(values), coverage, until - since)

    def rate(self, field: str, since: float, until: float, gap_s: float) -> Reading:
        """The growth a second of a counter over the window, between the rows that enclose it best.

        A counter that jumps back belongs to something new; that step counts as nothing.
        """
        coverage = self.coverage(since, until, gap_s)
        if coverage < COVERED:
            return Reading(None, coverage, until - since)
        tier = self._tier(since)
        lo, hi = max(0, bisect_right(tier.times, since) - 1), bisect_right(tier.times, until)
        if lo + 1 < hi and since - tier.times[lo] > max(gap_s, 1.5 * tier.every):
            lo += 1
        if hi - lo == 1 and lo > 0 and tier.times[lo] - tier.times[lo - 1] <= max(gap_s, 1.5 * tier.every):
            lo -= 1  # the next sample is a little late
        column, first, last = tier.columns[self._index[field]], lo, hi - 1
        while first < last and column[first] != column[first]:  # NaN: missing
            first += 1
        while last > first and column[last] != column[last]:
            last -= 1
        if last <= first:
            return Reading(None, coverage, until - since)
        grown, span_s = column[last] - column[first], tier.times[last] - tier.times[first]
        if grown < 0:
            known = [value for value in column[first : last + 1] if value == value]
            grown = sum(max(0.0, after - before) for before, after in pairwise(known))
        return Reading(grown / span_s, coverage, span_s)
