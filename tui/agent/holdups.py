"""Who holds a process up from outside: a tracer, a signal that waits, a full pipe that nobody reads."""

import fcntl
import os
import re
import stat as modes
import struct
import termios

from . import procfs
from .procfs import text

F_GETPIPE_SZ = 1032
MOST_FDS = 200000

_STATUS = re.compile(rb"^(TracerPid|SigPnd|ShdPnd):\s*(\w+)", re.M)


def look(request: "dict[str, Any]") -> "dict[str, Any]":
    """``{"processes": {pid: {...}|null}, "looked"}``; see the protocol for the keys."""
    pids = [int(pid) for pid, _ in request["procs"]]
    rows: "dict[str, dict[str, Any] | None]" = {str(pid): _row(pid) for pid in pids}
    outputs = [row[key] for row in rows.values() if row for key in ("stdout", "stderr") if row[key]]
    readers = _readers({output["pipe"] for output in outputs}) if outputs else {}
    for output in outputs:
        output["readers"] = readers.get(output["pipe"], [])
        output.update(_fill(output.pop("path"), bool(output["readers"])))
    return {"processes": rows, "looked": pids}


def _row(pid: int) -> "dict[str, Any] | None":
    now = procfs.stat(pid)
    if now is None:
        return None
    row: "dict[str, Any]" = {"state": now.state, "tracer": None, "pending": 0}
    for name, value in _STATUS.findall(_read("/proc/%d/status" % pid)):
        if name == b"TracerPid":
            row["tracer"] = _named(int(value)) if int(value) else None
        else:
            row["pending"] |= int(value, 16)
    for number, key in ((1, "stdout"), (2, "stderr")):
        path = "/proc/%d/fd/%d" % (pid, number)
        try:
            target = os.readlink(path)
        except OSError:
            target = ""
        row[key] = {"pipe": target, "path": path} if target.startswith("pipe:") else None
    return row


def _named(pid: int) -> "dict[str, Any]":
    now = procfs.stat(pid)
    return {"pid": pid, "comm": text(now.comm) if now else "", "state": now.state if now else ""}


def _readers(pipes: "set[str]") -> "dict[str, list[dict[str, Any]]]":
    """Who has a read end of them, of the processes that may be asked."""
    found: "dict[str, list[dict[str, Any]]]" = {}
    left = MOST_FDS
    for pid in procfs.pids():
        folder = "/proc/%d/fd/" % pid
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        left -= len(names)
        for name in names:
            try:
                target = os.readlink(folder + name)
                if target in pipes and os.lstat(folder + name).st_mode & modes.S_IRUSR:
                    readers = found.setdefault(target, [])
                    if len(readers) < 8 and pid not in [reader["pid"] for reader in readers]:
                        readers.append(_named(pid))
            except OSError:
                continue
        if left <= 0:
            break
    return found


def _fill(path: str, read: bool) -> "dict[str, int | None]":
    """Bytes in the pipe and its size. A pipe without a reader is left alone: to open it would make one."""
    unknown: "dict[str, int | None]" = {"bytes": None, "size": None}
    if not read:
        return unknown
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return unknown
    try:
        waiting = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"))[0]
        return {"bytes": waiting, "size": fcntl.fcntl(fd, F_GETPIPE_SZ)}
    except OSError:
        return unknown
    finally:
        os.close(fd)


def _read(path: str) -> bytes:
    try:
        return procfs.read(path)
    except OSError:
        return b""


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
