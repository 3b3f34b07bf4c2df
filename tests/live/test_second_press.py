"""Stacks asked for again, in the session as the interface drives it: then C frames follow, and it is said."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.live.test_session import watching
from tui.model import Dump, Snapshot

CODE = """
import threading
lock = threading.Lock()
lock.acquire()
def stuck_here(): lock.acquire()
print("ready", flush=True)
stuck_here()
"""


@pytest.fixture
def rank() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", CODE], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout and process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def last(snapshot: Snapshot) -> Dump:
    return snapshot.dumps[-1]


async def test_only_the_second_time_a_process_is_paused_and_that_is_said_first(rank: subprocess.Popen[str]) -> None:
    async with watching(pids=((None, rank.pid),)) as watched:
        shown = await watched.until(lambda s: any(p.pid == rank.pid for v in s.launches for p in v.processes))
        launch = next(v.launch.id for v in shown.launches if any(p.pid == rank.pid for p in v.processes))
        session = watched.session
        await session.take_stacks(launch)
        first = last(await watched.until(lambda s: bool(s.dumps) and last(s).done))
        await session.take_stacks(launch)
        second = last(await watched.until(lambda s: len(s.dumps) == 2 and last(s).done))
    assert [s.method for s in first.steps] == ["/proc", "py-spy", "/proc again", "py-spy again"]
    assert not first.native and not any("paused" in line for line in first.log)
    assert [s.method for s in second.steps] == [*(s.method for s in first.steps), "native stacks"]
    assert "native stacks will be taken last: each process is paused" in second.log[0]
    stuck = next(p for p in second.processes if p.pid == rank.pid)
    assert stuck.method == "py-spy --native"
    assert any("acquire_lock" in f.function for f in stuck.threads[0].frames)
    errors = dict(second.steps[-1].errors)
    assert errors.get(os.getpid(), "the monitor itself").endswith("the monitor itself"), "it never stops itself"
    assert os.getpid() not in {p.pid for p in second.native}
    assert first.evidence is not None and "thread_deadlock" in first.evidence["causes"]
