"""Disposable processes for whatever can block for ever on a sick host: driver calls, files, other processes' memory.

A helper answers requests one at a time. What it is at is written to a page shared with the main process, so that the
item which does not return is known without a message per item. When an item takes longer than it may, the helper is
killed and the item is named; a helper stuck in an uninterruptible wait cannot be killed, so after two such no further
one is started. Helpers hold none of the channel's descriptors and die with the main process.
"""

import ctypes
import json
import mmap
import os
import signal
import struct
import sys
import traceback

from .loop import clock

MOST_STUCK = 2
LOOK_EVERY_S = 1.0
PR_SET_PDEATHSIG = 1
_HEAD = struct.Struct("=Qd")


class Page:
    """Which item the helper is at, for how long that may take, and how often it has moved on."""

    def __init__(self):
        self._map = mmap.mmap(-1, 4096)

    def mark(self, item: str, may_take_s: float) -> None:
        moves, _ = _HEAD.unpack_from(self._map)
        text = item.encode("utf-8", "surrogateescape")[:4000]
        self._map[_HEAD.size : _HEAD.size + len(text) + 1] = text + b"\0"
        _HEAD.pack_into(self._map, 0, moves + 1, may_take_s)

    def read(self) -> "tuple[int, float, str]":
        moves, may_take_s = _HEAD.unpack_from(self._map)
        text = self._map[_HEAD.size :].split(b"\0", 1)[0]
        return moves, may_take_s, text.decode("utf-8", "surrogateescape")


def isolate(*keep: int) -> None:
    """In a forked child: drop every inherited descriptor but ``keep``, default signals, die with the parent."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        if fd not in keep:
            os.dup2(null, fd)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in keep:
            try:
                os.close(int(name))
            except OSError:
                pass
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def die_with_parent(parent: int) -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def fork(body: "Callable[[], None]", *keep: int) -> int:
    """Run ``body`` in a child that keeps only these descriptors and ends with it; returns the child's pid."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        isolate(*keep)
        die_with_parent(parent)
        body()
    except BaseException:
        traceback.print_exc(file=sys.stderr)
    finally:
        os._exit(0)


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class Helper:
    """The main process's end of one kind of helper. ``busy`` while an answer is awaited.

    ``work(mark)`` runs once in each new child and returns the function that turns a request into an answer (bytes of
    one line). ``answered(bytes)`` and ``lost(item, reason)`` are called from the loop.
    """

    def __init__(self, loop: "Loop", work: "Work", answered: "Callable[[bytes], None]", lost: "Lost"):
        self.busy = False
        self.pid = 0
        self._loop, self._work, self._answered, self._lost = loop, work, answered, lost
        self._killed: "list[int]" = []
        self._asked = 0
        self._answer = bytearray()

    @property
    def stuck(self) -> bool:
        """Whether as many children as may be are stuck in the kernel, so that no further one is started."""
        self._reap()
        return len(self._killed) >= MOST_STUCK

    def ask(self, request: object) -> bool:
        """Send one request; false where no child can be had. Ask only while not ``busy``."""
        if not self.pid:
            if self.stuck:
                return False
            self._start()
        self.busy = True
        self._asked += 1
        try:
            write_all(self._to, json.dumps(request).encode() + b"\n")
        except OSError:
            pass  # it has just died, which its closed pipe is about to tell
        self._watch(self._asked, -1, clock(), clock())
        return True

    def end(self) -> None:
        """Kill the child, if there is one."""
        if not self.pid:
            return
        self._loop.forget(self._from)
        os.close(self._from)
        os.close(self._to)
        os.kill(self.pid, signal.SIGKILL)
        self._killed.append(self.pid)
        self.pid = 0
        self.busy = False
        self._reap()

    def _start(self) -> None:
        self._page = Page()
        self._page.mark("", 30.0)
        theirs_in, self._to = os.pipe()
        self._from, theirs_out = os.pipe()
        self.pid = fork(lambda: _serve(self._work, self._page, theirs_in, theirs_out), theirs_in, theirs_out)
        os.close(theirs_in)
        os.close(theirs_out)
        self._answer.clear()
        self._loop.watch(self._from, self._readable)

    def _readable(self) -> None:
        piece = os.read(self._from, 1 << 20)
        self._answer += piece
        if not piece:
            self._lose("died")
        elif self._answer.endswith(b"\n"):
            answer = bytes(self._answer[:-1])
            self._answer.clear()
            self.busy = False
            self._answered(answer)

    def _watch(self, asked: int, moves: int, since: float, due: float) -> None:
        """Look now and then whether the current item's time is up; counts anew if this process was itself held up."""
        if not self.busy or asked != self._asked:
            return
        now = clock()
        now_moves, may_take_s, _ = self._page.read()
        if now_moves != moves or now - due > 1.0:
            moves, since = now_moves, now
        if now - since >= may_take_s:
            self._lose("late")
            return
        due = min(now + LOOK_EVERY_S, since + may_take_s)
        self._loop.after(due - now, lambda: self._watch(asked, moves, since, due))

    def _lose(self, reason: str) -> None:
        item = self._page.read()[2]
        self.end()
        self._lost(item, reason)

    def _reap(self) -> None:
        self._killed = [pid for pid in self._killed if not reaped(pid)]


def reaped(pid: int) -> bool:
    """Whether this child has ended; one stuck in the kernel has not, however it was killed."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except OSError:
        return True


def _serve(work: "Work", page: Page, requests: int, answers: int) -> None:
    handle = work(page.mark)
    with open(requests, "rb") as lines:
        for line in lines:
            answer = handle(json.loads(line.decode()))
            page.mark("", 5.0)
            write_all(answers, answer + b"\n")


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .loop import Loop

    Mark = Callable[[str, float], None]
    Work = Callable[[Mark], Callable[[Any], bytes]]
    Lost = Callable[[str, str], None]
