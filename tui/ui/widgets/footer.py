"""The last line: the keys that matter here, whole hints only, and what was just done."""

from __future__ import annotations

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
    ("dumps", "dumps"),
    ("abort", "abort"),
    ("freeze", "freeze"),
    ("search", "search"),
    ("theme.next", "theme"),
    ("pane.next", "next pane"),
)
"""Ids of bindings, in the order in which they are given up from the end where room is short."""

SHOWN_ORDER = (
    *("stacks", "dumps", "abort", "open.evidence", "open.log", "open.processes", "open.gpus"),
    *("search", "freeze", "pane.next", "theme.next", "help", "quit"),
)

WITHOUT_LAUNCH = frozenset({"open.gpus", "theme.next", "help", "quit"})


def paint_footer(width: int, note: str, keys: Keys, launch: bool = True) -> Line:
    """The hints that fit, in their fixed order; the note takes up to half of the line where there is one."""
    right: Line = [(note, "info"), (" ", "text")] if note else []
    room = width - 1 - (min(width_of(right), max(width // 2, width - 60)) if note else 0)
    kept: list[tuple[str, str]] = []
    for hint in (h for h in HINTS if launch or h[0] in WITHOUT_LAUNCH):
        if sum(len(keys[id]) + len(words) + 3 for id, words in [*kept, hint]) > room:
            break
        kept.append(hint)
    kept.sort(key=lambda hint: SHOWN_ORDER.index(hint[0]))
    line: Line = [(" ", "text")]
    for id, words in kept:
        line += [(keys[id], "key"), (f" {words}  ", "dim")]
    left = width - width_of(line)
    return spread(line, cut(right, left) if width_of(right) > left else right, width)


class FooterLine(Drawing):
    def show(self, view: View) -> None:
        self.set_rows([paint_footer(self.size.width, view.snapshot.note, view.keys, view.launch is not None)])
