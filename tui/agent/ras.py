"""A client of NCCL's RAS (2.24 and later), which tells of every communicator who has launched how much.

``ncclras`` is in no pip wheel, so the protocol is spoken here (``src/ras/client_support.cc`` of NCCL 2.24 to 2.30):
lines of ASCII, one answer a line, the body of ``STATUS`` until the end of the connection. The processes of one user
share the port (SO_REUSEPORT), so that a connection reaches any of them; a stopped one accepts and stays silent, and
another try reaches another. Nothing of it touches a process beyond what its own RAS thread does.
"""

import os
import socket
import time

from . import namespaces, procfs
from .environ import variables
from .identity import Fds
from .loop import clock
from .ports import listeners
from .wire import packed

DEFAULT = "localhost:28028"
HANDSHAKE_S = 1.0
CONNECTS = 6
BODY_S = 14.0
"""NCCL collects for 5 s, and for 5 s more where some do not answer (``TIMEOUT`` is the client's)."""

MOST_BYTES = 8 << 20
LONGEST_LINE = 4096


class Failed(Exception):
    """One sentence."""


def work(procs: "list[tuple[int, int]]") -> "dict[str, Any]":
    """Ask once for each address that the processes listen on; ``{"asked": [...]}``, empty where none has a RAS."""
    home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    asked: "list[dict[str, Any]]" = []
    for (_, address), pids in _places([pid for pid, start_ticks in procs if procfs.alive(pid, start_ticks)]).items():
        began, wall = clock(), time.time()
        row: "dict[str, Any]" = {"address": address, "pids": pids, "wall": round(wall, 3)}
        try:
            if namespaces.differs(pids[0], "net"):
                namespaces.enter(pids[0], "net")
            row.update(ask(*_split(address)))
        except (Failed, OSError, ValueError) as failure:
            row["error"] = str(failure)
        finally:
            namespaces.back(home, "net")
        row["duration_s"] = round(clock() - began, 3)
        asked.append(row)
    os.close(home)
    return {"asked": asked}


def _places(pids: "list[int]") -> "dict[tuple[str, str], list[int]]":
    """Network namespace and address, with the processes that have a RAS thread or listen there."""
    places: "dict[tuple[str, str], list[int]]" = {}
    for pid in pids:
        env = variables(pid, "NCCL_RAS_")
        address = env.get("NCCL_RAS_ADDR") or DEFAULT
        if env.get("NCCL_RAS_ENABLE") == "0" or not (_has_thread(pid) or _listens(pid, address)):
            continue
        try:
            namespace = os.readlink("/proc/%d/ns/net" % pid)
        except OSError:
            namespace = ""
        places.setdefault((namespace, address), []).append(pid)
    return places


def _has_thread(pid: int) -> bool:
    try:
        names = os.listdir("/proc/%d/task" % pid)
        return any(procfs.read("/proc/%d/task/%s/comm" % (pid, name)).startswith(b"NCCL RAS") for name in names)
    except OSError:
        return False


def _listens(pid: int, address: str) -> bool:
    try:
        ports, port = listeners(pid), _split(address)[1]
    except (OSError, ValueError):
        return False
    return any(ports.get(inode) == port for inode in Fds(pid).sockets)


def _split(address: str) -> "tuple[str, int]":
    """``host:port`` or ``[v6]:port``. Raises ValueError."""
    host, _, port = address.rpartition(":")
    return host.strip("[]") or "localhost", int(port)


def ask(host: str, port: int) -> "dict[str, Any]":
    """One poll: ``data`` (see :func:`.wire.packed`), its ``format`` (``json`` from 2.28.7 on, else ``text``) and the
    ``protocol``'s version. Raises Failed."""
    silent = 0
    for _ in range(CONNECTS):
        try:
            connection = socket.create_connection((host, port), HANDSHAKE_S)
        except OSError as failure:
            raise Failed("NCCL RAS at %s:%d cannot be reached: %s" % (host, port, failure)) from None
        with connection:
            line = _Lines(connection)
            try:
                greeting = line.say("CLIENT PROTOCOL 2")
            except socket.timeout:
                silent += 1
                continue
            if not greeting.upper().startswith("SERVER PROTOCOL "):
                raise Failed("what listens at %s:%d is no NCCL RAS: it said %r" % (host, port, greeting[:60]))
            try:
                line.say("TIMEOUT 5")
                shape = "json" if line.say("SET FORMAT json") == "OK" else "text"
                body = line.body("VERBOSE STATUS")
            except socket.timeout:
                raise Failed("NCCL RAS at %s:%d began to answer and fell silent" % (host, port)) from None
            if not body.strip():
                raise Failed("NCCL RAS at %s:%d closed the connection without an answer" % (host, port))
            return {"protocol": greeting[16:24].strip(), "format": shape, "data": packed(body)}
    said = "accepts and stays silent (%d tries): its processes are stopped" % silent
    raise Failed("NCCL RAS at %s:%d %s" % (host, port, said))


class _Lines:
    def __init__(self, connection: socket.socket):
        self._connection = connection
        self._rest = b""

    def say(self, command: str) -> str:
        """Send a line and read one. Raises socket.timeout, Failed."""
        self._send(command)
        until = clock() + HANDSHAKE_S
        while b"\n" not in self._rest:
            piece = self._receive(until - clock())
            if not piece or len(self._rest) > LONGEST_LINE:
                raise Failed("NCCL RAS broke off at %s" % command)
            self._rest += piece
        answer, _, self._rest = self._rest.partition(b"\n")
        return answer.decode("utf-8", "replace").strip()

    def body(self, command: str) -> bytes:
        """Send a line and read to the end. Raises socket.timeout, Failed."""
        self._send(command)
        until = clock() + BODY_S
        body, self._rest = bytearray(self._rest), b""
        while len(body) < MOST_BYTES:
            piece = self._receive(until - clock())
            if not piece:
                break
            body += piece
        return bytes(body)

    def _send(self, command: str) -> None:
        try:
            self._connection.sendall(command.encode() + b"\n")
        except OSError as failure:
            raise Failed("NCCL RAS broke off at %s: %s" % (command, failure)) from None

    def _receive(self, seconds: float) -> bytes:
        self._connection.settimeout(max(0.01, seconds))
        try:
            return self._connection.recv(1 << 16)
        except socket.timeout:
            raise
        except OSError as failure:
            raise Failed("NCCL RAS broke off: %s" % failure) from None


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
