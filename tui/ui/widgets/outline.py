"""A pane of rows that open and close, with a cursor. What is being read stays where it is while further rows come."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial

from textual.events import Click

from tui.ui.lines import Line, plain
from tui.ui.outline import Outline, Row
from tui.ui.view import View
from tui.ui.widgets.pane import LazyRows, Painting, Pane


class OutlinePane(Pane):
    """``on_choice`` is told which row the reader went to. Subclasses say which rows there are."""

    def __init__(self, on_choice: Callable[[OutlinePane], None], *, id: str) -> None:
        super().__init__(id=id)
        self.levels: dict[Hashable, int] = {}
        self.outline = Outline()
        self.cursor: Hashable = None
        self.leads = False
        """Whether this is the pane that the keys move: its cursor is seen."""
        self.touched = False
        """Whether the reader has moved anything here."""
        self._on_choice = on_choice

    def make_rows(self, width: int) -> Sequence[Row]:
        """The rows in this width; the same object again where nothing has changed."""
        raise NotImplementedError

    def make_title(self, width: int) -> tuple[Line, Line]:
        """The title, and the note at its right."""
        raise NotImplementedError

    def first_stop(self, outline: Outline) -> Hashable:
        """Where the cursor stands before the reader has moved it."""
        return outline.rows[outline.stops[0]].key if outline.stops else None

    # ------------------------------------------------------------------------------------------------------- drawing

    def paint(self, view: View, width: int, height: int) -> Painting:
        rows = self.make_rows(width - 1)
        if rows is not self.outline.rows:
            self._take(Outline(rows))
        title, note = self.make_title(width)
        return Painting(LazyRows([partial(self._row, row) for row in rows]), title=title, note=note)

    def _row(self, row: Row) -> Line:
        here = self.leads and row.key is not None and row.key == self.cursor
        return [("❯" if here else " ", "key"), *row.make()]

    def _take(self, outline: Outline) -> None:
        """Rows in the place of others: cursor and what is in sight stay."""
        old, self.outline = self.outline, outline
        if not self.touched:
            self.cursor, self.top = self.first_stop(outline), 0
            return
        stood = old.index(self.cursor)
        anchors = [stood] if stood is not None and self.top <= stood < self.top + self.room else []
        anchors += [n for n in old.stops if self.top <= n < self.top + self.room]
        for n in anchors:
            now = outline.index(old.rows[n].key)
            if now is not None:
                self.top = max(0, self.top + now - n)
                break
        if outline.index(self.cursor) is None:
            near = outline.near(stood or 0)
            self.cursor = outline.rows[near].key if near is not None else None

    # ------------------------------------------------------------------------------------------------------- moving

    @property
    def row(self) -> Row | None:
        """The row under the cursor."""
        index = self.outline.index(self.cursor)
        return self.outline.rows[index] if index is not None else None

    def move(self, steps: int) -> None:
        """To another row; from the first or last one on, what lies beyond is scrolled into sight."""
        stops = self.outline.stops
        index = self.outline.index(self.cursor)
        if index is None or not stops:
            self.scroll_rows(steps)
            return
        here = stops.index(index)
        there = min(len(stops) - 1, max(0, here + steps))
        if there == here:
            self.scroll_rows(steps)
        else:
            self._go(stops[there])

    def move_page(self, pages: float) -> None:
        """By a part of what is in sight, in rows and not in stops."""
        index = self.outline.index(self.cursor)
        delta = int(pages * max(2, self.room))
        near = self.outline.near((index or 0) + delta)
        self.touched = True
        self.top = min(self.overflow, max(0, self.top + delta))
        if near is not None and near != index:
            self._go(near)
        else:
            self._draw()

    def scroll_rows(self, delta: int) -> None:
        self.touched = True
        super().scroll_rows(delta)

    def _go(self, index: int) -> None:
        self.touched = True
        self.cursor = self.outline.rows[index].key
        first, last = self.outline.stops[0], self.outline.stops[-1]
        if index in (first, last):  # and what lies beyond it
            self.top = 0 if index == first else self.overflow
        self.top = min(max(self.top, index - self.room + 1), index)
        self._draw()
        self._on_choice(self)

    def go_to(self, key: Hashable) -> None:
        """Put the cursor on a row and bring it into sight."""
        index = self.outline.index(key)
        if index is not None:
            self._go(index)

    def begin(self) -> None:
        """Something else is shown: from its beginning."""
        self.touched = False
        self.cursor, self.top = self.first_stop(self.outline), 0

    # ------------------------------------------------------------------------------------------- opening and closing

    def toggle(self) -> None:
        row = self.row
        if row is not None and row.most:
            self._set(row, row.toggled)

    def deeper(self, step: int) -> None:
        """Open further; close, and from a closed one to the row that it lies below."""
        row = self.row
        if row is None:
            return
        level = row.level + step
        if 0 <= level <= row.most and row.most:
            self._set(row, level)
        elif step < 0 and row.parent is not None:
            self.go_to(row.parent)

    def _set(self, row: Row, level: int) -> None:
        self.touched = True
        self.levels[row.key] = level
        self.redo()

    async def on_click(self, event: Click) -> None:
        """A click goes to a row and opens or closes it; a frame's source is opened by a second one."""
        index = event.y - self._titled - len(self._painting.head) + self.top
        if not (event.y >= self._titled and 0 <= index < len(self.outline.rows)):
            return
        event.stop()
        row = self.outline.rows[index]
        if row.key is None:
            return
        again = row.key == self.cursor
        self._go(index)
        if row.most and (again or row.place is None):
            self.toggle()

    def lines(self) -> list[str]:
        """All rows as text."""
        return [plain(row.make()).rstrip() for row in self.outline.rows]
