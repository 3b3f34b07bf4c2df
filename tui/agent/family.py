"""Processes with all that they started, and the threads of each: what can be seen of a hang without touching it."""

import os
import socket

from . import procfs
from .look import threads
from .sigabrt import status

MOST_BELOW = 512


def look(request: "dict[str, Any]") -> "dict[str, Any]":
    """``threads`` by pid as in the look of that name, of the processes and their descendants; ``below``: the
    descendants, each with the asked process that it is ``of``; ``inner``: pids as the innermost namespace has them,
    where that is another one; ``ras``: which processes have a thread of NCCL's RAS; ``addresses`` of this host."""
    asked = [int(pid) for pid, _ in request["procs"]]
    below = _below(set(asked))
    seen = threads({"procs": asked + [row["pid"] for row in below]})["threads"]
    inner = {pid: number for pid in seen for number in [_inner(int(pid))] if number}
    ras = [int(pid) for pid, rows in seen.items() if any(row["comm"] == "NCCL RAS" for row in rows or ())]
    return {"threads": seen, "below": below, "inner": inner, "ras": ras, "addresses": addresses()}


def _below(asked: "set[int]") -> "list[dict[str, Any]]":
    """In the order of their start. Found from a single pass over all processes of the host; where the monitor is itself
    one of the asked (it started the launch), its agent is none of its workers."""
    table = {pid: now for pid in procfs.pids() for now in [procfs.stat(pid)] if now}
    table.pop(os.getppid(), None)  # the agent, of which this is a helper
    exes = {pid: _exe(pid) for pid in asked}
    rows: "list[dict[str, Any]]" = []
    for pid, now in sorted(table.items(), key=lambda item: item[1].start_ticks):
        above, seen = now.ppid, 0
        while above not in asked and above in table and seen < 64:
            above, seen = table[above].ppid, seen + 1
        if pid in asked or above not in asked or now.state in "ZX" or len(rows) >= MOST_BELOW:
            continue
        exe = _exe(pid)
        python = "python" in exe.rpartition("/")[2] or (exe != "" and exe == exes[above])
        row = {"pid": pid, "start_ticks": now.start_ticks, "of": above, "comm": procfs.text(now.comm), "python": python}
        rows.append(row)
    return rows


def addresses() -> "list[str]":
    """The host's own IPv4 and IPv6 addresses, as the kernel's routing tables have them."""
    found: "set[str]" = set()
    try:
        lines = procfs.text(procfs.read_all("/proc/net/fib_trie")).split("\n")
        found |= {last.split()[-1] for last, line in zip(lines, lines[1:]) if "/32 host LOCAL" in line}
        for line in procfs.text(procfs.read_all("/proc/net/if_inet6")).split("\n"):
            groups = line[:32]
            if len(groups) == 32:
                found.add(socket.inet_ntop(socket.AF_INET6, bytes.fromhex(groups)))
    except (OSError, IndexError, ValueError):
        pass
    return sorted(found)


def _inner(pid: int) -> int:
    try:
        number = int(status("/proc/%d/status" % pid)["NSpid"])
    except (OSError, ValueError):
        return 0
    return number if number != pid else 0


def _exe(pid: int) -> str:
    try:
        return os.readlink("/proc/%d/exe" % pid)
    except OSError:
        return ""


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
