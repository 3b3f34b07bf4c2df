"""Disposable processes for single requests: each does one thing, writes its output, and has a deadline."""

import os
import signal

from .helper import MOST_STUCK, fork, reaped


class Job:
    """One child. ``ended(output, status)`` is called once: with the wait status, or None where it ran out of time."""

    def __init__(self, jobs: "Jobs", body: "Body", deadline_s: float, ended: "Ended", keep: "Fds"):
        self._jobs, self._ended = jobs, ended
        self._output = bytearray()
        self._fd, theirs = os.pipe()
        self.pid = fork(lambda: body(theirs), theirs, *keep)
        os.close(theirs)
        jobs.loop.watch(self._fd, self._readable)
        jobs.loop.after(deadline_s, self._late)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self._jobs.loop.forget(self._fd)
        os.close(self._fd)
        self._jobs.left(self)

    def _readable(self) -> None:
        piece = os.read(self._fd, 1 << 20)
        self._output += piece
        if not piece:
            self._finish()

    def _finish(self) -> None:
        self._jobs.loop.forget(self._fd)
        os.close(self._fd)
        try:
            _, status = os.waitpid(self.pid, 0)
        except OSError:
            status = 0
        self._jobs.left(self, reaped=True)
        self._ended(bytes(self._output), status)

    def _late(self) -> None:
        if self in self._jobs.running:
            self.kill()
            self._ended(bytes(self._output), None)


class Jobs:
    """Runs jobs, some at a time; refuses further ones while two killed ones are stuck in the kernel."""

    def __init__(self, loop: "Loop", most: int):
        self.loop = loop
        self.running: "list[Job]" = []
        self._most = most
        self._waiting: "list[Callable[[], Job]]" = []
        self._killed: "list[int]" = []

    def start(self, body: "Body", deadline_s: float, ended: "Ended", keep: "Fds" = ()) -> None:
        """Run ``body(output descriptor)`` in a child that keeps only ``keep`` besides."""
        self._reap()
        if len(self._killed) >= MOST_STUCK:
            ended(b"", None)
            return
        self._waiting.append(lambda: Job(self, body, deadline_s, ended, keep))
        self._fill()

    def end(self) -> None:
        self._waiting.clear()
        for job in self.running[:]:
            job.kill()

    def left(self, job: Job, reaped: bool = False) -> None:
        self.running.remove(job)
        if not reaped:
            self._killed.append(job.pid)
            self.loop.after(1.0, self._reap)
        self.loop.after(0.0, self._fill)

    def _reap(self) -> None:
        self._killed = [pid for pid in self._killed if not reaped(pid)]

    def _fill(self) -> None:
        while self._waiting and len(self.running) < self._most:
            self.running.append(self._waiting.pop(0)())


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Sequence

    from .loop import Loop

    Body = Callable[[int], None]
    Ended = Callable[[bytes, "int | None"], None]
    Fds = Sequence[int]
