"""The processes of a launch: ranks first, then the others; the one that stands elsewhere is lit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tui.model import ProcView
from tui.ui import format as fmt
from tui.ui.lines import Column, Line, fit_columns, row, titles, wrap_spans
from tui.ui.view import View
from tui.ui.widgets.pane import LazyRows, Painting, Pane
from tui.ui.words import sigabrt_short

COLUMNS = (
    Column("rank", "rank", 4, "right"),
    Column("cpu", "CPU%", 4, "right"),
    Column("read", "read/s", 6, "right", drop=5),
    Column("state", "st", 2),
    Column("wchan", "waits in", 14, flex=2, most=24, drop=2),
    Column("threads", "thr", 4, "right", drop=8),
    Column("rss", "RSS GiB", 7, "right", drop=6),
    Column("host", "host", 8, drop=3, flex=1, most=20),
    Column("pid", "pid", 7, "right"),
    Column("role", "role", 8, flex=1, most=14, drop=7),
    Column("children", "children", 9, flex=3, most=30, drop=4),
    Column("sigabrt", "on SIGABRT", 10, flex=1, most=18, drop=9),
)


def sort_key(process: ProcView) -> tuple[bool, int, str, int]:
    return process.rank is None, process.rank or 0, process.host, process.pid


def paint_processes(view: View, width: int, room: int) -> tuple[list[Line], Sequence[Line]]:
    """The column titles and one row per process, in the order of ranks; the odd ones first where not all are seen."""
    hosts = {p.host for p in view.processes}
    fitted = fit_columns([c for c in COLUMNS if c.key != "host" or len(hosts) > 1], width)
    ordered = sorted(view.processes, key=sort_key)
    if len(ordered) > room - 1:
        ordered.sort(key=lambda p: (p.host, p.pid) not in view.odd)
    return [titles(fitted)], LazyRows([partial(_row, view, p, fitted) for p in ordered])


def _row(view: View, p: ProcView, fitted: Sequence[tuple[Column, int]]) -> Line:
    return row(fitted, _cells(view, p))


def _cells(view: View, p: ProcView) -> dict[str, Line]:
    odd = (p.host, p.pid) in view.odd
    text, dim = ("bad", "bad") if odd else ("text", "dim")
    state = "bad" if p.state in ("Z", "D", "T", "t", "X", "gone") else text
    return {
        "rank": [("" if p.rank is None else str(p.rank), "odd" if odd else text)],
        "host": [(p.host, dim)],
        "pid": [(str(p.pid), dim)],
        "role": [(p.role, dim)],
        "state": [("✗" if p.state == "gone" else p.state, state)],
        "cpu": [(fmt.number(p.cpu_pct, 1 if p.cpu_pct is not None and p.cpu_pct < 10 else 0), text)],
        "threads": [(fmt.number(p.threads), dim)],
        "rss": [(fmt.gib(p.rss_mib), dim)],
        "read": [(fmt.rate(p.read_mib_s), text)],
        "wchan": [(p.wchan or fmt.UNKNOWN, text)],
        "children": [(children_words(p), dim)],
        "sigabrt": [(sigabrt_short(p.sigabrt), dim)],
    }


def children_words(p: ProcView) -> str:
    return ", ".join(f"{c.n}× {c.comm}" if c.n > 1 else c.comm for c in p.children)


class ProcessPane(Pane):
    OPENED_BY = "open.processes"
    EVERY_S = 1.9

    def paint(self, view: View, width: int, height: int) -> Painting:
        title: Line = [("ranks", "title")]
        if view.launch is None:
            return Painting([], title=title)
        alive, expected = view.launch.verdict.alive, view.launch.verdict.expected
        if alive is not None and expected is not None:
            title.append((f"  {alive} of {expected} alive", "dim" if alive >= expected else "bad"))
        head, body = paint_processes(view, width, height - 1)
        if not body:
            return Painting(wrap_spans([], "No process of this launch is seen here.", "dim", width), title=title)
        return Painting(body, title=title, head=head)
