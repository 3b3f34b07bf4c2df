"""A sink that keeps what hosts tell, and waits for it; and hosts that run as long as a test does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tui.collect.host import Channel, Hello, Host
from tui.model import HostState, Sample


@dataclass
class Watcher:
    """What was told of hosts, each with the time since the watcher was made."""

    began: float = field(default_factory=time.monotonic)
    states: list[tuple[str, HostState, str, float]] = field(default_factory=list)
    hellos: list[tuple[str, Hello, float]] = field(default_factory=list)
    samples: list[tuple[str, Sample, float]] = field(default_factory=list)

    def on_state(self, host: str, state: HostState, reason: str) -> None:
        self.states.append((host, state, reason, self.now()))

    def on_hello(self, host: str, hello: Hello) -> None:
        self.hellos.append((host, hello, self.now()))

    def on_sample(self, host: str, sample: Sample) -> None:
        self.samples.append((host, sample, self.now()))

    def now(self) -> float:
        return time.monotonic() - self.began

    def state(self, host: str) -> HostState | None:
        return next((state for name, state, _, _ in reversed(self.states) if name == host), None)

    def reason(self, host: str) -> str:
        return next((reason for name, _, reason, _ in reversed(self.states) if name == host), "")

    def of(self, host: str) -> list[Sample]:
        return [sample for name, sample, _ in self.samples if name == host]

    async def until(self, holds: Callable[[], object], timeout: float = 10.0) -> float:
        """Wait for something to hold; gives back how long that took, in seconds."""
        began = time.monotonic()
        while not holds():
            if time.monotonic() - began > timeout:
                raise AssertionError(f"not within {timeout} s; told so far: {self.states}")
            await asyncio.sleep(0.01)
        return time.monotonic() - began

    async def until_state(self, host: str, state: HostState, timeout: float = 10.0) -> float:
        return await self.until(lambda: self.state(host) == state, timeout)


@asynccontextmanager
async def watched(watcher: Watcher, **channels: Channel) -> AsyncIterator[dict[str, Host]]:
    """Run hosts; afterwards they are cancelled and must end soon, and what broke is raised."""
    hosts = {name: Host(name, channel, watcher) for name, channel in channels.items()}
    tasks = [asyncio.ensure_future(host.run()) for host in hosts.values()]
    try:
        yield hosts
    finally:
        for task in tasks:
            task.cancel()
        _, going_on = await asyncio.wait(tasks, timeout=5)
    assert not going_on, "a host outlived its cancellation"
    for task in tasks:
        if not task.cancelled():
            task.result()
