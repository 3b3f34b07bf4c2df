"""Which stacks are looked at: by rank, host, thread, function and file. No widget, no terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from tui.errors import UsageError
from tui.model import Dump, Frame, ProcessStacks, StackGroup, ThreadStack
from tui.stacks.frames import is_place, label
from tui.stacks.tree import member_of

FIELDS = ("rank", "host", "thread")


@dataclass(frozen=True, slots=True)
class Filter:
    """``ranks`` are (first, last), any of them; patterns are those of a shell; all of ``texts`` must be found, each in
    the name of a function or file of one of the threads."""

    words: str = ""
    ranks: tuple[tuple[int, int], ...] = ()
    hosts: tuple[str, ...] = ()
    threads: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    def takes(self, process: ProcessStacks) -> bool:
        if self.ranks and not any(
            first <= (-1 if process.rank is None else process.rank) <= last for first, last in self.ranks
        ):
            return False
        if not all(fnmatchcase(process.host.lower(), pattern) for pattern in self.hosts):
            return False
        if not self.threads and not self.texts:
            return True
        return any(self.takes_thread(thread) for thread in process.threads)

    def takes_thread(self, thread: ThreadStack) -> bool:
        """A main thread is called MainThread, whatever its process calls it."""
        names = (thread.name.lower(), "mainthread") if thread.main else (thread.name.lower(),)
        if not all(any(fnmatchcase(name, pattern) for name in names) for pattern in self.threads):
            return False
        return all(any(self._has(text, frame) for frame in thread.frames) for text in self.texts)

    def lights(self, text: str) -> bool:
        """Whether a painted frame is one of those that are looked for."""
        return any(part in text.lower() for part in self.texts)

    @staticmethod
    def _has(text: str, frame: Frame) -> bool:
        return text in frame.function.lower() or text in frame.file.lower()


ALL = Filter()


def parse(words: str) -> Filter:
    """``rank:0-3,7 thread:MainThread all_reduce``. Raises: UsageError for a field or a rank that is none."""
    ranks: list[tuple[int, int]] = []
    found: dict[str, list[str]] = {"host": [], "thread": [], "": []}
    for word in words.split():
        field, colon, pattern = word.partition(":")
        if field == "rank" and colon:
            ranks += [_span(part) for part in pattern.split(",")]
        elif colon and field in found:
            found[field].append(pattern.lower())
        elif colon and field.isalpha() and not pattern.startswith(":"):  # but std::mutex
            raise UsageError(f"{field!r} is no filter: {', '.join(FIELDS)} are, as in rank:0-3 or thread:Main*")
        else:
            found[""].append(word.lower())
    return Filter(words.strip(), tuple(ranks), tuple(found["host"]), tuple(found["thread"]), tuple(found[""]))


def _span(text: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    if not first.isdecimal() or (dash and not last.isdecimal()):
        raise UsageError(f"rank:{text}: a number, or two as in rank:0-3")
    return int(first), int(last or first)


def chosen(dump: Dump, wanted: Filter) -> tuple[Sequence[StackGroup], Sequence[ProcessStacks]]:
    """The groups that are left, and the processes that they are made of.

    Where threads are asked for, those are grouped in place of the main threads, and nobody is odd among them: of such
    nothing is judged.
    """
    groups = dump.merged.groups if dump.merged else ()
    if wanted == ALL:
        return groups, dump.processes
    processes = [p for p in dump.processes if wanted.takes(p)]
    if wanted.threads:
        return _by_thread(processes, wanted)
    members = {member_of(p): p for p in processes}
    left = (_part(group, members) for group in groups)
    return [group for group in left if group.members], processes


def _part(group: StackGroup, members: Mapping[str, ProcessStacks]) -> StackGroup:
    kept = tuple(m for m in group.members if m in members)
    ranks = {members[m].rank for m in kept}
    return replace(group, members=kept, ranks=tuple(r for r in group.ranks if r in ranks))


def _by_thread(
    processes: Sequence[ProcessStacks], wanted: Filter
) -> tuple[Sequence[StackGroup], Sequence[ProcessStacks]]:
    found: dict[tuple[str, ...], dict[str, ProcessStacks]] = {}
    alone: list[ProcessStacks] = []
    for process in processes:
        threads = [t for t in process.threads if wanted.takes_thread(t)]
        if len(threads) == 1:  # of several, what one means is not said of the others
            alone.append(replace(process, threads=(replace(threads[0], main=True),)))
        for thread in threads:
            frames = tuple(label(f) for f in reversed(thread.frames) if is_place(f)) or (f"[{thread.wchan or '?'}]",)
            found.setdefault(frames, {})[member_of(process)] = process
    groups = [
        StackGroup(tuple(sorted(p.rank for p in some.values() if p.rank is not None)), tuple(some), frames)
        for frames, some in found.items()
    ]
    return sorted(groups, key=lambda g: (len(g.members), g.ranks, g.members)), alone
