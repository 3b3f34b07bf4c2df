"""Taking the stacks of a launch, over all of its hosts at once: without harm, or by SIGABRT when nothing else is left.

The harmless way looks at ``/proc`` first (0.1 s, works on processes in state D) and then lets py-spy read without
stopping anything (0.3 s a rank, all ranks at once). Results are shown as they come.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from tui.collect import decode
from tui.collect.host import Host
from tui.errors import HostError
from tui.model import Dump, Launch, Member, ProcessStacks
from tui.session import pyspy_there
from tui.session.aborting import HOLD_ROLES, Aborting
from tui.session.taking import OnDump, Taking
from tui.stacks import kernel, pyspy
from tui.stacks.explain import pyspy_error

LOOK_S = 8.0
PYSPY_S = 45.0
"""For all processes of a host; one that hangs is killed by the agent long before."""

_MISSING, _UNFIT = "py-spy is not on this host", "py-spy cannot be run"
"""How the agent says that there is no program, and that the one it was told of does not start."""


class Capture:
    """Takes dumps of launches. ``on_dump`` gets each one again and again while it fills; ids count from 1."""

    def __init__(self, hosts: Mapping[str, Host], on_dump: OnDump) -> None:
        self._hosts = hosts
        self._on_dump = on_dump
        self._numbers = itertools.count(1)

    async def stacks(self, launch: Launch) -> Dump:
        """Stacks of every member that is Python, ranks first. Nothing pauses a target; never raises for a host."""
        members = _in_order(launch)
        taking = Taking(next(self._numbers), launch, "stacks", members, self._on_dump)
        try:
            await asyncio.gather(*(self._take(taking, name, of) for name, of in _by_host(members).items()))
            return taking.finish()
        finally:
            taking.abandon()

    async def abort(self, launch: Launch, known: Dump | None) -> Dump:
        """SIGABRT to all ranks on all hosts at once, and what they print. Stacks are taken without harm first unless
        ``known`` has them: they tell whose a printed stack is, and remain where nothing is printed."""
        if known is None or not any(t.thread_id for p in known.processes for t in p.threads):
            known = await self.stacks(launch)
        ranks = launch.ranks() or [m for m in launch.members if m.role not in HOLD_ROLES] or launch.members
        taking = Taking(next(self._numbers), launch, "abort", ranks, self._on_dump)
        try:
            await Aborting(self._hosts, taking, launch, ranks, known).run()
            return taking.finish()
        finally:
            taking.abandon()

    # --------------------------------------------------------------------------------------------------------- one host

    async def _take(self, taking: Taking, name: str, members: Sequence[Member]) -> None:
        host = self._hosts.get(name)
        try:
            if host is None:
                raise HostError(f"{name} is not watched.")
            await self._look(taking, host, members)
            await self._pyspy(taking, host, members)
        except HostError as error:
            for member in members:
                got = taking.get(name, member.pid)
                if got is None or (got.method == "/proc" and got.error is None):
                    self._fail(taking, member, str(error))

    async def _look(self, taking: Taking, host: Host, members: Sequence[Member]) -> None:
        """Threads, states and where the kernel has them; that a look fails is noted and hinders nothing."""
        try:
            answer = await host.request("look", what="threads", procs=_keys(members), timeout=LOOK_S)
        except HostError as error:
            taking.note(f"/proc: {error}")
            return
        rows = decode.mapped(answer.get("threads"))
        for member in members:
            seen = kernel.from_look(rows.get(str(member.pid)), member.pid)
            if seen:
                taking.put(_stacks(member, "/proc", threads=seen))
        taking.note(f"/proc: {sum(map(bool, rows.values()))} of {len(members)} processes on {host.name}")

    async def _pyspy(self, taking: Taking, host: Host, members: Sequence[Member]) -> None:
        program = pyspy_there.program_on(host)
        without = await self._run_pyspy(taking, host, members, program)
        if without:
            taking.note(f"py-spy: none that fits on {host.name}, sending ours")
            try:
                program = await pyspy_there.send(host)
            except HostError as error:
                taking.note(str(error))
                for member in without:
                    self._fail(taking, member, str(error))
                return
            for member in await self._run_pyspy(taking, host, without, program):
                self._fail(taking, member, f"py-spy was sent to {host.name} but cannot be run there.")

    async def _run_pyspy(self, taking: Taking, host: Host, members: Sequence[Member], program: str) -> list[Member]:
        """Run py-spy on every process at once and take what comes; returns those for which there is no py-spy."""
        waiting = {m.pid: m for m in members}
        unfit: list[Member] = []
        asked = {"procs": _keys(members), "program": program, "native": False}
        try:
            async for answer in host.answers("stacks", timeout=PYSPY_S, **asked):
                member = waiting.pop(decode.integer(answer.get("pid")) or 0, None)
                error = answer.get("error")
                if member is None:
                    continue
                if isinstance(error, str) and error.startswith(_UNFIT):
                    unfit.append(member)
                elif isinstance(error, str):
                    scope = host.hello.ptrace_scope if host.hello else None
                    self._fail(taking, member, pyspy_error(error, scope), decode.number(answer.get("duration_s")))
                else:
                    self._read(taking, member, answer)
        except HostError as error:
            if _MISSING in str(error):
                return list(members)
            raise
        return unfit

    def _read(self, taking: Taking, member: Member, answer: Mapping[str, Any]) -> None:
        said: Any = answer.get("json")
        try:
            value: object = json.loads(said) if isinstance(said, str) else said
        except (ValueError, RecursionError):
            value = None
        threads = pyspy.from_json(value, member.pid)
        if not threads:
            self._fail(taking, member, "py-spy gave an answer without threads.")
            return
        before = taking.get(member.host, member.pid)
        duration = decode.number(answer.get("duration_s"))
        threads = kernel.joined(threads, before.threads if before else ())
        taking.put(_stacks(member, "py-spy", threads, None, decode.number(answer.get("wall")), duration))
        taking.note(f"py-spy: {_who(member)}, {len(threads)} threads in {duration or 0.0:.2f} s")

    def _fail(self, taking: Taking, member: Member, error: str, duration: float | None = None) -> None:
        """A process without Python stacks keeps what ``/proc`` showed. One that is no rank need not be Python."""
        taking.note(f"py-spy: {_who(member)}: {error}")
        before = taking.get(member.host, member.pid)
        taking.put(_stacks(member, "/proc", before.threads if before else (), error, None, duration))


# ------------------------------------------------------------------------------------------------------------- helpers


def _in_order(launch: Launch) -> list[Member]:
    return [*launch.ranks(), *(m for m in launch.members if m.rank is None)]


def _by_host(members: Sequence[Member]) -> dict[str, list[Member]]:
    hosts: dict[str, list[Member]] = {}
    for member in members:
        hosts.setdefault(member.host, []).append(member)
    return hosts


def _keys(members: Sequence[Member]) -> list[list[int]]:
    return [[m.pid, m.start_ticks] for m in members]


def _who(member: Member) -> str:
    name = f"rank {member.rank}" if member.rank is not None else member.role.replace("_", " ")
    return f"{name} (pid {member.pid} on {member.host})"


def _stacks(
    member: Member,
    method: str,
    threads: Sequence[Any] = (),
    error: str | None = None,
    wall: float | None = None,
    duration: float | None = None,
) -> ProcessStacks:
    return ProcessStacks(
        host=member.host,
        pid=member.pid,
        rank=member.rank,
        method=method,
        threads=tuple(threads),
        error=error,
        role=member.role,
        taken_wall=wall,
        duration_s=duration,
    )
