"""A recorded start-up played through the same engine, on a virtual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from tui.collect.replay import Replay
from tui.errors import UsageError
from tui.model import Snapshot
from tui.session.book import HostBook
from tui.session.engine import Engine
from tui.session.own_markers import OwnMarkers

_FASTEST_S = 0.02
"""Even at full speed a picture stands this long, so that keys are heard between two."""


class PlaybackSession:
    why_no_stacks = "This is a replay: there are no processes whose stacks could be taken."

    def __init__(self, path: Path, *, speed: float) -> None:
        """``speed`` is in times real time; infinite means as fast as pictures can be shown.

        Raises: UsageError where ``path`` is no scenario.
        """
        self._replay = Replay(path)
        self._engine = Engine(map(HostBook, self._replay.hosts), OwnMarkers())
        self._speed = speed
        self._post: Callable[[Snapshot], None] = lambda snapshot: None
        self._last = Snapshot(t=0.0, wall=self._replay.start_wall)
        self._task: asyncio.Task[None] | None = None

    def start(self, post: Callable[[Snapshot], None]) -> None:
        self._post = post
        self._task = asyncio.create_task(self._play(), name="playback")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def attend(self, launch_id: str | None) -> None:
        """There is one launch, and it is judged at every step."""

    async def take_stacks(self, launch_id: str) -> None:
        raise UsageError(self.why_no_stacks)

    async def abort(self, launch_id: str) -> None:
        raise UsageError(self.why_no_stacks)

    async def _play(self) -> None:
        before: float | None = None
        for t, samples, launch in self._replay.steps():
            if before is not None:
                await asyncio.sleep(max(_FASTEST_S, (t - before) / self._speed))
            before = t
            for sample in samples:
                book = self._engine.books[sample.host]
                book.state, book.since = "live", book.since or t
                self._engine.add(sample)
            view, _ = self._engine.judge(launch, t)
            hosts = self._engine.host_views(t)
            self._last = Snapshot(t=t, wall=self._replay.start_wall + t, hosts=hosts, launches=(view,))
            self._post(self._last)
        self._say("the recording ends here")

    def _say(self, note: str) -> None:
        last = self._last
        self._post(Snapshot(last.t, last.wall, last.hosts, last.launches, last.dumps, note))
