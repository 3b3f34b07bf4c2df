"""``doctor``: what will and will not work on a host, and what would spoil a launch before it starts.

Every host is looked at on its own, every part of a look in a process of its own there: what hangs costs its lines
alone, and all of it ends after :data:`DEADLINE_S`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from tui.errors import Exit, HostError
from tui.headless.checks.finding import Finding, Seen
from tui.headless.checks.gpus import gpus
from tui.headless.checks.links import links
from tui.headless.checks.machine import PORTS, machine
from tui.headless.checks.past import past
from tui.headless.checks.reach import reach
from tui.headless.checks.rights import rights
from tui.headless.checks.sheet import Sheet
from tui.headless.checks.xids import RECENT_S
from tui.headless.snapshot import watched
from tui.model import HostView, LaunchView
from tui.session.live import LiveSession
from tui.session.plan import Plan
from tui.untyped import integer, listed, mapped

DEADLINE_S = 8.0
"""From the start to the last answer; ending the connections may take another second."""

AFTER_PROCESSES_S = 1.0
"""What is left for the look at the processes that the driver names, once it has named them."""

LOOKS_AT_LEAST_S = 2.5
"""A host that answers too late for that is not looked at."""

SECTIONS: Final[tuple[tuple[str, Callable[[Seen], Iterator[Finding]]], ...]] = (
    ("Reach", reach),
    ("GPUs before a start", gpus),
    ("Links", links),
    ("Host", machine),
    ("Diagnosis rights", rights),
)


def run(plan: Plan) -> Exit:
    """Print the findings of every host. No host reached is the only failure: a finding is an answer."""
    plan.start_local()
    seen = asyncio.run(examine(plan, time.monotonic() + DEADLINE_S))
    sheet = Sheet()
    for one in seen:
        sheet.host(one.host.name, sections(one))
    if kept := past():
        sheet.host("this monitor", [("Past launches", kept)])
    return Exit.READY if any(one.host.sample for one in seen) else Exit.NO_HOST


def sections(seen: Seen) -> list[tuple[str, Sequence[Finding]]]:
    """All findings on one host; a host that was not reached has those on its reach alone."""
    return [
        (title, _checked(check, seen)) for title, check in SECTIONS if seen.host.sample is not None or check is reach
    ]


def _checked(check: Callable[[Seen], Iterator[Finding]], seen: Seen) -> list[Finding]:
    """What a section finds; a bug of ours costs the rest of that section alone."""
    findings: list[Finding] = []
    try:
        findings.extend(check(seen))
    except Exception as error:
        findings.append(Finding("unknown", f"the rest: a bug of ours: {error!r}"))
    return findings


async def examine(plan: Plan, until: float) -> list[Seen]:
    """Look at every host of the plan, all at once; done at ``until`` (:func:`time.monotonic`)."""
    async with watched(plan) as session:
        names = [host.name for host in session.snapshot().hosts]
        return list(await asyncio.gather(*(_one(session, name, until) for name in names)))


async def _one(session: LiveSession, name: str, until: float) -> Seen:
    """One host; one whose login is slow is waited for as long as a look at it can still be done."""
    while _connecting(session, name) and time.monotonic() < until - AFTER_PROCESSES_S - LOOKS_AT_LEAST_S:
        await asyncio.sleep(0.1)
    host = _host(session, name)
    if host.sample is None:
        return Seen(host)
    looks = _Looks(session, name)
    pids = _members(session, name)
    procs = [[pid, start] for pid, start in pids.items()]
    first = until - AFTER_PROCESSES_S
    await asyncio.gather(
        *(looks.take(part, "doctor", first, part=part) for part in ("rights", "host", "caches")),
        looks.take("disks", "doctor", first, part="disks", paths=["/dev/shm", "/tmp"]),
        looks.take("ports", "doctor", first, part="ports", ports=list(PORTS)),
        looks.take("locks", "doctor", first, part="locks", procs=procs),
        looks.take("surroundings", "doctor", first, part="surroundings", procs=procs),
        looks.take("kernel_log", "kernel_log", first, since_s=RECENT_S),
        looks.take("infiniband", "infiniband", first),
        looks.take("gpu_health", "gpu_health", first),
    )
    holders = sorted({*pids, *_gpu_pids(looks.answers.get("gpu_health", {}))})
    await looks.take("processes", "doctor", until, part="processes", pids=holders)
    snapshot = session.snapshot()
    views: tuple[LaunchView, ...] = tuple(view for view in snapshot.launches if name in view.launch.hosts)
    return Seen(_host(session, name), views, looks.answers, looks.failures)


class _Looks:
    """The answers of one host's agent, and why some did not come."""

    def __init__(self, session: LiveSession, host: str) -> None:
        self._session, self._host = session, host
        self.answers: dict[str, dict[str, Any]] = {}
        self.failures: dict[str, str] = {}

    async def take(self, key: str, what: str, until: float, **args: Any) -> None:
        left = max(0.1, until - time.monotonic())
        looking = asyncio.ensure_future(self._session.look(self._host, what, **args))
        await asyncio.wait([looking], timeout=left)
        if not looking.done():
            looking.cancel()
            self.failures[key] = f"no answer within {left:.0f} s; it hangs there, or the host is overloaded"
            return
        try:
            self.answers[key] = looking.result()
        except HostError as error:
            self.failures[key] = str(error).removeprefix(f"{self._host}: ")


def _host(session: LiveSession, name: str) -> HostView:
    return next(host for host in session.snapshot().hosts if host.name == name)


def _connecting(session: LiveSession, name: str) -> bool:
    host = _host(session, name)
    return host.sample is None and host.state == "connecting"


def _members(session: LiveSession, name: str) -> dict[int, int]:
    """Start times by pid of what belongs to launches there."""
    views: Iterable[LaunchView] = session.snapshot().launches
    return {p.pid: p.start_ticks for view in views for p in view.processes if p.host == name and p.state != "gone"}


def _gpu_pids(answer: dict[str, Any]) -> set[int]:
    rows = [mapped(row) for row in listed(answer.get("gpus"))]
    pids = [integer(next(iter(listed(item)), None)) for row in rows for item in listed(row.get("processes"))]
    return {pid for pid in pids if pid is not None}
