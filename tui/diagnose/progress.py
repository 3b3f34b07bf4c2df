"""Progress bars of any tqdm shape: how much of how much, and how fast by the bar's own recent steps."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise

from tui.model import Progress
from tui.numbers import median

_TAIL = (
    r"\[(?P<elapsed>[\d:]+)(?:<(?P<left>[\d:?]+))?, *"
    r"(?P<rate>[\d.]+[kMG]?|\?) ?(?P<unit>[^\],]*)(?:,[^\]]*)?(?P<end>\])?"
)
_AMOUNT = r"(?P<n>\d[\d.]*)(?P<np>[kKMGT]?)i?B?/(?P<total>\d[\d.]*)(?P<tp>[kKMGT]?)(?![\d.])"
_BAR = re.compile(rf"\b(?P<pct>\d{{1,3}})%(?: Completed)?(?: ?\|(?:[^|]*\|)?)? *{_AMOUNT}(?:i?B)?(?P<tail> {_TAIL})?")
_COUNT = re.compile(rf"(?:^|(?<=[ :]))(?P<n>\d[\d.]*)(?P<np>[kKMGT]?) ?[A-Za-z]+ {_TAIL}")
"""A bar without a known total: ``12it [00:05,  2.3it/s]``."""
_PAIR = re.compile(r"\d{1,3}% \((?P<n>\d+)/(?P<total>\d+)\)")
_MOST = 1e18
_SCALE = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


@dataclass(frozen=True, slots=True)
class Frame:
    """One drawing of a bar. ``name`` is its description without figures, to tell bars apart.

    ``total`` is 0 where the bar does not know it. ``elapsed_s``, ``left_s`` and ``rate`` (a second) are the bar's own.
    """

    name: str
    done: float
    total: float
    unit: str = ""
    elapsed_s: float | None = None
    left_s: float | None = None
    rate: float | None = None


def frame(text: str, *, whole: bool = True) -> Frame | None:
    """The bar drawn in ``text``: any shape of tqdm's (with or without a total, its bar, a postfix), vLLM's and SGLang's
    ``n% Completed | n/total``, or ``n% (n/total)``.

    ``whole`` false: the line goes on, and a drawing that may be cut in its figures does not count.

    >>> frame("Loading:  33% Completed | 1/3 [00:01<00:02,  1.1s/it]")
    Frame(name='Loading:  ', done=1.0, total=3.0, unit='it', elapsed_s=1.0, left_s=2.0, rate=0.9090909090909091)
    """
    if "/" not in text:
        return None
    if "%" in text:
        if (found := _BAR.search(text)) is not None:
            return _frame(text, found) if whole or found["end"] else None
        if (pair := _PAIR.search(text)) is not None:
            return Frame("", float(pair["n"]), float(pair["total"]))
        return None
    if "/s]" not in text and "s/" not in text:
        return None
    found = _COUNT.search(text)
    return _frame(text, found) if found is not None and found["end"] else None


def _frame(text: str, found: re.Match[str]) -> Frame | None:
    said = found.groupdict()
    try:
        done = float(found["n"]) * _SCALE[found["np"]]
        total = float(said.get("total") or 0.0) * _SCALE[said.get("tp") or ""]
        description = text[: found.start()].rpartition("|")[2][-200:]
        if max(done, total) > _MOST:
            return None
        name = re.sub(r"\(.*|[\d.]+", "", description)[-60:].lstrip()
        if not said.get("elapsed"):
            return Frame(name, done, total)
        unit, rate = _speed(said.get("unit") or "", said.get("rate") or "?")
        return Frame(name, done, total, unit, _duration(said["elapsed"]), _duration(said.get("left")), rate)
    except ValueError:
        return None


def _speed(unit: str, rate: str) -> tuple[str, float | None]:
    """(unit, units a second): tqdm turns a slow rate over, ``1.1s/it``."""
    slow = unit.startswith("s/")
    unit = unit.removeprefix("s/").removesuffix("/s").strip()
    if rate == "?":
        return unit, None
    value = float(rate.rstrip("kMG")) * _SCALE[rate.lstrip("0123456789.")]
    if not slow:
        return unit, value
    return unit, 1.0 / value if value else None


def _duration(text: str | None) -> float | None:
    if not text or "?" in text:
        return None
    seconds = 0
    for part in text.split(":"):
        seconds = 60 * seconds + int(part or 0)
    return float(seconds)


@dataclass(slots=True)
class Counter:
    """A bar or a step counter over time: the last steps that moved it."""

    unit: str
    done: float = 0.0
    total: float | None = None
    moved_t: float | None = None
    own_rate: float | None = None
    own_left_s: float | None = None
    """What the bar itself says; used until two of its steps were seen."""
    _steps: deque[tuple[float, float]] = field(default_factory=lambda: deque[tuple[float, float]](maxlen=12))

    def note(self, t: float | None, done: float, total: float | None) -> bool:
        """Take a drawing at ``t`` in; says whether the counter moved. A smaller count is a bar begun anew."""
        anew = done < self.done or total != self.total
        moved = anew or done > self.done or not self._steps
        self.done, self.total = done, total
        if anew:
            self._steps.clear()
        if moved and t is not None:
            self.moved_t = t
            self._steps.append((t, done))
        return moved

    @property
    def full(self) -> bool:
        return self.total is not None and self.total > 0 and self.done >= self.total

    def interval_s(self) -> float | None:
        """The usual time between two moves: the median of the last ones."""
        gaps = [b[0] - a[0] for a, b in pairwise(self._steps) if b[0] > a[0]]
        return median(gaps) if gaps else None

    def progress(self) -> Progress:
        rate, eta = self.own_rate, self.own_left_s
        if len(self._steps) > 1 and self._steps[-1][0] > self._steps[0][0]:
            (t0, n0), (t1, n1) = self._steps[0], self._steps[-1]
            rate = (n1 - n0) / (t1 - t0)
            if rate > 0 and self.total:
                eta = max(0.0, self.total - self.done) / rate
        return Progress(self.done, self.total or None, self.unit or "items", rate, eta)
