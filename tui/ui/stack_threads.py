"""The raw dump of one process as rows: its threads with their frames as they were taken, those that tell something
first. No widget, no terminal."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial

from rich.cells import cell_len

from tui.model import ProcessStacks, ThreadStack
from tui.stacks.odd import IDLE
from tui.stacks.waits import is_plumbing, meaning
from tui.ui import format as fmt
from tui.ui.lines import Line, fit
from tui.ui.outline import Levels, Row, glyph, paragraph, section, still
from tui.ui.source import Sources, place_of
from tui.ui.stack_filter import Filter
from tui.ui.stack_frames import frame_rows

AT_REST = frozenset({"queue", "condition", "sleep", "events", "socket", "pipe", "child"})
"""Waits in which a thread beside the main one may well spend its life."""

TELLING_STATES = frozenset({"D", "T", "t", "Z"})


def tells(thread: ThreadStack) -> bool:
    """Whether a thread is more than a library's or one at rest."""
    if thread.main or thread.owns_gil or thread.state in TELLING_STATES:
        return True
    if all(is_plumbing(frame.file) for frame in thread.frames):
        return False
    wait = meaning(thread)
    return bool(thread.active) or wait is None or (wait.kind not in IDLE and wait.id not in AT_REST)


def process_rows(
    process: ProcessStacks,
    native: ProcessStacks | None,
    wanted: Filter,
    levels: Levels,
    sources: Sources,
    width: int,
) -> list[Row]:
    """``native``: the same process with C frames, where it was read so too."""
    threads = _Threads(process, wanted, levels, sources, width)
    rows = paragraph([], process.error, "warn", width) if process.error is not None else []
    rows += threads.rows()
    if native is not None and native.method != process.method:
        inner = _Threads(native, wanted, levels, sources, width, ("native",))
        head: Line = [("with C frames  ", "strong"), (native.method, "dim")]
        rows += [still([]), *section("native", head, levels, inner.rows)]
    return rows or [still([("No threads in this dump.", "dim")])]


class _Threads:
    def __init__(
        self,
        process: ProcessStacks,
        wanted: Filter,
        levels: Levels,
        sources: Sources,
        width: int,
        above: tuple[Hashable, ...] = (),
    ) -> None:
        self._process, self._wanted, self._levels, self._sources = process, wanted, levels, sources
        self._width, self._above = width, above

    def rows(self) -> list[Row]:
        """Those that tell something, open; the others below one line."""
        wanted = self._wanted
        looked_for = bool(wanted.threads or wanted.texts)
        shown = [t for t in self._process.threads if wanted.takes_thread(t)] if looked_for else self._process.threads
        first = [t for t in shown if looked_for or tells(t)]
        told = set(map(id, first))
        rest = [t for t in shown if id(t) not in told]
        first.sort(key=lambda t: (not t.main, not t.owns_gil, not t.active))
        rows = [row for n, thread in enumerate(first) for row in [*self._thread(thread, n, 1), still([])]]
        if looked_for and not first:
            rows += paragraph([], "No thread of it is left by the filter.", "dim", self._width)
        if rest:
            key = (*self._above, "rest")
            head: Line = [(fmt.plural(len(rest), "thread"), "strong"), (" at rest or of libraries", "dim")]
            below = partial(self._rest, rest, len(first))
            rows += section(key, head, self._levels, below)
        return rows

    def _rest(self, threads: Sequence[ThreadStack], start: int) -> list[Row]:
        return [row for n, thread in enumerate(threads, start) for row in self._thread(thread, n, 0)]

    def _thread(self, thread: ThreadStack, number: int, opens: int) -> list[Row]:
        key = (*self._above, thread.os_thread_id or thread.thread_id or number, thread.name)
        most = 1 if thread.frames else 0
        level = min(most, self._levels.get(key, opens))
        rows = [Row(partial(self._head, thread, level, most), key, level, most)]
        if not level:
            return rows
        wait = meaning(thread)
        if wait is not None:
            rows += paragraph([("     ", "text")], wait.says, "info", self._width)
        for n, frame in enumerate(thread.frames):
            place = f"{frame.file}:{frame.line}" if frame.line else frame.file
            text = f"{frame.function} ({place})" if place else frame.function
            role = "strong" if thread.main and n == (wait.depth if wait and wait.depth is not None else 0) else "text"
            rows += frame_rows(
                (*key, n),
                key,
                [("     ", "text")],
                text,
                role,
                self._width,
                self._levels,
                self._sources,
                place_of(self._process, frame),
                self._wanted,
            )
        return rows

    def _head(self, thread: ThreadStack, level: int, most: int) -> Line:
        name = thread.name or ("main thread" if thread.main else "thread")
        line: Line = [
            ("  ", "text"),
            (f"{glyph(level, most)} ", "accent"),
            (fit(name, max(10, self._width // 3)), "strong"),
            ("  ", "text"),
            *([("holds the GIL ", "warn")] if thread.owns_gil else []),
        ]
        room = self._width - sum(cell_len(text) for text, _ in line)
        return [*line, (fit(" · ".join(_marks(thread, level)), room), "dim")] if room > 4 else line


def _marks(thread: ThreadStack, level: int) -> list[str]:
    words: list[str] = []
    if thread.active is not None:
        words.append("running" if thread.active else "idle")
    if not thread.frames:
        words.append("no Python frame")
    elif not level and (wait := meaning(thread)) is not None:
        words.append(wait.says)
    if thread.state in TELLING_STATES:
        words.append(f"state {thread.state}")
    if thread.wchan and thread.wchan != "0":
        words.append(f"in {thread.wchan}")
    if thread.os_thread_id is not None:
        words.append(f"tid {thread.os_thread_id}")
    return words
