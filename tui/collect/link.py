"""One connection to an agent, from its first word to its last: frames in, requests out, pings between."""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any

from tui.collect import decode
from tui.collect.channel import Pipe
from tui.collect.clock import Timeline, WallOffset
from tui.collect.decode import Hello
from tui.collect.logbook import LogBook
from tui.collect.names import Names
from tui.collect.payload import FELL_THROUGH, NO_PYTHON
from tui.collect.wire import FrameReader
from tui.errors import HostError
from tui.model import Sample
from tui.safetext import clean

HELLO_S = 20.0
"""So long a login may take until the agent speaks: start-up files in a slow home directory need seconds."""

SILENT_S = 30.0
"""An agent that sent nothing for so long is given up, and a new one is started."""

PING_S = 10.0
"""Pings keep the agent alive, which ends after 30 s without one, and measure the clocks."""

FIRST_PINGS_S = (0.0, 0.5, 1.0)
"""Pauses before the first pings: the clock's offset is wanted early, and best of several."""

AGENT_INTERVAL_S = 1.0
"""What an agent keeps to unless told otherwise."""

READ_BYTES = 1 << 16


class Link:
    """Runs over a pipe that was just opened. ``logs``, ``names`` and ``wall`` outlive it; they belong to the host."""

    def __init__(
        self,
        host: str,
        pipe: Pipe,
        logs: LogBook,
        names: Names,
        wall: WallOffset,
        on_hello: Callable[[Hello], None],
        on_sample: Callable[[Sample], None],
        interval_s: float,
    ) -> None:
        self._host = host
        self._pipe = pipe
        self._logs = logs
        self._names = names
        self._wall = wall
        self._on_hello = on_hello
        self._on_sample = on_sample
        self._interval_s = interval_s
        self._reader = FrameReader()
        self._timeline = Timeline()
        self._hello: Hello | None = None
        self._greeted = asyncio.get_running_loop().create_future()
        self._heard = time.monotonic()
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Queue[dict[str, Any] | HostError]] = {}
        self._sending = asyncio.Lock()

    async def run(self) -> None:
        """Read until the connection ends; always raises: HostError with the reason, or CancelledError.

        The pipe is closed, and whoever waits for an answer is told, before this returns.
        """
        work = [asyncio.ensure_future(self._read()), asyncio.ensure_future(self._keep())]
        reason = HostError(f"The connection to {self._host} was closed.")
        try:
            done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except HostError as error:
            reason = error
            raise
        finally:
            for task in work:
                task.cancel()
            for queue in self._waiting.values():
                queue.put_nowait(reason)
            await self._close()
            await asyncio.gather(*work, return_exceptions=True)

    async def ask(self, do: str, args: dict[str, Any], timeout: float) -> AsyncIterator[dict[str, Any]]:
        """Send a request; yield its answers until the last one. Raises: HostError, also after ``timeout`` seconds."""
        number = next(self._ids)
        answers: asyncio.Queue[dict[str, Any] | HostError] = asyncio.Queue()
        self._waiting[number] = answers
        # Not asyncio.wait_for: before Python 3.12 it may swallow a cancellation that comes together with the answer.
        late = HostError(f"{self._host} did not answer the request “{do}” within {timeout:g} s.")
        timer = asyncio.get_running_loop().call_later(timeout, answers.put_nowait, late)
        try:
            await self._send({**args, "do": do, "id": number})
            while True:
                answer = await answers.get()
                if isinstance(answer, HostError):
                    raise answer
                yield answer
                if answer.get("last", True):
                    return
        finally:
            timer.cancel()
            del self._waiting[number]

    async def _send(self, request: dict[str, Any]) -> None:
        async with self._sending:
            self._pipe.write(json.dumps(request).encode() + b"\n")
            await self._pipe.drain()

    # --------------------------------------------------------------------------------------------------------- reading

    async def _read(self) -> None:
        while data := await self._pipe.read(READ_BYTES):
            for frame in self._frames(data):
                self._take(frame)
            await asyncio.sleep(0)  # a host that floods must not keep the loop from the others
        raise await self._ended()

    def _frames(self, data: bytes) -> Iterator[dict[str, Any]]:
        try:
            yield from self._reader.feed(data)
        except HostError as error:
            raise HostError(f"{self._host} {error}") from None

    def _take(self, frame: dict[str, Any]) -> None:
        self._heard = time.monotonic()
        kind = frame.get("type")
        self._names.learn_from(frame)
        if kind == "tick" and self._hello is not None:
            mono = decode.number(frame.get("mono"))
            if mono is not None:
                t = self._timeline.at(mono, self._heard)
                logs = self._logs.read(frame, t)
                self._on_sample(decode.sample(frame, self._host, self._hello, t, logs))
        elif kind == "answer":
            queue = self._waiting.get(decode.integer(frame.get("id")) or 0)
            if queue is not None:
                queue.put_nowait(decode.answer(frame))
        elif kind == "hello" and self._hello is None:
            self._hello = decode.hello(frame)
            self._greeted.set_result(None)
            self._on_hello(self._hello)

    # ------------------------------------------------------------------------------------------------------ keeping on

    async def _keep(self) -> None:
        greeted, _ = await asyncio.wait([self._greeted], timeout=HELLO_S)
        if not greeted:
            raise self._no_hello()
        if self._interval_s != AGENT_INTERVAL_S:
            await self._send({"do": "interval", "s": self._interval_s, "id": next(self._ids)})
        for pause in itertools.chain(FIRST_PINGS_S, itertools.repeat(PING_S)):
            await asyncio.sleep(pause)
            with suppress(HostError):
                await self._ping()
            silent = time.monotonic() - self._heard
            if silent > SILENT_S:
                raise HostError(f"The agent on {self._host} has been silent for {silent:.0f} s.")

    async def _ping(self) -> None:
        sent, sent_wall = time.monotonic(), time.time()
        async for answer in self.ask("ping", {}, PING_S):
            wall = decode.number(answer.get("wall"))
            if wall is not None:
                self._wall.add(sent_wall, time.monotonic() - sent, wall)

    async def _close(self) -> None:
        with suppress(HostError):
            self._pipe.write(b'{"do": "stop", "id": 0}\n')
        await self._pipe.close()

    # --------------------------------------------------------------------------------------------------------- reasons

    async def _ended(self) -> HostError:
        status = await self._pipe.exit_status()
        if not self._reader.synced and status == NO_PYTHON:
            return HostError(
                f"{self._host} has no python3 that works for a non-interactive login; "
                "install Python 3.6 or later there, or put it on that PATH.",
                permanent=True,
            )
        if not self._reader.synced and status == FELL_THROUGH:
            return HostError(f"The agent did not arrive whole on {self._host}{self._last_words()}.", permanent=True)
        if not self._reader.synced and b"sudo:" in self._pipe.stderr_tail():
            return HostError(
                f"sudo -n starts nothing on {self._host}{self._last_words()}. "
                "Allow it without a password there (NOPASSWD), or leave --sudo out.",
                permanent=True,
            )
        what = "The agent" if self._reader.synced else "The login that should start the agent"
        return HostError(f"{what} on {self._host} ended{_how(status)}{self._last_words()}.")

    def _no_hello(self) -> HostError:
        return HostError(
            f"The agent on {self._host} did not speak within {HELLO_S:.0f} s{self._last_words()}; "
            f"see what `ssh {self._host} true` waits for."
        )

    def _last_words(self) -> str:
        """The last line of standard error, or of what a login printed, as the tail of a sentence."""
        lines = [line for line in self._pipe.stderr_tail().splitlines() if line.strip()]
        said = clean(lines[-1].strip(), 200) if lines else self._reader.noise_tail()
        return f"; it said: {said.rstrip('.')}" if said else ""


def _how(status: int | None) -> str:
    if status is None:
        return ""
    if status < 0:
        with suppress(ValueError):
            return f" by {signal.Signals(-status).name}"
        return f" by signal {-status}"
    return f" with exit status {status}"
