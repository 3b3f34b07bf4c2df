"""Merged stacks and raw dumps."""

from __future__ import annotations

from rich.cells import cell_len

from tui.model import Dump, ProcessStacks, StackGroup, ThreadStack
from tui.ui import format as fmt
from tui.ui.lines import Line, fit, fit_left, wrap_spans
from tui.ui.view import View
from tui.ui.widgets.pane import Painting, Pane


def order(dump: Dump) -> list[ProcessStacks]:
    """Odd processes first, then ranks, then the others."""
    odd = set(dump.merged.odd_ranks) if dump.merged else set[int]()
    return sorted(dump.processes, key=lambda p: (p.rank not in odd, p.rank is None, p.rank or 0, p.host, p.pid or 0))


def paint_merged(dump: Dump, width: int) -> list[Line]:
    """Why, the groups with the odd ones first, the frames all share, what failed, and what was done."""
    rows: list[Line] = []
    merged = dump.merged
    if merged is None:
        words = "Waiting for the first stacks." if not dump.done else "No stacks came."
        rows.append([(words, "dim")])
    else:
        if merged.why:
            rows += [*wrap_spans([], merged.why, "strong", width), []]
        shared = len(merged.common)
        for group in merged.groups:
            rows += [*_group(dump, group, shared, width), []]
        if merged.common:
            rows.append([("all of them came by", "dim")])
            rows += [line for frame in reversed(merged.common) for line in _frame(frame, "dim", width)]
    failed = [p for p in dump.processes if p.error is not None]
    if failed:
        rows += [[], [("without stacks", "strong")]]
        for process in failed:
            rows += wrap_spans([(f"  {process_name(process)}  ", "text")], process.error or "", "warn", width)
    if dump.log:
        rows += [[], [("what was done", "strong")]]
        rows += [line for entry in dump.log for line in wrap_spans([("  ", "text")], entry, "dim", width)]
    return rows


def _group(dump: Dump, group: StackGroup, shared: int, width: int) -> list[Line]:
    """A group's name, then its own frames, the newest first."""
    n = max(len(group.ranks), len(group.members))
    roles = {f"{p.host}:{p.pid}": f"{p.role} {p.pid}" for p in dump.processes if p.rank is None}
    name = fmt.rank_words(group.ranks) if group.ranks else ", ".join(roles.get(m, m) for m in group.members)
    tail = "stands apart" if group.odd else f"{n} together" if n > 1 else ""
    head: Line = [("▌ " if group.odd else "  ", "odd"), (name, "odd" if group.odd else "strong"), (f"  {tail}", "dim")]
    own = group.frames[shared:] or group.frames[-1:]
    rows: list[Line] = [head]
    for i, frame in enumerate(reversed(own)):
        role = ("odd" if group.odd else "strong") if i == 0 else "text"
        rows += _frame(frame, role, width, edge="▌   " if group.odd else "    ")
    return rows


def _frame(frame: str, role: str, width: int, edge: str = "    ") -> list[Line]:
    """``function (file:line)`` in one row, the place quieter than the name and shortened from its left."""
    function, _, place = frame.partition(" (")
    function = fit(function, max(8, width - len(edge) - 24))
    room = width - len(edge) - cell_len(function) - 3
    lead: Line = [(edge, "odd" if edge.strip() else "text"), (function, role)]
    return [[*lead, (f" ({fit_left(place.removesuffix(')'), room)})", "dim")] if place and room > 8 else lead]


def process_name(process: ProcessStacks) -> str:
    name = process.role if process.rank is None else f"rank {process.rank}"
    return f"{name}  {process.host}" + (f" pid {process.pid}" if process.pid is not None else "")


def paint_raw(process: ProcessStacks, width: int) -> list[Line]:
    """Every thread of one process as it was dumped, the main thread first."""
    rows: list[Line] = []
    if process.error is not None:
        rows += wrap_spans([], process.error, "warn", width)
    for thread in sorted(process.threads, key=lambda t: not t.main):
        rows += [*_thread(thread, width), []]
    return rows or [[("No threads in this dump.", "dim")]]


def _thread(thread: ThreadStack, width: int) -> list[Line]:
    words: list[str] = []
    if thread.os_thread_id is not None:
        words.append(f"tid {thread.os_thread_id}")
    if thread.active is not None:
        words.append("running" if thread.active else "idle")
    if thread.owns_gil:
        words.append("holds the GIL")
    if thread.wchan and thread.wchan != "0":
        words.append(f"in {thread.wchan}")
    lead: Line = [(thread.name or ("main thread" if thread.main else "thread"), "strong"), ("  ", "text")]
    rows = wrap_spans(lead, " · ".join(words), "dim", width) if words else [lead]
    for i, frame in enumerate(thread.frames):
        place = f"{frame.file}:{frame.line}" if frame.line else frame.file
        text = f"{frame.function} ({place})" if place else frame.function
        rows += _frame(text, "strong" if i == 0 and thread.main else "text", width)
    return rows if thread.frames else [*rows, [("    no Python frame", "dim")]]


class MergedPane(Pane):
    dump: Dump | None = None

    def paint(self, view: View, width: int, height: int) -> Painting:
        title: Line = [("merged", "title")]
        if self.dump is None:
            return Painting([], title=title)
        groups = len(self.dump.merged.groups) if self.dump.merged else 0
        title.append((f"  {fmt.plural(groups, 'group')}" if groups else "", "dim"))
        return Painting(paint_merged(self.dump, width), title=title)


class RawPane(Pane):
    process: ProcessStacks | None = None

    def paint(self, view: View, width: int, height: int) -> Painting:
        process = self.process
        if process is None:
            return Painting([], title=[("one process", "title")])
        took = "" if process.duration_s is None else f"  {process.duration_s:.1f} s"
        title: Line = [(process_name(process), "title"), (f"  {process.method}{took}", "dim")]
        return Painting(paint_raw(process, width), title=title)
