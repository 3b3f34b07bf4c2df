"""Who holds GPU memory before a start: a launch that runs, an orphan, or nobody that can be seen."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tui.headless.checks.finding import Finding, Seen, ago, gib, gpus_named, plural
from tui.untyped import integer, listed, mapped, number, text

MIB = 1 << 20
FREE_MIB = 1024.0
"""Memory in use without a process up to this is the driver's own (MPS, fabric, display)."""

ADOPTERS = ("systemd", "containerd-shim")
"""Beside process 1, who takes in what has lost its parent."""

STARTERS = ("python", "pt_main_thread", "sglang", "vllm", "VLLM", "torchrun", "mpi", "orted", "prted")
"""Names under which process 1 of a container may be the launch itself."""

_WORKER = re.compile(r"sglang::|VLLM::|multiprocessing\.(spawn|forkserver)|from multiprocessing|ray::|mpi4py\.futures")
"""Titles and command lines of what never runs without the process that started it."""

Rows = Sequence[tuple[int, Mapping[str, Any]]]


def memory(seen: Seen, rows: Rows) -> Iterator[Finding]:
    """``rows``: index and reading of each GPU."""
    held = {index: _held(row) for index, row in rows}
    where: dict[int, list[int]] = {}
    for index, holders in held.items():
        for pid in holders:
            where.setdefault(pid, []).append(index)
    busy: set[int] = set()
    for pid, indices in where.items():
        finding = _holder(seen, pid, indices, sum(held[index][pid] or 0.0 for index in indices))
        if finding is None:
            busy.update(indices)
        else:
            yield finding
    yield from _without_process(seen, rows, held)
    if busy:
        yield _in_use(seen, rows, sorted(busy), [pid for pid in where if not busy.isdisjoint(where[pid])])
    used = [number(row.get("mem_used_mib")) for _, row in rows]
    if not where and all(mib is not None and mib <= FREE_MIB for mib in used):
        most = max((mib for mib in used if mib is not None), default=0.0)
        yield Finding("ok", f"{gpus_named(i for i, _ in rows)}: no process, at most {gib(most * MIB)} in use")
    unread = [index for (index, row), mib in zip(rows, used, strict=True) if mib is None and not row.get("error")]
    if unread:
        yield Finding("unknown", f"{gpus_named(unread)}: memory in use is not told by this GPU or driver")


def _held(row: Mapping[str, Any]) -> dict[int, float | None]:
    pairs = [[*listed(item), None, None][:2] for item in listed(row.get("processes"))]
    return {pid: number(used) for pid, used in pairs if isinstance(pid, int)}


def _holder(seen: Seen, pid: int, indices: Sequence[int], mib: float) -> Finding | None:
    """A finding on a process that will not give its memory back by itself; ``None`` for one that plainly runs."""
    which = ",".join(map(str, indices))
    holds = f"{gpus_named(indices)}: {gib(mib * MIB) if mib else 'memory'}"
    process = seen.process(pid)
    foreign = process is not None and seen.container and process.get("has_gpu") is False
    if process is None or foreign:  # in a container NVML may give the host's numbers: another process has this one here
        if seen.container:
            return Finding(
                "note",
                f"{holds} held by pid {pid}, which is not in this container",
                "It belongs to the host or to another container; look there:",
                f"ps -fp {pid}",
            )
        return Finding(
            "problem",
            f"{holds} still held for pid {pid}, which has ended",
            f"End who has the device open; if nobody has, only a reset frees it (nvidia-smi --gpu-reset -i {which}):",
            "sudo fuser -v /dev/nvidia*",
        )
    if not process:
        return Finding("unknown", f"{holds} held by pid {pid}, which could not be looked at")
    if process.get("hidden"):
        return Finding(
            "note", f"{holds} held by pid {pid} of another user", "Ask root whose it is:", f"sudo ps -fp {pid}"
        )
    who = f"pid {pid} ({_short(process)})"
    parent, ppid = text(process.get("parent")) or "unknown", integer(process.get("ppid"))
    age = number(process.get("age_s"))
    for_how_long = f", started {ago(age)} ago" if age is not None else ""
    if process.get("state") in ("Z", "X"):
        return Finding(
            "problem",
            f"{holds} held by {who}, which was killed and is not gone: a thread of it may hang in the driver",
            f"Its parent must collect it: pid {ppid} ({parent}); end that one, and if it stays reboot the host:",
            f"kill {ppid}" if ppid and ppid > 1 else f"ps -Lo pid,tid,stat,wchan -p {pid}",
        )
    if not _adopted(parent, ppid):
        return None
    gone = f"{who}{for_how_long}; what started it is gone (its parent is {parent})"
    if _WORKER.search(text(process.get("title")) or ""):
        return Finding(
            "problem", f"{holds} held by an orphan: {gone}", "End it; with kill -9 if it stays:", f"kill {pid}"
        )
    if _rank_without_launcher(seen, pid):
        return Finding("note", f"{holds} held by {gone}", "If nobody waits for it any more, end it:", f"kill {pid}")
    return None


def _adopted(parent: str, ppid: int | None) -> bool:
    return not parent.startswith(STARTERS) if ppid == 1 else parent.startswith(ADOPTERS)


def _rank_without_launcher(seen: Seen, pid: int) -> bool:
    """One of several ranks, and nothing that started them: left over, or started by hand from a login that is over."""
    for view in seen.launches:
        mine = [process for process in view.processes if process.host == seen.host.name and process.state != "gone"]
        if any(process.pid == pid and process.rank is not None for process in mine):
            started = any(process.role in ("driver", "launcher", "api") for process in mine)
            return not started and (view.launch.world_size or len(mine)) > 1
    return False


def _without_process(seen: Seen, rows: Rows, held: Mapping[int, Mapping[int, float | None]]) -> Iterator[Finding]:
    for index, row in rows:
        used = number(row.get("mem_used_mib"))
        if used is None or used <= FREE_MIB or held[index] or row.get("processes") is None or listed(row.get("mig")):
            continue
        what = f"GPU {index}: {gib(used * MIB)} in use and no process to be seen"
        if seen.container:
            yield Finding("note", what, "Other containers are not seen from here; look on the host:", "nvidia-smi")
        else:
            yield Finding(
                "problem",
                what,
                "See who has the device open, containers and threads too:",
                "sudo fuser -v /dev/nvidia*",
            )


def _in_use(seen: Seen, rows: Rows, busy: Sequence[int], pids: Sequence[int]) -> Finding:
    free = [
        total - used
        for index, row in rows
        if index in busy
        and (total := number(row.get("mem_total_mib"))) is not None
        and (used := number(row.get("mem_used_mib"))) is not None
    ]
    left = f"; {gib(min(free) * MIB)} are free on the fullest" if free else ""
    names = sorted({_short(mapped(seen.process(pid))) for pid in pids})
    who = ", ".join(names[:2]) + (" …" if len(names) > 2 else "")
    return Finding("note", f"{gpus_named(busy)}: in use by {plural(len(pids), 'process', 'processes')} ({who}){left}")


def _short(process: Mapping[str, Any]) -> str:
    title = text(process.get("title")) or "unknown"
    return title if len(title) <= 48 else title[:47] + "…"
