"""A dump while it fills: results come from many hosts in any order, the screen gets whole pictures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tui.errors import HostError
from tui.model import Dump, Frame, Launch, Member, MergedStacks, ProcessStacks, Raw, Step, ThreadStack
from tui.stacks.called import Called
from tui.stacks.merge import merge
from tui.stacks.sigabrt import HOLD_ROLES

SHOW_EVERY_S = 0.15
"""Merging the stacks of all ranks for each single answer would cost more than reading them."""

CHILDREN = frozenset({"child", "data_worker"})
"""Roles of what ranks have started themselves. Where there are no ranks, they are nobody's peers."""

OnDump = Callable[[Dump], None]


class Rung:
    """A step while it lasts."""

    def __init__(self, step: Step, began: float) -> None:
        self.step = step
        self._began = began

    def answered(self, number: int = 1) -> None:
        self.step = replace(self.step, answered=self.step.answered + number)

    def failed(self, pid: int, sentence: str) -> None:
        self.step = replace(self.step, errors=(*self.step.errors, (pid, sentence)))

    def close(self, error: str | None) -> None:
        self.step = replace(self.step, duration_s=round(time.monotonic() - self._began, 3), error=error)


class Taking:
    """Collects stacks, steps and notes; ``on_dump`` is told at most every :data:`SHOW_EVERY_S`, and at the end."""

    def __init__(self, number: int, launch: Launch, method: str, members: Sequence[Member], on_dump: OnDump) -> None:
        self._number, self._launch, self._method, self._on_dump = number, launch, method, on_dump
        self._expected = len(members)
        self._order = {(m.host, m.pid): n for n, m in enumerate(members)}
        self._stacks: dict[tuple[str, int | None], ProcessStacks] = {}
        self._before: dict[tuple[str, int | None], ProcessStacks] = {}
        self._native: dict[tuple[str, int | None], ProcessStacks] = {}
        self._log: list[str] = []
        self._rungs: list[Rung] = []
        self._started = time.time()
        self._soon: asyncio.TimerHandle | None = None
        self.raw: list[Raw] = []
        self.called: tuple[Called, ...] = ()
        """What the ranks have called, once flight recorder and RAS are read."""

    @property
    def launch(self) -> Launch:
        return self._launch

    @property
    def processes(self) -> list[ProcessStacks]:
        """In the order of the members, their children behind them."""
        last = len(self._order)
        return sorted(self._stacks.values(), key=lambda s: self._order.get((s.host, s.pid or 0), last))

    @property
    def before(self) -> list[ProcessStacks]:
        return list(self._before.values())

    def note(self, text: str) -> None:
        """What was done to whom, or what came, with the time of day and the seconds since the beginning."""
        now = time.time()
        self._log.append(f"{time.strftime('%H:%M:%S', time.localtime(now))} +{now - self._started:.2f} s  {text}")
        self._show_soon()

    @contextmanager
    def step(self, host: str, method: str, asked: int, began: float | None = None) -> Generator[Rung]:
        """Record a step, which ``began`` (monotonic) now or before; a HostError is its error, and is raised on."""
        now = time.monotonic()
        began = now if began is None else began
        rung = Rung(Step(host, method, time.time() - (now - began), asked=asked), began)
        self._rungs.append(rung)
        self._show_soon()
        try:
            yield rung
        except HostError as error:
            rung.close(str(error))
            raise
        except BaseException:
            rung.close("it was broken off")
            raise
        rung.close(rung.step.error)

    def put(self, stacks: ProcessStacks) -> None:
        """Stacks of a process; they take the place of what an earlier step saw of it."""
        self._stacks[stacks.host, stacks.pid] = stacks
        self._show_soon()

    def put_again(self, stacks: ProcessStacks) -> None:
        """Stacks that were taken some seconds after those that are there, which become the earlier ones."""
        earlier = self._stacks.get((stacks.host, stacks.pid))
        if earlier is not None and any(t.frames for t in earlier.threads):
            self._before[stacks.host, stacks.pid] = earlier
        self.put(stacks)

    def put_native(self, found: Sequence[ProcessStacks]) -> None:
        """Stacks with C frames. They take the place of those without only where all ranks (or all members) gave them:
        with and without they do not compare."""
        ranks = self._launch.ranks() or [m for m in self._launch.members if m.role not in HOLD_ROLES]
        self._native |= {(p.host, p.pid): p for p in found}
        if all((m.host, m.pid) in self._native for m in ranks):
            self._stacks |= self._native
            self._before |= {
                k: _as_before(self._native[k], old) for k, old in self._before.items() if k in self._native
            }
        self._show_soon()

    def get(self, host: str, pid: int) -> ProcessStacks | None:
        return self._stacks.get((host, pid))

    def finish(self, evidence: Mapping[str, Any] | None = None) -> Dump:
        dump = self._dump(done=True, evidence=evidence)
        self._stop_timer()
        self._on_dump(dump)
        return dump

    def abandon(self) -> None:
        """No further picture: whoever waited for it has gone."""
        self._stop_timer()

    def _show_soon(self) -> None:
        if self._soon is None:
            self._soon = asyncio.get_running_loop().call_later(SHOW_EVERY_S, self._show)

    def _show(self) -> None:
        self._soon = None
        self._on_dump(self._dump(done=False))

    def _stop_timer(self) -> None:
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None

    def peers(self) -> list[ProcessStacks]:
        """Those that are compared with each other."""
        ranked = any(p.rank is not None for p in self._stacks.values())
        return [p for p in self.processes if ranked or p.role not in CHILDREN]

    def _merged(self) -> MergedStacks | None:
        peers = self.peers()
        return merge(peers, called=self.called, before=self.before) if peers else None

    def _dump(self, done: bool, evidence: Mapping[str, Any] | None = None) -> Dump:
        return Dump(
            id=self._number,
            launch=self._launch.id,
            method=self._method,
            started_wall=self._started,
            done=done,
            expected=self._expected,
            processes=tuple(self.processes),
            merged=self._merged(),
            log=tuple(self._log),
            steps=tuple(sorted((rung.step for rung in self._rungs), key=lambda step: step.started_wall)),
            before=tuple(self._before.values()),
            native=tuple(self._native.values()),
            raw=tuple(self.raw),
            called=self.called,
            evidence=evidence,
        )


def _as_before(native: ProcessStacks, earlier: ProcessStacks) -> ProcessStacks:
    """The earlier stacks in a form that compares with native ones: a thread whose Python frames are the same stood
    where it stands now; of one that has moved the earlier frames stay."""
    now = {thread.os_thread_id: thread for thread in native.threads}
    threads = [
        now[old.os_thread_id] if old.os_thread_id in now and _python(now[old.os_thread_id]) == _python(old) else old
        for old in earlier.threads
    ]
    return replace(earlier, threads=tuple(threads))


def _python(thread: ThreadStack) -> list[Frame]:
    """Its Python frames: those of C carry a line too where there are debug symbols."""
    return [frame for frame in thread.frames if frame.line and (frame.file.endswith(".py") or frame.file[:1] == "<")]
