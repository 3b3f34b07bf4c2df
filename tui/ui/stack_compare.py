"""Two looks at the same processes: who has moved in between, and where to. No widget, no terminal."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest

from rich.cells import cell_len

from tui.model import Dump, ProcessStacks, ThreadStack
from tui.stacks.frames import is_place, label
from tui.stacks.merge import main_thread, weigh
from tui.stacks.odd import APART_S
from tui.stacks.waits import place
from tui.ui import format as fmt
from tui.ui.lines import Line, fit, pad
from tui.ui.outline import Levels, Row, glyph, paragraph, still, stop
from tui.ui.stack_filter import Filter
from tui.ui.stack_frames import frame_line
from tui.ui.stack_tree import process_name

FEW_OPEN = 3
"""So many of those that moved are shown open."""

SIDE_BY_SIDE = 84
"""From this many cells on the two stacks stand beside each other."""


@dataclass(frozen=True, slots=True)
class Pair:
    """What is compared: two looks at the same processes, what each is called, and who is odd (host, pid)."""

    before: tuple[ProcessStacks, ...]
    now: tuple[ProcessStacks, ...]
    names: tuple[str, str]
    odd: frozenset[tuple[str, int | None]] = frozenset()


def pairs(dumps: Sequence[Dump], dump: Dump) -> list[Pair]:
    """The two looks of one taking, then the taking before and this one; those that there are."""
    found: list[Pair] = []
    odd = frozenset((o.host, o.pid) for o in dump.merged.odd) if dump.merged else frozenset[tuple[str, int | None]]()
    if dump.before:
        names = (f"{_clock(dump.before, dump)} first look", f"{_clock(dump.processes, dump)} second look")
        found.append(Pair(dump.before, dump.processes, names, odd))
    index = dumps.index(dump) if dump in dumps else 0
    if index > 0:
        earlier = dumps[index - 1]
        names = (f"{_clock(earlier.processes, earlier)} taken before", f"{_clock(dump.processes, dump)} this one")
        found.append(Pair(earlier.processes, dump.processes, names, odd))
    return found


def _clock(processes: Sequence[ProcessStacks], dump: Dump) -> str:
    return fmt.clock(max((p.taken_wall for p in processes if p.taken_wall is not None), default=dump.started_wall))


@dataclass(frozen=True, slots=True)
class Change:
    """``moved``: ``None`` where nobody can say, since one of the two looks lacks, or too little time lay between them.
    ``gap_s`` lay between them."""

    process: ProcessStacks
    before: ProcessStacks | None
    moved: bool | None
    gap_s: float | None

    @property
    def words(self) -> tuple[str, str]:
        """What is said of it, and its role."""
        if self.moved:
            return "moved", "good"
        if self.moved is False:
            return "same", "warn"
        if self.before is None or not _has_frames(self.before):
            return "not seen before", "dim"
        if not _has_frames(self.process):
            return "no stack now", "dim"
        soon = self.gap_s is None or self.gap_s < APART_S
        return ("same so far" if soon else "not comparable"), "dim"


def changes(pair: Pair) -> list[Change]:
    """Every process of the second look: those that moved first, the odd ones first among either, then by rank."""
    earlier = {(p.host, p.pid, p.rank): p for p in pair.before}
    stands, _ = weigh(pair.now, (), pair.before)
    moved = {(s.host, s.pid, s.rank): (s.moved, s.gap_s) for s in stands}
    found = [
        Change(p, earlier.get((p.host, p.pid, p.rank)), *moved.get((p.host, p.pid, p.rank), (None, None)))
        for p in pair.now
    ]
    return sorted(
        found,
        key=lambda c: (
            not c.moved,
            (c.process.host, c.process.pid) not in pair.odd,
            c.process.rank is None,
            c.process.rank or 0,
            c.process.host,
        ),
    )


def _has_frames(process: ProcessStacks) -> bool:
    main = main_thread(process)
    return main is not None and bool(main.frames)


def compare_rows(pair: Pair, found: Sequence[Change], wanted: Filter, levels: Levels, width: int) -> list[Row]:
    shown = [c for c in found if wanted.takes(c.process)]
    counts = [
        (sum(c.moved is True for c in shown), "moved", "good"),
        (sum(c.moved is False for c in shown), "stand where they stood", "warn"),
        (sum(c.moved is None for c in shown), "cannot be compared", "dim"),
    ]
    head: Line = [(f"{pair.names[0]}, then {pair.names[1]}", "dim")]
    said = [(f"{n} {words}", role) for n, words, role in counts if n]
    rows = [still(fit_line(head, width)), still(_joined(said))]
    if not shown:
        rows += paragraph([], "No process is left to compare.", "dim", width)
    rows.append(still([]))
    for n, change in enumerate(shown):
        rows += _process(change, pair, levels, width, opens=change.moved is True and n < FEW_OPEN)
    return rows


def fit_line(line: Line, width: int) -> Line:
    return [(fit(text, width), role) for text, role in line]


def _joined(spans: Sequence[tuple[str, str]]) -> Line:
    line: Line = []
    for span in spans:
        line += [(", ", "dim"), span] if line else [span]
    return line


def _process(change: Change, pair: Pair, levels: Levels, width: int, opens: bool) -> list[Row]:
    process = change.process
    key = ("pair", process.host, process.pid, process.rank)
    most = 1 if change.before is not None and _has_frames(change.before) and _has_frames(process) else 0
    level = min(most, levels.get(key, int(opens)))
    at = (process.host, process.pid)
    rows = [Row(partial(_head, change, level, most, width, at in pair.odd), key, level, most, process=at)]
    if level and change.before is not None:
        rows += [*_stacks(key, change.before, process, pair, width), *_others(key, change, width), still([])]
    return rows


def _head(change: Change, level: int, most: int, width: int, odd: bool) -> Line:
    words, role = change.words
    main = main_thread(change.process)
    name, wide = (process_name(change.process), width // 3) if width >= SIDE_BY_SIDE else (_short(change.process), 10)
    line: Line = [
        ("▌ " if odd else "  ", "odd"),
        (f"{glyph(level, most)} ", "accent"),
        (f"{fit(name, wide):<{wide}}  ", "odd" if odd else "strong"),
        (f"{words}  ", role),
    ]
    if main is None or not main.frames or level:
        return line
    now, then = place(main), _place(change.before)
    text = f"from {then} to {now}" if change.moved and then and then != now else now
    return [*line, (fit(text, max(8, width - sum(cell_len(t) for t, _ in line))), "dim")]


def _short(process: ProcessStacks) -> str:
    return f"rank {process.rank}" if process.rank is not None else f"{process.role} {process.pid or ''}"


def _place(process: ProcessStacks | None) -> str:
    main = main_thread(process) if process is not None else None
    return place(main) if main is not None and main.frames else ""


def _labels(process: ProcessStacks) -> list[str]:
    main = main_thread(process)
    return [label(f) for f in reversed(main.frames) if is_place(f)] if main is not None else []


def _stacks(key: tuple[Hashable, ...], before: ProcessStacks, now: ProcessStacks, pair: Pair, width: int) -> list[Row]:
    """Root first. What both share is quiet, what differs is lit."""
    left, right = _labels(before), _labels(now)
    if width >= SIDE_BY_SIDE:
        half = (width - 5 - 3) // 2
        rows: list[Row] = [
            stop(
                [("     ", "text"), *pad([(pair.names[0], "faint")], half), ("   ", "text"), (pair.names[1], "faint")],
                (*key, "names"),
                key,
            )
        ]
        for n, (a, b) in enumerate(zip_longest(left, right, fillvalue="")):
            roles = ("dim", "dim") if a == b else ("warn", "good")
            line: Line = [
                ("     ", "text"),
                *pad(frame_line([], a, roles[0], half), half),
                (" │ " if a == b else " * ", "rule" if a == b else "strong"),
                *frame_line([], b, roles[1], half),
            ]
            rows.append(stop(line, (*key, n), key))
        return rows
    rows: list[Row] = []
    for side, (name, mine, others, role) in enumerate(
        ((pair.names[0], left, right, "warn"), (pair.names[1], right, left, "good"))
    ):
        rows.append(stop([("     ", "text"), (name, "faint")], (*key, side, "name"), key))
        for n, frame in enumerate(mine):
            same = n < len(others) and others[n] == frame
            lead: Line = [("   ", "text"), ("  " if same else "* ", "strong")]
            rows.append(
                stop(frame_line([*lead, ("  ", "text")], frame, "dim" if same else role, width), (*key, side, n), key)
            )
    return rows


def _others(key: tuple[Hashable, ...], change: Change, width: int) -> list[Row]:
    """The other threads that moved, one line each."""
    then = {t.os_thread_id: t for t in change.before.threads} if change.before is not None else {}
    rows: list[Row] = []
    for thread in change.process.threads:
        old = then.get(thread.os_thread_id)
        if thread.main or old is None or not thread.frames or old.frames == thread.frames:
            continue
        name: Line = [("     ", "text"), (f"{fit(thread.name or 'thread', 20)}  ", "text")]
        words = f"from {_where(old)} to {_where(thread)}"
        rows.append(stop([*name, (fit(words, max(8, width - 28)), "good")], (*key, "thread", thread.os_thread_id), key))
    return rows


def _where(thread: ThreadStack) -> str:
    return label(thread.frames[0]) if thread.frames else "no Python frame"
