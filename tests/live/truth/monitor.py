"""A monitor as a process of its own, which tells each change as one line of JSON: ``monitor.py PID ...``."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

from tui.collect.channel import Channel
from tui.collect.local import LocalChannel
from tui.model import Snapshot
from tui.session.live import LiveSession
from tui.session.plan import Plan


class Teller:
    """Tells what is said of the jobs with these root processes whenever it changes, and when the host's state does."""

    def __init__(self, pids: Iterable[int], tell: Callable[[dict[str, Any]], None]) -> None:
        self._pids, self._tell = tuple(pids), tell
        self._last: dict[int, object] = {}

    def post(self, snapshot: Snapshot) -> None:
        for host in snapshot.hosts:
            self._change(0, host.state, {"t": snapshot.t, "pid": 0, "state": host.state, "why": host.reason})
        for view in snapshot.launches:
            for pid in self._pids:
                if any(member.pid == pid for member in view.launch.members):
                    verdict = view.verdict
                    row = {"t": verdict.t, "pid": pid, "id": verdict.id, "cause": verdict.cause}
                    row |= {"silent_s": verdict.silent_s, "still_s": verdict.still_s, "why": verdict.reasons[:3]}
                    self._change(pid, (verdict.id, verdict.cause, round(verdict.t / 5)), row)

    def _change(self, pid: int, word: object, row: dict[str, Any]) -> None:
        if self._last.get(pid) != word:
            self._last[pid] = word
            self._tell(row)


def session(pids: Iterable[int], channel: Channel, tell: Callable[[dict[str, Any]], None]) -> LiveSession:
    """A started session over the jobs with these root processes."""
    pids = tuple(pids)
    live = LiveSession(Plan(channels=(("here", channel),), pids=tuple((None, pid) for pid in pids)))
    live.start(Teller(pids, tell).post)
    return live


async def main(pids: list[int]) -> None:
    session(pids, LocalChannel(), lambda row: print(json.dumps(row), flush=True))
    while True:
        await asyncio.sleep(3600.0)


if __name__ == "__main__":
    asyncio.run(main([int(word) for word in sys.argv[1:]]))
