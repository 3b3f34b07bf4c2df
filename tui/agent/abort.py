"""SIGABRT to all ranks of a host, so that each writes its dump unmixed and none dies of another's death first.

Two forked processes, independent of the agent's life and of each other: a worker stops the supervisors and the ranks,
sends SIGABRT to all, and lets one rank go after the other, waiting for its death; a dead man's switch wakes everything
up again when the worker has ended for whatever reason, or after 15 s.
"""

import base64
import os
import resource
import select
import signal
import time

from . import procfs
from .helper import isolate, write_all
from .identity import Fds, files_behind_pipes
from .loop import clock
from .sigabrt import effect_on, thread_that_takes_it
from .signals import Refused, Target
from .wire import encode

BOUND_S = 15.0
DEATH_WITHIN_S = 2.0
STOP_WITHIN_S = 1.0
LONGEST_DUMP = 1 << 20
DUMP_MARKS = (b"most recent call first", b"Fatal Python error")
SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)


def start(targets: "list[Target]", holders: "list[Target]", answers: int) -> int:
    """Fork both; answers go to the descriptor, a line of JSON each. Returns the pid of the dead man's switch."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        isolate(answers, *[target.fd for target in targets + holders])
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        _dead_man(targets, holders, answers)
    finally:
        os._exit(0)


def _dead_man(targets: "list[Target]", holders: "list[Target]", answers: int) -> None:
    until = clock() + BOUND_S
    lives, worker_end = os.pipe()
    worker = os.fork()
    if worker == 0:
        try:
            os.close(lives)
            _work(targets, holders, answers, until - 1.0)
        finally:
            os._exit(0)
    os.close(worker_end)
    os.close(answers)
    _wait(lives, until - clock())
    os.kill(worker, signal.SIGKILL)
    _wake(targets + holders)


def _work(targets: "list[Target]", holders: "list[Target]", answers: int, until: float) -> None:
    places = {target.pid: Places(target.pid) for target in targets}
    effects = {target.pid: effect_on(target.pid) for target in targets}
    try:
        for target in targets:
            _forbid_core(target)
        _stop(holders)
        _stop(targets)
        for target in targets:
            _abort(target)
        for target in targets:
            places[target.pid].measure()
            answer = _release(target, until)
            answer.update(places[target.pid].found(), effect=effects[target.pid])
            _tell(answers, answer)
    finally:
        _wake(targets + holders)


def _tell(answers: int, answer: "dict[str, object]") -> None:
    """An agent that has ended meanwhile does not hear it, which changes nothing here."""
    try:
        write_all(answers, encode(answer).encode() + b"\n")
    except OSError:
        pass


def _forbid_core(target: Target) -> None:
    """No core file: it would be as large as the rank. A limit of 0 does not hold back a piped core_pattern; 1 does
    (core(5), fs/coredump.c)."""
    piped = procfs.read("/proc/sys/kernel/core_pattern").startswith(b"|")
    try:
        hard = resource.prlimit(target.pid, resource.RLIMIT_CORE)[1]
        limit = 1 if piped and hard != 0 else 0
        resource.prlimit(target.pid, resource.RLIMIT_CORE, (limit, hard))
        with open("/proc/%d/coredump_filter" % target.pid, "w") as mappings:
            mappings.write("0")
    except (OSError, ValueError):
        pass


def _stop(processes: "list[Target]") -> None:
    """Stop them and wait until they are: of two pending signals the kernel would deliver SIGABRT first."""
    for process in processes:
        try:
            process.send(signal.SIGSTOP)
        except Refused:
            continue
    until = clock() + STOP_WITHIN_S
    while clock() < until and any(_running(process) for process in processes):
        time.sleep(0.005)


def _running(process: Target) -> bool:
    now = procfs.stat(process.pid)
    return now is not None and now.state not in "TtZXD"


def _abort(target: Target) -> None:
    """To the process; where its main thread waits uninterruptibly, to another thread, which dumps at once."""
    try:
        thread = thread_that_takes_it(target.pid)
        if thread:
            target.send_to_thread(thread, signal.SIGABRT)
        else:
            target.send(signal.SIGABRT)
    except (Refused, OSError):
        pass


def _release(target: Target, until: float) -> "dict[str, object]":
    """Let one go and wait for its death; says how it ended."""
    answer: "dict[str, object]" = {"pid": target.pid, "wall": round(time.time(), 3)}
    try:
        target.send(signal.SIGCONT)
    except Refused as refusal:
        answer["result"] = "died" if refusal.result == "gone" else refusal.result
        return answer
    _wait(target.fd, min(DEATH_WITHIN_S, until - clock()))
    answer["result"] = "alive" if target.alive() else "died"
    return answer


def _wait(fd: int, seconds: float) -> None:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    poll.poll(max(0.0, seconds) * 1000)


def _wake(processes: "list[Target]") -> None:
    for process in processes:
        try:
            process.send(signal.SIGCONT)
        except Refused:
            continue


class Places:
    """Where one process's dump may go: the file behind descriptor 2, the files that a pipe's reader writes, and any
    other file that it has open for writing (``faulthandler.enable(file=...)``)."""

    def __init__(self, pid: int):
        self._stderr = _link("/proc/%d/fd/2" % pid)
        self._open: "dict[str, int]" = {}
        self._sizes: "dict[str, int]" = {}
        if self._stderr.startswith("pipe:"):
            paths = sorted(files_behind_pipes().get(self._stderr, ()))
        else:
            self._add(self._stderr, "/proc/%d/fd/2" % pid)
            paths = []
        for path in paths + sorted(Fds(pid).writes):
            self._add(path, path)

    def _add(self, name: str, path: str) -> None:
        """Open it now: a deleted file can be reached only while its writer lives."""
        if name in self._open or not name.startswith("/") or name.startswith("/dev/"):
            return
        try:
            self._open[name] = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return

    def measure(self) -> None:
        self._sizes = {name: os.fstat(fd).st_size for name, fd in self._open.items()}

    def found(self) -> "dict[str, object]":
        """``stderr``: where the dump went, ``offset`` and ``end``: from where to where, ``data``: its bytes."""
        time.sleep(0.02 if not self._stderr.startswith("pipe:") else 0.1)
        best = ("", 0, b"")
        for name, fd in self._open.items():
            text = os.pread(fd, LONGEST_DUMP, self._sizes[name])
            if any(mark in text for mark in DUMP_MARKS):
                best = (name, self._sizes[name], text)
                break
            if text and not best[0]:
                best = (name, self._sizes[name], text)
        name, offset, text = best
        if not name:
            return {"stderr": self._stderr, "offset": self._sizes.get(self._stderr), "end": None, "data": ""}
        data = base64.b64encode(text).decode()
        return {"stderr": name, "offset": offset, "end": offset + len(text), "data": data}


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
