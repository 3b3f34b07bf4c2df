"""This machine is watched by the same agent, in a real subprocess: started early, never left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from tests.watching import Watcher, watched
from tui.collect.host import Host
from tui.collect.local import LocalChannel
from tui.errors import HostError

ROOT = Path(__file__).parents[2]


_before: set[psutil.Process] = set()


@pytest.fixture(autouse=True)
def _others() -> None:
    """What other tests have left to be waited for is not ours."""
    _before.clear()
    _before.update(psutil.Process().children(recursive=True))


def started_here() -> list[psutil.Process]:
    """The processes that this test has started and that are still there, zombies too."""
    return [process for process in psutil.Process().children(recursive=True) if process not in _before]


async def test_an_agent_started_before_the_loop_is_the_one_that_is_used():
    channel = LocalChannel()
    channel.start()
    channel.start()
    (early,) = started_here()
    watcher = Watcher()
    async with watched(watcher, here=channel) as hosts:
        await watcher.until(lambda: watcher.of("here"))
        assert watcher.hellos[0][1].pid == early.pid
        pong = await hosts["here"].request("ping")
        assert abs(pong["mono"] - time.monotonic()) < 0.5
        await watcher.until(lambda: hosts["here"].clock_offset_s is not None)
        assert abs(hosts["here"].clock_offset_s or 9) < 0.05
    assert not started_here()


async def test_samples_come_at_the_interval_that_was_asked_for():
    watcher = Watcher()
    host = Host("here", LocalChannel(), watcher, interval_s=0.2)
    task = asyncio.ensure_future(host.run())
    await watcher.until(lambda: watcher.of("here"))
    await asyncio.sleep(2.0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert 7 <= len(watcher.of("here")) <= 16


async def test_an_agent_that_hangs_is_stale_and_does_not_hold_up_the_end():
    watcher = Watcher()
    async with watched(watcher, here=LocalChannel()):
        await watcher.until(lambda: watcher.of("here"))
        (agent, *_) = [p for p in started_here() if p.pid == watcher.hellos[0][1].pid]
        agent.suspend()
        await watcher.until_state("here", "stale", 4.0)
        began = time.monotonic()
    assert time.monotonic() - began < 0.5
    assert not started_here()


async def test_a_killed_agent_is_named_by_its_signal_and_started_anew():
    watcher = Watcher()
    async with watched(watcher, here=LocalChannel()):
        await watcher.until(lambda: watcher.of("here"))
        os.kill(watcher.hellos[0][1].pid or 0, signal.SIGKILL)
        await watcher.until_state("here", "lost", 2.0)
        assert "The agent on here ended by SIGKILL. Trying again in" in watcher.reason("here")
        await watcher.until_state("here", "live", 4.0)
        assert watcher.hellos[1][1].pid != watcher.hellos[0][1].pid


async def test_a_monitor_that_stood_still_itself_does_not_call_its_hosts_stale():
    watcher = Watcher()
    async with watched(watcher, here=LocalChannel()):
        await watcher.until(lambda: len(watcher.of("here")) > 1)
        time.sleep(3.5)  # the loop is blocked, the agent is not
        await asyncio.sleep(1.0)
    assert [state for _, state, _, _ in watcher.states] == ["connecting", "live"]
    times = [sample.t for sample in watcher.of("here")]
    assert max(b - a for a, b in pairwise(times)) < 1.5


async def test_a_request_that_is_wrong_or_late_fails_with_a_sentence():
    watcher = Watcher()
    async with watched(watcher, here=LocalChannel()) as hosts:
        await watcher.until(lambda: watcher.of("here"))
        with pytest.raises(HostError, match=r"^here: .*dance"):
            await hosts["here"].request("dance")
        psutil.Process(watcher.hellos[0][1].pid).suspend()
        with pytest.raises(HostError, match=r"here did not answer the request “ping” within 0\.2 s"):
            await hosts["here"].request("ping", timeout=0.2)
    with pytest.raises(HostError, match="here is not connected"):
        await hosts["here"].request("ping")


def test_the_agent_is_gone_soon_after_its_monitor_was_killed():
    program = (
        "import asyncio\n"
        "from tests.watching import Watcher, watched\n"
        "from tui.collect.local import LocalChannel\n"
        "async def main():\n"
        "    watcher = Watcher()\n"
        "    async with watched(watcher, here=LocalChannel()):\n"
        "        await watcher.until(lambda: watcher.of('here'))\n"
        "        print(watcher.hellos[0][1].pid, flush=True)\n"
        "        await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True) as monitor:
        assert monitor.stdout is not None
        agent = int(monitor.stdout.readline())
        assert psutil.pid_exists(agent)
        monitor.kill()
    until = time.monotonic() + 3
    while psutil.pid_exists(agent) and time.monotonic() < until:
        time.sleep(0.02)
    assert not psutil.pid_exists(agent)


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("tui.collect.local", ["asyncio", "asyncssh", "textual", "psutil", "pynvml"]),
        ("tui.collect.host", ["asyncssh", "textual", "psutil", "pynvml", "rich"]),
        ("tui.collect.ssh", ["asyncssh", "textual", "psutil", "pynvml", "cryptography"]),
    ],
)
def test_what_is_imported_early_is_light(module: str, unwanted: list[str]):
    code = f"import sys, {module}; print([name for name in {unwanted!r} if name in sys.modules])"
    got = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert got.stdout.strip() == "[]"
