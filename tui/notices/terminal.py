"""Notifications of the terminal itself: which sequence it obeys, and how that gets through tmux.

OSC 9 is iTerm2's ("Proprietary Escape Codes" in its documentation), also obeyed by WezTerm, Ghostty, kitty and Warp;
OSC 777 is rxvt-unicode's (its ``notify`` extension), also by foot, Ghostty, WezTerm, kitty and Warp. Some terminals
write out what they do not know, so that only known ones are sent any.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

from tui.safetext import clean

_OSC9, _OSC777 = "osc9", "osc777"

# By TERM_PROGRAM, LC_TERMINAL (iTerm2's, which ssh takes along), the terminal's answer to XTVERSION, or TERM: the word
# that each begins with, in lower case.
_KNOWN = (
    ("iterm", _OSC9),
    ("wezterm", _OSC777),
    ("ghostty", _OSC777),
    ("xterm-ghostty", _OSC777),
    ("kitty", _OSC777),
    ("xterm-kitty", _OSC777),
    ("foot", _OSC777),
    ("warp", _OSC777),
    ("rxvt-unicode", _OSC777),
)
# By a variable that the terminal sets in all it starts, and that tmux hands on.
_KNOWN_BY_VARIABLE = (
    ("ITERM_SESSION_ID", _OSC9),
    ("KITTY_WINDOW_ID", _OSC777),
    ("WEZTERM_PANE", _OSC777),
    ("GHOSTTY_RESOURCES_DIR", _OSC777),
)

TMUX_CLOSED = "tmux lets no notification through; to change that: tmux set -g allow-passthrough on"
UNKNOWN = (
    "this terminal is not known to have notifications; if it has, name the sequence in the configuration: "
    'terminal = "osc9" or "osc777"'
)


def recognised(environ: Mapping[str, str], *more: str) -> str | None:
    """``osc9`` or ``osc777`` by what the environment and ``more`` (names of the terminal) say; ``None`` if neither."""
    names = [environ.get(key, "") for key in ("TERM_PROGRAM", "LC_TERMINAL", "TERM")]
    for name in (*more, *names):
        for begin, way in _KNOWN:
            if name.lower().startswith(begin):
                return way
    return next((way for key, way in _KNOWN_BY_VARIABLE if environ.get(key)), None)


class TerminalWay:
    """How this terminal is notified, found out once; asking tmux takes a moment, so not in the loop of a screen."""

    def __init__(self, wanted: bool | str, environ: Mapping[str, str]) -> None:
        """``wanted``: a sequence by name, or ``True`` for the one that the terminal is known to obey."""
        self._tmux = bool(environ.get("TMUX"))
        names, self.problem = (), ""
        if self._tmux:
            answer = _ask_tmux("#{client_termtype}\n#{client_termname}\n#{allow-passthrough}").split("\n")
            names = tuple(answer[:2])
            if len(answer) >= 3 and answer[2] in ("off", "0"):
                self.problem = TMUX_CLOSED
        self.way = wanted if isinstance(wanted, str) else recognised(environ, *names)
        if self.way is None:
            self.problem = UNKNOWN

    def sequence(self, headline: str, body: str) -> str:
        """What is to be written; empty where nothing would come of it."""
        if self.way is None or self.problem:
            return ""
        return (
            through_tmux(notification(self.way, headline, body))
            if self._tmux
            else notification(self.way, headline, body)
        )


def notification(way: str, headline: str, body: str) -> str:
    """The sequence itself. Texts are cleaned here too: an escape in them would be obeyed."""
    headline, body = clean(headline, 120), clean(body, 240)
    if way == _OSC9:
        return f"\x1b]9;{headline}{f' — {body}' if body else ''}\x07"
    return f"\x1b]777;notify;{headline.replace(';', ',')};{body}\x07"


def through_tmux(sequence: str) -> str:
    """``sequence`` wrapped so that tmux hands it to its own terminal (tmux(1), ``allow-passthrough``)."""
    return "\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\"


def _ask_tmux(form: str) -> str:
    try:
        asked = ["tmux", "display-message", "-p", form]
        return subprocess.run(asked, capture_output=True, text=True, errors="replace", timeout=2, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
