"""The processes of a launch: ranks first, then the others; the one that stands elsewhere is lit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from rich.cells import cell_len

from tui.ui import format as fmt
from tui.ui.layout import NARROW
from tui.ui.lines import Column, Line, fit_columns, row, titles, wrap_spans
from tui.ui.ranks import ORDERS, Node, doing, tree
from tui.ui.view import View
from tui.ui.widgets.pane import LazyRows, Painting, Pane
from tui.ui.words import sigabrt_short

if TYPE_CHECKING:
    from tui.model import ProcView

ALARMING = ("Z", "D", "T", "t", "X", "gone")

COLUMNS = (
    Column("rank", "rank", 4, "right"),
    Column("cpu", "CPU%", 4, "right", drop=1),
    Column("read", "read/s", 6, "right", drop=5),
    Column("state", "st", 2, drop=1),
    Column("wchan", "waits in", 14, flex=2, most=24, drop=2),
    Column("threads", "thr", 4, "right", drop=8),
    Column("rss", "RSS GiB", 7, "right", drop=6),
    Column("host", "host", 8, drop=3, flex=1, most=20),
    Column("pid", "pid", 7, "right"),
    Column("role", "role", 8, flex=1, most=14, drop=7),
    Column("children", "children", 9, flex=3, most=30, drop=4),
    Column("sigabrt", "on SIGABRT", 10, flex=1, most=18, drop=9),
)


TREE_COLUMNS = (
    Column("tree", "process", 15, flex=2, most=40),
    *(column for column in COLUMNS if column.key in ("pid", "cpu", "read", "state")),
    Column("doing", "what it does", 28, flex=4, most=60),
    *(column for column in COLUMNS if column.key in ("threads", "rss", "sigabrt")),
    Column("title", "command", 12, flex=5, drop=10),
)
"""The pane in full: below its host and its parent each process, with its children."""

TREE_IN_A_SIDE_PANE = tuple(
    replace(column, width=18) if column.key == "doing" else column
    for column in TREE_COLUMNS
    if column.key in ("tree", "cpu", "state", "doing")
)

CHOOSABLE = tuple(
    dict.fromkeys(c.key for c in (*COLUMNS, *TREE_COLUMNS) if c.key not in ("rank", "pid", "tree", "state"))
)


def column_words(key: str) -> str:
    """The name of a column that can be hidden."""
    return next(c.title for c in (*COLUMNS, *TREE_COLUMNS) if c.key == key)


def paint_processes(
    view: View, width: int, room: int, order: int = 0, hidden: frozenset[str] = frozenset()
) -> tuple[list[Line], Sequence[Line]]:
    """The column titles and one row per process; the odd ones first where not all are seen in the order of ranks."""
    hosts = {p.host for p in view.processes}
    columns = [c for c in COLUMNS if c.key not in hidden and (c.key != "host" or len(hosts) > 1)]
    fitted = fit_columns(columns, width)
    ordered = sorted(view.processes, key=ORDERS[order][1])
    if len(ordered) > room - 1 and order == 0:
        ordered.sort(key=lambda p: (p.host, p.pid) not in view.odd)
    return [titles(fitted)], LazyRows([partial(_row, view, p, fitted) for p in ordered])


def paint_tree(
    view: View, width: int, order: int = 0, hidden: frozenset[str] = frozenset()
) -> tuple[list[Line], Sequence[Line]]:
    """The column titles, and hosts, processes and their children below each other."""
    columns = TREE_COLUMNS if width >= NARROW else TREE_IN_A_SIDE_PANE
    fitted = fit_columns([c for c in columns if c.key not in hidden], width)
    makers: list[Callable[[], Line]] = []
    host = ""
    for node in tree(view.processes, ORDERS[order][1]):
        if node.process.host != host and len({p.host for p in view.processes}) > 1:
            host = node.process.host
            makers.append(partial(_host_row, host))
        makers.append(partial(_node_row, view, node, fitted))
    return [titles(fitted)], LazyRows(makers)


def _host_row(host: str) -> Line:
    return [(host, "strong")]


def _node_row(view: View, node: Node, fitted: Sequence[tuple[Column, int]]) -> Line:
    p = node.process
    if node.child is not None:
        group = p.children[node.child]
        pct = p.children_cpu_pct[node.child] if node.child < len(p.children_cpu_pct) else None
        cells: dict[str, Line] = {
            "tree": [(node.guide, "faint"), (f"{group.n}× {group.comm}", "dim")],
            "cpu": [(fmt.number(pct), "dim")],
        }
        return row(fitted, cells)
    odd = (p.host, p.pid) in view.odd
    cells = _cells(view, p)
    name = p.role if p.rank is None else f"{p.role} {p.rank}"
    cells["tree"] = [(node.guide, "faint"), (name, "odd" if odd else "text")]
    does = doing(p)
    if any(column.key == "doing" and cells_wide < cell_len(does) for column, cells_wide in fitted):
        does = does.removeprefix("sleeps in ")  # its state says so, and where is what matters
    cells["doing"] = [(does, "bad" if odd or p.state in ALARMING else "text")]
    cells["title"] = [(p.title, "dim")]
    return row(fitted, cells)


def _row(view: View, p: ProcView, fitted: Sequence[tuple[Column, int]]) -> Line:
    return row(fitted, _cells(view, p))


def _cells(view: View, p: ProcView) -> dict[str, Line]:
    odd = (p.host, p.pid) in view.odd
    text, dim = ("bad", "bad") if odd else ("text", "dim")
    state = "bad" if p.state in ALARMING else text
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

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.order = 0
        self.hidden: set[str] = set()

    def choose(self, order: str, hidden: Iterable[str]) -> None:
        """The order of these words and without these columns; what is not known is passed over."""
        self.order = next((i for i, (words, _) in enumerate(ORDERS) if words == order), 0)
        self.hidden = set(hidden) & set(CHOOSABLE)

    def next_order(self) -> None:
        self.order = (self.order + 1) % len(ORDERS)

    @property
    def order_words(self) -> str:
        return ORDERS[self.order][0]

    def toggle(self, column: str) -> None:
        """Hide a column, or show it again."""
        self.hidden ^= {column}

    def paint(self, view: View, width: int, height: int) -> Painting:
        title: Line = [("ranks", "title")]
        if view.launch is None:
            return Painting([], title=title)
        alive, expected = view.launch.verdict.alive, view.launch.verdict.expected
        if alive is not None and expected is not None:
            title.append((f"  {alive} of {expected} alive", "dim" if alive >= expected else "bad"))
        if self.order:
            title.append((f"  {self.order_words}", "info"))
        hidden = frozenset(self.hidden)
        if self.full:
            head, body = paint_tree(view, width, self.order, hidden)
        else:
            head, body = paint_processes(view, width, height - 1, self.order, hidden)
        if not body:
            return Painting(wrap_spans([], "No process of this launch is seen here.", "dim", width), title=title)
        return Painting(body, title=title, head=head)
