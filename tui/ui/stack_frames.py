"""One frame of a stack as a row, and the lines of source below it where it is opened. No widget, no terminal."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial

from rich.cells import cell_len

from tui.ui.lines import Line, fit, fit_left
from tui.ui.outline import Levels, Row, paragraph, still
from tui.ui.source import Place, Sources
from tui.ui.stack_filter import ALL, Filter

MOST_INDENT = 12
FUNCTION_LEAST = 10
PLACE_LEAST = 14
"""Where less than this is left for file and line, the function has the row to itself."""


def edge(depth: int, odd: bool) -> Line:
    """What stands before everything that lies ``depth`` levels deep; the odd branch has a bar at its side."""
    return [("▌" if odd else " ", "odd"), (" " * min(MOST_INDENT, 1 + 2 * depth), "text")]


def frame_line(lead: Line, frame: str, role: str, width: int, wanted: Filter = ALL) -> Line:
    """``function (file:line)`` in one row, the place quieter than the name and shortened from its left."""
    role = "match" if wanted.lights(frame) else role
    left = width - sum(cell_len(text) for text, _ in lead)
    function, _, place = frame.partition(" (")
    place = place.removesuffix(")")
    room = max(PLACE_LEAST, left - cell_len(function) - 3)
    if not place or left - room - 3 < min(FUNCTION_LEAST, cell_len(function)):
        return [*lead, (fit(function, max(1, left)), role)]
    return [*lead, (fit(function, left - room - 3), role), (f" ({fit_left(place, room)})", "dim")]


def frame_rows(
    key: Hashable,
    parent: Hashable,
    lead: Line,
    frame: str,
    role: str,
    width: int,
    levels: Levels,
    sources: Sources,
    place: Place | None,
    wanted: Filter = ALL,
) -> list[Row]:
    """The frame, and its source where it is open."""
    level = levels.get(key, 0) if place is not None else 0
    row = Row(
        partial(frame_line, lead, frame, role, width, wanted),
        key,
        level,
        1 if place is not None else 0,
        parent=parent,
        place=place,
    )
    return [row, *(_source_rows(lead, place, width, sources) if place is not None and level else ())]


def _source_rows(lead: Line, place: Place, width: int, sources: Sources) -> list[Row]:
    source = sources.at(place)
    lead = [*lead, ("  ", "text")]
    if source.why_not:
        return paragraph(lead, source.why_not, "dim", width)
    room = max(8, width - sum(cell_len(text) for text, _ in lead) - 7)
    rows = [
        still([*lead, (f"{n:>5} ", "faint"), (fit(text, room), "strong" if n == place.line else "dim")])
        for n, text in source.lines
    ]
    return [*rows, *(paragraph(lead, source.note, "warn", width) if source.note else ())]
