"""What the kernel's log says of GPUs, the IOMMU, memory and storage.

Xid numbers and their meaning: NVIDIA open-gpu-kernel-modules 595.45.04, ``nverror.h``; which of them end a GPU's work
for good is judgement.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_XID = re.compile(r"Xid[^:]*\(PCI:[^)]*\)?:?\s*(\d+)|Xid\D{0,40}?(\d+)")
_IOMMU = re.compile(r"DMAR|AMD-Vi|IO_PAGE_FAULT|arm-smmu|iommu fault", re.IGNORECASE)
_OOM = re.compile(r"out of memory|oom-kill|Killed process", re.IGNORECASE)
_STORAGE = re.compile(r"not responding|blocked for more than \d+ seconds|I/O error|timed out.*(?:nfs|lustre)", re.I)

_FOR_GOOD = frozenset({48, 61, 62, 64, 69, 74, 79, 95, 109, 119, 120, 121, 136, 137, 140, 143, 155, 158, 167}
                      | set(range(144, 151)) | {163, 164, 165, 166, 168, 169, 170, 171, 172, 173})  # fmt: skip
_OF_A_PROCESS = frozenset({13, 31, 32, 43, 94, 154})
"""The named process is done for; the GPU is not. (154 only announces what the driver will do.)"""


@dataclass(frozen=True, slots=True)
class Xid:
    """``t``: when the line was seen first, ``fresh``: whether that was after the monitor had come."""

    number: int
    text: str
    t: float
    fresh: bool

    @property
    def ends_the_gpu(self) -> bool:
        return self.number in _FOR_GOOD

    @property
    def grave(self) -> bool:
        """Whether work on that GPU cannot go on: 45, 63 and 92 are consequences and warnings."""
        return self.ends_the_gpu or self.number in _OF_A_PROCESS


def xid(line: str, t: float, fresh: bool) -> Xid | None:
    """
    >>> xid("NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.", 3.0, True).number
    79
    """
    found = _XID.search(line)
    return Xid(int(found[1] or found[2]), line, t, fresh) if found else None


def of_iommu(line: str) -> bool:
    """A DMA that the IOMMU refused: peer-to-peer traffic between GPUs ends there."""
    return _IOMMU.search(line) is not None


def of_memory(line: str) -> bool:
    return _OOM.search(line) is not None


def of_storage(line: str) -> bool:
    return _STORAGE.search(line) is not None
