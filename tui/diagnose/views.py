"""Processes and GPUs of a launch over the look window, and the thresholds that tell kinds of behaviour apart.

All thresholds say in which unit and why. They separate kinds (asleep, one busy core, many), not machines.
"""

from __future__ import annotations

from dataclasses import dataclass

from tui.model import Member
from tui.numbers import spread

LOOK_S = 10.0
"""Least window for "now", in seconds: CPU counters step by 10 ms, so that a percent is sure over it."""

LONG_S = 60.0
"""Window for what comes in small pieces: page-ins, memory that grows while modules are imported."""

ASLEEP_PCT = 15.0
"""A waiting process burns less of a core: polls and heartbeats of a sleeping Python process cost 0.1 to 12 %."""
MANY_CORES_PCT = 150.0
"""More than a spinning main thread and a polling helper thread of it burn together only rarely: computing threads."""
CORE_PCT = (70.0, MANY_CORES_PCT)
"""One core: a thread that spins (NCCL, MPI, a lock) or that computes. A spinner that shares its core falls short."""
BUILDING_PCT = 5.0
"""CPU of compilers, of one core. Existing alone is nothing: idle workers of a pool are normal."""
CHILDREN_PCT = 20.0
READING_BPS = 1e6
TRICKLE_BPS = 1.5e5
"""Bytes a second of one process in both halves of :data:`LONG_S`. A waiting process pages something in now and then, a
megabyte at once."""
RECEIVING_BPS = 1e6
FETCHING_BPS = 5e6
"""Received by one process before weights are due: a download; modules from a network file system come more slowly."""
DOWNLOADING_BPS = 2.5e5
"""Received by one process over one look while nothing but a download is due; keep-alives stay below."""
CACHE_BPS = 1e5
GROWING_MIB = 6.0
"""Resident memory that a process gains from third to third of :data:`LONG_S` while it imports or loads; a waiting one
stays within a few MiB."""
CONTEXT_MIB = 300.0
"""A CUDA context takes 300 to 600 MiB; a GPU with less used memory is nobody's."""
GPU_MOVES_MIB = 24.0

MB = 1e6


@dataclass(frozen=True, slots=True)
class ProcView:
    """A process of the launch over the look window. Rates in percent of a core and bytes a second.

    ``blocked_share``: of the last samples, those in uninterruptible sleep; ``ready_share``: those running, or ready to;
    ``blocked_now``: whether one of the newest two is. ``cpu_long``: as ``cpu``, over the idler half of :data:`LONG_S`.
    ``grows``: its memory, over :data:`LONG_S`. ``fetches``: receives steadily, if slowly. ``wakes``: voluntary switches
    of its main thread a second.
    """

    member: Member
    state: str
    wchan: str
    present: bool
    cpu: float | None = None
    children: float | None = None
    compilers: float | None = None
    read: float | None = None
    write: float | None = None
    received: float | None = None
    cache: float | None = None
    trickles: bool = False
    fetches: bool = False
    grows: bool = False
    wakes: float | None = None
    blocked_share: float = 0.0
    ready_share: float = 0.0
    blocked_now: bool = False
    cpu_long: float | None = None
    coverage: float = 0.0

    @property
    def name(self) -> str:
        return f"rank {self.member.rank}" if self.member.rank is not None else self.member.role.replace("_", " ")

    @property
    def asleep(self) -> bool:
        """Waits without burning anything, and without moving bytes."""
        return (
            self.present
            and self.state not in "ZXTt"
            and self.cpu is not None
            and self.cpu < ASLEEP_PCT
            and not self.moves_bytes
            and not self.in_storage
            and not self.grows
            and not self.starved
        )

    @property
    def starved(self) -> bool:
        """Is ready to run in most samples and gets little of a core: it does not wait, it is kept waiting."""
        return self.present and self.ready_share >= 0.5 and self.cpu is not None and self.cpu < ASLEEP_PCT

    @property
    def one_core(self) -> bool:
        return self.cpu is not None and CORE_PCT[0] <= self.cpu <= CORE_PCT[1]

    @property
    def busy(self) -> bool:
        """Burns more than a sleeper; whether that is work or a wait that spins, others must tell."""
        return self.cpu is not None and self.cpu >= ASLEEP_PCT

    @property
    def many_cores(self) -> bool:
        return self.cpu is not None and self.cpu > MANY_CORES_PCT

    @property
    def builds(self) -> bool:
        return (self.compilers or 0.0) >= BUILDING_PCT

    @property
    def children_work(self) -> bool:
        return (self.children or 0.0) >= CHILDREN_PCT and not self.builds

    @property
    def moves_bytes(self) -> bool:
        return (
            (self.read or 0.0) >= READING_BPS
            or (self.write or 0.0) >= READING_BPS
            or self.trickles
            or (self.received or 0.0) >= RECEIVING_BPS
            or (self.cache or 0.0) >= CACHE_BPS
        )

    @property
    def in_storage(self) -> bool:
        """In uninterruptible waits, but not for good: it comes back and burns a little in between."""
        return self.blocked_now and 0.3 <= self.blocked_share < 0.97 and (self.cpu or 0.0) >= 0.5 and not self.in_driver

    @property
    def in_driver(self) -> bool:
        """Whether the kernel has it waiting for NVIDIA's driver (open-gpu-kernel-modules issue 1333)."""
        return self.wchan.startswith(("nvidia", "uvm_", "nv_", "rm_", "os_acquire"))

    @property
    def stuck_in_kernel(self) -> bool:
        """In uninterruptible sleep in every sample, burning nothing."""
        return self.state == "D" and self.blocked_share >= 0.8 and (self.cpu or 0.0) < 1.0 and not self.moves_bytes

    @property
    def at_work(self) -> bool:
        """Does what no wait does: builds, has busy children, moves bytes, comes back from storage, or grows."""
        return self.builds or self.children_work or self.moves_bytes or self.in_storage or self.grows


@dataclass(frozen=True, slots=True)
class GpuView:
    """A GPU of the launch over the look window.

    ``kind``: ``works`` where the memory controller, links or changing load corroborate utilisation, ``spins`` where
    utilisation stands alone, ``idle``, or ``unknown``. ``busy_w``: its own power at work; ``None`` where it was never
    seen at work. ``covered``: whether it was looked at throughout, whatever its driver answered.
    """

    host: str
    index: int
    kind: str
    util: float | None
    mem_util: float | None
    power: float | None
    links: float | None
    mem: float | None
    mem_moved: bool
    busy_w: float | None = None
    covered: bool = True


@dataclass(frozen=True, slots=True)
class GpuReadings:
    """A GPU's readings over a window: means in percent, MiB/s and watts, and the single values where change counts."""

    util: float | None
    mem_util: float | None
    links: float | None
    pcie: float | None
    power: float | None
    utils: list[float]
    powers: list[float]
    busy_w: float | None = None

    @property
    def kind(self) -> str:
        """Utilisation says that a kernel is resident; memory controller, links and change say that it works."""
        if self._frozen:
            return "spins"
        if self.mem_util is not None and self.mem_util >= 1.5:
            return "works"
        if (self.links or 0.0) >= 20.0 or (self.pcie or 0.0) >= 50.0:
            return "works"
        if self.util is None:
            return "unknown"
        if self.util < 10.0:
            return "idle"
        if spread(self.utils) > 10.0 and max(self.utils) - min(self.utils) > 25.0:
            return "works" if self.mem_util is None or self.util < 60.0 else "spins"
        return "spins" if self.mem_util is not None or self.links is not None else "unknown"

    @property
    def _frozen(self) -> bool:
        """A resident kernel at flat power far below what this very GPU draws at work, whatever else it reads."""
        if self.util is None or self.util < 80.0 or self.busy_w is None or len(self.powers) < 3:
            return False
        quiet = (self.mem_util or 0.0) < 5.0 and (self.links or 0.0) < 20.0 and (self.pcie or 0.0) < 50.0
        return quiet and max(self.powers) < 0.5 * self.busy_w and spread(self.powers) < 0.02 * self.busy_w
