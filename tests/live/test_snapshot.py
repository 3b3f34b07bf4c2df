"""``snapshot`` as a script calls it: real ssh daemons with different GPUs, one host that is dead."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from tests import nvml_standin
from tests.sshd import SshdFarm, free_port


def snapshot(farm: SshdFarm, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a person would, with the farm's ssh config as the one of the home directory."""
    (home / ".ssh").mkdir(parents=True, exist_ok=True)
    (home / ".ssh" / "config").write_bytes(farm.config.read_bytes())
    env = {**os.environ, "HOME": str(home), "XDG_STATE_HOME": str(home / "state")}
    command = [sys.executable, "-m", "tui", "snapshot", *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=30, check=False)


def left_on(farm: SshdFarm) -> list[psutil.Process]:
    return [p for host in farm.hosts.values() for p in host.descendants() if "sshd" not in p.name()]


def test_four_hosts_with_different_gpus_and_a_dead_one(farm: SshdFarm, tmp_path: Path) -> None:
    """Every number is the right host's, the dead one has a sentence, it takes under 4 s and leaves nothing there."""
    states: dict[str, dict[str, int | str]] = {
        "gpu1": {f"{k}.power": 100_000 + 1000 * k for k in range(8)},
        "gpu2": {"count": 4} | {f"{k}.util": 90 + k for k in range(4)},
        "gpu3": {"count": 2, "1.lost": 1, "0.temp": 77},
        "gpu4": {"init": 18},
    }
    for name, numbers in states.items():
        config = tmp_path / f"{name}.gpus"
        nvml_standin.write(config, numbers)
        farm.add(name, env=nvml_standin.environment(config))
    farm.alias("dead", free_port())
    files = set(Path("/tmp").iterdir()) | set(Path("/dev/shm").iterdir())

    began = time.monotonic()
    done = snapshot(farm, tmp_path / "home", *states, "dead", "--json")
    took = time.monotonic() - began

    assert done.returncode == 0, done.stderr
    hosts: dict[str, Any] = {host["name"]: host for host in json.loads(done.stdout)["hosts"]}
    assert [gpu["power_w"] for gpu in hosts["gpu1"]["gpus"]] == [100.0 + k for k in range(8)]
    assert [gpu["util_pct"] for gpu in hosts["gpu2"]["gpus"]] == [90, 91, 92, 93]
    assert hosts["gpu3"]["gpus"][0]["temp_c"] == 77
    assert "lost" in hosts["gpu3"]["gpus"][1]["error"].lower()
    assert hosts["gpu3"]["gpus"][1]["util_pct"] is None
    assert hosts["gpu4"]["gpus"] is None and "driver" in hosts["gpu4"]["error"]
    assert hosts["dead"]["reachable"] is False and "refuses" in hosts["dead"]["error"]
    assert all(hosts[name]["reachable"] for name in states)
    assert took < 4.0, f"{took:.2f} s"
    deadline = time.monotonic() + 3
    while left_on(farm) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left_on(farm)
    now = set(Path("/tmp").iterdir()) | set(Path("/dev/shm").iterdir())
    assert not [path for path in now - files if "gputop" in path.name and "demo" not in path.name]


def test_no_host_reached_is_said_by_the_exit_code(farm: SshdFarm, tmp_path: Path) -> None:
    farm.alias("dead", free_port())
    done = snapshot(farm, tmp_path / "home", "dead")
    assert done.returncode == 13
    assert "refuses connections" in done.stdout
    assert "Traceback" not in done.stderr


def test_markdown_is_not_broken_by_what_a_host_says(farm: SshdFarm, tmp_path: Path) -> None:
    config = tmp_path / "gpus"
    nvml_standin.write(config, {"count": 1})
    farm.add("gpu1", env=nvml_standin.environment(config))
    done = snapshot(farm, tmp_path / "home", "gpu1", "--markdown")
    assert done.returncode in (0, 10, 11)
    assert "### gpu1: live" in done.stdout
    assert "| 0 | NVIDIA H200 |" in done.stdout
