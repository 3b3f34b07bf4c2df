"""Xid errors: what the driver wrote into the kernel's log, and what came while it was watched."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tui.diagnose.kernel_log import meaning
from tui.headless.checks.finding import Finding, Seen, ago
from tui.untyped import integer, listed, mapped, number, text

_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)[^)]*\): (\d+)(?:, (.{0,160}))?")

RECENT_S = 3 * 86400.0


def xids(seen: Seen, buses: Mapping[int, str]) -> Iterator[Finding]:
    """``buses``: PCI address by index."""
    newest: dict[tuple[str, int], tuple[float, int, str]] = {}
    for line in map(mapped, listed(seen.answer("kernel_log").get("lines"))):
        found = _XID.search(text(line.get("text")) or "")
        age = number(line.get("age_s"))
        if found and age is not None and age <= RECENT_S:
            key = (found[1], int(found[2]))
            count = newest[key][1] + 1 if key in newest else 1
            newest[key] = (age, count, found[3] or "")
    written: set[tuple[int, int]] = set()
    for (bus, xid), (age, count, said) in newest.items():
        index = next((index for index, address in buses.items() if _same(address, bus)), None)
        written.add((-1 if index is None else index, xid))
        where = f"GPU {index}" if index is not None else f"the GPU at {bus}"
        often = f"{count} times, last " if count > 1 else ""
        yield _finding(xid, said, f"{where}: Xid {xid}, {often}{ago(age)} ago{': ' + said if said else ''}")
    for index, numbers in _watched(seen).items():
        for xid in numbers:
            if (index, xid) not in written:
                yield _finding(xid, "", f"GPU {index}: Xid {xid} has just come")


def _watched(seen: Seen) -> dict[int, list[int]]:
    rows = [mapped(row) for row in listed(seen.answer("gpu_health").get("gpus"))]
    return {
        integer(row.get("index")) or 0: [xid for xid in map(integer, listed(row.get("xids"))) if xid is not None]
        for row in rows
    }


def _finding(xid: int, said: str, shown: str) -> Finding:
    known = meaning(xid, said)
    if known is not None and (known.tells == "process_lost" or known.edge == "neutral"):
        return Finding("note", shown, "It ended a process or was noted down; the GPU itself goes on.")
    return Finding(
        "problem",
        shown,
        "Drain the GPU and reset it, or reboot where these lines say so (numbers: docs.nvidia.com/deploy/xid-errors):",
        "sudo dmesg -T | grep -iE 'xid|fallen off'",
    )


def _same(one: str, other: str) -> bool:
    """``00000000:41:00.0`` and ``0000:41:00`` are one address."""
    return bool(one) and _parts(one) == _parts(other)


def _parts(address: str) -> tuple[int, ...]:
    try:
        return tuple(int(part, 16) for part in address.split(".")[0].split(":"))
    except ValueError:
        return ()
