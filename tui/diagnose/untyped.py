"""Values out of a host's answers, which may hold anything: what has not the type that is asked for is unknown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast


def number(value: object) -> float | None:
    """A number that is none of JSON's oddities."""
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e18
    return float(cast(float, value)) if known else None


def mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def text(value: object) -> str:
    return value if isinstance(value, str) else ""
