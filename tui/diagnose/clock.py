"""How long nothing has moved, by what was observed: gaps in observation do not count, and a single late line or page-in
does not wind the clock back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tui.diagnose.observe import Scene

DOUBT_S = 32.0
"""After so much quiet, one look window with a little work in it is not yet a movement."""

SECOND_LINE_S = (1.0, 45.0)
"""While a launch is suspect or hung, a new kind of line is believed when another follows within this: side threads and
watchdogs print a warning now and then, a launch that goes on prints more."""

RHYTHM_S = (8.0, 120.0)
"""Pauses between two pieces of work that count as a phase's own rhythm, shortest and longest."""


class Clock:
    """What is carried from verdict to verdict: since when nothing moves, and how much of that was not observed.

    ``moved``: when anything moved last. ``solid``: when something moved last that no wait looks like; a busy core
    alone moves the first and not the second. ``heard``: the last line that was believed to be news. ``pauses``: the
    longest pause, by phase, after which work came back. ``slow``: seconds, by cause, that a healthy slowness was seen.
    """

    def __init__(self, memory: Mapping[str, Any], scene: Scene) -> None:
        start = scene.now - scene.watched_s
        begun = max(start, scene.news_t or start)
        self.before: float | None = memory.get("now")
        self.moved: float = memory.get("moved", begun)
        self.solid: float = memory.get("solid", begun)
        self.heard: float | None = memory.get("heard", scene.news_t)
        self.blind: float = memory.get("blind", 0.0)
        self._unseen: float = scene.now - self.before if self.before is not None else 0.0
        """What this step adds to it where it was not observed; a step is noted more than once."""
        self.doubt: float | None = memory.get("doubt")
        self.slow: dict[str, float] = dict(memory.get("slow", {}))
        self.pauses: dict[str, float] = dict(memory.get("pauses", {}))
        self.built: tuple[str, ...] = tuple(memory.get("built", ()))
        """Phases in which children or compilers were seen at work: builds pause between two files."""
        self.stalled_since: float | None = memory.get("stalled_since")
        self.was_grave: bool = memory.get("grave", False)
        self.weak = False
        """Whether only a busy core was seen now."""
        self.held: Mapping[str, Any] | None = memory.get("held")
        self.rested: bool = memory.get("rested", False)
        """Whether it was seen ready and not stuck."""
        self.rest: dict[str, Any] = dict(memory.get("rest", {}))
        """Where its ranks rest between requests (:mod:`tui.diagnose.rest`)."""
        self._pending: float | None = memory.get("pending")
        self._now = scene.now
        self._hear(scene)

    def _hear(self, scene: Scene) -> None:
        """Take in what the logs said new."""
        news, progress = scene.news_t, scene.progress_t
        if news is None or (self.heard is not None and news <= self.heard):
            return
        marked = progress is not None and (self.heard is None or progress > self.heard)
        low, high = SECOND_LINE_S
        if not self.was_grave or marked or (self._pending is not None and low <= news - self._pending <= high):
            self.heard, self._pending = news, None
        elif self._pending is None or news - self._pending > high:
            self._pending = news

    def note(self, scene: Scene, *, solid_t: float | None, weak_t: float | None = None) -> None:
        """``solid_t``: when, in the look window, somebody was last seen at work; ``weak_t``: when a core was busy."""
        self.weak = solid_t is None and weak_t is not None
        self._doubt(scene, at_work=solid_t is not None or weak_t is not None)
        if self.doubtful:
            solid_t = weak_t = None
        moved = max((t for t in (solid_t, self.heard) if t is not None and t > self.solid), default=None)
        if moved is not None:
            self._learn(scene, moved)
            self.solid, self.blind = moved, 0.0
        elif weak_t is not None and weak_t > self.moved:
            self.blind = 0.0
        elif not scene.observed and scene.workers:
            self.blind += self._unseen
            self._unseen = 0.0
        self.moved = max(self.moved, self.solid, weak_t or self.solid)

    def _doubt(self, scene: Scene, *, at_work: bool) -> None:
        """While it is suspect or hung, work that was seen in one look window only is not believed yet."""
        now = self._now
        if not at_work or not self.was_grave:
            self.doubt = None
        elif self.doubt is None and now - self.moved >= max(DOUBT_S, 2.0 * scene.look_s):
            self.doubt = now
        elif self.doubt is not None and now - self.doubt >= 0.9 * scene.look_s:
            self.doubt, self.was_grave = None, False

    def count(self, cause: str) -> None:
        """Add the time since the step before to what a healthy slowness or wait has cost."""
        if self.before is not None:
            self.slow[cause] = self.slow.get(cause, 0.0) + self._now - self.before

    def main_cause(self) -> tuple[str, float]:
        """What held the start up longest, and for how many seconds."""
        return max(self.slow.items(), key=lambda item: item[1], default=("idle", 0.0))

    def note_build(self, phase: str) -> None:
        if phase not in self.built:
            self.built = (*self.built[-7:], phase)

    def _learn(self, scene: Scene, moved: float) -> None:
        low, high = RHYTHM_S
        pause = min(high, moved - self.solid - self.blind)
        if pause >= low and pause > self.pauses.get(scene.phase, 0.0) and not self._first_in(scene):
            self.pauses[scene.phase] = pause

    @staticmethod
    def _first_in(scene: Scene) -> bool:
        """Whether the phase began only now: the pause before it was another phase's."""
        since = scene.run.phase_since
        return since is not None and scene.now - since <= 2.0 * scene.interval_s

    @property
    def doubtful(self) -> bool:
        """Whether work was seen only just now, after nothing for long: a page-in, a poll, a driver's tick."""
        return self.doubt is not None

    @property
    def quiet_s(self) -> float:
        """Observed seconds without a movement that no wait looks like."""
        return max(0.0, self._now - self.solid - self.blind)

    @property
    def still_s(self) -> float:
        """Observed seconds without any movement, a core that passed for work included."""
        return max(0.0, self._now - max(self.moved, self.solid) - self.blind)

    def moved_here(self, scene: Scene) -> bool:
        """Whether anything but the log was seen to move since it is watched."""
        start = scene.now - scene.watched_s
        return self.solid > max(start + scene.look_s, self.heard or start)

    def stall(self, stalled: bool) -> float:
        """Note whether nobody is seen at work now; for how many seconds that has been judged so."""
        if not stalled:
            self.stalled_since = None
        elif self.stalled_since is None:
            self.stalled_since = self._now
        return self._now - (self.stalled_since if self.stalled_since is not None else self._now)

    def memory(self) -> dict[str, Any]:
        return {
            "now": self._now,
            "moved": self.moved,
            "solid": self.solid,
            "heard": self.heard,
            "blind": self.blind,
            "doubt": self.doubt,
            "slow": self.slow,
            "pauses": self.pauses,
            "built": self.built,
            "stalled_since": self.stalled_since,
            "rested": self.rested,
            "pending": self._pending,
            "held": self.held,
            "rest": self.rest,
        }
