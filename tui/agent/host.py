"""What a host is, what all of it moves, and what watching it costs."""

import os
import sys
import time

from . import procfs

PROTOCOL = 1


def hello(simulated: bool) -> "dict[str, Any]":
    """The first frame."""
    system = os.uname()
    return {
        "type": "hello",
        "v": PROTOCOL,
        "boot_id": _line("/proc/sys/kernel/random/boot_id") or "",
        "hostname": system.nodename,
        "python": "%d.%d.%d" % sys.version_info[:3],
        "pid": os.getpid(),
        "uid": os.getuid(),
        "machine": system.machine,
        "system": "%s %s" % (system.sysname, system.release),
        "ncpu": os.cpu_count(),
        "mem_mib": _memory_mib(),
        "clk_tck": procfs.CLK_TCK,
        "ptrace_scope": _number("/proc/sys/kernel/yama/ptrace_scope"),
        "simulated": simulated,
        "mono": round(time.monotonic(), 6),
        "wall": round(time.time(), 6),
    }


def load() -> "tuple[float | None, bytes]":
    """The load average of the last minute, and the pid that the kernel gave out last."""
    try:
        fields = procfs.read("/proc/loadavg").split()
        return float(fields[0]), fields[4]
    except (OSError, ValueError, IndexError):
        return None, b""


def network() -> "dict[str, int] | None":
    """Bytes over all interfaces but the loopback. RDMA does not pass here."""
    try:
        lines = procfs.read_all("/proc/self/net/dev").split(b"\n")[2:]
    except OSError:
        return None
    received = sent = 0
    for line in lines:
        name, _, counters = line.partition(b":")
        fields = counters.split()
        if len(fields) > 8 and name.strip() != b"lo":
            received += int(fields[0])
            sent += int(fields[8])
    return {"rx_bytes": received, "tx_bytes": sent}


def own_cost(helpers: "list[int]") -> "dict[str, float]":
    """CPU seconds of the agent and its helpers, the living and the ended; MiB of the main process alone."""
    own = os.times()
    cpu_s = own[0] + own[1] + own[2] + own[3]
    for pid in helpers:
        now = procfs.stat(pid)
        cpu_s += now.cpu_s if now else 0.0
    rss = int(procfs.read("/proc/self/statm").split()[1]) * procfs.PAGE_MIB
    return {"cpu_s": round(cpu_s, 3), "rss_mib": round(rss, 2)}


def stand_back() -> None:
    """When memory runs out, let the kernel take this process before any of the launch's."""
    try:
        with open("/proc/self/oom_score_adj", "w") as adjustment:
            adjustment.write("1000")
    except OSError:
        pass


def _memory_mib() -> "int | None":
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    except (OSError, ValueError):
        return None


def _line(path: str) -> "str | None":
    try:
        return procfs.text(procfs.read(path)).strip()
    except OSError:
        return None


def _number(path: str) -> "int | None":
    line = _line(path)
    return int(line) if line and line.isdigit() else None


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
