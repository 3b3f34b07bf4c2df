"""Whether the figures of a line that comes back count work: a count that only rises, beside others that change."""

from __future__ import annotations

import re

_STAMP = re.compile(r"\d{4}[-/]\d\d[-/]\d\d[T ]?|\b\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d+)?")
_FIGURE = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?")
_TIME_WORD = re.compile(r"(?:elapsed|uptime|since|after|for|waited)\W{0,3}$", re.IGNORECASE)
_TIME_UNIT = re.compile(r" ?(?:s|sec|secs|seconds|ms|min|mins|minutes|m|h)\b")
_BEATS = re.compile(r"heart.?beat|alive|wait|retry|retries|attempt|\bping\b|\bpoll|watchdog", re.IGNORECASE)
_RISES, _RARE_S = 2, 15.0
"""So often a figure must have risen; lines that come more rarely than ``_RARE_S`` are believed at the first rise."""
_FALLEN = -6
"""A figure that fell wanders; it is trusted again when it has risen eight times on end, as a count begun anew does."""
_UNITS_PER_S = (1.0, 1000.0, 1.0 / 60.0)
_TELLING_GAP_S = 2.5
"""At shorter gaps a count of steps may well run as fast as the seconds do."""
_MOST = 24


class Advance:
    """The figures of one kind of line by one writer, from line to line."""

    __slots__ = ("_figures", "_trust")

    def __init__(self, text: str) -> None:
        self._figures = _figures(text)
        self._trust: list[int] = [0] * len(self._figures)

    def note(self, text: str, gap: float) -> bool:
        """Take the line in that came ``gap`` seconds after the one before; says whether it counts work.

        A count is a whole number that has risen and not fallen, and is not the clock. Alone it may count beats:
        beside it another figure must have changed, by another step, that is not the clock either.
        """
        figures, before = _figures(text), self._figures
        self._figures = figures
        if len(figures) != len(before):
            self._trust = [0] * len(figures)
            return False
        steps = [
            (new[0] - old[0], new[1] or _is_clock(new[0] - old[0], gap))
            for new, old in zip(figures, before, strict=True)
        ]
        rises = _RISES if gap < _RARE_S else 1
        counts: list[float] = []
        for i, (step, clock) in enumerate(steps):
            self._trust[i] = self._trusted(self._trust[i], step, clock or not figures[i][2])
            if step > 0 and self._trust[i] >= rises:
                counts.append(step)
        others = [step for step, clock in steps if step and not clock]
        return any(other != count for count in counts for other in others) and not _BEATS.search(text)

    @staticmethod
    def _trusted(trust: int, step: float, other: bool) -> int:
        if other:
            return 0
        return trust + 1 if step > 0 else _FALLEN if step < 0 else trust


def _figures(text: str) -> list[tuple[float, bool, bool]]:
    """(value, whether its words call it a time, whether it is whole) of each number that is no stamp."""
    plain = _STAMP.sub(" ", text[:200])
    found: list[tuple[float, bool, bool]] = []
    for match in _FIGURE.finditer(plain):
        written = match[0].replace(",", "")
        timed = _TIME_UNIT.match(plain, match.end()) or _TIME_WORD.search(plain, 0, match.start())
        found.append((float(written), timed is not None, written.lstrip("+-").isdecimal()))
        if len(found) >= _MOST:
            break
    return found


def _is_clock(step: float, gap: float) -> bool:
    """Whether a figure rose as the seconds, milliseconds or minutes did."""
    return gap >= _TELLING_GAP_S and any(
        abs(step - gap * unit) <= max(0.03 * gap * unit, 0.9 if unit >= 1.0 else 0.05) for unit in _UNITS_PER_S
    )
