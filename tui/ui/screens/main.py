"""The main screen: everything about one launch at a glance, laid out for the size of the terminal."""

from __future__ import annotations

from dataclasses import replace

from textual.app import ComposeResult
from textual.events import Resize, ScreenResume
from textual.screen import Screen

from tui.config.choices import NOTHING_CHOSEN, Choices
from tui.ui.layout import NARROW, Needs, Rect, columns, plan
from tui.ui.view import View
from tui.ui.widgets.evidence import EvidencePane
from tui.ui.widgets.footer import FooterLine
from tui.ui.widgets.gpus import GpuPane, rows_needed
from tui.ui.widgets.header import HeaderLine
from tui.ui.widgets.log import LogPane
from tui.ui.widgets.pane import Drawing, Pane, app_of
from tui.ui.widgets.phases import PhaseBar
from tui.ui.widgets.processes import ProcessPane
from tui.ui.widgets.prompt import Prompt
from tui.ui.widgets.timeline import TimelinePane
from tui.ui.widgets.verdict import Timers, VerdictBand

BRIEF_S = 1.5
"""How long it is said that a step leads nowhere: the words lie over the log that is read."""

CALM = frozenset({"progressing", "slow", "ready", "ended"})


class MainScreen(Screen[None]):
    AUTO_FOCUS = ""

    def __init__(self, choices: Choices = NOTHING_CHOSEN) -> None:
        """``choices``: what was chosen before; what of it is unknown here is passed over."""
        super().__init__()
        self.log_pane = LogPane(id="log")
        self.timeline = TimelinePane(id="timeline")
        self.ranks = ProcessPane(id="processes")
        self.panes: dict[str, Pane] = {
            "gpus": GpuPane(id="gpus"),
            "processes": self.ranks,
            "evidence": EvidencePane(id="evidence"),
            "timeline": self.timeline,
            "log": self.log_pane,
        }
        self.strips = (
            HeaderLine(id="header"),
            VerdictBand(id="verdict"),
            Timers(id="timers"),
            PhaseBar(id="phases"),
            FooterLine(id="footer"),
        )
        self.prompt = Prompt(id="prompt")
        self.full: str | None = None
        self.hidden = set(choices.hidden_panes) & self.panes.keys()
        self.order = list(dict.fromkeys(p for p in (*choices.pane_order, *self.panes) if p in self.panes))
        """All panes; those of a column stand below each other in this order."""
        self.ranks.choose(choices.ranks_order, choices.hidden_columns)
        self._rects: dict[str, Rect] = {}

    def compose(self) -> ComposeResult:
        self.show(app_of(self).view)  # before the first layout, so that already the first picture shows it
        yield from self.strips[:-1]
        yield from self.panes.values()
        yield self.strips[-1]
        yield self.prompt

    # ------------------------------------------------------------------------------------------------------- drawing

    def show(self, view: View) -> None:
        """Draw a new view: place the parts if their needs changed, then let each repaint what differs."""
        self._place(view)
        for part in (*self.strips, *self.panes.values()):
            if part.display:
                part.draw(view)

    def tick(self, view: View) -> None:
        """Only time has passed: what counts seconds is drawn again."""
        for part in (*self.strips[:-1], self.log_pane):
            if part.display:
                part.draw(view)

    def _place(self, view: View) -> None:
        width, height = app_of(self).size
        rects = plan(width, height, self._needs(view))
        if rects == self._rects:
            return
        self._rects = rects
        parts: list[Drawing] = [*self.strips, *self.panes.values()]
        for part in parts:
            rect = rects.get(part.id or "")
            part.display = rect is not None
            if rect is not None:
                put(part, rect)
        put(self.prompt, rects["footer"])

    def _needs(self, view: View) -> Needs:
        width = app_of(self).size.width
        inner = width - 4 if width >= NARROW else width - 2
        at_most, compact = rows_needed(view, inner)
        return Needs(
            launch=view.launch is not None,
            alarm=view.launch is not None and view.launch.verdict.id not in CALM,
            gpu_rows=1 + at_most,
            gpu_rows_compact=1 + compact,
            process_rows=2 + max(1, len(view.processes)),
            full=self.full,
            hidden=frozenset(self.hidden),
            order=tuple(self.order),
        )

    def on_resize(self, event: Resize) -> None:
        self.show(app_of(self).view)

    def on_screen_resume(self, event: ScreenResume) -> None:
        self.show(app_of(self).view)

    # ----------------------------------------------------------------------------------------------- panes and focus

    @property
    def active_pane(self) -> Pane:
        """The pane that scrolling keys move: the open one, the focused one, else the log or what is shown of panes."""
        if self.full is not None:
            return self.panes[self.full]
        if isinstance(self.focused, Pane):
            return self.focused
        shown = [p for p in self.panes.values() if p.display]
        return self.log_pane if self.log_pane in shown or not shown else shown[0]

    def open(self, name: str) -> None:
        """Open a pane in full; opening the open one closes it."""
        self.close() if self.full == name else self._set_full(name)

    def close(self) -> None:
        self._set_full(None)

    def _set_full(self, name: str | None) -> None:
        self.full = name
        for key, pane in self.panes.items():
            pane.full = key == name
        self.show(app_of(self).view)
        self.set_focus(self.panes[name] if name else None)

    def toggle(self, name: str) -> None:
        """Hide a pane, or show it again in its place."""
        self.hidden ^= {name}
        if self.full is None and isinstance(self.focused, Pane) and self.focused.id in self.hidden:
            self.set_focus(None)
        self.show(app_of(self).view)

    def move(self, name: str, direction: int) -> bool:
        """Let a pane change places with the one above it (-1) or below (1); false where there is none."""
        rects = {pane: rect for pane, rect in self._rects.items() if pane in self.panes}
        column = next((column for column in columns(rects) if name in column), [name])
        index = column.index(name) + direction
        if not 0 <= index < len(column):
            return False
        here, there = self.order.index(name), self.order.index(column[index])
        self.order[here], self.order[there] = self.order[there], self.order[here]
        self.show(app_of(self).view)
        return True

    def chosen(self, before: Choices) -> Choices:
        """``before``, with what is chosen on this screen."""
        order = tuple(self.order)
        return replace(
            before,
            hidden_panes=tuple(sorted(self.hidden)),
            pane_order=() if order == tuple(self.panes) else order,
            hidden_columns=tuple(sorted(self.ranks.hidden)),
            ranks_order=self.ranks.order_words if self.ranks.order else "",
        )

    def step_focus(self, direction: int) -> None:
        shown = [self.panes[name] for name in self.order if self.panes[name].display]
        if not shown:
            return
        current = self.focused
        index = shown.index(current) + direction if isinstance(current, Pane) and current in shown else 0
        self.set_focus(shown[index % len(shown)])

    # -------------------------------------------------------------------------------------------------------- search

    def ask_search(self) -> None:
        if not self.log_pane.display:
            self.open("log")
        self.prompt.ask("/", self._search)

    def _search(self, query: str | None) -> None:
        self.set_focus(self.log_pane)
        if query is not None and self.log_pane.search(query) == 0 and query:
            app_of(self).notify(f"“{query}” is not in the lines of the log that are kept.", markup=False)

    def step_search(self, forward: bool) -> None:
        if not self.log_pane.query_text:
            self.ask_search()
        elif not self.log_pane.step(forward):
            app_of(self).notify("No more hits that way.", timeout=BRIEF_S, markup=False)

    def step_mark(self, forward: bool) -> None:
        """To the next line of the log that began a phase, or that was fatal."""
        if not self.log_pane.display:
            self.open("log")
        if not self.log_pane.step_mark(forward):
            app_of(self).notify("No line that began a phase lies that way.", timeout=BRIEF_S, markup=False)


def put(part: Drawing, rect: Rect) -> None:
    """Place a widget at a fixed rectangle of its screen."""
    part.styles.offset = (rect.x, rect.y)
    part.styles.width = rect.width
    part.styles.height = rect.height
