"""Stacks that were taken: merged with the odd ranks first, the raw dump of each process, and what moved between two."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.events import Resize
from textual.screen import Screen

from tui.errors import UsageError
from tui.files import state_folder
from tui.model import Dump, ProcessStacks
from tui.ui import format as fmt
from tui.ui.keys import DUMPS, Keys
from tui.ui.layout import WIDE, Rect
from tui.ui.lines import Line, spread
from tui.ui.screens.main import put
from tui.ui.source import Sources
from tui.ui.stack_compare import Pair, pairs
from tui.ui.stack_filter import parse
from tui.ui.stack_tree import process_name
from tui.ui.view import View
from tui.ui.widgets.hints import Hints
from tui.ui.widgets.outline import OutlinePane
from tui.ui.widgets.pane import Drawing, app_of
from tui.ui.widgets.prompt import Prompt
from tui.ui.widgets.stacks import ComparePane, MergedPane, RawPane, StackPane, order

MOST_COPIED = 100_000
"""Characters; several terminals pass over a longer sequence as a whole."""

HINTS = (
    ("dumps.open", "open"),
    ("pane.back", "back"),
    ("dumps.next", "rank"),
    ("search", "filter"),
    ("dumps.side", "merged, raw"),
    ("dumps.compare", "what moved"),
    ("dumps.earlier", "earlier"),
    ("dumps.all", "all threads"),
    ("dumps.text", "text"),
    ("dumps.copy", "copy"),
    ("dumps.save", "save"),
    ("stacks", "again"),
)
"""Ids of bindings; those at the end are given up first where room is short."""


def paint_dump_header(
    dump: Dump | None, index: int, count: int, width: int, keys: Keys, launch: str | None = None
) -> Line:
    """``launch``: whose stacks they are, where there are several launches."""
    lead: Line = [(f" {launch} ", "accent")] if launch else []
    if dump is None:
        return [*lead, (" no stacks taken yet", "strong"), (f"   {keys['stacks']} takes them", "dim")]
    line: Line = [
        *lead,
        (f" {method_words(dump)}", "strong"),
        (f"  {fmt.clock(dump.started_wall)}", "dim"),
        (f"  {len(dump.processes)} of {max(dump.expected, len(dump.processes))} in", "good" if dump.done else "info"),
    ]
    failed = sum(p.error is not None for p in dump.processes)
    if failed:
        line.append((f"  {failed} without stacks", "warn"))
    if not dump.done:
        line.append(("  more to come", "info"))
    return spread(line, [(f"{index + 1} of {count} ", "dim")] if count > 1 else [], width)


def method_words(dump: Dump) -> str:
    """How they were taken, and whether anything was paused for it."""
    if dump.method == "abort":
        return "stacks at SIGABRT"
    if dump.method != "stacks":
        return dump.method
    paused = dump.native or any(step.method == "native stacks" for step in dump.steps)
    return "stacks with C frames, ranks paused" if paused else "stacks, nothing paused"


class DumpHeader(Drawing):
    line: Line

    def show(self, view: View) -> None:
        self.set_rows([self.line])


class DumpScreen(Screen[None]):
    BINDINGS: ClassVar[list[Binding]] = DUMPS  # pyright: ignore[reportIncompatibleVariableOverride]
    ALSO: ClassVar[frozenset[str]] = frozenset({"launch"})

    def __init__(self) -> None:
        super().__init__()
        self._header = DumpHeader(id="dump-header")
        self._footer = Hints(HINTS, DUMPS, id="dump-footer")
        session = app_of(self).session
        sources = Sources(self._source_came, allowed=session is not None and not session.why_no_stacks)
        self.merged = MergedPane(sources, self._went, id="merged")
        self.raw = RawPane(sources, self._went, id="raw")
        self.compared = ComparePane(sources, self._went, id="compared")
        self.prompt = Prompt(id="prompt")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._dump_id: int | None = None
        self._chosen: tuple[str, int | None] | None = None
        self._raw_side = False
        self._comparing: int | None = None
        """Which of the pairs that can be compared is shown; ``None``: the stacks themselves."""
        self._pairs: tuple[tuple[Dump, ...], list[Pair]] = ((), [])
        self._saving = False

    @property
    def _panes(self) -> tuple[StackPane, ...]:
        return (self.merged, self.raw, self.compared)

    def compose(self) -> ComposeResult:
        yield from (self._header, *self._panes, self._footer, self.prompt)

    def on_mount(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._place()
        self.set_focus(self.active)
        self.show(app_of(self).view)

    def on_resize(self, event: Resize) -> None:
        self._place()
        self.show(app_of(self).view)

    def _place(self) -> None:
        width, height = app_of(self).size
        body = max(1, height - 3)
        put(self._header, Rect(0, 0, width, 1))
        put(self._footer, Rect(0, height - 1, width, 1))
        put(self.prompt, Rect(0, height - 1, width, 1))
        comparing = self._comparing is not None
        both = width >= WIDE * 3 // 4
        left = (width - 5) * 11 // 20 if both else width - 2
        put(self.merged, Rect(1, 2, left, body - 1))
        put(self.raw, Rect(left + 4 if both else 1, 2, width - left - 5 if both else width - 2, body - 1))
        put(self.compared, Rect(1, 2, width - 2, body - 1))
        self.merged.display = not comparing and (both or not self._raw_side)
        self.raw.display = not comparing and (both or self._raw_side)
        self.compared.display = comparing
        for pane in self._panes:
            pane.leads = pane is self.active

    # ------------------------------------------------------------------------------------------------------- drawing

    def show(self, view: View) -> None:
        dump = self._dump(view)
        if self.raw.touched and self._chosen is None and self.raw.process is not None:
            self._chosen = (self.raw.process.host, self.raw.process.pid)  # it is being read: no other takes its place
        process = self._process(dump)
        index = view.dumps.index(dump) if dump in view.dumps else 0
        several = len(view.snapshot.launches) > 1 and view.launch is not None
        launch = view.launch.launch.name if several and view.launch is not None else None
        self._header.line = paint_dump_header(dump, index, len(view.dumps), app_of(self).size.width, view.keys, launch)
        self.merged.dump, self.raw.process = dump, process
        self.raw.native = _native_of(dump, process)
        if self._comparing is not None:
            known = self._pairs_of(view, dump)
            self.compared.pair = known[self._comparing % len(known)] if known else None
        for part in (self._header, *self._panes, self._footer):
            if part.display:
                part.draw(view)

    def _dump(self, view: View) -> Dump | None:
        """The chosen taking; the newest where none was chosen."""
        return next((d for d in view.dumps if d.id == self._dump_id), view.dumps[-1] if view.dumps else None)

    def _process(self, dump: Dump | None) -> ProcessStacks | None:
        rows = order(dump) if dump else []
        return next((p for p in rows if (p.host, p.pid) == self._chosen), rows[0] if rows else None)

    def _pairs_of(self, view: View, dump: Dump | None) -> list[Pair]:
        """The same objects while the dumps are the same: who moved is found out once."""
        if dump is None:
            return []
        index = view.dumps.index(dump) if dump in view.dumps else 0
        at_hand = view.dumps[max(0, index - 1) : index + 1]
        known, found = self._pairs
        if len(known) != len(at_hand) or any(a is not b for a, b in zip(known, at_hand, strict=True)):
            found = pairs(at_hand, dump)
            self._pairs = (at_hand, found)
        return found

    def _redraw(self) -> None:
        self._place()
        self.show(app_of(self).view)

    def _source_came(self) -> None:
        """Called from the thread that has read it."""

        def again() -> None:
            for pane in self._panes:
                pane.revision += 1
            if self.is_attached:
                self.show(app_of(self).view)

        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended meanwhile: nobody looks any more
                self._loop.call_soon_threadsafe(again)

    # ------------------------------------------------------------------------------------------------------- actions

    @property
    def active(self) -> StackPane:
        if self._comparing is not None:
            return self.compared
        return self.raw if self._raw_side else self.merged

    def _went(self, pane: OutlinePane) -> None:
        """The cursor is on another row: the process that it speaks of is the one shown beside."""
        if pane is not self.active and pane is not self.compared:
            self._raw_side = pane is self.raw
            self._place()
        row = pane.row
        if pane is not self.raw and row is not None and row.process is not None and row.process != self._chosen:
            self._chosen = row.process
            self.raw.begin()
        self.show(app_of(self).view)

    def action_leave(self) -> None:
        if self.merged.wanted.words:
            self._filter("")
        elif self._comparing is not None:
            self._compare(None)
        else:
            self.dismiss()

    def action_process(self, step: int) -> None:
        """The next process in the order of the list; odd ones stand first."""
        dump = self._dump(app_of(self).view)
        rows = [p for p in order(dump) if self.merged.wanted.takes(p)] if dump else []
        if not rows:
            return
        index = next((n for n, p in enumerate(rows) if (p.host, p.pid) == self._chosen), 0)
        chosen = rows[(index + step) % len(rows)]
        self._chosen = (chosen.host, chosen.pid)
        self._raw_side, self._comparing = True, None
        self.raw.begin()
        self._redraw()
        self.set_focus(self.active)

    def action_dump(self, step: int) -> None:
        view = app_of(self).view
        current = self._dump(view)
        if current is not None:
            index = min(len(view.dumps) - 1, max(0, view.dumps.index(current) + step))
            newest = index == len(view.dumps) - 1
            self._dump_id = None if newest else view.dumps[index].id
            self.show(view)

    def action_side(self) -> None:
        if self._comparing is not None:
            self._comparing = None
        else:
            self._raw_side = not self._raw_side
        self._redraw()
        self.set_focus(self.active)

    def action_move(self, rows: int) -> None:
        self.active.move(rows)

    def action_leaf(self, pages: float) -> None:
        self.active.move_page(pages)

    def action_open_row(self) -> None:
        self.active.toggle()

    def action_deeper(self, step: int) -> None:
        self.active.deeper(step)

    def action_all_threads(self) -> None:
        """Open or close what folds the threads away that tell nothing, of every process."""
        keys: tuple[Hashable, ...] = ("rest",), ("native", "rest")
        level = 1 - self.raw.levels.get(keys[0], 0)
        self.raw.levels |= dict.fromkeys(keys, level)
        app_of(self).notify("all threads" if level else "threads that tell something", timeout=1.5, markup=False)
        self.show(app_of(self).view)

    def action_text(self) -> None:
        for pane in self._panes:
            pane.as_text = not pane.as_text and pane is not self.compared
            pane.begin()
        self._redraw()

    # ----------------------------------------------------------------------------------------- two looks, and a filter

    def action_compare(self) -> None:
        """Each pair of looks in turn, then the stacks again."""
        view = app_of(self).view
        known = self._pairs_of(view, self._dump(view))
        if not known:
            words = f"There is one look only: {view.keys['stacks']} takes the stacks again, to be compared with these."
            app_of(self).notify(words, markup=False)
            return
        after = 0 if self._comparing is None else self._comparing + 1
        self._compare(after if after < len(known) else None)

    def _compare(self, which: int | None) -> None:
        self._comparing = which
        self.compared.begin()
        self._redraw()
        self.set_focus(self.active)

    def action_filter(self) -> None:
        self.prompt.ask("filter ", self._filter)

    def _filter(self, words: str | None) -> None:
        self.set_focus(self.active)
        if words is None:
            return
        try:
            wanted = parse(words)
        except UsageError as error:
            app_of(self).notify(str(error), severity="warning", markup=False)
            return
        for pane in self._panes:
            pane.wanted = wanted
            pane.begin()
        dump = self._dump(app_of(self).view)
        first = next((p for p in order(dump) if wanted.takes(p)), None) if dump and words.strip() else None
        self._chosen = (first.host, first.pid) if first is not None else self._chosen
        self.show(app_of(self).view)

    # --------------------------------------------------------------------------------------------------- copy and save

    def action_copy(self) -> None:
        """To the clipboard of the terminal (OSC 52), which is that of the reader's own machine."""
        pane = self.active
        lines = pane.text()
        text = "\n".join(lines)
        what = "the merged stacks"
        if pane is self.raw and self.raw.process is not None:
            what = "the stacks of " + process_name(self.raw.process).replace("  ", " on ", 1)
        app = app_of(self)
        app.copy_to_clipboard(text[:MOST_COPIED])
        words = f"Copied {what}: {fmt.plural(len(lines), 'line')}, where the terminal lets programs copy (OSC 52)."
        if len(text) > MOST_COPIED:
            words += f" Cut after {MOST_COPIED:,} characters; {app.keys['dumps.save']} writes all of it."
        app.notify(words, markup=False)

    def action_save(self) -> None:
        """Beside the screen: of many ranks it takes seconds, and a folder may lie on storage that does not answer."""
        dump = self._dump(app_of(self).view)
        if dump is None or self._saving:
            return
        self._saving = True
        app_of(self).run_worker(partial(self._save, dump), name="save", group="save", exit_on_error=False)

    async def _save(self, dump: Dump) -> None:
        from tui.ui.stack_text import save

        app = app_of(self)
        folders = [Path(), state_folder() / "stacks"]
        try:
            text, data = await asyncio.to_thread(save, dump, folders)
        except OSError as error:
            app.notify(f"Not saved: {error}", severity="error", markup=False)
        else:
            app.notify(f"Written: {text.absolute()} and {data.name}", timeout=10, markup=False)
        finally:
            self._saving = False


def _native_of(dump: Dump | None, process: ProcessStacks | None) -> ProcessStacks | None:
    """The same process with C frames."""
    if dump is None or process is None:
        return None
    return next((p for p in dump.native if (p.host, p.pid) == (process.host, process.pid)), None)
