"""All ranks in one picture: who stands where, who stands with whom, and who stands elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tui.model import Frame, MergedStacks, Odd, ProcessStacks, StackGroup, ThreadStack
from tui.stacks.called import Called
from tui.stacks.frames import bare, basename, is_place, label, ranges
from tui.stacks.odd import APART_S, DECISIVE, Judgement, Stand, judge, odd_of
from tui.stacks.waits import Wait, gil_elsewhere, holds_gil, meaning


def merge(
    processes: Sequence[ProcessStacks], called: Sequence[Called] = (), before: Sequence[ProcessStacks] = ()
) -> MergedStacks:
    """Group processes by where their main threads stand, the odd ones first, then the smallest group.

    Two stand at the same place when the same functions of the same files called each other from the same lines, down
    to the wait; below it only functions count, since a poll is caught at any of its lines. ``called``: what the ranks
    called, by the flight recorder and by NCCL RAS. ``before``: stacks of the same processes from an earlier look.
    """
    stands, judgement = weigh(processes, called, before)
    named = set(judgement.odd)
    groups: dict[tuple[bool, tuple[object, ...]], list[Stand]] = {}
    for stand in stands:
        groups.setdefault((stand in named or stand.rank in judgement.ranks, stand.path), []).append(stand)
    odd = odd_in(judgement, processes)
    ranks = tuple(sorted(o.rank for o in odd if o.rank is not None))
    names = _names(stands)
    made = [_group(members, is_odd, names) for (is_odd, _), members in groups.items()]
    made.sort(key=lambda g: (not g.odd, len(g.members), g.ranks, g.members))
    ranked = [g.frames for g in made if g.ranks] or [g.frames for g in made]
    known = {s.rank for s in stands if s.thread.frames or _decisive(s)} | {r for c in called for r in c.known}
    parts = (_first_up(judgement), _missing(processes, known))
    return MergedStacks(tuple(made), _common(ranked), ranks, odd, " ".join(part for part in parts if part))


def weigh(
    processes: Sequence[ProcessStacks], called: Sequence[Called] = (), before: Sequence[ProcessStacks] = ()
) -> tuple[list[Stand], Judgement]:
    """Where each stands and what is to be thought of it, see :func:`merge`."""
    earlier = {(p.host, p.pid, p.rank): p for p in before}
    stands = [s for p in processes if (s := _stand(p, earlier.get((p.host, p.pid, p.rank)))) is not None]
    return stands, judge([s for s in stands if s.thread.frames or _decisive(s)], called)


def odd_in(judgement: Judgement, processes: Sequence[ProcessStacks]) -> tuple[Odd, ...]:
    """Everyone who is named, by a stack or by what was called."""
    found = [odd_of(stand, judgement) for stand in judgement.odd]
    seats = {p.rank: p for p in processes}
    for rank in judgement.ranks:
        if all(odd.rank != rank for odd in found):
            seat = seats.get(rank)
            where = (seat.host, seat.pid, rank, seat.role) if seat is not None else ("", None, rank, "rank")
            found.append(Odd(*where, _first_up(judgement)))
    return tuple(found)


def _decisive(stand: Stand) -> bool:
    return stand.wait is not None and stand.wait.id in DECISIVE


def main_thread(process: ProcessStacks) -> ThreadStack | None:
    """The main thread; ``None`` where it was lost (faulthandler writes at most 100 threads) or nothing was read."""
    return next((t for t in process.threads if t.main), None)


def _stand(process: ProcessStacks, before: ProcessStacks | None) -> Stand | None:
    main = main_thread(process)
    if main is None:
        return None
    main = replace(main, frames=tuple(f for f in main.frames if is_place(f)))
    if not main.frames and not main.wchan:
        return None
    holders = [t for t in process.threads if holds_gil(t)]
    if holders and before is not None and not any(holds_gil(t) for t in before.threads):
        # A thread that reads a file may hold the interpreter's lock for a moment; a deadlock shows at both looks.
        holders, main = [], replace(main, owns_gil=None)
    wait = meaning(main)
    inside = meaning(replace(main, owns_gil=None)) if wait and wait.id == "gil" else None
    if holders and not holders[0].main and main.active is not True:
        wait, inside = gil_elsewhere(holders[0], wait), wait
    if wait and _is_orphan(wait, main, process):
        wait = replace(wait, id="orphan_lock", says=f"{wait.says}, though it has no other thread to release it")
    path = _path(main, wait.depth if wait else None)
    stand = Stand(process.host, process.pid, process.rank, process.role, main, wait, path)
    moved, gap = _motion(process, before, path)
    return replace(stand, moved=moved, gap_s=gap, inside=inside.kind if inside else "")


def _is_orphan(wait: Wait, main: ThreadStack, process: ProcessStacks) -> bool:
    """A lock of one process whose only thread waits for it: a fork lost the holder, or it holds it itself."""
    alone = wait.id == "lock" and wait.depth is not None and len(process.threads) == 1
    return alone and "multiprocessing/" not in main.frames[wait.depth or 0].file


def _path(main: ThreadStack, depth: int | None) -> tuple[object, ...]:
    if not main.frames:
        return (main.wchan,)
    return tuple(
        (bare(f.function), basename(f.file), f.line if depth is None or n > depth else 0)
        for n, f in enumerate(main.frames)
    )


def _motion(
    process: ProcessStacks, before: ProcessStacks | None, path: tuple[object, ...]
) -> tuple[bool | None, float | None]:
    """Whether it stood elsewhere at the earlier look, and how long before that was."""
    then = main_thread(before) if before is not None else None
    if before is None or then is None or not then.frames:
        return None, None
    known = process.taken_wall is not None and before.taken_wall is not None
    gap = abs((process.taken_wall or 0.0) - (before.taken_wall or 0.0)) if known else None
    then = replace(then, frames=tuple(f for f in then.frames if is_place(f)))
    wait = meaning(then)
    if _path(then, wait.depth if wait else None) != path:
        return True, gap
    return (False, gap) if gap is not None and gap >= APART_S else (None, gap)


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


def _missing(processes: Sequence[ProcessStacks], known: Iterable[int | None]) -> str:
    """What is known of ranks without a stack, since the culprit may be among them."""
    seen = {rank for rank in known if rank is not None}
    without = {p.rank for p in processes if p.rank is not None} - seen
    gaps = set(range(max(seen | without, default=-1) + 1)) - seen - without
    told = ((without, "gave no stack", "gave no stack"), (gaps, "was not looked at", "were not looked at"))
    return " ".join(
        f"Rank {ranges(ranks)} {one}." if len(ranks) == 1 else f"Ranks {ranges(ranks)} {many}."
        for ranks, one, many in told
        if ranks
    )
