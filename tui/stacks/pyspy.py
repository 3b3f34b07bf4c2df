"""What ``py-spy dump`` prints, as JSON or text (0.4.x).

JSON is a list of threads with frames newest first; text is the same threads in reverse order. From Python 3.11 on
functions are qualified names. ``thread_id`` is ``pthread_self()``, ``os_thread_id`` the kernel's id, which in another
PID namespace is the one inside. Native frames have line 0 and the library as module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from tui.model import Frame, ThreadStack
from tui.safetext import clean
from tui.stacks.frames import bounded, frame, is_program

MAX_THREADS = 4096
"""py-spy itself reads no more."""


def from_json(value: object, pid: int | None = None) -> tuple[ThreadStack, ...]:
    """The threads of one process, main thread first. What is not as expected is left out; never raises.

    The main thread is the one whose kernel id is ``pid`` (default: the pid that the dump names); in another PID
    namespace that fits none, and the thread that begins in a program is taken, or the oldest.
    """
    items = cast("list[object]", value) if isinstance(value, list) else []
    threads = [_thread(cast("Mapping[str, Any]", item)) for item in items[:MAX_THREADS] if isinstance(item, dict)]
    return mark_main(threads, pid if pid is not None else pid_of(items))


def pid_of(value: object) -> int | None:
    """The pid that a JSON dump names."""
    items = cast("list[object]", value) if isinstance(value, list) else []
    first = items[0] if items else None
    return _integer(cast("Mapping[str, Any]", first), "pid") if isinstance(first, dict) else None


def mark_main(threads: list[ThreadStack], pid: int | None) -> tuple[ThreadStack, ...]:
    """The same threads, oldest last on entry, with the main one marked and in front."""
    if not threads:
        return ()
    by_id = [t for t in threads if pid is not None and t.os_thread_id == pid]
    programs = [t for t in threads if is_program(t.frames)]
    main = (by_id or programs or threads)[-1]
    return (replace(main, main=True), *(t for t in threads if t is not main))


def _thread(item: Mapping[str, Any]) -> ThreadStack:
    raw: object = item.get("frames")
    frames = (
        [_frame(cast("Mapping[str, Any]", f)) for f in cast("list[object]", raw) if isinstance(f, dict)]
        if (isinstance(raw, list))
        else []
    )
    name: object = item.get("thread_name")
    active: object = item.get("active")
    owns_gil: object = item.get("owns_gil")
    return ThreadStack(
        os_thread_id=_integer(item, "os_thread_id"),
        name=clean(name, 256) if isinstance(name, str) else "",
        frames=bounded(frames),
        active=active if isinstance(active, bool) else None,
        owns_gil=owns_gil if isinstance(owns_gil, bool) else None,
        thread_id=_integer(item, "thread_id"),
    )


def _frame(item: Mapping[str, Any]) -> Frame:
    file: object = item.get("filename")
    return frame(item.get("name"), file if isinstance(file, str) and file else item.get("module"), item.get("line"))


def _integer(item: Mapping[str, Any], key: str) -> int | None:
    value: object = item.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64 else None


# ------------------------------------------------------------------------------------------------------------ text form


@dataclass(frozen=True, slots=True)
class TextDump:
    """One process of a text dump; with ``--subprocesses`` there are several in one output."""

    pid: int
    command: str
    threads: tuple[ThreadStack, ...]


_CARRIER = (
    r"^(?P<carrier>(?:\[[^\]\s]{1,60}\](?:<std(?:err|out)>)?:? ?|\d{1,6}: ?|\([^()]{1,100}\) ?|[\w.-]{1,60} +\| )?)"
)
"""What torchrun, mpirun, srun, Ray, vLLM or docker compose put before a line, SGLang's own dumps included."""

_PROCESS = re.compile(_CARRIER + r"Process (?P<pid>\d{1,18}): (?P<command>.*)$")
_THREAD = re.compile(
    _CARRIER
    + r'Thread (?P<id>0x[0-9a-fA-F]{1,16}|\d{1,18}) \((?P<state>active\+gil|active|idle)\)(?:: "(?P<name>.*)")?$'
)
_FRAME = re.compile(_CARRIER + r" {4}(?P<function>\S.*?) \((?P<file>[^()]*?)(?::(?P<line>\d{1,9}))?\)$")
_LONGEST = 4096


@dataclass(slots=True)
class _Open:
    """A process while its lines are read."""

    pid: int
    command: str
    threads: list[tuple[ThreadStack, list[Frame]]] = field(default_factory=list["tuple[ThreadStack, list[Frame]]"])


def from_text(text: str) -> list[TextDump]:
    """Every process in the text form, also where a log carries it (SGLang's watchdog), several at once told apart by
    what stands before their lines. Other lines, arguments and local variables among them, are passed over."""
    dumps: list[_Open] = []
    current: dict[str, _Open] = {}
    for line in text.splitlines() if "Process " in text else ():
        line = line[:_LONGEST]
        if match := _PROCESS.match(line):
            current[match["carrier"]] = dump = _Open(int(match["pid"]), clean(match["command"], 512))
            dumps.append(dump)
        elif (match := _THREAD.match(line)) and (dump := current.get(match["carrier"])) is not None:
            if len(dump.threads) < MAX_THREADS:
                dump.threads.append((_text_thread(match), []))
        elif (match := _FRAME.match(line)) and (dump := current.get(match["carrier"])) is not None and dump.threads:
            dump.threads[-1][1].append(frame(match["function"], match["file"], int(match["line"] or 0)))
    return [
        TextDump(d.pid, d.command, mark_main([replace(t, frames=bounded(f)) for t, f in reversed(d.threads)], d.pid))
        for d in dumps
    ]


def _text_thread(match: re.Match[str]) -> ThreadStack:
    known = not match["id"].startswith("0x")
    return ThreadStack(
        os_thread_id=int(match["id"]) if known else None,
        name=clean(match["name"] or "", 256),
        frames=(),
        active=match["state"] != "idle",
        owns_gil=True if match["state"] == "active+gil" else None,
        thread_id=None if known else int(match["id"], 16),
    )
