"""Programs on a real pseudo-terminal, for what only a terminal shows: bytes, times, and how it is given back."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextmanager
def on_a_terminal(*args: str, size: tuple[int, int] = (120, 40)) -> Iterator[int]:
    """Runs this Python with arguments; gives the master side. The program is killed at the end."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        os.environ.update(TERM="xterm-256color", COLORTERM="truecolor", TZ="UTC")
        for name in ("COLUMNS", "LINES", "NO_COLOR"):
            os.environ.pop(name, None)
        os.execv(sys.executable, [sys.executable, *args])
    try:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        yield terminal
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


def read_until(terminal: int, needle: bytes | None, seconds: float) -> bytes:
    """What the program writes, up to a text or (``None``) to its end."""
    got = b""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not select.select([terminal], [], [], 0.05)[0]:
            continue
        try:
            data = os.read(terminal, 65536)
        except OSError:
            return got
        got += data
        if not data or (needle is not None and needle in got):
            return got
    raise AssertionError(f"{needle!r} did not come within {seconds} s: {got[-300:]!r}")


def read_for(terminal: int, seconds: float) -> bytes:
    """What the program writes in the next seconds."""
    got = b""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            got += os.read(terminal, 65536)
    return got
