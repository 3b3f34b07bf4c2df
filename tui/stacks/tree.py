"""Groups of stacks as a prefix tree: what they share is said once, and where they part the odd branch comes first.

The screen and ``dump`` say a branch in the same words, which are made here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tui.model import ProcessStacks, StackGroup
from tui.stacks.frames import is_place, ranges
from tui.stacks.odd import WAITING
from tui.stacks.waits import is_plumbing, meaning

APART = "  <- stands elsewhere"

MOST_NAMED = 3
"""Processes without a rank that are named one by one."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A run of frames, root first, that the same processes share, and what becomes of them below.

    ``frames`` is empty for processes that go no further where others do. ``path`` are all frames from the root on,
    ``key`` tells branches apart and stays the same while further processes come in. ``of`` is how many ranks there are
    (processes, where nothing has a rank). ``at`` is the frame that says where they stand, ``does`` what that means
    (empty: not known, or they do not all stand there); ``named`` are those without a rank.
    """

    frames: tuple[str, ...]
    ranks: tuple[int, ...]
    members: tuple[str, ...]
    odd: bool
    children: tuple[Branch, ...] = ()
    path: tuple[str, ...] = ()
    key: int = 0
    of: int = 0
    at: str = ""
    does: str = ""
    named: tuple[str, ...] = ()

    @property
    def count(self) -> str:
        """``7 of 8``; of processes without a rank, where others have one, just how many."""
        n = len(self.ranks) or len(self.members)
        return f"{n} of {self.of}" if self.of else str(n)

    @property
    def who(self) -> str:
        """``ranks 0–4, 6–7``, ``rank 5 and 1 other``; the processes where they have no ranks."""
        if not self.ranks:
            more = len(self.named) - MOST_NAMED
            return ", ".join(self.named[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
        shown = ranges(self.ranks).replace("-", "–").replace(",", ", ")
        others = len(self.members) - len(self.ranks)
        and_more = f" and {others} other{'s' if others > 1 else ''}" if others > 0 else ""
        return f"rank{'' if len(self.ranks) == 1 else 's'} {shown}{and_more}"

    @property
    def title(self) -> str:
        """``7 of 8  ranks 0–4, 6–7  all_reduce (distributed_c10d.py:2810)``."""
        return "  ".join(part for part in (self.count, self.who, self.at) if part)


def tree(groups: Sequence[StackGroup], processes: Sequence[ProcessStacks] = ()) -> tuple[Branch, ...]:
    """The prefix tree, with chains of single children collapsed; branches keep the order of ``groups``.

    ``processes`` are those that the groups were made of: they say what it means to stand there, who a process without
    a rank is, and how many ranks there are, those that gave no stack included.
    """
    return _Grower(groups, processes).branches(groups, 0, 0)


class _Grower:
    def __init__(self, groups: Sequence[StackGroup], processes: Sequence[ProcessStacks]) -> None:
        self._by_member = {member_of(p): p for p in processes}
        ranks = {r for g in groups for r in g.ranks} | {p.rank for p in processes if p.rank is not None}
        self._ranked = bool(ranks)
        self._all = len(ranks) or max(len({m for g in groups for m in g.members}), len(processes))

    def branches(self, groups: Sequence[StackGroup], depth: int, key: int) -> tuple[Branch, ...]:
        by_frame: dict[str | None, list[StackGroup]] = {}
        for group in groups:
            by_frame.setdefault(group.frames[depth] if depth < len(group.frames) else None, []).append(group)
        found: list[Branch] = []
        for frame, some in by_frame.items():
            found += (
                [self._branch(some, depth, key)] if frame is not None else [self._leaf(g, depth, key) for g in some]
            )
        return tuple(found)

    def _branch(self, groups: Sequence[StackGroup], start: int, key: int) -> Branch:
        if len(groups) == 1:
            return self._leaf(groups[0], start, key)
        shortest = min(len(g.frames) for g in groups)
        end = start + 1
        while end < shortest and len({g.frames[end] for g in groups}) == 1:
            end += 1
        path = groups[0].frames[:end]
        ranks = tuple(sorted(r for g in groups for r in g.ranks))
        return self._said(
            Branch(
                frames=path[start:],
                ranks=ranks,
                members=tuple(m for g in groups for m in g.members),
                odd=all(g.odd for g in groups),
                path=path,
                key=(inner := _key(key, path[start:])),
                at=path[-1],
                children=self.branches(groups, end, inner),
            )
        )

    def _leaf(self, group: StackGroup, start: int, key: int) -> Branch:
        """Where a group stands alone, or goes no further where others do; one that is named for what it called may
        stand where others stand too."""
        own = group.frames[start:]
        at, does = self._stand(group)
        key = _key(key, (*own, f"ends, {'odd' if group.odd else 'not odd'}"))
        return self._said(
            Branch(own, group.ranks, group.members, group.odd, path=group.frames, key=key, at=at, does=does)
        )

    def _said(self, branch: Branch) -> Branch:
        named = () if branch.ranks else tuple(_name(m, self._by_member.get(m)) for m in branch.members)
        return replace(branch, named=named, of=self._all if branch.ranks or not self._ranked else 0)

    def _stand(self, group: StackGroup) -> tuple[str, str]:
        """The frame that names the place, and what it means to be there."""
        last = group.frames[-1] if group.frames else ""
        process = self._by_member.get(group.members[0]) if group.members else None
        main = next((t for t in process.threads if t.main), None) if process is not None else None
        if main is None:
            return last, ""
        frames = tuple(f for f in main.frames if is_place(f))
        wait = meaning(replace(main, frames=frames))
        if wait is None:
            return last, "runs" if main.state == "R" else ""
        if len(frames) != len(group.frames):
            return last, wait.says
        depth = wait.depth or 0
        if wait.kind not in WAITING:  # a lock or a poll is anybody's: whose it is tells more
            depth = next((n for n in range(depth, len(frames)) if not is_plumbing(frames[n].file)), depth)
        return group.frames[-1 - depth], wait.says


def member_of(process: ProcessStacks) -> str:
    """How a group names a process: ``host:pid``, or the host alone where there is no pid."""
    return f"{process.host}:{process.pid}" if process.pid is not None else process.host


def _name(member: str, process: ProcessStacks | None) -> str:
    if process is None or process.pid is None:
        return member
    return f"{process.role.replace('_', ' ')} {process.pid} on {process.host}"


def _key(key: int, frames: Sequence[str]) -> int:
    for frame in frames:
        key = hash((key, frame))
    return key


def draw(branches: Sequence[Branch], indent: str = "") -> list[str]:
    """The tree as lines of text: a title per branch, its frames below, branches indented by two."""
    lines: list[str] = []
    for branch in branches:
        lines.append(indent + "  ".join([branch.title, *([branch.does] if branch.does else [])]) + APART * branch.odd)
        lines += [f"{indent}    {frame}" for frame in branch.frames]
        lines += draw(branch.children, indent + "  ")
    return lines
