"""The processes of one host that are known, and who started whom."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tui.model import Identity
from tui.session.frameworks import Trait

MAX_DEPTH = 64
"""Ancestors that are followed; a tree that claims more is a cycle made of reused pids."""

ProcKey = tuple[int, int]
"""``(pid, start_ticks)``: a process of one host."""


@dataclass(slots=True)
class Process:
    identity: Identity
    trait: Trait | None
    ended: bool = False

    @property
    def key(self) -> ProcKey:
        return (self.identity.pid, self.identity.start_ticks)


class ProcessTree:
    def __init__(self) -> None:
        self.table: dict[ProcKey, Process] = {}
        self._by_pid: dict[int, ProcKey] = {}

    def put(self, process: Process) -> None:
        self.table[process.key] = process
        self._by_pid[process.identity.pid] = process.key

    def drop(self, key: ProcKey) -> None:
        self.table.pop(key, None)
        if self._by_pid.get(key[0]) == key:
            del self._by_pid[key[0]]

    def with_pid(self, pid: int) -> Process | None:
        """The latest process that had this pid."""
        key = self._by_pid.get(pid)
        return None if key is None else self.table[key]

    def parent(self, process: Process) -> Process | None:
        """The parent, where it is known and no later process with its reused pid."""
        above = self.with_pid(process.identity.ppid)
        if above is None or above is process or above.identity.start_ticks > process.identity.start_ticks:
            return None
        return above

    def ancestors(self, process: Process) -> Iterator[Process]:
        """From the parent upwards."""
        above = self.parent(process)
        for _ in range(MAX_DEPTH):
            if above is None:
                return
            yield above
            above = self.parent(above)
