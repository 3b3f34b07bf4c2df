"""``snapshot``: look at all hosts for a few seconds and print what is seen and what is thought of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timezone
from typing import Any, Literal

from tui.errors import Exit
from tui.headless.verdict_json import row
from tui.model import Gpu, HostView, LaunchView, LogView, ProcView, Snapshot
from tui.session.live import LiveSession
from tui.session.plan import Plan

LOOK_S = 2.2
"""So long each host is looked at: its launches are found in the first sample and read from the second on, and a rate
needs two of those."""

DEADLINE_S = 3.3
"""A host that has not shown enough by then is printed as it is."""

Form = Literal["text", "json", "markdown"]


def run(plan: Plan, *, form: Form) -> Exit:
    """Print one snapshot; the exit code tells the gravest verdict, that no host was reached, or that
    nothing there is what was asked for."""
    plan.start_local()
    snapshot = asyncio.run(_look(plan))
    if form == "json":
        print(json.dumps(as_json(snapshot), ensure_ascii=False))
    else:
        from tui.headless.snapshot_text import write

        write(snapshot, markdown=form == "markdown")
    return exit_code(snapshot, named=bool(plan.pids or plan.ports))


async def _look(plan: Plan) -> Snapshot:
    async with watched(plan) as session:
        return session.snapshot()


@asynccontextmanager
async def watched(plan: Plan) -> AsyncGenerator[LiveSession]:
    """A session whose hosts have each been looked at for :data:`LOOK_S`, or not within :data:`DEADLINE_S`."""
    session = LiveSession(plan)
    first: dict[str, float] = {}
    enough = asyncio.Event()

    def post(snapshot: Snapshot) -> None:
        for host in snapshot.hosts:
            if host.sample is not None:
                first.setdefault(host.name, host.sample.t)
        if all(host.state in ("failed", "lost") or _seen_s(host, first) >= LOOK_S for host in snapshot.hosts):
            enough.set()

    session.start(post)
    try:
        asyncio.get_running_loop().call_later(DEADLINE_S, enough.set)
        await enough.wait()
        yield session
    finally:
        await session.stop()


def _seen_s(host: HostView, first: Mapping[str, float]) -> float:
    return 0.0 if host.sample is None else host.sample.t - first[host.name]


def exit_code(snapshot: Snapshot, *, named: bool = False) -> Exit:
    """``named``: only launches with certain processes were asked for, and to find none is an answer of its own."""
    if not any(host.sample is not None for host in snapshot.hosts):
        return Exit.NO_HOST
    if named and not snapshot.launches:
        return Exit.NO_LAUNCH
    verdicts = {view.verdict.id for view in snapshot.launches}
    return Exit.CRASHED if "crashed" in verdicts else Exit.HUNG if "hung" in verdicts else Exit.READY


def as_json(snapshot: Snapshot) -> dict[str, Any]:
    """Version 1 of the snapshot's JSON: keys may be added, none renamed; null is unknown."""
    at = datetime.fromtimestamp(snapshot.wall, timezone.utc).isoformat(timespec="seconds")
    return {
        "v": 1,
        "taken_at": at,
        "hosts": [_host(host, snapshot.launches) for host in snapshot.hosts],
        "launches": [_launch(snapshot.t, at, view) for view in snapshot.launches],
    }


def _launch(t: float, at: str, view: LaunchView) -> dict[str, Any]:
    return row(t, at, view.launch, view.verdict, view.usual_at(t))


def _host(host: HostView, launches: Iterable[LaunchView]) -> dict[str, Any]:
    sample = host.sample
    error = host.reason if host.state != "live" else sample.gpu_error if sample else None
    return {
        "name": host.name,
        "reachable": sample is not None,
        "error": error,
        "clock_offset_s": host.clock_offset_s,
        "simulated": host.simulated,
        "gpus": None if sample is None or sample.gpus is None else [_gpu(gpu) for gpu in sample.gpus],
        "processes": [_process(p) for view in launches for p in view.processes if p.host == host.name],
        "logs": [_log(log, view) for view in launches for log in view.logs if log.host == host.name],
    }


def _gpu(gpu: Gpu) -> dict[str, Any]:
    plain = ("index", "uuid", "name", "util_pct", "mem_util_pct", "mem_used_mib", "mem_total_mib", "power_w")
    plain += ("power_limit_w", "temp_c", "sm_clock_mhz", "nvlink_mib_s", "pcie_rx_mib_s", "pcie_tx_mib_s")
    shown: dict[str, Any] = {key: getattr(gpu, key) for key in plain}
    return shown | {"xids": list(gpu.xids), "mig": list(gpu.mig), "throttle": list(gpu.throttle), "error": gpu.error}


def _process(process: ProcView) -> dict[str, Any]:
    plain = ("pid", "ppid", "launch", "rank", "role", "title", "state", "threads", "cpu_pct", "cpu_time_s", "rss_mib")
    shown: dict[str, Any] = {key: getattr(process, key) for key in (*plain, "read_mib_s", "wchan", "sigabrt")}
    return shown | {"start_time": process.start_ticks, "gpus": list(process.gpus)}


def _log(log: LogView, view: LaunchView) -> dict[str, Any]:
    return {
        "path": log.path,
        "launch": view.launch.id,
        "size": log.size,
        "lines": log.lines_total,
        "silent_s": log.silent_s,
        "last_line": log.tail[-1].text if log.tail else None,
        "error": log.error,
    }
