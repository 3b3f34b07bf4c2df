"""What stands where there is nothing to watch: what the program can do, and the demo."""

from __future__ import annotations

from tui.ui.keys import Keys
from tui.ui.lines import Line, wrap_spans

CALLS = (
    ("gputop-hang gpu01 gpu02", "watch hosts over ssh; nothing is installed there"),
    ("gputop-hang --pid PID", "a launch here that it does not find by itself"),
    ("gputop-hang --log FILE", "what a log alone tells"),
    ("gputop-hang doctor gpu01", "what will and will not work on a host"),
    ("gputop-hang --help", "everything else, with examples"),
)
LEAD = 26
"""Cells of the calls with their gap; where the row is too short for both, the words stand below."""


def paint_welcome(keys: Keys, width: int) -> list[Line]:
    """Rows for a machine without GPUs and without a launch."""
    rows: list[Line] = [[]]
    start: Line = [(f" {keys['pane.open']} ", "badge-key"), (" ", "text")]
    rows += wrap_spans(start, "start the demo: a real launch on this machine that goes silent", "strong", width)
    rows += [[], [("or leave and call", "dim")]]
    for call, words in CALLS:
        if width >= LEAD + 24:
            rows += wrap_spans([(f"{call:<{LEAD}}", "key")], words, "text", width)
        else:
            rows += [[(call, "key")], *wrap_spans([("  ", "text")], words, "dim", width)]
    rows += [[], [(f"{keys['help']}", "key"), (" explains keys and marks", "dim")]]
    return rows
