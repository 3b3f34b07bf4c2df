"""What a process of the demo does to itself: its title, and its end with its parent. Linux, without any package."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_ARG_START, _ARG_END = 47, 48
"""Fields 48 and 49 of ``/proc/self/stat``: where the arguments lie in this process's memory (proc(5))."""


def set_title(title: str) -> None:
    """Show ``title`` as command line and, cut to 15 characters, as command name, the way ``setproctitle`` does.

    It is written over the arguments in place and padded with NULs; the environment behind them stays as it is.
    """
    Path("/proc/self/comm").write_text(title[:15])
    stat = Path("/proc/self/stat").read_text()
    fields = ["", "", *stat[stat.rindex(")") + 2 :].split()]
    start, end = int(fields[_ARG_START]), int(fields[_ARG_END])
    room = end - start - 1
    if start > 0 and room > 0:
        ctypes.memmove(start, title.encode()[:room].ljust(room + 1, b"\0"), room + 1)


def die_with_parent(parent: int) -> None:
    """Be killed when the parent ends, whatever ends it; at once where it has ended already."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
