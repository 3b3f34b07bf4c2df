"""Values out of a host's answers, which may hold anything: what has not the type that is asked for is unknown."""

from __future__ import annotations

from typing import cast


def number(value: object) -> float | None:
    """A number that is none of JSON's oddities."""
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e18
    return float(cast(float, value)) if known else None
