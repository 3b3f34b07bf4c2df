"""A real job for the dump tests: ranks that reduce over real sockets until one takes a lock that is never released.

``deadlocked.py SIZE ODD`` is the parent: it starts the ranks with RANK in their environment, and when one dies it ends
the others, as torchrun does.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path


class BatchCache:
    def __init__(self) -> None:
        self._lock = threading.Lock()

    def start_evictor(self) -> None:
        held = threading.Event()

        def evict() -> None:
            with self._lock:
                held.set()
                time.sleep(3600)

        threading.Thread(target=evict, name="cache-evictor", daemon=True).start()
        held.wait()

    def refill(self) -> None:
        with self._lock:
            pass


def all_reduce(value: int, left: socket.socket, right: socket.socket, size: int) -> int:
    """A ring: every rank's value goes once around."""
    total = passing = value
    for _ in range(size - 1):
        right.sendall(passing.to_bytes(8, "big"))
        word = b""
        while len(word) < 8:
            word += left.recv(8 - len(word))
        passing = int.from_bytes(word, "big")
        total += passing
    return total


def train_step(step: int, odd: bool, cache: BatchCache, ring: tuple[socket.socket, socket.socket], size: int) -> None:
    if odd and step == 3:
        cache.start_evictor()
        cache.refill()
    assert all_reduce(1, *ring, size) == size


def rank_main(rank: int, size: int, odd: int, listener: socket.socket, ports: list[int]) -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG: nothing is left behind
    right = socket.create_connection(("127.0.0.1", ports[(rank + 1) % size]))
    left, _ = listener.accept()
    for step in range(1000):
        if step == 3:
            print(f"rank {rank} at step 3", file=sys.stderr, flush=True)
        train_step(step, rank == odd, BatchCache(), (left, right), size)


def launch(size: int, odd: int) -> None:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(size)]
    ports = ",".join(str(s.getsockname()[1]) for s in listeners)
    ranks = [
        subprocess.Popen(
            [sys.executable, __file__, "rank", str(size), str(odd), ports, str(listener.fileno())],
            env={**os.environ, "RANK": str(n), "WORLD_SIZE": str(size)},
            pass_fds=[listener.fileno()],
            cwd=Path(__file__).parent,
        )
        for n, listener in enumerate(listeners)
    ]
    for listener in listeners:
        listener.close()
    while all(rank.poll() is None for rank in ranks):  # like torchrun: the first death ends them all
        time.sleep(0.05)
    for rank in ranks:
        rank.terminate()
    for rank in ranks:
        rank.wait()


if __name__ == "__main__":
    if sys.argv[1] == "rank":
        number = int(os.environ["RANK"])
        places = [int(port) for port in sys.argv[4].split(",")]
        rank_main(number, int(sys.argv[2]), int(sys.argv[3]), socket.socket(fileno=int(sys.argv[5])), places)
    else:
        launch(int(sys.argv[1]), int(sys.argv[2]))
