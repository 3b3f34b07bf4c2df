"""Stacks that someone took before and sent: py-spy's JSON and text, faulthandler's dumps in any log, and the JSON that
``dump --json`` prints."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tui.model import ProcessStacks, ThreadStack
from tui.safetext import clean
from tui.stacks import faulthandler, pyspy, saved
from tui.stacks.attribute import apart, attribute

_RANK = re.compile(r"(?:rank|RANK|tp|TP|default|worker|host)[_\-.]?(\d{1,6})(?!\d)")


@dataclass(frozen=True, slots=True)
class Reading:
    """``processes`` are ready to be merged; ``unread`` names the files that hold no stack."""

    processes: tuple[ProcessStacks, ...]
    unread: tuple[str, ...]


def read(files: Mapping[str, str]) -> Reading:
    """``files``: path to text. A rank comes from the file's name (``rank5.json``) or its content; where py-spy's stacks
    of the same processes are among the files, they tell whose a nameless dump is."""
    taken = {path: _taken(path, text) for path, text in files.items()}
    processes = [p for some in taken.values() for p in some]
    known = {n: process.threads for n, process in enumerate(processes)}
    dumps = {path: faulthandler.parse(text) for path, text in files.items() if not taken[path]}
    faults: list[ProcessStacks] = []
    for path, some in dumps.items():
        found = attribute(some, known)
        for n, dump in found.owned.items():
            faults.append(replace(processes[n], method="faulthandler", threads=dump.threads))
        for dump in apart(found.strays):
            rank = dump.rank if dump.rank is not None else rank_of(path) if len(some) == 1 else None
            faults.append(_process(path, rank, "faulthandler", dump.threads))
    unread = tuple(path for path, some in dumps.items() if not some)
    return Reading(tuple(_one_each([*processes, *faults])), unread)


def _taken(path: str, text: str) -> list[ProcessStacks]:
    rank = rank_of(path)
    if text.lstrip().startswith(("[", "{")):
        try:
            value: object = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        if own := saved.from_json(value):
            return [p if p.rank is not None or len(own) > 1 else replace(p, rank=rank) for p in own]
        if threads := pyspy.from_json(value):
            return [_process(path, rank, "py-spy", threads, pyspy.pid_of(value))]
    dumps = pyspy.from_text(text)
    return [_process(path, rank if len(dumps) == 1 else None, "py-spy", d.threads, d.pid) for d in dumps]


def rank_of(path: str) -> int | None:
    """The rank that a file's name gives, or its folder's: the last one in the path."""
    found = _RANK.findall(path)
    return int(found[-1]) if found else None


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
