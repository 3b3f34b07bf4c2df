"""Lines of coloured text, before any terminal: what the painters produce and the panes compare and draw.

A line is a list of spans, a span is text and the name of a role (:mod:`tui.ui.palette` gives roles their colours).
All widths are terminal cells.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from rich.cells import cell_len, set_cell_size

Span: TypeAlias = tuple[str, str]
Line: TypeAlias = list[Span]

ELLIPSIS = "…"


def width_of(line: Line) -> int:
    return sum(len(text) if text.isascii() else cell_len(text) for text, _ in line)


def plain(line: Line) -> str:
    return "".join(text for text, _ in line)


def fit(text: str, width: int) -> str:
    """The text, shortened at a word's end with an ellipsis where it is wider than ``width``."""
    if cell_len(text) <= width:
        return text
    if width <= 1:
        return ELLIPSIS[:width]
    kept = set_cell_size(text, width - 1)
    space = kept.rfind(" ")
    if space >= width // 2 and not text[len(kept) : len(kept) + 1].isspace():
        kept = kept[:space]
    return kept.rstrip() + ELLIPSIS


def fit_left(text: str, width: int) -> str:
    """The end of a text, for paths: ``…/logs/serve.log``."""
    if cell_len(text) <= width:
        return text
    kept = ""
    for char in reversed(text):
        if cell_len(kept) + cell_len(char) > width - 1:
            break
        kept = char + kept
    slash = kept.find("/")
    return ELLIPSIS + (kept[slash:] if 0 <= slash < len(kept) // 2 else kept)


def pad(line: Line, width: int, role: str = "text") -> Line:
    """A line of exactly ``width`` cells: filled with blanks, or cut by :func:`cut`."""
    gap = width - width_of(line)
    if gap > 0:
        return [*line, (" " * gap, role)]
    return cut(line, width) if gap < 0 else line


def cut(line: Line, width: int) -> Line:
    """The first ``width`` cells of a line, the last span shortened with an ellipsis."""
    result: Line = []
    left = width
    for index, (text, role) in enumerate(line):
        need = cell_len(text)
        rest = any(t.strip() for t, _ in line[index + 1 :])
        if need < left or (need == left and not rest):
            result.append((text, role))
            left -= need
            continue
        short = fit(text, left) if need > left else fit(text + "  ", left)
        result.append((short, role))
        left -= cell_len(short)
        break
    return [*result, (" " * left, "text")] if left > 0 else result


def to_be_continued(line: Line, width: int) -> Line:
    """The line with an ellipsis at its end, which takes the place of a word where there is no room."""
    if not line:
        return line
    lead, (text, role) = line[:-1], line[-1]
    room = width - width_of(lead)
    text = text.rstrip().rstrip(ELLIPSIS)
    if cell_len(text) + 2 > room:
        text = fit(text + " " * room, room).rstrip(ELLIPSIS)
    return [*lead, (text.rstrip(" ,;:") + " " + ELLIPSIS if cell_len(text) + 2 <= room else text + ELLIPSIS, role)]


def right(line: Line, width: int) -> Line:
    """The line at the right edge of ``width`` cells."""
    gap = width - width_of(line)
    return [(" " * gap, "text"), *line] if gap > 0 else pad(line, width)


def spread(left: Line, other: Line, width: int, fill: Span = (" ", "text")) -> Line:
    """Two lines at the two edges of one, the space between them filled."""
    room = width - width_of(other)
    if room < 1:
        return pad(left, width)
    start = cut(left, room) if width_of(left) > room else left
    gap = room - width_of(start)
    return [*start, (fill[0] * gap, fill[1]), *other]


_BREAKS = re.compile(r"(?<=[ ])(?=[^ ])")
_SOFT = re.compile(r"(?<=[/,;:=_\-.)\]}])(?=[^/,;:=_\-.)\]} ])")


def wrap(text: str, width: int) -> list[str]:
    """Lines of at most ``width`` cells, broken between words; a word that is too long breaks behind punctuation."""
    if width <= 0 or cell_len(text) <= width:
        return [text]
    rows: list[str] = []
    row = ""
    for word in _BREAKS.split(text):
        if cell_len(row) + cell_len(word.rstrip()) <= width:
            row += word
            continue
        if row.strip() and cell_len(word.rstrip()) <= width:
            rows.append(row.rstrip())
            row = word
            continue
        row = _break_word(row, word, width, rows)
    return [*rows, row.rstrip()] if row.strip() else rows


def _break_word(row: str, word: str, width: int, rows: list[str]) -> str:
    """Lay a word that is wider than a row behind ``row``; returns the unfinished last row."""
    for piece in _SOFT.split(word):
        if cell_len(row) + cell_len(piece.rstrip()) <= width:
            row += piece
            continue
        if row.strip():
            rows.append(row.rstrip())
        row = piece
        while cell_len(row.rstrip()) > width:
            head = set_cell_size(row, width).rstrip(" ") or row[:1]
            rows.append(head)
            row = row[len(head) :]
    return row


def wrap_spans(lead: Line, text: str, role: str, width: int) -> list[Line]:
    """A paragraph behind a lead-in; its further rows are indented to the lead-in's width."""
    indent = width_of(lead)
    rows = wrap(text, max(8, width - indent))
    return [[*lead, (rows[0], role)], *([(" " * indent, "text"), (row, role)] for row in rows[1:])]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. Where room is short those with the highest ``drop`` go first (0 never); ``flex`` columns
    share what is left, up to ``most`` cells."""

    key: str
    title: str
    width: int
    align: Literal["left", "right"] = "left"
    drop: int = 0
    flex: int = 0
    most: int = 1000


GAP = 2


def fit_columns(columns: Sequence[Column], width: int) -> list[tuple[Column, int]]:
    """The columns that fit side by side, with their widths."""
    kept = list(columns)

    def need() -> int:
        return sum(c.width for c in kept) + GAP * (len(kept) - 1)

    while need() > width and any(c.drop for c in kept):
        kept.remove(max(kept, key=lambda c: c.drop))
    spare = max(0, width - need())
    shares = sum(c.flex for c in kept)
    fitted: list[tuple[Column, int]] = []
    for column in kept:
        extra = spare * column.flex // shares if shares else 0
        fitted.append((column, min(column.most, column.width + extra)))
    return fitted


def row(fitted: Sequence[tuple[Column, int]], cells: dict[str, Line]) -> Line:
    """One row of a table; a missing cell is blank."""
    result: Line = []
    for column, width in fitted:
        if result:
            result.append((" " * GAP, "text"))
        cell = cells.get(column.key, [])
        result += right(cell, width) if column.align == "right" else pad(cell, width)
    return merge(result)


def titles(fitted: Sequence[tuple[Column, int]], role: str = "faint") -> Line:
    return row(fitted, {column.key: [(column.title, role)] for column, _ in fitted})


def merge(line: Line) -> Line:
    """Neighbours of one role, and blanks between, drawn together: each span costs the terminal an escape sequence."""
    merged: Line = []
    for text, role in line:
        if not text:
            continue
        if merged and (merged[-1][1] == role or (text.isspace() and not shows_blank(merged[-1][1]))):
            merged[-1] = (merged[-1][0] + text, merged[-1][1])
        else:
            merged.append((text, role))
    return merged


def shows_blank(role: str) -> bool:
    """Whether blanks in this role are visible (badges have a background, rivals a line through them)."""
    return role.startswith(("badge", "struck", "match"))


def bar(fraction: float | None, width: int, role: str = "bar") -> Line:
    """A thin bar with half-cell steps, heavy on light, in one colour; an unknown value leaves it dashed."""
    if fraction is None:
        return [("╌" * width, "track")]
    halves = round(min(1.0, max(0.0, fraction)) * width * 2)
    if fraction > 0 and halves == 0:
        halves = 1
    full, half = divmod(halves, 2)
    return [("━" * full + "╾" * half + "─" * (width - full - half), role)]


_LEFT = (0x00, 0x40, 0x44, 0x46, 0x47)
_RIGHT = (0x00, 0x80, 0xA0, 0xB0, 0xB8)


def spark(values: Sequence[float | None], width: int, top: float = 100.0) -> str:
    """A history in braille, newest at the right, two readings a cell; no dot means no reading, one dot zero.

    Cells hold fixed pairs counted from the end of the sequence, so a steady value draws a steady text.
    """
    return chart(values, width, 1, top)[0]


def chart(values: Sequence[float | None], width: int, height: int, top: float = 100.0) -> list[str]:
    """As :func:`spark` in ``height`` rows, the upper one first: four steps a row."""
    recent = list(values[-2 * width :]) if width > 0 else []
    levels = [0] * (2 * width - len(recent)) + [_level(value, top, 4 * height) for value in recent]
    rows: list[str] = []
    for below in range(4 * (height - 1), -1, -4):
        dots = [min(4, max(0, level - below)) for level in levels]
        rows.append("".join(chr(0x2800 + _LEFT[a] + _RIGHT[b]) for a, b in zip(dots[::2], dots[1::2], strict=True)))
    return rows


def _level(value: float | None, top: float, steps: int) -> int:
    if value is None:
        return 0
    return 1 + min(steps - 1, int(steps * max(0.0, value) / top))


BLOCKS = "▁▂▃▄▅▆▇"


def block(value: float | None, top: float = 100.0) -> str:
    """One cell for one value: ``▁`` is zero, ``▇`` is full, a dot is unknown; rows of them do not run together."""
    if value is None:
        return "∙"
    return BLOCKS[min(6, int(7 * max(0.0, value) / top))]
