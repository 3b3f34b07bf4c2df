"""Groups of stacks as a prefix tree: what they share is said once, and where they part the odd branch comes first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tui.model import StackGroup
from tui.stacks.frames import ranges


@dataclass(frozen=True, slots=True)
class Branch:
    """A run of frames, root first, that the same processes share, and what becomes of them below."""

    frames: tuple[str, ...]
    ranks: tuple[int, ...]
    members: tuple[str, ...]
    odd: bool
    children: tuple[Branch, ...] = ()

    @property
    def title(self) -> str:
        """``7:[0-4,6-7]``, or the members where they have no ranks."""
        others = len(self.members) - len(self.ranks)
        if self.ranks:
            return f"{len(self.members)}:[{ranges(self.ranks)}{f' and {others} more' if others else ''}]"
        return f"{len(self.members)}:[{', '.join(self.members[:3])}{', …' if len(self.members) > 3 else ''}]"


def tree(groups: Sequence[StackGroup]) -> tuple[Branch, ...]:
    """The prefix tree, with chains of single children collapsed; branches keep the order of ``groups``."""
    return _branches(groups, 0)


def _branches(groups: Sequence[StackGroup], depth: int) -> tuple[Branch, ...]:
    by_frame: dict[str | None, list[StackGroup]] = {}
    for group in groups:
        by_frame.setdefault(group.frames[depth] if depth < len(group.frames) else None, []).append(group)
    branches: list[Branch] = []
    for frame, some in by_frame.items():
        branches += [_branch(some, depth)] if frame is not None else [_end(group) for group in some]
    return tuple(branches)


def _end(group: StackGroup) -> Branch:
    """Processes that go no further, where others do, or where one of them is named for what it called."""
    return Branch((), group.ranks, group.members, group.odd)


def _branch(groups: Sequence[StackGroup], start: int) -> Branch:
    shortest = min(len(g.frames) for g in groups)
    end = start + 1
    while end < shortest and len({g.frames[end] for g in groups}) == 1:
        end += 1
    return Branch(
        frames=groups[0].frames[start:end],
        ranks=tuple(sorted(r for g in groups for r in g.ranks)),
        members=tuple(m for g in groups for m in g.members),
        odd=all(g.odd for g in groups),
        children=_branches(groups, end) if len(groups) > 1 else (),
    )


def draw(branches: Sequence[Branch], indent: str = "") -> list[str]:
    """The tree as lines of text: a title per branch, its frames below, branches indented by two."""
    lines: list[str] = []
    for branch in branches:
        lines.append(f"{indent}{branch.title}{'  <- stands elsewhere' if branch.odd else ''}")
        lines += [f"{indent}    {frame}" for frame in branch.frames]
        lines += draw(branch.children, indent + "  ")
    return lines
