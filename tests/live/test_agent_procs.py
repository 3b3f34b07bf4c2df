"""Processes as a real agent sees them: new, gone, in focus, with descendants, identities and secrets."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent_client import AgentClient, identity_of
from tests.conftest import need_program

Spawn = Callable[..., "subprocess.Popen[Any]"]


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Start processes that do not outlive the test."""
    started: list[subprocess.Popen[Any]] = []

    def start(*command: str, **more: Any) -> subprocess.Popen[Any]:
        started.append(subprocess.Popen(command, **more))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe:
                pipe.close()


@pytest.fixture
def client() -> Iterator[AgentClient]:
    with AgentClient(local=True) as client:
        client.hello()
        client.send(do="interval", s=0.2)
        yield client


def await_identity(client: AgentClient, pid: int, timeout_s: float = 10.0, **expected: Any) -> dict[str, Any]:
    """The newest identity of a process, once it holds these values."""
    deadline = time.monotonic() + timeout_s
    rows: list[dict[str, Any]] = []
    while time.monotonic() < deadline:
        rows = [row for frame in client.frames for row in frame.get("new", ()) if row["pid"] == pid]
        if rows and all(rows[-1][key] == value for key, value in expected.items()):
            return rows[-1]
        client.pump(0.05)
    raise AssertionError(f"{pid} was never {expected}: {rows}")


def row_of(client: AgentClient, pid: int, wanted: Any = lambda row: True) -> dict[str, Any]:
    """Wait for a row of this process that is as wanted."""

    def rows(frame: dict[str, Any]) -> list[dict[str, Any]]:
        return [row for row in frame.get("procs", ()) if row["pid"] == pid and wanted(row)]

    return rows(client.until(lambda frame: bool(rows(frame))))[0]


def test_new_and_gone(client: AgentClient, spawn: Spawn) -> None:
    """A process is announced once with who it is, and named once when it has ended."""
    sleeper = spawn("sleep", "60", env={"RANK": "3", "SECRET": "x", "PATH": os.environ["PATH"]})
    row = await_identity(client, sleeper.pid, comm="sleep")
    pid, ticks = identity_of(sleeper.pid)
    assert (row["start_ticks"], row["ppid"], row["uid"]) == (ticks, os.getpid(), os.getuid())
    assert row["cmdline"] == ["sleep", "60"]
    assert row["env"] == {"RANK": "3"}
    assert row["cwd"] == str(Path.cwd())
    sleeper.kill()
    sleeper.wait()
    client.until(lambda frame: [pid, ticks] in frame.get("gone", ()))
    client.pump(1.0)
    assert sum([pid, ticks] in frame.get("gone", ()) for frame in client.frames) == 1


def test_nothing_is_named_gone_that_was_not_announced_nor_announced_after_it_was_gone(
    client: AgentClient, spawn: Spawn
) -> None:
    """Through a storm of short-lived processes, what is announced and what has ended always match."""
    storm = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 0.0$i & done; wait"
    for _ in range(5):
        spawn("sh", "-c", storm).wait()
        client.pump(0.3)
    client.pump(1.0)
    alive: set[tuple[int, int]] = set()
    for frame in client.frames:
        alive |= {(row["pid"], row["start_ticks"]) for row in frame.get("new", ())}
        for pid, start_ticks in frame.get("gone", ()):
            assert (pid, start_ticks) in alive
            alive.remove((pid, start_ticks))
    left = {key for key in alive if not Path(f"/proc/{key[0]}").exists()}
    deadline = time.monotonic() + 8
    while left and time.monotonic() < deadline:
        client.pump(0.2)
        left -= {tuple(key) for frame in client.frames for key in frame.get("gone", ())}
    assert left == set()


def test_the_agent_does_not_show_itself(client: AgentClient) -> None:
    """Neither the agent nor its helpers are processes of the host that anybody asked about."""
    await_identity(client, os.getpid())
    client.pump(0.5)
    own = client.process.pid
    assert not [row for frame in client.frames for row in frame.get("new", ()) if own in (row["pid"], row["ppid"])]


def test_a_title_set_later_is_announced(client: AgentClient, spawn: Spawn) -> None:
    """A process that execs (or sets its title) after it was first seen is read again."""
    launcher = spawn("sh", "-c", "sleep 0.7; exec sleep 61")
    await_identity(client, launcher.pid, comm="sh")
    await_identity(client, launcher.pid, cmdline=["sleep", "61"])


def test_secrets_stay_on_the_host(client: AgentClient, spawn: Spawn) -> None:
    """Values of keys, tokens and passwords are in no frame, be it as argument or in the environment."""
    env = {"NCCL_DEBUG": "INFO", "VLLM_API_KEY": "geheim1", "SGLANG_TOKEN": "geheim2", "SLURM_JOB_ID": "77"}
    arguments = ["--api-key", "geheim3", "--hf-token=geheim4", "--tokenizer", "kept", "hf_geheim5", "HF_TOKEN=geheim6"]
    server = spawn(sys.executable, "-c", "import time; time.sleep(60)", *arguments, env={**env, "HF_TOKEN": "geheim7"})
    row = await_identity(client, server.pid, env={"NCCL_DEBUG": "INFO", "SLURM_JOB_ID": "77"})
    shown = ["--api-key", "(hidden)", "--hf-token=(hidden)", "--tokenizer", "kept", "(hidden)", "HF_TOKEN=(hidden)"]
    assert row["cmdline"][3:] == shown
    rows = [row for frame in client.frames for row in frame.get("new", ()) if row["pid"] == server.pid]
    assert "geheim" not in json.dumps(rows)


def test_where_the_output_goes(client: AgentClient, spawn: Spawn, tmp_path: Path) -> None:
    """A file, and behind a pipe the file that tee writes."""
    log, teed = tmp_path / "log", tmp_path / "teed"
    with log.open("wb") as file:
        direct = spawn("sleep", "60", stdout=file, stderr=file)
    quiet = subprocess.DEVNULL
    tee = spawn(need_program("tee"), str(teed), stdin=subprocess.PIPE, stdout=quiet, stderr=quiet)
    piped = spawn("sleep", "60", stdout=tee.stdin, stderr=subprocess.STDOUT)
    await_identity(client, direct.pid, stdout=str(log), stderr=str(log), pipe_files=[])
    assert await_identity(client, piped.pid, pipe_files=[str(teed)])["stdout"].startswith("pipe:[")


def test_listening_ports(client: AgentClient, spawn: Spawn) -> None:
    """A server's port is known by the socket's inode, not by guessing."""
    source = (
        "import socket, time\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "print(server.getsockname()[1], flush=True)\n"
        "time.sleep(60)\n"
    )
    server = spawn(sys.executable, "-c", source, stdout=subprocess.PIPE, text=True)
    assert server.stdout
    await_identity(client, server.pid, 20.0, listens=[int(server.stdout.readline())])


def test_focus_reads_everything_of_a_process(client: AgentClient, spawn: Spawn) -> None:
    """State, threads, CPU, memory, I/O, switches, faults, masks, wchan and syscall, each true."""
    source = (
        "import signal, threading, time\n"
        "signal.signal(signal.SIGUSR2, lambda *a: None)\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\n"
        "[threading.Thread(target=time.sleep, args=(60,), daemon=True).start() for _ in range(3)]\n"
        "open('/dev/zero', 'rb', 0).read(9_000_000)\n"
        "end = time.process_time() + 0.3\n"
        "while time.process_time() < end: pass\n"
        "time.sleep(60)\n"
    )
    process = spawn(sys.executable, "-c", source)
    client.send(do="watch", procs=[identity_of(process.pid)])
    row = row_of(client, process.pid, lambda row: row["state"] == "S" and row["cpu_s"] >= 0.3)
    assert (row["ppid"], row["threads"]) == (os.getpid(), 4)
    assert row["read_chars"] >= 9_000_000
    assert row["cpu_s"] < 3
    assert 4 < row["rss_mib"] < 60
    assert "nanosleep" in row["wchan"]
    assert row["syscall"].split()[0].isdigit()
    assert row["voluntary_switches"] > 0
    assert row["minor_faults"] > 0
    assert row["sig_caught"] >> (signal.SIGUSR2 - 1) & 1
    assert row["sig_ignored"] >> (signal.SIGTERM - 1) & 1
    assert row["sig_blocked"] >> (signal.SIGUSR1 - 1) & 1
    os.kill(process.pid, signal.SIGUSR1)
    row_of(client, process.pid, lambda row: row["sig_pending"] >> (signal.SIGUSR1 - 1) & 1)


def test_a_reused_pid_is_not_taken_for_the_old_one(client: AgentClient) -> None:
    """A focus with another start time shows nothing."""
    client.send(do="watch", procs=[(os.getpid(), 1), identity_of(os.getppid())])
    tick = client.until(lambda frame: bool(frame.get("procs")))
    assert [row["pid"] for row in tick["procs"]] == [os.getppid()]


def test_a_zombie_and_a_stopped_process_show_their_state(client: AgentClient, spawn: Spawn) -> None:
    """Z and T are among the states that matter most."""
    zombie, stopped = spawn("sleep", "60"), spawn("sleep", "60")
    client.send(do="watch", procs=[identity_of(zombie.pid), identity_of(stopped.pid)])
    row_of(client, stopped.pid)
    os.kill(stopped.pid, signal.SIGSTOP)
    zombie.kill()
    row_of(client, zombie.pid, lambda row: row["state"] == "Z")
    row_of(client, stopped.pid, lambda row: row["state"] == "T")


CHILDREN = """
import subprocess, sys, time
burn = "import time\\nend = time.process_time() + 0.15\\nwhile time.process_time() < end: pass\\ntime.sleep(0.5)"
for _ in range(3):
    batch = [subprocess.Popen([sys.executable, "-c", burn]) for _ in range(2)]
    batch.append(subprocess.Popen(["sleep", "0.4"]))
    [child.wait() for child in batch]
time.sleep(60)
"""


def test_children_are_grouped_and_their_cpu_never_shrinks(client: AgentClient, spawn: Spawn) -> None:
    """Waves of children under one rank: by name, each with a counter over all of them that only grows."""
    client.send(do="interval", s=0.1)
    rank = spawn(sys.executable, "-c", CHILDREN)
    client.send(do="watch", procs=[identity_of(rank.pid)])
    history: list[dict[str, tuple[int, float]]] = [{}]
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and not done(history[-1]):
        row = row_of(client, rank.pid)
        history.append({comm: (n, cpu_s) for comm, n, cpu_s in row["children"]})
    for before, after in itertools.pairwise(history):
        assert all(after[comm][1] >= cpu_s for comm, (_, cpu_s) in before.items())
    assert done(history[-1])
    assert "sleep" in history[-1]
    assert max(n for groups in history for n, _ in groups.values()) >= 2


def done(groups: dict[str, tuple[int, float]]) -> bool:
    """All children have ended, and most of the 0.9 s that they burned was seen."""
    return sum(cpu_s for _, cpu_s in groups.values()) > 0.5 and all(n == 0 for n, _ in groups.values())


def test_a_descendant_in_focus_is_not_counted_under_its_ancestor(client: AgentClient, spawn: Spawn) -> None:
    """A launcher's groups do not hold the ranks that are watched themselves."""
    source = (
        "import subprocess, time\n"
        "children = [subprocess.Popen(['sleep', '9']), subprocess.Popen(['cat'], stdin=subprocess.PIPE)]\n"
        "print(children[0].pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = spawn(sys.executable, "-c", source, stdout=subprocess.PIPE, text=True)
    assert parent.stdout
    sleeper = int(parent.stdout.readline())
    client.send(do="watch", procs=[identity_of(parent.pid)])
    row_of(client, parent.pid, lambda row: sorted(entry[:2] for entry in row["children"]) == [["cat", 1], ["sleep", 1]])
    client.send(do="watch", procs=[identity_of(parent.pid), identity_of(sleeper)])
    row = row_of(client, parent.pid, lambda row: ["sleep", 1] not in [entry[:2] for entry in row["children"]])
    assert ["cat", 1] in [entry[:2] for entry in row["children"]]
    assert row_of(client, sleeper)["comm"] == "sleep"


def test_sixteen_ranks_cost_little(client: AgentClient, spawn: Spawn) -> None:
    """16 processes of 20 threads: CPU of the main process projected to a minute, memory, wire when nothing moves."""
    source = "import threading, time\n[threading.Thread(target=time.sleep, args=(60,)).start() for _ in range(20)]"
    ranks = [spawn(sys.executable, "-c", source) for _ in range(16)]
    client.send(do="interval", s=1.0)
    client.send(do="watch", procs=[identity_of(rank.pid) for rank in ranks])
    client.until(lambda frame: len(frame.get("procs", ())) == 16)
    client.pump(3.0)
    before, wire, ticks = cpu_s(client.process.pid), client.raw_bytes, len(client.frames)
    client.pump(10.0)
    spent, sent = cpu_s(client.process.pid) - before, client.raw_bytes - wire
    assert 9 <= len(client.frames) - ticks <= 11
    assert spent * 6 < 0.3
    assert sent < 10 * 1500  # other people's new processes on this machine are in it
    assert client.frames[-1]["self"]["rss_mib"] < 20


def cpu_s(pid: int) -> float:
    """CPU time of a process's main thread so far (the kernel's ``schedstat``)."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
