"""Tells changes of verdicts in the ways that the configuration names; nothing of it holds up its caller.

Each way is imported by the thread that goes it: most people turn on none, and the first picture waits for all imports.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from datetime import datetime, timezone
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tui.config.settings import Notices
from tui.notices.changes import Changes, Notice

if TYPE_CHECKING:
    from tui.model import Snapshot
    from tui.notices.terminal import TerminalWay

AT_ONCE = 4
"""Programs that run at the same time; with many launches the rest wait."""


def verdict_json(notice: Notice) -> dict[str, Any]:
    """What ``on_verdict`` reads: an object as of ``replay --json``, and ``previous``, the verdict before (or null)."""
    from tui.headless.verdict_json import row

    at = datetime.fromtimestamp(notice.wall, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {**row(notice.t, at, notice.view.launch, notice.view.verdict), "previous": notice.before}


class Notifier:
    """Feed it every snapshot. ``write`` sends to the terminal and ``say`` tells a person; both from any thread."""

    def __init__(self, settings: Notices, *, write: Callable[[str], None], say: Callable[[str], None]) -> None:
        self._settings = settings
        self._write = write
        self._say = say
        self._changes = Changes()
        self._running = threading.Semaphore(AT_ONCE)
        self._said: set[str] = set()

    def feed(self, snapshot: Snapshot) -> None:
        """Tell what has changed; returns at once."""
        wanted = self._settings
        for notice in self._changes.feed(snapshot):
            if wanted.bell and notice.alarm:
                self._write("\a")
            for on, tell in ((wanted.terminal, self._terminal), (wanted.desktop, self._desktop)):
                if on:
                    self._beside(tell, notice)
            if wanted.on_verdict:
                self._beside(self._command, notice)

    def _beside(self, tell: Callable[[Notice], str], notice: Notice) -> None:
        """Run one way of telling in a thread that keeps nobody from leaving; each problem is said once."""

        def work() -> None:
            with self._running:
                problem = tell(notice)
            if problem and problem not in self._said:
                self._said.add(problem)
                self._say(problem)

        threading.Thread(target=work, name="notice", daemon=True).start()

    @cached_property
    def _way(self) -> TerminalWay:
        from tui.notices.terminal import TerminalWay

        return TerminalWay(self._settings.terminal, os.environ)

    def _terminal(self, notice: Notice) -> str:
        if sequence := self._way.sequence(notice.headline, notice.body):
            self._write(sequence)
        return self._way.problem

    def _desktop(self, notice: Notice) -> str:
        from tui.notices import programs

        command = programs.desktop_command(notice.headline, notice.body, alarm=notice.alarm)
        if not command:
            return "desktop notices need notify-send (package libnotify-bin) or macOS; desktop = false turns them off"
        problem = programs.run(command)
        return f"the desktop was not notified: {problem}" if problem else ""

    def _command(self, notice: Notice) -> str:
        import json

        from tui.notices import programs

        problem = programs.run(self._settings.on_verdict, json.dumps(verdict_json(notice), ensure_ascii=False) + "\n")
        return f"on_verdict: {problem}" if problem else ""
