"""PyTorch's flight recorder: the last collectives of one rank, as a file or a handler of that rank gives them.

The format is that of ``FlightRecorder.hpp`` (torch 2.5 to 2.13, version "2.4" to "2.10"), as pickle or JSON; NCCL and
gloo alike. What differs: gloo's state is always ``scheduled`` and ``retired`` tells that one has ended; its
``pg_config`` does not name its groups by the names in the entries and loses their members where there are several;
JSON has numbers as strings and no frames. A record does not say whose it is: its file's name does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from tui.errors import GputopError
from tui.model import Frame
from tui.safetext import clean
from tui.stacks import pickled
from tui.stacks.frames import frame
from tui.stacks.waits import place_of

MOST_CALLS = 100_000
MOST_RANKS = 1 << 16
_TEXT = 200


class BadRecord(GputopError):
    """It is no flight recorder's; the sentence says why."""


@dataclass(frozen=True, slots=True)
class Call:
    """One collective or point-to-point operation. ``seq`` counts within the group, ``p2p`` operations by themselves;
    ``place`` is the caller's own frame, where frames were recorded; ``at`` when it was called, seconds since 1970."""

    group: str
    seq: int
    p2p: bool
    op: str
    begun: bool
    done: bool
    sizes: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = ()
    place: str = ""
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """A process group as one rank knows it. ``members`` are global ranks, empty where the record does not tell.
    ``called`` and ``done`` are the numbers of its last collective."""

    name: str
    title: str
    members: tuple[int, ...] = ()
    called: int = 0
    done: int = 0


@dataclass(frozen=True, slots=True)
class FlightRecord:
    """``library`` is ``nccl``, ``gloo`` …; ``calls`` oldest first. ``taken_wall``: when it was written, in seconds
    since 1970, where whoever fetched it knows: what others called later than that it cannot show."""

    library: str
    version: str
    calls: tuple[Call, ...]
    groups: Mapping[str, Group]
    taken_wall: float | None = None


def load(data: bytes) -> FlightRecord:
    """Read a record, pickle or JSON. Raises: BadRecord, nothing else; runs nothing of what it reads."""
    if len(data) > pickled.MOST_BYTES:
        raise BadRecord(f"it has {len(data) >> 20} MiB; no flight recorder is larger than {pickled.MOST_BYTES >> 20}")
    head = data[:64].lstrip()
    try:
        value: object = json.loads(data) if head.startswith(b"{") else pickled.loads(data)
    except pickled.BadPickle as error:
        raise BadRecord(str(error)) from error
    except (ValueError, RecursionError) as error:
        raise BadRecord("it is cut short, or no JSON") from error
    return from_value(value)


def is_record(value: object) -> bool:
    return isinstance(value, dict) and isinstance(cast("dict[str, Any]", value).get("entries"), list)


def from_value(value: object) -> FlightRecord:
    """The record in what JSON or a pickle held. Raises: BadRecord."""
    if not is_record(value):
        raise BadRecord("it holds no list of entries: no flight recorder wrote it")
    top = cast("Mapping[str, Any]", value)
    rows = [cast("Mapping[str, Any]", e) for e in cast("list[object]", top["entries"])[-MOST_CALLS:] if _is_map(e)]
    calls = tuple(call for row in rows if (call := _call(row)) is not None)
    libraries = [str(row.get("profiling_name", "")).partition(":")[0] for row in rows[-1:]]
    return FlightRecord(
        library=clean(libraries[0], 20) if libraries else "",
        version=_text(top.get("version")),
        calls=calls,
        groups=_groups(top, rows, calls),
    )


# -------------------------------------------------------------------------------------------------------------- calls


def _call(row: Mapping[str, Any]) -> Call | None:
    p2p = row.get("is_p2p") is True
    seq = _number(row.get("p2p_seq_id" if p2p else "collective_seq_id"))
    name = _text(row.get("profiling_name"))
    if seq is None or not name:
        return None
    library, _, op = name.rpartition(":")
    state: object = row.get("state")
    done = state == "completed" or (library != "nccl" and row.get("retired") is True)
    return Call(
        group=_group_of(row)[0],
        seq=seq,
        p2p=p2p,
        op=op,
        begun=done or state == "started" or bool(row.get("time_discovered_started_ns")),
        done=done,
        sizes=_sizes(row.get("input_sizes")),
        dtypes=tuple(_text(d) for d in _items(row.get("input_dtypes"))[:64]),
        place=_place(row),
        at=created / 1e9 if (created := _number(row.get("time_created_ns"))) else None,
    )


def _place(row: Mapping[str, Any]) -> str:
    rows = [cast("Mapping[str, Any]", f) for f in _items(row.get("frames"))[:64] if _is_map(f)]
    frames: list[Frame] = [frame(f.get("name"), f.get("filename"), f.get("line")) for f in rows]
    return place_of(frames) if frames else ""


def _sizes(value: object) -> tuple[tuple[int, ...], ...]:
    shapes = [_items(shape) for shape in _items(value)[:64]]
    return tuple(tuple(n for n in shape[:16] if isinstance(n, int)) for shape in shapes)


# ------------------------------------------------------------------------------------------------------------- groups


def _groups(top: Mapping[str, Any], rows: list[Mapping[str, Any]], calls: tuple[Call, ...]) -> dict[str, Group]:
    members = _members(top)
    status = _rows_by_key(top.get("pg_status"))
    local: dict[str, str] = {}  # this rank's own number of a group, by which the status names it
    titles: dict[str, str] = {}
    for row in rows:
        name, title = _group_of(row)
        titles[name] = title
        local[name] = str(_number(row.get("pg_id")) if _number(row.get("pg_id")) is not None else name)
    titles |= {name: name for name in members if name and name not in titles}
    groups: dict[str, Group] = {}
    by_group: dict[str, list[Call]] = {}
    for call in calls:
        if not call.p2p:
            by_group.setdefault(call.group, []).append(call)
    for name, title in titles.items():
        own = by_group.get(name, [])
        said = status.get(local.get(name, name), {})
        called = max([c.seq for c in own], default=0)
        called = max(called, _number(said.get("last_enqueued_collective")) or 0)
        ended = [c.seq for c in own if c.done]
        done = max([*ended, _number(said.get("last_completed_collective")) or 0], default=0)
        unfinished = [c.seq for c in own if not c.done]
        # What has no entry any more has ended, or is older than the ring; what has one knows better than the status.
        done = min(unfinished) - 1 if unfinished else min(done, called)
        groups[name] = Group(name, title, _members_of(name, title, members, len(titles)), called, max(done, 0))
    return groups


def _group_of(row: Mapping[str, Any]) -> tuple[str, str]:
    """Name and title. Names are the same on every rank; ``default_pg`` and ``undefined`` are descriptions."""
    said = [_text(part) for part in _items(row.get("process_group"))[:2]]
    name = said[0] if said and said[0] else str(_number(row.get("pg_id")) or 0)
    described = said[1] if len(said) > 1 else ""
    return name, described if described and described != "undefined" else f"group {name}"


def _members(top: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    return {_text(key): _ranks(row.get("ranks")) for key, row in _rows_by_key(top.get("pg_config")).items()}


def _members_of(name: str, title: str, members: Mapping[str, tuple[int, ...]], groups: int) -> tuple[int, ...]:
    if name in members:
        return members[name]
    return next(iter(members.values())) if len(members) == 1 and groups == 1 else ()


def _ranks(value: object) -> tuple[int, ...]:
    """``"[0, 1]"``, or a list."""
    if isinstance(value, str) and len(value) < 1 << 20 and value.startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return ()
    found = {n for n in _items(value)[:MOST_RANKS] if isinstance(n, int) and 0 <= n < MOST_RANKS}
    return tuple(sorted(found))


# ------------------------------------------------------------------------------------------------------------ readers


def _rows_by_key(value: object) -> dict[str, Mapping[str, Any]]:
    items = list(cast("dict[str, Any]", value).items())[:4096] if _is_map(value) else []
    return {key: cast("Mapping[str, Any]", row) for key, row in items if _is_map(row)}


def _is_map(value: object) -> bool:
    return isinstance(value, dict)


def _items(value: object) -> list[Any]:
    return list(cast("list[Any]", value)) if isinstance(value, (list, tuple)) else []


def _text(value: object) -> str:
    return clean(value, _TEXT) if isinstance(value, str) else ""


def _number(value: object) -> int | None:
    """A count, which JSON may have as text; -1, "none yet", is nothing."""
    if isinstance(value, str) and len(value) < 20 and value.isdecimal():
        value = int(value)
    ok = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62
    return cast("int", value) if ok else None
