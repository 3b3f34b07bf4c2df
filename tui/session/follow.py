"""Keeps each agent reading what the launches need: the processes in focus and the logs, and no more."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tui.collect.host import Host
from tui.diagnose.markers import Markers, load
from tui.errors import HostError
from tui.model import Sample
from tui.session.discover import Discovery

NEWEST_EVERY_S = 10.0
"""How often it is looked up which file is the newest behind a pattern: a restarted launch may begin another log."""


@dataclass(slots=True)
class _Asked:
    """What one agent was told on its present connection, and how far each log has been read over all of them."""

    connected: bool = False
    busy: bool = False
    filtered: bool = False
    focus: frozenset[tuple[int, int]] = frozenset()
    logs: frozenset[str] = frozenset()
    read_to: dict[str, int] = field(default_factory=dict[str, int])
    mono: float = 0.0
    newest_due: float = 0.0
    """When the files behind patterns are looked up again, by the host's monotonic clock."""


class Follower:
    def __init__(self, hosts: Mapping[str, Host], discovery: Discovery, markers: Callable[[], Markers] = load) -> None:
        self._hosts = hosts
        self._discovery = discovery
        self._markers = markers
        self._asked = {name: _Asked() for name in hosts}

    async def begin(self, host: str) -> None:
        """A new agent has said hello: it knows nothing yet. Logs go on where they were left."""
        read_to = self._asked[host].read_to
        self._asked[host] = _Asked(connected=True, read_to=read_to)
        await self.refocus(host)

    def note(self, sample: Sample) -> None:
        """Remember how far the logs were read."""
        asked = self._asked[sample.host]
        asked.mono = sample.mono
        for log in sample.logs:
            if log.read_to is not None:
                asked.read_to[log.path] = log.read_to

    def behind(self, host: str) -> bool:
        """Whether the agent reads something else than the launches need by now."""
        asked = self._asked[host]
        if not asked.connected or asked.busy:
            return False
        return (asked.focus, asked.logs) != self._needed(host) or self._looks_for_newest(host)

    async def refocus(self, host: str) -> None:
        """Tell the agent what to read. A channel that breaks meanwhile is begun anew with the next hello."""
        asked = self._asked[host]
        asked.busy = True
        try:
            with contextlib.suppress(HostError):
                await self._tell(host, asked)
        finally:
            asked.busy = False

    async def _tell(self, host: str, asked: _Asked) -> None:
        agent = self._hosts[host]
        if self._looks_for_newest(host):
            await self._look_for_newest(host, asked)
        focus, logs = self._needed(host)
        if focus != asked.focus:
            asked.focus = focus
            await agent.request("watch", procs=sorted(focus))
        if logs and not asked.filtered:
            asked.filtered = True  # before the first log, whose middle is searched by it
            rows = self._markers().filter()
            await agent.request("filter", patterns=[r["pattern"] for r in rows], words=[r["words"] for r in rows])
        for path in logs - asked.logs:
            there = agent.names.there(path)
            await agent.request("follow", key=path, path=there, fd=None, offset=asked.read_to.get(path))
        for path in asked.logs - logs:
            await agent.request("unfollow", key=path)
        asked.logs = logs

    def _looks_for_newest(self, host: str) -> bool:
        asked = self._asked[host]
        return asked.mono >= asked.newest_due and bool(self._discovery.patterns(host))

    async def _look_for_newest(self, host: str, asked: _Asked) -> None:
        asked.newest_due = asked.mono + NEWEST_EVERY_S
        for pattern in self._discovery.patterns(host):
            agent = self._hosts[host]
            path = (await agent.request("look", what="newest", glob=agent.names.there(pattern))).get("path")
            if isinstance(path, str):
                self._discovery.use_newest(host, pattern, path)

    def _needed(self, host: str) -> tuple[frozenset[tuple[int, int]], frozenset[str]]:
        launches = self._discovery.launches()
        logs = frozenset(log.path for launch in launches for log in launch.logs if log.host == host)
        return frozenset(self._discovery.focus(host)), logs
