"""Looks at what is not read each tick: threads, files, disks, what the host allows. Runs in a helper of its own."""

import base64
import glob
import importlib
import os

from . import procfs
from .procfs import text

MOST_THREADS = 4096
MOST_FILES = 1000
MOST_BYTES = 4 << 20
MIB = 1048576.0

MODULES = ("family", "gpm", "holdups", "infiniband", "kernel_log", "locks", "sigabrt", "sockets", "surroundings")
"""Looks that have a module of their own, loaded only in the helper that looks."""


def look(request: "dict[str, Any]") -> "dict[str, Any]":
    """Answer one look; raises OSError, KeyError or ValueError for what cannot be looked at."""
    if request["what"] in MODULES:
        answer: "dict[str, Any]" = importlib.import_module("." + request["what"], __package__).look(request)
        return answer
    what = {"threads": threads, "files": files, "newest": newest, "read": read, "disk": disk, "doctor": doctor}
    if request["what"] not in what:
        raise ValueError("nothing is known of %r" % request["what"])
    return what[request["what"]](request)


def threads(request: "dict[str, Any]") -> "dict[str, Any]":
    """All threads of the processes: state, CPU seconds, where in the kernel they wait."""
    return {"threads": {str(pid): _threads(int(pid)) for pid in map(_pid, request["procs"])}}


def files(request: "dict[str, Any]") -> "dict[str, Any]":
    """Name, size, mtime and kind of everything that matches the globs."""
    found: "list[dict[str, Any]]" = []
    for pattern in request["paths"]:
        for path in sorted(glob.iglob(os.path.expanduser(pattern)))[: MOST_FILES - len(found)]:
            try:
                status = os.lstat(path)
            except OSError:
                continue
            found.append({"path": path, "size": status.st_size, "mtime": status.st_mtime, "mode": status.st_mode})
    return {"files": found}


def newest(request: "dict[str, Any]") -> "dict[str, Any]":
    """The regular file that was written last among those that match, or null."""
    best, at = None, -1.0
    for path in glob.iglob(os.path.expanduser(request["glob"])):
        try:
            mtime = os.stat(path).st_mtime
        except OSError:
            continue
        if os.path.isfile(path) and mtime > at:
            best, at = path, mtime
    return {"path": best}


def read(request: "dict[str, Any]") -> "dict[str, Any]":
    """A piece of a file."""
    fd = os.open(os.path.expanduser(request["path"]), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        size = os.fstat(fd).st_size
        data = os.pread(fd, min(MOST_BYTES, int(request.get("limit") or MOST_BYTES)), int(request.get("offset") or 0))
    finally:
        os.close(fd)
    return {"size": size, "data": base64.b64encode(data).decode()}


def disk(request: "dict[str, Any]") -> "dict[str, Any]":
    """Free and total bytes, and free inodes, of the file systems under the paths; null where there is none."""
    return {"disk": {path: _disk(path) for path in request["paths"]}}


def doctor(request: "dict[str, Any]") -> "dict[str, Any]":
    """What would spoil a launch here before it starts, and what may be done here; the monitor judges."""
    from .preflight import part

    return part(request)


def _pid(entry: "int | list[int]") -> int:
    return entry if isinstance(entry, int) else int(entry[0])


def _threads(pid: int) -> "list[dict[str, Any]] | None":
    try:
        names = sorted(os.listdir("/proc/%d/task" % pid), key=int)[:MOST_THREADS]
    except OSError:
        return None
    found: "list[dict[str, Any]]" = []
    for name in names:
        now = procfs.stat(pid, int(name))
        if now is None:
            continue
        folder = "/proc/%d/task/%s/" % (pid, name)
        found.append(
            {
                "tid": int(name),
                "comm": text(now.comm),
                "state": now.state,
                "cpu_s": round(now.cpu_s, 3),
                "wchan": procfs.word(folder + "wchan"),
                "syscall": procfs.word(folder + "syscall"),
            }
        )
    return found


def _disk(path: str) -> "dict[str, int] | None":
    try:
        status = os.statvfs(path)
    except OSError:
        return None
    unit = status.f_frsize
    return {"free": status.f_bavail * unit, "total": status.f_blocks * unit, "free_inodes": status.f_favail}


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
