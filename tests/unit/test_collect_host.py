"""The moments of a host's life that a real process cannot hit reliably; the agent's side is played in the same loop."""

from __future__ import annotations

import asyncio
import json
import time
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.watching import Watcher, watched
from tui.collect.host import Host
from tui.collect.names import MOST, Names
from tui.collect.payload import SYNC
from tui.errors import HostError

Answer = Callable[[dict[str, Any]], list[dict[str, Any]]]


def test_a_path_that_was_cleaned_is_known_as_the_host_has_it() -> None:
    names = Names()
    names.learn_from({"new": [{"stderr": "/a\x1b[31m.log", "pipe_files": ["/b\udcff", 7]}, None], "path": 3})
    names.learn("/" + "c\n" * 4096)
    assert names.there("/a.log") == "/a\x1b[31m.log"
    assert names.there("/b\ufffd") == "/b\udcff"
    assert names.there("/plain") == "/plain"
    for n in range(MOST + 10):
        names.learn(f"/{n}\x07")
    assert len(names._there) == MOST, "a host that makes names up costs no more"


class PlayedPipe:
    """Speaks the wire protocol; ``answer`` gives the frames that follow a request."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._deflate = zlib.compressobj()
        self._output: asyncio.Queue[bytes] = asyncio.Queue()
        self.closed = False
        self._output.put_nowait(SYNC)
        self.say({"type": "hello", "boot_id": "b"}, {"type": "tick", "mono": 1.0, "wall": 1.0})

    def say(self, *frames: dict[str, Any]) -> None:
        data = b"".join(json.dumps(frame).encode() + b"\n" for frame in frames)
        self._output.put_nowait(self._deflate.compress(data) + self._deflate.flush(zlib.Z_SYNC_FLUSH))

    def write(self, data: bytes) -> None:
        for line in data.splitlines():
            if frames := self._answer(json.loads(line)):
                self.say(*frames)

    async def drain(self) -> None: ...

    async def read(self, limit: int) -> bytes:
        return await self._output.get()

    async def exit_status(self) -> int | None:
        return 0

    def stderr_tail(self) -> bytes:
        return b""

    async def close(self) -> None:
        self.closed = True


class PlayedChannel:
    def __init__(self, answer: Answer = lambda request: []) -> None:
        self.answer = answer
        self.pipes: list[PlayedPipe] = []

    async def open(self) -> PlayedPipe:
        self.pipes.append(PlayedPipe(self.answer))
        return self.pipes[-1]


@pytest.mark.parametrize("turns", range(8))
async def test_a_cancellation_beside_an_answer_is_never_lost(turns: int):
    """However few turns of the loop lie between an answer's arrival and the cancellation, the host ends at once."""
    ending: list[asyncio.Future[Any]] = []

    def answer(request: dict[str, Any]) -> list[dict[str, Any]]:
        if request["do"] != "ping" or ending:
            return []
        ending.append(asyncio.ensure_future(cancel_soon()))
        return [{"type": "answer", "id": request["id"], "last": True, "mono": 1.0, "wall": 1.0}]

    async def cancel_soon() -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()

    channel = PlayedChannel(answer)
    running = asyncio.ensure_future(Host("h", channel, Watcher()).run())
    began = time.monotonic()
    await asyncio.wait([running], timeout=5)
    assert running.cancelled() and time.monotonic() - began < 1
    assert channel.pipes[0].closed


async def test_a_cancellation_at_the_moment_of_opening_closes_what_was_opened():
    class Stubborn(PlayedChannel):
        async def open(self) -> PlayedPipe:
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                return await super().open()  # as asyncio.wait_for may do before Python 3.12
            raise AssertionError

    channel = Stubborn()
    running = asyncio.ensure_future(Host("h", channel, Watcher()).run())
    await asyncio.sleep(0.05)
    running.cancel()
    await asyncio.wait([running], timeout=5)
    assert running.cancelled()
    assert channel.pipes[0].closed


async def test_answers_find_their_requests_in_any_order_and_errors_of_one_process_are_no_failure():
    held: list[dict[str, Any]] = []

    def answer(request: dict[str, Any]) -> list[dict[str, Any]]:
        if request["do"] != "stacks":
            return []
        held.append(request)
        if len(held) < 2:
            return []
        one, two = (r["id"] for r in held)
        return [
            {"type": "answer", "id": two, "last": False, "pid": 2, "error": "gone"},
            {"type": "answer", "id": 999, "last": True},
            {"type": "answer", "id": one, "last": True, "pid": 1},
            {"type": "answer", "id": two, "last": True},
        ]

    watcher = Watcher()
    async with watched(watcher, h=PlayedChannel(answer)) as hosts:
        await watcher.until_state("h", "live")

        async def all_answers() -> list[dict[str, Any]]:
            return [a async for a in hosts["h"].answers("stacks", timeout=5, procs=[])]

        one, two = await asyncio.gather(all_answers(), all_answers())
    assert [a.get("pid") for a in one] == [1]
    assert [a.get("pid") for a in two] == [2, None]


async def test_a_flood_from_one_host_does_not_keep_the_others_waiting():
    class Flooding(PlayedPipe):
        async def read(self, limit: int) -> bytes:
            if self._output.empty():
                self.say(*[{"type": "tick", "mono": 1.0, "wall": 1.0}] * 100)
            return self._output.get_nowait()

    class FloodingChannel(PlayedChannel):
        async def open(self) -> PlayedPipe:
            return Flooding(self.answer)

    watcher = Watcher()
    async with watched(watcher, calm=PlayedChannel(), flood=FloodingChannel()):
        await watcher.until(lambda: len(watcher.of("flood")) > 5000)
        began = time.monotonic()
        await asyncio.sleep(0.01)
        assert time.monotonic() - began < 0.2
        assert watcher.state("calm") == "live"


async def test_a_request_that_breaks_off_with_the_connection_says_why():
    watcher = Watcher()
    channel = PlayedChannel()
    async with watched(watcher, h=channel) as hosts:
        await watcher.until_state("h", "live")
        asked = asyncio.ensure_future(hosts["h"].request("look", what="doctor"))
        await asyncio.sleep(0.05)
        channel.pipes[0]._output.put_nowait(b"")
        with pytest.raises(HostError, match="The agent on h ended with exit status 0"):
            await asked
