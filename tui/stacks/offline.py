"""Stacks that someone took before and sent: py-spy's JSON and text, faulthandler's dumps in any log."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tui.model import ProcessStacks, ThreadStack
from tui.safetext import clean
from tui.stacks import faulthandler, pyspy
from tui.stacks.attribute import apart, attribute

_RANK = re.compile(r"(?:rank|RANK|tp|TP|default|worker|host)[_\-.]?(\d{1,6})(?!\d)")


@dataclass(frozen=True, slots=True)
class Reading:
    """``processes`` are ready to be merged; ``unread`` names the files that hold no stack."""

    processes: tuple[ProcessStacks, ...]
    unread: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Found:
    processes: tuple[ProcessStacks, ...] = ()
    dumps: tuple[tuple[ProcessStacks, faulthandler.FaultDump], ...] = ()


def read(files: Mapping[str, str]) -> Reading:
    """``files``: path to text. A rank comes from the file's name (``rank5.json``) or its content; where py-spy's stacks
    of the same processes are among the files, they tell whose a nameless dump is."""
    found = {path: _read_one(path, text) for path, text in files.items()}
    processes = [p for f in found.values() for p in f.processes]
    processes += _faults([d for f in found.values() for d in f.dumps], processes)
    unread = tuple(path for path, f in found.items() if not f.processes and not f.dumps)
    return Reading(tuple(_one_each(processes)), unread)


def _read_one(path: str, text: str) -> _Found:
    rank = rank_of(path)
    if text.lstrip().startswith("["):
        try:
            value: object = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        if threads := pyspy.from_json(value):
            return _Found((_process(path, rank, "py-spy", threads, pyspy.pid_of(value)),))
    texts = pyspy.from_text(text)
    alone = len(texts) == 1
    if texts:
        return _Found(tuple(_process(path, rank if alone else None, "py-spy", d.threads, d.pid) for d in texts))
    dumps = apart(faulthandler.parse(text))
    alone = len(dumps) == 1
    return _Found(
        dumps=tuple(
            (_process(path, d.rank if d.rank is not None else rank if alone else None, "faulthandler", d.threads), d)
            for d in dumps
        )
    )


def rank_of(path: str) -> int | None:
    """The rank that a file's name gives, or its folder's: the last one in the path."""
    found = _RANK.findall(path)
    return int(found[-1]) if found else None


def _faults(
    dumps: Sequence[tuple[ProcessStacks, faulthandler.FaultDump]], before: Sequence[ProcessStacks]
) -> list[ProcessStacks]:
    known = {n: process.threads for n, process in enumerate(before)}
    result: list[ProcessStacks] = []
    for process, dump in dumps:
        owners = attribute([dump], known).owned
        if len(owners) == 1:
            n, named = next(iter(owners.items()))
            process = replace(process, rank=before[n].rank, pid=before[n].pid, threads=named.threads)
        result.append(process)
    return result


def _one_each(processes: Sequence[ProcessStacks]) -> list[ProcessStacks]:
    """One entry a process: py-spy's before faulthandler's, which knows neither names nor qualified functions."""
    kept: dict[object, ProcessStacks] = {}
    for n, process in enumerate(processes):
        key: object = process.rank if process.rank is not None else process.pid if process.pid is not None else (n,)
        kept.setdefault(key, process)
    return sorted(kept.values(), key=lambda p: (p.rank is None, p.rank or 0))


def _process(
    path: str, rank: int | None, method: str, threads: tuple[ThreadStack, ...], pid: int | None = None
) -> ProcessStacks:
    name = clean(path.rpartition("/")[2], 200)
    return ProcessStacks(host=name, pid=pid, rank=rank, method=method, threads=threads)
