"""Snapshots that were shown, kept to step back to: packed, in bounded memory, thinner the older they are."""

from __future__ import annotations

import math
import pickle
import time
import zlib
from bisect import bisect_right
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui.model import Snapshot


EVERY_S = 1.0
PAUSE_PER_COST = 60.0
"""After a snapshot was kept, so many times the CPU time that it took pass at least: of 64 hosts it takes 0.1 s."""

MOST_BYTES = 24 << 20
"""About two hours of one host with eight GPUs, second by second; of 64 hosts some minutes, and thinner before that."""


class Past:
    """``keep`` takes snapshots in their order, ``at`` gives the one that stood at a time.

    The timelines' rows and the stacks are left out: the newest snapshot has them all.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._times: list[float] = []
        self._packed: list[bytes] = []
        self._bytes = 0
        self._most = most_bytes
        self._due_t = -math.inf

    def __len__(self) -> int:
        return len(self._times)

    @property
    def first_t(self) -> float | None:
        """When the oldest kept snapshot was taken, in seconds on the monitor's timeline."""
        return self._times[0] if self._times else None

    def keep(self, snapshot: Snapshot) -> None:
        """Keep a snapshot unless one was kept less than a second before, or than keeping it costs."""
        if snapshot.t < self._due_t:
            return
        began = time.thread_time()
        from tui.model import Course  # loaded with the session: the first picture does not wait for it

        launches = tuple(replace(view, course=Course()) for view in snapshot.launches)
        bare = replace(snapshot, launches=launches, dumps=())
        packed = zlib.compress(pickle.dumps(bare, pickle.HIGHEST_PROTOCOL), 1)
        self._times.append(snapshot.t)
        self._packed.append(packed)
        self._bytes += len(packed)
        self._due_t = snapshot.t + max(EVERY_S, PAUSE_PER_COST * (time.thread_time() - began))
        if self._bytes > self._most:
            self._thin()

    def at(self, t: float) -> Snapshot | None:
        """The last snapshot taken by ``t``, or the oldest one where all are later; ``None`` where none is kept."""
        if not self._times:
            return None
        index = max(0, bisect_right(self._times, t) - 1)
        snapshot: Snapshot = pickle.loads(zlib.decompress(self._packed[index]))  # of this very process
        return snapshot

    def after(self, t: float) -> float:
        """When the first snapshot after ``t`` was taken; infinite where none was."""
        index = bisect_right(self._times, t)
        return self._times[index] if index < len(self._times) else math.inf

    def _thin(self) -> None:
        """Leave out every second one of the older half."""
        half = len(self._times) // 2
        kept = [*range(0, half, 2), *range(half, len(self._times))]
        self._times = [self._times[i] for i in kept]
        self._packed = [self._packed[i] for i in kept]
        self._bytes = sum(map(len, self._packed))
