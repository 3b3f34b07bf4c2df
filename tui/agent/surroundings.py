"""What a process lives in, and may want for: its control groups, the host's pressure, its ``/dev/shm``."""

import os
import re
import time

from . import procfs
from .caches import inside, root_of
from .procfs import text

LEVELS = 12
MOST_LEFT = 16
NO_LIMIT = 1 << 60
"""Version 1 writes an absent memory limit as the largest number of pages."""

_OF_STAT = (
    "workingset_refault_file",
    "workingset_refault_anon",
    "workingset_refault",  # before kernel 5.9
    "pgmajfault",
)


def look(request: "dict[str, Any]") -> "dict[str, Any]":
    """``{"groups": [...], "shm": [...], "pressure": {...}, "ncpu", "looked", "mono"}``: one group for each set of
    processes that share it, one ``/dev/shm`` for each that is another. ``left``: groups of processes that have ended,
    by the folders that an earlier answer gave them."""
    pids = [int(pid) for pid, _ in request["procs"]]
    left: "list[tuple[list[str], list[int]]]" = request.get("left") or []
    return {
        "groups": _groups(pids) + _of_the_dead(left),
        "shm": _shm(pids),
        "pressure": _pressure("/proc/pressure/%s"),
        "ncpu": os.cpu_count(),
        "looked": pids,
        "mono": round(time.monotonic(), 3),
    }


def _groups(pids: "list[int]") -> "list[dict[str, Any]]":
    mounts = _mounts()
    of: "dict[bytes, list[int]]" = {}
    for pid in pids:
        try:
            of.setdefault(procfs.read("/proc/%d/cgroup" % pid), []).append(pid)
        except OSError:
            continue
    return [dict(_group(_paths(raw, mounts)), pids=members) for raw, members in of.items()]


def _of_the_dead(left: "list[tuple[list[str], list[int]]]") -> "list[dict[str, Any]]":
    """What is left of their groups' counts of memory; a folder of another place is not read."""
    mounts = tuple(mount.rstrip("/") + "/" for mount in _mounts().values())
    rows: "list[dict[str, Any]]" = []
    for folders, members in left[:MOST_LEFT]:
        memory = folders[0] if folders else ""
        if memory.startswith(mounts) and "/.." not in memory and os.path.isdir(memory):
            version1 = os.path.exists(memory + "/memory.oom_control")
            counts = _memory_v1([memory]) if version1 else _memory_v2([memory])
            rows.append({"folders": folders, "oom_kills": counts["oom_kills"], "pids": members})
    return rows


def _mounts() -> "dict[str, str]":
    """Where controllers are mounted; the unified hierarchy under an empty name (cgroups(7))."""
    found: "dict[str, str]" = {}
    try:
        lines = text(procfs.read_all("/proc/self/mountinfo")).split("\n")
    except OSError:
        return found
    for line in lines:
        before, _, after = line.partition(" - ")
        where, kind = before.split(), after.split()
        if len(where) > 4 and len(kind) > 2 and kind[0] in ("cgroup", "cgroup2"):
            names = [""] if kind[0] == "cgroup2" else kind[2].split(",")
            for name in names:
                found.setdefault(name, where[4])
    return found


def _paths(raw: bytes, mounts: "dict[str, str]") -> "dict[str, list[str]]":
    """For each controller the folders of the group and of all above it, the group's own first."""
    found: "dict[str, list[str]]" = {}
    for line in text(raw).split("\n"):
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for name in controllers.split(","):
            if path and name in mounts:
                base = mounts[name]
                parts = [part for part in path.split("/") if part and part != ".."]
                while parts and not os.path.isdir("/".join([base] + parts)):
                    parts.pop(0)  # in a container the path may be the host's, and the mount the container's
                found[name] = ["/".join([base] + parts[:n]) for n in range(len(parts), -1, -1)][:LEVELS]
    return found


def _group(paths: "dict[str, list[str]]") -> "dict[str, Any]":
    unified, memory, cpu = paths.get("", []), paths.get("memory", []), paths.get("cpu", [])
    own = [folders[0] for folders in (memory or unified, cpu or unified) if folders]
    row: "dict[str, Any]" = {"folders": own if len(set(own)) > 1 else own[:1]}
    if memory:
        row.update(_memory_v1(memory))
    elif unified:
        row.update(_memory_v2(unified))
    if cpu:
        row.update(_cpu_v1(cpu))
    elif unified:
        row.update(_cpu_v2(unified))
    if unified:
        row["pressure"] = _pressure(unified[0] + "/%s.pressure")
    return row


def _memory_v2(folders: "list[str]") -> "dict[str, Any]":
    """Events count over the group and those below it (cgroup-v2.rst); the tightest limit of all above counts."""
    events, stat = _table(folders[0] + "/memory.events"), _table(folders[0] + "/memory.stat")
    limit, at = _least([(_number(folder + "/memory.max"), folder) for folder in folders])
    return {
        "oom_kills": events.get("oom_kill"),
        "memory_events": {name: events[name] for name in ("high", "max", "oom") if name in events},
        "memory_max": limit,
        "memory_used": _number((at or folders[0]) + "/memory.current"),
        "refaults": _refaults(stat),
    }


def _memory_v1(folders: "list[str]") -> "dict[str, Any]":
    events, stat = _table(folders[0] + "/memory.oom_control"), _table(folders[0] + "/memory.stat")
    limits = [(_number(folder + "/memory.limit_in_bytes"), folder) for folder in folders]
    limit, at = _least([(value if value is not None and value < NO_LIMIT else None, at) for value, at in limits])
    failed = _number(folders[0] + "/memory.failcnt")
    return {
        "oom_kills": events.get("oom_kill"),
        "memory_events": {} if failed is None else {"max": failed},
        "memory_max": limit,
        "memory_used": _number((at or folders[0]) + "/memory.usage_in_bytes"),
        "refaults": _refaults(stat),
    }


def _refaults(stat: "dict[str, int]") -> "int | None":
    """Pages that came back after they had been evicted, since the group began."""
    counts = [stat[name] for name in _OF_STAT[:3] if name in stat]
    return sum(counts) if counts else None


def _cpu_v2(folders: "list[str]") -> "dict[str, Any]":
    quotas: "list[tuple[float | None, str]]" = []
    for folder in folders:
        words = (_first(folder + "/cpu.max") or "").split()
        known = len(words) == 2 and words[0].isdigit() and int(words[1]) > 0
        quotas.append((int(words[0]) / float(words[1]) if known else None, folder))
    return _cpu(quotas, 1)


def _cpu_v1(folders: "list[str]") -> "dict[str, Any]":
    quotas: "list[tuple[float | None, str]]" = []
    for folder in folders:
        quota, period = _number(folder + "/cpu.cfs_quota_us"), _number(folder + "/cpu.cfs_period_us")
        quotas.append((quota / float(period) if quota and quota > 0 and period else None, folder))
    return _cpu(quotas, 1000)


def _cpu(quotas: "list[tuple[float | None, str]]", unit: int) -> "dict[str, Any]":
    """Where the tightest quota is set, there the waiting is counted; ``unit``: of its clock, in microseconds."""
    quota, at = _least(quotas)
    stat = _table((at or quotas[0][1]) + "/cpu.stat")
    spent = stat.get("throttled_usec") if "throttled_usec" in stat else stat.get("throttled_time")
    return {
        "quota_cores": None if quota is None else round(quota, 3),
        "periods": stat.get("nr_periods"),
        "throttled": stat.get("nr_throttled"),
        "throttled_s": None if spent is None else round(spent / (1e6 if "throttled_usec" in stat else 1e9), 3),
    }


def _least(limits: "list[tuple[float | None, str]]") -> "tuple[float | None, str]":
    return min([(value, at) for value, at in limits if value is not None], default=(None, ""))


def _pressure(pattern: str) -> "dict[str, dict[str, float]]":
    """Per cent of the last 10 s in which some, or all, tasks waited for it (Documentation/accounting/psi.rst)."""
    found: "dict[str, dict[str, float]]" = {}
    for name in ("cpu", "memory", "io"):
        shares = re.findall(r"^(some|full) avg10=([\d.]+)", _whole(pattern % name), re.M)
        if shares:
            found[name] = {which: float(share) for which, share in shares}
    return found


def _shm(pids: "list[int]") -> "list[dict[str, Any]]":
    found: "dict[int, dict[str, Any]]" = {}
    for pid in pids:
        path = inside(root_of(pid), "/dev/shm")
        try:
            device = os.stat(path).st_dev
            if device not in found:
                status = os.statvfs(path)
                unit = status.f_frsize
                found[device] = {"free": status.f_bavail * unit, "total": status.f_blocks * unit, "pids": []}
            found[device]["pids"].append(pid)
        except OSError:
            continue
    return list(found.values())


def _table(path: str) -> "dict[str, int]":
    return {name: int(value) for name, value in re.findall(r"^(\w+) (\d+)$", _whole(path), re.M)}


def _number(path: str) -> "int | None":
    word = _first(path)
    return int(word) if word and word.lstrip("-").isdigit() else None


def _first(path: str) -> "str | None":
    return _whole(path).split("\n")[0].strip() or None


def _whole(path: str) -> str:
    try:
        return text(procfs.read_all(path))
    except OSError:
        return ""


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
