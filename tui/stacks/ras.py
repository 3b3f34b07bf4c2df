"""What NCCL answers when it is asked (RAS, NCCL 2.24 to 2.32), as text or JSON, and two answers against each other.

Formats from ``src/ras/client_support.cc``. Counts are collectives that a rank's program has launched, finished or not;
sends and receives are not counted. Text names the members of small groups only: whoever is behind may be among those
that it leaves out, and is then found by leaving out those that it names. A rank's number is that within its
communicator; host and pid join it to the launch. JSON of 2.28.7 and 2.28.9 lacks a comma and is repaired.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, cast

from tui.errors import GputopError
from tui.safetext import clean
from tui.stacks.called import Called, Finding
from tui.stacks.frames import ranges

SOURCE = "NCCL RAS"

MOST_CHARACTERS = 64 << 20
MOST_COMMS = 65536
MOST_RANKS = 1 << 17
MOST_OPS = 64
"""NCCL counts five."""

_TEXT = 200


class BadAnswer(GputopError):
    """It is no answer of NCCL RAS; the sentence says why."""


@dataclass(frozen=True, slots=True)
class RasRank:
    """A member of a communicator. ``counts``: collectives launched, by operation. ``lost``: RAS does not reach it
    (``dead``: and has given it up). ``busy``: it is still setting up. Unknown parts are ``None``."""

    rank: int
    host: str | None = None
    pid: int | None = None
    gpu: str = ""
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    lost: bool = False
    dead: bool = False
    busy: bool = False
    aborted: bool = False


@dataclass(frozen=True, slots=True)
class Comm:
    """A communicator; ``name`` its hash, with the secondary one where that is told. ``steps``: by operation, the counts
    that occur and how many ranks have each, where not every rank is named."""

    name: str
    size: int
    ranks: tuple[RasRank, ...] = ()
    steps: Mapping[str, Mapping[int, int]] = field(default_factory=dict[str, Mapping[int, int]])


@dataclass(frozen=True, slots=True)
class Answer:
    """``dead``: processes that RAS has given up, of whatever communicator. ``states``: how many communicators are
    ``RUNNING``, ``INIT`` …, in the text form."""

    version: str
    comms: tuple[Comm, ...]
    dead: tuple[RasRank, ...] = ()
    states: Mapping[str, int] = field(default_factory=dict[str, int])
    form: Literal["text", "json"] = "text"
    taken: float | None = None
    """Seconds since 1970 by NCCL's stamp, read as UTC; JSON has one."""


@dataclass(frozen=True, slots=True)
class Seat:
    """A rank of the launch, as RAS may name it: by ``host`` or one of its ``addresses``, and the pid that it has where
    NCCL runs (inside of its container)."""

    host: str
    pid: int
    rank: int
    addresses: tuple[str, ...] = ()


def parse(text: str) -> Answer:
    """Read one answer, text or JSON, with or without the handshake before it. Raises: BadAnswer, nothing else."""
    if len(text) > MOST_CHARACTERS:
        raise BadAnswer(f"it has {len(text) >> 20} MiB; no answer of NCCL RAS is that long")
    start = text.find("{")
    if start >= 0 and '"communicators' in text and not re.search(r"^NCCL version ", text[:start], re.M):
        return _from_json(text[start:])
    if not re.search(r"^NCCL version |^Communicators\.\.\.", text, re.M):
        raise BadAnswer("no line of it is NCCL's")
    return _from_text(text)


# --------------------------------------------------------------------------------------------------------------- JSON

_LACKS_COMMA = re.compile(r'("nvml_dev"\s*:\s*-?\d+)(?=\s*")')


def _from_json(text: str) -> Answer:
    decoder = json.JSONDecoder()
    try:
        value: object = decoder.raw_decode(text)[0]
    except (ValueError, RecursionError):
        try:
            value = decoder.raw_decode(_LACKS_COMMA.sub(r"\1,", text))[0]
        except (ValueError, RecursionError) as error:
            raise BadAnswer("it is cut short, or no JSON") from error
    return from_value(value)


def is_answer(value: object) -> bool:
    return isinstance(_map(value).get("communicators"), list)


def from_value(value: object) -> Answer:
    """The answer in what JSON held. Raises: BadAnswer."""
    if not is_answer(value):
        raise BadAnswer("it lists no communicators")
    top = _map(value)
    comms = tuple(_comm(row) for row in _rows(top, "communicators")[:MOST_COMMS])
    return Answer(_text(top.get("nccl_version")), comms, form="json", taken=_seconds(top.get("timestamp")))


def _seconds(stamp: object) -> float | None:
    try:
        return datetime.fromisoformat(f"{_text(stamp)}+00:00").timestamp()
    except (ValueError, OverflowError):
        return None


def _comm(row: Mapping[str, Any]) -> Comm:
    name = " ".join(part for part in (_text(row.get("hash")), _text(row.get("secondary_hash"))) if part)
    ranks = [_rank(r) for r in _rows(row, "ranks")[:MOST_RANKS]]
    ranks += [_rank(r, lost=True) for r in _rows(row, "missing_ranks")[:MOST_RANKS]]
    return Comm(name, _number(row.get("size")) or len(ranks), tuple(ranks))


def _rank(row: Mapping[str, Any], lost: bool = False) -> RasRank:
    status = _map(row.get("status"))
    counts = {
        _text(op): n for op, v in list(_map(row.get("collective_counts")).items())[:64] if (n := _number(v)) is not None
    }
    return RasRank(
        rank=_number(row.get("rank")) or 0,
        host=_text(row.get("host")) or None,
        pid=_number(row.get("pid")),
        gpu=str(_number(row.get("cuda_dev"))) if _number(row.get("cuda_dev")) is not None else "",
        counts=counts,
        lost=lost,
        dead=status.get("considered_dead") is True,
        busy=status.get("init_state") == 7,
        aborted=status.get("abort_flag") is True,
    )


def _rows(row: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    value: object = row.get(key)
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("Mapping[str, Any]", item) for item in items if isinstance(item, dict)]


def _map(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else cast("Mapping[str, Any]", {})


def _text(value: object) -> str:
    return clean(value, _TEXT) if isinstance(value, str) else ""


def _number(value: object) -> int | None:
    ok = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62
    return cast("int", value) if ok else None


# --------------------------------------------------------------------------------------------------------------- text

_GPU = r"GPU (?P<gpu>\S{1,40}(?: \(NVML \S{1,20}\))?) managed by process (?P<pid>\d{1,10}) on node (?P<host>\S{1,200})"
_LINE = re.compile(
    r"\s*(?:"
    r"(?P<header>#\d+-\d+) \((?P<hash>[0-9a-fx:, ]{1,80})\)(?P<kinds>[ A-Z]*)$"
    r"|Communicator ranks have different (?P<op>\w{1,40})(?: \w+)? counts"
    r"|(?P<n>\d{1,9}) ranks? (?:has|have) (?:launched up to operation (?P<upto>\d{1,18})|(?P<none>not launched any))"
    r"|Rank (?P<rank>\d{1,9})(?: has (?:launched up to operation (?P<at>\d{1,18})|(?P<no>not launched any\b.*?)))?"
    rf"(?: -- {_GPU})?$"
    r"|Process (?P<dead>\d{1,10}) on node (?P<node>\S{1,200}) managing GPUs? (?P<gpus>.{1,80})$"
    r"|NCCL version (?P<version>\S{1,40})"
    r"|Missing communicator data from (?P<missing>\d+) ranks?"
    r"|\d+\s+(?P<comms>\d{1,9})\s+[\d-]+\s+[\d-]+\s+(?P<size>\d{1,9})(?:-\d+)?\s+[\d-]+\s+"
    r"(?P<status>[A-Z]{2,12})(?:,[A-Z]+)*\s+\S+\s*$"
    r")"
)


@dataclass(slots=True)
class _Open:
    """A communicator while its lines are read."""

    name: str
    size: int
    kinds: str = ""
    op: str = ""
    ranks: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])
    steps: dict[str, dict[int, int]] = field(default_factory=dict[str, dict[int, int]])
    at: int | None = None


def _from_text(text: str) -> Answer:
    version = ""
    sizes: list[int] = []
    states: dict[str, int] = {}
    opened: dict[str, _Open] = {}
    dead: list[RasRank] = []
    comm: _Open | None = None
    for line in text.split("\n"):
        if len(line) > 1000 or (match := _LINE.match(line.rstrip())) is None:
            continue
        if match["version"]:
            version = match["version"]
        elif match["status"]:
            sizes.append(int(match["size"]))
            states[match["status"]] = states.get(match["status"], 0) + int(match["comms"])
        elif match["dead"]:
            if len(dead) < MOST_RANKS:
                gpus = clean(match["gpus"], _TEXT)
                dead.append(RasRank(-1, clean(match["node"], _TEXT), int(match["dead"]), gpus, lost=True, dead=True))
        elif match["header"]:
            name = clean(match["hash"], _TEXT)
            group = int(match["header"][1:].partition("-")[0][:6])
            if name in opened or len(opened) < MOST_COMMS:
                comm = opened.setdefault(name, _Open(name, sizes[group] if group < len(sizes) else 0))
                comm.kinds = match["kinds"]
        elif comm is not None:
            _member(comm, match)
    lost = {(d.host, d.pid) for d in dead}
    comms: list[Comm] = []
    room = MOST_RANKS
    for one in opened.values():
        comms.append(_closed(one, lost, room))
        room -= len(comms[-1].ranks)
    return Answer(version, tuple(comms), tuple(dead), states)


def _member(comm: _Open, match: re.Match[str]) -> None:
    if match["op"]:
        comm.op, comm.at = clean(match["op"], 40), None
    elif match["n"]:
        comm.at = int(match["upto"] or 0)
        comm.steps.setdefault(comm.op, {})[comm.at] = int(match["n"])
    elif match["rank"] and len(comm.ranks) < MOST_RANKS:
        rank = comm.ranks.setdefault(int(match["rank"]), {"counts": {}})
        rank["gpu"], rank["host"] = clean(match["gpu"] or "", _TEXT), clean(match["host"] or "", _TEXT) or None
        rank["pid"] = int(match["pid"]) if match["pid"] else None
        count = int(match["at"]) if match["at"] else 0 if match["no"] else comm.at
        if count is None or not comm.op:
            rank["lost"] = "INCOMPLETE" in comm.kinds
        else:
            rank["counts"][comm.op] = count
            if match["at"] or match["no"]:
                comm.steps.setdefault(comm.op, {}).setdefault(count, 0)


def _closed(comm: _Open, lost: set[tuple[str | None, int | None]], room: int) -> Comm:
    for op, steps in list(comm.steps.items())[:MOST_OPS]:
        _fill(comm, op, steps, room)
    ranks = tuple(
        RasRank(number, dead=(row.get("host"), row.get("pid")) in lost, **row)
        for number, row in sorted(comm.ranks.items())
    )
    return Comm(comm.name, comm.size or len(ranks), ranks, comm.steps)


def _fill(comm: _Open, op: str, steps: dict[int, int], room: int) -> None:
    """Of several counts all but one have their members named: the rest of the communicator has that one."""
    named = Counter(row["counts"][op] for row in comm.ranks.values() if op in row["counts"])
    for count, many in steps.items():
        steps[count] = max(many, named[count])  # a member that is named alone comes without a number of ranks
    open_counts = [count for count, many in steps.items() if many > named[count]]
    known = {rank for rank, row in comm.ranks.items() if op in row["counts"] or row.get("lost")}
    left = comm.size - len(known)
    if len(open_counts) == 1 and 0 < left == steps[open_counts[0]] - named[open_counts[0]] <= room:
        for rank in range(comm.size):
            if rank not in known:
                comm.ranks.setdefault(rank, {"counts": {}})["counts"][op] = open_counts[0]


# ------------------------------------------------------------------------------------------------------------ compared


def called(first: Answer, second: Answer | None, members: Sequence[Seat] = (), gap_s: float | None = None) -> Called:
    """What two answers, at least 2 s apart, say of the launch's ranks; one alone convicts nobody of being behind, since
    a running launch is uneven at any moment."""
    answer = second or first
    seat = _Seats(members, answer)
    moved = second is not None and _moved(first, second)
    found: list[Finding] = []
    known: set[int] = set()
    for comm in answer.comms:
        ranks = {r.rank: seat.rank_of(r, comm) for r in comm.ranks}
        known |= {rank for r in comm.ranks if r.counts and (rank := ranks[r.rank]) is not None}
        found += _lost(comm, ranks)
        found += _behind(comm, ranks, moved, second is not None, gap_s)
    found += _dead(answer, seat, found)
    if not found and second is not None and not moved:
        found += _frozen(answer, gap_s)
    return Called(SOURCE, tuple(sorted(found, key=lambda f: (f.kind != "gone", not f.ranks))), frozenset(known), moved)


class _Seats:
    def __init__(self, members: Sequence[Seat], answer: Answer) -> None:
        self._by_place = {(name, s.pid): s.rank for s in members for name in (s.host, *s.addresses)}
        by_pid: dict[int, set[int]] = {}
        for seat in members:
            by_pid.setdefault(seat.pid, set()).add(seat.rank)
        self._by_pid = {pid: next(iter(ranks)) for pid, ranks in by_pid.items() if len(ranks) == 1}
        self._world = len({s.rank for s in members}) or max((c.size for c in answer.comms), default=0)

    def find(self, rank: RasRank) -> int | None:
        """The launch's rank at that host and pid, or the only one with that pid."""
        if rank.pid is None:
            return None
        return self._by_place.get((rank.host or "", rank.pid), self._by_pid.get(rank.pid))

    def rank_of(self, rank: RasRank, comm: Comm) -> int | None:
        """The launch's number; in a communicator of all ranks NCCL's own is the same."""
        found = self.find(rank)
        return rank.rank if found is None and comm.size >= self._world else found


def _moved(first: Answer, second: Answer) -> bool:
    """Whether a count that both answers tell grew."""
    was, now = _counts(first), _counts(second)
    return any(now[key] != was[key] for key in was.keys() & now.keys())


def _counts(answer: Answer) -> dict[tuple[str, int, str], int]:
    """Each member's counts; in text also the highest of each communicator, as that of member -1."""
    most = {(c.name, -1, op): max(some) for c in answer.comms for op, some in c.steps.items() if some}
    return most | {(c.name, r.rank, op): n for c in answer.comms for r in c.ranks for op, n in r.counts.items()}


def _lost(comm: Comm, ranks: Mapping[int, int | None]) -> Iterator[Finding]:
    lost = [r for r in comm.ranks if r.lost]
    if lost:
        said = "considers {} dead" if all(r.dead for r in lost) else "gets no answer from {}"
        yield Finding("gone", comm.name, _numbers(lost, ranks), f"NCCL {said.format(_who(lost, ranks))}")


def _behind(
    comm: Comm, ranks: Mapping[int, int | None], moved: bool, twice: bool, gap_s: float | None
) -> Iterator[Finding]:
    for op in list(dict.fromkeys([*(op for r in comm.ranks for op in r.counts), *comm.steps]))[:MOST_OPS]:
        steps = comm.steps.get(op, {})
        counts = {n for r in comm.ranks if (n := r.counts.get(op)) is not None} | set(steps)
        if len(counts) < 2:
            continue
        least, most = min(counts), max(counts)
        late = [r for r in comm.ranks if r.counts.get(op) == least]
        hidden = steps.get(least, 0) - len(late)
        who = [_who(late, ranks)] if late else []
        who += [f"{hidden} {'more ' if late else ''}ranks that NCCL does not name"] if hidden > 0 else []
        have = "has" if len(late) + max(hidden, 0) == 1 else "have"
        told = f"{' and '.join(who)} {have} launched {least} {op}, the furthest {most}"
        if moved:
            yield Finding("unfinished", comm.name, (), f"{told}; but the counts move on")
        elif twice:
            yield Finding("uncalled", comm.name, _numbers(late, ranks), f"{told}, and nothing moved{_within(gap_s)}")
        else:
            yield Finding("unfinished", comm.name, (), f"{told}, at one look")


def _numbers(members: Sequence[RasRank], ranks: Mapping[int, int | None]) -> tuple[int, ...]:
    return tuple(sorted({number for m in members if (number := ranks[m.rank]) is not None}))


def _who(members: Sequence[RasRank], ranks: Mapping[int, int | None]) -> str:
    """``rank 5 (process 4193 on 10.0.0.1)``, ``ranks 0-4,7-31``, or processes that are no rank of the launch."""
    numbers = _numbers(members, ranks)
    strangers = [f"{_place(m)}" for m in members if ranks[m.rank] is None]
    if len(members) == 1 and numbers:
        return f"rank {numbers[0]}" + (f" ({_place(members[0])})" if members[0].pid is not None else "")
    parts = [_ranks(numbers)] if numbers else []
    parts += strangers[:4] + ([f"{len(strangers) - 4} others"] if len(strangers) > 4 else [])
    return ", ".join(parts)


def _dead(answer: Answer, seat: _Seats, found: Sequence[Finding]) -> Iterator[Finding]:
    told = {rank for f in found if f.kind == "gone" for rank in f.ranks}
    for process in answer.dead:
        rank = seat.find(process)
        if rank is not None and rank not in told:
            yield Finding("gone", "", (rank,), f"NCCL considers rank {rank} dead ({_place(process)})")


def _frozen(answer: Answer, gap_s: float | None) -> Iterator[Finding]:
    busy = sorted({r.rank for c in answer.comms for r in c.ranks if r.busy})
    waiting = answer.states.get("INIT", 0)
    if busy or waiting:
        who = f" ({_ranks(busy)})" if busy else ""
        yield Finding("unfinished", "", (), f"a communicator is still being set up{who}: a rank has not joined it")
    elif not any(r.counts for c in answer.comms for r in c.ranks):
        if answer.states.get("RUNNING"):
            yield Finding("unfinished", "", (), "NCCL sees no rank behind and none lost")
    else:
        yield Finding(
            "unfinished",
            "",
            (),
            f"all ranks have launched the same collectives and nothing moved{_within(gap_s)}: no rank's program holds "
            "them up, as far as NCCL counts (sends and receives it does not); look at the GPUs and the network",
        )


def _within(gap_s: float | None) -> str:
    return f" in {gap_s:.0f} s" if gap_s else " between two looks"


def _place(rank: RasRank) -> str:
    return f"process {rank.pid} on {rank.host or 'a node that it does not name'}"


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranges(ranks)}"
