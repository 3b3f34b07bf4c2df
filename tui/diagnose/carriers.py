"""What stands before a log line's own text because of the way it travelled, and how to take it off.

A launcher, a container runtime or a journal puts its mark before every line, several of them in layers: who wrote it,
when, and whether the line goes on. Sources: Open MPI 4.1 and 5 ``--tag-output``, Slurm ``srun --label``, torchrun
``--tee`` (torch 2.9 ``elastic/multiprocessing/tail_log.py``) and its ``[rankN]:`` on tracebacks and C++ lines, Ray 2.x
worker prefixes, the CRI log format (``kubernetes/design-proposals-archive node/kubelet-cri-logging.md``), docker's
``json-file`` driver and ``logs --timestamps``, ``kubectl logs --prefix``, ``docker compose logs``, journalctl's
``short`` and ``short-iso``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

from tui.model import LogLine
from tui.safetext import LIMIT, clean


@dataclass(frozen=True, slots=True)
class Head:
    """What the layers before a line said: ``rank`` and ``local`` rank, who wrote it (``source`` tells interleaved
    writers apart), its ``stamp`` as text, and whether the line is only a ``part`` of one."""

    rank: int | None = None
    local: int | None = None
    source: str = ""
    stamp: str = ""
    part: bool = False


NO_HEAD = Head()

BY_TORCH = "[rank"
"""In the source of what torch prints with a rank: its C++ lines, and the errors that nobody caught."""

_ISO = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)"
_SYSLOG = r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d"
_MPI_RANK = r"\[(?:[\w@.-]*?@)?\d+,(?P<rank>\d+)\]"
_LAYERS: dict[str, tuple[tuple[str, re.Pattern[str]], ...]] = {
    "digit": (
        (" std", re.compile(rf"(?P<stamp>{_ISO}) (?P<stream>stdout|stderr) (?P<tag>[PF])(?::\S+)?(?: |$)")),
        ("T", re.compile(rf"(?P<stamp>{_ISO.replace('Z|', '')}) [\w.-]+ (?P<who>[\w./@:-]+?(?:\[\d+\])?): ")),
        ("T", re.compile(rf"(?P<stamp>{_ISO})(?: |$)")),
        (": ", re.compile(r"(?P<rank>\d{1,5}): ")),
    ),
    "[": (
        ("[pod/", re.compile(r"\[(?P<who>pod/[\w.-]+/[\w.-]+)\] ")),
        ("]<std", re.compile(rf"{_MPI_RANK}<(?:stdout|stderr)>: ?")),
        ("[rank", re.compile(r"(?P<who>\[rank(?P<rank>\d+)\]): ?")),
        ("]:", re.compile(r"\[(?:default|trainer|worker)(?P<local>\d{1,4})\]:")),
    ),
    " ": ((": ", re.compile(r" {1,4}(?P<rank>\d{1,5}): ")),),
    "letter": (
        (": ", re.compile(rf"(?P<stamp>{_SYSLOG}(?:\.\d+)?) [\w.-]+ (?P<who>[\w./@-]+(?:\[\d+\])?): ")),
        ("<std", re.compile(rf"(?P<stamp>[A-Z][a-z]{{2}} {_SYSLOG} \d{{4}})(?:{_MPI_RANK})?<(?:stdout|stderr)>: ?")),
        (" | ", re.compile(r"(?P<who>[\w.-]+[-_]\d+) +\| ")),
        (" › ", re.compile(r"(?P<who>[a-z\d.-]+ [\w.-]+) › ")),
    ),
}
"""By the first character: a text that stands in the layer, which is cheap to look for, and the layer itself."""

_LONGEST_LAYER = 200
_LAYERS_AT_MOST = 4

_MESSAGE = ("message", "msg", "log", "MESSAGE", "event", "text", "body")
_STAMP = ("time", "timestamp", "ts", "asctime", "@timestamp", "__REALTIME_TIMESTAMP")
_CUT_MESSAGE = re.compile(r'"(?:message|msg|log|MESSAGE|event)" ?: ?"((?:[^"\\]|\\.)*)')


def strip(text: str) -> tuple[Head, str]:
    """Take the layers off; the rest is what the process itself wrote, apart from its framework's own prefix."""
    head = NO_HEAD
    for _ in range(_LAYERS_AT_MOST):
        found = _layer(text)
        if found is None:
            break
        head, text = _merge(head, found), text[found.end() :]
    return head, text


def _layer(text: str) -> re.Match[str] | None:
    first = text[:1]
    if first.isdigit():
        first = "digit"
    elif first.isalpha():
        first = "letter"
    head = text[:_LONGEST_LAYER]
    for hint, pattern in _LAYERS.get(first, ()):
        if hint in head and (found := pattern.match(text)) is not None:
            return found
    return None


def _merge(head: Head, found: re.Match[str]) -> Head:
    said = found.groupdict()
    rank, local = said.get("rank"), said.get("local")
    marks = (head.source, said.get("who"), said.get("stream"), rank and f"r{rank}", local and f"l{local}")
    return Head(
        rank=int(rank) if rank and head.rank is None else head.rank,
        local=int(local) if local and head.local is None else head.local,
        source="/".join(mark for mark in marks if mark),
        stamp=head.stamp or said.get("stamp") or "",
        part=head.part or said.get("tag") == "P",
    )


def open_json(text: str) -> tuple[Head, list[str]] | None:
    """A line that is one JSON object: its head and the lines of its message; ``None`` where it is none.

    Understands docker's ``json-file``, python-json-logger, structlog, Ray's and Rust ``tracing``'s objects, and
    ``journalctl -o json``. A line that was cut for its length gives the message that is left.
    """
    if not (text.startswith("{") and '"' in text[:8]):
        return None
    try:
        table: Any = json.loads(text)
    except (ValueError, RecursionError):
        cut = _CUT_MESSAGE.search(text)
        return (NO_HEAD, [_unescape(cut[1])]) if cut is not None and "…[" in text[-80:] else None
    if not isinstance(table, dict):
        return None
    row = cast("dict[str, Any]", table)
    message = _message(row)
    if message is None:
        return None
    head = _json_head(row)
    if "stream" in row and "log" in row:
        head = replace(head, part=not message.endswith("\n"))
    return head, message.removesuffix("\n").split("\n")


def _message(row: dict[str, Any]) -> str | None:
    for name in _MESSAGE:
        if isinstance(row.get(name), str):
            return row[name][: 4 * LIMIT]
    inner = row.get("fields")
    return _message({**cast("dict[str, Any]", inner), "fields": None}) if isinstance(inner, dict) else None


def _json_head(row: dict[str, Any]) -> Head:
    """``rank`` may stand in the object, in a ``span`` of Rust's tracing, or nowhere."""
    places: list[Any] = [row, row.get("fields"), row.get("span")]
    said: dict[str, Any] = {}
    for place in places:
        if isinstance(place, dict):
            said = {**cast("dict[str, Any]", place), **said}
    rank = said.get("rank")
    stamp = next((str(said[name]) for name in _STAMP if said.get(name)), "")
    pid = said.get("process") or said.get("pid") or said.get("_PID") or ""
    source = "/".join(str(part) for part in (said.get("stream"), pid) if part)
    return Head(rank if isinstance(rank, int) and 0 <= rank < 1_000_000 else None, None, clean(source, 64), stamp[:40])


def _unescape(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return text


def segments(line: str) -> Iterator[tuple[str, bool]]:
    """A message's own redraws, cleaned: ``(text, whether it was drawn over)``; the last is what the line said last.

    What JSON kept escaped comes out raw: it is the only text of a host that is not clean yet at this point.
    """
    parts = line.removesuffix("\r").split("\r")
    yield from ((clean(part), True) for part in parts[:-1] if part)
    yield clean(parts[-1]), False


class Piece(NamedTuple):
    """A line or a redraw as its process wrote it. ``t`` is when it arrived, ``None`` where it lay there."""

    text: str
    head: Head
    t: float | None
    redraw: bool = False
    open: bool = False


class Unwrapper:
    """Lines of one log to what their writers wrote.

    A carrier marks physical lines: the redraws inside of one belong to the writer that its beginning names. What a
    container runtime cut into parts (``P``, or docker's JSON without a newline) is joined again.
    """

    def __init__(self) -> None:
        self._head: Head | None = None
        self._parts: dict[str, str] = {}

    def pieces(self, line: LogLine) -> Iterator[Piece]:
        text = line.text
        head, text = strip(text)
        if head is NO_HEAD and self._head is not None:
            head = self._head
        if not line.open:
            self._head = head if line.redraw else None
        if text.startswith("{") and not line.open and (opened := open_json(text)) is not None:
            yield from self._opened(head, opened, line.t)
        elif line.open or line.redraw:
            yield Piece(text, head, line.t, line.redraw, line.open)
        elif (whole := self._join(head, text)) is not None:
            yield Piece(whole, head, line.t)

    def _opened(self, outer: Head, opened: tuple[Head, list[str]], t: float | None) -> Iterator[Piece]:
        inner, messages = opened
        for i, message in enumerate(messages):
            own, text = strip(message)
            head = _inside(_inside(outer, inner), own)
            if inner.part and i == len(messages) - 1:
                self._parts[head.source] = (self._parts.get(head.source, "") + text)[:LIMIT]
                continue
            text = self._parts.pop(head.source, "") + text
            for segment, redraw in segments(text):
                yield Piece(segment, head, t, redraw)

    def _join(self, head: Head, text: str) -> str | None:
        """The whole line where ``text`` ends one, ``None`` where it goes on."""
        begun = self._parts.pop(head.source, "") if self._parts else ""
        if not head.part:
            return begun + text
        if len(self._parts) < 64:
            self._parts[head.source] = (begun + text)[:LIMIT]
        return None


def _inside(outer: Head, inner: Head) -> Head:
    """What two layers say together; the outer one's stamp is every line's, and counts."""
    if inner is NO_HEAD:
        return outer
    return Head(
        rank=outer.rank if outer.rank is not None else inner.rank,
        local=outer.local if outer.local is not None else inner.local,
        source="/".join(filter(None, (outer.source, inner.source))),
        stamp=outer.stamp or inner.stamp,
        part=outer.part,
    )
