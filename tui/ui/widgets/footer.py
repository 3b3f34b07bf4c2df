"""The last line: the keys that matter here, whole hints only, and what was just done."""

from __future__ import annotations

from tui.ui.lines import Line, cut, spread, width_of
from tui.ui.view import View
from tui.ui.widgets.pane import Drawing

HINTS = (
    ("d", "stacks"),
    ("?", "help"),
    ("q", "quit"),
    ("e", "evidence"),
    ("l", "log"),
    ("p", "ranks"),
    ("g", "GPUs"),
    ("v", "dumps"),
    ("A", "abort"),
    ("space", "freeze"),
    ("/", "search"),
    ("t", "theme"),
    ("tab", "next pane"),
)
"""In the order in which they are given up from the end where room is short."""

SHOWN_ORDER = ("d", "v", "A", "e", "l", "p", "g", "/", "space", "tab", "t", "?", "q")


WITHOUT_LAUNCH = frozenset("gt?q")


def paint_footer(width: int, note: str, launch: bool = True) -> Line:
    """The hints that fit, in their fixed order; the note takes up to half of the line where there is one."""
    right: Line = [(note, "info"), (" ", "text")] if note else []
    room = width - 1 - (min(width_of(right), max(width // 2, width - 60)) if note else 0)
    kept: list[tuple[str, str]] = []
    for hint in (h for h in HINTS if launch or h[0] in WITHOUT_LAUNCH):
        if sum(len(key) + len(words) + 3 for key, words in [*kept, hint]) > room:
            break
        kept.append(hint)
    kept.sort(key=lambda hint: SHOWN_ORDER.index(hint[0]))
    line: Line = [(" ", "text")]
    for key, words in kept:
        line += [(key, "key"), (f" {words}  ", "dim")]
    left = width - width_of(line)
    return spread(line, cut(right, left) if width_of(right) > left else right, width)


class FooterLine(Drawing):
    def show(self, view: View) -> None:
        self.set_rows([paint_footer(self.size.width, view.snapshot.note, view.launch is not None)])
