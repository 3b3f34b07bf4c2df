"""Where each part of the main screen stands: pure arithmetic on the size of the terminal and what there is to show."""

from __future__ import annotations

from dataclasses import dataclass
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


WIDE, MEDIUM, NARROW = 160, 100, 60
"""Columns from which on the screen has two columns of panes, a phase chain, and more than a side pane's width."""

BESIDE_FROM, TIMERS_WIDTH = 100, 32
"""Columns from which on the timers stand at the right of the verdict band, and theirs."""

TALL = 36
"""Rows from which on parts are set apart by blank rows."""

LOG_LEAST = 7
EVIDENCE_LEAST = 10
TIMELINE, TIMELINE_LEAST = 9, 5
"""Rows of the timeline with all its lanes, and with the verdict and the GPUs alone."""


def plan(width: int, height: int, needs: Needs) -> dict[str, Rect]:
    """The rectangle of every part that is shown, by its id; what is missing is hidden."""
    rects = {"header": Rect(0, 0, width, 1), "footer": Rect(0, height - 1, width, 1)}
    y = 1
    air = 1 if height >= TALL else 0
    band = band_rows(width, height, needs)
    timers = TIMERS_WIDTH if needs.launch and width >= BESIDE_FROM else 0
    rects["verdict"] = Rect(0, y, width - timers, band)
    if timers:
        rects["timers"] = Rect(width - timers, y, timers, band)
    y += band + air
    if needs.launch and height >= 14:
        phases = 4 if width >= MEDIUM and height >= TALL else 3 if width < NARROW and height >= TALL else 2
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
    roomy = width >= WIDE and area.height >= LOG_LEAST + min(needs.gpu_rows, needs.gpu_rows_compact, 10) + 6
    return {**rects, **(_two_columns(area, needs, air) if roomy else _stack(area, needs, air))}


def band_rows(width: int, height: int, needs: Needs) -> int:
    """The band's height depends on the kind of verdict alone, so that the screen stands still while it lasts."""
    if not needs.launch:
        return 2 if width >= NARROW else 4
    if width < NARROW:
        wanted = 16 if needs.alarm else 7
    elif height < TALL:
        wanted = 7 if needs.alarm else 4
    else:
        wanted = 9 if needs.alarm else 5
    return max(2, min(wanted, (height - 2) // 2))


def _two_columns(area: Rect, needs: Needs, air: int) -> dict[str, Rect]:
    """GPUs over ranks at the left, evidence at the right, the log below both."""
    left = max(104, area.width * 58 // 100)
    right = area.width - left - 3
    upper = area.height - LOG_LEAST - air
    most = upper - 4
    gpus = needs.gpu_rows if needs.gpu_rows <= most else min(needs.gpu_rows_compact, most)
    ranks = min(needs.process_rows, upper - gpus - air)
    top = gpus + air + ranks
    log = area.height - top - air
    y = area.y
    rects = {
        "gpus": Rect(area.x, y, left, gpus),
        "processes": Rect(area.x, y + gpus + air, left, ranks),
        "evidence": Rect(area.x + left + 3, y, right, top),
        "log": Rect(area.x, y + top + air, area.width, log),
    }
    timeline = TIMELINE if top >= EVIDENCE_LEAST + TIMELINE else TIMELINE_LEAST
    if top >= EVIDENCE_LEAST + TIMELINE_LEAST:
        rects["evidence"] = Rect(area.x + left + 3, y, right, top - timeline - air)
        rects["timeline"] = Rect(area.x + left + 3, y + top - timeline, right, timeline)
    return rects


def _stack(area: Rect, needs: Needs, air: int) -> dict[str, Rect]:
    """One column: GPUs, the ranks where they fit whole, the log."""
    log_least = LOG_LEAST if area.height >= 16 else max(0, min(4, area.height - 3))
    room = area.height - log_least - (air if log_least else 0)
    gpus = needs.gpu_rows if needs.gpu_rows <= room else min(needs.gpu_rows_compact, room)
    rects = {"gpus": Rect(area.x, area.y, area.width, gpus)}
    y = area.y + gpus + air
    left = area.y + area.height - y
    if left - needs.process_rows - air >= LOG_LEAST:
        rects["processes"] = Rect(area.x, y, area.width, needs.process_rows)
        y += needs.process_rows + air
        left -= needs.process_rows + air
    if area.width >= NARROW and left - TIMELINE_LEAST - air >= LOG_LEAST - 2:
        timeline = TIMELINE if left - TIMELINE - air >= LOG_LEAST else TIMELINE_LEAST
        rects["timeline"] = Rect(area.x, y, area.width, timeline)
        y += timeline + air
        left -= timeline + air
    if left > 1:
        rects["log"] = Rect(area.x, y, area.width, left)
    return rects
