"""The demo is a real launch: real processes, a real deadlock, a real build, and nothing of it is left behind."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.conftest import need_program
from tui.agent.identity import Reader
from tui.demo.kernels import KernelBuilder
from tui.demo.launch import DemoLaunch
from tui.model import Identity, Sample
from tui.session.discover import Discovery

LOADED_WITHIN_S = 60.0
GONE_WITHIN_S = 5.0

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the demo needs Linux")


def wait_for(what: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.05)
    return what()


def loaded(log: Path) -> list[int]:
    """The ranks that have said that their weights are there."""
    return [int(rank) for rank in re.findall(r" TP(\d)\] Load weight end\.", log.read_text())]


def group(pgid: int) -> list[int]:
    """The processes of a group that still run (zombies do not)."""
    return [process.pid for process in psutil.process_iter() if _runs_in(process, pgid)]


def _runs_in(process: psutil.Process, pgid: int) -> bool:
    try:
        return os.getpgid(process.pid) == pgid and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, ProcessLookupError):
        return False


def discovered(launch: DemoLaunch) -> Discovery:
    """What discovery makes of this machine's processes, read by the agent's own reader."""
    fields = ("cmdline", "pipe_files", "listens")
    rows = Reader(lambda name, seconds: None).batch(psutil.pids())
    identities = tuple(Identity(**{k: tuple(v) if k in fields else v for k, v in row.items()}) for row in rows)  # type: ignore[arg-type]
    discovery = Discovery(pids=[(None, launch.parent_pid)])
    discovery.feed(Sample("here", 0.0, time.monotonic(), time.time(), new=identities))
    return discovery


@pytest.fixture(scope="module")
def hanging() -> Iterator[DemoLaunch]:
    launch = DemoLaunch(healthy=False)
    begun = time.monotonic()
    launch.start()
    assert time.monotonic() - begun < 0.5, "the picture must not wait for the demo"
    try:
        assert wait_for(lambda: len(loaded(launch.log_path)) >= 7, LOADED_WITHIN_S)
        time.sleep(1.0)
        yield launch
    finally:
        launch.stop()


def test_it_is_found_as_one_launch_of_eight_ranks_with_its_log(hanging: DemoLaunch) -> None:
    discovery = discovered(hanging)
    (launch,) = discovery.launches()
    assert launch.framework == "demo"
    assert [member.rank for member in launch.ranks()] == list(range(8))
    assert [member.title for member in launch.ranks()] == [f"demo::scheduler_TP{n}" for n in range(8)]
    assert launch.world_size == 8
    assert [(log.path, log.found) for log in launch.logs] == [(str(hanging.log_path), "stderr")]
    assert launch.started_wall == pytest.approx(time.time(), abs=120.0)
    assert {member.role for member in launch.members} == {"driver", "rank"}
    for member in launch.ranks():
        environ = psutil.Process(member.pid).environ()
        assert (environ["RANK"], environ["LOCAL_RANK"], environ["WORLD_SIZE"]) == (str(member.rank),) * 2 + ("8",)


def test_seven_wait_in_a_collective_and_one_in_a_function_of_its_own(hanging: DemoLaunch) -> None:
    """py-spy sees it without pausing anybody; the odd rank is the one that never said that its weights are there."""
    py_spy = need_program("py-spy", str(Path(sys.executable).parent))
    where: dict[int, str] = {}
    for member in discovered(hanging).launches()[0].ranks():
        command = [py_spy, "dump", "--nonblocking", "--json", "--pid", str(member.pid)]
        threads = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=30).stdout)
        main = next(thread for thread in threads if thread["thread_name"] == "MainThread")
        names = [frame["name"].rsplit(".", 1)[-1] for frame in main["frames"]]
        where[member.rank or 0] = "collective" if {"all_reduce", "barrier"} <= set(names) else names[0]
        assert len(threads) >= 12
    (odd,) = set(range(8)) - set(loaded(hanging.log_path))
    assert where == {rank: "share_embeddings" if rank == odd else "collective" for rank in range(8)}


def test_nothing_of_it_moves(hanging: DemoLaunch) -> None:
    """Every thread of every process sleeps, without CPU, without reading, without a line; for as long as we look."""

    def look() -> list[tuple[object, ...]]:
        processes = [psutil.Process(pid) for pid in group(hanging.parent_pid)]
        return [
            (p.pid, p.cpu_times()[:2], p.io_counters()[:4], p.num_ctx_switches(), [t[1:] for t in p.threads()])
            for p in processes
        ]

    before, size = look(), hanging.log_path.stat().st_size
    assert len(before) == 10, "the server, eight ranks, and the shell that cleans up"
    time.sleep(3.0)
    assert (look(), hanging.log_path.stat().st_size) == (before, size)
    states = [
        (task / "stat").read_text().rpartition(")")[2].split()[0]
        for pid, *_ in before
        for task in Path(f"/proc/{pid}/task").iterdir()
    ]
    assert set(states) == {"S"}


def test_aborted_ranks_leave_eight_dumps_and_the_server_ends_by_itself(hanging: DemoLaunch) -> None:
    """The log and its directory stay for as long as the monitor wants to read the dumps."""
    ranks = discovered(hanging).launches()[0].ranks()
    for member in ranks:
        os.kill(member.pid, signal.SIGSTOP)
    for member in ranks:
        os.kill(member.pid, signal.SIGABRT)
    for member in ranks:
        os.kill(member.pid, signal.SIGCONT)
        assert wait_for(lambda pid=member.pid: pid not in group(hanging.parent_pid), GONE_WITHIN_S)
    text = hanging.log_path.read_text()
    assert text.count("Fatal Python error: Aborted") == 8
    assert text.count("in share_embeddings") == 1
    assert text.count("in all_reduce") == 7
    assert wait_for(lambda: psutil.Process(hanging.parent_pid).status() == psutil.STATUS_ZOMBIE, GONE_WITHIN_S)
    assert hanging.log_path.read_text().count("scheduler is dead. Please check if there are relevant logs.") == 8
    assert not list(hanging.log_path.parent.glob("core*"))
    hanging.stop()
    assert wait_for(lambda: group(hanging.parent_pid) == [], GONE_WITHIN_S)
    assert not hanging.log_path.parent.exists()


def test_the_healthy_twin_is_silent_while_it_really_compiles_and_then_serves() -> None:
    launch = DemoLaunch(healthy=True, build_s=6.0)
    launch.start()
    try:
        assert wait_for(lambda: len(loaded(launch.log_path)) == 7, LOADED_WITHIN_S)
        assert 0 not in loaded(launch.log_path)
        rank_0 = next(p for p in psutil.Process(launch.parent_pid).children() if p.environ().get("RANK") == "0")
        assert wait_for(lambda: len(rank_0.children(recursive=True)) > 0, 2.0)
        size = launch.log_path.stat().st_size
        busy = rank_0.cpu_times().children_user
        time.sleep(3.0)
        assert launch.log_path.stat().st_size == size, "silent at the same place"
        built = wait_for(lambda: rank_0.cpu_times().children_user > busy + 0.2, 20.0)  # counted when a compiler ends
        assert built, "a real build, however slow the machine"
        ready = "The server is fired up and ready to roll!"
        assert wait_for(lambda: ready in launch.log_path.read_text(), 60.0)
        text = launch.log_path.read_text()
        assert len(loaded(launch.log_path)) == 8
        assert b"\rCapturing batches (bs=32 " in launch.log_path.read_bytes()
        port = int(re.findall(r"Uvicorn running on http://127.0.0.1:(\d+)", text)[0])
        assert port == int(re.findall(r"port=(\d+)", text)[0])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", "/health")
        assert connection.getresponse().status == 200
        assert port in discovered(launch).launches()[0].ports
    finally:
        launch.stop()
    assert wait_for(lambda: group(launch.parent_pid) == [], GONE_WITHIN_S)
    assert not launch.log_path.parent.exists()


def test_without_a_compiler_that_works_the_build_is_other_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real CPU time either way: the twin is told from the deadlock by what it does, not by a name."""
    broken = tmp_path / "c++"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    before = os.times().children_user
    assert KernelBuilder(tmp_path / "kernels").build(0.5) >= 2
    assert os.times().children_user > before + 0.3


MONITOR = """
import sys, time
from tui.demo.kernels import KernelBuilder
from tui.demo.launch import DemoLaunch
launch = DemoLaunch(healthy=sys.argv[1] == "healthy", build_s=60.0)
launch.start()
print(launch.parent_pid, launch.log_path, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("kind", "moment"),
    [
        ("hanging", lambda log: True),
        ("hanging", lambda log: "3/64" in log.read_text()),
        ("healthy", lambda log: len(loaded(log)) == 7),
    ],
    ids=["at once", "while loading", "while compiling"],
)
def test_it_ends_with_its_monitor_even_by_kill_9(kind: str, moment: Callable[[Path], bool]) -> None:
    monitor = subprocess.Popen([sys.executable, "-c", MONITOR, kind], stdout=subprocess.PIPE, text=True)
    try:
        assert monitor.stdout is not None
        server, _, log = monitor.stdout.readline().strip().partition(" ")
        assert wait_for(lambda: moment(Path(log)), LOADED_WITHIN_S)
    finally:
        monitor.kill()
        monitor.wait()
    assert wait_for(lambda: group(int(server)) == [] and not Path(log).parent.exists(), GONE_WITHIN_S)


def test_ranks_end_with_their_server_and_stop_cleans_up(tmp_path: Path) -> None:
    launch = DemoLaunch(healthy=False, directory=tmp_path)
    launch.stop()
    launch.start()
    server = launch.parent_pid
    assert wait_for(lambda: len(group(server)) == 10, 20.0)
    assert launch.log_path.is_relative_to(tmp_path)
    os.kill(server, signal.SIGKILL)
    assert wait_for(lambda: len(group(server)) == 1, GONE_WITHIN_S), "only what will clean up is left"
    assert launch.log_path.exists()
    launch.stop()
    launch.stop()
    assert wait_for(lambda: group(server) == [], GONE_WITHIN_S)
    assert list(tmp_path.iterdir()) == []
