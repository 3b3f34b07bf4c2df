"""What the interface asks of whatever feeds it; nothing else of the program is reached from here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tui.model import Snapshot


class SessionLike(Protocol):
    """A source of snapshots. Every method is called in the loop of the application."""

    why_no_stacks: str
    """Why neither stacks can be taken nor signals be sent here, in one sentence; empty where they can."""

    def start(self, post: Callable[[Snapshot], None]) -> None:
        """Begin; ``post`` is to be called in this loop about once a second, and whenever something changed."""
        ...

    async def stop(self) -> None:
        """End. The application leaves after a fraction of a second, whether or not this returns."""
        ...

    def attend(self, launch_id: str | None) -> None:
        """This launch is looked at now, of many: what is shown of it is to be the newest."""
        ...

    async def take_stacks(self, launch_id: str) -> None:
        """Take the stacks of a launch without pausing it; results arrive in ``Snapshot.dumps``."""
        ...

    async def abort(self, launch_id: str) -> None:
        """Send SIGABRT to every rank of a launch; what came of it arrives in ``Snapshot.dumps``."""
        ...
