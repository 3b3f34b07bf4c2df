"""The one kind of widget: painted lines under a title, scrolled by itself, repainted only where something changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, cast, overload

from rich.cells import cell_len
from rich.segment import Segment
from textual.events import Click, MouseScrollDown, MouseScrollUp, Resize
from textual.geometry import Region, Size
from textual.message_pump import MessagePump
from textual.strip import Strip
from textual.widget import Widget

from tui.safetext import clean
from tui.ui.lines import Line, merge, pad, shows_blank, spread, width_of
from tui.ui.view import View

if TYPE_CHECKING:
    from tui.ui.app import GputopApp


def app_of(node: MessagePump) -> GputopApp:
    """The application that a widget or screen lives in, by its own type."""
    return cast("GputopApp", node.app)  # pyright: ignore[reportUnknownMemberType]


class LazyRows(Sequence[Line]):
    """Rows that are made when they come into sight: a table of 512 ranks costs what is seen of it."""

    def __init__(self, makers: Sequence[Callable[[], Line]]) -> None:
        self._makers = makers

    def __len__(self) -> int:
        return len(self._makers)

    @overload
    def __getitem__(self, index: int) -> Line: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Line]: ...
    def __getitem__(self, index: int | slice) -> Line | Sequence[Line]:
        if isinstance(index, slice):
            return [make() for make in self._makers[index]]
        return self._makers[index]()


@dataclass(frozen=True, slots=True)
class Painting:
    """``head`` stays in place while ``body`` scrolls; ``note`` stands at the right of the title."""

    body: Sequence[Line]
    title: Line = field(default_factory=list[tuple[str, str]])
    note: Line = field(default_factory=list[tuple[str, str]])
    head: list[Line] = field(default_factory=list[Line])


class Drawing(Widget):
    """A widget whose rows are lines: it compares them with what it drew last and refreshes the cells that differ.

    Textual redraws a line of a widget from its left edge up to the last refreshed cell, so volatile values cost least
    where they stand on the left.
    """

    ALLOW_SELECT: ClassVar[bool] = False

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._rows: list[Line] = []
        self._view: View | None = None
        self._drawn_for = Size(0, 0)
        self._being_rendered = False

    @property
    def gputop(self) -> GputopApp:
        return app_of(self)

    def draw(self, view: View) -> None:
        """Show a view; what cannot be drawn says so in its place and takes nothing else down."""
        self._view, self._drawn_for = view, self.size
        try:
            self.show(view)
        except Exception as error:
            words = clean(f"cannot be drawn: {type(error).__name__}: {error}", 200)
            self.set_rows([[(words, "bad")]])

    def show(self, view: View) -> None:
        raise NotImplementedError

    def on_resize(self, event: Resize) -> None:
        """A place of another size, or the first: what was to be shown is drawn into it."""
        if self._view is not None and self._drawn_for != self.size:
            self.draw(self._view)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Textual asks for the lines of a new size before it tells of it: they are drawn now, not a picture later."""
        if self._view is not None and self._drawn_for != self.size:
            self._being_rendered = True
            self.draw(self._view)
            self._being_rendered = False
        return super().render_lines(crop)

    def set_rows(self, rows: list[Line]) -> None:
        """Draw these rows from the top; what is left below is blank."""
        width = self.size.width
        fresh = [merge(pad(row, width)) for row in rows[: self.size.height]]
        fresh += [[] for _ in range(self.size.height - len(fresh))]
        old, self._rows = self._rows, fresh
        if self._being_rendered:
            return
        if len(old) != len(fresh):
            self.refresh()
            return
        dirty = [
            Region(0, y, changed_width(a, b), 1) for y, (a, b) in enumerate(zip(old, fresh, strict=True)) if a != b
        ]
        if dirty:
            self.refresh(*dirty)

    def render_line(self, y: int) -> Strip:
        line = self._rows[y] if y < len(self._rows) else []
        style = self.gputop.palette.style
        strip = Strip([Segment(text, style(role)) for text, role in line])
        return strip.adjust_cell_length(self.size.width).apply_style(self.rich_style)


def changed_width(old: Line, new: Line) -> int:
    """Up to which cell two lines of one width differ: their common end is left alone."""
    shared = 0
    for (text, role), (other, other_role) in zip(reversed(old), reversed(new), strict=False):
        end = _common_end(text, other)
        if role == other_role:
            shared += cell_len(end)
        elif not shows_blank(role) and not shows_blank(other_role):
            shared += len(end) - len(end.rstrip(" "))
        if (text, role) != (other, other_role):
            break
    return max(width_of(old), width_of(new)) - shared


def _common_end(a: str, b: str) -> str:
    n = 0
    for x, y in zip(reversed(a), reversed(b), strict=False):
        if x != y:
            break
        n += 1
    return a[len(a) - n :]


class Pane(Drawing, can_focus=True):
    """A titled, scrolling drawing. Subclasses say what to paint; :meth:`show` is called with every view."""

    OPENED_BY: ClassVar[str] = ""
    """The id of the binding that opens this pane in full."""

    FOLLOWS: ClassVar[bool] = False
    """Whether the end of the body is kept in sight until the reader scrolls away from it."""

    EVERY_S: ClassVar[float] = 0.0
    """How long readings stay on screen at least: tables of numbers that flicker each second are noise, and bytes."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.top = 0
        self.following = self.FOLLOWS
        self.full = False
        self._painting = Painting([])
        self._painted_at = 0.0
        self._painted: object = None

    def paint(self, view: View, width: int, height: int) -> Painting:
        raise NotImplementedError

    def show(self, view: View) -> None:
        """Paint what is to be seen of this view, and draw what changed; mere new readings wait their turn."""
        what = (view.standing, self.size, self.full)
        now = time.monotonic()
        if what == self._painted and now - self._painted_at < self.EVERY_S:
            return
        if self.size.width and self.size.height:
            self._painted, self._painted_at = what, now
            self._painting = self.paint(view, self.size.width, self.size.height)
            self._draw()

    def redo(self) -> None:
        """Paint again: how it is to be seen has changed."""
        self._painted = None
        if self._view is not None and self.display:
            self.draw(self._view)

    @property
    def room(self) -> int:
        """How many rows of the body are in sight."""
        return max(0, self.size.height - self._titled - len(self._painting.head))

    @property
    def _titled(self) -> bool:
        """Whether the title is shown: not where there is a single row."""
        return bool(self._painting.title) and self.size.height > 1

    @property
    def overflow(self) -> int:
        return max(0, len(self._painting.body) - self.room)

    def _draw(self) -> None:
        painting = self._painting
        self.top = self.overflow if self.following else min(self.top, self.overflow)
        rows = [self._title_row()] if self._titled else []
        self.set_rows([*rows, *painting.head, *painting.body[self.top : self.top + self.room]])

    def _title_row(self) -> Line:
        painting, focused = self._painting, self.has_focus
        title: Line = []
        if self.OPENED_BY:
            title = [(self.gputop.keys[self.OPENED_BY], "key"), (" ", "text")]
        title += [(text, "title-focus" if focused and role == "title" else role) for text, role in painting.title]
        note: Line = list(painting.note)
        if self.FOLLOWS and not self.following:
            note = [(f"paused; {self.gputop.keys['scroll.bottom']} follows again", "info")]
        if self.overflow and self.room:
            span = f"{self.top + 1}–{self.top + self.room} of {len(painting.body)}"
            note = [*note, ("  " if note else "", "dim"), (span, "dim")]
        title.append((" ", "rule"))
        fill = ("─", "accent" if focused else "rule")
        return spread(title, [(" ", "rule"), *note] if note else [], self.size.width, fill)

    def scroll_rows(self, delta: int) -> None:
        """Move the body; at the end of a following pane it follows again."""
        self.top = min(self.overflow, max(0, self.top + delta))
        self.following = self.FOLLOWS and self.top >= self.overflow
        self._draw()

    def scroll_page(self, pages: float) -> None:
        self.scroll_rows(int(pages * max(2, self.room)))

    def scroll_top(self) -> None:
        self.scroll_rows(-len(self._painting.body))

    def scroll_bottom(self) -> None:
        self.scroll_rows(len(self._painting.body))

    def on_focus(self) -> None:
        self._draw()

    def on_blur(self) -> None:
        self._draw()

    async def on_click(self, event: Click) -> None:
        """A click on the title opens the pane, or closes it again."""
        if event.y == 0 and self._titled and self.OPENED_BY:
            event.stop()
            await self.gputop.run_binding(self.OPENED_BY)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        event.stop()
        self.scroll_rows(-3)

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        event.stop()
        self.scroll_rows(3)
