"""Stacks of real processes in a real deadlock: eight ranks over real sockets, one stuck in a lock of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.agent_client import identity_of
from tests.conftest import missing, need_program
from tests.sshd import SshdFarm
from tests.watching import Watcher, watched
from tui.collect.decode import Hello
from tui.collect.host import Host
from tui.collect.local import LocalChannel
from tui.collect.ssh import SshChannel, SshPool
from tui.errors import HostError
from tui.model import Dump, Launch, Member
from tui.session import pyspy_there
from tui.session.capture import Capture
from tui.stacks import pyspy

JOB = Path(__file__).with_name("deadlocked.py")
SIZE, ODD = 8, 5


class Job:
    """The parent, its ranks in their order, and the one file that all of them write to."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self.log = folder / "job.log"
        with self.log.open("ab") as out:
            self.parent = subprocess.Popen(
                [sys.executable, str(JOB), str(SIZE), str(ODD)], stdout=out, stderr=out, env={**os.environ, **env}
            )
        deadline = time.monotonic() + 20
        while self.log.read_text().count("at step 3") < SIZE or not self._asleep():
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.02)

    def _asleep(self) -> bool:
        return all(p.status() == psutil.STATUS_SLEEPING for p in self.processes())

    def processes(self) -> list[psutil.Process]:
        children = psutil.Process(self.parent.pid).children()
        return sorted(children, key=lambda p: int(p.environ()["RANK"]))

    def pids(self) -> list[int]:
        return [p.pid for p in self.processes()]

    def launch(self, *hosts: str) -> Launch:
        """The ranks dealt out to the hosts in blocks."""
        per_host = SIZE // len(hosts)
        ranks = [Member(hosts[n // per_host], *identity_of(pid), rank=n) for n, pid in enumerate(self.pids())]
        parent = Member(hosts[0], *identity_of(self.parent.pid), rank=None, role="launcher")
        return Launch("job", "job", hosts, members=(*ranks, parent))

    def assert_untouched(self) -> None:
        for process in self.processes():
            status = Path(f"/proc/{process.pid}/status").read_text()
            assert "TracerPid:\t0" in status
        assert len(self.processes()) == SIZE
        assert self._asleep()

    def end(self) -> None:
        """The ranks die with their parent."""
        self.parent.kill()
        self.parent.wait()


@contextmanager
def deadlocked(folder: Path, **env: str) -> Iterator[Job]:
    job = Job(folder, env)
    try:
        yield job
    finally:
        job.end()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    with deadlocked(tmp_path, PYTHONFAULTHANDLER="1") as running:
        yield running


def dump(*words: str | int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tui", "dump", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def dump_json(*words: str | int) -> dict[str, Any]:
    done = dump("--json", *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


# ---------------------------------------------------------------------------------------------------------- harmless


def test_the_odd_rank_is_named_and_all_eight_live_on_untouched(job: Job) -> None:
    said = dump_json(*job.pids())
    assert said["odd_ranks"] == [ODD]
    assert [g["ranks"] for g in said["groups"]] == [[5], [0, 1, 2, 3, 4, 6, 7]]
    assert said["why"].startswith("Rank 5 waits for a lock or condition (futex) in BatchCache.refill (deadlocked.py:")
    assert "the other 7 wait in all_reduce" in said["why"]
    assert [(p["rank"], p["method"], p["error"]) for p in said["processes"]] == [(n, "py-spy", None) for n in range(8)]
    assert {t["name"] for t in said["processes"][ODD]["threads"]} == {"MainThread", "cache-evictor"}
    job.assert_untouched()


def test_as_text_the_reason_comes_first_and_the_odd_branch_before_the_rest(job: Job) -> None:
    lines = dump(*job.pids()).stdout.splitlines()
    assert lines[0].startswith("Rank 5 waits for a lock")
    titles = [line.strip() for line in lines if " of 8  " in line]
    assert [t.split("  ")[:2] for t in titles] == [
        ["8 of 8", "ranks 0–7"],
        ["1 of 8", "rank 5"],
        ["7 of 8", "ranks 0–4, 6–7"],
    ]


def test_a_stopped_process_is_read_and_stays_stopped(job: Job) -> None:
    """A blocking dumper would fail and let it run again."""
    pid = job.pids()[2]
    os.kill(pid, signal.SIGSTOP)
    try:
        said = dump_json(*job.pids())
        assert said["processes"][2]["threads"][0]["frames"]
        assert state(pid) == "T"
    finally:
        os.kill(pid, signal.SIGCONT)


def test_what_cannot_be_read_is_said_in_one_sentence_each() -> None:
    sleeper = subprocess.Popen([need_program("sleep"), "60"])
    try:
        done = dump(sleeper.pid, 2_000_000_000)
        assert done.returncode == 12
        assert f"pid {sleeper.pid} on" in done.stdout and "it is no Python process" in done.stdout
        assert "there is no process 2000000000 on" in done.stdout
        assert "Traceback" not in done.stdout + done.stderr
    finally:
        sleeper.kill()
        sleeper.wait()
    assert dump(2_000_000_000).returncode == 14
    for words in (["0"], ["x"], [":7"], [], ["5", "--from", "x"], ["--from", "/nonexistent"], ["--from", str(JOB)]):
        refused = dump(*words)
        assert (refused.returncode, refused.stdout) == (2, ""), words
        assert len(refused.stderr.strip().splitlines()) <= 2


def test_a_shell_stands_for_what_it_has_started(tmp_path: Path) -> None:
    """Ranks below it are ranks. It has no Python stack itself, and that is said too."""
    command = f"{shlex.join([sys.executable, str(JOB), str(SIZE), str(ODD)])}; true"
    with (tmp_path / "log").open("ab") as out:
        shell = subprocess.Popen(["sh", "-c", command], stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + 20
        while (tmp_path / "log").read_text().count("at step 3") < SIZE:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        said = dump_json(shell.pid)
        assert said["odd_ranks"] == [ODD]
        assert sorted(p["rank"] for p in said["processes"] if p["rank"] is not None) == list(range(SIZE))
        assert [p["pid"] for p in said["processes"] if p["error"]] == [shell.pid]
        refused = dump("--abort", shell.pid)
        assert refused.returncode == 2, "who shall die is named"
        assert shell.poll() is None
    finally:
        _end(shell)


def test_scripts_below_a_shell_are_compared(tmp_path: Path) -> None:
    script = tmp_path / "waits.py"
    script.write_text("import time\ndef wait(): time.sleep(60)\nwait()\n")
    one = shlex.join([sys.executable, str(script)])
    shell = subprocess.Popen(["sh", "-c", f"sh -c '{one} & {one}; true'; true"])
    try:
        time.sleep(1)
        done = dump(shell.pid)
        assert done.returncode == 0
        assert done.stdout.startswith("All 2 sleep in wait (waits.py:2)")
    finally:
        _end(shell)


def _end(started: subprocess.Popen[bytes]) -> None:
    for process in [*psutil.Process(started.pid).children(recursive=True), started]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    started.wait()


# ------------------------------------------------------------------------------------------------------------- abort


def test_sigabrt_of_all_eight_that_share_one_file_gives_eight_dumps_each_with_its_rank(job: Job) -> None:
    """The parent would end the other seven when the first dies: it is held meanwhile, and goes on afterwards."""
    said = dump_json("--abort", *job.pids())
    assert [(p["rank"], p["method"], p["error"]) for p in said["processes"]] == [
        (n, "faulthandler", None) for n in range(8)
    ]
    assert job.log.read_text().count("Fatal Python error: Aborted") == 8
    assert all(p["threads"][0]["frames"][-1]["function"] == "<module>" for p in said["processes"])
    assert said["odd_ranks"] == [ODD]
    assert job.parent.wait(5) == 0


def test_an_abort_survives_the_monitor(job: Job) -> None:
    """The command is killed with SIGKILL while the parent is held: still eight dumps, and the parent goes on."""
    command = [sys.executable, "-m", "tui", "dump", "--abort", *map(str, job.pids())]
    monitor = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while state(job.parent.pid) != "T":
        assert time.monotonic() < deadline and monitor.poll() is None
        time.sleep(0.001)
    monitor.kill()
    assert monitor.wait() == -signal.SIGKILL
    assert job.parent.wait(20) == 0
    assert job.log.read_text().count("Fatal Python error: Aborted") == 8


def test_a_lone_rank_is_not_aborted(job: Job) -> None:
    refused = dump("--abort", job.pids()[ODD])
    assert refused.returncode == 2
    assert "7 ranks of the same launch are not named" in refused.stderr
    job.assert_untouched()


def test_only_the_named_process_is_aborted_where_there_are_no_ranks() -> None:
    command = [sys.executable, "-X", "faulthandler", "-c", "import time; time.sleep(60)"]
    named, other = (subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(2))
    try:
        time.sleep(0.3)
        assert dump("--abort", named.pid).returncode == 0
        assert named.wait(5) == -signal.SIGABRT
        assert other.poll() is None
    finally:
        for process in (named, other):
            process.kill()
            process.wait()


def test_ranks_that_die_without_a_dump_keep_the_stacks_taken_before(tmp_path: Path) -> None:
    with deadlocked(tmp_path, PYTHONFAULTHANDLER="") as job:
        refused = dump("--json", "--abort", *job.pids())
        assert refused.returncode == 2 and refused.stdout == ""
        assert "all 8 would die without printing anything" in refused.stderr and "--abort twice" in refused.stderr
        job.assert_untouched()
        done = dump("--json", "--abort", "--abort", *job.pids())
    said = json.loads(done.stdout)
    assert "rank 0 (pid" in done.stderr and "SIGABRT dies without printing anything" in done.stderr
    assert said["odd_ranks"] == [ODD]
    assert {p["error"] for p in said["processes"]} == {
        "it died without a dump: faulthandler was off (start it with PYTHONFAULTHANDLER=1)."
    }


def test_dumps_that_all_wrote_at_once_are_read_later_from_the_file_alone(job: Job, tmp_path: Path) -> None:
    """Nobody held them back: eight processes write one file at the same time. With py-spy's stacks each is named."""
    for rank, entry in enumerate(dump_json(*job.pids())["processes"]):
        threads = [
            {**t, "frames": [{"name": f["function"], "filename": f["file"], "line": f["line"]} for f in t["frames"]]}
            for t in entry["threads"]
        ]
        if rank != ODD:
            (tmp_path / f"rank{rank}.json").write_text(json.dumps(threads))
    os.kill(job.parent.pid, signal.SIGSTOP)
    pids = job.pids()
    for pid in pids:
        os.kill(pid, signal.SIGABRT)
    deadline = time.monotonic() + 10
    while any(state(pid) != "Z" for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    said = dump_json("--from", tmp_path)
    assert sorted(p["rank"] for p in said["processes"] if p["rank"] is not None) == [0, 1, 2, 3, 4, 6, 7]
    assert [p["method"] for p in said["processes"] if p["rank"] is None] == ["faulthandler"]
    assert [odd["rank"] for odd in said["odd"]] in ([None], [])


# ------------------------------------------------------------------------------------------------- the orchestration


async def test_results_are_shown_as_they_come_and_every_step_is_on_record(job: Job) -> None:
    shown: list[tuple[float, Dump]] = []
    watcher = Watcher()
    async with watched(watcher, here=LocalChannel()) as hosts:
        await watcher.until_state("here", "live")
        began = time.monotonic()
        capture = Capture(hosts, lambda dump: shown.append((time.monotonic() - began, dump)))
        done = await capture.stacks(job.launch("here"))
    assert done.done and done == shown[-1][1]
    first = next(
        s
        for s, dump in shown
        if dump.merged and dump.merged.odd_ranks and sum(p.method == "py-spy" for p in dump.processes) >= 8
    )
    assert first < 3, "the merged tree of all ranks stands long before the second look"
    assert done.expected == 9 and len(done.processes) == 9
    assert [p.rank for p in done.processes] == [*range(8), None]
    assert done.merged is not None and done.merged.odd_ranks == (ODD,)
    assert [(s.method, s.asked, s.answered) for s in done.steps] == [
        ("/proc", 9, 9),
        ("py-spy", 9, 9),
        ("/proc again", 9, 9),
        ("py-spy again", 9, 9),
    ]
    assert all(s.duration_s is not None and s.error is None and not s.errors for s in done.steps)
    assert {p.rank for p in done.before} == {*range(8), None}
    gaps = [
        now.taken_wall - then.taken_wall
        for now in done.processes
        for then in done.before
        if now.pid == then.pid and now.taken_wall and then.taken_wall
    ]
    assert len(gaps) == 9 and min(gaps) >= 1.9, "what stands and what moves is told from two looks"
    assert any(line.endswith("/proc: 9 of 9 processes on here") for line in done.log)
    assert sum(" py-spy: rank " in line and " threads in " in line for line in done.log) == 8
    assert all(p.duration_s and p.taken_wall for p in done.processes)


WITH_CHILDREN = """
import multiprocessing, subprocess, time

def load_batches(): time.sleep(600)
def wait_for_batch(): time.sleep(600)

multiprocessing.set_start_method("fork")
loaders = [multiprocessing.Process(target=load_batches, daemon=True) for _ in range(2)]
for loader in loaders: loader.start()
subprocess.Popen(["sleep", "600"])
print("ready", flush=True)
wait_for_batch()
"""


async def test_what_a_rank_has_started_is_looked_at_too() -> None:
    """Workers of a DataLoader and the like: Python ones with their stacks, others counted. They are no ranks."""
    rank = subprocess.Popen([sys.executable, "-c", WITH_CHILDREN], stdout=subprocess.PIPE, text=True)
    below = psutil.Process(rank.pid).children
    try:
        assert rank.stdout and rank.stdout.readline() == "ready\n"
        watcher = Watcher()
        async with watched(watcher, here=LocalChannel()) as hosts:
            await watcher.until_state("here", "live")
            launch = Launch("job", "job", ("here",), members=(Member("here", *identity_of(rank.pid), rank=0),))
            dump = await Capture(hosts, lambda dump: None).stacks(launch)
        first, *children = dump.processes
        assert (first.rank, first.method) == (0, "py-spy")
        assert [(p.rank, p.role, p.method) for p in children] == [(None, "child", "py-spy")] * 2
        assert {p.pid for p in children} < {p.pid for p in below()}
        assert all("load_batches" in [f.function for f in p.threads[0].frames] for p in children)
        assert any(line.endswith("1 more below them on here, not Python: 1 sleep") for line in dump.log)
    finally:
        for process in [*below(), psutil.Process(rank.pid)]:
            process.kill()
        rank.communicate()


async def test_over_ssh_our_py_spy_is_sent_where_there_is_none_and_leaves_nothing(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two daemons; the second one's PATH has no py-spy. Both are taken for other machines."""
    monkeypatch.setattr(pyspy_there, "program_on", lambda host: pyspy_there.NAME)
    if any((Path(folder) / "py-spy").exists() for folder in ("/usr/bin", "/usr/local/bin", Path.home() / ".local/bin")):
        missing("needs a place without py-spy")
    folder = tmp_path / "farm"
    folder.mkdir()
    farm = SshdFarm(folder)
    try:
        farm.add("n1")
        farm.add("n2", env={"PATH": "/usr/bin:/bin"})
        pool, watcher = SshPool([farm.config]), Watcher()
        async with watched(watcher, n1=SshChannel("n1", pool), n2=SshChannel("n2", pool)) as hosts:
            await watcher.until(lambda: watcher.of("n1") and watcher.of("n2"))
            done = await Capture(hosts, lambda dump: None).stacks(job.launch("n1", "n2"))
            again = await Capture(hosts, lambda dump: None).stacks(job.launch("n1", "n2"))
        assert done.merged is not None and done.merged.odd_ranks == (ODD,)
        assert [(p.host, p.method) for p in done.processes[:8]] == [("n1", "py-spy")] * 4 + [("n2", "py-spy")] * 4
        assert sum("none that fits on n2, sending ours" in line for line in done.log) == 1
        assert not any("sending ours" in line for line in again.log), "what was sent is kept for the next time"
    finally:
        farm.stop()
    job.assert_untouched()


async def test_a_host_that_is_not_there_does_not_take_the_others_down(job: Job) -> None:
    watcher = Watcher()
    async with watched(watcher, here=LocalChannel()) as hosts:
        await watcher.until_state("here", "live")
        hosts["gone"] = Host("gone", LocalChannel(), watcher)
        done = await Capture(hosts, lambda dump: None).stacks(job.launch("here", "gone"))
    assert [p.method for p in done.processes[:4]] == ["py-spy"] * 4
    assert {p.error for p in done.processes[4:8]} == {"gone is not connected."}
    assert done.merged is not None and done.merged.why.endswith("Ranks 4-7 gave no stack.")


async def test_a_reused_pid_is_refused_for_stacks_and_for_the_signal() -> None:
    """A real second process under the pid of the first, both in a PID namespace's own numbering."""
    first = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    old = Member("here", *identity_of(first.pid), rank=0)
    first.kill()
    first.wait()
    time.sleep(0.05)  # start times count in hundredths of a second
    second = process_with_pid(first.pid)
    try:
        watcher = Watcher()
        async with watched(watcher, here=LocalChannel()) as hosts:
            await watcher.until_state("here", "live")
            capture = Capture(hosts, lambda dump: None)
            launch = Launch("job", "job", ("here",), members=(old,))
            stacks = await capture.stacks(launch)
            aborted = await capture.abort(launch, stacks)
        sentence = "its pid belongs to another process by now"
        assert sentence in (stacks.processes[0].error or "")
        assert not any(t.frames for t in stacks.processes[0].threads)
        assert sentence in (aborted.processes[0].error or "")
        assert second.poll() is None
    finally:
        second.kill()
        second.wait()


def process_with_pid(pid: int) -> subprocess.Popen[bytes]:
    """A process that gets a pid which another one had."""
    last_pid = Path("/proc/sys/kernel/ns_last_pid")
    for _ in range(50):
        try:
            last_pid.write_text(str(pid - 1))
        except OSError:
            missing("needs to choose the next pid (root, kernel.ns_last_pid)")
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        if process.pid == pid:
            return process
        process.kill()
        process.wait()
    return missing("another process took the pid each time")


async def test_another_architecture_gets_the_sentence_that_helps() -> None:
    host = Host("gpu01", LocalChannel(), Watcher())
    host.hello = Hello(machine="riscv64")
    with pytest.raises(HostError, match=r"none for Linux riscv64: install py-spy on gpu01 \(pip install py-spy\)"):
        await pyspy_there.send(host, lambda note: None)


async def test_py_spys_own_output_is_what_the_reader_expects(job: Job) -> None:
    """The wheel's binary against the reader, without anything between."""
    program = pyspy_there.ours()
    assert program is not None
    pid = job.pids()[ODD]
    run = await asyncio.create_subprocess_exec(
        str(program), "dump", "--nonblocking", "--json", "--pid", str(pid), stdout=asyncio.subprocess.PIPE
    )
    value = json.loads((await run.communicate())[0])
    assert pyspy.pid_of(value) == pid
    assert pyspy.from_json(value)[0].frames[0].function.endswith("refill")
