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

_NEAR = 1 << 33
"""Thread ids of one process: its stacks lie within some GiB of its libraries, whose place is random over 2^40 bytes."""


@dataclass(frozen=True, slots=True)
class Attributed(Generic[Owner]):
    """``owned``: the newest dump of each process. ``strays``: dumps that fit none."""

    owned: Mapping[Owner, FaultDump]
    strays: tuple[FaultDump, ...]


def attribute(dumps: Sequence[FaultDump], known: Mapping[Owner, Sequence[ThreadStack]]) -> Attributed[Owner]:
    """Give every block of every dump to its process in ``known`` (stacks taken before).

    A thread that began after those were taken goes with the rest of its dump, or in a mix with the nearest id. Threads
    get the names and kernel ids known of them.
    """
    ids = {t.thread_id: owner for owner, threads in known.items() for t in threads if t.thread_id is not None}
    owned: dict[Owner, FaultDump] = {}
    strangers = _strangers(dumps, ids)
    strays = [replace(dump, threads=tuple(left)) for dump in dumps if (left := _share(dump, ids, strangers, owned))]
    written = {_key(f) for d in dumps for t in d.threads for f in t.frames} | {_key(f) for d in dumps for f in d.loose}
    return Attributed({o: _named(d, known[o], written) for o, d in owned.items()}, tuple(strays))


def apart(dumps: Sequence[FaultDump]) -> list[FaultDump]:
    """Take mixed dumps apart where nothing is known beforehand: into as many as there are main threads, cut at the
    widest gaps between thread ids. Where that does not come out even, they are left as they are."""
    threads = sorted((t for d in dumps for t in d.threads), key=lambda t: t.thread_id or 0)
    ids = [t.thread_id or 0 for t in threads]
    cuts = sum(is_program(t.frames) for t in threads) - 1
    if not any(d.mixed for d in dumps) or cuts < 0 or not all(ids):
        return list(dumps)
    gaps = sorted(range(1, len(ids)), key=lambda i: ids[i] - ids[i - 1])[-cuts:] if cuts else []
    bounds = [0, *sorted(gaps), len(ids)]
    groups = {
        n: [ThreadStack(None, "", (), thread_id=i) for i in ids[a:b]] for n, (a, b) in enumerate(pairwise(bounds))
    }
    owned = attribute(dumps, groups).owned.values()
    even = all(sum(is_program(t.frames) for t in d.threads) == 1 for d in owned)
    return list(owned) if even else list(dumps)


def _share(
    dump: FaultDump, ids: Mapping[int, Owner], strangers: Sequence[int], owned: dict[Owner, FaultDump]
) -> list[ThreadStack]:
    """Deal a dump's blocks out to their processes; those that fit none are handed back."""
    homes = {ids[i] for t in dump.threads if (i := t.thread_id) is not None and i in ids}
    alone = next(iter(homes)) if len(homes) == 1 and not dump.mixed else None
    left: list[ThreadStack] = []
    for thread in dump.threads:
        owner = alone
        if owner is None and (dump.mixed or homes):
            owner = _nearest(thread.thread_id, ids, strangers)
        if owner is None:
            left.append(thread)
            continue
        so_far = owned.get(owner)
        if so_far is None or any(t.thread_id == thread.thread_id for t in so_far.threads):
            so_far = replace(dump, threads=())  # a thread that comes again begins a newer dump
        owned[owner] = replace(so_far, threads=(*so_far.threads, thread), torn=so_far.torn or dump.torn)
    return left


def _strangers(dumps: Sequence[FaultDump], ids: Mapping[int, Owner]) -> list[int]:
    """Main threads that nobody knows: of a known process the main thread is known too."""
    mains = (t.thread_id for dump in dumps for t in dump.threads if is_program(t.frames))
    return [main for main in mains if main is not None and main not in ids]


def _nearest(thread_id: int | None, ids: Mapping[int, Owner], strangers: Sequence[int]) -> Owner | None:
    """Of a known process nearly all threads are known, of a stranger none: what is near a stranger is the stranger's,
    though the address space of a known process may lie beside it by chance."""
    if thread_id is None or not ids:
        return None
    if thread_id in ids:
        return ids[thread_id]
    if any(abs(main - thread_id) < _NEAR for main in strangers):
        return None
    near = min(ids, key=lambda known: abs(known - thread_id))
    return ids[near] if abs(near - thread_id) < _NEAR else None


def _key(frame: Frame) -> tuple[str, str, int]:
    return bare(frame.function), frame.file, frame.line


def _named(dump: FaultDump, known: Sequence[ThreadStack], written: set[tuple[str, str, int]]) -> FaultDump:
    """The dump with what was known of its threads (qualified function names and the kernel's word included), the main
    one first.

    Where lines are torn apart, a thread whose earlier frames were all ``written`` somewhere keeps the earlier ones:
    what hangs stands where it stood.
    """
    before = {t.thread_id: t for t in known if t.frames or t.main}
    threads: list[ThreadStack] = []
    for thread in dump.threads:
        old = before.get(thread.thread_id)
        if old is None:
            main = is_program(thread.frames) or (thread.main and not dump.mixed)
            threads.append(replace(thread, main=main and not any(t.main for t in known)))
            continue
        same = [_key(f) for f in old.frames] == [_key(f) for f in thread.frames]
        keep = same or (dump.torn and all(_key(f) in written for f in old.frames))
        if keep and old.frames:
            threads.append(replace(old, active=None, owns_gil=None))
        else:
            name = old.name or thread.name
            threads.append(replace(thread, os_thread_id=old.os_thread_id, name=name, main=old.main))
    return replace(dump, threads=tuple(sorted(threads, key=lambda t: not t.main)))
