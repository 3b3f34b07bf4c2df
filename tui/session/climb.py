"""The ladder of capture on one host, small steps first; nothing of it pauses a process but native stacks, the last.

``/proc`` of the processes and of all that they started; py-spy without blocking; the same once more two seconds later,
so that what moves is told from what stands; and meanwhile NCCL's RAS and the flight recorder.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tui.collect import decode
from tui.collect.host import Host
from tui.errors import HostError
from tui.model import Member, ProcessStacks, ThreadStack
from tui.session import pyspy_there
from tui.session.folded import unfold
from tui.session.probing import POLLS_APART_S, RasPolls, Records
from tui.session.taking import Rung, Taking
from tui.stacks import kernel
from tui.stacks.explain import pyspy_error
from tui.stacks.ras import Seat

LOOK_S = 12.0
PYSPY_S = 60.0
"""For all processes of a host; one that hangs is killed by the agent long before."""

NATIVE_S = 90.0
MOST_CHILDREN = 128
"""Of one host's processes' children, so many are given to py-spy."""

_UNFIT = "py-spy cannot be run"
"""How the agent says that the program does not start there."""

Put = Callable[[ProcessStacks], None]

PAUSES = "each process is paused for 1 to 2.5 s meanwhile"


class Climb:
    """``members`` live on ``host``. Results go into ``taking`` as they come; what fails is recorded there."""

    def __init__(
        self, taking: Taking, host: Host, members: Sequence[Member], polls: RasPolls, records: Records
    ) -> None:
        self._taking, self._host, self._members = taking, host, list(members)
        self._polls, self._records = polls, records
        self._children: list[Member] = []
        self._inner: Mapping[str, Any] = {}
        self._addresses: tuple[str, ...] = ()
        self._program: str | None = None

    @property
    def seats(self) -> list[Seat]:
        """The ranks as RAS may name them: by the host's name or addresses, by the pid here or in their container."""
        seats: list[Seat] = []
        for m in self._members:
            if m.rank is not None:
                inner = decode.integer(self._inner.get(str(m.pid)))
                pids = (m.pid,) if inner is None else (m.pid, inner)
                seats += [Seat(m.host, pid, m.rank, self._addresses) for pid in pids]
        return seats

    async def up(self, native: bool) -> None:
        """All steps; ``native`` adds the one that pauses."""
        try:
            await self._look("/proc")
            await self._pyspy("py-spy", self._all(), self._taking.put)
            taken = time.monotonic()
            await asyncio.gather(
                self._look_again(taken),
                self._records.take(self._host, self._members),
                self._polls.poll(self._host, [m for m in self._members if m.rank is not None] or self._members),
            )
            if native:
                await self._native()
        except HostError as error:
            self._taking.note(str(error))
            self.fail(str(error))

    def fail(self, error: str) -> None:
        """Say so of every process of which nothing is known yet."""
        for member in self._members:
            got = self._taking.get(member.host, member.pid)
            if got is None or (got.method == "/proc" and got.error is None):
                self._fail(None, member, error)

    def _all(self) -> list[Member]:
        return [*self._members, *self._children]

    # ----------------------------------------------------------------------------------------------------------- /proc

    async def _look(self, method: str) -> None:
        """Threads, states and where the kernel has them; that a look fails is noted and hinders nothing."""
        try:
            with self._taking.step(self._host.name, method, len(self._members)) as rung:
                procs = _keys(self._members)
                answer = await self._host.request("look", what="family", procs=procs, timeout=LOOK_S)
                threads = decode.mapped(answer.get("threads"))
                seen = {pid: kernel.from_look(rows, int(pid)) for pid, rows in threads.items() if pid.isdigit()}
                rung.answered(sum(bool(seen.get(str(m.pid))) for m in self._members))
        except HostError as error:
            self._taking.note(f"{method}: {error}")
            return
        self._inner = decode.mapped(answer.get("inner"))
        self._addresses = tuple(a for a in decode.listed(answer.get("addresses")) if isinstance(a, str))
        self._adopt([decode.mapped(row) for row in decode.listed(answer.get("below"))], seen)
        for member in self._all():
            got = self._taking.get(member.host, member.pid)
            rows = seen.get(str(member.pid), ())
            if rows and (got is None or got.method == "/proc"):
                self._taking.put(_stacks(member, "/proc", rows, got.error if got else None, time.time()))
            elif rows and got is not None:
                self._taking.put(replace(got, threads=kernel.joined(got.threads, rows)))
        self._taking.note(f"{method}: {rung.step.answered} of {len(self._members)} processes on {self._host.name}")

    def _adopt(self, below: Sequence[Mapping[str, Any]], seen: Mapping[str, tuple[ThreadStack, ...]]) -> None:
        """Take the children in that may tell something: those that are Python, and those that are stuck or stopped."""
        ranks = {m.pid: m for m in self._members}
        known = {m.pid for m in self._all()}
        others: dict[str, int] = {}
        for row in below:
            pid, ticks = decode.integer(row.get("pid")), decode.integer(row.get("start_ticks"))
            parent = ranks.get(decode.integer(row.get("of")) or 0)
            if pid is None or ticks is None or parent is None or pid in known:
                continue
            comm = str(row.get("comm") or "")
            stuck = any(t.main and t.state in ("D", "T", "t") for t in seen.get(str(pid), ()))
            if (row.get("python") or stuck) and len(self._children) < MOST_CHILDREN:
                role = "data_worker" if comm.startswith("pt_data_worker") else "child"
                of = f"rank {parent.rank}" if parent.rank is not None else f"pid {parent.pid}"
                self._children.append(Member(self._host.name, pid, ticks, None, role, f"{comm} of {of}"))
            else:
                others[comm] = others.get(comm, 0) + 1
        if others:
            named = sorted(others.items(), key=lambda item: -item[1])[:4]
            said = ", ".join(f"{count} {comm}" for comm, count in named)
            self._taking.note(f"{sum(others.values())} more below them on {self._host.name}, not Python: {said}")

    async def _look_again(self, taken: float) -> None:
        await asyncio.sleep(max(0.0, POLLS_APART_S - (time.monotonic() - taken)))
        read = [m for m in self._members if self._has_frames(m)]
        if read:
            await self._look("/proc again")
            await self._pyspy("py-spy again", read, self._taking.put_again)

    def _has_frames(self, member: Member) -> bool:
        got = self._taking.get(member.host, member.pid)
        return got is not None and any(t.frames for t in got.threads)

    # ---------------------------------------------------------------------------------------------------------- py-spy

    async def _pyspy(self, method: str, members: Sequence[Member], put: Put) -> None:
        """Run py-spy without blocking, ours where the host has none that fits."""
        with self._taking.step(self._host.name, method, len(members)) as rung:
            without = await self._run(rung, members, put)
            if not without:
                return
            try:
                self._program = await pyspy_there.send(self._host, self._taking.note)
            except HostError as error:
                without = await self._with_the_old_one(rung, without, put, str(error))
                for member in without:
                    self._fail(rung, member, str(error))
                return
            for member in await self._run(rung, without, put):
                self._fail(rung, member, f"py-spy was sent to {self._host.name} but cannot be run there.")

    async def _with_the_old_one(self, rung: Rung, members: Sequence[Member], put: Put, why: str) -> list[Member]:
        """Where ours cannot be sent an old py-spy is better than none."""
        self._program = pyspy_there.NAME
        left = await self._run(rung, members, put, any_version=True)
        if len(left) < len(members):
            self._taking.note(f"{why} The old py-spy of {self._host.name} is used.")
        return left

    async def _run(self, rung: Rung, members: Sequence[Member], put: Put, any_version: bool = False) -> list[Member]:
        """Run py-spy on every process at once and take what comes; returns those for which there is no py-spy."""
        program = self._program or pyspy_there.program_on(self._host)
        waiting = {m.pid: m for m in members}
        unfit: list[Member] = []
        oldest = None if any_version else list(pyspy_there.OLDEST)
        asked = {"procs": _keys(members), "program": program, "native": False, "at_least": oldest}
        try:
            async for answer in self._host.answers("stacks", timeout=PYSPY_S, **asked):
                member = waiting.pop(decode.integer(answer.get("pid")) or 0, None)
                if member is not None and not self._take(rung, member, answer, put):
                    unfit.append(member)
        except HostError as error:
            if "on this host" not in str(error):
                raise
            self._taking.note(f"py-spy: {error}")
            return list(members)
        return unfit

    def _take(self, rung: Rung, member: Member, answer: Mapping[str, Any], put: Put) -> bool:
        """False where py-spy itself did not start."""
        error, duration = answer.get("error"), decode.number(answer.get("duration_s"))
        threads = unfold(answer.get("stacks"), member.pid) if error is None else ()
        if isinstance(error, str) and error.startswith(_UNFIT):
            self._taking.note(f"py-spy on {self._host.name}: {error}")
            return False
        if not threads:
            scope = self._host.hello.ptrace_scope if self._host.hello else None
            why = pyspy_error(error, scope) if isinstance(error, str) else "py-spy gave an answer without threads."
            self._fail(rung, member, why, duration)
            return True
        rung.answered()
        before = self._taking.get(member.host, member.pid)
        threads = kernel.joined(threads, before.threads if before else ())
        put(_stacks(member, "py-spy", threads, None, decode.number(answer.get("wall")), duration))
        if rung.step.method == "py-spy":
            self._taking.note(f"py-spy: {_who(member)}, {len(threads)} threads in {duration or 0.0:.2f} s")
        return True

    def _fail(self, rung: Rung | None, member: Member, error: str, duration: float | None = None) -> None:
        """A process without Python stacks keeps what an earlier step showed. One that is no rank need not be Python."""
        self._taking.note(f"py-spy: {_who(member)}: {error}")
        if rung is not None:
            rung.failed(member.pid, error)
        before = self._taking.get(member.host, member.pid)
        if before is None or not any(t.frames for t in before.threads):
            self._taking.put(_stacks(member, "/proc", before.threads if before else (), error, None, duration))

    # ---------------------------------------------------------------------------------------------------------- native

    async def _native(self) -> None:
        """C frames of the ranks too. py-spy stops each process for it; the agent leaves alone what is in an
        uninterruptible wait or stopped already, and sees to it that none stays stopped."""
        ranks = self._taking.launch.ranks()
        members = [m for m in self._members if self._has_frames(m) and (m in ranks or not ranks)]
        if not members:
            return
        self._taking.note(f"native stacks of {len(members)} processes on {self._host.name}: {PAUSES}")
        program = self._program or pyspy_there.program_on(self._host)
        found: list[ProcessStacks] = []
        with self._taking.step(self._host.name, "native stacks", len(members)) as rung:
            waiting = {m.pid: m for m in members}
            asked = {"procs": _keys(members), "program": program, "native": True}
            async for answer in self._host.answers("stacks", timeout=NATIVE_S, **asked):
                member = waiting.pop(decode.integer(answer.get("pid")) or 0, None)
                if member is None:
                    continue
                threads = unfold(answer.get("stacks"), member.pid)
                duration = decode.number(answer.get("duration_s"))
                if not threads:
                    rung.failed(member.pid, str(answer.get("error") or "py-spy gave no threads"))
                    self._taking.note(f"native stacks: {_who(member)}: {rung.step.errors[-1][1]}")
                    continue
                rung.answered()
                before = self._taking.get(member.host, member.pid)
                threads = kernel.joined(threads, before.threads if before else ())
                wall = decode.number(answer.get("wall"))
                found.append(_stacks(member, "py-spy --native", threads, None, wall, duration))
        self._taking.put_native(found)


# ------------------------------------------------------------------------------------------------------------- helpers


def _keys(members: Sequence[Member]) -> list[list[int]]:
    return [[m.pid, m.start_ticks] for m in members]


def no_stacks(member: Member, error: str) -> ProcessStacks:
    """A process of which nothing can be known."""
    return _stacks(member, "/proc", error=error)


def _who(member: Member) -> str:
    name = f"rank {member.rank}" if member.rank is not None else member.role.replace("_", " ")
    return f"{name} (pid {member.pid} on {member.host})"


def _stacks(
    member: Member,
    method: str,
    threads: Sequence[ThreadStack] = (),
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
