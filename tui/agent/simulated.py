"""GPUs for a machine without a driver: what a real launch's processes do, told in NVML's words.

Stands where ``pynvml`` stands (:class:`.nvml.Reader` calls the same functions), only when it was asked for and no
driver answers. Nothing is scripted: GPU k shows the process with ``RANK=k`` among the descendants of ``parent``. Its
CPU time is the utilisation, what it has read lies in the memory, its power follows, and when it ends the GPU is empty.
"""

import os
import re

from . import procfs
from .loop import clock

MIB = 1048576.0
TOTAL_MIB = 143771
LIMIT_W = 700.0
FULL_LOAD_W = 610.0
CONTEXT_MIB, CONTEXT_W, CONTEXT_AFTER_S = 500.0, 34.0, 1.0
IDLE_MHZ, BOOST_MHZ = 345, 1980
MEMORY_BUSY_MIB_S = 400.0
"""MiB/s of reading that count as one percent of the memory controller."""
LOOK_FOR_RANKS_EVERY_S = 1.0

_RANK = re.compile(rb"(?:^|\0)RANK=(\d+)\0")


class NVMLError(Exception):
    """As ``pynvml``'s: ``value`` is NVML's return code."""

    def __init__(self, value: int):
        super().__init__("NVML error %d" % value)
        self.value = value


class Values:
    """A result structure of NVML."""

    def __init__(self, **values: object):
        self.__dict__.update(values)


class SimulatedGpu:
    """One GPU, and the process that uses it."""

    def __init__(self, index: int, mib_per_byte: float):
        self.index = index
        self.owner: "tuple[int, int] | None" = None
        self.used_mib = 1.0
        self.util_pct = self.mem_util_pct = 0
        self.read_bytes = 0.0
        self.power_w = self._idle_w = 72.0 + (index * 37) % 11
        self.temp_c = 31.0 + (index * 5) % 7
        self._mib_per_byte = mib_per_byte
        self._last: "tuple[float, float, float] | None" = None

    def update(self) -> None:
        """Look at the owner; one that has ended leaves the GPU empty."""
        if self.owner is not None and not procfs.alive(*self.owner):
            self.owner = None
        now = procfs.stat(self.owner[0]) if self.owner else None
        if self.owner is None or now is None:
            self._empty()
        else:
            self._busy(self.owner[0], now)
        self._warm()

    def _empty(self) -> None:
        self._last = None
        self.used_mib, self.util_pct, self.mem_util_pct = 1.0, 0, 0
        self.power_w = self._idle_w + _jitter()

    def _busy(self, pid: int, now: procfs.Stat) -> None:
        at, read = clock(), _read_chars(pid) * self._mib_per_byte
        last_at, last_cpu_s, last_read = self._last or (at - 1.0, now.cpu_s, read)
        self._last = (at, now.cpu_s, read)
        seconds = max(0.05, at - last_at)
        self.util_pct = int(min(100.0, 100.0 * (now.cpu_s - last_cpu_s) / seconds))
        self.mem_util_pct = int(min(100.0, max(0.0, read - last_read) / seconds / MEMORY_BUSY_MIB_S))
        self.read_bytes = max(self.read_bytes, read * MIB)
        has_context = _age_s(now) > CONTEXT_AFTER_S
        self.used_mib = min(TOTAL_MIB - 1024.0, CONTEXT_MIB + now.rss_mib + read) if has_context else 1.0
        base = self._idle_w + (CONTEXT_W if has_context else 0.0)
        self.power_w = base + (FULL_LOAD_W - base) * self.util_pct / 100.0 + _jitter()

    def _warm(self) -> None:
        target = 28.0 + 45.0 * self.power_w / LIMIT_W
        self.temp_c += (target - self.temp_c) / 40.0


class Simulated:
    """The functions and constants of ``pynvml`` that the reader uses. ``options``: ``parent``, ``gpus``, and
    ``mib_per_byte`` (how much memory a byte stands for that a rank has read; one byte by default)."""

    NVMLError = NVMLError
    NVML_TEMPERATURE_GPU = NVML_CLOCK_SM = nvmlMemory_v2 = 0
    nvmlEventTypeXidCriticalError = 8

    def __init__(self, options: "dict[str, Any]"):
        self._parent = int(options["parent"])
        per_byte = float(options.get("mib_per_byte") or 1.0 / MIB)
        self._gpus = [SimulatedGpu(index, per_byte) for index in range(int(options["gpus"]))]
        self._looked = -LOOK_FOR_RANKS_EVERY_S

    def nvmlInit(self) -> None:
        self._update()

    def nvmlDeviceGetCount(self) -> int:
        self._update()
        return len(self._gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> SimulatedGpu:
        return self._gpus[index]

    def nvmlDeviceGetUUID(self, gpu: SimulatedGpu) -> str:
        return "GPU-51e0a7ed-0000-4000-8000-%012x" % gpu.index

    def nvmlDeviceGetName(self, gpu: SimulatedGpu) -> str:
        return "NVIDIA H200"

    def nvmlDeviceGetUtilizationRates(self, gpu: SimulatedGpu) -> Values:
        return Values(gpu=gpu.util_pct, memory=gpu.mem_util_pct)

    def nvmlDeviceGetMemoryInfo(self, gpu: SimulatedGpu, version: int = 0) -> Values:
        return Values(total=TOTAL_MIB * MIB, used=int(gpu.used_mib) * MIB)

    def nvmlDeviceGetPowerUsage(self, gpu: SimulatedGpu) -> int:
        return int(gpu.power_w * 1000)

    def nvmlDeviceGetEnforcedPowerLimit(self, gpu: SimulatedGpu) -> int:
        return int(LIMIT_W * 1000)

    def nvmlDeviceGetTemperature(self, gpu: SimulatedGpu, sensor: int) -> int:
        return int(gpu.temp_c)

    def nvmlDeviceGetClockInfo(self, gpu: SimulatedGpu, clock_type: int) -> int:
        return BOOST_MHZ if gpu.used_mib >= CONTEXT_MIB else IDLE_MHZ

    def nvmlDeviceGetCurrentClocksEventReasons(self, gpu: SimulatedGpu) -> int:
        return 0

    def nvmlDeviceGetComputeRunningProcesses_v3(self, gpu: SimulatedGpu) -> "list[Values]":
        if gpu.owner is None or gpu.used_mib < CONTEXT_MIB:
            return []
        return [Values(pid=gpu.owner[0], usedGpuMemory=int(gpu.used_mib) * MIB)]

    def nvmlDeviceGetFieldValues(self, gpu: SimulatedGpu, fields: object) -> "list[Values]":
        """NVLink stands still: what ranks exchange over sockets is not counted by process. PCIe shows what is read."""
        counters = (0, 0, 0, int(gpu.read_bytes))
        return [Values(nvmlReturn=0, valueType=3, value=_unsigned(counter)) for counter in counters]

    def nvmlDeviceGetMigMode(self, gpu: SimulatedGpu) -> "list[int]":
        return [0, 0]

    def nvmlEventSetCreate(self) -> None:
        raise NVMLError(3)

    def _update(self) -> None:
        if any(gpu.owner is None for gpu in self._gpus) and clock() - self._looked >= LOOK_FOR_RANKS_EVERY_S:
            self._looked = clock()
            for rank, owner in _ranks_below(self._parent).items():
                if rank < len(self._gpus) and self._gpus[rank].owner is None:
                    self._gpus[rank].owner = owner
        for gpu in self._gpus:
            gpu.update()


def _ranks_below(parent: int) -> "dict[int, tuple[int, int]]":
    """The topmost descendants with a RANK of their own; children inherit the variable and are not ranks."""
    children: "dict[int, list[tuple[int, procfs.Stat]]]" = {}
    for pid in procfs.pids():
        now = procfs.stat(pid)
        if now and now.state not in "ZX":
            children.setdefault(now.ppid, []).append((pid, now))
    ranks: "dict[int, tuple[int, int]]" = {}
    level = children.get(parent, [])
    while level:
        below: "list[tuple[int, procfs.Stat]]" = []
        for pid, now in level:
            found = _RANK.search(_environ(pid))
            if found:
                ranks.setdefault(int(found.group(1)), (pid, now.start_ticks))
            else:
                below += children.get(pid, [])
        level = below
    return ranks


def _environ(pid: int) -> bytes:
    try:
        return procfs.read_all("/proc/%d/environ" % pid)
    except OSError:
        return b""


def _read_chars(pid: int) -> int:
    try:
        return int(procfs.read("/proc/%d/io" % pid).split(b"\n", 1)[0].rpartition(b" ")[2])
    except (OSError, ValueError):
        return 0


def _age_s(now: procfs.Stat) -> float:
    return procfs.since_boot() - now.start_ticks / procfs.CLK_TCK


def _jitter() -> float:
    return (os.urandom(1)[0] - 127.5) / 200.0


def _unsigned(number: int) -> Values:
    return Values(dVal=0.0, uiVal=0, ulVal=0, ullVal=number, sllVal=0)


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
