"""Links: NVLink between the GPUs, InfiniBand and RoCE ports, and what stands in the way of peer-to-peer over PCIe."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from tui.headless.checks.finding import Finding, Seen, counted, gpus_named, missing
from tui.headless.checks.gpus import Card, cards
from tui.untyped import integer, listed, mapped, text

_RATE = re.compile(r"[\d.]+")


def links(seen: Seen) -> Iterator[Finding]:
    readable = [card for card in cards(seen) if card.health]
    yield from _nvlink(readable)
    yield from missing(seen, "infiniband", "InfiniBand ports")
    yield from _infiniband(seen)
    yield from _pcie(seen, readable)


def _nvlink(readable: Sequence[Card]) -> Iterator[Finding]:
    active = {
        c.index: sum(state == 1 for state in listed(c.health.get("links"))) for c in readable if c.health.get("links")
    }
    if not active:
        if len(readable) > 1:
            yield Finding("note", "no NVLink: the GPUs reach each other over PCIe")
        return
    most = max(active.values())
    if most == 0:
        yield Finding(
            "problem",
            f"{gpus_named(active)}: every NVLink is inactive",
            "Without a bridge or NVSwitch that is right; else see the state and errors of each link:",
            "nvidia-smi nvlink --status; nvidia-smi nvlink -e",
        )
        return
    fewer = {index: count for index, count in active.items() if count < most}
    for index, count in fewer.items():
        yield Finding(
            "problem",
            f"GPU {index}: {count} of {most} NVLinks active, its peers have more",
            "See which ones are down and their errors; a reset of all GPUs trains them anew:",
            f"nvidia-smi nvlink --status -i {index}; nvidia-smi nvlink -e -i {index}",
        )
    whole = [index for index in active if index not in fewer]
    yield Finding("ok", f"{gpus_named(whole)}: {counted(most, 'NVLink')} active each")


def _infiniband(seen: Seen) -> Iterator[Finding]:
    ports = [mapped(port) for port in listed(seen.answer("infiniband").get("ports"))]
    up = [port for port in ports if text(port.get("state")) == "ACTIVE"]
    for port in ports:
        state, physical = text(port.get("state")) or "in an unknown state", text(port.get("physical")) or "unknown"
        if port not in up:
            yield Finding(
                "problem" if up else "note",
                f"{_name(port)}: {state}, physically {physical}",
                "Check its cable and switch port, or keep NCCL off it:",
                f"export NCCL_IB_HCA=^{text(port.get('device'))}",
            )
    usual = Counter(_speed(port) for port in up).most_common(1)
    for port in up:
        speed = _speed(port)
        if usual and speed < usual[0][0]:
            yield Finding(
                "problem",
                f"{_name(port)}: {text(port.get('rate'))}, its peers have {usual[0][0]:g} Gb/sec",
                "It slows down every collective that uses it. Check its cable, or keep NCCL off it:",
                f"export NCCL_IB_HCA=^{text(port.get('device'))}",
            )
        errors = mapped(port.get("errors"))
        downs = integer(errors.get("link_downed"))
        if downs:
            counter = f"{text(port.get('device'))}/ports/{text(port.get('port'))}/counters/link_downed"
            yield Finding(
                "note",
                f"{_name(port)}: its link went down {counted(downs, 'time')} since the driver was loaded",
                "See whether that goes on:",
                f"watch cat /sys/class/infiniband/{counter}",
            )
    if up:
        rates = sorted({text(port.get("rate")) or "rate unknown" for port in up})
        yield Finding("ok", f"{counted(len(up), 'InfiniBand or RoCE port')} active: {', '.join(rates)}")


def _name(port: dict[str, object]) -> str:
    return f"{text(port.get('device'))} port {text(port.get('port'))}"


def _speed(port: dict[str, object]) -> float:
    found = _RATE.match(text(port.get("rate")) or "")
    return float(found[0]) if found else 0.0


def _pcie(seen: Seen, readable: Sequence[Card]) -> Iterator[Finding]:
    """An IOMMU that translates makes peer-to-peer over PCIe slow, or makes it hang or give wrong data (NCCL user guide,
    "PCI Access Control Services"). NVLink does not pass there."""
    host = seen.answer("host")
    groups, words = integer(host.get("iommu_groups")), [text(word) or "" for word in listed(host.get("iommu"))]
    linked = any(1 in listed(card.health.get("links")) for card in readable)
    if len(readable) < 2 or linked or not groups or "iommu=pt" in words or seen.container:
        return
    said = f" ({' '.join(words)})" if words else ""
    yield Finding(
        "note",
        f"the IOMMU is on{said} and the GPUs have no NVLink: peer-to-peer over PCIe may hang or be slow",
        "If a start stops at its first collective, see whether it goes on without:",
        "export NCCL_P2P_DISABLE=1",
    )
