"""The last line: the keys that matter here, whole hints only, and what was just done."""

from __future__ import annotations

from collections.abc import Sequence

from textual.events import Click

from tui.ui.keys import Keys
from tui.ui.lines import Line, cut, spread, width_of
from tui.ui.view import View
from tui.ui.widgets.pane import Drawing

HINTS = (
    ("stacks", "stacks"),
    ("help", "help"),
    ("quit", "quit"),
    ("open.evidence", "evidence"),
    ("open.log", "log"),
    ("open.processes", "ranks"),
    ("open.gpus", "GPUs"),
    ("open.timeline", "timeline"),
    ("dumps", "dumps"),
    ("abort", "abort"),
    ("freeze", "freeze"),
    ("open.fleet", "fleet"),
    ("time.back", "back in time"),
    ("search", "search"),
    ("theme.next", "theme"),
    ("pane.next", "next pane"),
)
"""Ids of bindings, in the order in which they are given up from the end where room is short."""

BACK, GO_ON, SEARCH = ("pane.back", "back"), ("freeze", "go on"), ("search", "search")
"""What leads out of a pane that is open in full and of a moment that is held, and what a log is opened for."""

SHOWN_ORDER = (
    *(
        "pane.back",
        "stacks",
        "dumps",
        "abort",
        "open.evidence",
        "open.log",
        "open.processes",
        "open.gpus",
        "open.timeline",
    ),
    *("open.fleet", "search", "freeze", "time.back", "pane.next", "theme.next", "help", "quit"),
)

WITHOUT_LAUNCH = frozenset({"open.gpus", "open.fleet", "theme.next", "help", "quit"})
WITH_HOSTS = frozenset({"open.fleet"})
"""Hints that are worth their place only where there are several hosts."""


def hints_for(view: View, full: str | None) -> list[tuple[str, str]]:
    """The hints that make sense, the most useful first; ``full`` is the pane that is open in full."""
    now = [hint for hint, on in ((BACK, full), (GO_ON, view.frozen), (SEARCH, full == "log")) if on]
    without = set[str]() if view.launch is not None else {id for id, _ in HINTS} - WITHOUT_LAUNCH
    without |= {id for id, _ in now} | (WITH_HOSTS if len(view.snapshot.hosts) < 2 else set())
    return [*now, *(hint for hint in HINTS if hint[0] not in without)]


def paint_footer(
    width: int, note: str, keys: Keys, hints: Sequence[tuple[str, str]] = HINTS
) -> tuple[Line, list[tuple[int, int, str]]]:
    """The hints that fit, in their fixed order, and where each lies (first cell, end, id); the note takes up to half of
    the line where there is one."""
    right: Line = [(note, "info"), (" ", "text")] if note else []
    room = width - 1 - (min(width_of(right), max(width // 2, width - 60)) if note else 0)
    kept: list[tuple[str, str]] = []
    for hint in hints:
        if sum(len(keys[id]) + len(words) + 3 for id, words in [*kept, hint]) > room:
            break
        kept.append(hint)
    kept.sort(key=lambda hint: SHOWN_ORDER.index(hint[0]))
    line: Line = [(" ", "text")]
    spots: list[tuple[int, int, str]] = []
    for id, words in kept:
        start = width_of(line)
        line += [(keys[id], "key"), (f" {words}  ", "dim")]
        spots.append((start, width_of(line) - 2, id))
    left = width - width_of(line)
    return spread(line, cut(right, left) if width_of(right) > left else right, width), spots


class FooterLine(Drawing):
    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._spots: list[tuple[int, int, str]] = []

    def show(self, view: View) -> None:
        hints = hints_for(view, self.gputop.main.full)
        line, self._spots = paint_footer(self.size.width, view.snapshot.note, view.keys, hints)
        self.set_rows([line])

    async def on_click(self, event: Click) -> None:
        for start, end, id in self._spots:
            if start <= event.x < end:
                await self.gputop.run_binding(id)
