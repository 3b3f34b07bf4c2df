"""The title of the terminal's window: the gravest verdict, while the monitor runs; then what it was."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from tui.safetext import clean
from tui.ui.words import ALARMS, verdict_glyph, verdict_word

if TYPE_CHECKING:
    from tui.model import Snapshot

_GRAVEST_FIRST = ("hung", "crashed", "suspect")

# XTWINOPS 22 and 23 of xterm ("XTerm Control Sequences"): push and pop the title; tmux knows them too. A terminal that
# has no such stack gets an empty title at the end, which lets it and its shell choose again.
_PUSH, _POP = "\x1b[22;2t", "\x1b[23;2t"
_NOT_FOR = ("linux", "vt", "ansi", "cons", "dumb", "eterm")
"""Terminals by the begin of TERM that have no title, some of which would write it on the screen."""


def title_of(snapshot: Snapshot) -> str:
    """``✗ HUNG sglang moe-64``; of several launches the gravest, and how many more are in alarm."""
    launches = snapshot.launches
    if not launches:
        return "gputop-hang"
    bad = [view for view in launches if view.verdict.id in ALARMS]
    bad.sort(key=lambda view: _GRAVEST_FIRST.index(view.verdict.id))
    view = (bad or launches)[0]
    more = f" +{len(bad) - 1}" if len(bad) > 1 else ""
    verdict = view.verdict.id
    return clean(f"{verdict_glyph(verdict)} {verdict_word(verdict)} {view.launch.name}{more}", 80)


class WindowTitle:
    """Keeps the title. ``write`` sends to the terminal as long as the screen stands."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._shown: str | None = None
        self._has_title = not os.environ.get("TERM", "dumb").startswith(_NOT_FOR)
        self._utf8 = "utf" in (getattr(sys.__stderr__, "encoding", None) or "").lower()

    def show(self, snapshot: Snapshot) -> None:
        title = title_of(snapshot)
        if not self._has_title or title == self._shown:
            return
        text = title if self._utf8 else title.encode("ascii", "ignore").decode().strip()
        self._write(f"{'' if self._shown else _PUSH}\x1b]2;{text}\x07")
        self._shown = title

    def give_back(self) -> None:
        """Put back what the title was, straight to the terminal: the screen has let go of it by now."""
        if self._shown is not None and sys.__stderr__ is not None:
            self._shown = None
            sys.__stderr__.write(f"\x1b]2;\x07{_POP}")
            sys.__stderr__.flush()
