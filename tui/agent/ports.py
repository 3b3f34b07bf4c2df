"""Which TCP ports are listened on, by socket inode."""

import os
import socket
import struct

from . import procfs

NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY = 4, 20
NLMSG_ERROR, NLMSG_DONE, NLM_F_REQUEST_DUMP = 2, 3, 0x301
TCP, LISTENING = 6, 1 << 10
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBxI48x")  # struct inet_diag_req_v2, include/uapi/linux/inet_diag.h
_PORT, _INODE, MESSAGE_SIZE = struct.Struct("!H"), struct.Struct("=I"), 72


def listeners(pid: int) -> "dict[str, int]":
    """Of the process's network namespace. For our own the kernel is asked for listening sockets alone, which takes
    0.1 ms; for another its table of all sockets must be read, 10 ms even where it is almost empty."""
    try:
        if os.readlink("/proc/self/ns/net") == os.readlink("/proc/%d/ns/net" % pid):
            return dict(_asked(socket.AF_INET), **_asked(socket.AF_INET6))
    except OSError:
        pass
    return _read(pid)


def _asked(family: int) -> "dict[str, int]":
    return {inode: _PORT.unpack_from(message, 4)[0] for inode, message in diagnosed(family, LISTENING)}


def diagnosed(family: int, states: int, more: int = 0) -> "Iterator[tuple[str, bytes]]":
    """Inode and ``struct inet_diag_msg`` of each TCP socket of our namespace in one of these states (a bit each), with
    the attributes of ``more`` behind it. Raises OSError where this kernel has no such service."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as channel:
        channel.settimeout(1.0)
        body = _REQUEST.pack(family, TCP, more, states)
        header = _HEADER.pack(_HEADER.size + len(body), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST_DUMP, 1, 0)
        channel.send(header + body)
        while True:
            data = channel.recv(1 << 16)
            while len(data) >= _HEADER.size:
                size, kind, _, _, _ = _HEADER.unpack_from(data)
                if kind == NLMSG_DONE:
                    return
                if kind == NLMSG_ERROR or size < _HEADER.size + MESSAGE_SIZE:
                    raise OSError("no socket diagnosis")
                inode = _INODE.unpack_from(data, _HEADER.size + MESSAGE_SIZE - 4)[0]
                yield str(inode), data[_HEADER.size : size]
                data = data[(size + 3) & ~3 :]


def _read(pid: int) -> "dict[str, int]":
    ports: "dict[str, int]" = {}
    for fields in procfs.tcp_rows(pid):
        if fields[3] == b"0A":
            ports[fields[9].decode()] = int(fields[1].rpartition(b":")[2], 16)
    return ports


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator
