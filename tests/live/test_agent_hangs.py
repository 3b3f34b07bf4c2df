"""A host on which a file system hangs for good: what touches it costs its own row, and nothing else waits."""

from __future__ import annotations

import base64
import itertools
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.agent_client import AgentClient, identity_of
from tests.dead_mount import DeadMount


def rows(client: AgentClient, key: str) -> list[dict[str, Any]]:
    return [row for frame in client.frames for row in frame.get("logs", ()) if row["key"] == key]


def longest_gap(client: AgentClient) -> float:
    ticks = [frame["mono"] for frame in client.frames if frame["type"] == "tick"]
    return max(after - before for before, after in itertools.pairwise(ticks))


def test_a_log_on_a_dead_mount_costs_its_own_row(tmp_path: Path) -> None:
    """It gets one sentence after 3 s; the other log goes on without a byte lost or doubled; ticks stay on time."""
    good = tmp_path / "good.log"
    good.write_text("one\n")
    with DeadMount(tmp_path / "dead") as dead, AgentClient(local=True) as client:
        client.hello()
        client.send(do="interval", s=0.2)
        client.send(do="follow", key="good", path=str(good))
        client.until(lambda frame: bool(rows(client, "good")))
        client.send(do="follow", key="bad", path=str(dead.path / "launch.log"))
        with good.open("a") as file:
            for number in range(25):
                file.write(f"line {number}\n")
                file.flush()
                client.pump(0.2)
        assert "hangs" in rows(client, "bad")[0]["error"]
        client.until(lambda frame: rows(client, "good")[-1]["size"] == good.stat().st_size)
        ends = [(row["offset"], row["size"]) for row in rows(client, "good")]
        assert all(offset == before for (offset, _), (_, before) in zip(ends[1:], ends, strict=False))
        assert rows(client, "good")[-1]["lines_total"] == 26
        assert longest_gap(client) < 0.8
        assert client.close() == 0


def test_a_look_at_a_dead_mount_has_a_deadline(tmp_path: Path) -> None:
    """It is answered with a sentence; looks at other places are answered at once meanwhile."""
    with DeadMount(tmp_path / "dead") as dead, AgentClient(local=True) as client:
        client.hello()
        hanging = client.send(do="look", what="files", paths=[f"{dead.path}/*"])
        started = time.monotonic()
        assert client.ask(do="look", what="disk", paths=["/"])[0]["disk"]["/"]["total"] > 0
        assert time.monotonic() - started < 2.0
        answer = client.until(lambda frame: frame["type"] == "answer" and frame["id"] == hanging, 12.0)
        assert "hangs" in answer["error"]


def test_helpers_that_not_even_kill_ends_are_counted(tmp_path: Path) -> None:
    """Two stuck in the kernel, then no further one is started, and the frame says so; ticks and the end stay quick."""
    with DeadMount(tmp_path / "dead", swallow=True) as dead:
        client = AgentClient(local=True)
        client.hello()
        client.send(do="interval", s=0.2)
        for number in range(3):
            client.send(do="follow", key=f"bad{number}", path=str(dead.path / f"{number}.log"))
        client.until(lambda frame: any("files hang" in note for note in frame.get("notes", ())), 12.0)
        client.until(lambda frame: all(rows(client, f"bad{number}") for number in range(3)))
        assert "too many" in rows(client, "bad2")[-1]["error"]
        assert longest_gap(client) < 0.8
        started = time.monotonic()
        assert client.close() == 0
        assert time.monotonic() - started < 0.5


IN_D_STATE = """
import os, sys, threading, time

def loads_weights():
    os.stat(sys.argv[1])

threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print("ready", flush=True)
loads_weights()
"""


def test_a_rank_in_an_uninterruptible_wait_still_dumps(tmp_path: Path) -> None:
    """Its main thread cannot take a signal, so another one does: the dump with the main thread's stack comes at once,
    though the process can die only when the file system lets go."""
    log = tmp_path / "log"
    with DeadMount(tmp_path / "dead", swallow=True) as dead, AgentClient(local=True) as client:
        command = [sys.executable, "-X", "faulthandler", "-c", IN_D_STATE, str(dead.path / "weights")]
        with log.open("wb") as file:
            rank = subprocess.Popen(command, stdout=file, stderr=file)
        client.hello()
        while b"ready" not in log.read_bytes():
            time.sleep(0.05)
        time.sleep(0.2)
        answer = client.ask(do="abort", procs=[identity_of(rank.pid)], hold=[])[0]
        assert answer["result"] == "alive"
        text = base64.b64decode(answer["data"]).decode()
        assert "Fatal Python error: Aborted" in text
        assert "in loads_weights" in text
    assert rank.wait(5) == -6
