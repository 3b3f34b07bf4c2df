"""What a way to a host has to offer: open it, and bytes flow to and from an agent there."""

from __future__ import annotations

from typing import Protocol

STDERR_KEPT = 4096
"""Bytes of a channel's standard error that are kept: enough for a traceback's last words."""


class Pipe(Protocol):
    """The two ends of one agent: its standard input and output.

    ``read`` gives ``b""`` at the end of the output. ``read``, ``write`` and ``drain`` raise
    :class:`~tui.errors.HostError` when the channel itself breaks.
    """

    def write(self, data: bytes) -> None: ...

    async def drain(self) -> None: ...

    async def read(self, limit: int) -> bytes: ...

    async def exit_status(self) -> int | None:
        """How the agent ended, awaited for a moment; ``None`` where that is not known. Negative: by that signal."""
        ...

    def stderr_tail(self) -> bytes: ...

    async def close(self) -> None:
        """Let go of the agent; returns within half a second and never raises."""
        ...


class Channel(Protocol):
    """A way to one host."""

    async def open(self) -> Pipe:
        """Start the agent there and hand it its payload; raises :class:`~tui.errors.HostError`."""
        ...


class Tail:
    """The last :data:`STDERR_KEPT` bytes of what was fed."""

    def __init__(self) -> None:
        self._kept = b""

    def feed(self, data: bytes) -> None:
        self._kept = (self._kept + data)[-STDERR_KEPT:]

    def __bytes__(self) -> bytes:
        return self._kept
