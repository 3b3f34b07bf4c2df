"""PyTorch's flight recorder, asked for through its pipe: which collectives a rank has enqueued, and from where.

``ProcessGroupNCCL`` (torch 2.3 and later; ``HeartbeatMonitor``) opens ``$TORCH_NCCL_DEBUG_INFO_PIPE_FILE<rank>.pipe``
for reading, where the variable is set, and writes the record to a file when a byte comes. Training goes on meanwhile.
It looks once a second where TORCH_NCCL_DUMP_ON_TIMEOUT is set, otherwise as rarely as every
TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC. A file that a watchdog wrote at a time-out is brought as well. Paths are the
process's own, seen through its root.
"""

import os
import stat as modes
import time

from . import procfs
from .environ import variables
from .loop import clock
from .wire import packed

PIPE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
PREFIXES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
WAIT_S = 12.0
"""3.4 s were seen on 24 ranks; 6 s on two cores, where symbols are read for the first time."""

STILL_S = 0.15
MOST_BYTES = 64 << 20


def work(pid: int, rank: "int | None") -> "dict[str, Any]":
    """``data`` (see :func:`.wire.packed`) of the newest record of a rank, its ``path`` and ``mtime``, and whether the
    pipe was ``asked``; or ``error``; nothing of both where the process has neither pipe nor file."""
    env = variables(pid, "RANK", "HOME", "XDG_CACHE_HOME", "TORCH_NCCL_", "TORCH_FR_")
    rank = int(env["RANK"]) if env.get("RANK", "").isdigit() else rank
    if rank is None:
        return {}
    files = [_seen(pid, prefix + str(rank)) for prefix in _prefixes(env)]
    before = {path: _signature(path) for path in files}
    asked, why = _poke(pid, env[PIPE] + "%d.pipe" % rank) if env.get(PIPE) else (False, "")
    found = _wait(before) if asked else None
    found = found or _newest(pid, before)
    if found:
        return dict(_read(found), asked=asked)
    if asked:
        why = "it was asked for its flight record and has not written it within %d s" % WAIT_S
        if env.get("TORCH_NCCL_DUMP_ON_TIMEOUT") not in ("1", "true"):
            every = env.get("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC") or "480"
            why += "; without TORCH_NCCL_DUMP_ON_TIMEOUT=1 it may look at its pipe only every %s s" % every
    return {"error": why} if why else {}


def _prefixes(env: "dict[str, str]") -> "list[str]":
    """Where the record may go: torch up to 2.8 has its default in /tmp, later ones in the cache folder."""
    named = [env[name] for name in PREFIXES if env.get(name)]
    cache = env.get("XDG_CACHE_HOME") or (env["HOME"] + "/.cache" if env.get("HOME") else "")
    later = cache + "/torch/comm_lib_trace_rank_" if cache else "/tmp/comm_lib_trace_rank_"
    return named or ["/tmp/nccl_trace_rank_", later]


def _seen(pid: int, path: str) -> str:
    return "/proc/%d/root%s" % (pid, path) if path.startswith("/") else "/proc/%d/cwd/%s" % (pid, path)


def _poke(pid: int, path: str) -> "tuple[bool, str]":
    """Write a byte into the pipe, where it is one and somebody reads it."""
    try:
        fd = os.open(_seen(pid, path), os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False, "its flight recorder's pipe %s is not there: no NCCL process group yet, or none any more" % path
    except OSError as failure:
        if failure.errno == 6:  # ENXIO
            return False, "nobody reads its flight recorder's pipe %s: the thread that did has ended" % path
        return False, "its flight recorder's pipe %s cannot be written: %s" % (path, failure.strerror)
    try:
        if not modes.S_ISFIFO(os.fstat(fd).st_mode):
            return False, "%s is no pipe" % path
        os.write(fd, b"1\n")
    except OSError as failure:
        return False, "its flight recorder's pipe %s cannot be written: %s" % (path, failure.strerror)
    finally:
        os.close(fd)
    return True, ""


def _wait(before: "dict[str, Signature]") -> "str | None":
    """The file that changes and then stays as it is."""
    until = clock() + WAIT_S
    while clock() < until:
        time.sleep(0.05)
        for path, signature in before.items():
            now = _signature(path)
            if now and now != signature:
                time.sleep(STILL_S)
                if _signature(path) == now and _ends(path):
                    return path
    return None


def _newest(pid: int, before: "dict[str, Signature]") -> "str | None":
    """One that this process wrote: not older than itself."""
    now = procfs.stat(pid)
    if now is None:
        return None
    started = time.time() - procfs.since_boot() + now.start_ticks / float(procfs.CLK_TCK)
    fresh = [(s[1], path) for path, s in before.items() if s and s[1] >= int((started - 1) * 1e9)]
    return max(fresh)[1] if fresh else None


def _signature(path: str) -> "Signature":
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return (status.st_size, status.st_mtime_ns, status.st_ino) if modes.S_ISREG(status.st_mode) else None


def _ends(path: str) -> bool:
    """Whether the last byte is that of a pickle, or of JSON."""
    try:
        fd = _open(path)
        try:
            return os.pread(fd, 1, max(0, os.fstat(fd).st_size - 1)) in (b".", b"}", b"\n")
        finally:
            os.close(fd)
    except OSError:
        return False


def _open(path: str) -> int:
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)


def _read(path: str) -> "dict[str, Any]":
    named = "/" + path.split("/", 4)[4]
    try:
        fd = _open(path)
        with open(fd, "rb") as stream:
            size, mtime = os.fstat(fd).st_size, os.fstat(fd).st_mtime
            if size > MOST_BYTES:
                return {"error": "its flight record %s has %d MB; %d are read" % (named, size >> 20, MOST_BYTES >> 20)}
            data = packed(stream.read(MOST_BYTES))
    except OSError as failure:
        return {"error": "its flight record %s cannot be read: %s" % (named, failure.strerror)}
    return {"path": named, "mtime": mtime, "data": data}


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional, Tuple

    Signature = Optional[Tuple[int, int, int]]
