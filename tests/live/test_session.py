"""The session over the real agent on this machine: what it follows, what it shows, and that it ends."""

from __future__ import annotations

import asyncio
import glob
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tui.collect.local import LocalChannel
from tui.model import LogView, Snapshot
from tui.safetext import clean
from tui.session.live import LiveSession
from tui.session.plan import Plan


class Watched:
    def __init__(self, session: LiveSession) -> None:
        self.session = session
        self.snapshots: list[Snapshot] = []

    async def until(self, holds: Callable[[Snapshot], bool], timeout_s: float = 10.0) -> Snapshot:
        deadline = time.monotonic() + timeout_s
        while not self.snapshots or not holds(self.snapshots[-1]):
            assert time.monotonic() < deadline, self.snapshots[-1:] and self.snapshots[-1].launches
            await asyncio.sleep(0.05)
        return self.snapshots[-1]


@asynccontextmanager
async def watching(**plan: object) -> AsyncGenerator[Watched]:
    session = LiveSession(Plan(channels=(("here", LocalChannel()),), **plan))  # type: ignore[arg-type]
    watched = Watched(session)
    session.start(watched.snapshots.append)
    try:
        yield watched
    finally:
        await session.stop()


def logs(snapshot: Snapshot) -> list[LogView]:
    return [log for view in snapshot.launches for log in view.logs]


def tails(snapshot: Snapshot) -> dict[str, list[str]]:
    return {log.path: [line.text for line in log.tail] for log in logs(snapshot)}


def states(snapshot: Snapshot, pids: set[int]) -> list[str]:
    return [p.state for view in snapshot.launches for p in view.processes if p.pid in pids]


async def test_a_pattern_follows_the_newest_file(tmp_path: Path) -> None:
    """A log named by a pattern needs no process, and a newer file takes the older one's place."""
    (tmp_path / "run-1.log").write_text("the old run\n")
    os.utime(tmp_path / "run-1.log", (1, 1))
    (tmp_path / "run-2.log").write_text("the second run\n")
    async with watching(logs=((None, str(tmp_path / "run-*.log")),), pids=((None, 2**22 + 1),)) as watched:
        shown = await watched.until(lambda s: any(log.tail for log in logs(s)))
        assert [(log.path, log.tail[-1].text) for log in logs(shown)] == [
            (str(tmp_path / "run-2.log"), "the second run")
        ]
        (tmp_path / "run-3.log").write_text("the third run\n")
        shown = await watched.until(lambda s: any("third" in log.tail[-1].text for log in logs(s) if log.tail), 20)
        assert [log.path for log in logs(shown)] == [str(tmp_path / "run-3.log")]


async def test_a_log_that_is_not_there_says_so(tmp_path: Path) -> None:
    async with watching(logs=((None, str(tmp_path / "absent.log")),), pids=((None, 2**22 + 1),)) as watched:
        shown = await watched.until(lambda s: any(log.error for log in logs(s)))
        assert logs(shown)[0].size is None


STRANGE = b"step \x1b[31m\x07 [1] \xff\xd8\xaa.log"
"""The name of a file, as nobody should have to see it."""


async def test_a_log_is_read_whatever_its_path_holds(tmp_path: Path) -> None:
    """Found where a rank writes: control characters and what is no UTF-8 are for the host, and never shown."""
    path = os.fsencode(tmp_path) + b"/" + STRANGE
    code = "import sys, time; print('step', flush=True, file=sys.stderr); time.sleep(60)"
    env = {**os.environ, "RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "h", "MASTER_PORT": "4243"}
    with open(path, "wb") as out:  # noqa: PTH123  (bytes)
        rank = subprocess.Popen([sys.executable, "-c", code], stdout=out, stderr=out, env=env)
    try:
        async with watching() as watched:
            shown = await watched.until(lambda s: any(log.tail and log.path == clean(path) for log in logs(s)))
            (log,) = (log for log in logs(shown) if log.path == clean(path))
            assert log.tail[-1].text == "step" and log.path.isprintable() and not log.error
    finally:
        rank.kill()
        rank.wait()


@pytest.mark.parametrize("named", [glob.escape(STRANGE), b"step *.log"], ids=["by its path", "by a pattern"])
async def test_a_log_is_read_whatever_the_path_that_is_asked_for(tmp_path: Path, named: bytes) -> None:
    path = os.fsencode(tmp_path) + b"/" + STRANGE
    with open(path, "wb") as out:  # noqa: PTH123  (bytes)
        out.write(b"a line\n")
    asked = f"{tmp_path}/{os.fsdecode(named)}"
    async with watching(logs=((None, asked),), pids=((None, 2**22 + 1),)) as watched:
        shown = await watched.until(lambda s: any(log.tail for log in logs(s)), 20)
        assert [(log.path, log.tail[-1].text) for log in logs(shown)] == [(clean(path), "a line")]


async def test_a_launch_of_two_ranks_is_found_and_its_log_with_it(tmp_path: Path) -> None:
    """Nothing but the host is given: ranks come from the environment, the log from where standard error leads."""
    log = tmp_path / "train.log"
    code = "import sys, time; print('step', flush=True, file=sys.stderr); time.sleep(60)"
    with log.open("w") as out:
        ranks = [
            subprocess.Popen(
                [sys.executable, "-c", code],
                stdout=out,
                stderr=out,
                env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "h", "MASTER_PORT": "4242"},
            )
            for rank in range(2)
        ]
    pids = {rank.pid for rank in ranks}
    try:
        async with watching() as watched:
            shown = await watched.until(lambda s: len(tails(s).get(str(log), ())) == 2)
            view = next(v for v in shown.launches if pids <= {p.pid for p in v.processes})
            assert [(p.rank, p.state) for p in view.processes if p.pid in pids] == [(0, "S"), (1, "S")]
            ranks[1].kill()
            ranks[1].wait()
            shown = await watched.until(lambda s: states(s, pids) == ["S", "gone"])
            view = next(v for v in shown.launches if pids <= {p.pid for p in v.processes})
            await watched.until(lambda s: [v.verdict.alive for v in s.launches if v.launch.id == view.launch.id] == [1])
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


async def test_stopping_leaves_no_agent() -> None:
    async with watching() as watched:
        await watched.until(lambda s: s.hosts[0].sample is not None)
        children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
        agents = [pid for pid in children if b"zlib.decompress" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        assert agents
    assert not [pid for pid in agents if Path(f"/proc/{pid}").exists()]


async def test_no_marker_is_lost_in_a_flood_and_what_is_skipped_is_counted(tmp_path: Path) -> None:
    """20 MB within a tick: the agent filters by this session's own patterns, and the phase is right."""
    path = tmp_path / "flood.log"
    path.write_text("[2026-02-22 11:42:09] server_args=ServerArgs(tp_size=1)\n")
    noise = b"[2026-02-22 11:42:10] Decode batch. #running-req: 12, gen throughput (token/s): 812.21\n" * 100_000
    async with watching(logs=((None, str(path)),), pids=((None, 2**22 + 1),)) as watched:
        await watched.until(lambda s: any(log.tail for log in logs(s)))
        with path.open("ab") as file:
            file.write(noise + b"[2026-02-22 11:42:27] Load weight begin. avail mem=138.28 GB\n" + noise)
        shown = await watched.until(lambda s: any(log.skipped_bytes for log in logs(s)))
        (view,) = shown.launches
        assert [span.phase for span in view.spans][-2:] == ["spawn", "weight_load"]
        assert view.logs[0].skipped_bytes > 15_000_000
