"""The ladder on real launches: eight ranks of PyTorch under ``torchrun`` over gloo, rank 5 stuck in a lock of its own
in one, leaving out a barrier in the other. Each source alone names it; nothing harms anybody; SIGABRT brings eight of
eight.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import need_torch
from tui.headless.dump_targets import Watched
from tui.model import Dump, ProcessStacks
from tui.session.capture import Capture
from tui.stacks import desync, flight
from tui.stacks.merge import merge

JOB = Path(__file__).with_name("gloo_job.py")
SIZE, ODD = 8, 5
START_S = 240.0
"""Sixteen imports of torch on two cores that others use too."""


class Job:
    def __init__(self, folder: Path, case: str) -> None:
        folder.mkdir()
        self.folder, self.case, self.log = folder, case, folder / "job.log"
        torchrun = [str(Path(sys.executable).with_name("torchrun")), "--standalone", "--nproc-per-node", str(SIZE)]
        env = {
            **os.environ,
            "PYTHONFAULTHANDLER": "1",
            "OMP_NUM_THREADS": "1",
            "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": f"{folder}/pipe",
            "TORCH_FR_DUMP_TEMP_FILE": f"{folder}/trace",
        }
        with self.log.open("ab") as out:
            self.torchrun = subprocess.Popen(
                [*torchrun, str(JOB), case, str(ODD), str(folder)], stdout=out, stderr=out, env=env
            )

    def wait(self) -> None:
        """Until every rank is about to hang, and then sleeps."""
        deadline = time.monotonic() + START_S
        while len(self.pids()) < SIZE or not all(p.status() == psutil.STATUS_SLEEPING for p in self.processes()):
            assert self.torchrun.poll() is None and time.monotonic() < deadline, self.log.read_text()[-3000:]
            time.sleep(0.1)
        time.sleep(0.5)

    def pids(self) -> list[int]:
        """In the order of their ranks."""
        written = [self.folder / f"rank{n}" for n in range(SIZE)]
        return [int(text) for path in written if path.exists() and (text := path.read_text())]

    def processes(self) -> list[psutil.Process]:
        return [psutil.Process(pid) for pid in self.pids()]

    def assert_untouched(self) -> None:
        assert all(p.status() == psutil.STATUS_SLEEPING for p in [*self.processes(), psutil.Process(self.torchrun.pid)])
        assert all("TracerPid:\t0" in Path(f"/proc/{pid}/status").read_text() for pid in self.pids())

    def end(self) -> None:
        for process in (
            psutil.Process(self.torchrun.pid).children(recursive=True) if self.torchrun.poll() is None else []
        ):
            process.kill()
        self.torchrun.kill()
        self.torchrun.wait()


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Job]]:
    """Both launches, started once: importing torch eight times is slow."""
    need_torch()
    folder = tmp_path_factory.mktemp("ladder")
    running: dict[str, Job] = {}
    try:
        for case in ("lock", "skip"):
            running[case] = Job(folder / case, case)
        for job in running.values():
            job.wait()
        yield running
    finally:
        for job in running.values():
            job.end()


class Taken:
    """What one dump showed, and when."""

    def __init__(self) -> None:
        self.shown: list[tuple[float, Dump]] = []

    async def take(self, job: Job, native: bool = False) -> Dump:
        async with Watched([(None, pid) for pid in job.pids()]) as watched:
            launch, failed = await watched.launch()
            assert not failed
            began = time.monotonic()
            capture = Capture(watched.hosts, lambda dump: self.shown.append((time.monotonic() - began, dump)))
            return await capture.stacks(launch, native=native)

    def all_named_after(self) -> float:
        """Seconds until the merged tree of all ranks stood there, with the odd one named."""
        return next(
            s
            for s, d in self.shown
            if d.merged and d.merged.odd_ranks == (ODD,) and sum(p.method == "py-spy" for p in d.processes) >= SIZE
        )


def ranks_of(dump: Dump) -> list[ProcessStacks]:
    return [p for p in dump.processes if p.rank is not None]


@pytest.fixture(scope="module")
def dumps(jobs: dict[str, Job]) -> dict[str, tuple[Taken, Dump]]:
    """One dump of each launch, by the harmless ladder."""

    async def both() -> dict[str, tuple[Taken, Dump]]:
        found: dict[str, tuple[Taken, Dump]] = {}
        for case, job in jobs.items():
            taken = Taken()
            found[case] = (taken, await taken.take(job))
        return found

    return asyncio.run(both())


REASONS = {
    "lock": "Rank 5 waits for a lock or condition (futex) in BatchCache.refill (gloo_job.py:",
    "skip": "Rank 5 waits in all_reduce",
}


@pytest.mark.parametrize("case", ["lock", "skip"])
def test_the_harmless_ladder_climbs_in_order_and_leaves_all_alive(
    case: str, jobs: dict[str, Job], dumps: dict[str, tuple[Taken, Dump]]
) -> None:
    _, dump = dumps[case]
    assert dump.done
    assert [s.method for s in dump.steps] == ["/proc", "py-spy", "flight recorder", "/proc again", "py-spy again"]
    assert all(s.error is None and not s.errors and s.answered == s.asked for s in dump.steps)
    assert dump.merged is not None and dump.merged.odd_ranks == (ODD,)
    assert dump.evidence is not None
    jobs[case].assert_untouched()


@pytest.mark.parametrize("case", ["lock", "skip"])
def test_the_merged_tree_stands_within_three_seconds(case: str, dumps: dict[str, tuple[Taken, Dump]]) -> None:
    assert dumps[case][0].all_named_after() < 3


@pytest.mark.parametrize("case", ["lock", "skip"])
def test_py_spy_alone_names_rank_5_with_the_reason(case: str, dumps: dict[str, tuple[Taken, Dump]]) -> None:
    merged = merge(ranks_of(dumps[case][1]))
    assert merged.odd_ranks == (ODD,)
    assert merged.why.startswith(REASONS[case])


@pytest.mark.parametrize("case", ["lock", "skip"])
def test_the_flight_recorder_alone_names_rank_5(case: str, dumps: dict[str, tuple[Taken, Dump]]) -> None:
    """Asked for through each rank's pipe while it hangs. In the lock it has called one collective less; where it left
    out a barrier, another one at the same number."""
    raw = [r for r in dumps[case][1].raw if r.kind == "flight_record"]
    assert sorted(r.rank for r in raw if r.rank is not None) == list(range(SIZE))
    called = desync.called({r.rank: flight.load(r.data) for r in raw if r.rank is not None})
    assert called.blamed == (ODD,)
    assert called.best is not None and called.best.kind == {"lock": "uncalled", "skip": "other_call"}[case]


async def test_native_stacks_leave_nobody_stopped(jobs: dict[str, Job]) -> None:
    """They pause each rank for a moment, which is said before; C frames show what no Python frame does."""
    taken = Taken()
    dump = await taken.take(jobs["lock"], native=True)
    assert "native stacks will be taken last: each process is paused" in dump.log[0]
    assert dump.steps[-1].method == "native stacks" and dump.steps[-1].answered >= SIZE
    assert [p.method for p in ranks_of(dump)] == ["py-spy --native"] * SIZE
    functions = {f.function for p in ranks_of(dump) for t in p.threads if t.main for f in t.frames}
    assert any("pthread_cond" in name or "futex" in name or "sem_" in name for name in functions), functions
    assert dump.merged is not None and dump.merged.odd_ranks == (ODD,)
    assert dump.evidence is not None and dump.evidence["moving"] is False, "C frames are no movement"
    jobs["lock"].assert_untouched()


def test_the_command_prints_every_source_and_every_step(jobs: dict[str, Job]) -> None:
    said = dump_json(*jobs["skip"].pids())
    assert said["odd_ranks"] == [ODD]
    (called,) = said["called"]
    assert called["findings"][0]["ranks"] == [ODD] and called["known"] == list(range(SIZE))
    assert [s["method"] for s in said["steps"]] == ["/proc", "py-spy", "flight recorder", "/proc again", "py-spy again"]
    assert all(s["duration_s"] is not None and s["error"] is None and s["started_wall"] for s in said["steps"])
    jobs["skip"].assert_untouched()


@pytest.mark.parametrize("case", ["lock", "skip"])
def test_abort_brings_eight_of_eight_each_with_its_rank(case: str, jobs: dict[str, Job]) -> None:
    """torchrun would end seven of them within 0.2 s of the first death: it is held meanwhile, and ends by itself then.
    What faulthandler wrote names rank 5 without anything else."""
    job = jobs[case]
    said = dump_json("--abort", *job.pids())
    aborted = [p for p in said["processes"] if p["rank"] is not None]
    assert [(p["rank"], p["method"], p["error"]) for p in aborted] == [(n, "faulthandler", None) for n in range(SIZE)]
    assert said["odd_ranks"] == [ODD]
    assert job.log.read_text().count("Fatal Python error: Aborted") == SIZE
    alone = subprocess.run(
        [sys.executable, "-m", "tui", "dump", "--json", "--from", str(job.log)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    from_log = json.loads(alone.stdout)
    assert len(from_log["processes"]) == SIZE, "the log alone gives eight processes too"
    (odd,) = [g for g in from_log["groups"] if g["odd"]]
    assert any(word in odd["frames"][-1] for word in ("refill", "all_reduce"))
    assert job.torchrun.wait(30) != 0
    assert "SIGABRT" in job.log.read_text()


def dump_json(*words: str | int) -> dict[str, Any]:
    command = [sys.executable, "-m", "tui", "dump", "--json", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
