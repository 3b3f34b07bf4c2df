"""What goes wrong in the jobs of the truth tests: each of these really happens to the process that calls it.

The jobs run as scripts of their own; this module stands beside them.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import sys
import threading
import time
from pathlib import Path

HERE = Path(os.environ["TRUTH_PLACE"])
"""The case's own folder."""


def begins() -> None:
    """Note that what goes wrong (or is silent and healthy) begins now, on the clock that all processes share."""
    (HERE / "fault.new").write_text(repr(time.monotonic()))
    (HERE / "fault.new").rename(HERE / "fault")


def wait_for_word() -> None:
    """Wait asleep until the test writes into the case's pipe."""
    with (HERE / "word").open("rb", buffering=0) as pipe:
        pipe.read(1)


class Cache:
    """Something with a lock, whose evictor never gives it back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def start_evictor(self) -> None:
        held = threading.Event()

        def evict() -> None:
            with self._lock:
                held.set()
                threading.Event().wait()

        threading.Thread(target=evict, name="cache-evictor", daemon=True).start()
        held.wait()

    def refill(self) -> None:
        with self._lock:
            pass


def python_lock() -> None:
    """The main thread waits for a lock that another thread of the process holds and never releases."""
    cache = Cache()
    cache.start_evictor()
    begins()
    cache.refill()


def fork_with_held_lock() -> None:
    """A child that was forked while another thread held a lock waits for it for ever, and its parent for the child."""
    cache = Cache()
    cache.start_evictor()
    child = os.fork()
    if child == 0:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
        cache.refill()
        os._exit(0)
    begins()
    os.waitpid(child, 0)


def held_gil() -> None:
    """A C call that keeps the interpreter lock and sleeps, as a callback into Python from a foreign thread may."""
    begins()
    threading.Thread(target=ctypes.PyDLL(None).pause, name="native-callback", daemon=True).start()
    while True:
        time.sleep(0.001)


def flock(path: Path) -> None:
    """Wait for a file lock that a living process holds."""
    begins()
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)


def stop_myself() -> None:
    begins()
    os.kill(os.getpid(), signal.SIGSTOP)


def kill_myself() -> None:
    begins()
    os.kill(os.getpid(), signal.SIGKILL)


def join_cgroup(folder: str) -> None:
    Path(folder, "cgroup.procs").write_text(str(os.getpid()))


def eat_memory() -> None:
    """Take memory until the kernel ends it."""
    begins()
    eaten: list[bytearray] = []
    while True:
        eaten.append(bytearray(os.urandom(1 << 20)))
        time.sleep(0.01)


def fill_stderr() -> None:
    """Say more than the reader of the other end takes."""
    line = f"node1:{os.getpid()}:{os.getpid()} [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n".encode()
    begins()
    while True:
        os.write(2, line * 50)


def read_slowly(megabytes_s: float, seconds: float) -> None:
    """Read as from slow storage."""
    begins()
    end = time.monotonic() + seconds
    with Path("/dev/zero").open("rb", buffering=0) as file:
        while time.monotonic() < end:
            file.read(int(megabytes_s * 1e5))
            time.sleep(0.1)


def compute(seconds: float) -> None:
    """Work of one core, as long as it may."""
    begins()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(n * n for n in range(10_000))


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
    if os.getppid() == 1:
        sys.exit(1)
