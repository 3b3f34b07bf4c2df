"""A real tmux with a real program in it, for tests that look at the screen and press keys."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import time
import uuid
from collections.abc import Sequence
from types import TracebackType

from tests.conftest import need_program


class Tmux:
    """One program in one window of a tmux server of its own; everything ends with the ``with`` block."""

    def __init__(self, command: Sequence[str], *, columns: int, rows: int) -> None:
        self._tmux = [need_program("tmux"), "-L", f"gputop-{uuid.uuid4().hex[:12]}", "-f", "/dev/null"]
        self._size = ["-x", str(columns), "-y", str(rows)]
        self._command = f"exec {shlex.join(command)}"

    def __enter__(self) -> Tmux:
        env = {**os.environ, "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}
        keep = ";".join(["set", "-g", "remain-on-exit", "on"])  # the last screen stays readable when the program ends
        subprocess.run([*self._tmux, "new-session", "-d", *self._size, self._command], env=env, check=True)
        subprocess.run([*self._tmux, *keep.split(";")], check=True, capture_output=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False)

    def screen(self) -> str:
        captured = subprocess.run([*self._tmux, "capture-pane", "-p"], capture_output=True, text=True, check=False)
        return captured.stdout

    def resize(self, columns: int, rows: int) -> None:
        size = ["-x", str(columns), "-y", str(rows)]
        subprocess.run([*self._tmux, "resize-window", *size], check=True, capture_output=True)

    def press(self, *keys: str) -> None:
        """Keys by tmux's names (``d``, ``Enter``, ``Escape``); each is sent by itself, as a person would."""
        for key in keys:
            subprocess.run([*self._tmux, "send-keys", key], check=True)
            time.sleep(0.05)

    def pane_pid(self) -> int:
        shown = [*self._tmux, "display-message", "-p", "#{pane_pid}"]
        return int(subprocess.run(shown, capture_output=True, text=True, check=True).stdout)

    def wait_for(self, pattern: str, timeout_s: float) -> re.Match[str]:
        """The first match of ``pattern``. Raises: AssertionError with the screen when it does not come."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if match := re.search(pattern, self.screen()):
                return match
            time.sleep(0.25)
        raise AssertionError(f"{pattern!r} did not come within {timeout_s:.0f} s; the screen:\n{self.screen()}")
