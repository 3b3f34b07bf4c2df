"""A dump as rows: who is odd and why, how it was taken, the prefix tree of all stacks, and what failed.

No widget, no terminal. The words of a branch are those that ``gputop-hang dump`` prints (:mod:`tui.stacks.tree`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from rich.cells import cell_len

from tui.model import Dump, Frame, ProcessStacks, Raw, Step
from tui.safetext import clean
from tui.stacks.frames import is_place
from tui.stacks.tree import Branch, member_of, tree
from tui.ui import format as fmt
from tui.ui.lines import Line, cut, fit, width_of, wrap_spans
from tui.ui.outline import Levels, Row, behind, glyph, paragraph, section, still, stop
from tui.ui.source import Sources, place_of
from tui.ui.stack_filter import Filter, chosen
from tui.ui.stack_frames import edge, frame_line, frame_rows

FEW_LEAVES = 2
"""So many are shown open where none of them is odd."""

MOST_WHO = 32
MOST_RAW_LINES = 400


@dataclass(frozen=True, slots=True)
class Look:
    """A dump as far as a filter leaves it: growing the tree and searching all frames is done once, however often
    branches are opened and closed."""

    dump: Dump
    wanted: Filter
    branches: tuple[Branch, ...]
    processes: Sequence[ProcessStacks]


def look(dump: Dump, wanted: Filter) -> Look:
    """The tree counts among all ranks, whatever a filter leaves of them."""
    groups, processes = chosen(dump, wanted)
    return Look(dump, wanted, tree(groups, processes if wanted.threads else dump.processes), processes)


def dump_rows(seen: Look, levels: Levels, sources: Sources, width: int) -> list[Row]:
    """All of it; rows are painted when they come into sight."""
    dump = seen.dump
    rows: list[Row] = []
    if dump.merged is None:
        rows += paragraph([], "No stacks came." if dump.done else "Waiting for the first stacks.", "dim", width)
    elif dump.merged.why:
        rows += paragraph([], dump.merged.why, "strong" if dump.merged.odd else "text", width)
    rows += [*_ladder(dump, levels, width), still([])]
    rows += _Tree(seen, levels, sources, width).rows()
    if not seen.branches and dump.merged is not None and seen.wanted.words:
        rows += paragraph([], "No stack is left by the filter.", "dim", width)
    return [
        *rows,
        *_failed(dump, width),
        *_called(dump, levels, width),
        *_raw(dump, levels, width),
        *_log(dump, levels, width),
    ]


# ------------------------------------------------------------------------------------------------------------- the tree


class _Tree:
    def __init__(self, seen: Look, levels: Levels, sources: Sources, width: int) -> None:
        self._branches, self._wanted = seen.branches, seen.wanted
        self._by_member: Mapping[str, ProcessStacks] = {member_of(p): p for p in seen.processes}
        self._levels, self._sources, self._width = levels, sources, width
        leaves = _leaves(seen.branches)
        self._leaves_open = len(leaves) <= FEW_LEAVES and not any(leaf.odd for leaf in leaves)

    def rows(self) -> list[Row]:
        return [row for branch in self._branches for row in self._branch(branch, 0, None)]

    def _branch(self, branch: Branch, depth: int, parent: int | None) -> list[Row]:
        """Closed, open, or, where others lie below it, with these alone: what all share is one line by itself."""
        stem = bool(branch.children)
        most = 2 if stem else 1 if branch.frames or branch.does else 0
        level = min(most, self._levels.get(branch.key, 1 if stem or branch.odd or self._leaves_open else 0))
        process = self._by_member.get(branch.members[0]) if branch.members else None
        rows = [
            Row(
                partial(self._head, branch, depth, level, most),
                branch.key,
                level,
                most,
                1 if stem else 0,
                parent,
                (process.host, process.pid) if process is not None else None,
            )
        ]
        lead = edge(depth + 2, branch.odd)
        if level == most > 0:
            rows += behind(lead, branch.does, "odd" if branch.odd else "info", self._width) if branch.does else ()
            rows += self._frames(branch, lead, process)
        if level > 0:
            rows += [row for child in branch.children for row in self._branch(child, depth + 1, branch.key)]
        return rows

    def _head(self, branch: Branch, depth: int, level: int, most: int) -> Line:
        line: Line = [
            *edge(depth, branch.odd),
            (glyph(level, most) + " ", "accent"),
            (f"{branch.count}  ", "dim"),
            (fit(branch.who, MOST_WHO), "odd" if branch.odd else "strong"),
            ("  ", "text"),
        ]
        line = frame_line(line, branch.at, "odd" if branch.odd else "text", self._width, self._wanted)
        tail = self._tail(branch, level, most)
        room = self._width - sum(cell_len(text) for text, _ in line) - 2
        if tail != branch.does and len(tail) > room:
            return line
        return [*line, (f"  {fit(tail, room)}", "dim")] if tail and room >= 12 else line

    def _tail(self, branch: Branch, level: int, most: int) -> str:
        if branch.children:
            below = fmt.plural(len(_leaves(branch.children)), "place")
            return (
                f"{below} below"
                if level == 0
                else ""
                if level == most
                else fmt.plural(len(branch.frames), "frame") + " that they share"
            )
        if level == most:
            return "stands elsewhere" if branch.odd else ""
        return branch.does

    def _frames(self, branch: Branch, lead: Line, process: ProcessStacks | None) -> list[Row]:
        """The branch's own frames, the newest last; what lies within the wait is quieter than where it is."""
        stack = _frames_of(process, branch)
        start = len(branch.path) - len(branch.frames)
        rows: list[Row] = []
        inside = False
        for n, frame in enumerate(branch.frames, start):
            here = frame == branch.at and not branch.children
            role = "dim" if inside else ("odd" if branch.odd else "strong") if here else "text"
            inside = inside or here
            place = place_of(process, stack[n]) if process is not None and n < len(stack) else None
            key = (branch.key, n)
            rows += frame_rows(
                key, branch.key, lead, frame, role, self._width, self._levels, self._sources, place, self._wanted
            )
        return rows


def _frames_of(process: ProcessStacks | None, branch: Branch) -> list[Frame]:
    """The frames that the branch was labelled by, root first; empty where they are not known to be those."""
    main = next((t for t in process.threads if t.main), None) if process is not None else None
    frames = [f for f in reversed(main.frames) if is_place(f)] if main is not None else []
    return frames if len(frames) >= len(branch.path) else []


def _leaves(branches: Sequence[Branch]) -> list[Branch]:
    return [leaf for b in branches for leaf in (_leaves(b.children) if b.children else [b])]


# ----------------------------------------------------------------------------------------------------- how it was taken


def _ladder(dump: Dump, levels: Levels, width: int) -> list[Row]:
    """The steps in one line while all is well, and where what went wrong is said of single processes further below."""
    if not dump.steps:
        return []
    methods: dict[str, list[Step]] = {}
    for step in dump.steps:
        methods.setdefault(step.method, []).append(step)
    bad = sum(bool(s.error or s.errors) for s in dump.steps)
    below = {p.error for p in dump.processes}
    unsaid = any(sentence not in below for _, sentence in _errors(dump.steps))
    ended = [s.started_wall + s.duration_s for s in dump.steps if s.duration_s is not None]
    running = any(s.duration_s is None for s in dump.steps) or not dump.done
    took = f"taken in {max(0.0, max(ended) - dump.started_wall):.1f} s" if ended and not running else "being taken"
    head: Line = [(took, "dim" if dump.done else "info")]
    state: Line = (
        [(f"  {fmt.plural(bad, 'step')} with errors", "warn")] if bad else [("  all is well", "good")] * (not running)
    )
    room = width - 4 - sum(cell_len(text) for text, _ in [*head, *state])
    head += [(fit(": " + ", ".join(methods), room), "dim")] if room > 12 else []
    return section("steps", [*head, *state], levels, lambda: _steps(methods, width), opens=int(unsaid))


def _steps(methods: Mapping[str, Sequence[Step]], width: int) -> list[Row]:
    rows: list[Row] = []
    wide = min(20, max(len(m) for m in methods) + 2)
    for n, (method, steps) in enumerate(methods.items()):
        asked, answered = sum(s.asked for s in steps), sum(s.answered for s in steps)
        times = [s.duration_s for s in steps if s.duration_s is not None]
        open_ = len(times) < len(steps)
        bad = any(s.error or s.errors for s in steps)
        mark, role = ("…", "info") if open_ else ("!", "warn") if bad else ("✓", "good")
        counts = f"{answered} of {asked}" if asked else ""
        took = f"{max(times):.2f} s" if times else ""
        where = steps[0].host if len(steps) == 1 else fmt.plural(len(steps), "host")
        line: Line = [
            ("    ", "text"),
            (f"{mark} ", role),
            (fit(method, wide).ljust(wide), "text"),
            (f"{counts:<12}{took:>8}  ", "dim"),
            (f"{fmt.clock(min(s.started_wall for s in steps))}  {where}", "faint"),
        ]
        rows.append(stop(cut(line, width) if width_of(line) > width else line, ("step", n), parent="steps"))
        for i, (who, sentence) in enumerate(_errors(steps)):
            lines = wrap_spans([("      ", "text"), (f"{who}  ", "dim")], sentence, "warn", width)
            rows += [stop(line, ("step", n, i, j), parent="steps") for j, line in enumerate(lines)]
    return rows


def _errors(steps: Sequence[Step]) -> list[tuple[str, str]]:
    """Each sentence once, with whom it is about."""
    found: dict[str, list[str]] = {}
    for step in steps:
        if step.error:
            found.setdefault(step.error, []).append(step.host)
        for pid, sentence in step.errors:
            found.setdefault(sentence, []).append(f"{step.host} pid {pid}")
    return [
        (who[0] if len(who) == 1 else f"{who[0]} and {len(who) - 1} more", sentence) for sentence, who in found.items()
    ]


def _failed(dump: Dump, width: int) -> list[Row]:
    """Who gave no stack and why, each reason once."""
    found: dict[str, list[ProcessStacks]] = {}
    for process in dump.processes:
        if process.error is not None:
            found.setdefault(process.error, []).append(process)
    if not found:
        return []
    rows = [still([]), still([(" " * 3 + "without stacks", "strong")])]
    for n, (error, some) in enumerate(found.items()):
        first = some[0]
        lines = wrap_spans([("     ", "text"), (f"{_who(some)}  ", "text")], error, "warn", width)
        rows += [stop(line, ("failed", n, i), process=(first.host, first.pid)) for i, line in enumerate(lines)]
    return rows


def _who(processes: Sequence[ProcessStacks]) -> str:
    ranks = [p.rank for p in processes if p.rank is not None]
    if len(ranks) == len(processes):
        return fit(fmt.rank_words(ranks), MOST_WHO)
    return process_name(processes[0]) + (f" and {len(processes) - 1} more" if len(processes) > 1 else "")


def process_name(process: ProcessStacks) -> str:
    name = process.role if process.rank is None else f"rank {process.rank}"
    return f"{name}  {process.host}" + (f" pid {process.pid}" if process.pid is not None else "")


def _called(dump: Dump, levels: Levels, width: int) -> list[Row]:
    """What flight recorder and RAS say of the collectives."""
    said = [(one.source, finding.says) for one in dump.called for finding in one.findings]
    if not said:
        return []

    def below() -> list[Row]:
        lines = [
            line
            for source, says in said
            for line in wrap_spans([("     ", "text"), (f"{source}  ", "dim")], says, "text", width)
        ]
        return [stop(line, ("called", n), parent="called") for n, line in enumerate(lines)]

    sources = ", ".join(dict.fromkeys(source for source, _ in said))
    return section(
        "called", [("what was called  ", "strong"), (fit(sources, max(8, width - 20)), "dim")], levels, below
    )


def _raw(dump: Dump, levels: Levels, width: int) -> list[Row]:
    """What the launch keeps about itself; text is shown as it came, cleaned."""
    rows: list[Row] = []
    for n, raw in enumerate(dump.raw):
        words = f"{raw.kind.replace('_', ' ')}  "
        head: Line = [
            (words, "strong"),
            (fit(f"{raw.host} {raw.name}, {fmt.size(len(raw.data))}", width - len(words) - 3), "dim"),
        ]
        rows += section(("raw", n), head, levels, partial(_raw_lines, n, raw, width))
    return rows


def _raw_lines(number: int, raw: Raw, width: int) -> list[Row]:
    text = raw.data[:8] if raw.data[:1] == b"\x80" else raw.data  # a pickle begins so
    if text is not raw.data or b"\0" in raw.data[:1024]:
        return paragraph([("     ", "text")], "a pickle: what it says stands in what was called", "dim", width)
    lines = raw.data[: MOST_RAW_LINES * 400].split(b"\n")[:MOST_RAW_LINES]
    return [
        stop([("     ", "text"), (fit(clean(line, 400), width - 5), "dim")], ("raw", number, n))
        for n, line in enumerate(lines)
    ]


def _log(dump: Dump, levels: Levels, width: int) -> list[Row]:
    if not dump.log:
        return []

    def below() -> list[Row]:
        lines = [line for entry in dump.log for line in wrap_spans([("     ", "text")], entry, "dim", width)]
        return [stop(line, ("log", n), parent="log") for n, line in enumerate(lines)]

    head: Line = [("what was done  ", "strong"), (fmt.plural(len(dump.log), "line"), "dim")]
    return [still([]), *section("log", head, levels, below, opens=int(not dump.steps))]
