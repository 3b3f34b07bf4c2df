"""Stacks without harm, signals that reach the right process, and the abort of a whole launch."""

from __future__ import annotations

import base64
import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent_client import AgentClient, identity_of
from tests.conftest import need_program
from tui.agent.signals import watchers

BESIDE = str(Path(sys.executable).parent)

RANK = """
import sys, threading, time

def wait_for_peer(rank):
    time.sleep(60)

def helper_thread(depth):
    helper_thread(depth - 1) if depth else time.sleep(60)

for _ in range(4):
    threading.Thread(target=helper_thread, args=(20,), daemon=True).start()
print("ready", flush=True)
wait_for_peer(int(sys.argv[1]))
"""


class Launch:
    """Eight rank processes that share one log, and a supervisor that reacts to the first death like torchrun."""

    def __init__(self, folder: Path, *, faulthandler: bool = True, ranks: int = 8) -> None:
        self.log = folder / "launch.log"
        flags = ["-X", "faulthandler"] if faulthandler else []
        with self.log.open("ab") as log:
            self.ranks = [
                subprocess.Popen([sys.executable, *flags, "-c", RANK, str(rank)], stdout=log, stderr=log)
                for rank in range(ranks)
            ]
        source = "import time\nwhile True: time.sleep(0.02)"
        self.holder = subprocess.Popen([sys.executable, "-c", source])
        deadline = time.monotonic() + 10
        while self.log.read_bytes().count(b"ready") < ranks and time.monotonic() < deadline:
            time.sleep(0.02)

    @property
    def identities(self) -> list[tuple[int, int]]:
        return [identity_of(rank.pid) for rank in self.ranks]

    def end(self) -> None:
        for process in [*self.ranks, self.holder]:
            process.kill()
            process.wait()


@pytest.fixture
def client() -> Iterator[AgentClient]:
    with AgentClient(local=True) as client:
        client.hello()
        yield client


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    launch = Launch(tmp_path)
    yield launch
    launch.end()


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def dump(answer: dict[str, Any]) -> str:
    return base64.b64decode(answer["data"]).decode()


def test_stacks_of_all_ranks_at_once_and_they_live_on(client: AgentClient, launch: Launch) -> None:
    """One answer a process with Python frames of its five threads; nobody is paused or hurt; a stranger is refused."""
    program = need_program("py-spy", BESIDE)
    pids = [rank.pid for rank in launch.ranks]
    strangers = [(pids[0], 1), (2**22 - 1, 5)]
    answers = client.ask(do="stacks", procs=[*launch.identities, *strangers], program=program, timeout_s=30)
    good = {answer["pid"]: answer for answer in answers if answer["ok"]}
    assert sorted(good) == sorted(pids)
    for answer in good.values():
        frames, threads = answer["stacks"]["frames"], answer["stacks"]["threads"]
        assert {"wait_for_peer", "helper_thread"} <= {function for function, _, _ in frames}
        assert len(frames) == len({tuple(frame) for frame in frames}), "each frame travels once"
        assert len(threads) == 5
        assert all(frames[number] for thread in threads for number in thread[5])
        assert 0 < answer["duration_s"] < 10
    assert sorted(answer["error"] for answer in answers if not answer["ok"]) == [
        "has ended",
        "has ended; its pid belongs to another process now",
    ]
    assert [answer["last"] for answer in answers] == [False] * 9 + [True]
    assert all(rank.poll() is None and state(rank.pid) == "S" for rank in launch.ranks)


def test_a_program_that_was_sent_runs_from_memory(client: AgentClient, launch: Launch) -> None:
    """py-spy arrives in pieces, is checked, and runs though no file of it is in any file system."""
    data = Path(need_program("py-spy", BESIDE)).read_bytes()
    request = {"do": "put", "name": "py-spy", "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    step = 1 << 20
    for offset in range(0, len(data), step):
        number = client.send(**request, offset=offset, data=base64.b64encode(data[offset : offset + step]).decode())
    answer = client.until(lambda frame: frame["type"] == "answer" and frame["id"] == number)
    assert "error" not in answer
    answers = client.ask(do="stacks", procs=launch.identities[:2], program="py-spy", timeout_s=30)
    assert [answer["ok"] for answer in answers] == [True, True]


def test_a_program_that_arrives_garbled_is_refused(client: AgentClient) -> None:
    """A wrong checksum, and a piece out of order."""
    data = base64.b64encode(b"not what was announced").decode()
    request = {"do": "put", "name": "x", "size": 22, "sha256": "0" * 64}
    assert "not what was sent" in client.ask(**request, offset=0, data=data)[-1]["error"]
    request["size"] = 100
    client.send(**request, offset=0, data=data)
    assert "was due" in client.ask(**request, offset=50, data=data)[-1]["error"]


def test_a_dumper_that_hangs_is_killed(client: AgentClient, launch: Launch, tmp_path: Path) -> None:
    """A py-spy that never ends costs its own answer after 10 s, and no process stays."""
    stuck = tmp_path / "py-spy"
    stuck.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 60\n")
    stuck.chmod(0o755)
    answers = client.ask(do="stacks", procs=launch.identities[:1], program=str(stuck), timeout_s=15)
    assert "within 10 s" in answers[0]["error"]
    pid = int((tmp_path / "pid").read_text())
    time.sleep(0.2)
    assert not Path(f"/proc/{pid}").exists() or state(pid) == "Z"


def test_signals_reach_the_process_that_was_meant_or_none(client: AgentClient) -> None:
    """Right start time: sent. Wrong one (the pid was reused): refused, and the process lives. Ended: gone."""
    sleeper = subprocess.Popen(["sleep", "60"])
    pid, ticks = identity_of(sleeper.pid)
    assert client.ask(do="signal", procs=[(pid, ticks - 1)], signal=9)[0]["result"] == "reused"
    assert client.ask(do="abort", procs=[(pid, ticks - 1)], hold=[])[0]["result"] == "reused"
    assert sleeper.poll() is None
    assert client.ask(do="signal", procs=[(pid, ticks)], signal=15)[0]["result"] == "sent"
    assert sleeper.wait(5) == -15
    answers = client.ask(do="signal", procs=[(pid, ticks), (pid, ticks)], signal=9)
    assert [answer["result"] for answer in answers] == ["gone", "gone"]
    assert [answer["last"] for answer in answers] == [False, True]


def test_abort_gives_eight_unmixed_dumps(client: AgentClient, launch: Launch) -> None:
    """All eight die, each answer holds exactly its own dump, and the supervisor runs again afterwards."""
    answers = client.ask(do="abort", procs=launch.identities, hold=[identity_of(launch.holder.pid)], timeout_s=20)
    assert [answer["result"] for answer in answers] == ["died"] * 8
    assert [rank.wait(1) for rank in launch.ranks] == [-signal.SIGABRT] * 8
    whole = launch.log.read_bytes()
    for answer in answers:
        text = dump(answer)
        assert text.startswith("Fatal Python error: Aborted")
        assert text.count("Fatal Python error") == 1
        assert text.count("most recent call first") == 5
        assert "in wait_for_peer" in text
        assert answer["stderr"] == str(launch.log)
        assert whole[answer["offset"] : answer["end"]].decode() == text
    assert state(launch.holder.pid) == "S"
    assert launch.holder.poll() is None


def test_abort_holds_the_supervisor_while_ranks_die(client: AgentClient, launch: Launch) -> None:
    """At the first death the supervisor is stopped, so it cannot kill the others before their dumps."""
    client.send(do="abort", procs=launch.identities, hold=[identity_of(launch.holder.pid)])
    states: list[str] = []
    while all(rank.poll() is None for rank in launch.ranks):
        states.append(state(launch.holder.pid))
    states.append(state(launch.holder.pid))
    client.until(lambda frame: frame["type"] == "answer" and frame["last"], 20)
    assert "T" in states


def test_an_abort_that_has_begun_is_carried_through_without_the_agent(tmp_path: Path) -> None:
    """The agent is killed in the middle: still all dumps are written, all die, and nothing stays stopped."""
    launch = Launch(tmp_path)
    try:
        client = AgentClient(local=True)
        client.hello()
        client.send(do="abort", procs=launch.identities, hold=[identity_of(launch.holder.pid)])
        while all(rank.poll() is None for rank in launch.ranks):
            time.sleep(0.001)
        os.kill(client.process.pid, signal.SIGKILL)
        client.close()
        assert [rank.wait(10) for rank in launch.ranks] == [-signal.SIGABRT] * 8
        assert launch.log.read_bytes().count(b"Fatal Python error: Aborted") == 8
        deadline = time.monotonic() + 3
        while state(launch.holder.pid) == "T" and time.monotonic() < deadline:
            time.sleep(0.05)
        assert state(launch.holder.pid) == "S"
    finally:
        launch.end()


@pytest.mark.parametrize("fate, within", [(signal.SIGKILL, (0.0, 1.0)), (signal.SIGSTOP, (10.0, 17.0))])
def test_whatever_happens_to_the_worker_all_are_let_go(
    fate: signal.Signals, within: tuple[float, float], client: AgentClient, tmp_path: Path
) -> None:
    """Six ranks that do not die, 2 s each: at the first the worker is killed, which the dead man's switch hears at
    once, or hangs, which it ends 15 s after the beginning."""
    log = (tmp_path / "log").open("wb")
    ranks = [subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, stderr=log) for _ in range(6)]
    holder = subprocess.Popen([sys.executable, "-c", "import time\ntime.sleep(600)"])
    everybody = [*ranks, holder]
    try:
        for rank in ranks:
            assert rank.stdout and rank.stdout.readline()
        client.send(do="abort", procs=[identity_of(r.pid) for r in ranks], hold=[identity_of(holder.pid)])
        deadline = time.monotonic() + 5
        while state(holder.pid) != "T":
            assert time.monotonic() < deadline
            time.sleep(0.005)
        switch = next(pid for pid in children(client.process.pid) if os.getsid(pid) == pid)
        (worker,) = children(switch)
        os.kill(worker, fate)
        began = time.monotonic()
        while any(state(p.pid) == "T" for p in everybody):
            assert time.monotonic() - began < within[1], "neither ranks nor their holder stay stopped"
            time.sleep(0.01)
        assert time.monotonic() - began >= within[0]
        answers = client.until(lambda frame: frame["type"] == "answer" and frame["last"])
        assert answers["result"] == "alive"
        assert all(p.poll() is None for p in everybody)
    finally:
        for process in everybody:
            process.kill()
            process.communicate()
        log.close()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_the_monitor_itself_is_never_stopped(client: AgentClient, launch: Launch) -> None:
    """Where it started the launch it may pass for its driver; held, nobody would be left to see it let go."""
    assert {client.process.pid, os.getpid()} <= watchers(client.process.pid)
    assert launch.ranks[0].pid not in watchers(client.process.pid)
    (answer,) = client.ask(
        do="stacks", procs=[identity_of(os.getpid())], program=need_program("py-spy", BESIDE), native=True
    )
    assert answer["error"].endswith("it is the monitor itself")


STUBBORN = """
import signal, time
signal.signal(signal.SIGABRT, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(60)
"""

CORE_WANTED = """
import resource, time
resource.setrlimit(resource.RLIMIT_CORE, (-1, -1))
print("ready", flush=True)
time.sleep(60)
"""


def test_what_does_not_die_is_left_running(client: AgentClient) -> None:
    """A process that ignores SIGABRT is reported alive within its 2 s, and is not left stopped."""
    stubborn = subprocess.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, text=True)
    assert stubborn.stdout
    stubborn.stdout.readline()
    answers = client.ask(do="abort", procs=[identity_of(stubborn.pid)], hold=[], timeout_s=10)
    assert answers[0]["result"] == "alive"
    deadline = time.monotonic() + 2
    while state(stubborn.pid) == "T" and time.monotonic() < deadline:
        time.sleep(0.02)
    assert state(stubborn.pid) == "S"
    stubborn.kill()
    stubborn.communicate()


def test_no_core_file_is_written(client: AgentClient, tmp_path: Path) -> None:
    """Though the process may dump core without bounds, none appears: it could be as large as the rank."""
    process = subprocess.Popen([sys.executable, "-c", CORE_WANTED], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    process.stdout.readline()
    answers = client.ask(do="abort", procs=[identity_of(process.pid)], hold=[], timeout_s=10)
    assert answers[0]["result"] == "died"
    assert process.wait(5) == -signal.SIGABRT
    process.stdout.close()
    assert list(tmp_path.iterdir()) == []


def test_a_dump_into_a_deleted_file_and_behind_a_pipe_is_brought_back(client: AgentClient, tmp_path: Path) -> None:
    """The file is gone with its writer, so the agent reads it; behind a pipe the dump is where tee wrote it."""
    deleted, teed = tmp_path / "deleted", tmp_path / "teed"
    command = [sys.executable, "-X", "faulthandler", "-c", RANK, "0"]
    with deleted.open("wb") as file:
        first = subprocess.Popen(command, stdout=file, stderr=file)
    tee = subprocess.Popen(
        ["tee", str(teed)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    second = subprocess.Popen(command, stdout=tee.stdin, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + 10
    while (b"ready" not in deleted.read_bytes() or not teed.read_bytes()) and time.monotonic() < deadline:
        time.sleep(0.05)
    deleted.unlink()
    answers = client.ask(do="abort", procs=[identity_of(first.pid), identity_of(second.pid)], hold=[])
    assert [answer["result"] for answer in answers] == ["died", "died"]
    assert "in wait_for_peer" in dump(answers[0])
    assert answers[1]["stderr"] == str(teed)
    assert "in wait_for_peer" in dump(answers[1])
    first.wait()
    second.wait()
    tee.communicate()


def test_looks(client: AgentClient, tmp_path: Path) -> None:
    """Threads, files, the newest of them, a piece of one, disks; what cannot be looked at gives a sentence."""
    for number in range(3):
        (tmp_path / f"{number}.log").write_text("x" * number)
        os.utime(tmp_path / f"{number}.log", (1000 + number % 2, 1000 + number % 2))
    files = client.ask(do="look", what="files", paths=[f"{tmp_path}/*.log"])[0]["files"]
    assert [(Path(file["path"]).name, file["size"], file["mtime"]) for file in files] == [
        ("0.log", 0, 1000),
        ("1.log", 1, 1001),
        ("2.log", 2, 1000),
    ]
    assert client.ask(do="look", what="newest", glob=f"{tmp_path}/*")[0]["path"] == f"{tmp_path}/1.log"
    piece = client.ask(do="look", what="read", path=f"{tmp_path}/2.log", offset=1, limit=5)[0]
    assert (piece["size"], base64.b64decode(piece["data"])) == (2, b"x")
    disk = client.ask(do="look", what="disk", paths=["/dev/shm", "/nowhere"])[0]["disk"]
    assert disk["/nowhere"] is None
    assert disk["/dev/shm"]["total"] >= disk["/dev/shm"]["free"] > 0
    assert client.ask(do="look", what="doctor")[0]["uid"] == os.getuid()
    assert client.ask(do="look", what="read", path="/nowhere")[0]["error"] == "/nowhere: No such file or directory"
    assert "nothing is known" in client.ask(do="look", what="weather")[0]["error"]


def test_malformed_requests_get_an_answer_and_do_no_harm(client: AgentClient) -> None:
    """Unknown, incomplete and garbled requests; the agent ticks on."""
    assert "cannot do" in client.ask(do="dance")[0]["error"]
    assert "KeyError" in client.ask(do="watch")[0]["error"]
    assert "error" in client.ask(do="signal", procs=[["x", 1]], signal=0)[0]
    assert client.process.stdin
    client.process.stdin.write(b'not json\n[1]\n"x"\n\n{"do": "ping"\n')
    assert "mono" in client.ask(do="ping")[0]
    client.tick()
