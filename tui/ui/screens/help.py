"""The help: every key with what it does, and what the marks mean."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.events import Resize
from textual.screen import ModalScreen

from tui.ui.keys import DUMPS, FLEET, HELP, SECTIONS, Keys
from tui.ui.lines import Line, spread, width_of, wrap_spans
from tui.ui.view import View
from tui.ui.widgets.pane import Painting, Pane, app_of
from tui.ui.words import VERDICT_GLYPHS, verdict_role

MEANINGS = {
    "progressing": "something that counts as progress moved just now",
    "slow": "nothing to read, but this phase's work visibly goes on",
    "waiting": "nothing computes, nothing is wrong: it waits for somebody named",
    "suspect": "no healthy explanation fits any more; not yet certain",
    "hung": "it will not go on by itself",
    "crashed": "a process it needs is gone, or a fatal line was printed",
    "ended": "it ended by itself or was stopped in order",
    "ready": "a server serves",
    "unknown": "too little is seen to say",
}

LAUNCHES = ("launch.1", "launch.9")
"""The first and last of the bindings that choose a launch by its number: they share a row."""


def paint_help(keys: Keys, width: int) -> list[Line]:
    """Every action with its present key and, where there is room, the id that another key is given to it by."""
    rows: list[Line] = []
    shown = {binding.id for _, bindings in SECTIONS for binding in bindings}
    dumps, hosts = (tuple(binding for binding in own if binding.id not in shown) for own in (DUMPS, FLEET))
    for section, bindings in (*SECTIONS, ("stacks that were taken", dumps), ("the fleet", hosts)):
        rows += [[(section, "strong")]]
        for binding in bindings:
            id = binding.id or ""
            if id == LAUNCHES[0]:
                span = f"{keys[id]}…{keys[LAUNCHES[1]]}"
                rows += _row(span, "choose a launch by its number", "launch.1 …", width)
            elif not id.startswith("launch."):
                rows += _row(keys[id], binding.description, id, width)
        rows.append([])
    rows += [[("what is thought of a launch", "strong")]]
    for verdict, meaning in MEANINGS.items():
        lead: Line = [(f"  {VERDICT_GLYPHS[verdict]} ", verdict_role(verdict)), (f"{verdict:<12}", "dim")]
        rows += wrap_spans(lead, meaning, "text", width)
    return rows


def _row(key: str, words: str, id: str, width: int) -> list[Line]:
    rows = wrap_spans([("  ", "text"), (f"{key:<10} ", "key")], words, "text", width)
    if width_of(rows[-1]) + len(id) + 2 <= width:
        rows[-1] = spread(rows[-1], [(id, "faint")], width)
    return rows


class HelpPane(Pane):
    def paint(self, view: View, width: int, height: int) -> Painting:
        note: Line = [(f"{view.keys['help.close']} closes", "dim")]
        return Painting(paint_help(view.keys, width), title=[("keys", "title"), (" and their ids", "dim")], note=note)


class HelpScreen(ModalScreen[None]):
    BINDINGS: ClassVar[list[Binding]] = HELP  # pyright: ignore[reportIncompatibleVariableOverride]

    def compose(self) -> ComposeResult:
        yield HelpPane(id="help")

    def on_mount(self) -> None:
        self.on_resize()
        self.query_one(HelpPane).focus()

    def on_resize(self, event: Resize | None = None) -> None:
        width, height = app_of(self).size
        pane = self.query_one(HelpPane)
        pane.styles.width = min(84, width)
        pane.styles.height = min(height, len(paint_help(app_of(self).keys, min(84, width) - 4)) + 3)
        self.call_after_refresh(self.show, app_of(self).view)

    def show(self, view: View) -> None:
        self.query_one(HelpPane).draw(view)

    def action_move(self, rows: int) -> None:
        self.query_one(HelpPane).scroll_rows(rows)

    def action_close(self) -> None:
        self.dismiss()
