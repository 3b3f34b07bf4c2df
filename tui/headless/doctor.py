"""``doctor``: what will and will not work on a host, before it matters."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tui.collect.decode import integer, mapped
from tui.errors import Exit, HostError
from tui.headless.snapshot import watched
from tui.model import HostView, LaunchView, Sample
from tui.session.plan import Plan
from tui.stacks.sigabrt import SENTENCES

CAP_SYS_PTRACE = 1 << 19
"""capabilities(7)."""

SHM_ENOUGH = 1 << 30
"""Bytes. Docker gives a container 64 MB of ``/dev/shm`` unless told otherwise: too little for NCCL and DataLoader."""

OFFSET_SHOWN_S = 1.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: ``good`` works, ``bad`` will not, ``note`` is worth knowing."""

    mark: Literal["good", "bad", "note"]
    text: str


_MARKS = {"good": "  ok ", "bad": "  !! ", "note": "   · "}


def run(plan: Plan) -> Exit:
    """Print the findings of every host."""
    plan.start_local()
    return asyncio.run(_examine(plan))


async def _examine(plan: Plan) -> Exit:
    async with watched(plan) as session:
        snapshot = session.snapshot()
        looks = await asyncio.gather(*(_look(session.look(host.name, "doctor")) for host in snapshot.hosts))
    for host, look in zip(snapshot.hosts, looks, strict=True):
        print(host.name)
        for finding in (*examine(host, look), *launches(host, snapshot.launches)):
            print(_MARKS[finding.mark] + finding.text)
    return Exit.READY if any(host.sample for host in snapshot.hosts) else Exit.NO_HOST


async def _look(look: Any) -> Mapping[str, Any]:
    try:
        return await look
    except HostError:
        return {}


def examine(host: HostView, look: Mapping[str, Any]) -> Iterator[Finding]:
    """Findings on the host itself. ``look`` is the agent's answer to ``doctor``; what it lacks is not judged."""
    if host.sample is None:
        yield Finding("bad", host.reason or "no answer yet")
        return
    yield Finding("good", f"reached; the agent runs under Python {look.get('python') or 'of an unknown version'} there")
    if host.clock_offset_s is not None and abs(host.clock_offset_s) > OFFSET_SHOWN_S:
        yield Finding(
            "note", f"its clock is {host.clock_offset_s:+.1f} s from ours: stamps in its logs are off by that"
        )
    yield from _gpus(host.sample)
    if look:
        yield _tracing(look)
        yield _py_spy(look)
        yield from _shared_memory(look)


def _gpus(sample: Sample) -> Iterator[Finding]:
    if sample.gpus is None:
        yield Finding("bad", sample.gpu_error or "NVML has not answered yet")
        return
    where = " (SIMULATED)" if sample.simulated else ""
    yield Finding("good" if sample.gpus else "note", f"NVML answers: {len(sample.gpus)} GPUs{where}")
    for gpu in sample.gpus:
        if gpu.error:
            yield Finding("bad", f"GPU {gpu.index}: {gpu.error}")
        elif gpu.processes == () and (gpu.mem_used_mib or 0) > 2048:
            yield Finding("note", f"GPU {gpu.index}: {gpu.mem_used_mib:.0f} MiB in use and no process to be seen")


def _tracing(look: Mapping[str, Any]) -> Finding:
    """The rights that py-spy needs (ptrace(2), PTRACE_MODE_ATTACH; Documentation/admin-guide/LSM/Yama.rst)."""
    capable = int(str(look.get("cap_eff") or "0"), 16) & CAP_SYS_PTRACE
    if capable:
        return Finding("good", "stacks of any process can be taken (CAP_SYS_PTRACE)")
    scope = look.get("ptrace_scope")
    if scope in (None, "", "0"):
        return Finding("good", "stacks of this user's processes can be taken; others' need root")
    if scope == "3":
        return Finding("bad", "no stacks: kernel.yama.ptrace_scope is 3, which only a reboot can change")
    return Finding("bad", f"no stacks: kernel.yama.ptrace_scope is {scope}; watch as root, or set it to 0 with sysctl")


def _py_spy(look: Mapping[str, Any]) -> Finding:
    found = look.get("py_spy")
    return Finding("good", f"py-spy is there: {found}" if found else "py-spy is not there: ours is sent when needed")


def _shared_memory(look: Mapping[str, Any]) -> Iterator[Finding]:
    disk = mapped(mapped(look.get("disk")).get("/dev/shm"))
    free, total = integer(disk.get("free")), integer(disk.get("total"))
    if free is None or total is None:
        return
    said = f"/dev/shm: {free >> 20} of {total >> 20} MiB free"
    if free < SHM_ENOUGH:
        yield Finding("bad", f"{said}; NCCL and DataLoader workers need more (docker run --shm-size, --ipc=host)")
    else:
        yield Finding("good", said)


def launches(host: HostView, views: tuple[LaunchView, ...]) -> Iterator[Finding]:
    """Findings on the launches that have processes on this host."""
    mine = [view for view in views if host.name in view.launch.hosts]
    if host.sample is not None and not mine:
        yield Finding("note", "no launch runs there now")
    for view in mine:
        ranks = [process for process in view.processes if process.host == host.name and process.rank is not None]
        yield Finding("good", f"launch {view.launch.name}: {len(ranks)} ranks")
        logs = [log for log in view.logs if log.host == host.name]
        for log in logs:
            yield Finding("bad" if log.error else "good", f"log {log.path}" + (f": {log.error}" if log.error else ""))
        if not logs:
            yield Finding("note", "its log was not found (a terminal, or a pipe to nowhere): --log HOST:PATH names one")
        for effect in sorted({process.sigabrt for process in ranks if process.sigabrt}):
            count = sum(process.sigabrt == effect for process in ranks)
            yield Finding("note", f"SIGABRT: {count} of {len(ranks)} ranks: each {SENTENCES[effect]}")
