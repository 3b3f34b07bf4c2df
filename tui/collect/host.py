"""One watched host over any channel: connect, tell the sink what comes, and connect again when that ends."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from typing import Any, Protocol

from tui.collect.channel import Channel, Pipe
from tui.collect.clock import WallOffset
from tui.collect.decode import Hello
from tui.collect.link import Link
from tui.collect.logbook import LogBook
from tui.collect.names import Names
from tui.errors import HostError
from tui.model import HostState, Sample

__all__ = ["Channel", "Hello", "Host", "Pipe", "Sink"]

STALE_S = 2.5
"""A host whose last sample is older is stale; at longer intervals than a second, this many intervals."""

RETRY_FIRST_S, RETRY_MOST_S = 1.0, 30.0

STEADY_S = 20.0
"""A connection that lasted so long was a good one: the next retry is quick again."""


class Sink(Protocol):
    """Who is told. The calls come in the loop that runs the host and must not block."""

    def on_state(self, host: str, state: HostState, reason: str) -> None: ...

    def on_hello(self, host: str, hello: Hello) -> None: ...

    def on_sample(self, host: str, sample: Sample) -> None: ...


class Host:
    """Keeps one host connected as long as :meth:`run` runs; all else is told to ``sink``. One loop's object."""

    def __init__(self, name: str, channel: Channel, sink: Sink, *, interval_s: float = 1.0) -> None:
        self.name = name
        self._channel = channel
        self._sink = sink
        self._interval_s = interval_s
        self._stale_s = STALE_S * max(1.0, interval_s)
        self._state: HostState | None = None
        self.hello: Hello | None = None
        """What the agent said of the host when it last came up."""
        self._link: Link | None = None
        self._logs = LogBook()
        self.names = Names()
        """Its paths by the names under which they are known here; a request takes them as the host has them."""
        self._wall = WallOffset()
        self._stale_timer: asyncio.TimerHandle | None = None

    @property
    def clock_offset_s(self) -> float | None:
        """The host's wall clock minus the monitor's, in seconds."""
        return self._wall.seconds

    @property
    def clock_uncertain_s(self) -> float | None:
        """By how much the offset may be off, in seconds."""
        return self._wall.uncertain_s

    async def run(self) -> None:
        """Watch until cancelled, or until the host has failed for good; the channel is closed either way."""
        self._tell("connecting", f"Connecting to {self.name}.")
        delay = RETRY_FIRST_S
        while True:
            began = time.monotonic()
            try:
                await self._watch()
            except HostError as error:
                if error.permanent:
                    self._tell("failed", str(error))
                    return
                delay = RETRY_FIRST_S if time.monotonic() - began > STEADY_S else delay
                pause = delay * random.uniform(0.75, 1.25)  # so that hosts lost together do not return together
                self._tell("lost", f"{error} Trying again in {pause:.0f} s.")
                await asyncio.sleep(pause)
                delay = min(2 * delay, RETRY_MOST_S)

    async def request(self, do: str, *, timeout: float = 15.0, **args: Any) -> dict[str, Any]:
        """Ask the agent and give back its last answer; ``timeout`` in seconds.

        Raises: HostError when not connected, when no answer comes in time, or when the answer is an error.
        """
        return [answer async for answer in self.answers(do, timeout=timeout, **args)][-1]

    async def answers(self, do: str, *, timeout: float, **args: Any) -> AsyncIterator[dict[str, Any]]:
        """All answers as they come; ``timeout`` seconds for all of them. Raises like :meth:`request`; only an answer
        about one process of several (it has a ``pid``) holds its ``error`` without raising."""
        if self._link is None:
            raise HostError(f"{self.name} is not connected.")
        async for answer in self._link.ask(do, args, timeout):
            if answer.get("error") and "pid" not in answer:
                raise HostError(f"{self.name}: {answer['error']}")
            yield answer

    async def _watch(self) -> None:
        """One connection; raises HostError with the reason for its end."""
        pipe = await _opened(self._channel)
        self._link = Link(
            self.name, pipe, self._logs, self.names, self._wall, self._on_hello, self._on_sample, self._interval_s
        )
        try:
            await self._link.run()
        finally:
            self._link = None
            self._watch_age(None)

    def _on_hello(self, hello: Hello) -> None:
        self.hello = hello
        self._sink.on_hello(self.name, hello)

    def _on_sample(self, sample: Sample) -> None:
        self._watch_age(self._stale_s)
        if self._state != "live":
            self._tell("live", f"{self.name} answers.")
        self._sink.on_sample(self.name, sample)

    def _watch_age(self, seconds: float | None) -> None:
        """Become stale ``seconds`` from now unless called again."""
        if self._stale_timer is not None:
            self._stale_timer.cancel()
            self._stale_timer = None
        if seconds is not None:
            loop = asyncio.get_running_loop()
            due = loop.time() + seconds
            self._stale_timer = loop.call_at(due, lambda: self._gone_stale(loop.time() - due))

    def _gone_stale(self, late: float) -> None:
        if late > 0.5:  # it was the monitor that stood still: read first what has come meanwhile
            self._watch_age(0.5)
            return
        self._tell("stale", f"No sample of {self.name} for {self._stale_s:g} s; waiting for it.")

    def _tell(self, state: HostState, reason: str) -> None:
        self._state = state
        self._sink.on_state(self.name, state, reason)


async def _opened(channel: Channel) -> Pipe:
    """Open a channel so that a cancellation always wins: :func:`asyncio.wait_for` before Python 3.12, which asyncssh
    uses too, swallows one that comes at the moment of success."""
    opening = asyncio.ensure_future(channel.open())
    try:
        await asyncio.wait([opening])
    except asyncio.CancelledError:
        opening.cancel()
        await asyncio.wait([opening])
        if not opening.cancelled() and opening.exception() is None:
            await opening.result().close()
        raise
    return opening.result()
