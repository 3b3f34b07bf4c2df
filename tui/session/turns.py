"""Whose turn it is to be judged: every launch soon, those at rest more rarely, and of many some at a time, so that the
screen goes on answering keys and judging takes a bounded share of the time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tui.model import Launch, LaunchView

EVERY_S = 0.9
AT_REST_EVERY_S = 1.9
"""So often while nothing happens: judging is the largest part of what a screen costs that is left open all day."""

AT_REST = frozenset({"hung", "crashed", "ended", "ready"})
AT_REST_AFTER_S = 30.0
"""A verdict of :data:`AT_REST` that has stood for so long is not expected to change."""

AT_ONCE_S = 0.05
"""After so much CPU time the next ones wait for another turn; one of each kind is always judged."""

PAUSE_PER_COST, AT_REST_PAUSE_PER_COST = 12.0, 25.0
"""After a turn, so many times the CPU time that it took pass at least until the next."""


@dataclass(frozen=True, slots=True)
class _Judged:
    """A launch's newest view, when it was made, and how much news of its hosts there had been by then."""

    view: LaunchView
    t: float
    news: int


@dataclass(slots=True)
class _Queue:
    """Launches of one kind take their turns together."""

    every_s: float
    pause_per_cost: float
    due_t: float = -1e9


class Turns:
    """One for all launches of a session. Times are seconds on the monitor's timeline."""

    def __init__(self) -> None:
        self.views: tuple[LaunchView, ...] = ()
        """The newest view of every launch that has been judged, in the launches' order."""
        self._active = _Queue(EVERY_S, PAUSE_PER_COST)
        self._at_rest = _Queue(AT_REST_EVERY_S, AT_REST_PAUSE_PER_COST)
        self._judged: dict[str, _Judged] = {}
        self._news: Counter[str] = Counter()
        self._loaded = False

    def news(self, host: str) -> None:
        """Something came from a host that may end the rest of its launches."""
        self._news[host] += 1

    def take(self, launches: Sequence[Launch], judge: Callable[[Launch], LaunchView], now: float) -> bool:
        """Judge those whose turn it is, and bring :attr:`views` up to date; says whether any is new."""
        for gone in self._judged.keys() - {launch.id for launch in launches}:
            del self._judged[gone]
        until = time.thread_time() + AT_ONCE_S
        resting = {launch.id for launch in launches if self._rests(launch, now)}
        active = [launch for launch in launches if launch.id not in resting]
        at_rest = [launch for launch in launches if launch.id in resting]
        made = self._turn(self._active, active, judge, now, until)
        made |= self._turn(self._at_rest, at_rest, judge, now, until)
        if made or len(self.views) != len(self._judged):
            self.views = tuple(self._judged[launch.id].view for launch in launches if launch.id in self._judged)
        return made

    def _rests(self, launch: Launch, now: float) -> bool:
        last = self._judged.get(launch.id)
        if last is None or last.news != self._heard(launch):
            return False
        return last.view.verdict.id in AT_REST and now - last.view.verdict.since >= AT_REST_AFTER_S

    def _heard(self, launch: Launch) -> int:
        return sum(self._news[host] for host in launch.hosts)

    def _waits_since(self, launch: Launch) -> float:
        """When it was judged; one that has changed since, or never was, has waited longest."""
        last = self._judged.get(launch.id)
        return -1e9 if last is None or last.view.launch != launch else last.t

    def _turn(
        self, queue: _Queue, launches: list[Launch], judge: Callable[[Launch], LaunchView], now: float, until: float
    ) -> bool:
        """Those that wait longest first; none after ``until`` on the clock of the thread's CPU time."""
        if now < queue.due_t:
            return False
        began, made = time.thread_time(), False
        for since, launch in sorted(((self._waits_since(launch), launch) for launch in launches), key=lambda w: w[0]):
            if now - since < queue.every_s or (made and time.thread_time() > until):
                break
            self._judged[launch.id] = _Judged(judge(launch), now, self._heard(launch))
            made = True
        if made and self._loaded:  # the first time it loads the rules, too
            queue.due_t = now + queue.pause_per_cost * (time.thread_time() - began)
        self._loaded = self._loaded or made
        return made
