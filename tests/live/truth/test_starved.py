"""A host so busy that the agent hardly gets a core: nobody is alarmed, and afterwards the timers are right."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.truth.cases import GRAVE, server
from tests.live.truth.launching import Stage
from tests.live.truth.monitor import session
from tui.collect.local import LocalChannel

BUSY = 16
STARVED_S = 40.0
"""Longer than any of these silences needs to be suspect where nothing moves."""

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="watched hosts are Linux")


async def test_an_agent_starved_by_sixteen_busy_processes_alarms_nobody(tmp_path: Path) -> None:
    """One job computes on what is left of a core, one reads slowly: both are silent, and healthy, all the time."""
    stage = Stage(tmp_path)
    told: list[dict[str, object]] = []
    try:
        jobs = {name: server(stage, name, name, 2) for name in ("slow", "compute")}
        live = session([job.pid for job in jobs.values()], LocalChannel(), told.append)
        try:
            for _ in range(300):
                await asyncio.sleep(0.1)
                if all(job.fault_t() is not None for job in jobs.values()):
                    break
            await asyncio.sleep(5.0)
            hogs = [
                stage.start(tmp_path, [sys.executable, "-c", "while True: pass"], out=subprocess.DEVNULL)
                for _ in range(max(BUSY, 4 * (os.cpu_count() or 1)))
            ]
            await asyncio.sleep(STARVED_S)
            for hog in hogs:
                hog.kill()
                hog.wait()
            await asyncio.sleep(12.0)
        finally:
            await live.stop()
    finally:
        stage.stop()
    for name, job in jobs.items():
        rows = [row for row in told if row["pid"] == job.pid]
        assert not [row for row in rows if row["id"] in GRAVE], name
        last = rows[-1]
        assert last["id"] == "slow", (name, last)
        assert isinstance(last["still_s"], float) and last["still_s"] < 12.0, (name, last)
