"""The stamps that logs carry, as seconds on a clock of their own: good for differences inside one log, no more."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date
from functools import lru_cache

_MONTH_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS = {name: i for i, name in enumerate(_MONTH_NAMES, 1)}
_DATE = r"(\d{4})-(\d\d)-(\d\d)"
_LEAP = 2000
"""A year for stamps that have none; it has a 29th of February."""

HEAD = 120
"""Characters of a line in which a stamp is looked for."""

_DAY = 86400.0
_QUARTER = 900.0


def _fraction(digits: str | None) -> float:
    return float(f"0.{digits}") if digits else 0.0


@lru_cache(maxsize=64)
def _midnight(year: int, month: int, day: int) -> float:
    return (date(year, month, day).toordinal() - date(1970, 1, 1).toordinal()) * _DAY


def _seconds(year: int, month: int, day: int, hour: int, minute: int, second: int) -> float:
    if hour > 23 or minute > 59 or second > 60:
        raise ValueError("no time of day")
    return _midnight(year, month, day) + hour * 3600.0 + minute * 60.0 + second


def _iso(m: re.Match[str]) -> float:
    return _seconds(*(int(part) for part in m.groups()[:6])) + _fraction(m[7])


def _zoned(m: re.Match[str]) -> float:
    zone = m[8].replace(":", "")
    ahead = 0.0 if zone == "Z" else float(f"{zone[0]}1") * (int(zone[1:3]) * 3600.0 + int(zone[3:5]) * 60.0)
    return _iso(m) - ahead


def _us(m: re.Match[str]) -> float:
    month, day, year, hour, minute, second = (int(part) for part in m.groups())
    return _seconds(year, month, day, hour, minute, second)


def _yearless(m: re.Match[str]) -> float:
    month, day, hour, minute, second = (int(part) for part in m.groups()[:5])
    return _seconds(_LEAP, month, day, hour, minute, second) + _fraction(m[6])


def _syslog(m: re.Match[str]) -> float:
    month = _MONTHS[m[1]]
    return _seconds(_LEAP, month, int(m[2]), int(m[3]), int(m[4]), int(m[5])) + _fraction(m[6])


def _clock(m: re.Match[str]) -> float:
    return int(m[1]) * 3600.0 + int(m[2]) * 60.0 + int(m[3]) + _fraction(m[4])


def _number(m: re.Match[str]) -> float:
    return float(m[1])


def _micros(m: re.Match[str]) -> float:
    return float(m[1]) / 1e6


def _elapsed(m: re.Match[str]) -> float:
    return int(m[1]) * 60.0 + int(m[2]) + int(m[3]) / 1e3 + int(m[4]) / 1e6


_KINDS: tuple[tuple[str, re.Pattern[str], Callable[[re.Match[str]], float]], ...] = (
    # ISO 8601 with its zone, and without like Python's asctime; America's order (TensorRT-LLM); vLLM's without a year;
    # glog's (torch, Triton).
    ("zoned", re.compile(rf"{_DATE}[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{{1,9}}))?(Z|[+-]\d\d:?\d\d)"), _zoned),
    ("iso", re.compile(rf"{_DATE}[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{{1,9}}))?(?!\d|Z|[+-]\d\d:?\d\d)"), _iso),
    ("us", re.compile(r"(\d\d)/(\d\d)/(\d{4})[- ](\d\d):(\d\d):(\d\d)"), _us),
    ("vllm", re.compile(r"\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) (\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)()"), _yearless),
    ("glog", re.compile(r"(?:^|[\[: ])[IWEF](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?"), _yearless),
    (
        "syslog",
        re.compile(rf"\b({'|'.join(_MONTH_NAMES)}) ([ \d]\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{{1,9}}))?"),
        _syslog,
    ),
    # journald's microseconds, a bare Unix time, the kernel's seconds since boot, llama.cpp's minutes since its start,
    # and last the time of day alone.
    ("micros", re.compile(r"^(\d{16})$"), _micros),
    ("unix", re.compile(r"^\[?(\d{10}\.\d{1,9})\b"), _number),
    ("boot", re.compile(r"^(?:\w+: )?\[ *(\d{1,8}\.\d{6})\] "), _number),
    ("elapsed", re.compile(r"^(\d{1,4})\.(\d\d)\.(\d{3})\.(\d{3}) [A-Z] "), _elapsed),
    ("day", re.compile(r"^[\[(]?(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?\b"), _clock),
)
_BY_NAME = {name: (pattern, value) for name, pattern, value in _KINDS}


def stamp(text: str) -> float | None:
    """The first stamp in the head of a line, in seconds; ``None`` where there is none or it is no date."""
    found = _find(text, "")
    return None if found is None else found[1]


def _find(text: str, usual: str) -> tuple[str, float] | None:
    """(kind, seconds); ``usual`` is the kind to try first."""
    head = text[:HEAD]
    if usual and (found := _BY_NAME[usual][0].search(head)) is not None:
        try:
            return usual, _BY_NAME[usual][1](found)
        except ValueError:
            pass
    for name, pattern, value in _KINDS:
        if (found := pattern.search(head)) is not None:
            try:
                return name, value(found)
            except ValueError:
                continue
    return None


class Stamps:
    """One log's stamps on one clock, though several kinds may stand in it.

    A kind that appears later is joined on: kinds of other years (none at all) or of other time zones (a difference of
    whole quarters of an hour, or of whole hours and a silence) are shifted to where the log was at that moment.
    """

    def __init__(self) -> None:
        self._shift: dict[str, float] = {}
        self._last: float | None = None
        self._usual = ""

    def read(self, text: str) -> float | None:
        """The line's time in seconds on the log's own clock, ``None`` where it has no stamp."""
        found = _find(text, self._usual)
        if found is None:
            return None
        kind, raw = found
        self._usual = kind
        if kind not in self._shift:
            self._shift[kind] = self._joined(raw)
        t = raw + self._shift[kind]
        if kind == "day" and self._last is not None and self._last - t > _DAY / 2:
            self._shift[kind] += _DAY  # midnight has passed
            t += _DAY
        self._last = t
        return t

    def _joined(self, raw: float) -> float:
        if self._last is None:
            return 0.0
        ahead = raw - self._last
        if abs(ahead) > 30 * _DAY:
            return -ahead
        zones = round(ahead / _QUARTER) * _QUARTER
        silence = 120.0 if zones % 3600.0 == 0.0 else 5.0  # between two loggers' lines
        return -zones if 2 * _QUARTER <= abs(zones) <= 14 * 3600 and -5.0 < ahead - zones < silence else 0.0


class BarClock:
    """The time that bars tell between two stamps: each counts its own seconds from its first drawing."""

    def __init__(self) -> None:
        self._base: float | None = None
        self._elapsed = 0.0

    def stamped(self, t: float) -> None:
        self._base, self._elapsed = t, 0.0

    def drawn(self, elapsed_s: float | None) -> float | None:
        """When this drawing was made at the earliest; ``None`` before any stamp."""
        if self._base is None or elapsed_s is None:
            return None
        if elapsed_s < self._elapsed:  # another bar
            self._base += self._elapsed
        self._elapsed = elapsed_s
        return self._base + elapsed_s


def spread_back(stamps: Sequence[float | None], until: float) -> list[float | None]:
    """When lines were written, given their stamps and that the file was last written at ``until``.

    Lines without a stamp take that of the line before. Where a stamp runs back by more than a minute, another clock
    began: what stands before ends there.
    """
    filled: list[float | None] = []
    last: float | None = None
    for said in stamps:
        last = said if said is not None else last
        filled.append(last)
    if last is None:
        return [until for _ in stamps]
    found: list[float | None] = []
    offset, after = until - last, last
    for said in reversed(filled):
        if said is None:
            found.append(None)
            continue
        if said > after + 60.0:
            offset -= said - after
        after = said
        found.append(min(until, said + offset))
    found.reverse()
    return found
