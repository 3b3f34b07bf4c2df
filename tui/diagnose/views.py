"""Processes and GPUs of a launch over the look window, and the thresholds that tell kinds of behaviour apart.

All thresholds say in which unit and why. They separate kinds (asleep, one busy core, many), not machines.
"""

from __future__ import annotations

from dataclasses import dataclass

from tui.model import Member
from tui.numbers import spread

LOOK_S = 10.0
"""Least window for "now", in seconds: CPU counters step by 10 ms, so that a percent is sure over it."""

ASLEEP_PCT = 15.0
"""A waiting process burns less of a core: polls and heartbeats of a sleeping Python process cost 0.1 to 12 %."""
CORE_PCT = (70.0, 150.0)
"""One core: a thread that spins (NCCL, MPI, a lock) or that computes. Below and above it is work. A spinner that shares
its core falls short of 100 %."""
BUILDING_PCT = 5.0
"""CPU of compilers, of one core. Existing alone is nothing: idle workers of a pool are normal."""
CHILDREN_PCT = 20.0
READING_BPS = 1e6
TRICKLE_BPS = (1e5, 3e5)
"""Bytes a second of one process, now, or now and on average over :data:`LONG_S`. A waiting process pages something in
now and then, some 100 kB at once."""
LONG_S = 60.0
RECEIVING_BPS = 1e6
CACHE_BPS = 1e5
CONTEXT_MIB = 300.0
"""A CUDA context takes 300 to 600 MiB; a GPU with less used memory is nobody's."""
GPU_MOVES_MIB = 24.0

MB = 1e6


@dataclass(frozen=True, slots=True)
class ProcView:
    """A process of the launch over the look window. Rates in percent of a core and bytes a second."""

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
    blocked_share: float = 0.0
    coverage: float = 0.0

    @property
    def name(self) -> str:
        return f"rank {self.member.rank}" if self.member.rank is not None else self.member.role.replace("_", " ")

    @property
    def asleep(self) -> bool:
        """Waits without burning anything, and without moving bytes."""
        return (
            self.present
            and self.state not in "ZXT"
            and self.cpu is not None
            and self.cpu < ASLEEP_PCT
            and not self.moves_bytes
            and not self.in_storage
        )

    @property
    def one_core(self) -> bool:
        return self.cpu is not None and CORE_PCT[0] <= self.cpu <= CORE_PCT[1]

    @property
    def computes(self) -> bool:
        """Burns what no wait burns: part of a core, or more than one."""
        return self.cpu is not None and (ASLEEP_PCT <= self.cpu < CORE_PCT[0] or self.cpu > CORE_PCT[1])

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
        return self.blocked_share >= 0.3 and (self.cpu or 0.0) >= 1.0


@dataclass(frozen=True, slots=True)
class GpuView:
    """A GPU of the launch over the look window.

    ``kind``: ``works`` where the memory controller, links or changing load corroborate utilisation, ``spins`` where
    utilisation stands alone, ``idle``, or ``unknown``.
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


def gpu_kind(
    util: float | None, mem_util: float | None, links: float | None, pcie: float | None, utils: list[float]
) -> str:
    """Utilisation says that a kernel is resident; memory controller, links and change say that it works."""
    if mem_util is not None and mem_util >= 1.5:
        return "works"
    if (links or 0.0) >= 20.0 or (pcie or 0.0) >= 50.0:
        return "works"
    if util is None:
        return "unknown"
    if util < 10.0:
        return "idle"
    if spread(utils) > 10.0 and max(utils) - min(utils) > 25.0:
        return "works" if mem_util is None or util < 60.0 else "spins"
    return "spins" if mem_util is not None or links is not None else "unknown"
