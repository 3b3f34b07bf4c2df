"""The live session: the one loop that ties hosts, launches and verdicts together.

It posts a frozen :class:`tui.model.Snapshot` whenever something changed, at most four times a second; the interface and
the headless commands see nothing else.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tui.collect.host import Hello, Host
from tui.model import HostState, Sample, Snapshot
from tui.session.book import HostBook
from tui.session.plan import Plan

if TYPE_CHECKING:
    from tui.session.launches import Launches

POST_EVERY_S = 0.25
FIRST_POST_S = 0.4
"""The first snapshot waits so long for GPU readings: a picture without any would only delay the one with them."""

DRAWN_S = 0.05
"""So long after the first snapshot it has been drawn, and what finds and judges launches is imported."""


class LiveSession:
    why_no_stacks = ""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._books = {name: HostBook(name) for name, _ in plan.channels}
        self._hosts = {name: Host(name, channel, self, interval_s=plan.interval_s) for name, channel in plan.channels}
        self._loaded: Launches | None = None
        self._attended: str | None = None
        self._greeted: list[str] = []
        self._early: list[Sample] = []
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
        if self._loaded is not None:
            await self._loaded.close()

    def attend(self, launch_id: str | None) -> None:
        """See :meth:`tui.session.launches.Launches.attend`."""
        self._attended = launch_id
        if self._loaded is not None:
            self._loaded.attend(launch_id)
            self._dirty.set()

    async def take_stacks(self, launch_id: str) -> None:
        """See :meth:`tui.session.launches.Launches.take_stacks`."""
        await self._launches.take_stacks(launch_id)

    async def abort(self, launch_id: str) -> None:
        """See :meth:`tui.session.launches.Launches.abort`."""
        await self._launches.abort(launch_id)

    async def look(self, host: str, what: str, **args: Any) -> dict[str, Any]:
        """One look of a host's agent, see the wire protocol. Raises: HostError where it has none or it fails."""
        return _plain(await self._hosts[host].request("look", what=what, **args))

    # -------------------------------------------------------------------------------------------------- what hosts send

    def on_state(self, host: str, state: HostState, reason: str) -> None:
        book = self._books[host]
        if (book.state, book.reason) != (state, reason):
            book.state, book.reason, book.since = state, reason, time.monotonic()
            self._dirty.set()

    def on_hello(self, host: str, hello: Hello) -> None:
        if self._loaded is None:
            self._greeted.append(host)
        else:
            self._loaded.on_hello(host)

    def on_sample(self, host: str, sample: Sample) -> None:
        book = self._books[host]
        book.clock_offset_s = self._hosts[host].clock_offset_s
        book.clock_uncertain_s = self._hosts[host].clock_uncertain_s
        book.feed(sample)
        if self._loaded is None:
            self._early.append(sample)
        else:
            self._loaded.on_sample(sample)
        if sample.gpus is not None or sample.gpu_error:
            self._first_readings.set()
        self._dirty.set()

    # -------------------------------------------------------------------------------------------------------- the loop

    async def _tick(self) -> None:
        await _set_within(self._first_readings, FIRST_POST_S)
        self._post(self._as_it_stands())
        await asyncio.sleep(DRAWN_S)
        while True:
            await _set_within(self._dirty, 1.0)
            self._dirty.clear()
            try:
                self._launches.judge(time.monotonic())
                self._post(self._as_it_stands())
            except Exception as error:  # a rule of ours that breaks on one launch must not blind the rest
                self._note = f"a bug of ours: {error!r}; what is shown may be old"
                self._post(self._as_it_stands())
            await asyncio.sleep(POST_EVERY_S)

    def snapshot(self) -> Snapshot:
        """The whole state now: every launch is judged, however long that takes."""
        self._launches.judge(time.monotonic(), everyone=True)
        return self._as_it_stands()

    def _as_it_stands(self) -> Snapshot:
        now, loaded = time.monotonic(), self._loaded
        return Snapshot(
            t=now,
            wall=time.time(),
            hosts=tuple(book.view(now) for book in self._books.values()),
            launches=loaded.views if loaded else (),
            dumps=loaded.dumps if loaded else (),
            note=self._note or " · ".join(loaded.problems if loaded else ()),
        )

    @property
    def _launches(self) -> Launches:
        if self._loaded is None:
            from tui.session.launches import Launches  # half of all imports: the first readings do not wait for it

            self._loaded = Launches(
                self._plan, self._hosts, self._books, look=self._ask, spawn=self._spawn, changed=self._dirty.set
            )
            self._loaded.attend(self._attended)
            for host in self._greeted:
                self._loaded.on_hello(host)
            for sample in self._early:
                self._loaded.on_sample(sample)
            self._greeted, self._early = [], []
        return self._loaded

    async def _ask(self, host: str, what: str, args: Mapping[str, Any]) -> dict[str, Any]:
        return await self.look(host, what, **args)

    # ---------------------------------------------------------------------------------------------------------- little

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


async def _set_within(event: asyncio.Event, seconds: float) -> None:
    """Wait until the event is set, by others or by time."""
    timer = asyncio.get_running_loop().call_later(seconds, event.set)
    await event.wait()
    timer.cancel()


def _plain(answer: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in answer.items() if key not in ("type", "id", "last")}
