"""How an agent ends, and that nothing of it stays."""

from __future__ import annotations

import base64
import hashlib
import os
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path

from tests.agent_client import AgentClient
from tests.conftest import need_program
from tui.collect import payload


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_gone(pids: list[int], seconds: float) -> list[int]:
    """Those that still run after this time; a zombie has ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        left = [pid for pid in pids if running(pid)]
        if not left:
            return []
        time.sleep(0.05)
    return left


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def family(client: AgentClient, tmp_path: Path) -> list[int]:
    """The agent and its helpers, once all of them run."""
    (tmp_path / "log").write_text("x\n")
    client.hello()
    client.send(do="follow", key="log", path=str(tmp_path / "log"))
    client.until(lambda frame: bool(frame.get("logs")))
    helpers = children(client.process.pid)
    assert len(helpers) == 3
    return [client.process.pid, *helpers]


def test_ends_with_its_input(tmp_path: Path) -> None:
    """A closed channel ends the agent and all helpers at once, with exit code 0."""
    client = AgentClient(local=True)
    pids = family(client, tmp_path)
    assert client.close() == 0
    assert wait_gone(pids, 1.0) == []


def test_helpers_hold_no_descriptor_of_the_channel(tmp_path: Path) -> None:
    """A helper that hangs for ever must not keep the ssh channel open: none of its descriptors leads there."""
    with AgentClient(local=True) as client:
        agent, *helpers = family(client, tmp_path)
        channel = {Path(f"/proc/{agent}/fd/{fd}").readlink() for fd in (0, 1, 2)}
        for helper in helpers:
            links = {entry.readlink() for entry in Path(f"/proc/{helper}/fd").iterdir()}
            assert not links & channel


def test_a_killed_agent_takes_its_helpers_along(tmp_path: Path) -> None:
    """After kill -9 of the agent itself no helper stays."""
    client = AgentClient(local=True)
    pids = family(client, tmp_path)
    os.kill(client.process.pid, signal.SIGKILL)
    assert wait_gone(pids[1:], 2.0) == []
    client.close()


def test_a_silent_monitor_is_a_dead_monitor(tmp_path: Path) -> None:
    """Without a byte from the monitor the agent ends by itself though the channel stays open; pings keep it alive."""
    client = AgentClient(local=True, silence_s=2.0)
    pids = family(client, tmp_path)
    for _ in range(6):
        client.pump(0.5)
        client.send(do="ping")
    assert running(pids[0])
    assert wait_gone(pids, 4.0) == []
    client.close()


def test_the_default_patience_is_30_s() -> None:
    """What a monitor gets that asks for nothing else."""
    assert b'"silence_s": 30.0' in zlib.decompress(options_record(payload.payload()))


def options_record(data: bytes) -> bytes:
    start = data.index(b"options\n") + len(b"options\n")
    return data[start:-8]


def test_the_death_of_its_parent_ends_it(tmp_path: Path) -> None:
    """kill -9 of the process that started it ends the agent even while somebody else holds its input open."""
    reader, writer = os.pipe()
    source = (
        "import subprocess, sys, time\n"
        "p = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)\n"
        "print(p.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    command = [sys.executable, "-c", source, *payload.local_command()]
    with subprocess.Popen(command, stdin=reader, stdout=subprocess.PIPE, text=True) as parent:
        os.close(reader)
        os.write(writer, payload.payload(local=True)[:60000])
        os.write(writer, payload.payload(local=True)[60000:])
        assert parent.stdout
        agent = int(parent.stdout.readline())
        deadline = time.monotonic() + 5
        while len(children(agent)) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        pids = [agent, *children(agent)]
        parent.kill()
        parent.wait()
        assert wait_gone(pids, 3.0) == []
        os.close(writer)


def test_leaves_no_file_behind(tmp_path: Path) -> None:
    """Started in an empty home and with an empty temporary folder, both are empty after a put, a dump and the end."""
    data = Path(need_program("true")).resolve().read_bytes()
    env = {"HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    with AgentClient([sys.executable, *payload.local_command()[1:]], env=env) as client:
        client.hello()
        digest = hashlib.sha256(data).hexdigest()
        request = {"do": "put", "name": "tool", "size": len(data), "sha256": digest, "offset": 0}
        assert "error" not in client.ask(**request, data=base64.b64encode(data).decode())[-1]
        client.ask(do="stacks", procs=[], program="tool")
    assert list(tmp_path.iterdir()) == []


def test_is_the_first_to_go_when_memory_runs_out() -> None:
    """The kernel is told to take the agent before any rank."""
    with AgentClient(local=True) as client:
        client.hello()
        assert Path(f"/proc/{client.process.pid}/oom_score_adj").read_text().strip() == "1000"


def test_a_reader_that_stops_reading_does_not_grow_the_agent(tmp_path: Path) -> None:
    """While the monitor takes nothing, ticks are left out instead of piling up; afterwards they go on."""
    with AgentClient(local=True) as client:
        client.hello()
        client.send(do="interval", s=0.1)
        log = tmp_path / "log"
        client.send(do="follow", key="log", path=str(log))
        with log.open("wb") as file:
            for _ in range(30):
                file.write(os.urandom(200_000))
                file.flush()
                time.sleep(0.1)
        rss = int(Path(f"/proc/{client.process.pid}/statm").read_text().split()[1]) * 4096 / 1e6
        assert rss < 40
        client.until(lambda frame: any(row["size"] == 6_000_000 for row in frame.get("logs", ())), 10.0)
