"""The log's tail: arrival times and gaps in the margin, a marker that counts the silence, search."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from typing import TYPE_CHECKING

from tui.ui import format as fmt
from tui.ui.lines import Line, fit, fit_left, spread, width_of, wrap
from tui.ui.view import View
from tui.ui.widgets.pane import Painting, Pane
from tui.ui.words import ALARMS, spaced, verdict_role

if TYPE_CHECKING:
    from tui.model import LogLine, LogView

GAP_S = 10.0
"""A pause between two lines from which on the margin says how long it was."""

SILENCE_S = 5.0
ROWS_PER_LINE = 3
"""So many rows a long line gets where the log is not open in full."""


RANK_ROLES = ("info", "good", "accent", "verdict-waiting")
"""Neighbouring ranks are told apart by these, in turn; the odd rank has a role of its own."""

_RANK = re.compile(r"\b(?:TP|PP|DP|EP|rank|RANK|Rank|worker|Worker_TP)[ =:#]?(\d{1,5})\b")


@dataclass(frozen=True, slots=True)
class Rows:
    """The painted rows, and the numbers of those in which the query was found and of those that mean something."""

    rows: list[Line]
    hits: list[int]
    marks: list[int]


def paint_log(view: View, log: LogView, width: int, full: bool, query: str, wraps: bool = True) -> Rows:
    """The lines with the time of their arrival in the margin; those that began a phase name it at their right."""
    margin = 9 if width >= 70 else 0
    painted = Rows([], [], [])
    odd = frozenset(o.rank for o in view.launch.verdict.odd if o.rank is not None) if view.launch else frozenset[int]()
    before: LogLine | None = None
    if log.skipped_bytes:
        left_out = fmt.size(log.skipped_bytes)
        painted.rows.append([(f"… {left_out} were left out: there only lines that mean something were read", "warn")])
    for line in shown_lines(log.tail):
        stamp = _stamp(view, before, line) if margin else ("", "dim")
        parts = wrap(line.text, width - margin) if wraps else [fit(line.text, width - margin)]
        if not full and len(parts) > ROWS_PER_LINE:
            parts = [*parts[: ROWS_PER_LINE - 1], fit(" ".join(parts[ROWS_PER_LINE - 1 :]), width - margin)]
        mark = mark_of(line.text, log.marks)
        if mark:
            painted.marks.append(len(painted.rows))
        for i, part in enumerate(parts):
            lead = stamp if i == 0 else ("", "dim")
            found = _marked(part, query)
            if len(found) > 1:
                painted.hits.append(len(painted.rows))
            else:
                found = _coloured(part, "bad" if mark == "fatal" else "text", odd)
            row: Line = [(lead[0].ljust(margin), lead[1]), *found]
            painted.rows.append(_named(row, mark, width) if i == 0 else row)
        before = line
    return painted


@lru_cache(maxsize=2048)
def mark_of(text: str, marks: tuple[tuple[str, str], ...]) -> str:
    """The phase that this line began, ``fatal``, or nothing."""
    return next((mark for mark, said in marks if said and said in text), "")


def _named(row: Line, mark: str, width: int) -> Line:
    """The row with the phase that it began at its right, where there is room."""
    label = f"▸ {spaced(mark)}"
    if not mark or width_of(row) + len(label) + 2 > width:
        return row
    return spread(row, [(label, "bad" if mark == "fatal" else "accent")], width)


def _coloured(text: str, role: str, odd: frozenset[int]) -> Line:
    """The text with the number of the rank that speaks in its colour."""
    found = _RANK.search(text, 0, 120)
    if found is None:
        return [(text, role)]
    rank = int(found[1])
    colour = "odd" if rank in odd else RANK_ROLES[rank % len(RANK_ROLES)]
    spans: Line = [(text[: found.start()], role), (found[0], colour), (text[found.end() :], role)]
    return [span for span in spans if span[0]]


def shown_lines(tail: tuple[LogLine, ...]) -> list[LogLine]:
    """Without the redraws that a later text on the same line replaced, as a terminal would show it."""
    return [line for line, later in zip_longest(tail, tail[1:]) if later is None or not line.redraw]


def _stamp(view: View, before: LogLine | None, line: LogLine) -> tuple[str, str]:
    """When a line arrived, or how long after the one before where that was long."""
    if line.t is None:
        return "", "dim"
    if before is not None and before.t is not None and line.t - before.t >= GAP_S:
        return "+" + fmt.duration(line.t - before.t).replace(" ", ""), "warn"
    return fmt.clock(view.wall_of(line.t)), "faint"


def _marked(text: str, query: str) -> Line:
    if not query:
        return [(text, "text")]
    parts = re.split(f"({re.escape(query)})", text, flags=re.IGNORECASE)
    return [(part, "match" if i % 2 else "text") for i, part in enumerate(parts)]


def silence(view: View, log: LogView, width: int) -> Line:
    """The marker under the last line: for how long nothing has come."""
    unheard_s = view.unheard_s(log.host)
    quiet = None if log.silent_s is None else log.silent_s + view.since_judged_s - unheard_s
    if quiet is None or quiet < SILENCE_S:
        return []
    alarm = view.launch is not None and view.launch.verdict.id in ALARMS
    role = verdict_role(view.launch.verdict.id) if view.launch and alarm else "dim"
    text = f"── silent for {fmt.duration(quiet)}{' when last heard' if unheard_s else ''} "
    return [(text, role), ("─" * max(0, width - len(text)), "rule")]


class LogPane(Pane):
    OPENED_BY = "open.log"
    FOLLOWS = True

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.query_text = ""
        self.wraps = True
        self._hits: list[int] = []
        self._marks: list[int] = []
        self._lines_of: object = None
        self._painted_lines = Rows([], [], [])

    def paint(self, view: View, width: int, height: int) -> Painting:
        title: Line = [("log", "title")]
        log = view.log
        if log is None:
            words = "No log of this launch is known; --log [HOST:]PATH points at one." if view.launch else ""
            return Painting([[(line, "dim")] for line in wrap(words, width)], title=title)
        note = self._note(log)
        if len(view.logs) > 1:
            number = view.logs.index(log) + 1
            title.append((f" {number}/{len(view.logs)}", "dim"))
        place = f"{log.host}:{log.path}" if view.launch and len(view.launch.launch.hosts) > 1 else log.path
        title += [("  ", "dim"), (fit_left(place, max(8, width - 26 - sum(len(t) for t, _ in note))), "dim")]
        if log.error is not None:
            return Painting([[(line, "bad")] for line in wrap(log.error, width)], title=title, note=note)
        painted = self._lines(view, log, width)
        rows, self._hits, self._marks = painted.rows, painted.hits, painted.marks
        if not rows:
            rows = [[("The log is empty so far.", "dim")]]
        mark = silence(view, log, width)
        return Painting([*rows, mark] if mark else rows, title=title, note=note)

    def _lines(self, view: View, log: LogView, width: int) -> Rows:
        """The lines, painted again only where something about them has changed: a silent log stands here for long."""
        odd = view.launch.verdict.odd if view.launch else ()
        how = (width, self.full, self.query_text, self.wraps)
        what = (log.tail, log.marks, log.skipped_bytes, odd, round(view.wall_of(0.0)), how)
        if self._lines_of != what:
            self._lines_of, self._painted_lines = what, paint_log(view, log, *how)
        return self._painted_lines

    def _note(self, log: LogView) -> Line:
        if self.query_text:
            return [(f"“{fit(self.query_text, 16)}” {fmt.plural(len(self._hits), 'row')}", "warn")]
        size = [] if log.size is None else [fmt.size(log.size)]
        lines = [] if log.lines_total is None else [fmt.plural(log.lines_total, "line")]
        return [(" · ".join([*lines, *size]), "dim")] if self.size.width >= 100 else []

    def search(self, query: str) -> int:
        """Mark every occurrence and go to the last one; returns in how many rows it stands."""
        self.query_text = query
        if self._view is not None:
            self.show(self._view)
            self.show(self._view)  # the title counts the rows that the first painting found
        if self._hits:
            self._go(self._hits[-1])
        return len(self._hits)

    def step(self, forward: bool) -> bool:
        """To the next hit below or above the middle of what is in sight; false where there is none."""
        return self._step(self._hits, forward)

    def step_mark(self, forward: bool) -> bool:
        """The same, to a line that began a phase or was fatal."""
        return self._step(self._marks, forward)

    def _step(self, rows: list[int], forward: bool) -> bool:
        middle = self.top + self.room // 2
        beyond = [row for row in rows if (row > middle if forward else row < middle)]
        if not beyond:
            return False
        self._go(beyond[0] if forward else beyond[-1])
        return True

    def _go(self, row: int) -> None:
        self.scroll_rows(row - self.room // 2 - self.top)
