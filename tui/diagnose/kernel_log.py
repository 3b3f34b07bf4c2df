"""What the kernel's log says of GPUs, the IOMMU, memory and storage.

What an Xid means stands in ``markers/kernel.toml``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from tui.diagnose import markers
from tui.diagnose.markers import Marker

_XID = re.compile(r"Xid[^:]*\(PCI:[^)]*\)?:?\s*(\d+)|Xid\D{0,40}?(\d+)")
_IOMMU = re.compile(r"DMAR|AMD-Vi|IO_PAGE_FAULT|arm-smmu|iommu fault", re.IGNORECASE)
_OOM = re.compile(r"out of memory|oom-kill|Killed process", re.IGNORECASE)
_STORAGE = re.compile(r"not responding|blocked for more than \d+ seconds|I/O error|timed out.*(?:nfs|lustre)", re.I)


@dataclass(frozen=True, slots=True)
class Xid:
    """``t``: when the line was seen first, ``fresh``: whether that was after the monitor had come; ``said``: what is
    written behind the number."""

    number: int
    text: str
    t: float
    fresh: bool
    said: str = ""

    @property
    def ends_the_gpu(self) -> bool:
        known = meaning(self.number, self.said)
        return known is not None and known.tells == "gpu_lost"

    @property
    def grave(self) -> bool:
        """Whether somebody's work on that GPU cannot go on; others are consequences, warnings, or not known."""
        known = meaning(self.number, self.said)
        return known is not None and known.edge == "fatal"


@lru_cache(maxsize=256)
def meaning(number: int, said: str = "") -> Marker | None:
    """The marker of an Xid; ``said`` is what the driver wrote behind the number. ``None`` where no marker names it."""
    line = f"NVRM: Xid (PCI:0): {number}, {said}"
    return next((m for m in markers.load().of(line) if m.id.startswith("xid.") and m.match(line)), None)


def xid(line: str, t: float, fresh: bool) -> Xid | None:
    """
    >>> xid("NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.", 3.0, True).number
    79
    """
    found = _XID.search(line)
    return Xid(int(found[1] or found[2]), line, t, fresh, line[found.end() :].lstrip(", ")) if found else None


def of_iommu(line: str) -> bool:
    """A DMA that the IOMMU refused: peer-to-peer traffic between GPUs ends there."""
    return _IOMMU.search(line) is not None


def of_memory(line: str) -> bool:
    return _OOM.search(line) is not None


def of_storage(line: str) -> bool:
    return _STORAGE.search(line) is not None
