"""A machine with nothing on it: what a person who has just installed the program sees, and where one key leads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import missing, need_program
from tests.tmux import Tmux


def alone() -> list[str]:
    """A command that runs another one where it sees no process but its own, whatever else this machine does."""
    command = [need_program("unshare"), "--pid", "--fork", "--mount-proc"]
    if os.geteuid() != 0:
        command[1:1] = ["--user", "--map-root-user"]
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode != 0:
        missing("needs the right to make a PID namespace")
    return command


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has GPUs: there is something to see")
def test_nothing_here_offers_the_demo_and_enter_starts_it(tmp_path: Path) -> None:
    """In a side pane: the offer and the hint for the first time; after enter the demo's launch with its GPUs."""
    env = ["env", f"XDG_STATE_HOME={tmp_path / 'state'}", f"XDG_CONFIG_HOME={tmp_path / 'config'}"]
    env.append("LD_LIBRARY_PATH=")  # nor the stand-in for a driver
    command = [*alone(), *env, sys.executable, "-m", "tui"]
    with Tmux(command, columns=48, rows=40) as tmux:
        tmux.wait_for(r"no GPU and no launch", 20)
        tmux.wait_for(r"First time here\?", 5)
        tmux.press("Enter")
        tmux.wait_for(r"SIMULATED", 20)
        tmux.wait_for(r"weight load|\d+/64", 30)
        tmux.press("q")
    with Tmux(command, columns=48, rows=40) as tmux:
        tmux.wait_for(r"no GPU and no launch", 20)
        assert "First time" not in tmux.screen()  # once is enough
