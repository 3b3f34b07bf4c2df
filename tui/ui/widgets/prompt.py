"""A one-line question at the foot of the screen; every key belongs to it until enter, escape or ctrl+c."""

from __future__ import annotations

from collections.abc import Callable

from textual.events import Blur, Key, Paste

from tui.safetext import clean
from tui.ui.lines import fit_left, width_of
from tui.ui.widgets.pane import Drawing


class Prompt(Drawing, can_focus=True):
    """``ask`` shows it; the answer goes to the callback, ``None`` where the reader gave up."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.display = False
        self._answer: Callable[[str | None], None] | None = None
        self._label = ""
        self._text = ""

    def ask(self, label: str, answer: Callable[[str | None], None]) -> None:
        self._label, self._text, self._answer = label, "", answer
        self.display = True
        self.focus()
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        room = max(1, self.size.width - width_of([(self._label, "key")]) - 3)
        self.set_rows([[(f" {self._label}", "key"), (fit_left(self._text, room), "text"), ("▏", "accent")]])

    def _close(self, text: str | None) -> None:
        answer, self._answer = self._answer, None
        self.display = False
        if answer is not None:
            answer(text)

    def on_key(self, event: Key) -> None:
        event.stop()
        event.prevent_default()
        if event.key == "enter":
            self._close(self._text)
        elif event.key in ("escape", "ctrl+c"):
            self._close(None)
        elif event.key == "ctrl+u":
            self._text = ""
        elif event.key == "ctrl+w":
            self._text = self._text.rstrip().rpartition(" ")[0]
        elif event.key in ("backspace", "ctrl+h"):
            self._text = self._text[:-1]
        elif event.is_printable and event.character:
            self._text += event.character
        self._draw()

    def on_paste(self, event: Paste) -> None:
        event.stop()
        self._text += clean(event.text.split("\n")[0], 200)
        self._draw()

    def on_blur(self, event: Blur) -> None:
        self._close(None)
