"""A dump while it fills: results come from many hosts in any order, the screen gets whole pictures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from tui.model import Dump, Launch, Member, ProcessStacks
from tui.stacks.merge import merge

SHOW_EVERY_S = 0.15
"""Merging the stacks of all ranks for each single answer would cost more than reading them."""

OnDump = Callable[[Dump], None]


class Taking:
    """Collects stacks and notes; ``on_dump`` is told at most every :data:`SHOW_EVERY_S`, and at the end."""

    def __init__(self, number: int, launch: Launch, method: str, members: Sequence[Member], on_dump: OnDump) -> None:
        self._number, self._launch, self._method, self._on_dump = number, launch, method, on_dump
        self._expected = len(members)
        self._order = {(m.host, m.pid): n for n, m in enumerate(members)}
        self._stacks: dict[tuple[str, int | None], ProcessStacks] = {}
        self._log: list[str] = []
        self._started = time.time()
        self._soon: asyncio.TimerHandle | None = None

    def note(self, text: str) -> None:
        """What was done to whom, or what came, with the time of day and the seconds since the beginning."""
        now = time.time()
        self._log.append(f"{time.strftime('%H:%M:%S', time.localtime(now))} +{now - self._started:.2f} s  {text}")
        self._show_soon()

    def put(self, stacks: ProcessStacks) -> None:
        """Stacks of a process; they take the place of what an earlier step saw of it."""
        self._stacks[stacks.host, stacks.pid] = stacks
        self._show_soon()

    def get(self, host: str, pid: int) -> ProcessStacks | None:
        return self._stacks.get((host, pid))

    def finish(self) -> Dump:
        dump = self._dump(done=True)
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

    def _dump(self, done: bool) -> Dump:
        last = len(self._order)
        stacks = sorted(self._stacks.values(), key=lambda s: self._order.get((s.host, s.pid or 0), last))
        return Dump(
            id=self._number,
            launch=self._launch.id,
            method=self._method,
            started_wall=self._started,
            done=done,
            expected=self._expected,
            processes=tuple(stacks),
            merged=merge(stacks) if stacks else None,
            log=tuple(self._log),
        )
