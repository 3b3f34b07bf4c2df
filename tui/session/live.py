"""The live session: the one loop that ties hosts, history, discovery and diagnosis together.

It posts a frozen :class:`tui.model.Snapshot` whenever something changed, at most four times a second; the interface and
the headless commands see nothing else.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tui.collect.host import Hello, Host
from tui.model import Dump, Fact, HostState, Launch, LaunchView, Sample, Snapshot
from tui.record.baselines import Baselines
from tui.session.capture import Capture
from tui.session.discover import Discovery
from tui.session.engine import Engine
from tui.session.follow import Follower
from tui.session.looks import Looks
from tui.session.own_markers import OwnMarkers
from tui.session.plan import Plan

POST_EVERY_S = 0.25
FIRST_POST_S = 0.4
"""The first snapshot waits so long for GPU readings: a picture without any would only delay the one with them."""
JUDGE_EVERY_S = 0.9
AGAIN_S = 180.0
"""Stacks asked for again within so long mean: those without C frames did not tell enough."""


class LiveSession:
    why_no_stacks = ""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._markers = OwnMarkers()
        self._baselines = Baselines()
        self._engine = Engine((name for name, _ in plan.channels), self._markers, self._baselines.usual)
        self._hosts = {name: Host(name, channel, self, interval_s=plan.interval_s) for name, channel in plan.channels}
        self._discovery = Discovery(pids=plan.pids, logs=plan.logs, ports=plan.ports)
        self._follower = Follower(self._hosts, self._discovery, self._markers)
        self._capture = Capture(self._hosts, self._on_dump)
        self._dumps: dict[int, Dump] = {}
        self._views: tuple[LaunchView, ...] = ()
        self._looks = Looks(self._ask_look, self._spawn)
        self._judged_at = -1e9
        self._dirty = asyncio.Event()
        self._first_readings = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._post: Callable[[Snapshot], None] = lambda snapshot: None
        self._note = ""

    # -------------------------------------------------------------------------------------------------- the interface's

    def start(self, post: Callable[[Snapshot], None]) -> None:
        """Begin to watch, in the running loop; ``post`` gets every snapshot."""
        self._post = post
        for host in self._hosts.values():
            self._spawn(host.run(), f"host {host.name}")
        self._spawn(self._tick(), "ticker")

    async def stop(self) -> None:
        """End every task and channel; agents end with their channel."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._baselines.close()

    async def take_stacks(self, launch_id: str) -> None:
        """Stacks of all ranks of a launch; nothing of it pauses a target. Where that was done a moment ago, or the
        launch is suspect or hung, native stacks follow, for which each rank is paused."""
        launch = self._launch(launch_id)
        if launch is not None:
            dump = await self._capture.stacks(launch, native=self._may_pause(launch_id))
            if dump.evidence is not None:
                self._looks.note(launch.hosts[0], Fact(self._now(), "stacks", dump.evidence))

    async def abort(self, launch_id: str) -> None:
        """SIGABRT to all ranks of a launch, after their stacks were taken without harm."""
        launch = self._launch(launch_id)
        if launch is not None:
            sent = self._now()
            await self._capture.abort(launch, self._last_stacks(launch_id))
            for host in launch.hosts:
                self._looks.note(host, Fact(sent, "sigabrt_sent", launch_id))

    async def look(self, host: str, what: str, **args: Any) -> dict[str, Any]:
        """One look of a host's agent, see the wire protocol. Raises: HostError where it has none or it fails."""
        return _plain(await self._hosts[host].request("look", what=what, **args))

    # -------------------------------------------------------------------------------------------------- what hosts send

    def on_state(self, host: str, state: HostState, reason: str) -> None:
        book = self._engine.books[host]
        if (book.state, book.reason) != (state, reason):
            book.state, book.reason, book.since = state, reason, self._now()
            self._dirty.set()

    def on_hello(self, host: str, hello: Hello) -> None:
        self._spawn(self._follower.begin(host), f"follow {host}")

    def on_sample(self, host: str, sample: Sample) -> None:
        facts = self._looks.take(host)
        if facts:
            sample = replace(sample, facts=(*sample.facts, *facts))
        self._engine.books[host].clock_offset_s = self._hosts[host].clock_offset_s
        self._engine.books[host].clock_uncertain_s = self._hosts[host].clock_uncertain_s
        self._engine.add(sample)
        if self._discovery.feed(sample):
            self._judged_at = -1e9
        if sample.gpus is not None or sample.gpu_error:
            self._first_readings.set()
        self._follower.note(sample)
        if self._follower.behind(host):
            self._spawn(self._follower.refocus(host), f"focus {host}")
        self._dirty.set()

    # -------------------------------------------------------------------------------------------------------- the loop

    async def _tick(self) -> None:
        await _set_within(self._first_readings, FIRST_POST_S)
        while True:
            await _set_within(self._dirty, 1.0)
            self._dirty.clear()
            try:
                self._post(self.snapshot())
            except Exception as error:  # a rule of ours that breaks on one launch must not blind the rest
                self._note = f"a bug of ours: {error!r}; what is shown may be old"
                self._post(self._as_it_stands(self._now()))
            await asyncio.sleep(POST_EVERY_S)

    def snapshot(self) -> Snapshot:
        """The whole state now; launches are judged again when their last verdict is older than a tick."""
        now = self._now()
        if now - self._judged_at >= JUDGE_EVERY_S:
            self._judged_at = now
            views, wanted = self._engine.judge(self._discovery.launches(), now)
            self._views = tuple(views)
            self._baselines.note(self._engine.history, views)
            self._looks.want((want for want in wanted if want.host in self._hosts), now)
        return self._as_it_stands(now)

    def _as_it_stands(self, now: float) -> Snapshot:
        return Snapshot(
            t=now,
            wall=time.time(),
            hosts=self._engine.host_views(now),
            launches=self._views,
            dumps=tuple(self._dumps.values()),
            note=self._note or " · ".join(self._markers.problems),
        )

    async def _ask_look(self, host: str, what: str, args: Mapping[str, Any]) -> dict[str, Any]:
        return await self.look(host, what, **args)

    # ---------------------------------------------------------------------------------------------------------- little

    def _on_dump(self, dump: Dump) -> None:
        self._dumps[dump.id] = dump
        self._dirty.set()

    def _may_pause(self, launch_id: str) -> bool:
        last = self._last_stacks(launch_id)
        again = last is not None and time.time() - last.started_wall < AGAIN_S
        verdict = next((v.verdict.id for v in self._views if v.launch.id == launch_id), "unknown")
        return again or verdict in ("suspect", "hung")

    def _last_stacks(self, launch_id: str) -> Dump | None:
        done = [d for d in self._dumps.values() if d.launch == launch_id and d.method == "stacks" and d.done]
        return done[-1] if done else None

    def _launch(self, launch_id: str) -> Launch | None:
        return next((launch for launch in self._discovery.launches() if launch.id == launch_id), None)

    def _spawn(self, work: Any, name: str) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        task.set_name(name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._note = f"{task.get_name()}: {error}"
            self._dirty.set()

    @staticmethod
    def _now() -> float:
        return time.monotonic()


async def _set_within(event: asyncio.Event, seconds: float) -> None:
    """Wait until the event is set, by others or by time."""
    timer = asyncio.get_running_loop().call_later(seconds, event.set)
    await event.wait()
    timer.cancel()


def _plain(answer: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in answer.items() if key not in ("type", "id", "last")}
