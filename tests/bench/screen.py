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


def seconds_until(
    command: Sequence[str], pattern: bytes, *, env: Mapping[str, str], columns: int = 200, rows: int = 50
) -> float:
    """Seconds from exec until ``pattern`` is found in what ``command`` wrote, escape sequences removed.

    Raises: AssertionError when it does not come within 20 s.
    """
    began = time.perf_counter()
    pid, master = pty.fork()
    if pid == 0:
        os.execvpe(command[0], list(command), {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", **env})
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    try:
        return _read_until(master, re.compile(pattern), began)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(master)


def _read_until(master: int, pattern: re.Pattern[bytes], began: float) -> float:
    seen = b""
    while time.perf_counter() - began < 20:
        if not select.select([master], [], [], 0.5)[0]:
            continue
        try:
            seen += os.read(master, 1 << 16)
        except OSError:
            break
        if pattern.search(re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", seen)):
            return time.perf_counter() - began
    raise AssertionError(f"{pattern.pattern!r} did not come; the end of the output: {seen[-400:]!r}")
