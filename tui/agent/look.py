"""Looks at what is not read each tick: threads, files, disks, what the host allows. Runs in a helper of its own."""

import base64
import glob
import os
import sys

from . import procfs
from .procfs import text

MOST_THREADS = 4096
MOST_FILES = 1000
MOST_BYTES = 4 << 20
MIB = 1048576.0


def look(request: "dict[str, Any]") -> "dict[str, Any]":
    """Answer one look; raises OSError, KeyError or ValueError for what cannot be looked at."""
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
    """What this host allows, as read; the monitor judges."""
    from .stacks import find

    return {
        "python": sys.version.split()[0],
        "executable": sys.executable,
        "uid": os.getuid(),
        "ptrace_scope": _first("/proc/sys/kernel/yama/ptrace_scope"),
        "cap_eff": _field("/proc/self/status", "CapEff"),
        "core_pattern": _first("/proc/sys/kernel/core_pattern"),
        "limits": _limits(("Max locked memory", "Max open files", "Max core file size")),
        "py_spy": find(None),
        "memfd_noexec": _first("/proc/sys/vm/memfd_noexec"),
        "pidfd": hasattr(os, "pidfd_open") or os.uname().release,
        "disk": {path: _disk(path) for path in ("/dev/shm", "/tmp", os.path.expanduser("~"))},
        "mem_available_mib": _meminfo("MemAvailable"),
        "swap_free_mib": _meminfo("SwapFree"),
        "infiniband": sorted(os.listdir("/sys/class/infiniband")) if os.path.isdir("/sys/class/infiniband") else [],
        "nvidia_devices": sorted(glob.glob("/dev/nvidia[0-9]*")),
        "driver": _first("/proc/driver/nvidia/version"),
        "cgroup_memory_max": _first("/sys/fs/cgroup/memory.max"),
    }


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


def _first(path: str) -> "str | None":
    try:
        return text(procfs.read(path)).split("\n")[0].strip()
    except OSError:
        return None


def _field(path: str, name: str) -> "str | None":
    for line in text(procfs.read_all(path)).split("\n"):
        if line.startswith(name + ":"):
            return line.split(":", 1)[1].strip()
    return None


def _meminfo(name: str) -> "int | None":
    value = _field("/proc/meminfo", name)
    return int(value.split()[0]) >> 10 if value else None


def _limits(names: "tuple[str, ...]") -> "dict[str, list[str]]":
    """Soft and hard limit by name, as ``/proc/self/limits`` words them (bytes, files, or unlimited)."""
    lines = text(procfs.read_all("/proc/self/limits")).split("\n")
    return {name: line[len(name) :].split()[:2] for name in names for line in lines if line.startswith(name)}


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
