"""Look at the interface without a launch: ``python -m tests.ui.playground [--state S] [--theme T]``.

Keys, themes and notices are those of the configuration.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable
from dataclasses import replace

from tests.ui import fakes
from tui.config.settings import load
from tui.model import Dump, Snapshot
from tui.ui.app import GputopApp


class FakeSession:
    """Posts the fake state once a second; stacks come in rank by rank."""

    why_no_stacks = ""

    def __init__(self, state: str) -> None:
        self.state = state
        self.calls: list[str] = []
        self._t = fakes.START
        self._dumps: tuple[Dump, ...] = ()
        self._task: asyncio.Task[None] | None = None
        self._post: Callable[[Snapshot], None] = lambda snapshot: None

    def start(self, post: Callable[[Snapshot], None]) -> None:
        self._post = post
        self._task = asyncio.ensure_future(self._tick())

    async def _tick(self) -> None:
        while True:
            self._send()
            await asyncio.sleep(1)
            self._t += 1

    def _send(self) -> None:
        made = fakes.snapshot(self.state, self._t)
        self._post(replace(made, dumps=(*made.dumps, *self._dumps)))

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def attend(self, launch_id: str | None) -> None:
        pass

    async def take_stacks(self, launch_id: str) -> None:
        self.calls.append(f"stacks {launch_id}")
        for n in range(9):
            self._dumps = (replace(fakes.stacks(n, self._t), launch=launch_id, id=7),)
            self._send()
            await asyncio.sleep(0.4)

    async def abort(self, launch_id: str) -> None:
        self.calls.append(f"abort {launch_id}")
        self._dumps = (replace(fakes.stacks(8, self._t), launch=launch_id, id=8, method="abort"),)
        self._send()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--state", choices=fakes.STATES, default="hung")
    parser.add_argument("--theme")
    options = parser.parse_args()
    app = GputopApp(
        lambda: FakeSession(options.state),
        theme=options.theme,
        settings=load(),
        open_demo=lambda: FakeSession("progressing"),
    )
    app.run()


if __name__ == "__main__":
    main()
