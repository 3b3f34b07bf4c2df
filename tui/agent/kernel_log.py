"""The kernel's own words on GPUs, memory, storage and links, where they may be read (``/dev/kmsg``)."""

import os
import re
import time

MOST_LINES = 64
MOST_RECORDS = 50000
LONGEST = 400

KINDS = re.compile(
    r"Xid|SXid|fallen off the bus|NVRM: .*(?:error|fail)|DMAR|AMD-Vi|IO_PAGE_FAULT|arm-smmu|iommu fault"
    r"|Killed process|oom-kill:|[Oo]ut of memory|oom_reaper|blocked for more than|I/O error|Buffer I/O"
    r"|not responding|nfs: |lustre|LustreError|GPFS|(?:mlx\d_\w+|bnxt_\w+|irdma|hfi1).*(?:link|down|error|fatal|unplug)"
    r"|EXT4-fs error|XFS .*(?:[Ee]rror|shutdown)|segfault|general protection|hung_task|soft lockup|hard LOCKUP"
)
"""Kinds of lines that say something about a launch; all others stay on the host."""


def look(request: "dict[str, Any]") -> "dict[str, Any]":
    """``{"lines": [{"age_s", "text"}, ...], "readable": bool, "why": str}``, oldest first: the last ones of the last
    ``since_s`` seconds."""
    lines: "list[dict[str, Any]]" = []
    try:
        fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as failure:
        return {"lines": [], "readable": False, "why": failure.strerror}
    try:
        now, since_s = time.monotonic(), float(request.get("since_s") or 3600.0)
        for record in _records(fd):
            # priority,sequence,microseconds since boot,flags;text (Documentation/ABI/testing/dev-kmsg)
            head, _, body = record.partition(b";")
            said = body.split(b"\n", 1)[0].decode("utf-8", "replace")
            fields = head.split(b",")
            if len(fields) < 3 or not fields[2].isdigit() or not KINDS.search(said):
                continue
            age_s = max(0.0, now - int(fields[2]) / 1e6)
            if age_s <= since_s:
                lines.append({"age_s": round(age_s, 3), "text": said[:LONGEST]})
    finally:
        os.close(fd)
    return {"lines": lines[-MOST_LINES:], "readable": True, "why": ""}


def _records(fd: int) -> "Iterator[bytes]":
    """Each read gives one record; EPIPE where some were overwritten in between."""
    for _ in range(MOST_RECORDS):
        try:
            record = os.read(fd, 8192)
        except BrokenPipeError:
            continue
        except OSError:
            return
        yield record


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator
