"""Whose dump is it? Faulthandler names no process; the thread ids do, since address spaces are randomised.

With stacks that py-spy took before the signal every block finds its process, its thread names and kernel ids, however
the blocks of several processes are mixed in one file. Without them, ids that lie near each other belong together.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Generic, TypeVar

from tui.model import Frame, ThreadStack
from tui.stacks.faulthandler import FaultDump
from tui.stacks.frames import bare, is_program

Owner = TypeVar("Owner", bound=Hashable)

_NEAR = 1 << 36
"""Thread ids of one process lie within its mmap area; 64 GiB is far below the 2^40 range of its random base."""


@dataclass(frozen=True, slots=True)
class Attributed(Generic[Owner]):
    """``owned``: the newest dump of each process. ``strays``: dumps that fit none."""

    owned: Mapping[Owner, FaultDump]
    strays: tuple[FaultDump, ...]


def attribute(dumps: Sequence[FaultDump], known: Mapping[Owner, Sequence[ThreadStack]]) -> Attributed[Owner]:
    """Give every dump, or every block of dumps that are mixed, to the process in ``known`` (stacks taken before).

    A thread that began after those were taken goes with the nearest id; threads get the names and ids known of them.
    """
    ids = {t.thread_id: owner for owner, threads in known.items() for t in threads if t.thread_id is not None}
    owned: dict[Owner, FaultDump] = {}
    strays: list[FaultDump] = []
    for dump in dumps:
        homes = {ids[t.thread_id] for t in dump.threads if t.thread_id in ids}
        if len(homes) == 1 and not dump.mixed:
            owned[homes.pop()] = dump
        elif left := _share(dump, ids, owned):
            strays.append(replace(dump, threads=tuple(left)))
    written = {_key(f) for d in dumps for t in d.threads for f in t.frames}
    return Attributed({o: _named(d, known[o], written) for o, d in owned.items()}, tuple(strays))


def apart(dumps: Sequence[FaultDump]) -> list[FaultDump]:
    """Take mixed dumps apart where nothing is known beforehand: as many processes as first lines, cut at the widest
    gaps between their thread ids. Where that does not come out even, they are left as they are."""
    mixed = [d for d in dumps if d.mixed]
    ids = sorted({t.thread_id for d in mixed for t in d.threads if t.thread_id is not None})
    wanted = sum(1 for d in mixed if d.reason)
    gaps = sorted(range(1, len(ids)), key=lambda i: ids[i] - ids[i - 1])[-(wanted - 1) :] if wanted > 1 else []
    if len(gaps) != wanted - 1 or any(ids[i] - ids[i - 1] < _NEAR >> 4 for i in gaps):
        return list(dumps)
    bounds = [0, *sorted(gaps), len(ids)]
    groups = {n: ids[a:b] for n, (a, b) in enumerate(pairwise(bounds))}
    known = {n: [ThreadStack(None, "", (), thread_id=i) for i in group] for n, group in groups.items()}
    result = attribute(mixed, known)
    programs = [sum(is_program(t.frames) for t in d.threads) for d in result.owned.values()]
    if result.strays or len(result.owned) != wanted or any(n != 1 for n in programs):
        return list(dumps)
    return [*(d for d in dumps if not d.mixed), *result.owned.values()]


def _share(dump: FaultDump, ids: Mapping[int, Owner], owned: dict[Owner, FaultDump]) -> list[ThreadStack]:
    """Deal a mixed dump's blocks out to their processes; those that fit none are handed back."""
    left: list[ThreadStack] = []
    for thread in dump.threads:
        owner = _nearest(thread.thread_id, ids)
        if owner is None:
            left.append(thread)
            continue
        so_far = owned.get(owner)
        if so_far is None or any(t.thread_id == thread.thread_id for t in so_far.threads):
            so_far = replace(dump, threads=(), rank=None)  # a thread that comes again begins a newer dump
        owned[owner] = replace(so_far, threads=(*so_far.threads, thread), torn=so_far.torn or dump.torn)
    return left


def _nearest(thread_id: int | None, ids: Mapping[int, Owner]) -> Owner | None:
    if thread_id is None or not ids:
        return None
    near = thread_id if thread_id in ids else min(ids, key=lambda known: abs(known - thread_id))
    return ids[near] if abs(near - thread_id) < _NEAR else None


def _key(frame: Frame) -> tuple[str, str, int]:
    return bare(frame.function), frame.file, frame.line


def _named(dump: FaultDump, known: Sequence[ThreadStack], written: set[tuple[str, str, int]]) -> FaultDump:
    """The dump with what was known of its threads, the main one first.

    Where lines are torn apart, a thread whose earlier frames were all ``written`` somewhere keeps the earlier ones:
    what hangs stands where it stood.
    """
    before = {t.thread_id: t for t in known if t.frames or t.main}
    threads: list[ThreadStack] = []
    for thread in dump.threads:
        old = before.get(thread.thread_id)
        if old is None:
            main = is_program(thread.frames) if dump.mixed else thread.main
            threads.append(replace(thread, main=main and not any(t.main for t in known)))
            continue
        keep = dump.torn and all(_key(f) in written for f in old.frames)
        frames = old.frames if keep else thread.frames
        name = old.name or thread.name
        threads.append(replace(thread, os_thread_id=old.os_thread_id, name=name, main=old.main, frames=frames))
    return replace(dump, threads=tuple(sorted(threads, key=lambda t: not t.main)))
