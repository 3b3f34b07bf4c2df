"""The way to other hosts: asyncssh in the monitor's own loop, by the person's ssh config, keys and known hosts.

asyncssh costs 250 ms to import, so that happens in a thread when the first host is opened.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui.collect.channel import Tail
from tui.collect.hosts import Destination, parse
from tui.collect.payload import BOOT, SUDO_BOOT, payload
from tui.collect.sshsetup import SshSetup
from tui.collect.sshwords import explain, lost, unusable
from tui.errors import HostError

if TYPE_CHECKING:
    import asyncssh

    from tui.collect.channel import Pipe

CONNECTS_AT_ONCE = 12
"""More at a time are not faster, and floods of connects trip the ``MaxStartups`` of a shared sshd."""

KEEPALIVE_S, KEEPALIVE_MISSES = 2.0, 2
"""A host that is gone is found out after 2 s x (2 + 1)."""

CHANNEL_S = 10.0
"""Time for a session on a connection that stands."""

CLOSE_S = 0.3


class SshChannel:
    """``destination`` as ``ssh`` takes it: an alias of the ssh config, ``user@host`` or ``ssh://user@host:port``.
    ``sudo`` starts the agent as root, where sudo asks for no password there."""

    def __init__(self, destination: str, shared: SshPool, *, sudo: bool = False) -> None:
        self._destination = destination
        self._boot = SUDO_BOOT if sudo else BOOT
        self._shared = shared

    async def open(self) -> Pipe:
        line = await self._shared.connect(self._destination)
        try:
            process = await asyncio.wait_for(
                line.connection.create_process(self._boot, encoding=None, request_pty=False), CHANNEL_S
            )
            pipe = _SshPipe(self._destination, self._shared, line, process)
            pipe.write(payload())
        except BaseException as error:
            line.connection.abort()
            self._shared.hang_up(line)
            if isinstance(error, (asyncio.CancelledError, HostError)):
                raise
            raise lost(error, self._destination) from error
        return pipe


@dataclass(eq=False, slots=True)
class Line:
    """An authenticated connection, and the jump host's that it goes through."""

    connection: asyncssh.SSHClientConnection
    jump: _Jump | None


@dataclass(eq=False, slots=True)
class _Jump:
    """One connection to a jump host for all hosts behind it; closed when the last of them leaves."""

    dialing: asyncio.Task[Line]
    users: int = 0

    @property
    def broken(self) -> bool:
        task = self.dialing
        return task.done() and (
            task.cancelled() or task.exception() is not None or task.result().connection.is_closed()
        )


class SshPool:
    """What all connections of the monitor share: the library, the limit on connects at once, jump hosts, known hosts.

    ``config`` names ssh config files to read instead of the person's and the system's.
    """

    def __init__(self, config: Sequence[Path] | None = None) -> None:
        self._config = config
        self._slots = asyncio.Semaphore(CONNECTS_AT_ONCE)
        self._jumps: dict[str, _Jump] = {}
        self._loading: asyncio.Task[SshSetup] | None = None

    async def connect(self, destination: str) -> Line:
        """An authenticated connection, to be given back to :meth:`hang_up`. Raises: HostError with one sentence."""
        return await self._dial(destination, parse(destination), None, ())

    def hang_up(self, line: Line) -> None:
        """Begin to close a connection, and its jump host's when it was the last one behind that."""
        line.connection.close()
        if line.jump is not None:
            self._leave(line.jump)
            line.jump = None

    async def _dial(self, name: str, to: Destination, through: str | None, seen: tuple[str, ...]) -> Line:
        """Connect; ``through`` are the hops before, ``None`` to take them from the ssh config."""
        setup = await self._setup()
        try:
            way = await asyncio.get_running_loop().run_in_executor(None, setup.way, name, to)
        except (OSError, ValueError) as error:
            raise unusable(error, name) from error
        hops = way.hops if through is None else through
        jump = await self._board(hops, seen, name) if hops else None
        try:
            async with self._slots:
                connection = await setup.asyncssh.connect(
                    **way.arguments,
                    tunnel=jump.dialing.result().connection if jump else None,
                    keepalive_interval=KEEPALIVE_S,
                    keepalive_count_max=KEEPALIVE_MISSES,
                )
        except BaseException as error:
            if jump is not None:
                self._leave(jump)
            if isinstance(error, Exception):
                raise explain(error, setup.endpoint(way, hops), way.timeout_s) from error
            raise
        return Line(connection, jump)

    async def _board(self, hops: str, seen: tuple[str, ...], name: str) -> _Jump:
        """The shared connection to the last of ``hops``, dialled by whoever needs it first."""
        if hops in seen:
            raise HostError(f"The ProxyJump of {name} leads back to itself through {hops}.", permanent=True)
        jump = self._jumps.get(hops)
        if jump is None or jump.broken:
            before, _, last = hops.rpartition(",")
            dialing = self._dial(last, parse(f"ssh://{last}"), before or None, (*seen, hops))
            jump = self._jumps[hops] = _Jump(asyncio.ensure_future(dialing))
        jump.users += 1
        try:
            await asyncio.shield(jump.dialing)
        except BaseException as error:
            self._leave(jump)
            if isinstance(error, HostError):
                raise HostError(f"By way of {hops}: {error}", permanent=error.permanent) from error
            raise
        return jump

    def _leave(self, jump: _Jump) -> None:
        jump.users -= 1
        if jump.users > 0:
            return
        for hops in [hops for hops, other in self._jumps.items() if other is jump]:
            del self._jumps[hops]
        jump.dialing.cancel()
        jump.dialing.add_done_callback(self._hang_up_dialled)

    def _hang_up_dialled(self, dialing: asyncio.Task[Line]) -> None:
        if not dialing.cancelled() and dialing.exception() is None:
            self.hang_up(dialing.result())

    async def _setup(self) -> SshSetup:
        """The library and the person's settings, loaded once."""
        if self._loading is None:
            self._loading = asyncio.ensure_future(self._load())
        return await asyncio.shield(self._loading)

    async def _load(self) -> SshSetup:
        library = await asyncio.get_running_loop().run_in_executor(None, importlib.import_module, "asyncssh")
        logging.getLogger("asyncssh").addHandler(logging.NullHandler())  # its warnings would land on the screen
        return SshSetup(library, self._config)


class _SshPipe:
    def __init__(self, name: str, shared: SshPool, line: Line, process: asyncssh.SSHClientProcess[bytes]) -> None:
        self._name = name
        self._shared = shared
        self._line = line
        self._process = process
        self._tail = Tail()
        self._draining = asyncio.ensure_future(self._drain_stderr())

    def write(self, data: bytes) -> None:
        with suppress(OSError):  # the command has ended: reading will tell how
            self._process.stdin.write(data)

    async def drain(self) -> None:
        try:
            await self._process.stdin.drain()
        except Exception as error:
            raise lost(error, self._name) from error

    async def read(self, limit: int) -> bytes:
        try:
            return await self._process.stdout.read(limit)
        except Exception as error:
            raise lost(error, self._name) from error

    async def exit_status(self) -> int | None:
        await _at_most(1.0, self._process.wait_closed())
        return self._process.returncode

    def stderr_tail(self) -> bytes:
        return bytes(self._tail)

    async def close(self) -> None:
        self._draining.cancel()
        connection = self._line.connection
        self._process.close()
        self._shared.hang_up(self._line)
        await _at_most(CLOSE_S, connection.wait_closed())
        connection.abort()

    async def _drain_stderr(self) -> None:
        with suppress(Exception):
            while data := await self._process.stderr.read(4096):
                self._tail.feed(data)


async def _at_most(seconds: float, work: Coroutine[Any, Any, None]) -> None:
    """Wait for ``work`` however it ends, but not longer. Unlike :func:`asyncio.wait_for` before Python 3.12 this never
    swallows a cancellation, so a host cannot outlive it."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait([task], timeout=seconds)
    finally:
        task.cancel()
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
