"""Mean, median and spread of a few floats, some of which may be missing.

The standard ``statistics`` takes 20 ms to import, before first paint.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import fsum, sqrt


def mean(values: Iterable[float]) -> float:
    """The arithmetic mean.

    Raises: ZeroDivisionError where there are no values.
    """
    known = list(values)
    return fsum(known) / len(known)


def median(values: Iterable[float]) -> float:
    """The middle value, or the mean of the two in the middle.

    Raises: IndexError where there are no values.
    """
    known = sorted(values)
    middle = len(known) // 2
    return known[middle] if len(known) % 2 else (known[middle - 1] + known[middle]) / 2


def spread(values: Iterable[float]) -> float:
    """The population's standard deviation; 0 of nothing and of one value."""
    known = list(values)
    if len(known) < 2:
        return 0.0
    centre = mean(known)
    return sqrt(fsum((value - centre) ** 2 for value in known) / len(known))


def mean_known(values: Iterable[float | None]) -> float | None:
    """The mean of the readings that are there; ``None`` where none is."""
    known = [value for value in values if value is not None]
    return mean(known) if known else None


def total_known(values: Iterable[float | None]) -> float | None:
    """The sum of the readings that are there; ``None`` where none is."""
    known = [value for value in values if value is not None]
    return fsum(known) if known else None


def share(value: float | None, whole: float | None) -> float | None:
    """Which part of the whole a reading is; ``None`` where either is not known, or the whole is nothing."""
    return None if value is None or not whole else value / whole
