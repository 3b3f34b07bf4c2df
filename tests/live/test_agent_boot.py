"""The boot line under real shells and real Pythons."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.agent_client import AgentClient, identity_of
from tests.conftest import missing, need_program
from tui.collect import payload

PYENV = Path.home() / ".pyenv" / "versions"
PYTHONS = ["3.6", "3.7", "3.8", "3.9", "3.10", "3.11", "3.12", "3.13"]

NOISY_BASH = "echo noise from rc; printf 'binary \\000\\001 noise'; echo on stderr >&2\n"


def old_python(version: str) -> str:
    found = sorted(PYENV.glob(f"{version}.*/bin/python3"))
    if not found:
        missing(f"needs Python {version} under ~/.pyenv")
    return str(found[-1])


def test_the_first_frames_come_fast_and_in_order() -> None:
    """Hello comes first, and the first tick, with this very process among the new ones, within a second."""
    with AgentClient(local=True) as client:
        hello = client.hello()
        client.until(lambda frame: any(row["pid"] == os.getpid() for row in frame.get("new", ())))
        assert client.frames[0] is hello
        assert hello["v"] == 1
        assert hello["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        assert client.frames[1]["type"] == "tick"
        assert client.frames[-1]["_at"] < 1.0


@pytest.mark.parametrize("shell", ["bash", "sh", "dash", "fish", "tcsh"])
def test_boots_under_every_login_shell(shell: str) -> None:
    """One boot line serves shells with different quoting rules."""
    with AgentClient([need_program(shell), "-c", payload.BOOT]) as client:
        assert client.hello()["v"] == 1
        assert client.tick()["procs"] == []


def test_noise_of_rc_files_is_thrown_away(tmp_path: Path) -> None:
    """A login shell that prints text and binary before our data does not corrupt the stream."""
    (tmp_path / ".bash_profile").write_text(NOISY_BASH)
    with AgentClient([need_program("bash"), "-lc", payload.BOOT], env={"HOME": str(tmp_path)}) as client:
        client.hello()
        assert b"noise from rc" in client.noise
        assert client.tick()["type"] == "tick"


def test_requests_may_follow_right_behind_the_payload() -> None:
    """The boot reads exactly its bytes: a request in the same write is answered."""
    data = payload.payload() + b'{"id": 7, "do": "ping"}\n'
    with AgentClient(data=data) as client:
        answer = client.until(lambda frame: frame["type"] == "answer")
        assert answer["id"] == 7
        assert abs(answer["wall"] - time.time()) < 5


def test_no_python_is_97(tmp_path: Path) -> None:
    """A host whose only python3 is a broken shim or too old is told from one that breaks down later."""
    broken = tmp_path / "python3"
    broken.write_text("#!/bin/sh\nexit 127\n")
    broken.chmod(0o755)
    sh = need_program("sh")
    boot = payload.BOOT.replace("/usr/libexec/platform-python /usr/bin/python3", "/nonexistent/python3")
    (tmp_path / "sh").symlink_to(sh)
    done = subprocess.run([sh, "-c", boot], env={"PATH": str(tmp_path)}, input=payload.payload(), capture_output=True)
    assert done.returncode == payload.NO_PYTHON
    broken.unlink()
    done = subprocess.run([sh, "-c", boot], env={"PATH": str(tmp_path)}, input=b"", capture_output=True)
    assert done.returncode == payload.NO_PYTHON


def test_a_python_that_is_too_old_is_97() -> None:
    """Python 2.7 refuses by itself before it reads a byte."""
    old = list(PYENV.glob("2.7.*/bin/python"))
    if not old:
        missing("needs Python 2.7 under ~/.pyenv")
    line = payload.local_command()[-1]
    done = subprocess.run([old[0], "-c", line], input=payload.payload(), capture_output=True)
    assert done.returncode == payload.NO_PYTHON


@pytest.mark.parametrize("kept", [0, 100, 5000, 70000])
def test_a_truncated_payload_is_98(kept: int) -> None:
    """Wherever the payload breaks off, the boot falls through with its own exit code."""
    done = subprocess.run(payload.local_command(), input=payload.payload()[:kept], capture_output=True, timeout=10)
    assert done.returncode == payload.FELL_THROUGH
    assert payload.SYNC not in done.stdout


def test_a_garbled_payload_is_98() -> None:
    """Bytes that are no payload (a proxy's error text) end the boot too."""
    whole = payload.payload()
    start = whole.index(b"modules\n")
    done = subprocess.run(
        payload.local_command(), input=whole[:start] + b"x" * 40 + whole[start:], capture_output=True, timeout=10
    )
    assert done.returncode == payload.FELL_THROUGH


@pytest.mark.parametrize("version", PYTHONS)
def test_runs_under_every_python_from_3_6(version: str, tmp_path: Path) -> None:
    """Processes, logs, looks, signals and put really work under each interpreter."""
    log = tmp_path / "log"
    log.write_text("one\ntwo\n")
    with (
        subprocess.Popen(["sleep", "60"]) as sleeper,
        AgentClient([old_python(version), *payload.local_command()[1:]]) as client,
    ):
        assert client.hello()["python"].startswith(version + ".")
        client.send(do="watch", procs=[identity_of(sleeper.pid)])
        client.send(do="follow", key="log", path=str(log))
        tick = client.until(lambda frame: bool(frame.get("logs")) and bool(frame.get("procs")))
        assert tick["procs"][0]["pid"] == sleeper.pid
        assert tick["logs"][0]["lines_total"] == 2
        threads = client.ask(do="look", what="threads", procs=[sleeper.pid])[0]["threads"]
        assert [thread["tid"] for thread in threads[str(sleeper.pid)]] == [sleeper.pid]
        assert client.ask(do="signal", procs=[(sleeper.pid, 1)], signal=15)[0]["result"] == "reused"
        assert client.ask(do="signal", procs=[identity_of(sleeper.pid)], signal=15)[0]["result"] == "sent"
        assert sleeper.wait(5) == -15
