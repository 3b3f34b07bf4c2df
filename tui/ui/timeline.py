"""A launch's life as rows on one time axis: phases, verdict, and what was measured, in braille. No widget, no terminal.

Every cell covers two bins of equal length. Bins begin at whole multiples of their length, so that a picture moves by
whole cells and a steady value draws a steady text.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.ui import format as fmt
from tui.ui.lines import Line, chart, fit, merge, pad
from tui.ui.words import spaced, verdict_role

if TYPE_CHECKING:
    from tui.model import Course, LaunchView

_STEPS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.5)
BINS_S = (0.5, *_STEPS, *(10 * s for s in _STEPS), *(60 * s for s in (2, 3, 5, 10, 20, 30, 60)))
"""Lengths of a bin to choose from, in seconds."""

LABEL = 8
VALUE = 10

TALLEST = 4
STALE_S = 90.0
"""A value that was read longer ago than this is not the moment's: rows of a day ago lie a minute apart."""


@dataclass(frozen=True, slots=True)
class Axis:
    """``cells`` cells from ``start`` (seconds on the monitor's timeline), two bins of ``bin_s`` seconds in each."""

    start: float
    bin_s: float
    cells: int

    @property
    def end(self) -> float:
        return self.start + 2 * self.bin_s * self.cells

    def cell(self, t: float) -> int:
        """The cell that holds ``t``; outside of the axis it is below 0 or at least ``cells``."""
        return math.floor((t - self.start) / (2 * self.bin_s))


@dataclass(frozen=True, slots=True)
class Lane:
    """A measured row: a column of the course, its name, what stands behind its value, and what fills it to the top."""

    key: str
    name: str
    unit: str
    top: float | None
    """``None``: the highest value that is seen on the axis."""
    digits: int = 0


LANES = (
    Lane("util_pct", "GPU", "%", 100.0),
    Lane("power_pct", "power", "%", 100.0),
    Lane("log_bytes", "log", "", None),
    Lane("cpu_cores", "CPU", " cores", None, 1),
    Lane("mem_pct", "memory", "%", 100.0),
)
"""In the order in which they are given up from the end where rows are short."""


def axis(begin: float, until: float, cells: int, zoom: int = 0) -> Axis:
    """An axis that ends with the bin of ``until`` and reaches back to ``begin``, coarser or finer by ``zoom`` steps.

    The present end has some cells to spare, so that it is not drawn anew with every second.
    """
    span = max(1.0, until - begin)
    fits = next((i for i, bin_s in enumerate(BINS_S) if 2 * bin_s * (cells - 1) >= span), len(BINS_S) - 1)
    bin_s = BINS_S[min(len(BINS_S) - 1, max(0, fits - zoom))]
    cell_s = 2 * bin_s
    first = math.floor(begin / cell_s)
    last = math.floor(until / cell_s)
    return Axis(cell_s * max(first, last - cells + 1), bin_s, cells)


def paint_timeline(launch: LaunchView, axis: Axis, now: float, height: int, wall_of_zero: float) -> list[Line]:
    """Exactly ``height`` rows where there is so much to show: phases, verdict, the lanes, and the clock below them.

    ``now`` is the moment that is looked at; ``wall_of_zero`` the Unix time of the timeline's zero.
    """
    rows = [_verdicts(launch.course, axis, max(now, launch.course.times[-1]))]
    if height >= 6:
        rows.insert(0, _phases(launch, axis, now))
    room = height - len(rows) - 1
    lanes = LANES[: max(0, room)]
    tall = max(1, min(TALLEST, room // len(lanes))) if lanes else 1
    for lane in lanes:
        rows += _lane(lane, launch.course, axis, now, tall)
    return [*rows[: height - 1], _clock(axis, wall_of_zero)]


def _lane(lane: Lane, course: Course, axis: Axis, now: float, tall: int) -> list[Line]:
    """``tall`` rows: the name at the first, the value of the moment at the last."""
    times, column = course.times, course.columns.get(lane.key, ())
    grows = lane.key == "log_bytes"
    values = growth(times, column, axis) if grows else means(times, column, axis)
    if grows:
        values = [None if v is None else math.log1p(v) for v in values]  # a line a minute is to be seen beside a burst
    top = lane.top or max((v for v in values if v is not None), default=0.0) or 1.0
    charts = chart(values, axis.cells, tall, top)
    said = "" if grows else _value(lane, times, column, now)
    rows: list[Line] = []
    for i, text in enumerate(charts):
        name = lane.name if i == 0 else ""
        value = said if i == tall - 1 else ""
        rows.append(merge([(f"{name:<{LABEL}}", "dim"), (text, "history"), (f"{value:>{VALUE}}", "text")]))
    return rows


def _value(lane: Lane, times: Sequence[float], column: Sequence[float], now: float) -> str:
    index = bisect_right(times, now) - 1
    if index < 0 or now - times[index] > STALE_S or column[index] != column[index]:
        return fmt.UNKNOWN
    value = column[index]
    return f"{value:.{lane.digits if value < 10 else 0}f}{lane.unit}"


def means(times: Sequence[float], column: Sequence[float], axis: Axis) -> list[float | None]:
    """The mean of a column in each bin; ``None`` where no reading fell into it and none shortly before did."""
    bins: list[float | None] = []
    for i in range(2 * axis.cells):
        begin = axis.start + i * axis.bin_s
        lo, hi = bisect_left(times, begin), bisect_left(times, begin + axis.bin_s)
        known = [v for v in column[lo:hi] if v == v]
        if not known and lo == hi and 0 < lo < len(times) and times[lo] - times[lo - 1] <= 75.0:
            known = [v for v in column[lo - 1 : lo] if v == v]  # an older stretch, kept in coarser steps
        bins.append(sum(known) / len(known) if known else None)
    return bins


def growth(times: Sequence[float], column: Sequence[float], axis: Axis) -> list[float | None]:
    """By how much a counter grew a second in each bin."""
    bins: list[float | None] = []
    for i in range(2 * axis.cells):
        begin = axis.start + i * axis.bin_s
        lo, hi = bisect_left(times, begin), bisect_left(times, begin + axis.bin_s)
        known = [v for v in column[max(0, lo - 1) : hi] if v == v]
        covered = lo < hi or 0 < lo < len(times)
        bins.append(max(0.0, known[-1] - known[0]) / axis.bin_s if known and covered else None)
    return bins


def _verdicts(course: Course, axis: Axis, until: float) -> Line:
    """The verdict over time: each stretch in its colour, with its word where there is room; like the lanes, it goes on
    behind an earlier moment that is looked at."""
    line: Line = [(f"{'verdict':<{LABEL}}", "dim")]
    cells: list[tuple[str, str]] = [(" ", "text")] * axis.cells
    ends = [t for t, _ in course.verdicts[1:]] + [until]
    for (t, verdict), end in zip(course.verdicts, ends, strict=True):
        first, last = max(0, axis.cell(t)), min(axis.cells - 1, axis.cell(max(t, end)))
        role = verdict_role(verdict)
        for x in range(first, last + 1):
            cells[x] = ("━", role)
        if last - first > len(verdict):
            for x, char in enumerate(verdict, first):
                cells[x] = (char, role)
    return merge([*line, *cells, (" " * VALUE, "text")])


def _phases(launch: LaunchView, axis: Axis, now: float) -> Line:
    """The names of the phases where they begin."""
    cells = [" "] * axis.cells
    for span in launch.spans:
        first = max(0, axis.cell(span.start))
        last = min(axis.cells, axis.cell(now if span.end is None else span.end))
        if first >= axis.cells or last < 0:
            continue
        cells[first] = "│"
        for x, char in enumerate(fit(spaced(span.phase), max(0, last - first - 1)), first + 1):
            if x < axis.cells:
                cells[x] = char
    return merge([(f"{'phase':<{LABEL}}", "dim"), ("".join(cells), "dim"), (" " * VALUE, "text")])


def _clock(axis: Axis, wall_of_zero: float) -> Line:
    """Times of day below the cells that begin with them, as close as they stay apart."""
    with_s = axis.bin_s < 30
    every = 16 if with_s else 12
    text = [" "] * axis.cells
    for x in range(0, axis.cells - 8, every):
        clock = fmt.clock(wall_of_zero + axis.start + 2 * axis.bin_s * x)
        text[x : x + 8] = list(clock if with_s else f"{clock[:5]:<8}")
    return [(" " * LABEL, "text"), ("".join(text), "faint"), (f"{_length(axis):>{VALUE}}", "faint")]


def _length(axis: Axis) -> str:
    cell = 2 * axis.bin_s
    return f"▏{cell:g}s" if cell < 60 else f"▏{cell / 60:g}m" if cell < 3600 else f"▏{cell / 3600:g}h"


def mark(line: Line, x: int) -> Line:
    """The line with the cell at ``x`` shown as the one that is looked at."""
    marked: Line = []
    at = 0
    for text, role in line:
        for char in text:
            marked.append((char, "badge-frozen" if at == x else role))
            at += 1
    return merge(pad(marked, max(at, x + 1)))
