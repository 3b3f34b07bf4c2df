"""Whose turn it is to be judged: the one that is looked at first, every other one soon, those at rest more rarely, and
of many some at a time, so that the screen goes on answering keys and judging takes a bounded share of the time."""

from __future__ import annotations

import math
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

    at_rest: bool
    due_t: float = -1e9

    @property
    def every_s(self) -> float:
        return AT_REST_EVERY_S if self.at_rest else EVERY_S

    @property
    def pause_per_cost(self) -> float:
        return AT_REST_PAUSE_PER_COST if self.at_rest else PAUSE_PER_COST


class Turns:
    """One for all launches of a session. Times are seconds on the monitor's timeline."""

    def __init__(self) -> None:
        self.views: tuple[LaunchView, ...] = ()
        """The newest view of every launch that has been judged, in the launches' order."""
        self.in_front: str | None = None
        """The id of the launch that is looked at: it need not wait for the others, whose rows nobody sees."""
        self.failed: Exception | None = None
        """What the last turn came to grief at; the others were judged all the same."""
        self._queues = {(front, rests): _Queue(rests) for front in (True, False) for rests in (False, True)}
        self._judged: dict[str, _Judged] = {}
        self._failed_t: dict[str, float] = {}
        self._news: Counter[str] = Counter()
        self._loaded = False

    def news(self, host: str) -> None:
        """Something came from a host that may end the rest of its launches."""
        self._news[host] += 1

    def take(
        self, launches: Sequence[Launch], judge: Callable[[Launch], LaunchView], now: float, *, everyone: bool = False
    ) -> bool:
        """Judge those whose turn it is, or ``everyone``, and bring :attr:`views` up to date; says if any is new."""
        ids = {launch.id for launch in launches}
        for known in (self._judged, self._failed_t):
            for gone in known.keys() - ids:
                del known[gone]
        self.failed = None
        until = math.inf if everyone else time.thread_time() + AT_ONCE_S
        waiting: dict[tuple[bool, bool], list[Launch]] = {kind: [] for kind in self._queues}
        for launch in launches:
            waiting[launch.id == self.in_front, self._rests(launch, now)].append(launch)
        made = False
        for kind, queue in self._queues.items():
            made |= self._turn(queue, waiting[kind], judge, now, until)
        if made or len(self.views) != len(self._judged):
            self.views = tuple(self._judged[launch.id].view for launch in launches if launch.id in self._judged)
        return made

    def _rests(self, launch: Launch, now: float) -> bool:
        """Whether nothing is expected of it: no news has come, and nothing was seen to move that may end its rest."""
        last = self._judged.get(launch.id)
        if last is None or last.news != self._heard(launch):
            return False
        verdict = last.view.verdict
        moves = verdict.memory.get("doubt") is not None
        return verdict.id in AT_REST and now - verdict.since >= AT_REST_AFTER_S and not moves

    def _heard(self, launch: Launch) -> int:
        return sum(self._news[host] for host in launch.hosts)

    def _waits_since(self, launch: Launch) -> float:
        """When it was judged; one that has changed since, or never was, has waited longest."""
        failed_t = self._failed_t.get(launch.id)
        if failed_t is not None:
            return failed_t
        last = self._judged.get(launch.id)
        return -1e9 if last is None or last.view.launch != launch else last.t

    def _turn(
        self, queue: _Queue, launches: list[Launch], judge: Callable[[Launch], LaunchView], now: float, until: float
    ) -> bool:
        """Those that wait longest first; none after ``until`` on the clock of the thread's CPU time."""
        everyone = until == math.inf
        if now < queue.due_t and not everyone:
            return False
        began, made, tried = time.thread_time(), False, False
        for since, launch in sorted(((self._waits_since(launch), launch) for launch in launches), key=lambda w: w[0]):
            if not everyone and (now - since < queue.every_s or (tried and time.thread_time() > until)):
                break
            tried = True
            try:
                self._judged[launch.id] = _Judged(judge(launch), now, self._heard(launch))
            except Exception as error:  # a rule of ours that breaks on one launch must not blind the rest
                self.failed, self._failed_t[launch.id] = self.failed or error, now
                continue
            self._failed_t.pop(launch.id, None)
            made = True
        if tried and self._loaded:  # the first time it loads the rules, too
            queue.due_t = now + queue.pause_per_cost * (time.thread_time() - began)
        self._loaded = self._loaded or tried
        return made
