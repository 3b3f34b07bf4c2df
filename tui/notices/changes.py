"""Which changes of a verdict are worth telling: each once, in the words of a notice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tui.safetext import clean

if TYPE_CHECKING:
    from tui.model import LaunchView, Snapshot

TOLD = ("suspect", "hung", "crashed", "ready")
ALARMS = frozenset({"suspect", "hung", "crashed"})

AGAIN_AFTER_S = 300.0
"""The same verdict of a launch is told again only after this long: one that comes and goes would be noise."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A launch has come to one of :data:`TOLD`; ``before`` is its last known verdict, ``None`` at first sight."""

    view: LaunchView
    before: str | None
    t: float
    wall: float

    @property
    def alarm(self) -> bool:
        return self.view.verdict.id in ALARMS

    @property
    def headline(self) -> str:
        """``HUNG: sglang moe-64 on gpu01``, with the first two hosts."""
        launch = self.view.launch
        hosts = ", ".join(launch.hosts[:2]) + (f" and {len(launch.hosts) - 2} more" if len(launch.hosts) > 2 else "")
        return clean(f"{self.view.verdict.id.upper()}: {launch.name}{f' on {hosts}' if hosts else ''}", 120)

    @property
    def body(self) -> str:
        """The first reason, else the cause; it may be empty."""
        verdict = self.view.verdict
        return clean(next(iter(verdict.reasons), (verdict.cause or "").replace("_", " ")), 240)


@dataclass(slots=True)
class _Told:
    """What is known of a launch: its last verdict but ``unknown``, and when each was told of this attempt."""

    attempt: int = 0
    last: str | None = None
    at: dict[str, float] = field(default_factory=dict[str, float])


class Changes:
    """Finds them from snapshot to snapshot.

    ``unknown`` neither is told nor makes the verdict after it a new one. A launch that is ``ready`` when it is first
    seen has not become so; one that is hung by then is told.
    """

    def __init__(self) -> None:
        self._told: dict[str, _Told] = {}

    def feed(self, snapshot: Snapshot) -> list[Notice]:
        """The notices that this snapshot gives rise to, in the order of its launches."""
        found = (self._change(view, snapshot) for view in snapshot.launches)
        return [notice for notice in found if notice is not None]

    def _change(self, view: LaunchView, snapshot: Snapshot) -> Notice | None:
        told, verdict = self._told.setdefault(view.launch.id, _Told()), view.verdict.id
        attempt = max(view.launch.attempt, view.verdict.attempt)
        if attempt != told.attempt:
            told.attempt, told.at = attempt, {}
        if verdict in ("unknown", told.last):
            return None
        before, told.last = told.last, verdict
        if verdict not in TOLD or (before is None and verdict == "ready"):
            return None
        if snapshot.t - told.at.get(verdict, -AGAIN_AFTER_S) < AGAIN_AFTER_S:
            return None
        told.at[verdict] = snapshot.t
        return Notice(view, before, snapshot.t, snapshot.wall)
