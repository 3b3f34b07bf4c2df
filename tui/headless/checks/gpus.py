"""GPUs before a start: memory that nobody will free, errors that wait for a reset, modes that refuse a launch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tui.headless.checks.finding import Finding, Seen, counted, gpus_named
from tui.headless.checks.memory import memory
from tui.headless.checks.xids import xids
from tui.untyped import integer, listed, mapped, number, text

RESET = "Reset it while no process uses it; a reboot does it, too:"
RECOVERY = {
    1: ("a reset", RESET),
    2: ("a reboot of the host", "Drain the host and reboot it."),
    3: ("its peer-to-peer traffic to be drained", "End what runs on this host; then reset all its GPUs."),
    4: ("to be drained and reset", "End what runs on it; then reset it:"),
    5: ("its IMEX domain to be recovered", "Restart nvidia-imex on all nodes of the domain."),
    6: ("a reset of its bus", "Drain the host and reboot it."),
    7: ("a reboot of the host", "Drain the host and reboot it."),
}
"""NVML_GPU_RECOVERY_ACTION_* (nvml.h)."""

SLOWED = {
    "hw_thermal": "it is too hot and slowed down by the hardware",
    "hw_power_brake": "its power supply slows it down (power brake)",
    "hw_slowdown": "the hardware slows it down",
    "sw_thermal": "it is too hot and slowed down by the driver",
}
IDLE_PCT = 5.0

NOT_STARTED, IN_PROGRESS, COMPLETED = 1, 2, 3
"""NVML_GPU_FABRIC_STATE_*."""

PROHIBITED, EXCLUSIVE = 2, 3
"""NVML_COMPUTEMODE_*."""


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU: its row as in a tick, and its health (empty where it was not told)."""

    index: int
    row: Mapping[str, Any]
    health: Mapping[str, Any]


def cards(seen: Seen) -> list[Card]:
    answer = seen.answer("gpu_health")
    told = mapped(mapped(answer.get("health")).get("gpus"))
    rows = [(integer(row.get("index")), row) for row in map(mapped, listed(answer.get("gpus")))]
    return [Card(index, row, mapped(told.get(str(index)))) for index, row in rows if index is not None]


def gpus(seen: Seen) -> Iterator[Finding]:
    all_cards = cards(seen)
    if not all_cards:
        return
    yield from memory(seen, [(card.index, card.row) for card in all_cards])
    why = text(seen.answer("gpu_health").get("why"))
    if why:
        do = "See what the kernel says of it:"
        yield Finding(
            "problem", f"errors, modes and links were not read: {why}", do, "sudo dmesg | grep -iE 'nvrm|xid'"
        )
    readable = [card for card in all_cards if card.health]
    bad = [*_errors(readable), *xids(seen, {card.index: text(card.health.get("bus")) or "" for card in readable})]
    yield from bad
    yield from _errors_told(readable, fine=not bad)
    yield from _fabric(seen, readable)
    yield from _modes(readable)
    yield from _slowed(readable)


def _errors(readable: list[Card]) -> Iterator[Finding]:
    """What the driver itself says is broken or waits for a reset."""
    for index in _where(readable, "remap_failed"):
        yield Finding(
            "problem",
            f"GPU {index}: a faulty row of its memory could not be remapped",
            "Take it out of use and have it replaced; for the report:",
            f"nvidia-smi -q -d ROW_REMAPPER,ECC -i {index}",
        )
    for key, what in (("remap_pending", "a remap of a faulty memory row"), ("pages_pending", "a retirement of a page")):
        for index in _where(readable, key):
            yield Finding("problem", f"GPU {index}: {what} waits for a reset", RESET, _reset(index))
    for card in readable:
        errors, action = integer(card.health.get("ecc_errors")), integer(card.health.get("recovery"))
        if errors:
            yield Finding(
                "problem",
                f"GPU {card.index}: {counted(errors, 'uncorrectable memory error')} since the driver was loaded",
                "Reset it; have it replaced if they come back:",
                _reset(card.index),
            )
        if action:
            needs, do = RECOVERY.get(action, (f"recovery action {action}", "See nvidia-smi -q."))
            command = _reset(card.index) if do.endswith(":") else ""
            yield Finding("problem", f"GPU {card.index}: the driver says that it needs {needs}", do, command)


def _errors_told(readable: list[Card], fine: bool) -> Iterator[Finding]:
    """What was looked for in vain, and what could not be looked for."""
    names = {"remap_pending": "row remap that waits", "ecc_errors": "uncorrectable memory error"}
    told = [f"no {what}" for key, what in names.items() if all(c.health.get(key) is not None for c in readable)]
    if told and readable and fine:
        yield Finding("ok", f"{gpus_named(c.index for c in readable)}: {', '.join(told)}")
    for key, what in names.items():
        untold = [card.index for card in readable if card.health.get(key) is None]
        if untold:
            yield Finding("unknown", f"{gpus_named(untold)}: whether there is a {what}: not told by this GPU or driver")


def _fabric(seen: Seen, readable: list[Card]) -> Iterator[Finding]:
    """NVSwitch systems: without their fabric a start ends in, or waits at, CUDA error 802."""
    states: dict[tuple[int, int], list[int]] = {}
    for card in readable:
        match listed(card.health.get("fabric")):
            case [int() as state, int() as status] if state:
                states.setdefault((state, status), []).append(card.index)
            case _:
                pass
    manager = listed(seen.answer("host").get("fabric_manager"))
    runs = f"nv-fabricmanager runs, pid {manager[0]}" if manager else "nv-fabricmanager is not seen to run"
    for (state, status), indices in states.items():
        who = gpus_named(indices)
        if state == COMPLETED and status == 0:
            yield Finding("ok", f"{who}: registered with the NVLink fabric")
        elif state == COMPLETED:
            yield Finding("problem", f"{who}: the NVLink fabric refused it (NVML error {status}); {runs}", *_FABRIC)
        elif state == IN_PROGRESS:
            yield Finding("problem", f"{who}: registration with the NVLink fabric is not done yet; {runs}", *_FABRIC)
        else:
            yield Finding("problem", f"{who}: not registered with the NVLink fabric; {runs}", *_FABRIC)
    switches = integer(seen.answer("host").get("nvswitches"))
    if switches and not manager and not states and not seen.container:
        yield Finding("problem", f"{switches} NVSwitches and no nv-fabricmanager that runs", *_FABRIC)


_FABRIC = (
    "CUDA does not start without it (error 802); start it and see what it says:",
    "sudo systemctl restart nvidia-fabricmanager; systemctl status nvidia-fabricmanager",
)


def _modes(readable: list[Card]) -> Iterator[Finding]:
    prohibited = [c.index for c in readable if c.health.get("compute_mode") == PROHIBITED]
    exclusive = [c.index for c in readable if c.health.get("compute_mode") == EXCLUSIVE]
    if prohibited:
        command = f"sudo nvidia-smi -c DEFAULT -i {_listed(prohibited)}"
        yield Finding("problem", f"{gpus_named(prohibited)}: compute mode forbids all work", "Allow it:", command)
    if exclusive:
        yield Finding(
            "note",
            f"{gpus_named(exclusive)}: compute mode is exclusive, a second process on the same GPU is refused",
            "Allow several, unless one process a GPU is what you want:",
            f"sudo nvidia-smi -c DEFAULT -i {_listed(exclusive)}",
        )
    parted = [c.index for c in readable if c.health.get("mig_mode") == 1]
    changing = [c.index for c in readable if c.health.get("mig_mode") != c.health.get("mig_pending")]
    if changing:
        yield Finding(
            "problem", f"{gpus_named(changing)}: a change of MIG mode waits for a reset", RESET, _reset(*changing)
        )
    if parted:
        yield Finding(
            "note",
            f"{gpus_named(parted)}: split by MIG; a launch gets the parts in CUDA_VISIBLE_DEVICES, without NVLink",
            "See the parts:",
            "nvidia-smi -L",
        )
    volatile = [c.index for c in readable if c.health.get("persistence") == 0]
    if volatile:
        yield Finding(
            "note",
            f"{gpus_named(volatile)}: persistence mode is off; every start initialises the driver anew (seconds a GPU)",
            "Keep it loaded:",
            "sudo nvidia-smi -pm 1",
        )


def _slowed(readable: list[Card]) -> Iterator[Finding]:
    """Reasons to run slowly that are there without any load."""
    idle = [card for card in readable if (number(card.row.get("util_pct")) or 0.0) <= IDLE_PCT]
    reasons = {card.index: [name for name in SLOWED if name in listed(card.row.get("throttle"))] for card in idle}
    for name, what in SLOWED.items():  # each GPU by its most particular reason
        indices = [index for index, names in reasons.items() if names[:1] == [name]]
        if indices:
            yield Finding(
                "problem",
                f"{gpus_named(indices)}: {what}, and that without load",
                "Look at cooling and power supply, then at:",
                f"nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER -i {_listed(indices)}",
            )


def _where(readable: Iterable[Card], key: str) -> list[int]:
    return [card.index for card in readable if integer(card.health.get(key))]


def _listed(indices: Iterable[int]) -> str:
    return ",".join(map(str, indices))


def _reset(*indices: int) -> str:
    return f"sudo nvidia-smi --gpu-reset -i {_listed(indices)}"
