"""Native stacks as text: c10's fatal-signal handler (PyTorch), gdb's ``thread apply all bt``, and pystack.

c10 (``c10/util/signal_handler.cpp``) writes one block for each thread, the one that took the signal first, and leaves
Python frames out. gdb shows no Python frames either. pystack (1.x) lists frames oldest first, with source lines below.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tui.model import Frame, ThreadStack
from tui.safetext import clean
from tui.stacks.frames import bounded, frame
from tui.stacks.pyspy import MAX_THREADS, TextDump, mark_main

_LONGEST = 4096
"""Characters of a line that are looked at: C++ names are long."""


@dataclass(slots=True)
class _Thread:
    os_thread_id: int | None
    name: str = ""
    thread_id: int | None = None
    owns_gil: bool | None = None
    frames: list[Frame] = field(default_factory=list[Frame])

    def closed(self, oldest_first: bool = False) -> ThreadStack:
        frames = self.frames[::-1] if oldest_first else self.frames
        return ThreadStack(self.os_thread_id, self.name, bounded(frames), None, self.owns_gil, thread_id=self.thread_id)


def _lines(text: str) -> Iterable[str]:
    return (line[:_LONGEST].rstrip("\r") for line in text.split("\n"))


# ---------------------------------------------------------------------------------------------------------------- c10

_C10 = re.compile(r"^(?:.{0,80}?)(SIG[A-Z0-9]{2,8})\(\d{1,3}\), PID: (\d{1,10}), Thread (\d{1,10}):")
_C10_FRAME = re.compile(r"^.{0,80}?frame #\d{1,4}: (.*?)(?: \+ (0x[0-9a-f]+))? \(0x[0-9a-f]+ in (.*)\)$")


def c10(text: str) -> list[TextDump]:
    """One entry for each process that c10's handler wrote of; its ``command`` is the signal. Never raises."""
    found: dict[int, tuple[str, list[_Thread]]] = {}
    current: _Thread | None = None
    for line in _lines(text) if ", PID: " in text else ():
        if match := _C10.match(line):
            threads = found.setdefault(int(match[2]), (match[1], []))[1]
            current = _Thread(int(match[3]))
            if len(threads) < MAX_THREADS:
                threads.append(current)
        elif current is not None and (match := _C10_FRAME.match(line)):
            # An address without a symbol names no place, and is shown as one.
            name = match[1] if match[1] != "<unknown function>" else match[2]
            if "FatalSignalHandler::" in (name or ""):
                current.frames.clear()  # the handler's own
                continue
            current.frames.append(frame(name, match[3], 0))
    dumps: list[TextDump] = []
    for pid, (signal, threads) in found.items():
        stacks = [replace(t.closed(), main=t.os_thread_id == pid) for t in threads]
        dumps.append(TextDump(pid, signal, tuple(sorted(stacks, key=lambda t: not t.main))))
    return dumps


# ---------------------------------------------------------------------------------------------------------------- gdb

_GDB = re.compile(
    r"^Thread (\d{1,6}) \((?:Thread (0x[0-9a-f]{1,16}) \(LWP (\d{1,10})\)|LWP (\d{1,10})|process (\d{1,10}))"
    r"(?: \"(.{0,64})\")?.{0,40}\):?(?: ?\"(.{0,64})\")?$"
)
_GDB_FRAME = re.compile(
    r"^#\d{1,5} +(?:0x[0-9a-f]+ in )?(?P<name>\S.{0,2000}?) \(.*\)(?: at (?P<file>\S+?):(?P<line>\d{1,9})"
    r"| from (?P<lib>\S+))?$"
)


def gdb(text: str) -> list[TextDump]:
    """The process of one ``thread apply all bt``: thread 1 is the main one, and its number that of the process. Another
    thread 1 begins another process. Never raises."""
    processes: list[dict[int, _Thread]] = [{}]
    current: _Thread | None = None
    for line in _lines(text) if "LWP " in text or "\nThread 1 (" in text else ():
        if match := _GDB.match(line):
            number = int(match[1])
            if number in processes[-1]:
                processes.append({})
            lwp = match[3] or match[4] or match[5]
            name = clean(match[6] or match[7] or "", 64)
            current = _Thread(int(lwp), name, int(match[2], 16) if match[2] else None)
            if len(processes[-1]) < MAX_THREADS:
                processes[-1][number] = current
        elif current is not None and (match := _GDB_FRAME.match(line)):
            name = match["name"] if match["name"] != "??" else "0x"
            current.frames.append(frame(name, match["file"] or match["lib"] or "", int(match["line"] or 0)))
    dumps: list[TextDump] = []
    for threads in processes:
        if any(t.frames for t in threads.values()):
            main = threads.get(1)
            stacks = [replace(t.closed(), main=t is main) for _, t in sorted(threads.items())]
            dumps.append(TextDump((main.os_thread_id or 0) if main else 0, "gdb", tuple(stacks)))
    return dumps


# ------------------------------------------------------------------------------------------------------------ pystack

_PYSTACK = re.compile(r"^Traceback for thread (\d{1,10}) \((.{0,64}?)\) \[(.{0,80}?)\] \(most recent call last\):$")
_PYSTACK_FRAME = re.compile(
    r'^ {4}\((?P<kind>Python|C)\) File "(?P<file>[^"]*)", line (?P<line>\d{1,9}), in (?P<name>.*)$'
)
_PYSTACK_LIBRARY = re.compile(r"(?: \(inlined\))?(?: \((?:/|<)[^()]*\))?$")


def pystack(text: str) -> list[TextDump]:
    """The process of one ``pystack remote`` or ``core``; it does not name its pid: the main thread's is taken. A thread
    that comes again begins another process. Never raises."""
    processes: list[dict[int, _Thread]] = [{}]
    current: _Thread | None = None
    for line in _lines(text) if "Traceback for thread " in text else ():
        if match := _PYSTACK.match(line):
            number = int(match[1])
            if number in processes[-1]:
                processes.append({})
            gil = True if "Has the GIL" in match[3] else None
            current = _Thread(number, clean(match[2], 64), owns_gil=gil)
            if len(processes[-1]) < MAX_THREADS:
                processes[-1][number] = current
        elif current is not None and (match := _PYSTACK_FRAME.match(line)):
            name = match["name"]
            if match["kind"] == "C":
                name = _PYSTACK_LIBRARY.sub("", name)
            current.frames.append(frame(name, match["file"], int(match["line"])))
    dumps: list[TextDump] = []
    for threads in processes:
        if any(t.frames for t in threads.values()):
            stacks = [t.closed(oldest_first=True) for t in threads.values()]
            programs = [t.os_thread_id for t in stacks if any(f.function == "<module>" for f in t.frames)]
            main = programs[-1] if programs else min(threads)
            dumps.append(TextDump(main or 0, "pystack", mark_main(stacks, main)))
    return dumps
