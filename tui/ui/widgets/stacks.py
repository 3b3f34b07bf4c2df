"""The panes of the stacks: the tree of all, one process as it was taken, two looks beside each other."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import zip_longest

from tui.model import Dump, ProcessStacks
from tui.ui import format as fmt
from tui.ui.lines import Line, fit, wrap
from tui.ui.outline import Outline, Row, still, stop
from tui.ui.source import Sources
from tui.ui.stack_compare import Change, Pair, changes, compare_rows
from tui.ui.stack_filter import ALL, Filter
from tui.ui.stack_threads import process_rows
from tui.ui.stack_tree import Look, dump_rows, look, process_name
from tui.ui.widgets.outline import OutlinePane


def order(dump: Dump) -> list[ProcessStacks]:
    """Odd processes first, then ranks, then the others."""
    odd = {(o.host, o.pid) for o in dump.merged.odd} if dump.merged else set[tuple[str, int | None]]()
    ranks = set(dump.merged.odd_ranks) if dump.merged else set[int]()
    return sorted(
        dump.processes,
        key=lambda p: (
            (p.host, p.pid) not in odd and p.rank not in ranks,
            p.rank is None,
            p.rank or 0,
            p.host,
            p.pid or 0,
        ),
    )


class StackPane(OutlinePane):
    """``wanted`` is the filter; ``as_text`` shows plain lines in place of rows that open."""

    def __init__(self, sources: Sources, on_choice: Callable[[OutlinePane], None], *, id: str) -> None:
        super().__init__(on_choice, id=id)
        self.sources = sources
        self.wanted: Filter = ALL
        self.as_text = False
        self.revision = 0
        """Counts what has changed beside what is shown: a source that was read."""
        self._made: tuple[object, ...] | None = None
        self._subject: tuple[object, ...] = ()
        self._rows_made: Sequence[Row] = ()

    def subject(self) -> tuple[object, ...]:
        """What is shown; rows are made again only where it is something else."""
        raise NotImplementedError

    def build(self, width: int) -> Sequence[Row]:
        raise NotImplementedError

    def text(self) -> list[str]:
        """The same as text, as it is copied."""
        raise NotImplementedError

    def make_rows(self, width: int) -> Sequence[Row]:
        subject = self.subject()
        made = (width, self.wanted, self.as_text, self.revision, tuple(self.levels.items()))
        if made != self._made or any(a is not b for a, b in zip_longest(subject, self._subject)):
            self._made, self._subject = made, subject
            self._rows_made = _text_rows(self.text(), width) if self.as_text else self.build(width)
        return self._rows_made


def _text_rows(lines: Sequence[str], width: int) -> list[Row]:
    """Long lines are broken, none is cut: what is read is what would be copied."""
    parts = [part for line in lines for part in (wrap(line, width - 1) if line else [""])]
    return [stop([(part, "text")], ("text", n)) for n, part in enumerate(parts)]


class MergedPane(StackPane):
    dump: Dump | None = None
    _look: Look | None = None

    def subject(self) -> tuple[object, ...]:
        return (self.dump,)

    def build(self, width: int) -> Sequence[Row]:
        if self.dump is None:
            return []
        if self._look is None or self._look.dump is not self.dump or self._look.wanted != self.wanted:
            self._look = look(self.dump, self.wanted)
        return dump_rows(self._look, self.levels, self.sources, width)

    def text(self) -> list[str]:
        from tui.ui.stack_text import merged_lines

        return merged_lines(self.dump) if self.dump is not None else []

    def first_stop(self, outline: Outline) -> Hashable:
        """The branch that is to be read first: the odd one, which comes first, else the tree."""
        branches = [outline.rows[n] for n in outline.stops if isinstance(outline.rows[n].key, int)]
        leaf = next((row for row in branches if row.folded == 0), None)
        return leaf.key if leaf is not None else super().first_stop(outline)

    def make_title(self, width: int) -> tuple[Line, Line]:
        title: Line = [("merged", "title")]
        if self.dump is not None and self.dump.merged is not None:
            title.append((f"  {fmt.plural(len(self.dump.merged.groups), 'group')}", "dim"))
        return title, [(f" {fit(self.wanted.words, 24)} ", "badge-frozen")] if self.wanted.words else []


class RawPane(StackPane):
    process: ProcessStacks | None = None
    native: ProcessStacks | None = None

    def subject(self) -> tuple[object, ...]:
        return (self.process, self.native)

    def build(self, width: int) -> Sequence[Row]:
        if self.process is None:
            return []
        return process_rows(self.process, self.native, self.wanted, self.levels, self.sources, width)

    def text(self) -> list[str]:
        from tui.ui.stack_text import process_lines

        return process_lines(self.process) if self.process is not None else []

    def make_title(self, width: int) -> tuple[Line, Line]:
        process = self.process
        if process is None:
            return [("one process", "title")], []
        took = "" if process.duration_s is None else f"  {process.duration_s:.1f} s"
        return [(process_name(process), "title"), (f"  {process.method}{took}", "dim")], []


class ComparePane(StackPane):
    """``pair`` is what is compared; who has moved is found out once for it."""

    pair: Pair | None = None
    _changes: tuple[Pair, list[Change]] | None = None

    def subject(self) -> tuple[object, ...]:
        return (self.pair,)

    def build(self, width: int) -> Sequence[Row]:
        if self.pair is None:
            return [still([("There is nothing to compare these stacks with yet.", "dim")])]
        if self._changes is None or self._changes[0] is not self.pair:
            self._changes = (self.pair, changes(self.pair))
        return compare_rows(self.pair, self._changes[1], self.wanted, self.levels, width)

    def text(self) -> list[str]:
        return self.lines()

    def make_title(self, width: int) -> tuple[Line, Line]:
        title: Line = [("what moved", "title")]
        return title, [(f" {fit(self.wanted.words, 24)} ", "badge-frozen")] if self.wanted.words else []
