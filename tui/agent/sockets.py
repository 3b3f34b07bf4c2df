"""TCP sockets of processes: how many in which state, whom they call in vain, what waits in their queues."""

import os
import socket
import struct

from . import procfs
from .identity import Fds
from .ports import MESSAGE_SIZE, diagnosed

CONNECTED = 1 << 1 | 1 << 8  # ESTABLISHED, CLOSE_WAIT
INET_DIAG_INFO, RECEIVED_AT = 2, 128  # tcpi_bytes_received in struct tcp_info, include/uapi/linux/tcp.h
_ATTRIBUTE, _COUNT = struct.Struct("=HH"), struct.Struct("=Q")

MOST_SOCKETS = 32
"""Rows a process, those with something to tell first."""

STATES = {  # include/net/tcp_states.h
    1: "established", 2: "syn_sent", 3: "syn_recv", 4: "fin_wait1", 5: "fin_wait2", 6: "time_wait", 7: "close",
    8: "close_wait", 9: "last_ack", 10: "listen", 11: "closing", 12: "new_syn_recv",
}  # fmt: skip
_TOLD = ("syn_sent", "close_wait", "established")


def look(request: "dict[str, Any]") -> "dict[str, Any]":
    """``{"sockets": {pid: {"states", "tcp": [...]}|null}, "master": ...|null, "looked"}``; see the protocol. ``master``
    asks for an address and port that ranks are to meet at."""
    pids = [int(pid) for pid, _ in request["procs"]]
    tables: "dict[str, dict[str, Row]]" = {}
    received = _received()
    master = request.get("master")
    port = int(master[1]) if master else 0
    found = {pid: _of(pid, port, tables, received) for pid in pids}
    return {
        "sockets": {str(pid): row for pid, row in found.items()},
        "master": _master(str(master[0]), port, tables) if master else None,
        "looked": pids,
    }


class Row:
    """A line of ``/proc/net/tcp`` (proc_net_tcp.rst). Queues in bytes; of a listener, connections to be accepted."""

    __slots__ = ("here", "received", "sent", "state", "timer", "tries", "uid", "way")

    def __init__(self, fields: "list[bytes]"):
        self.here, self.way = _address(fields[1]), _address(fields[2])
        self.state = STATES.get(int(fields[3], 16), "other")
        sent, _, received = fields[4].partition(b":")
        self.sent, self.received = int(sent, 16), int(received, 16)
        self.tries = int(fields[6], 16)

    def told(self) -> "dict[str, Any]":
        return {
            "state": self.state,
            "here": "%s:%d" % self.here,
            "peer": "%s:%d" % self.way,
            "unsent": self.sent,
            "unread": self.received,
            "tries": self.tries,
        }


def _of(
    pid: int, port: int, tables: "dict[str, dict[str, Row]]", received: "dict[str, int]"
) -> "dict[str, Any] | None":
    try:
        namespace = os.readlink("/proc/%d/ns/net" % pid)
    except OSError:
        return None
    if namespace not in tables:
        tables[namespace] = _table(pid)
    table = tables[namespace]
    inodes = Fds(pid).sockets
    own = [table[inode] for inode in inodes if inode in table]
    states: "dict[str, int]" = {}
    for row in own:
        states[row.state] = states.get(row.state, 0) + 1
    telling = [row for row in own if row.state in _TOLD]
    telling.sort(key=lambda row: (_TOLD.index(row.state), -row.sent - row.received))
    got = sorted([(received[inode], inode) for inode in inodes if received.get(inode)], reverse=True)[:MOST_SOCKETS]
    return {
        "states": states,
        "tcp": [row.told() for row in telling[:MOST_SOCKETS]],
        "received": {inode: count for count, inode in got},
        "meets": any(_meets(row, port) for row in own) if port else None,
    }


def _meets(row: Row, port: int) -> bool:
    """Whether it is connected to that port, or holds it: who is called there need not call itself."""
    return row.state in ("established", "listen") and port in (row.way[1], row.here[1])


def _received() -> "dict[str, int]":
    """Bytes that each connection of the agent's own network namespace has received so far (tcp_info, Linux 4.1)."""
    found: "dict[str, int]" = {}
    try:
        for family in (socket.AF_INET, socket.AF_INET6):
            for inode, message in diagnosed(family, CONNECTED, 1 << INET_DIAG_INFO - 1):
                at = MESSAGE_SIZE
                while at + 4 <= len(message):
                    size, kind = _ATTRIBUTE.unpack_from(message, at)
                    if kind == INET_DIAG_INFO and size >= 4 + RECEIVED_AT + 8:
                        found[inode] = _COUNT.unpack_from(message, at + 4 + RECEIVED_AT)[0]
                    at += max(4, size + 3 & ~3)
    except OSError:
        pass
    return found


def _table(pid: int) -> "dict[str, Row]":
    """All sockets of the process's network namespace, by inode."""
    found: "dict[str, Row]" = {}
    for fields in procfs.tcp_rows(pid):
        try:
            found[fields[9].decode()] = Row(fields)
        except (IndexError, ValueError, struct.error):
            continue
    return found


def _address(field: bytes) -> "tuple[str, int]":
    """Words of four bytes in the host's order; IPv4 in IPv6 is shown as IPv4."""
    raw, _, port = field.partition(b":")
    words = struct.pack("=%dI" % (len(raw) // 8), *[int(raw[n : n + 8], 16) for n in range(0, len(raw), 8)])
    if len(words) == 16 and words.startswith(b"\0" * 10 + b"\xff\xff"):
        words = words[12:]
    return socket.inet_ntop(socket.AF_INET if len(words) == 4 else socket.AF_INET6, words), int(port, 16)


def _master(name: str, port: int, tables: "dict[str, dict[str, Row]]") -> "dict[str, Any]":
    """Whether that is this host, and if so whether anybody listens there."""
    here = _is_here(name)
    rows = [row for table in tables.values() for row in table.values() if row.state == "listen" and row.here[1] == port]
    return {"name": name, "port": port, "here": here, "listening": bool(rows) if here else None}


def _is_here(name: str) -> bool:
    """By name or by an address that can be bound; other names would have to be looked up, which may take long."""
    if name in ("localhost", os.uname().nodename, os.uname().nodename.split(".")[0]):
        return True
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.bind((socket.inet_ntop(family, socket.inet_pton(family, name)), 0))
                return True
        except OSError:
            continue
    return False


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
