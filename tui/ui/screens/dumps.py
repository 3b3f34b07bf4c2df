"""Stacks that were taken: merged with the odd ranks first, and the raw dump of each process."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.events import Resize
from textual.screen import Screen

from tui.model import Dump, ProcessStacks
from tui.ui import format as fmt
from tui.ui.keys import DUMPS, Keys
from tui.ui.layout import WIDE
from tui.ui.lines import Line, spread
from tui.ui.view import View
from tui.ui.widgets.pane import Drawing, Pane, app_of
from tui.ui.widgets.stacks import MergedPane, RawPane, order

METHODS = {"stacks": "stacks, nothing paused", "abort": "stacks at SIGABRT"}


def paint_dump_header(dump: Dump | None, index: int, count: int, width: int, keys: Keys) -> Line:
    if dump is None:
        return [(" no stacks taken yet", "strong"), (f"   {keys['stacks']} takes them", "dim")]
    line: Line = [
        (f" {METHODS.get(dump.method, dump.method)}", "strong"),
        (f"  {fmt.clock(dump.started_wall)}", "dim"),
        (f"  {len(dump.processes)} of {dump.expected} in", "good" if dump.done else "info"),
    ]
    failed = sum(p.error is not None for p in dump.processes)
    if failed:
        line.append((f"  {failed} without stacks", "warn"))
    if not dump.done:
        line.append(("  more to come", "info"))
    return spread(line, [(f"{index + 1} of {count} ", "dim")] if count > 1 else [], width)


class DumpHeader(Drawing):
    line: Line

    def show(self, view: View) -> None:
        self.set_rows([self.line])


class DumpFooter(Drawing):
    def show(self, view: View) -> None:
        hints = (
            (("dumps.previous", "dumps.next"), "rank"),
            (("dumps.earlier", "dumps.later"), "earlier, later"),
            (("dumps.side",), "merged, raw"),
            (("stacks",), "again"),
            (("scroll.down", "scroll.up"), "scroll"),
            (("pane.back",), "back"),
        )
        line: Line = [(" ", "text")]
        for ids, words in hints:
            line += [(" ".join(view.keys[id].split()[0] for id in ids), "key"), (f" {words}  ", "dim")]
        self.set_rows([line])


class DumpScreen(Screen[None]):
    BINDINGS: ClassVar[list[Binding]] = DUMPS  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self) -> None:
        super().__init__()
        self._header = DumpHeader(id="dump-header")
        self._footer = DumpFooter(id="dump-footer")
        self.merged = MergedPane(id="merged")
        self.raw = RawPane(id="raw")
        self._dump_id: int | None = None
        self._chosen: tuple[str, int | None] | None = None
        self._raw_side = False

    def compose(self) -> ComposeResult:
        yield self._header
        yield self.merged
        yield self.raw
        yield self._footer

    def on_mount(self) -> None:
        self._place()
        self.show(app_of(self).view)

    def on_resize(self, event: Resize) -> None:
        self._place()
        self.show(app_of(self).view)

    def _place(self) -> None:
        from tui.ui.layout import Rect
        from tui.ui.screens.main import put

        width, height = app_of(self).size
        body = max(1, height - 3)
        put(self._header, Rect(0, 0, width, 1))
        put(self._footer, Rect(0, height - 1, width, 1))
        both = width >= WIDE * 3 // 4
        left = (width - 5) * 11 // 20 if both else width - 2
        put(self.merged, Rect(1, 2, left, body - 1))
        put(self.raw, Rect(left + 4 if both else 1, 2, width - left - 5 if both else width - 2, body - 1))
        self.merged.display = both or not self._raw_side
        self.raw.display = both or self._raw_side

    # ------------------------------------------------------------------------------------------------------- drawing

    def show(self, view: View) -> None:
        dump = self._dump(view)
        process = self._process(dump)
        index = view.dumps.index(dump) if dump in view.dumps else 0
        self._header.line = paint_dump_header(dump, index, len(view.dumps), app_of(self).size.width, view.keys)
        self.merged.dump, self.raw.process = dump, process
        for part in (self._header, self.merged, self.raw, self._footer):
            if part.display:
                part.draw(view)

    def _dump(self, view: View) -> Dump | None:
        """The chosen taking; the newest where none was chosen."""
        return next((d for d in view.dumps if d.id == self._dump_id), view.dumps[-1] if view.dumps else None)

    def _process(self, dump: Dump | None) -> ProcessStacks | None:
        rows = order(dump) if dump else []
        return next((p for p in rows if (p.host, p.pid) == self._chosen), rows[0] if rows else None)

    # ------------------------------------------------------------------------------------------------------- actions

    @property
    def active(self) -> Pane:
        return self.raw if self._raw_side else self.merged

    def action_leave(self) -> None:
        self.dismiss()

    def action_process(self, step: int) -> None:
        """The next process in the order of the list; odd ones stand first."""
        view = app_of(self).view
        dump = self._dump(view)
        rows = order(dump) if dump else []
        current = self._process(dump)
        if current is not None:
            chosen = rows[(rows.index(current) + step) % len(rows)]
            self._chosen = (chosen.host, chosen.pid)
            self._raw_side = True
            self._place()
            self.raw.scroll_top()
            self.show(view)

    def action_dump(self, step: int) -> None:
        view = app_of(self).view
        current = self._dump(view)
        if current is not None:
            index = min(len(view.dumps) - 1, max(0, view.dumps.index(current) + step))
            newest = index == len(view.dumps) - 1
            self._dump_id = None if newest else view.dumps[index].id
            self.show(view)

    def action_side(self) -> None:
        self._raw_side = not self._raw_side
        self._place()
        self.set_focus(self.active)
        self.show(app_of(self).view)

    def action_move(self, rows: int) -> None:
        self.active.scroll_rows(rows)

    def action_leaf(self, pages: float) -> None:
        self.active.scroll_page(pages)
