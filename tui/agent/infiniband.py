"""Ports of InfiniBand and RoCE cards: their state and counters. Their traffic passes no network counter."""

import os
import time

from . import procfs
from .procfs import text

FOLDER = "/sys/class/infiniband"
MOST_PORTS = 64

DATA_UNIT = 4
"""The data counters count words of four bytes (Documentation/ABI/stable/sysfs-class-infiniband)."""

ERRORS = ("link_downed", "link_error_recovery", "symbol_error", "port_rcv_errors", "local_link_integrity_errors")


def look(request: "dict[str, Any]") -> "dict[str, Any]":
    """``{"ports": [{"device", "port", "state", "physical", "rate", "rx_bytes", "tx_bytes", "errors"}], "mono"}``."""
    folder = str(request.get("folder") or FOLDER)
    ports: "list[dict[str, Any]]" = []
    for device in sorted(_listed(folder)):
        for port in sorted(_listed("%s/%s/ports" % (folder, device)))[: MOST_PORTS - len(ports)]:
            ports.append(_port("%s/%s/ports/%s/" % (folder, device, port), device, port))
    return {"ports": ports, "mono": round(time.monotonic(), 3)}


def _port(folder: str, device: str, port: str) -> "dict[str, Any]":
    counters = folder + "counters/"
    received, sent = _number(counters + "port_rcv_data"), _number(counters + "port_xmit_data")
    errors = {name: _number(counters + name) for name in ERRORS}
    return {
        "device": device,
        "port": port,
        "state": _word(folder + "state"),
        "physical": _word(folder + "phys_state"),
        "rate": _word(folder + "rate"),
        "rx_bytes": None if received is None else received * DATA_UNIT,
        "tx_bytes": None if sent is None else sent * DATA_UNIT,
        "errors": {name: count for name, count in errors.items() if count},
    }


def _listed(folder: str) -> "list[str]":
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _word(path: str) -> "str | None":
    """``4: ACTIVE`` is told as ``ACTIVE``."""
    try:
        return text(procfs.read(path)).strip().rpartition(": ")[2] or None
    except OSError:
        return None


def _number(path: str) -> "int | None":
    word = _word(path)
    return int(word) if word and word.isdigit() else None


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
