"""Programs that tell somebody: the desktop's own, and the one that a person has named. Bounded, and without a shell."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tui.safetext import clean

WITHIN_S = 10.0
"""A program that has not ended by then is ended, with all that it started in its group."""


def run(command: Sequence[str], text: str = "", within_s: float = WITHIN_S) -> str:
    """Run ``command`` with ``text`` on its standard input and wait; returns what went wrong, else nothing.

    Input and messages go through files, not pipes: neither a program that reads nothing nor one that leaves a child
    behind can hold the caller longer than ``within_s``.
    """
    name = command[0]
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as said:
        given.write(text.encode("utf-8", "replace"))
        given.seek(0)
        try:
            child = subprocess.Popen(
                [str(Path(name).expanduser()), *command[1:]],
                stdin=given,
                stdout=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            what = error.strerror if isinstance(error, OSError) else str(error)
            return f"{clean(name, 80)} cannot be run: {what}"
        try:
            code = child.wait(within_s)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)  # its group has its number, which is its own until it is waited for
            child.wait()
            return f"{clean(name, 80)} did not end within {within_s:g} s and was ended"
        if code == 0:
            return ""
        said.seek(max(0, said.seek(0, os.SEEK_END) - 2000))
        lines = said.read().decode("utf-8", "replace").strip().splitlines()
        ended = f"ended with {code}" if code > 0 else f"was ended by signal {-code}"
        return f"{clean(name, 80)} {ended}" + (f": {clean(lines[-1], 160)}" if lines else "")


def desktop_command(headline: str, body: str, *, alarm: bool) -> list[str]:
    """What shows a notification on this machine's desktop; empty where nothing is there to show one."""
    if sys.platform == "darwin" and shutil.which("osascript"):
        script = ("on run argv", "display notification (item 2 of argv) with title (item 1 of argv)", "end run")
        return ["osascript", *(word for line in script for word in ("-e", line)), headline, body]
    if shutil.which("notify-send"):
        # The body may hold markup (Desktop Notifications Specification 1.2), so ours is escaped.
        urgency = "critical" if alarm else "normal"
        text = body.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return ["notify-send", "--app-name=gputop-hang", f"--urgency={urgency}", "--", headline, text]
    return []
