"""What the tests of the interface share: a session that says what it is told, and an application whose clock stands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from textual.app import App

from tests.ui import fakes
from tui.model import Snapshot
from tui.ui.app import GputopApp

SIZES = ((200, 50), (120, 40), (80, 24), (48, 40))


class ToldSession:
    """Posts one state when it is started and more when told to; remembers what it was asked."""

    why_no_stacks = ""

    def __init__(self, state: str = "hung", *, first: Snapshot | None = None, stop_s: float = 0.0) -> None:
        self.first = first or fakes.snapshot(state)
        self.calls: list[str] = []
        self.attended: str | None = None
        self.stop_s = stop_s
        self.post: Callable[[Snapshot], None] = lambda snapshot: None

    def start(self, post: Callable[[Snapshot], None]) -> None:
        self.post = post
        post(self.first)

    async def stop(self) -> None:
        self.calls.append("stop")
        await asyncio.sleep(self.stop_s)

    def attend(self, launch_id: str | None) -> None:
        self.attended = launch_id

    async def take_stacks(self, launch_id: str) -> None:
        self.calls.append(f"stacks {launch_id}")

    async def abort(self, launch_id: str) -> None:
        self.calls.append(f"abort {launch_id}")


class StillApp(GputopApp):
    """The application with a clock that moves only when a test says so."""

    now: float = 1000.0

    def clock(self) -> float:
        return StillApp.now

    def on_mount(self) -> None:
        self._start_session()  # at once: a test need not wait for the first picture


def still_app(state: str = "hung", *, theme: str = "dusk", first: Snapshot | None = None) -> StillApp:
    StillApp.now = 1000.0
    return StillApp(lambda: ToldSession(state, first=first), theme=theme)


def told(app: App[None]) -> ToldSession:
    """The session of an application made here."""
    assert isinstance(app, GputopApp)
    assert isinstance(app.session, ToldSession)
    return app.session


def rows(app: App[None]) -> list[str]:
    """What is on the screen, row by row."""
    return [strip.text for strip in app.screen._compositor.render_strips()]


def text(app: App[None]) -> str:
    return "\n".join(rows(app))
