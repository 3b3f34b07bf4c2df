"""What the session asks and tells of past launches: answers come from memory, the file is a thread's business.

Whatever is wrong with the file (locked, full, not writable, broken, on a dead network file system), the answer is that
nothing is usual.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tui.diagnose.observe import Scene
from tui.files import state_folder
from tui.history import History
from tui.model import Launch, LaunchView, PhaseId, Usual
from tui.record.likeness import Likeness, key, likeness
from tui.record.measured import Place, Watch, arrived, by_place
from tui.record.usual import usual

if TYPE_CHECKING:
    from tui.record.store import Store

LIKEN_EVERY_S = 3.0
"""A launch's likeness is looked at again at this interval until it has arrived: more of it becomes known."""

CLOSE_S = 0.3
"""So long the end of the session waits for what is still to be written."""


@dataclass(slots=True)
class _Followed:
    attempt: int
    watch: Watch
    liken_t: float
    like: Likeness | None = None
    past: Mapping[Place, tuple[Usual, ...]] = field(default_factory=dict[Place, tuple[Usual, ...]])
    now: Mapping[PhaseId, tuple[Usual, ...]] = field(default_factory=dict[PhaseId, tuple[Usual, ...]])
    arrived: bool = False


class Baselines:
    """One session's. Nothing of it blocks or raises."""

    def __init__(self, folder: Path | None = None) -> None:
        """``folder`` instead of the state directory, ``~/.local/state/gputop-hang`` on Linux."""
        self._followed: dict[str, _Followed] = {}
        self._file = _FileThread(folder)

    def usual(self, launch: Launch) -> Mapping[PhaseId, tuple[Usual, ...]]:
        """What each phase usually takes in launches like this one, the present phase as often as it has come."""
        followed = self._followed.get(launch.id)
        return followed.now if followed is not None else {}

    def note(self, history: History, views: Sequence[LaunchView]) -> None:
        """Take the newest verdicts in; a launch that has arrived is kept."""
        listed = {view.launch.id for view in views}
        for gone in self._followed.keys() - listed:
            del self._followed[gone]
        for view in views:
            followed = self._followed.get(view.launch.id)
            if followed is None or followed.attempt != view.verdict.attempt:
                since = view.verdict.t if followed is not None or view.seen_since is None else view.seen_since
                followed = _Followed(view.verdict.attempt, Watch(since), since)
                self._followed[view.launch.id] = followed
            self._note(history, view, followed)

    async def close(self) -> None:
        """Let what is still to be written be written, if that does not take long."""
        await self._file.close()

    def _note(self, history: History, view: LaunchView, followed: _Followed) -> None:
        if followed.arrived:
            return
        followed.watch.note(history, view)
        followed.now = {place[0]: followed.past[place] for place in _standing(view) if place in followed.past}
        followed.arrived = arrived(view.verdict)
        if view.verdict.t < followed.liken_t and not followed.arrived:
            return
        followed.liken_t = view.verdict.t + LIKEN_EVERY_S
        like = likeness(history, view.launch)
        if like != followed.like:
            followed.like = like
            self._file.do(lambda store: _look_up(store, like, followed))
        if followed.arrived:
            self._keep(history, view, followed, like)

    def _keep(self, history: History, view: LaunchView, followed: _Followed, like: Likeness) -> None:
        started_t = Scene(history, view.launch, view.verdict.t).started_t
        phases = list(followed.watch.phases(view, started_t))
        name = key(history, view.launch)
        if phases and name is not None:
            self._file.do(lambda store: store.keep(name, like, phases))


def _look_up(store: Store, like: Likeness, followed: _Followed) -> None:
    try:
        past = store.past(like)
    except Exception:
        followed.like = None  # asked again soon: somebody may only have held it locked
        raise
    if followed.like == like:
        followed.past = {place: usual(took) for place, took in past.items()}


def _standing(view: LaunchView) -> list[Place]:
    """Each phase as it came last, or will come first."""
    begun = dict(by_place(view.spans).keys())
    return [(phase, begun.get(phase, 1)) for phase in {*begun, *view.ahead}]


class _FileThread:
    """Does one thing after the other with the store; started by the first, and no exit waits for it."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._work: queue.SimpleQueue[Callable[[Store], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def do(self, work: Callable[[Store], None]) -> None:
        self._work.put(work)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="past launches", daemon=True)
            self._thread.start()

    async def close(self) -> None:
        self._work.put(None)
        loop = asyncio.get_running_loop()
        until = loop.time() + CLOSE_S
        while self._thread is not None and self._thread.is_alive() and loop.time() < until:
            await asyncio.sleep(0.01)

    def _run(self) -> None:
        with suppress(Exception):  # no home, no SQLite: nothing is usual then
            from tui.record.store import Store

            store = Store(self._folder or state_folder())
            while (work := self._work.get()) is not None:
                with suppress(Exception):  # whatever is wrong with the file: nothing is usual then, and nobody suffers
                    work(store)
