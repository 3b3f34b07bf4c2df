"""The help: every key with what it does, and what the marks mean."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.events import Resize
from textual.screen import ModalScreen

from tui.ui.keys import SECTIONS, key_words
from tui.ui.lines import Line, wrap_spans
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

NUMBERS = "1…9"


def paint_help(width: int) -> list[Line]:
    rows: list[Line] = []
    for section, bindings in SECTIONS:
        rows += [[(section, "strong")]]
        for binding in bindings:
            if binding.action.startswith("launch("):
                if binding.action == "launch(1)":
                    rows += _row(NUMBERS, "choose a launch by its number", width)
                continue
            rows += _row(key_words(binding), binding.description, width)
        rows.append([])
    rows += _row("ctrl+p", "every command by name", width)
    rows += [[], [("what is thought of a launch", "strong")]]
    for verdict, meaning in MEANINGS.items():
        lead: Line = [(f"  {VERDICT_GLYPHS[verdict]} ", verdict_role(verdict)), (f"{verdict:<12}", "dim")]
        rows += wrap_spans(lead, meaning, "text", width)
    return rows


def _row(key: str, words: str, width: int) -> list[Line]:
    return wrap_spans([("  ", "text"), (f"{key:<10} ", "key")], words, "text", width)


class HelpPane(Pane):
    def paint(self, view: View, width: int, height: int) -> Painting:
        return Painting(paint_help(width), title=[("keys", "title")], note=[("esc closes", "dim")])


class HelpScreen(ModalScreen[None]):
    BINDINGS: ClassVar[list[Binding]] = [  # pyright: ignore[reportIncompatibleVariableOverride]
        Binding("escape,q,question_mark,enter", "close", "close", id="help.close", tooltip="close the help"),
        Binding("j,down", "move(1)", "down", id="help.down", tooltip="down one line"),
        Binding("k,up", "move(-1)", "up", id="help.up", tooltip="up one line"),
        Binding("ctrl+d,pagedown", "move(10)", "page down", id="help.page_down", tooltip="down"),
        Binding("ctrl+u,pageup", "move(-10)", "page up", id="help.page_up", tooltip="up"),
    ]

    def compose(self) -> ComposeResult:
        yield HelpPane(id="help")

    def on_mount(self) -> None:
        self.on_resize()
        self.query_one(HelpPane).focus()

    def on_resize(self, event: Resize | None = None) -> None:
        width, height = app_of(self).size
        pane = self.query_one(HelpPane)
        pane.styles.width = min(84, width)
        pane.styles.height = min(height, len(paint_help(min(84, width) - 4)) + 3)
        self.call_after_refresh(self.show, app_of(self).view)

    def show(self, view: View) -> None:
        self.query_one(HelpPane).draw(view)

    def action_move(self, rows: int) -> None:
        self.query_one(HelpPane).scroll_rows(rows)

    def action_close(self) -> None:
        self.dismiss()
