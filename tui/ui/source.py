"""Lines of source around a frame, of files of this machine alone: nothing is fetched from anywhere.

The path is what a watched process says, so that only regular files named ``*.py`` are opened, a bounded part is read,
and what is shown is cleaned. A file that does not define the function at that place is not the one that runs. Reading
happens beside the screen, since a file may lie on storage that does not answer.
"""

from __future__ import annotations

import os
import re
import socket
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tui.model import Frame, ProcessStacks
from tui.safetext import clean
from tui.stacks.frames import bare

AROUND = 2
"""Lines before and after the one that a frame stands in."""

MOST_BYTES = 4 << 20
MOST_WAITING = 2
"""Files that are being read at once: a thread that storage holds cannot be ended."""

MOST_KEPT = 512
WIDEST = 400


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a file, as a process on ``host`` names it."""

    host: str
    pid: int | None
    file: str
    line: int
    function: str
    taken_wall: float | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """Numbered lines, or the sentence that says why there are none; ``note`` where the lines may not be what runs."""

    lines: tuple[tuple[int, str], ...] = ()
    why_not: str = ""
    note: str = ""


READING = Source(why_not="reading …")


def place_of(process: ProcessStacks, frame: Frame) -> Place | None:
    """Where a frame of a process stands; ``None`` where it names no line of a file."""
    if not frame.line or not frame.file:
        return None
    return Place(process.host, process.pid, frame.file, frame.line, bare(frame.function), process.taken_wall)


def is_here(host: str) -> bool:
    """Whether a watched host is the machine that this program runs on, by the name that it watches itself under."""
    return host in ("localhost", socket.gethostname())


class Sources:
    """What was read so far; ``tell`` is called, from a thread, when something more has been. Nothing is read where that
    is not ``allowed``: what is played back may have happened elsewhere."""

    def __init__(self, tell: Callable[[], None], allowed: bool = True) -> None:
        self._tell = tell
        self._known: dict[Place, Source] = {}
        self._waiting: set[Place] = set()
        self._allowed = allowed

    def at(self, place: Place) -> Source:
        """The lines of a place; :data:`READING` where they are still to come."""
        known = self._known.get(place)
        if known is not None:
            return known
        if not self._allowed or not is_here(place.host):
            return Source(why_not=f"its source lies on {place.host}: files of other machines are not read")
        if place in self._waiting:
            return READING
        if len(self._waiting) >= MOST_WAITING:
            return Source(why_not="not read: the storage does not answer for other files")
        self._waiting.add(place)
        threading.Thread(target=self._read, args=(place,), daemon=True).start()
        return READING

    def _read(self, place: Place) -> None:
        try:
            found = read(place)
        except Exception as error:  # whatever a hostile path leads to must not end a thread with a trace on the screen
            found = Source(why_not=clean(f"cannot be read: {error}", 200))
        if len(self._known) >= MOST_KEPT:
            self._known.clear()
        self._known[place] = found
        self._waiting.discard(place)
        self._tell()


def read(place: Place) -> Source:
    """The lines around a place of a file of this machine, as the process sees it where that can be looked at."""
    if not place.file.startswith("/") or not place.file.endswith(".py"):
        return Source(why_not="no Python file with a whole path")
    try:
        with _open(place) as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode):
                return Source(why_not="it is no regular file")
            lines = stream.read(MOST_BYTES).split(b"\n")
    except OSError as error:
        return Source(why_not=f"{error.strerror or 'it cannot be read'}: {place.file}")
    if place.line > len(lines):
        return Source(why_not=f"{place.file} has no line {place.line} (any more)")
    if not _defines(place.function, lines[: place.line]):
        return Source(why_not=f"{place.file} is another file here: no {place.function} begins before line {place.line}")
    first = max(1, place.line - AROUND)
    shown = enumerate(lines[first - 1 : place.line + AROUND], first)
    newer = place.taken_wall is not None and status.st_mtime > place.taken_wall
    return Source(
        tuple((n, clean(line.rstrip(), WIDEST)) for n, line in shown),
        note="the file was written after these stacks were taken" if newer else "",
    )


def _open(place: Place) -> BinaryIO:
    """As the process sees it, in a container of its own too; by its plain path where that cannot be looked at."""
    if place.pid is not None:
        with suppress(OSError):
            return _stream(Path(f"/proc/{place.pid}/root{place.file}"))
    return _stream(Path(place.file))


def _stream(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")


def _defines(function: str, lines: list[bytes]) -> bool:
    """Whether a function of this name begins in these lines; code without a name stands in every file."""
    if not function.isidentifier():
        return True
    begins = re.compile(rb"\s*(?:async\s+)?(?:def|class)\s+" + re.escape(function.encode()) + rb"\b")
    return any(begins.match(line) for line in reversed(lines))
