"""Rows that open and close with a cursor among them: what the panes of stacks are made of. No widget, no terminal."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tui.ui.lines import Line, width_of, wrap, wrap_spans
from tui.ui.source import Place

Levels = Mapping[Hashable, int]
"""How far rows are open, by key; of a row that is not in it, as it is by itself."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row that paints itself when it comes into sight.

    ``key``: what cursor and levels know it by; the cursor passes over rows without one. ``level`` is how far it is
    open, ``most`` how far it can be, ``folded`` where enter closes it to. ``parent`` is the key of the row that it lies
    below. ``process`` (host, pid) and ``place`` are what it speaks of.
    """

    make: Callable[[], Line]
    key: Hashable = None
    level: int = 0
    most: int = 0
    folded: int = 0
    parent: Hashable = None
    process: tuple[str, int | None] | None = None
    place: Place | None = None

    @property
    def toggled(self) -> int:
        return self.most if self.level < self.most else self.folded


@dataclass(frozen=True)
class Outline:
    rows: Sequence[Row] = ()

    @cached_property
    def _index(self) -> Mapping[Hashable, int]:
        return {row.key: n for n, row in enumerate(self.rows) if row.key is not None}

    def index(self, key: Hashable) -> int | None:
        return self._index.get(key) if key is not None else None

    @cached_property
    def stops(self) -> Sequence[int]:
        """Where the cursor may stand."""
        return [n for n, row in enumerate(self.rows) if row.key is not None]

    def near(self, index: int) -> int | None:
        """The stop at a row or nearest to it."""
        return min(self.stops, key=lambda n: abs(n - index), default=None)


def glyph(level: int, most: int) -> str:
    """Whether there is more to open."""
    return " " if most == 0 else "▾" if level >= most else "▸"


def still(line: Line) -> Row:
    """A row that only stands there."""
    return Row(lambda: line)


def stop(line: Line, key: Hashable, parent: Hashable = None, process: tuple[str, int | None] | None = None) -> Row:
    """A row with nothing below it that the cursor stops at."""
    return Row(lambda: line, key, parent=parent, process=process)


def paragraph(lead: Line, text: str, role: str, width: int) -> list[Row]:
    return [still(line) for line in wrap_spans(lead, text, role, width)]


def behind(lead: Line, text: str, role: str, width: int) -> list[Row]:
    """A paragraph with the same lead-in before each of its rows."""
    return [still([*lead, (part, role)]) for part in wrap(text, max(8, width - width_of(lead)))]


def section(key: Hashable, head: Line, levels: Levels, below: Callable[[], Sequence[Row]], opens: int = 0) -> list[Row]:
    """A row with others below that are made where it is open; ``opens``: whether it is by itself."""
    level = levels.get(key, opens)
    row = Row(lambda: [("  ", "text"), (glyph(level, 1), "accent"), (" ", "text"), *head], key, level, 1)
    return [row, *(below() if level else ())]
