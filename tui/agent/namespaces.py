"""Stepping into a container's namespaces, in a disposable process of our own."""

import ctypes
import os


def differs(pid: int, kind: str) -> bool:
    """Whether the process lives in another namespace of this kind; false where that cannot be read."""
    try:
        return os.readlink("/proc/%d/ns/%s" % (pid, kind)) != os.readlink("/proc/self/ns/%s" % kind)
    except OSError:
        return False


def enter(pid: int, *kinds: str) -> None:
    """Join the namespaces of ``pid``; that of pids holds for children only. Raises OSError: only root may."""
    libc = ctypes.CDLL(None, use_errno=True)
    fds = [os.open("/proc/%d/ns/%s" % (pid, kind), os.O_RDONLY | os.O_CLOEXEC) for kind in kinds]
    try:
        for fd in fds:
            if libc.setns(fd, 0):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        for fd in fds:
            os.close(fd)


def back(fd: int, kind: str) -> None:
    """To the namespace that ``fd`` was opened from."""
    if os.readlink("/proc/self/fd/%d" % fd) != os.readlink("/proc/self/ns/%s" % kind):
        ctypes.CDLL(None).setns(fd, 0)
