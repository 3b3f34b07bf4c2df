"""From ``[HOST:]PID`` to processes that can be asked: connect, wait for the first look, find launch and rank."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from tui.collect.host import Hello, Host
from tui.errors import UsageError
from tui.model import HostState, Identity, Launch, Member, ProcessStacks, Sample
from tui.session.discover import Discovery
from tui.session.effects import effects_on
from tui.session.frameworks import is_python
from tui.session.plan import plan_hosts

Target = tuple[str | None, int]
"""Host (``None``: this machine) and pid."""

Key = tuple[str, int]
"""Host and pid."""

CONNECT_S = 25.0
LISTED_S = 1.0
"""After an agent's first list of processes, so long for one that it does not have yet."""


def parse_target(word: str) -> Target:
    """Raises: UsageError."""
    host, colon, pid = word.rpartition(":")
    if not pid.isdecimal() or not 0 < int(pid) < 1 << 31 or (colon and not host):
        raise UsageError(f"dump {word}: a process is named as PID or HOST:PID")
    return (host or None), int(pid)


class Watched:
    """The targets' hosts while they are asked; ``async with`` connects and lets go."""

    def __init__(self, targets: Sequence[Target], sudo: bool = False) -> None:
        named = list(dict.fromkeys(host for host, _ in targets if host is not None))
        channels = dict(plan_hosts(argparse.Namespace(hosts=named, sudo=sudo)).channels) if named else {}
        here = ""
        if any(host is None for host, _ in targets):
            here, channel = plan_hosts(argparse.Namespace(hosts=[], sudo=sudo)).channels[0]
            channels[here] = channel
        self.chosen = list(dict.fromkeys((host or here, pid) for host, pid in targets))
        self.hosts: Mapping[str, Host] = {name: Host(name, channel, self) for name, channel in channels.items()}
        self._discovery = Discovery(pids=self.chosen)
        self._below = Discovery()
        """All launches, for those that a chosen shell has started."""
        self._listed: set[str] = set()
        self._known: dict[tuple[str, int], Identity] = {}
        self._lost: dict[str, str] = {}
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def reached(self) -> bool:
        return bool(self._listed)

    async def __aenter__(self) -> Watched:
        self._tasks = [asyncio.ensure_future(host.run()) for host in self.hosts.values()]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def launch(self, with_started: bool = True) -> tuple[Launch, list[ProcessStacks]]:
        """The chosen processes as members of one launch (with the other processes of the launches they belong to), and
        an entry with the reason for each that cannot be asked. ``with_started``: a shell stands for what it started.
        """
        await self._until(lambda: all(n in self._listed or n in self._lost for n in self.hosts), CONNECT_S)
        await self._until(lambda: all(key in self._known or key[0] in self._lost for key in self.chosen), LISTED_S)
        launches = (*self._below.launches(), *self._discovery.launches())
        found = {(m.host, m.pid): (launch, m) for launch in launches for m in launch.members}
        if with_started:
            self.chosen = list(dict.fromkeys(k for key in self.chosen for k in (key, *self._started(key, found))))
        members: dict[tuple[str, int], Member] = {}
        failed: list[ProcessStacks] = []
        for key in self.chosen:
            identity = self._known.get(key)
            if identity is None:
                failed.append(ProcessStacks(key[0], key[1], None, "", error=self._why_not(key)))
            elif key in found and found[key][1].start_ticks == identity.start_ticks:
                members |= {(m.host, m.pid): m for m in found[key][0].members if (m.host, m.pid) in self._known}
            else:
                members[key] = Member(*key, identity.start_ticks, None, "process", identity.title)
        return self._as_launch(list(members.values())), failed

    def _started(self, key: Key, found: Collection[Key]) -> list[Key]:
        """What a process that is no Python itself (a shell, mpirun) has started and is: the members of launches, or the
        first of each branch."""
        identity = self._known.get(key)
        if identity is None or is_python(identity):
            return []
        below: dict[int, bool] = {key[1]: False}
        """By pid: whether it or one above it is Python."""
        started, first = list[Key](), list[Key]()
        for (host, pid), one in sorted(self._known.items(), key=lambda item: item[1].start_ticks):
            if host != key[0] or one.ppid not in below or pid in below:
                continue
            below[pid] = below[one.ppid] or is_python(one)
            if is_python(one):
                started.append((host, pid))
                if not below[one.ppid]:
                    first.append((host, pid))
        return [k for k in started if k in found] or first

    def _as_launch(self, members: list[Member]) -> Launch:
        launches = [launch for launch in self._discovery.launches() if {*launch.members} & {*members}]
        hosts = tuple(dict.fromkeys(m.host for m in members))
        if len(launches) == 1:
            return replace(launches[0], members=tuple(members), hosts=hosts)
        if len({m.rank for m in members if m.rank is not None}) < sum(m.rank is not None for m in members):
            members = [replace(m, rank=None) for m in members]  # ranks of several launches are not each other's peers
        return Launch("dump", "dump", hosts, members=tuple(members))

    def _why_not(self, key: tuple[str, int]) -> str:
        host, pid = key
        if host in self._listed:
            return f"there is no process {pid} on {host}."
        return self._lost.get(host, f"{host} did not answer within {CONNECT_S:.0f} s.")

    async def effects(self, members: Sequence[Member]) -> dict[Member, str]:
        """What SIGABRT would do to each as it is now: a key of :data:`tui.stacks.sigabrt.SENTENCES`; ``""`` where that
        cannot be told."""
        return await effects_on(self.hosts, members)

    async def _until(self, true: Callable[[], bool], seconds: float) -> None:
        """Wait for what the hosts' words make true, at most so long."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        timer = loop.call_at(deadline, self._news.set)
        while not true() and loop.time() < deadline:
            self._news.clear()
            await self._news.wait()
        timer.cancel()

    # ------------------------------------------------------------------------------------------------ what hosts send

    def on_state(self, host: str, state: HostState, reason: str) -> None:
        if state in ("failed", "lost"):
            self._lost[host] = reason
        self._news.set()

    def on_hello(self, host: str, hello: Hello) -> None:
        pass

    def on_sample(self, host: str, sample: Sample) -> None:
        if sample.new:
            self._listed.add(host)
        self._known |= {(host, i.pid): i for i in sample.new}
        for pid, _ in sample.gone:
            self._known.pop((host, pid), None)
        self._discovery.feed(sample)
        self._below.feed(sample)
        self._news.set()
