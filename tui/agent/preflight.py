"""What on a host would spoil a launch before it starts, and what this program may do there. Read on request, each part
in a disposable process of its own, so that a file system that hangs costs its part alone. The monitor judges.
"""

import glob
import os
import shutil
import stat as modes
import subprocess
import sys

from . import procfs
from .procfs import text

MOST_FDS = 200000
LONGEST_TITLE = 400
RUNS_WITHIN_S = 2.0
LONGEST_PROGRAM = 16 << 20


def part(request: "dict[str, Any]") -> "dict[str, Any]":
    """One of the parts by name; raises KeyError where there is none such."""
    parts = {
        "rights": rights,
        "host": host,
        "disks": disks,
        "caches": caches,
        "processes": processes,
        "ports": ports,
        "locks": locks,
        "surroundings": surroundings,
    }
    return parts[request.get("part") or "rights"](request)


def rights(request: "dict[str, Any]") -> "dict[str, Any]":
    """What the agent may do: whose it is, ptrace, core files, programs in memory, the kernel's log."""
    from .stacks import find

    return {
        "python": sys.version.split()[0],
        "executable": sys.executable,
        "machine": os.uname().machine,
        "uid": os.getuid(),
        "cap_eff": _field("/proc/self/status", "CapEff"),
        "seccomp": _field("/proc/self/status", "Seccomp"),
        "ptrace_scope": _line("/proc/sys/kernel/yama/ptrace_scope"),
        "container": procfs.all_processes_in_sight() is False,
        "core_pattern": _line("/proc/sys/kernel/core_pattern"),
        "py_spy": find(None),
        "memory_program": _runs_from_memory(),
        "kernel_log": _kernel_log(),
        "pidfd": hasattr(os, "pidfd_open") or os.uname().release,
    }


def host(request: "dict[str, Any]") -> "dict[str, Any]":
    """Limits, memory and devices. Sizes in bytes, memory in MiB."""
    fabric_manager = [pid for pid in procfs.pids() if _comm(pid).startswith("nv-fabricmanage")]  # 15 characters
    return {
        "limits": _limits("self", ("Max locked memory", "Max open files", "Max processes", "Max address space")),
        "memory_mib": {name: _meminfo(name) for name in ("MemTotal", "MemAvailable", "SwapTotal", "SwapFree")},
        "commit_mib": {name: _meminfo(name) for name in ("CommitLimit", "Committed_AS")},
        "overcommit": _line("/proc/sys/vm/overcommit_memory"),
        "cpus": len(os.sched_getaffinity(0)),
        "iommu": [word for word in (_line("/proc/cmdline") or "").split() if "iommu" in word],
        "iommu_groups": len(_names("/sys/kernel/iommu_groups")),
        "nvidia_devices": len(glob.glob("/dev/nvidia[0-9]*")),
        "nvswitches": len(glob.glob("/dev/nvidia-nvswitch[0-9]*")),
        "fabric_manager": fabric_manager[:1],
    }


def disks(request: "dict[str, Any]") -> "dict[str, Any]":
    """Space under each path: ``{path: {"free", "total", "free_inodes", "writable", "noexec", "device"}|null}``, bytes;
    null where it is not there. ``device`` tells which lie on the same file system."""
    return {"disks": {path: _disk(path) for path in request["paths"]}}


def caches(request: "dict[str, Any]") -> "dict[str, Any]":
    """The same of this login's home, and of the folders in which frameworks keep what they build and download."""
    from .caches import places

    paths = [os.path.expanduser("~")] + [place.path for place in places(os.getpid()) if place.name != "temporary"]
    return {"disks": {path: _disk(path) for path in paths}}


def _disk(path: str) -> "dict[str, Any] | None":
    try:
        status = os.statvfs(path)
        device = os.stat(path).st_dev
    except OSError:
        return None
    return {
        "free": status.f_bavail * status.f_frsize,
        "total": status.f_blocks * status.f_frsize,
        "free_inodes": status.f_favail if status.f_files else None,
        "writable": os.access(path, os.W_OK),
        "noexec": bool(status.f_flag & os.ST_NOEXEC),
        "device": device,
    }


def processes(request: "dict[str, Any]") -> "dict[str, Any]":
    """What became of each process: ``{pid: {...}|null}``, null where no process of this number is there."""
    return {
        "processes": {str(pid): _process(int(pid)) for pid in request["pids"]},
        "container": procfs.all_processes_in_sight() is False,
    }


def ports(request: "dict[str, Any]") -> "dict[str, Any]":
    """Who listens on each port: ``{port: {"pid", "title", "uid"}}``; ``pid`` null where its owner is another user's.
    Ports that are free are left out."""
    from .ports import listeners

    wanted = {int(port) for port in request["ports"]}
    by_inode = {inode: port for inode, port in listeners(os.getpid()).items() if port in wanted}
    taken: "dict[str, Any]" = {str(port): {"pid": None, "title": None} for port in by_inode.values()}
    left = MOST_FDS
    for pid in procfs.pids() if by_inode else ():
        folder = "/proc/%d/fd/" % pid
        for name in _names(folder):
            left -= 1
            try:
                target = os.readlink(folder + name)
            except OSError:
                continue
            if target.startswith("socket:[") and target[8:-1] in by_inode:
                taken[str(by_inode[target[8:-1]])] = {"pid": pid, "title": _title(pid)}
        if left <= 0:
            break
    return {"ports": taken}


def locks(request: "dict[str, Any]") -> "dict[str, Any]":
    """Lock files in the cache folders of this login and of the processes given, see :func:`.locks.look`."""
    from .locks import look

    return look({"procs": [[os.getpid(), 0]] + list(request.get("procs") or [])})


def surroundings(request: "dict[str, Any]") -> "dict[str, Any]":
    """Control groups and ``/dev/shm`` of this login and of the processes given, see :func:`.surroundings.look`;
    ``own`` is the number under which this login stands there."""
    from .surroundings import look

    return dict(look({"procs": [[os.getpid(), 0]] + list(request.get("procs") or [])}), own=os.getpid())


def _process(pid: int) -> "dict[str, Any] | None":
    now = procfs.stat(pid)
    if now is None:
        return {"hidden": True} if _there(pid) else None
    folder = "/proc/%d/" % pid
    parent = procfs.stat(now.ppid)
    return {
        "state": now.state,
        "ppid": now.ppid,
        "parent": text(parent.comm) if parent else None,
        "uid": os.stat(folder).st_uid if os.path.exists(folder) else None,
        "title": _title(pid),
        "age_s": round(procfs.since_boot() - now.start_ticks / procfs.CLK_TCK, 1),
        "core_limit": _limits(str(pid), ("Max core file size",)).get("Max core file size"),
        "has_gpu": _has_gpu(pid),
        "stdout": _output(pid, 1),
        "stderr": _output(pid, 2),
    }


def _has_gpu(pid: int) -> "bool | None":
    """Whether it has a GPU's device file open; None where that may not be asked."""
    folder = "/proc/%d/fd/" % pid
    try:
        for name in os.listdir(folder):
            if os.readlink(folder + name).startswith("/dev/nvidia"):
                return True
    except OSError:
        return None
    return False


def _there(pid: int) -> bool:
    """Whether the number is a process that ``/proc`` hides (hidepid)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def _output(pid: int, number: int) -> "str | None":
    """Where a descriptor leads, with ``(device)`` behind what cannot be read again; None where it may not be asked."""
    path = "/proc/%d/fd/%d" % (pid, number)
    try:
        target = os.readlink(path)
        mode = os.stat(path).st_mode
    except OSError:
        return None
    return target + " (device)" if modes.S_ISCHR(mode) and target != "/dev/null" else target


def _title(pid: int) -> "str | None":
    from .identity import command_line

    try:
        words = command_line(procfs.read_all("/proc/%d/cmdline" % pid, 8192))
    except OSError:
        return None
    return (" ".join(word for word in words if word).strip() or _comm(pid))[:LONGEST_TITLE]


def _comm(pid: int) -> str:
    now = procfs.stat(pid)
    return text(now.comm) if now else ""


def _runs_from_memory() -> "str | None":
    """None where a program that is sent would run; else why not, or nothing where it could not be tried. It is tried
    with ``true``, the shortest program there is."""
    from .helper import write_all
    from .put import scratch

    program = shutil.which("true", path="/bin:/usr/bin:" + os.environ.get("PATH", ""))
    if program is None:
        return ""
    fd = scratch()
    try:
        with open(program, "rb") as source:
            write_all(fd, source.read(LONGEST_PROGRAM))
        readable = os.open("/proc/self/fd/%d" % fd, os.O_RDONLY)
    finally:
        os.close(fd)
    try:
        path = "/proc/self/fd/%d" % readable
        status = subprocess.call(["true"], executable=path, pass_fds=[readable], env={}, timeout=RUNS_WITHIN_S)
        return "exit status %d" % status if status else None
    except (OSError, subprocess.SubprocessError) as failure:
        return str(failure)
    finally:
        os.close(readable)


def _kernel_log() -> "str | None":
    """None where it can be read; else why not."""
    try:
        os.close(os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as failure:
        return failure.strerror
    return None


def _names(folder: str) -> "list[str]":
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _line(path: str) -> "str | None":
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


def _limits(pid: str, names: "tuple[str, ...]") -> "dict[str, list[str]]":
    """Soft and hard limit by name, as ``/proc/PID/limits`` words them (bytes, files, or unlimited)."""
    try:
        lines = text(procfs.read_all("/proc/%s/limits" % pid)).split("\n")
    except OSError:
        return {}
    return {name: line[len(name) :].split()[:2] for name in names for line in lines if line.startswith(name)}


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
