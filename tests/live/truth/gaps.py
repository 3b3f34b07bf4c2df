"""Gaps in observation, in the middle of silences healthy and hung: the way to the host is lost for a minute, and the
monitor itself is suspended. Nothing may be alarmed by it, and what was not observed must not count."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.live.truth.cases import GRAVE, server
from tests.live.truth.launching import Job, Stage
from tests.live.truth.monitor import session
from tests.sshd import SshdFarm
from tui.collect.ssh import SshChannel, SshPool

QUIET_BEFORE_S = 8.0
"""So long the silence lasts before the gap begins."""

QUIET_AFTER_S = 12.0
"""So long it goes on after the gap; both together are less than any stall needs to be suspect."""

SUSPECT_S = (32.0, 60.0)
"""Seconds of observed quiet within which a hang after the last shard must become suspect."""


@dataclass
class Gap:
    """Three jobs through one gap: ``paused`` waits asleep and goes on afterwards, ``slow`` reads all the time, ``hung``
    is hung from before the gap. ``told``: what the monitor told, in its order; ``went``: when the paused went on."""

    name: str
    paused: Job
    slow: Job
    hung: Job
    told: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    began: float = 0.0
    ended: float = 0.0
    live: float = 0.0
    """When the host was heard again."""
    went: float = 0.0

    def of(self, job: Job, since: float = 0.0) -> list[dict[str, Any]]:
        return [row for row in self.told if row["pid"] == job.pid and row["t"] >= since]

    def grave(self, job: Job) -> list[dict[str, Any]]:
        return [row for row in self.of(job) if row["id"] in GRAVE]

    def heard_since(self, t: float) -> bool:
        states = [row for row in self.told if row["pid"] == 0]
        return bool(states) and states[-1]["state"] == "live" and any(row["t"] > t for row in self.of(self.slow))


def _jobs(stage: Stage, name: str) -> Gap:
    ways = {"paused": "pause", "slow": "slow", "hung": "fork"}
    return Gap(name, **{key: server(stage, f"{name}-{key}", fault, 3) for key, fault in ways.items()})


async def _through(gap: Gap, begin: Callable[[], None], seconds: float, end: Callable[[], None]) -> Gap:
    """Begin the gap when all three have been silent for a while, end it, let the paused go on, see the hang called."""
    await _until(lambda: all(job.fault_t() is not None for job in (gap.paused, gap.slow, gap.hung)), 60.0)
    await asyncio.sleep(QUIET_BEFORE_S)
    gap.began = time.monotonic()
    begin()
    await asyncio.sleep(seconds)
    end()
    gap.ended = time.monotonic()
    await _until(lambda: gap.heard_since(gap.ended), 45.0)
    gap.live = time.monotonic()
    await asyncio.sleep(QUIET_AFTER_S)
    gap.went = time.monotonic()
    gap.paused.say_go()
    await _until(lambda: bool(gap.grave(gap.hung)), SUSPECT_S[1])
    return gap


async def _until(holds: Callable[[], bool], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not holds() and time.monotonic() < until:
        await asyncio.sleep(0.2)
    return holds()


async def sshd_killed(stage: Stage, farm: SshdFarm) -> Gap:
    """The daemon and its connections are killed, and started again a minute later."""
    host = farm.add("here")
    gap = _jobs(stage, "sshd-killed")
    pids = [job.pid for job in (gap.paused, gap.slow, gap.hung)]
    live = session(pids, SshChannel("here", SshPool([farm.config])), gap.told.append)
    try:
        return await _through(gap, host.stop, 60.0, host.start)
    finally:
        await live.stop()


async def monitor_suspended(stage: Stage) -> Gap:
    """The monitor's process is stopped for ninety seconds, as when its machine sleeps."""
    gap = _jobs(stage, "monitor-suspended")
    pids = [str(job.pid) for job in (gap.paused, gap.slow, gap.hung)]
    folder = gap.slow.folder
    output = (folder / "told").open("ab")
    with output:
        command = [sys.executable, "-m", "tests.live.truth.monitor", *pids]
        monitor = stage.start(folder, command, out=output.fileno())

    async def read() -> None:
        with (folder / "told").open() as file:
            rest = ""
            while True:
                *lines, rest = (rest + file.read()).split("\n")
                gap.told += [json.loads(line) for line in lines if line.startswith("{")]
                await asyncio.sleep(0.2)

    reading = asyncio.ensure_future(read())
    try:
        return await _through(
            gap, lambda: monitor.send_signal(signal.SIGSTOP), 90.0, lambda: monitor.send_signal(signal.SIGCONT)
        )
    finally:
        reading.cancel()
        monitor.kill()


def faults(gap: Gap) -> list[str]:
    """What is wrong with what was told through a gap."""
    wrong: list[str] = []
    for name, job in (("paused", gap.paused), ("slow", gap.slow)):
        wrong += [
            f"{name}: {row['id']} {row['cause']} {row['t'] - gap.began:+.0f} s: {row['why']}" for row in gap.grave(job)
        ]
    if not gap.ended or not gap.heard_since(gap.ended):
        return [*wrong, "the host was not heard again"]
    after = gap.of(gap.slow, gap.live + 15.0)
    if not after or after[-1]["id"] != "slow" or after[-1]["still_s"] > 12.0:
        wrong.append(f"slow: afterwards {after[-1:]}")
    moved = [row for row in gap.of(gap.paused, gap.went) if row["id"] in ("progressing", "ready")]
    if not moved or moved[0]["t"] - gap.went > 12.0:
        wrong.append(f"paused: it went on and was {gap.of(gap.paused)[-1:]}")
    begun = gap.paused.fault_t() or 0.0
    for row in gap.of(gap.paused, gap.live + 1.0):
        if row["t"] < gap.went and row["silent_s"] is not None and abs(row["silent_s"] - (row["t"] - begun)) > 5.0:
            wrong.append(f"paused: silent for {row['silent_s']:.0f} s, not {row['t'] - begun:.0f} s")
    grave = gap.grave(gap.hung)
    unseen = gap.live - gap.began
    first = grave[0]["t"] - (gap.hung.fault_t() or 0.0) - unseen if grave else None
    if first is None or not SUSPECT_S[0] - 12.0 <= first <= SUSPECT_S[1]:
        wrong.append(f"hung: suspect after {first} s of observed quiet: {gap.of(gap.hung)[-1:]}")
    return wrong


def text(gap: Gap) -> str:
    """The course of a gap, for people; seconds count from its beginning."""
    names = {gap.paused.pid: "paused", gap.slow.pid: "slow", gap.hung.pid: "hung", 0: "host"}
    ended, live, went = (t - gap.began for t in (gap.ended, gap.live, gap.went))
    lines = [f"== {gap.name}: unseen until {ended:.0f} s, heard again at {live:.0f} s, went on at {went:.0f} s"]
    last: dict[int, object] = {}
    for row in gap.told:
        word = (row.get("id", row.get("state")), row.get("cause"))
        if last.get(row["pid"]) != word:
            last[row["pid"]] = word
            said = f"{names[row['pid']]:7} {word[0]} {word[1] or ''} {str(row['why'])[:150]}"
            lines.append(f"  {row['t'] - gap.began:+7.1f} s {said}")
    lines += [f"  WRONG: {wrong}" for wrong in faults(gap)]
    return "\n".join(lines)
