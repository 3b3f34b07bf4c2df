"""The stamps that logs carry, as seconds on a clock of their own: good for differences inside one log, no more."""

from __future__ import annotations

import re
from datetime import datetime

_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?")
_US = re.compile(r"(\d\d)/(\d\d)/(\d{4})[- ](\d\d):(\d\d):(\d\d)")
_SHORT = re.compile(r"\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) (\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)")
_GLOG = re.compile(r"\b[IWEF](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
_LEAP = 2000
"""A year for stamps that have none; it has a 29th of February."""


def stamp(text: str) -> float | None:
    """The first stamp in the head of a line, in seconds; ``None`` where there is none or it is no date."""
    head = text[:120]
    try:
        if found := _ISO.search(head):
            year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
            fraction = float(f"0.{found[7] or 0}")
        elif found := _US.search(head):
            month, day, year, hour, minute, second = (int(part) for part in found.groups())
            fraction = 0.0
        elif found := _SHORT.search(head):
            year, (month, day, hour, minute, second) = _LEAP, (int(part) for part in found.groups())
            fraction = 0.0
        elif found := _GLOG.search(head):
            year, (month, day, hour, minute, second) = _LEAP, (int(part) for part in found.groups()[:5])
            fraction = float(f"0.{found[6] or 0}")
        else:
            return None
        return (datetime(year, month, day, hour, minute, second) - datetime(1970, 1, 1)).total_seconds() + fraction
    except ValueError:
        return None
