"""Signals that reach the process that was meant, or none: through a pidfd that was opened before its start time was
checked. A pid alone may meanwhile belong to another process.
"""

import ctypes
import os
import signal

from . import procfs

SYS_PIDFD_SEND_SIGNAL, SYS_PIDFD_OPEN = 424, 434  # the same on every architecture
SYS_TGKILL = {"x86_64": 234, "aarch64": 131, "ppc64le": 250, "riscv64": 131}


class Refused(Exception):
    """``result`` is the word for the answer: gone, reused or denied."""

    def __init__(self, result: str, why: str = ""):
        super().__init__(why or result)
        self.result = result


class Target:
    """One process, held by a pidfd. Raises Refused where it is not the one that was meant, or cannot be held."""

    def __init__(self, pid: int, start_ticks: int):
        self.pid, self.start_ticks = pid, start_ticks
        self.fd = _open(pid)
        now = procfs.stat(pid)
        if now is None or now.state in "ZX":
            self._refuse("gone")
        elif now.start_ticks != start_ticks:
            self._refuse("reused")

    def send(self, number: int) -> None:
        """Raises Refused where it has ended, or may not be signalled."""
        if hasattr(signal, "pidfd_send_signal"):
            try:
                signal.pidfd_send_signal(self.fd, number)
            except ProcessLookupError:
                raise Refused("gone") from None
            except OSError as failure:
                raise Refused("denied", str(failure)) from None
            return
        _raise(_syscall(SYS_PIDFD_SEND_SIGNAL, self.fd, number, None, 0))

    def send_to_thread(self, thread: int, number: int) -> None:
        """To one thread; the start time is read again just before, as there is no pidfd for it on most kernels."""
        if not procfs.alive(self.pid, self.start_ticks):
            raise Refused("gone")
        if os.uname().machine not in SYS_TGKILL:
            raise Refused("denied", "no way to signal one thread is known on this architecture")
        _raise(_syscall(SYS_TGKILL[os.uname().machine], self.pid, thread, number))

    def alive(self) -> bool:
        return procfs.alive(self.pid, self.start_ticks)

    def close(self) -> None:
        os.close(self.fd)

    def _refuse(self, result: str) -> None:
        os.close(self.fd)
        raise Refused(result)


def watchers(agent: int) -> "set[int]":
    """The agent and whatever it runs in: the monitor where it is on this host, the login otherwise. These are never
    stopped, or nobody would be left to let them go."""
    line: "set[int]" = set()
    now = procfs.stat(agent)
    while agent > 1 and now and agent not in line:
        line.add(agent)
        agent = now.ppid
        now = procfs.stat(agent)
    return line


def _open(pid: int) -> int:
    if hasattr(os, "pidfd_open"):
        try:
            return os.pidfd_open(pid)
        except ProcessLookupError:
            raise Refused("gone") from None
        except OSError as failure:
            raise Refused("denied", "this kernel cannot hold a process (pidfd, Linux 5.3): %s" % failure) from None
    fd = _syscall(SYS_PIDFD_OPEN, pid, 0)
    if fd < 0:
        _raise(fd)
    return fd


def _syscall(number: int, *arguments: "int | None") -> int:
    """The call's result, or its error number negated."""
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(number, *arguments)
    return result if result >= 0 else -ctypes.get_errno()


def _raise(result: int) -> None:
    if result >= 0:
        return
    if result == -3:  # ESRCH
        raise Refused("gone")
    if result == -38:  # ENOSYS
        raise Refused("denied", "this kernel cannot hold a process (pidfd, Linux 5.3)")
    raise Refused("denied", os.strerror(-result))
