"""A process group over real sockets: every rank is connected to every other, as gloo connects its pairs."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Sequence

_WORD = 8


class ProcessGroup:
    def __init__(self, rank: int, listener: socket.socket, ports: Sequence[int]) -> None:
        """Meet the other ranks: connect to those before this one, accept those behind.

        ``ports`` are the loopback ports of all ranks in their order; ``listener`` is this rank's own.
        """
        self.rank = rank
        self.size = len(ports)
        self._peers: dict[int, socket.socket] = {}
        for peer in range(rank):
            pair = socket.create_connection(("127.0.0.1", ports[peer]))
            pair.settimeout(None)
            _send(pair, rank)
            self._peers[peer] = pair
        while len(self._peers) < self.size - 1:
            pair, _ = listener.accept()
            self._peers[_receive(pair)] = pair
        listener.close()

    def all_reduce(self, value: int) -> int:
        """The sum over all ranks; returns once every rank has called it. It waits without a deadline, as NCCL does."""
        for peer in self._peers.values():
            _send(peer, value)
        for peer in self._peers.values():
            value += _receive(peer)
        return value

    def barrier(self) -> None:
        self.all_reduce(1)


def _send(pair: socket.socket, value: int) -> None:
    with contextlib.suppress(ConnectionError):  # the peer is gone: the reading below waits for it
        pair.sendall(value.to_bytes(_WORD, "big"))


def _receive(pair: socket.socket) -> int:
    """A peer that is gone is waited for like one that is late; NCCL's kernels do the same."""
    word = b""
    while len(word) < _WORD:
        piece = b""
        with contextlib.suppress(ConnectionError):
            piece = pair.recv(_WORD - len(word))
        if not piece:
            threading.Event().wait()
        word += piece
    return int.from_bytes(word, "big")
