"""What a launch teaches: the phases that were truly measured, and only once it has become ready or trains steadily."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tui.history import History
from tui.model import LaunchView, PhaseId, PhaseSpan, Verdict
from tui.record.usual import Took

STEADY_S = 20.0
"""A training job whose steps have come for so long trains."""

SURE_S = 1.5
"""Where the first phase begins so near to the first process's start, it began with it."""

LATE_S = 3.0
"""What was written in a gap of the observation arrives within this after it."""

BRIEF_S = 1.0
"""Shorter than a look, and often only the order in which the lines of several ranks came."""

OPEN_ENDED = frozenset({"unknown", "serving", "training_step", "shutdown"})
"""Phases whose length tells nothing about a start."""

STALLED = frozenset({"waiting", "suspect"})
"""Verdicts while nobody is seen at work."""

Place = tuple[PhaseId, int]
"""A phase, and the how-manieth time the launch is in it."""


class Phase(NamedTuple):
    """A phase that was measured from its beginning to its end."""

    phase: PhaseId
    nth: int
    took: Took


def arrived(verdict: Verdict) -> bool:
    """Whether the start is over and was a good one: a server is ready, a training job makes its steps."""
    if verdict.id == "ready":
        return True
    steps = verdict.phase == "training_step" and verdict.progress is not None and verdict.progress.rate
    return bool(steps) and verdict.id == "progressing" and verdict.t - verdict.phase_since >= STEADY_S


def by_place(spans: Iterable[PhaseSpan]) -> dict[Place, PhaseSpan]:
    """The phases so far in their order, without brief ones; what those only interrupt is one."""
    joined: list[PhaseSpan] = []
    for span in spans:
        if span.end is not None and span.end - span.start < BRIEF_S:
            continue
        if joined and joined[-1].phase == span.phase:
            joined[-1] = PhaseSpan(span.phase, joined[-1].start, span.end)
        else:
            joined.append(span)
    times: Counter[PhaseId] = Counter()
    found: dict[Place, PhaseSpan] = {}
    for span in joined:
        times[span.phase] += 1
        found[span.phase, times[span.phase]] = span
    return found


class Watch:
    """What must be remembered of one attempt of a launch until it has arrived. ``note`` is called at every verdict."""

    def __init__(self, since: float) -> None:
        self.since = since
        """When it was first seen; what happened before was not measured."""
        self._quiet: dict[Place, float] = {}
        self._hung: set[Place] = set()
        self._gaps: list[tuple[float, float]] = []
        self._heard: dict[str, float] = {}

    def note(self, history: History, view: LaunchView) -> None:
        self._note_gaps(history, view.launch.hosts)
        verdict = view.verdict
        place = next(reversed(by_place(view.spans)), None)
        if place is None:
            return
        if verdict.id == "hung":
            self._hung.add(place)
        if verdict.id in STALLED and verdict.still_s is not None:
            seen_s = verdict.t - (self._gaps[-1][1] if self._gaps else self.since)
            self._quiet[place] = max(self._quiet.get(place, 0.0), min(verdict.still_s, seen_s))

    def _note_gaps(self, history: History, hosts: tuple[str, ...]) -> None:
        for name in hosts:
            host = history.host(name)
            if host is None or host.latest is None:
                continue
            before, now = self._heard.get(name, host.latest.t), host.latest.t
            self._heard[name] = now
            if now - before > max(5.0, host.gap_s):
                self._gaps = [*self._gaps[-63:], (before, now)]

    def phases(self, view: LaunchView, started_t: float | None) -> Iterator[Phase]:
        """The finished phases whose both ends were heard when they came, and in which nobody called it hung: what went
        on after that may have been freed by hand. ``started_t``: when its first process started."""
        for number, (place, span) in enumerate(by_place(view.spans).items()):
            own_start = number == 0 and view.verdict.attempt == 1 and _near(span.start, started_t)
            begun = own_start or self._saw(span.start)
            if span.end is None or not begun or not self._saw(span.end):
                continue
            if span.phase not in OPEN_ENDED and place not in self._hung:
                yield Phase(*place, Took(span.end - span.start, self._quiet.get(place, 0.0)))

    def _saw(self, t: float) -> bool:
        return t >= self.since and not any(start < t <= end + LATE_S for start, end in self._gaps)


def _near(t: float, started_t: float | None) -> bool:
    return started_t is not None and abs(t - started_t) <= SURE_S
