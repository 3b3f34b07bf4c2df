"""Which moment is looked at: now, one that was frozen, or one that was stepped back to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tui.ui.past import Past

if TYPE_CHECKING:
    from tui.model import LaunchView, Snapshot


class Moment:
    """Takes snapshots as they come and gives the one to be shown. While one is held, newer ones only wait."""

    def __init__(self, first: Snapshot) -> None:
        self.latest = first
        self._held: Snapshot | None = None
        self._past = Past()

    def take(self, snapshot: Snapshot) -> None:
        self.latest = snapshot
        self._past.keep(snapshot)

    @property
    def held(self) -> bool:
        return self._held is not None

    @property
    def shown(self) -> Snapshot:
        """The snapshot to be shown, with the stacks that were taken until now and the whole course of its launches."""
        if self._held is None or self._held is self.latest:
            return self.latest
        courses = {view.launch.id: view.course for view in self.latest.launches}
        launches = tuple(replace(view, course=courses.get(view.launch.id, view.course)) for view in self._held.launches)
        return replace(self._held, launches=launches, dumps=self.latest.dumps)

    def hold_or_go_on(self) -> None:
        """Freeze now, or go on with what is newest."""
        self._held = self.latest if self._held is None else None

    def look_at(self, t: float) -> None:
        """Look at the moment ``t`` on the monitor's timeline (s); at or past the newest one, go on with that."""
        self._held = None if t >= self.latest.t else self._past.at(t)

    def step(self, seconds: float) -> None:
        """Step back (negative) or forth; over a stretch of which less was kept, to the next kept moment."""
        now = (self._held or self.latest).t
        self.look_at(now + seconds)
        if self._held is not None and seconds > 0 and self._held.t <= now:
            self.look_at(self._past.after(now))

    def step_change(self, direction: int, launch: LaunchView | None) -> None:
        """Step to where the verdict or the phase of ``launch`` changed last before this moment, or next after it."""
        now = (self._held or self.latest).t
        changes = sorted(t for t in _changes(launch) if (t < now - 1.0 if direction < 0 else t > now + 0.5))
        if changes:
            self.look_at(changes[-1 if direction < 0 else 0] + 1.0)  # the first picture after it
        elif direction > 0:
            self._held = None


def _changes(launch: LaunchView | None) -> list[float]:
    if launch is None:
        return []
    return [t for t, _ in launch.course.verdicts] + [span.start for span in launch.spans]
