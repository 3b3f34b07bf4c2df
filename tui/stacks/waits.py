"""What a stack is doing where it stands: ``waits.toml`` applied to frames and to the kernel's word."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, cast

from tui import toml
from tui.model import Frame, ThreadStack
from tui.stacks.frames import bare, basename, label

REACH = 8
"""Frames of any code through which a collective is seen."""

_NATIVE = re.compile(r"\.so|\.(?:c|h|cc|cpp|pyx)$|^python[\d.]*[a-z]*$")
_STDLIB = re.compile(r"^<frozen |(?:^|/)lib(?:64)?/python3(?:\.\d+)?t?/(?!site-packages|dist-packages)")
_PACKAGE = re.compile(r"(?:^|/)(?:site|dist)-packages/([^/]+)|^([A-Za-z_]\w*)/")


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the table: ``id`` for evidence, ``kind`` for the judgement, ``says`` for people."""

    id: str
    kind: str
    says: str
    weak: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """What a thread does: the entry that fits, the sentence after "rank 5", and the function that gave it away with its
    depth in the stack (0 is the newest frame; ``None``: the kernel or the interpreter's lock said it)."""

    id: str
    kind: str
    says: str
    name: str
    depth: int | None = None


@dataclass(frozen=True, slots=True)
class _Table:
    frames: tuple[tuple[Entry, re.Pattern[str], re.Pattern[str]], ...]
    kernel: tuple[tuple[Entry, re.Pattern[str]], ...]
    plumbing: re.Pattern[str]
    causes: Mapping[str, tuple[str, ...]]
    healthy: Mapping[str, tuple[str, ...]]


@cache
def _table() -> _Table:
    raw: Mapping[str, Any] = toml.loads(Path(__file__).with_name("waits.toml").read_text("utf-8"))
    rows = cast("list[Mapping[str, Any]]", raw["frame"])
    kernel = cast("list[Mapping[str, Any]]", raw["kernel"])
    return _Table(
        tuple(
            (_entry(r), re.compile(f"(?:^|.*/|.*(?=<))(?:{r.get('file', '.*')})"), re.compile(str(r["function"])))
            for r in rows
        ),
        tuple((_entry(r), re.compile(str(r["wchan"]))) for r in kernel),
        re.compile(str(raw["plumbing"])),
        {key: tuple(some) for key, some in raw["causes"].items()},
        {key: tuple(some) for key, some in raw["healthy"].items()},
    )


def _entry(row: Mapping[str, Any]) -> Entry:
    return Entry(str(row["id"]), str(row["kind"]), str(row["says"]), bool(row.get("weak", False)))


def meaning(thread: ThreadStack) -> Wait | None:
    """What the thread is known to do where it stands, ``None`` where nobody knows: it may run, or be in C code."""
    if holds_gil(thread):
        at = _own(thread.frames, 0)
        return Wait("gil", "local", f"holds the interpreter lock and does not run, in {at}", at)
    return _from_frames(thread.frames) or _from_kernel(thread)


def holds_gil(thread: ThreadStack) -> bool:
    """Whether it holds the interpreter's lock and does not run: no other thread of its process can (py-spy's JSON)."""
    return thread.owns_gil is True and thread.active is False


def gil_elsewhere(holder: ThreadStack, main: Wait | None) -> Wait:
    """What the main thread waits for where another thread, ``holder``, keeps the interpreter's lock and sleeps."""
    at = _own(holder.frames, 0)
    name = f"its thread “{holder.name}”" if holder.name else "another thread of it"
    says = f"waits for the interpreter lock, which {name} holds without running, in {at}"
    return Wait("gil", "local", says, at, main.depth if main else None)


def causes_of(wait_id: str) -> tuple[str, ...]:
    """What it may be that holds up whoever stands there for long, the likeliest first; ids as in the verdict."""
    return _table().causes.get(wait_id, ())


def healthy_of(wait_id: str) -> tuple[str, ...]:
    """Which healthy work stands there."""
    return _table().healthy.get(wait_id, ())


def known_ids() -> set[str]:
    """The ids of all entries, and of what has causes."""
    table = _table()
    return {e.id for e, *_ in table.frames} | {e.id for e, _ in table.kernel} | {*table.causes, *table.healthy}


def place(thread: ThreadStack) -> str:
    """``BatchCache.refill (cache.py:26)``: the newest frame that is not the standard library's."""
    return place_of(thread.frames)


def place_of(frames: Sequence[Frame]) -> str:
    return _own(frames, 0)


def _from_frames(frames: Sequence[Frame]) -> Wait | None:
    weak: tuple[Entry, int] | None = None
    plumbing = True
    for depth, frame in enumerate(frames):
        entry = _fits(bare(frame.function), frame.file)
        if entry and entry.weak and plumbing:
            weak = (entry, depth)
        elif entry and not entry.weak and (plumbing or (depth <= REACH and entry.kind in ("collective", "p2p"))):
            return _wait(entry, frames, depth)
        plumbing = plumbing and is_plumbing(frame.file)
        if not plumbing and depth >= REACH:
            break
    return _wait(weak[0], frames, weak[1]) if weak else None


def _from_kernel(thread: ThreadStack) -> Wait | None:
    stands = (thread.wchan or "").partition(".")[0]  # poll_schedule_timeout.constprop.0: the compiler's clone
    for entry, wchan in _table().kernel:
        if wchan.fullmatch(stands):
            at = _own(thread.frames, 0)
            return Wait(entry.id, entry.kind, entry.says.format(at=at, name=at, wchan=stands), at)
    return None


def _wait(entry: Entry, frames: Sequence[Frame], depth: int) -> Wait:
    name = bare(frames[depth].function)
    return Wait(entry.id, entry.kind, entry.says.format(at=_own(frames, depth), name=name, wchan=""), name, depth)


def _own(frames: Sequence[Frame], depth: int) -> str:
    """The nearest frame at ``depth`` or further out that belongs to no plumbing, else the nearest outside the standard
    library, else the frame itself."""
    if not frames:
        return "native code"
    outer = frames[depth:]
    own = next((f for f in outer if not is_plumbing(f.file)), None)
    return label(own or next((f for f in outer if not _is_stdlib(f.file)), frames[depth]))


@lru_cache(maxsize=8192)
def _fits(function: str, file: str) -> Entry | None:
    for entry, where, name in _table().frames:
        if name.fullmatch(function) and where.fullmatch(file):
            return entry
    return None


@lru_cache(maxsize=8192)
def _is_stdlib(file: str) -> bool:
    if _STDLIB.search(file):
        return True
    head = file.partition("/")[0]
    return not file.startswith("/") and head.removesuffix(".py") in sys.stdlib_module_names


@lru_cache(maxsize=8192)
def is_plumbing(file: str) -> bool:
    """The standard library, known packages, and native code: a library's, or the interpreter's own."""
    if _is_stdlib(file) or not file or _NATIVE.search(basename(file)):
        return True
    package = _PACKAGE.search(file)
    return bool(package and _table().plumbing.fullmatch((package[1] or package[2]).removesuffix(".py")))
