"""All ranks in one picture: who stands where, who stands with whom, and who stands elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tui.model import Frame, MergedStacks, ProcessStacks, StackGroup, ThreadStack
from tui.stacks.frames import bare, basename, is_place, label, ranges
from tui.stacks.odd import DECISIVE, Judgement, Stand, judge, odd_of
from tui.stacks.waits import meaning


def merge(processes: Sequence[ProcessStacks], positions: Mapping[int, int] | None = None) -> MergedStacks:
    """Group processes by where their main threads stand, the odd ones first, then the smallest group.

    Two stand at the same place when the same functions of the same files called each other from the same lines, down
    to the wait; below it only functions count, since a poll is caught at any of its lines. ``positions``: see
    :func:`tui.stacks.odd.judge`.
    """
    stands = [stand for process in processes if (stand := _stand(process)) is not None]
    judged = [s for s in stands if s.thread.frames or (s.wait and s.wait.id in DECISIVE)]
    judgement = judge(judged, positions)
    groups: dict[tuple[object, ...], list[Stand]] = {}
    for stand in stands:
        groups.setdefault(stand.path, []).append(stand)
    odd = set(judgement.odd)
    names = _names(stands)
    made = [_group(members, any(m in odd for m in members), names) for members in groups.values()]
    made.sort(key=lambda g: (not g.odd, len(g.members), g.ranks, g.members))
    ranked = [g.frames for g in made if g.ranks] or [g.frames for g in made]
    return MergedStacks(
        groups=tuple(made),
        common=_common(ranked),
        odd_ranks=tuple(sorted(s.rank for s in judgement.odd if s.rank is not None)),
        odd=tuple(odd_of(s, judgement) for s in judgement.odd),
        why=" ".join(part for part in (_first_up(judgement), _missing(processes, judged)) if part),
    )


def main_thread(process: ProcessStacks) -> ThreadStack | None:
    """The main thread; ``None`` where it was lost (faulthandler writes at most 100 threads) or nothing was read."""
    return next((t for t in process.threads if t.main), None)


def _stand(process: ProcessStacks) -> Stand | None:
    main = main_thread(process)
    if main is None:
        return None
    main = replace(main, frames=tuple(f for f in main.frames if is_place(f)))
    if not main.frames and not main.wchan:
        return None
    wait = meaning(main)
    depth = wait.depth if wait else None
    path: list[object] = []
    for n, frame in enumerate(main.frames):
        line = frame.line if depth is None or n > depth else 0
        path.append((bare(frame.function), basename(frame.file), line))
    if not main.frames:
        path.append(main.wchan)
    return Stand(process.host, process.pid, process.rank, process.role, main, wait, tuple(path))


def _names(stands: Sequence[Stand]) -> Mapping[tuple[str, str, int], str]:
    """Each frame's best name: qualified where any source knew it so, and the same in every group."""
    names: dict[tuple[str, str, int], str] = {}
    for stand in stands:
        for frame in stand.thread.frames:
            key = (bare(frame.function), basename(frame.file), frame.line)
            if len(frame.function) > len(names.get(key, "")):
                names[key] = frame.function
    return names


def _group(stands: Sequence[Stand], odd: bool, names: Mapping[tuple[str, str, int], str]) -> StackGroup:
    ranks = tuple(sorted(s.rank for s in stands if s.rank is not None))
    members = tuple(f"{s.host}:{s.pid}" if s.pid is not None else s.host for s in stands)
    return StackGroup(ranks, members, _labels([s.thread for s in stands], names), odd)


def _labels(threads: Sequence[ThreadStack], names: Mapping[tuple[str, str, int], str]) -> tuple[str, ...]:
    """The frames of a group, root first."""
    if not threads[0].frames:
        return (f"[{threads[0].wchan}]",)
    columns: list[dict[Frame, None]] = [{} for _ in threads[0].frames]
    for thread in threads:
        for column, frame in zip(columns, thread.frames, strict=True):
            column[frame] = None
    return tuple(_label(list(column), names) for column in reversed(columns))


def _label(frames: Sequence[Frame], names: Mapping[tuple[str, str, int], str]) -> str:
    """One frame of a group; one that was caught at several lines shows up to three of them."""
    first = frames[0]
    lines = sorted({f.line for f in frames if f.line})
    best = replace(first, function=names[bare(first.function), basename(first.file), first.line])
    return label(best, ",".join(str(n) for n in lines) if len(lines) <= 3 else "…")


def _common(stacks: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    if not stacks:
        return ()
    first, last = min(stacks), max(stacks)
    n = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[:n]


def _first_up(judgement: Judgement) -> str:
    return judgement.why[:1].upper() + judgement.why[1:]


def _missing(processes: Sequence[ProcessStacks], stands: Sequence[Stand]) -> str:
    """What is known of ranks without a stack, since the culprit may be among them."""
    seen = {s.rank for s in stands if s.rank is not None}
    without = {p.rank for p in processes if p.rank is not None} - seen
    gaps = set(range(max(seen | without, default=-1) + 1)) - seen - without
    told = ((without, "gave no stack", "gave no stack"), (gaps, "was not looked at", "were not looked at"))
    return " ".join(
        f"Rank {ranges(ranks)} {one}." if len(ranks) == 1 else f"Ranks {ranges(ranks)} {many}."
        for ranks, one, many in told
        if ranks
    )
