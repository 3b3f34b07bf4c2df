"""The way to this machine: the same agent, in a subprocess under the monitor's own interpreter.

:meth:`LocalChannel.start` may be called long before there is an event loop, so that the agent boots while slower
modules are imported; that is why nothing here imports asyncio before it is needed.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tui.collect.channel import Tail
from tui.collect.payload import local_command, payload
from tui.errors import HostError

if TYPE_CHECKING:
    import asyncio

    from tui.collect.channel import Pipe

LEAVE_S = 0.3
"""So long an agent may take to end by itself before it is killed, with its helpers."""


class LocalChannel:
    """``simulate`` asks for simulated GPUs where no driver answers, see :func:`tui.collect.payload.payload`; ``sudo``
    starts the agent as root, where sudo asks for no password."""

    def __init__(self, *, simulate: Mapping[str, Any] | None = None, sudo: bool = False) -> None:
        self._simulate = simulate
        self._sudo = sudo
        self._started: _Agent | None = None

    def start(self) -> None:
        """Start the agent now, for the next :meth:`open`. Raises: HostError where no process can be started."""
        if self._started is None:
            self._started = _Agent(self._simulate, self._sudo)

    async def open(self) -> Pipe:
        self.start()
        agent, self._started = self._started, None
        assert agent is not None
        return await agent.open()


class _Agent:
    """A started process: one socket is its input and output, as under sshd, and a pipe its standard error.

    It leads a session of its own: an interrupt typed at the terminal is the monitor's business, and its helpers can be
    ended with it.
    """

    def __init__(self, simulate: Mapping[str, Any] | None, sudo: bool) -> None:
        self._ours, theirs = socket.socketpair()
        try:
            self._process = subprocess.Popen(
                local_command(sudo),
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            self._ours.close()
            raise HostError(f"No process can be started on this machine: {error.strerror}.") from error
        finally:
            theirs.close()
        self._tail = Tail()
        self._ours.setblocking(False)
        self._unsent = payload(local=True, simulate=simulate)
        with suppress(OSError):  # what does not fit, or an agent that is gone already, shows when the pipe is used
            self._unsent = self._unsent[self._ours.send(self._unsent) :]

    async def open(self) -> _LocalPipe:
        import asyncio

        tail = self._tail

        class Drain(asyncio.Protocol):
            def data_received(self, data: bytes) -> None:
                tail.feed(data)

        assert self._process.stderr is not None
        reader, writer = await asyncio.open_connection(sock=self._ours)
        errors, _ = await asyncio.get_running_loop().connect_read_pipe(Drain, self._process.stderr)
        writer.write(self._unsent)
        return _LocalPipe(self._process, reader, writer, errors, tail)


class _LocalPipe:
    def __init__(
        self,
        process: subprocess.Popen[bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        errors: asyncio.ReadTransport,
        tail: Tail,
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._errors = errors
        self._tail = tail

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def drain(self) -> None:
        try:
            await self._writer.drain()
        except OSError:
            raise HostError("The agent on this machine has ended.") from None

    async def read(self, limit: int) -> bytes:
        try:
            return await self._reader.read(limit)
        except OSError:
            return b""  # reset: it ended with input unread; the exit status tells more

    async def exit_status(self) -> int | None:
        return await self._wait(1.0)

    def stderr_tail(self) -> bytes:
        return bytes(self._tail)

    async def close(self) -> None:
        self._writer.close()
        if await self._wait(LEAVE_S) is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._wait(0.15)
        self._errors.close()

    async def _wait(self, seconds: float) -> int | None:
        """The exit status, waited for by looking: a child watcher's thread would outlive a hung agent."""
        import asyncio

        until = time.monotonic() + seconds
        while (status := self._process.poll()) is None and time.monotonic() < until:
            await asyncio.sleep(0.01)
        return status
