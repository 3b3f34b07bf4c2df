"""Stacks that someone took before and sent, recognised by what is in the files: py-spy's JSON and text (SGLang's own
dumps in a log too), faulthandler's dumps in any log, c10's, gdb's and pystack's native stacks, PyTorch's flight
recorder, answers of NCCL RAS, and the JSON that ``dump --json`` prints."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from tui.model import ProcessStacks, ThreadStack
from tui.safetext import clean
from tui.stacks import desync, faulthandler, flight, native, pickled, pyspy, ras, saved
from tui.stacks.attribute import apart, attribute
from tui.stacks.called import Called
from tui.stacks.faulthandler import FaultDump

_RANK = re.compile(r"(?:rank|RANK|tp|TP|default|worker)[_\-.]?(\d{1,6})(?!\d)")
_PID = re.compile(r"(?:pid|PID|_)[_\-.]?(\d{2,10})(?=\.\w+$|$)")
_TITLE = re.compile(r"^(?:sglang::scheduler|VLLM::Worker|ray::)\S*")
_SECOND_GROUP = re.compile(r"(?:DP|PP)[_\-.]?[1-9]")
"""A title that counts several kinds of parallel ranks: its TP number is not the launch's."""

_LOST = "its main thread is not among the 100 threads that faulthandler writes; py-spy has no such limit"
_NOTHING = "no stack, flight recorder or answer of NCCL RAS in it"


@dataclass(frozen=True, slots=True)
class Reading:
    """``processes`` are ready to be merged, ``before`` are earlier stacks of the same. ``called``: what flight
    recorders and RAS say. ``unread``: by file, why nothing of it could be used."""

    processes: tuple[ProcessStacks, ...] = ()
    before: tuple[ProcessStacks, ...] = ()
    called: tuple[Called, ...] = ()
    unread: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(slots=True)
class _Sent:
    """What the files held, before it is put together."""

    processes: list[ProcessStacks] = field(default_factory=list[ProcessStacks])
    faults: list[tuple[str, list[FaultDump]]] = field(default_factory=list["tuple[str, list[FaultDump]]"])
    records: dict[int, flight.FlightRecord] = field(default_factory=dict[int, flight.FlightRecord])
    answers: list[ras.Answer] = field(default_factory=list[ras.Answer])
    called: list[Called] = field(default_factory=list[Called])
    unread: dict[str, str] = field(default_factory=dict[str, str])


def read(files: Iterable[tuple[str, bytes]]) -> Reading:
    """``files``: path and content, one at a time. A rank comes from the file's name (``rank5.json``), its folder's, or
    its content; where py-spy's stacks of the same processes are among the files, they tell whose a nameless dump is.
    Never raises for what is in a file."""
    sent = _Sent()
    for path, data in files:
        why_not = _try(sent, path, data)
        if why_not:
            sent.unread[path] = why_not
    known = dict(enumerate(sent.processes))
    dumps: list[ProcessStacks] = []
    for path, some in sent.faults:
        dumps += _faults(path, some, known)
    processes, before = _one_each([*sent.processes, *dumps, *_silent(sent)][:MOST_PROCESSES])
    called = [desync.called(sent.records)] if sent.records else []
    if sent.answers:
        called.append(_ras(sent.answers, processes))
    return Reading(tuple(processes), tuple(before), (*called, *sent.called), sent.unread)


def _silent(sent: _Sent) -> list[ProcessStacks]:
    """Ranks of which there are files, and no stack in any of them."""
    ranks = {rank: path for path in sent.unread if (rank := rank_of(path.rpartition("/")[2])) is not None}
    return [replace(_process(path, rank, "", ()), error=f"{_NOTHING}.") for rank, path in ranks.items()]


def _try(sent: _Sent, path: str, data: bytes) -> str:
    """Why nothing of the file could be used; empty where something was."""
    try:
        return "" if _take(sent, path, data) else _NOTHING
    except (flight.BadRecord, ras.BadAnswer) as error:
        return str(error)


def rank_of(path: str) -> int | None:
    """The rank that a file's name gives, or its folder's: the last one in the path."""
    found = _RANK.findall(path)
    return int(found[-1]) if found else None


# ---------------------------------------------------------------------------------------------------------- recognised


def _take(sent: _Sent, path: str, data: bytes) -> bool:
    """Put what the file holds into ``sent``; whether there was anything. Raises: BadRecord, BadAnswer."""
    if data[:1] == b"\x80" and data[1:2] <= b"\x05":
        return _record(sent, path, flight.load(data))
    text = data.decode("utf-8", "replace")
    head = text[:256].lstrip()
    if head.startswith(("[", "{")) and (value := _json(text)) is not None:
        return _taken_json(sent, path, value)
    if head.startswith("{") and '"entries"' in head + text[-65536:]:
        raise flight.BadRecord("it is cut short, or no JSON")
    found = _answer(sent, text)
    rank = rank_of(path)
    dumps = [(d, "py-spy") for d in pyspy.from_text(text)] + [(d, "pystack") for d in native.pystack(text)]
    dumps += [(d, "gdb") for d in native.gdb(text)]
    for dump, method in dumps:
        own = _rank_of_title(dump.command)
        number = own if own is not None else rank if len(dumps) == 1 else None
        sent.processes.append(_process(path, number, method, dump.threads, dump.pid or None))
    faults = faulthandler.parse(text)
    natives = native.c10(text)
    if len(natives) == 1 and len(faults) == 1 and faults[0].pid is None:
        faults = [replace(faults[0], pid=natives[0].pid)]  # both handlers of one process wrote
    elif not faults:
        for dump in natives:
            number = rank if len(natives) == 1 else None
            sent.processes.append(_process(path, number, "c10", dump.threads, dump.pid))
    if faults:
        sent.faults.append((path, faults))
    return found or bool(dumps or faults or natives)


def _json(text: str) -> object:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value


def _taken_json(sent: _Sent, path: str, value: object) -> bool:
    rank = rank_of(path)
    if flight.is_record(value):
        return _record(sent, path, flight.from_value(value))
    if ras.is_answer(value):
        sent.answers.append(ras.from_value(value))
        return True
    own = saved.from_json(value)
    sent.called += (calls := saved.called_from_json(value))
    sent.processes += [p if p.rank is not None or len(own) > 1 else replace(p, rank=rank) for p in own]
    threads = () if own else pyspy.from_json(value)
    if threads and any(t.frames or t.os_thread_id for t in threads):
        sent.processes.append(_process(path, rank, "py-spy", threads, pyspy.pid_of(value)))
        return True
    return bool(own or calls)


def _record(sent: _Sent, path: str, record: flight.FlightRecord) -> bool:
    """A pickle is taken before JSON of the same rank, which has no frames."""
    rank = rank_of(path)
    members = {m for group in record.groups.values() for m in group.members}
    if rank is None and len(members) == 1:
        rank = members.pop()
    if rank is None and (digits := re.search(r"(\d{1,6})(?:\.\w{1,10})?$", path)):
        rank = int(digits[1])
    if rank is None:
        raise flight.BadRecord("it is a flight recorder's, but its name does not end in the rank")
    if rank not in sent.records or any(call.place for call in record.calls):
        sent.records[rank] = record
    return True


def _answer(sent: _Sent, text: str) -> bool:
    if "NCCL version " not in text and '"communicators' not in text:
        return False
    if "Communicators..." not in text and '"communicators' not in text:
        return False  # a log in which NCCL names its version
    sent.answers.append(ras.parse(text))
    return True


# --------------------------------------------------------------------------------------------------------- put together


def _faults(path: str, dumps: list[FaultDump], known: dict[int, ProcessStacks]) -> list[ProcessStacks]:
    """Each dump with its process where the thread ids tell it, else with what its own lines or the file's name do."""
    found = attribute(dumps, {n: p.threads for n, p in known.items()})
    made = [
        replace(known[n], method="faulthandler", threads=d.threads, error=_lost(d), taken_wall=d.taken_wall)
        for n, d in found.owned.items()
    ]
    strays = apart(found.strays)
    alone = len({_writer(d) for d in dumps}) == 1
    for dump in strays:
        rank = dump.rank if dump.rank is not None else rank_of(path) if alone else None
        pid = dump.pid if dump.pid is not None else _pid_of(path) if alone else None
        one = _process(path, rank, "faulthandler", tuple(sorted(dump.threads, key=lambda t: not t.main)), pid)
        made.append(replace(one, error=_lost(dump), taken_wall=dump.taken_wall))
    return made


def _writer(dump: FaultDump) -> object:
    """What tells one process's dumps from another's: one that dumps again has a thread in common with before."""
    main = next((t.thread_id for t in dump.threads if t.main), None)
    return (dump.rank, dump.pid, main)


def _lost(dump: FaultDump) -> str | None:
    return f"{_LOST}." if dump.cut and not any(t.main for t in dump.threads) else None


def _pid_of(path: str) -> int | None:
    """``VLLM_STACK_DUMP_for_worker_3_4711.log``."""
    name = path.rpartition("/")[2]
    found = _PID.search(name) if "DUMP" in name or "pid" in name.lower() else None
    return int(found[1]) if found else None


def _rank_of_title(command: str) -> int | None:
    """``sglang::scheduler_TP3``, ``VLLM::Worker_TP3``: a process's title, where it counts one kind of rank alone."""
    title = _TITLE.match(command)
    return rank_of(title[0]) if title and not _SECOND_GROUP.search(title[0]) else None


def _one_each(processes: Sequence[ProcessStacks]) -> tuple[list[ProcessStacks], list[ProcessStacks]]:
    """One entry a process, py-spy's before faulthandler's, which knows neither names nor qualified functions; and what
    the same method saw of it earlier."""
    kept: dict[object, ProcessStacks] = {}
    before: dict[object, ProcessStacks] = {}
    ranked = {p.pid for p in processes if p.rank is not None and p.pid is not None}
    for n, process in enumerate(processes):
        if process.rank is None and process.pid in ranked:
            continue  # the same process in an output that does not tell its rank
        key: object = process.rank if process.rank is not None else process.pid if process.pid is not None else (n,)
        have = kept.get(key)
        if have is None:
            kept[key] = process
        elif have.method == process.method and (process.taken_wall is not None or _same_log(have, process)):
            newer = (process.taken_wall or 0.0) >= (have.taken_wall or 0.0)
            kept[key], before[key] = (process, have) if newer else (have, process)
    before = {key: replace(p, host=kept[key].host, pid=kept[key].pid, rank=kept[key].rank) for key, p in before.items()}
    return sorted(kept.values(), key=lambda p: (p.rank is None, p.rank or 0)), list(before.values())


def _same_log(one: ProcessStacks, other: ProcessStacks) -> bool:
    """A log into which a process dumped again and again (``dump_traceback_later``): the last one counts."""
    return one.method == "faulthandler" and one.host == other.host


def _ras(answers: Sequence[ras.Answer], processes: Sequence[ProcessStacks]) -> Called:
    """The last two answers of one form, oldest first by their own clock where they tell it."""
    seats = [ras.Seat(p.host, p.pid, p.rank) for p in processes if p.pid is not None and p.rank is not None]
    answers = sorted(answers, key=lambda a: a.taken or 0.0)
    alike = [a for a in answers if a.form == answers[-1].form]
    first, last = (alike[-2], alike[-1]) if len(alike) > 1 else (alike[-1], None)
    gap = last.taken - first.taken if last is not None and last.taken and first.taken else None
    if gap is not None and gap < 2.0:
        first, last, gap = alike[-1], None, None
    return ras.called(first, last, seats, gap)


def _process(
    path: str, rank: int | None, method: str, threads: tuple[ThreadStack, ...], pid: int | None = None
) -> ProcessStacks:
    name = clean(path.rpartition("/")[2], 200)
    return ProcessStacks(host=name, pid=pid, rank=rank, method=method, threads=threads)


MOST_PROCESSES = 16384
MOST_BYTES = pickled.MOST_BYTES
"""Of one file; a log may be longer, its end has the dumps."""
