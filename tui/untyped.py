"""Values out of what a host sent, which may hold anything: what has not the type that is asked for is unknown."""

from __future__ import annotations

import math
from typing import Any, cast

from tui.safetext import clean

_MOST = 65536
"""Most items of any list in a frame: a host has fewer processes, and a display needs no more."""


def number(value: object) -> float | None:
    """A finite number, else ``None``; booleans are none."""
    if type(value) is float:
        return value if math.isfinite(value) else None
    if type(value) is int:
        return float(value) if -(1 << 200) < value < 1 << 200 else None
    return None


def integer(value: object) -> int | None:
    """A whole number of at most 64 bits (signal masks are unsigned), else ``None``."""
    return value if type(value) is int and -(1 << 63) <= value < 1 << 64 else None


def text(value: object) -> str | None:
    """A string, cleaned, else ``None``."""
    return clean(value) if isinstance(value, str) else None


def listed(value: object) -> list[Any]:
    """A list, bounded; anything else is an empty one."""
    return cast("list[Any]", value)[:_MOST] if isinstance(value, list) else []


def mapped(value: object) -> dict[str, Any]:
    """A mapping by names; anything else is an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
