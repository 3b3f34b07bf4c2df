"""A program in a real pseudo-terminal, and the moment at which a text first stands on its output."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class Spent(NamedTuple):
    """``wall_s`` since exec. ``cpu_s`` of the program without its children: what a busy machine changes less."""

    wall_s: float
    cpu_s: float


def spent_until(
    command: Sequence[str], pattern: bytes, *, env: Mapping[str, str], columns: int = 200, rows: int = 50
) -> Spent:
    """What it took until ``pattern`` was found in what ``command`` wrote, escape sequences removed.

    Raises: AssertionError when it does not come within 20 s.
    """
    began = time.perf_counter()
    pid, master = start(command, env=env, columns=columns, rows=rows)
    try:
        return _read_until(pid, master, re.compile(pattern), began)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(master)


def start(command: Sequence[str], *, env: Mapping[str, str], columns: int = 200, rows: int = 50) -> tuple[int, int]:
    """Start a program in a pseudo-terminal: its process, and the descriptor of the terminal's other end."""
    pid, master = pty.fork()
    if pid == 0:
        os.execvpe(command[0], list(command), {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", **env})
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    return pid, master


def read_for(terminal: int, seconds: float) -> bytes:
    """What is written within some seconds. Raises: OSError when the program has closed its end."""
    end, seen = time.monotonic() + seconds, bytearray()
    while (left := end - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            seen += os.read(terminal, 1 << 16)
    return bytes(seen)


def compiled_in(folder: str) -> dict[str, str]:
    """An environment in which whatever is imported is compiled once, into a folder beside the sources."""
    return {"PYTHONPYCACHEPREFIX": f"{folder}/compiled", "PYTHONDONTWRITEBYTECODE": ""}


def cpu_s(pid: int) -> float:
    """Seconds of CPU of all threads of a process that still run (``schedstat``: nanoseconds, proc(5))."""
    nanoseconds = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # a thread that has just ended
            nanoseconds += int((task / "schedstat").read_text().split()[0])
    return nanoseconds / 1e9


def _read_until(pid: int, master: int, pattern: re.Pattern[bytes], began: float) -> Spent:
    seen = b""
    while time.perf_counter() - began < 20:
        if not select.select([master], [], [], 0.5)[0]:
            continue
        try:
            seen += os.read(master, 1 << 16)
        except OSError:
            break
        if pattern.search(re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", seen)):
            return Spent(time.perf_counter() - began, cpu_s(pid))
    raise AssertionError(f"{pattern.pattern!r} did not come; the end of the output: {seen[-400:]!r}")
