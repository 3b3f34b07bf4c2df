"""Progress bars of any tqdm shape: how much of how much, and how fast by the bar's own recent steps."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise

from tui.model import Progress
from tui.numbers import median

_BAR = re.compile(
    r"(?P<desc>[^|]*?)\b(?P<pct>\d{1,3})%(?: Completed)? ?\|(?:[^|]*\|)? *"
    r"(?P<n>\d[\d.]*)(?P<np>[kKMGT]?)/(?P<total>\d[\d.]*)(?P<tp>[kKMGT]?)"
    r"(?: \[[\d:]+<[\d:?]+, *[\d.?]+(?P<unit>[^\]]*))?"
)
_PAIR = re.compile(r"\d{1,3}% \((?P<n>\d+)/(?P<total>\d+)\)")
_SCALE = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


@dataclass(frozen=True, slots=True)
class Frame:
    """One drawing of a bar. ``name`` is its description without figures, to tell bars apart."""

    name: str
    done: float
    total: float
    unit: str = ""


def frame(text: str) -> Frame | None:
    """The bar drawn in ``text``: tqdm's own, vLLM's and SGLang's ``n% Completed | n/total``, or ``n% (n/total)``.

    >>> frame("Loading:  33% Completed | 1/3 [00:01<00:02,  1.1s/it]")
    Frame(name='Loading: ', done=1.0, total=3.0, unit='it')
    """
    if "%" not in text or "/" not in text:
        return None
    found = _BAR.search(text)
    if found is None:
        pair = _PAIR.search(text)
        return Frame("", float(pair["n"]), float(pair["total"])) if pair else None
    try:
        done, total = float(found["n"]) * _SCALE[found["np"]], float(found["total"]) * _SCALE[found["tp"]]
    except ValueError:
        return None
    unit = re.sub(r"^\s*(?:s/)?|/s$|\?", "", found["unit"] or "").strip()
    return Frame(re.sub(r"\(.*|[\d.]+", "", found["desc"])[-60:].lstrip(), done, total, unit)


@dataclass(slots=True)
class Counter:
    """A bar or a step counter over time: the last steps that moved it."""

    unit: str
    done: float = 0.0
    total: float | None = None
    moved_t: float | None = None
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
        rate = eta = None
        if len(self._steps) > 1 and self._steps[-1][0] > self._steps[0][0]:
            (t0, n0), (t1, n1) = self._steps[0], self._steps[-1]
            rate = (n1 - n0) / (t1 - t0)
            if rate > 0 and self.total is not None:
                eta = max(0.0, self.total - self.done) / rate
        return Progress(self.done, self.total, self.unit or "items", rate, eta)
