"""The launches on the watched hosts: found, followed, judged, and their stacks taken.

All that the session needs beside the hosts themselves. It is imported when their first readings stand on the screen,
because that takes longer than the readings do.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from tui.collect.host import Host
from tui.model import Dump, Fact, Launch, LaunchView, Sample, Wanted
from tui.record.baselines import Baselines
from tui.safetext import clean
from tui.session.book import HostBook
from tui.session.capture import Capture
from tui.session.discover import Discovery
from tui.session.engine import Engine
from tui.session.follow import Follower
from tui.session.looks import Looks
from tui.session.own_markers import OwnMarkers
from tui.session.plan import Plan
from tui.session.turns import Turns

AGAIN_S = 180.0
"""Stacks asked for again within so long mean: those without C frames did not tell enough."""


class Launches:
    """``look(host, what, arguments)`` asks an agent, ``spawn(work, name)`` starts a task, ``changed`` is called when
    there is something new to be shown outside a verdict's turn."""

    def __init__(
        self,
        plan: Plan,
        hosts: Mapping[str, Host],
        books: Mapping[str, HostBook],
        *,
        look: Callable[[str, str, Mapping[str, Any]], Awaitable[dict[str, Any]]],
        spawn: Callable[[Any, str], None],
        changed: Callable[[], None],
    ) -> None:
        self._hosts = hosts
        self._spawn = spawn
        self._changed = changed
        self._markers = OwnMarkers()
        self._baselines = Baselines()
        self._engine = Engine(books.values(), self._markers, self._baselines.usual, plan.least)
        for host in hosts.values():
            for _, path in plan.logs:
                host.names.learn(path)
        named = [(name, clean(path)) for name, path in plan.logs]
        self._discovery = Discovery(pids=plan.pids, logs=named, ports=plan.ports)
        self._follower = Follower(hosts, self._discovery, self._markers)
        self._capture = Capture(hosts, self._on_dump)
        self._looks = Looks(look, spawn)
        self._dumps: dict[int, Dump] = {}
        self._turns = Turns()

    @property
    def views(self) -> tuple[LaunchView, ...]:
        return self._turns.views

    @property
    def dumps(self) -> tuple[Dump, ...]:
        return tuple(self._dumps.values())

    @property
    def problems(self) -> list[str]:
        """A sentence for each of the user's files that could not be used."""
        return self._markers.problems

    def on_hello(self, host: str) -> None:
        self._spawn(self._follower.begin(host), f"follow {host}")

    def on_sample(self, sample: Sample) -> None:
        """Take in what a host's book has already."""
        host = sample.host
        facts = self._looks.take(host)
        if facts:
            sample = replace(sample, facts=(*sample.facts, *facts))
        self._engine.history.add(sample)
        self._discovery.feed(sample)
        if sample.gone or any(log.lines or log.change for log in sample.logs):
            self._turns.news(host)
        self._follower.note(sample)
        if self._follower.behind(host):
            self._spawn(self._follower.refocus(host), f"focus {host}")

    def attend(self, launch_id: str | None) -> None:
        """This launch is looked at: its rows and its verdict are to be as new as its hosts' readings."""
        self._turns.in_front = launch_id

    def judge(self, now: float, *, everyone: bool = False) -> None:
        """Bring :attr:`views` up to ``now``, see :class:`tui.session.turns.Turns`; of ``everyone`` where there is no
        screen that waits. Raises what a rule raised, after the others were judged."""
        wanted: list[Wanted] = []

        def judged(launch: Launch) -> LaunchView:
            view, wants = self._engine.judge(launch, now)
            wanted.extend(wants)
            return view

        if self._turns.take(self._discovery.launches(), judged, now, everyone=everyone):
            self._baselines.note(self._engine.history, self.views)
            self._looks.want((want for want in wanted if want.host in self._hosts), now)
        if self._turns.failed is not None:
            raise self._turns.failed

    async def take_stacks(self, launch_id: str) -> None:
        """Stacks of all ranks of a launch; nothing of it pauses a target. Where that was done a moment ago, or the
        launch is suspect or hung, native stacks follow, for which each rank is paused."""
        launch = self._launch(launch_id)
        if launch is not None:
            dump = await self._capture.stacks(launch, native=self._may_pause(launch_id))
            if dump.evidence is not None:
                self._looks.note(launch.hosts[0], Fact(time.monotonic(), "stacks", dump.evidence))

    async def abort(self, launch_id: str) -> None:
        """SIGABRT to all ranks of a launch, after their stacks were taken without harm."""
        launch = self._launch(launch_id)
        if launch is not None:
            sent = time.monotonic()
            await self._capture.abort(launch, self._last_stacks(launch_id))
            for host in launch.hosts:
                self._looks.note(host, Fact(sent, "sigabrt_sent", launch_id))

    async def close(self) -> None:
        await self._baselines.close()

    def _on_dump(self, dump: Dump) -> None:
        self._dumps[dump.id] = dump
        self._changed()

    def _may_pause(self, launch_id: str) -> bool:
        last = self._last_stacks(launch_id)
        again = last is not None and time.time() - last.started_wall < AGAIN_S
        verdict = next((v.verdict.id for v in self.views if v.launch.id == launch_id), "unknown")
        return again or verdict in ("suspect", "hung")

    def _last_stacks(self, launch_id: str) -> Dump | None:
        done = [d for d in self._dumps.values() if d.launch == launch_id and d.method == "stacks" and d.done]
        return done[-1] if done else None

    def _launch(self, launch_id: str) -> Launch | None:
        return next((launch for launch in self._discovery.launches() if launch.id == launch_id), None)
