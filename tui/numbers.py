"""Mean, median and spread of a few floats: the standard ``statistics`` takes 20 ms to import, before first paint."""

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
