"""How long nothing has moved, by what was observed: gaps in observation do not count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tui.diagnose.observe import Scene

DOUBT_S = 32.0
"""After so much quiet, one look window with a little work in it is not yet a movement."""


class Clock:
    """What is carried from verdict to verdict: since when nothing moves, and how much of that was not observed."""

    def __init__(self, memory: Mapping[str, Any], scene: Scene) -> None:
        start = min((host.first_t for host in scene.hosts if host.first_t is not None), default=scene.now)
        self.before: float | None = memory.get("now")
        self.moved: float = memory.get("moved", max(start, scene.news_t or start))
        self.credit: float = memory.get("credit", 0.0)
        self.blind: float = memory.get("blind", 0.0)
        self.built: str = memory.get("built", "")
        self.doubt: float | None = memory.get("doubt")
        self.slow: dict[str, float] = dict(memory.get("slow", {}))
        self._now = scene.now
        self._news = scene.news_t

    def note(self, scene: Scene, moves: bool) -> None:
        """``moves``: somebody was seen at work in the look window. After a long quiet, one window is not enough."""
        self._news = scene.news_t
        if not moves:
            self.doubt = None
        elif self.doubt is None and self._now - self.moved >= max(DOUBT_S, 2.0 * scene.look_s):
            self.doubt = self._now
        elif self.doubt is not None and self._now - self.doubt >= 0.9 * scene.look_s:
            self.doubt = None
        if moves and self.doubt is None:
            self.moved, self.credit, self.blind = self._now, 0.9 * scene.look_s, 0.0
        elif self._news is not None and self._news > self.moved:
            self.moved, self.credit, self.blind = self._news, 0.0, 0.0
        elif not scene.observed and scene.workers:
            self.blind += self._now - (self.before if self.before is not None else self._now)

    @property
    def doubtful(self) -> bool:
        """Whether work was seen only just now, after nothing for long: a page-in, a poll, a driver's tick."""
        return self.doubt is not None

    @property
    def quiet_s(self) -> float:
        """Observed seconds without movement. Work that a look window still shows ended near that window's start."""
        silent = self._now - self._news if self._news is not None else float("inf")
        since_move = self._now - self.moved + (self.credit if self._now > self.moved else 0.0)
        return max(0.0, min(silent, since_move) - self.blind)

    def memory(self) -> dict[str, Any]:
        return {
            "now": self._now,
            "moved": self.moved,
            "credit": self.credit,
            "blind": self.blind,
            "built": self.built,
            "doubt": self.doubt,
            "slow": self.slow,
        }
