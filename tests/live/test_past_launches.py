"""Ten real launches teach the eleventh what is usual, whoever watches; one that hangs and one that dies do not."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live.test_session import watching
from tui.model import LaunchView, Snapshot
from tui.ui.lines import plain
from tui.ui.view import View
from tui.ui.widgets.phases import paint_phases

SCRIPT = Path(__file__).parent / "start_up.py"
GOOD = 10


@contextmanager
def launches(folder: Path, *ends: str, first_port: int) -> Iterator[set[int]]:
    """One launch for each of ``ends``, side by side; gives their pids.

    A shell starts each and ends: with the test for their parent, they would pass for the ranks of one launch.
    """
    pids: set[int] = set()
    try:
        for n, how in enumerate(ends):
            rank = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(first_port + n)}
            words = [sys.executable, str(SCRIPT), how, str(3.0 + 0.2 * n)]
            start = f"{shlex.join(words)} >{shlex.quote(str(folder))}/{first_port + n}.log 2>&1 & echo $!"
            said = subprocess.run(["sh", "-c", start], stdout=subprocess.PIPE, check=True, env={**os.environ, **rank})
            pids.add(int(said.stdout))
        yield pids
    finally:
        for pid in pids:
            if f"{SCRIPT}".encode() in _command(pid):
                os.kill(pid, signal.SIGKILL)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def of(snapshot: Snapshot, pids: set[int]) -> list[LaunchView]:
    return [view for view in snapshot.launches if any(process.pid in pids for process in view.processes)]


def kept(state: Path) -> list[tuple[str, int, float, float]]:
    """(phase, launches, shortest, longest) of this test's own launches; others may run on the machine."""
    rows = "SELECT phase, count(DISTINCT key), min(seconds), max(seconds) FROM phase JOIN launch ON launch.id = launch"
    with sqlite3.connect(state / "gputop-hang" / "launches.sqlite") as base:
        return base.execute(f"{rows} WHERE model = 'start_up.py' GROUP BY phase").fetchall()


async def test_ten_launches_tell_the_eleventh_what_is_usual(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through two live monitors at once: each launch counts once."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with watching() as watched, watching() as other:
        await watched.until(lambda s: s.hosts[0].sample is not None)
        with launches(tmp_path, *["ready"] * GOOD, "hangs", "dies", first_port=29600) as pids:

            def ready(snapshot: Snapshot) -> bool:
                return [view.verdict.id for view in of(snapshot, pids)].count("ready") == GOOD

            await watched.until(ready, 60)
            await other.until(ready, 60)
            await watched.until(lambda s: "crashed" in {view.verdict.id for view in of(s, pids)}, 60)
            await asyncio.sleep(1.5)
    assert {(phase, launches) for phase, launches, _, _ in kept(tmp_path)} >= {("weight_load", GOOD)}
    assert max(count for _, count, _, _ in kept(tmp_path)) == GOOD, "none of the two others, and none twice"
    (low, high) = next((low, high) for phase, _, low, high in kept(tmp_path) if phase == "weight_load")
    assert 1.5 < low < high < 9, "three to five seconds, seen once a second"

    async with watching() as watched:
        await watched.until(lambda s: s.hosts[0].sample is not None)
        with launches(tmp_path, "hangs", first_port=29700) as pids:
            phase = "weight_load"
            told = await watched.until(
                lambda s: any(v.verdict.phase == phase and v.usual_at(s.t) for v in of(s, pids)), 30
            )
            (view,) = of(told, pids)
            for width, height in ((116, 4), (76, 2), (44, 3)):
                bar = "\n".join(plain(row) for row in paint_phases(View(told, view), width, height))
                assert "usually " in bar and "(10 launches)" in bar, bar
