"""What SIGABRT will do to a process, decided from ``/proc`` before anything is sent: one table, for the agent and for
the monitor, which imports this module too.

Masks are those of ``/proc/PID/status`` (bit = signal number - 1; proc(5)). The handler sets were read off running
processes: CPython's ``faulthandler.enable`` (3.6 to 3.15) takes ILL, ABRT, BUS, FPE and SEGV; PyTorch 2.13's
``_set_print_stack_traces_on_fatal_signal`` takes USR2 as well; Ray 2.60's absl handler takes TRAP and TERM; a worker of
PyTorch's DataLoader takes BUS, FPE, SEGV and TERM, and its parent raises when it dies.
"""

import fcntl
import os
import select
import struct
import termios

from . import procfs

ABRT = 0x20
FAULTHANDLER = 0x4E8
TORCH = FAULTHANDLER | 0x800
RAY = FAULTHANDLER | 0x10 | 0x4000
WORKER = 0x44C0
F_GETPIPE_SZ = 1032
ROOM_FOR_A_DUMP = 4096


def effect(
    state: str, blocked: int, ignored: int, caught: int, *, init: bool = False, wakes: bool = True, full: bool = False
) -> str:
    """The table. ``blocked``: by every thread. ``init``: it is the first process of a container, which the kernel
    protects from default actions. ``wakes``: a thread can take the signal now, the main one or another. ``full``: its
    standard error is a pipe with no room."""
    if state in "ZX":
        return "ended"
    if ignored & ABRT:
        return "ignored"
    if blocked & ABRT:
        return "blocked"
    if not caught & ABRT:
        if init:
            return "ignored"
        return "worker_death" if caught & WORKER == WORKER and not caught & 0x8 else "death_no_dump"
    if not wakes:
        return "uninterruptible"
    if caught & FAULTHANDLER != FAULTHANDLER:
        return "handler"
    if full:
        return "dump_blocked"
    if caught & RAY == RAY:
        return "single_stack_then_death"
    if caught & TORCH == TORCH:
        return "native_dump_then_death"
    return "python_dump_and_life" if init else "python_dump_then_death"


def effect_on(pid: int) -> "str | None":
    """As the process is now, with all of its threads; None where it cannot be read."""
    try:
        own = status("/proc/%d/status" % pid)
        threads = [now for now in map(_status_or_none, _tasks(pid)) if now]
    except (OSError, ValueError):
        return None
    if not own or not threads:
        return "ended"
    blocked = ABRT if all(thread["SigBlk"] & ABRT for thread in threads) else 0
    return effect(
        own["State"],
        blocked,
        own["SigIgn"],
        own["SigCgt"],
        init=own["NSpid"] == 1,
        wakes=any(thread["State"] not in "DZX" and not thread["SigBlk"] & ABRT for thread in threads),
        full=stderr_is_full(pid),
    )


def thread_that_takes_it(pid: int) -> int:
    """The thread to send SIGABRT to where the kernel would choose the main one, which waits uninterruptibly; 0 where
    the process as a whole can take it, or none of its threads can."""
    try:
        main = status("/proc/%d/status" % pid)
    except (OSError, ValueError):
        return 0
    if main["State"] != "D" or main["SigBlk"] & ABRT:
        return 0
    for path in _tasks(pid):
        now = _status_or_none(path)
        if now and now["State"] not in "DZX" and not now["SigBlk"] & ABRT:
            return int(path.split("/")[4])
    return 0


def status(path: str) -> "dict[str, Any]":
    """State, masks, and the pid as its innermost namespace knows it. Raises OSError, ValueError."""
    found: "dict[str, Any]" = {"NSpid": 0}
    for line in procfs.text(procfs.read_all(path)).split("\n"):
        name, _, value = line.partition(":")
        if name == "State":
            found[name] = value.strip()[:1]
        elif name in ("SigBlk", "SigIgn", "SigCgt", "SigPnd", "ShdPnd"):
            found[name] = int(value, 16)
        elif name == "NSpid":
            found[name] = int(value.split()[-1])
    if "SigCgt" not in found:
        raise ValueError("no masks in %s" % path)
    return found


def stderr_is_full(pid: int) -> bool:
    """Whether a dump would wait for a reader: the handler's ``write`` blocks, and the process then lives on."""
    try:
        if not os.readlink("/proc/%d/fd/2" % pid).startswith("pipe:"):
            return False
        fd = os.open("/proc/%d/fd/2" % pid, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        poll = select.poll()
        poll.register(fd, select.POLLOUT)
        writable = any(event & select.POLLOUT for _, event in poll.poll(0))
        unread = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4))[0]
        return not writable or unread > fcntl.fcntl(fd, F_GETPIPE_SZ) - ROOM_FOR_A_DUMP
    except OSError:
        return False
    finally:
        os.close(fd)


def look(request: "dict[str, Any]") -> "dict[str, Any]":
    """By pid: what SIGABRT would do, and where the dump would go."""
    effects = {str(pid): effect_on(int(pid)) for pid, _ in request["procs"]}
    return {"effects": effects, "core_pattern": procfs.text(procfs.read("/proc/sys/kernel/core_pattern")).strip()}


def _tasks(pid: int) -> "list[str]":
    return ["/proc/%d/task/%s/status" % (pid, name) for name in os.listdir("/proc/%d/task" % pid)]


def _status_or_none(path: str) -> "dict[str, Any] | None":
    try:
        return status(path)
    except (OSError, ValueError):
        return None


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
