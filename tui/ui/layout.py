"""Where each part of the main screen stands: pure arithmetic on the size of the terminal and what there is to show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple


class Rect(NamedTuple):
    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Needs:
    """Rows that the panes would fill, titles included. ``alarm``: the verdict has much to say."""

    launch: bool
    alarm: bool
    gpu_rows: int
    gpu_rows_compact: int
    process_rows: int
    full: str | None = None
    """The pane that is open in full."""
    hidden: frozenset[str] = frozenset()
    """Panes that are not wanted; the others take their room, in their usual order."""
    order: tuple[str, ...] = ()
    """All panes, as those of a column shall stand below each other; empty for the usual order."""


WIDE, MEDIUM, NARROW = 160, 100, 60
"""Columns from which on the screen has two columns of panes, a phase chain, and more than a side pane's width."""

BESIDE_FROM, TIMERS_WIDTH, TIMERS_ROWS = 100, 32, 2
"""Columns from which on the timers stand in the upper right corner of the verdict band, and what they take of it."""

TALL = 36
"""Rows from which on parts are set apart by blank rows."""

LOG_LEAST = 7
EVIDENCE_LEAST = 10
TIMELINE, TIMELINE_LEAST = 9, 5
"""Rows of the timeline with all its lanes, and with the verdict and the GPUs alone."""


TINY = 16
"""Below so many rows each part gets a single one, the verdict the rest."""


def plan(width: int, height: int, needs: Needs) -> dict[str, Rect]:
    """The rectangle of every part that is shown, by its id; what is missing is not."""
    rects = {"header": Rect(0, 0, width, 1), "footer": Rect(0, height - 1, width, 1)}
    y = 1
    air = 1 if height >= TALL else 0
    band = band_rows(width, height, needs)
    rects["verdict"] = Rect(0, y, width, band)
    if needs.launch and width >= BESIDE_FROM:
        rects["timers"] = Rect(width - TIMERS_WIDTH, y, TIMERS_WIDTH, TIMERS_ROWS)
    y += band + air
    phases = phase_rows(width, height) if needs.launch else 0
    if phases:
        rects["phases"] = Rect(0, y, width, phases)
        y += phases + air
    x, inner = (2, width - 4) if width >= NARROW else (1, width - 2)
    area = Rect(x, y, inner, height - 1 - y)
    if area.height < 1:
        return rects
    if needs.full is not None:
        return {**rects, needs.full: area}
    if not needs.launch:
        return {**rects, "gpus": area}
    if height < TINY:
        return {**rects, **_ordered(_rows(area, needs), needs.order, 0)}
    beside = not {"evidence", "timeline"} <= needs.hidden and not {"gpus", "processes"} <= needs.hidden
    roomy = width >= WIDE and area.height >= LOG_LEAST + min(needs.gpu_rows, needs.gpu_rows_compact, 10) + 6
    panes = _two_columns(area, needs, air) if roomy and beside else _stack(area, needs, air)
    return {**rects, **_ordered(panes, needs.order, air)}


def phase_rows(width: int, height: int) -> int:
    """Rows of the phase bar: the chain of phases, or its short form and what goes on in them."""
    if height < TINY:
        return 1 if height >= 9 else 0
    if height < TALL:
        return 2
    return 4 if width >= MEDIUM else 3 if width < NARROW else 2


def band_rows(width: int, height: int, needs: Needs) -> int:
    """The band's height depends on the kind of verdict alone, so that the screen stands still while it lasts; beside a
    pane in full it is a quarter of the screen at most, a third of a tall one."""
    if not needs.launch:
        return 2 if width >= NARROW else 4
    if needs.full is not None:
        return max(2, min(band_rows(width, height, replace(needs, full=None)), height // (4 if height < TALL else 3)))
    if height < TINY:
        return max(2, height - 2 - phase_rows(width, height) - (2 if height >= 9 else 0))
    if width < NARROW:
        wanted = 16 if needs.alarm else 7
    elif height < TALL:
        wanted = 8 if needs.alarm else 4
    else:
        wanted = 9 if needs.alarm else 5
    return max(2, min(wanted, (height - 2) // 2))


def _rows(area: Rect, needs: Needs) -> dict[str, Rect]:
    """A row for the GPUs and one for the log, as far as there are rows and they are wanted."""
    shown = [pane for pane in ("gpus", "log") if pane not in needs.hidden][: area.height]
    return {pane: Rect(area.x, area.y + i, area.width, 1) for i, pane in enumerate(shown)}


def _two_columns(area: Rect, needs: Needs, air: int) -> dict[str, Rect]:
    """GPUs over ranks at the left, evidence over the timeline at the right, the log below both."""
    left = max(104, area.width * 58 // 100)
    right = area.width - left - 3
    with_log = "log" not in needs.hidden
    upper = area.height - (LOG_LEAST + air if with_log else 0)
    most = upper - 4
    gpus = needs.gpu_rows if needs.gpu_rows <= most else min(needs.gpu_rows_compact, most)
    ranks = min(needs.process_rows, upper - gpus - air)
    at_left = _wanted([("gpus", gpus), ("processes", ranks)], needs.hidden)
    top = max(EVIDENCE_LEAST + 2, sum(rows for _, rows in at_left) + air * (len(at_left) - 1)) if with_log else upper
    timeline = TIMELINE if top >= EVIDENCE_LEAST + TIMELINE else TIMELINE_LEAST
    timeline = timeline if top >= EVIDENCE_LEAST + TIMELINE_LEAST else 0
    at_right = [("evidence", top - (timeline + air if timeline else 0)), ("timeline", timeline)]
    if needs.hidden & {"evidence", "timeline"}:
        at_right = [(pane, top) for pane, _ in at_right]
    rects: dict[str, Rect] = {}
    for x, width, panes in ((area.x, left, at_left), (area.x + left + 3, right, _wanted(at_right, needs.hidden))):
        y = area.y
        for pane, rows in panes:
            rects[pane] = Rect(x, y, width, rows)
            y += rows + air
    if with_log:
        rects["log"] = Rect(area.x, area.y + top + air, area.width, area.height - top - air)
    return rects


def columns(rects: Mapping[str, Rect]) -> list[list[str]]:
    """The panes that stand below each other, from the top."""
    found: dict[tuple[int, int], list[str]] = {}
    for pane in sorted(rects, key=lambda pane: rects[pane].y):
        found.setdefault((rects[pane].x, rects[pane].width), []).append(pane)
    return list(found.values())


def _ordered(rects: dict[str, Rect], order: tuple[str, ...], air: int) -> dict[str, Rect]:
    """The panes of each column in another order, each with the rows it has; ``air``: the blank rows between them."""
    if not order:
        return rects
    placed: dict[str, Rect] = {}
    for column in columns(rects):
        y = rects[column[0]].y
        for pane in sorted(column, key=order.index):
            placed[pane] = rects[pane]._replace(y=y)
            y += rects[pane].height + air
    return placed


def _wanted(panes: list[tuple[str, int]], hidden: frozenset[str]) -> list[tuple[str, int]]:
    return [(pane, rows) for pane, rows in panes if pane not in hidden and rows > 0]


def _stack(area: Rect, needs: Needs, air: int) -> dict[str, Rect]:
    """One column: GPUs, the ranks where they fit whole, the timeline, the log."""
    rects: dict[str, Rect] = {}
    y, left = area.y, area.height
    log_least = 0 if "log" in needs.hidden else LOG_LEAST if left >= 16 else max(0, min(3, left - 3))

    def lay(pane: str, rows: int) -> None:
        nonlocal y, left
        if pane not in needs.hidden and rows > 0:
            rects[pane] = Rect(area.x, y, area.width, rows)
            y += rows + air
            left -= rows + air

    room = left - log_least - (air if log_least else 0)
    lay("gpus", needs.gpu_rows if needs.gpu_rows <= room else min(needs.gpu_rows_compact, room))
    if left - needs.process_rows - air >= log_least:
        lay("processes", needs.process_rows)
    if area.width >= NARROW and left - TIMELINE_LEAST - air >= min(log_least, LOG_LEAST - 2):
        lay("timeline", TIMELINE if left - TIMELINE - air >= log_least else TIMELINE_LEAST)
    if "log" in needs.hidden:
        lay("evidence", left)
    elif left > 1:
        lay("log", left)
    return rects
