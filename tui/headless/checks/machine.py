"""The host itself: memory, files, ports and limits that a start would run into."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from tui.diagnose.lock_owner import owner_alive
from tui.headless.checks.finding import Finding, Seen, ago, counted, gib, missing
from tui.headless.checks.gpus import cards
from tui.untyped import integer, listed, mapped, number, text

MIB, GIB = 1 << 20, 1 << 30

SHM_ENOUGH = GIB
"""Bytes. NCCL takes about 10 MB a rank, a DataLoader or an image processor hundreds of MB; Docker gives a container
64 MB unless told otherwise."""

DISK_LOW, DISK_ENOUGH = GIB, 5 * GIB
"""Bytes. A build of one CUDA extension takes hundreds of MB, a flashinfer or vLLM cache several GB."""

INODES_ENOUGH = 10_000

FILES_ENOUGH = 65535
"""What SGLang and vLLM raise their soft limit of open files to by themselves, as far as the hard one allows."""

PORTS = {30000: "SGLang", 8000: "vLLM", 29500: "torchrun's rendezvous"}
"""The usual defaults."""


def machine(seen: Seen) -> Iterator[Finding]:
    yield from missing(seen, "disks", "/dev/shm and /tmp")
    yield from _shared_memory(seen)
    yield from _space(seen)
    yield from missing(seen, "locks", "lock files")
    yield from _locks(seen)
    yield from missing(seen, "ports", "ports")
    yield from _ports(seen)
    yield from missing(seen, "host", "limits and memory")
    yield from _limits(seen)
    yield from _groups(seen)
    yield from _memory(seen)


def _shared_memory(seen: Seen) -> Iterator[Finding]:
    here = mapped(mapped(seen.answer("disks").get("disks")).get("/dev/shm"))
    yield from _shm(here, "/dev/shm")
    for other in listed(seen.answer("surroundings").get("shm")):
        pids = listed(mapped(other).get("pids"))
        if pids and seen.answer("surroundings").get("own") not in pids:
            yield from _shm(mapped(other), f"/dev/shm of pid {pids[0]}, in its container")


def _shm(disk: Mapping[str, Any], where: str) -> Iterator[Finding]:
    free, total = integer(disk.get("free")), integer(disk.get("total"))
    if free is None or total is None:
        return
    said = f"{where}: {gib(free)} of {gib(total)} free"
    if free >= SHM_ENOUGH:
        yield Finding("ok", said)
    elif total < SHM_ENOUGH:
        do = "NCCL and DataLoader workers need more, 1 GiB at least. Start the container with --ipc=host or a size:"
        yield Finding("problem", said, do, "docker run --shm-size=16g …")
    else:
        do = "See what fills it; files of dead processes may go:"
        yield Finding("problem", said, do, "ls -lSh /dev/shm | head")


def _space(seen: Seen) -> Iterator[Finding]:
    """Each file system once, named by the folders on it."""
    folders = {
        **mapped(mapped(seen.answer("disks").get("disks"))),
        **mapped(mapped(seen.answer("caches").get("disks"))),
    }
    systems: dict[int, list[tuple[str, dict[str, Any]]]] = {}
    for path, disk in folders.items():
        device = integer(mapped(disk).get("device"))
        if device is not None and path != "/dev/shm":
            systems.setdefault(device, []).append((text(path) or "", mapped(disk)))
    for on_it in systems.values():
        paths, disk = [path for path, _ in on_it], on_it[0][1]
        shown = ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
        free, inodes = integer(disk.get("free")), integer(disk.get("free_inodes"))
        if free is None:
            continue
        said = f"{shown}: {gib(free)} free"
        largest = f"du -xh --max-depth=1 {' '.join(map(shlex.quote, paths))} | sort -h | tail"
        if free < DISK_ENOUGH:
            mark = "problem" if free < DISK_LOW else "note"
            yield Finding(mark, f"{said}; builds and downloads go there", "See what is large there:", largest)
        elif inodes is not None and inodes < INODES_ENOUGH:
            yield Finding("problem", f"{said}, but for {counted(inodes, 'file')} only", "Remove small files there.")
        else:
            yield Finding("ok", said)
        for path, one in on_it:
            if one.get("writable") is False:
                whose = f"ls -ld {shlex.quote(path)}"
                yield Finding("problem", f"{path}: not writable for this user", "See whose it is:", whose)
        if disk.get("noexec") is True:
            yield Finding(
                "problem",
                f"{shown}: mounted noexec, so extensions and kernels that are built there cannot be loaded",
                "Have them built elsewhere:",
                "export TORCH_EXTENSIONS_DIR=… TORCHINDUCTOR_CACHE_DIR=… TRITON_CACHE_DIR=…",
            )
    yield from missing(seen, "caches", "the cache folders of this login")


def _locks(seen: Seen) -> Iterator[Finding]:
    stale, answer = 0, seen.answer("locks")
    for lock in map(mapped, listed(answer.get("locks"))):
        path, age = text(lock.get("path")) or "", number(lock.get("age_s"))
        for_how_long = f", {ago(age)} old" if age is not None else ""
        owner, alive = integer(lock.get("owner")), owner_alive(lock, answer)
        if alive is False:
            stale += 1
            yield Finding(
                "problem",
                f"lock file without an owner{for_how_long}: {path}",
                "A launch that builds the same waits for it for ever. Nobody here has it: remove it:",
                f"rm {shlex.quote(path)}",
            )
        elif alive is True:
            who = f"pid {owner}" + (f" ({text(lock.get('owner_comm'))})" if lock.get("owner_comm") else "")
            yield Finding("note", f"lock file held by {who}{for_how_long}: {path}", "A launch that needs it will wait.")
        else:
            yield Finding(
                "unknown",
                f"lock file whose owner may be out of sight{for_how_long}: {path}",
                "If no host or container that shares this folder builds there, remove it:",
                f"rm {shlex.quote(path)}",
            )
    if answer and not stale:
        yield Finding("ok", "no stale lock file in the cache folders of this login")


def _ports(seen: Seen) -> Iterator[Finding]:
    answer = seen.answer("ports")
    if not answer:
        return
    taken = {port: mapped(holder) for word, holder in mapped(answer.get("ports")).items() if (port := _port(word))}
    for port, holder in sorted(taken.items()):
        pid, title = integer(holder.get("pid")), text(holder.get("title")) or ""
        who = f"pid {pid} ({title[:60]})" if pid else "a process of another user"
        yield Finding(
            "note",
            f"port {port} (default of {PORTS.get(port, 'nothing known')}) is taken by {who}",
            "A launch with this default fails at the end of its start; give it another port, or end that process:",
            f"kill {pid}" if pid else f"sudo ss -ltnp 'sport = :{port}'",
        )
    free = [str(port) for port in PORTS if port not in taken]
    if free:
        yield Finding("ok", f"usual ports free: {', '.join(free)}")


def _port(word: str) -> int | None:
    return int(word) if word.isascii() and word.isdigit() and len(word) < 6 else None


def _limits(seen: Seen) -> Iterator[Finding]:
    limits = mapped(seen.answer("host").get("limits"))
    locked = _limit(limits, "Max locked memory", 0)
    infiniband = listed(seen.answer("infiniband").get("ports"))
    if locked is not None and infiniband:
        if locked == float("inf"):
            yield Finding("ok", "locked memory is not limited")
        else:
            yield Finding(
                "problem",
                f"locked memory is limited to {gib(locked)}, and InfiniBand registers its buffers as locked",
                "Lift it where the launch starts (limits.conf, systemd's LimitMEMLOCK, docker --ulimit memlock=-1):",
                "ulimit -l unlimited",
            )
    files = _limit(limits, "Max open files", 1)
    if files is not None and files < FILES_ENOUGH:
        yield Finding(
            "note",
            f"at most {files:.0f} open files (hard limit); SGLang and vLLM ask for {FILES_ENOUGH}",
            "Many ranks and connections need more; raise it where the launch starts:",
            f"ulimit -Hn {FILES_ENOUGH}",
        )
    space = _limit(limits, "Max address space", 0)
    if space is not None and space != float("inf"):
        yield Finding(
            "problem",
            f"address space is limited to {gib(space)}; CUDA reserves more than the memory of all GPUs",
            "Lift it where the launch starts:",
            "ulimit -v unlimited",
        )
    if text(seen.answer("host").get("overcommit")) == "2":
        commit = mapped(seen.answer("host").get("commit_mib"))
        limit, promised = number(commit.get("CommitLimit")), number(commit.get("Committed_AS"))
        left = f": {gib((limit - promised) * MIB)} left" if limit is not None and promised is not None else ""
        yield Finding(
            "note",
            f"memory is promised only as far as it is there (vm.overcommit_memory = 2){left}",
            "A fork of a large process may fail with it; the kernel's default is:",
            "sudo sysctl vm.overcommit_memory=0",
        )


def _limit(limits: Mapping[str, Any], name: str, which: int) -> float | None:
    words = listed(limits.get(name))
    word = words[which] if len(words) > which else None
    if word == "unlimited":
        return float("inf")
    return float(word) if isinstance(word, str) and word.isascii() and word.isdigit() else None


def _groups(seen: Seen) -> Iterator[Finding]:
    """Control groups of this login and of the launches that run: limits that starve a start without ending it."""
    gpus = cards(seen)
    total = sum(number(card.row.get("mem_total_mib")) or 0.0 for card in gpus) * MIB
    for group in map(mapped, listed(seen.answer("surroundings").get("groups"))):
        pids = [pid for pid in map(integer, listed(group.get("pids"))) if pid is not None]
        own = seen.answer("surroundings").get("own") in pids
        whose = "this login" if own else f"pid {_some(pids)}"
        most, used = number(group.get("memory_max")), number(group.get("memory_used"))
        if most is not None and total and most < total:
            yield Finding(
                "note",
                f"memory of {whose} is limited to {gib(most)}, the GPUs hold {gib(total)}"
                + (f"; {gib(used)} are in use" if used is not None else ""),
                "A model larger than this is read from disk again and again while it loads; raise the limit:",
                "docker run --memory=…, or resources.limits.memory of the pod",
            )
        kills = integer(group.get("oom_kills"))
        if kills:
            yield Finding(
                "note",
                f"memory of {whose}: the kernel ended processes there for want of memory ({counted(kills, 'time')})",
                "See which, and when:",
                "sudo dmesg -T | grep -i 'killed process'",
            )
        quota = number(group.get("quota_cores"))
        if quota is not None and gpus and quota < len(gpus):
            yield Finding(
                "problem",
                f"CPU of {whose} is limited to {quota:g} cores; each of {counted(len(gpus), 'GPU')} needs one at least",
                "Raise the limit:",
                "docker run --cpus=…, or resources.limits.cpu of the pod",
            )
    cpus = integer(seen.answer("host").get("cpus"))
    if cpus is not None and gpus and cpus < len(gpus):
        yield Finding(
            "problem", f"{cpus} CPUs may be used for {counted(len(gpus), 'GPU')}: each rank needs one at least"
        )


def _some(pids: list[int]) -> str:
    return f"{pids[0]}" + (f" and {len(pids) - 1} more" if len(pids) > 1 else "") if pids else "unknown"


def _memory(seen: Seen) -> Iterator[Finding]:
    memory = mapped(seen.answer("host").get("memory_mib"))
    total, free = number(memory.get("MemTotal")), number(memory.get("MemAvailable"))
    if total and free is not None:
        said = f"memory: {gib(free * MIB)} of {gib(total * MIB)} available"
        if free < total / 10:
            yield Finding("note", said, "See what uses it:", "ps -eo pid,rss,comm --sort -rss | head")
        else:
            yield Finding("ok", said)
    swap, swap_free = number(memory.get("SwapTotal")), number(memory.get("SwapFree"))
    if swap and swap_free is not None and swap - swap_free > 1024:
        yield Finding(
            "note",
            f"{gib((swap - swap_free) * MIB)} of memory are swapped out: what lies there comes back slowly",
            "See whose it is:",
            "grep -H VmSwap /proc/[0-9]*/status | sort -k2 -n | tail -5",
        )
