"""The last line of a screen before the main one: the keys that matter there."""

from __future__ import annotations

from collections.abc import Sequence

from textual.binding import Binding
from textual.events import Click

from tui.ui.lines import Line, width_of
from tui.ui.view import View
from tui.ui.widgets.pane import Drawing


class Hints(Drawing):
    """Whole hints only; a click does what the key does.

    ``hints`` are ids of bindings with a word each, those at the end given up first where room is short; ``own`` are the
    bindings of the screen itself.
    """

    def __init__(self, hints: Sequence[tuple[str, str]], own: Sequence[Binding], *, id: str) -> None:
        super().__init__(id=id)
        self._hints, self._own = hints, own
        self._spots: list[tuple[int, int, str]] = []

    def show(self, view: View) -> None:
        line: Line = [(" ", "text")]
        self._spots = []
        for id, words in self._hints:
            hint: Line = [(view.keys[id].split()[0], "key"), (f" {words}  ", "dim")]
            start = width_of(line)
            if start + width_of(hint) > self.size.width:
                break
            line += hint
            self._spots.append((start, width_of(line) - 2, id))
        self.set_rows([line])

    async def on_click(self, event: Click) -> None:
        for start, end, id in self._spots:
            if start <= event.x < end:
                own = next((binding.action for binding in self._own if binding.id == id), None)
                await (self.gputop.run_action(own, self.screen) if own else self.gputop.run_binding(id))
