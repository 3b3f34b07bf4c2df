"""Simulated GPUs show what real processes do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.agent_client import AgentClient

RANK = """
import sys, time
for line in sys.stdin:
    if line == "burn\\n":
        end = time.process_time() + 2
        while time.process_time() < end:
            pass
    if line == "read\\n":
        open("/dev/zero", "rb", 0).read(64 << 20)
"""


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a driver")
def test_gpus_follow_what_their_ranks_really_do() -> None:
    """Idle, reading, burning CPU, dead: memory, utilisation, power and processes of each GPU follow its own rank."""
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK], stdin=subprocess.PIPE, env={**os.environ, "RANK": str(rank)}, text=True
        )
        for rank in range(3)
    ]
    simulate = {"parent": os.getpid(), "gpus": 4, "mib_per_byte": 100 / (1 << 20)}
    try:
        with AgentClient(local=True, simulate=simulate) as client:
            assert client.hello()["simulated"] is True
            idle = settled(client, lambda row: bool(row["processes"]), ranks=[0, 1, 2])
            assert [row["processes"][0][0] for row in idle[:3]] == [rank.pid for rank in ranks]
            assert all(500 < row["mem_used_mib"] < 3000 and row["util_pct"] <= 5 for row in idle[:3])
            assert (idle[3]["processes"], idle[3]["mem_used_mib"]) == ([], 1)
            assert idle[3]["power_w"] < idle[0]["power_w"] < 200
            tell(ranks[0], "read")
            read = settled(client, lambda row: row["mem_used_mib"] > 6000, ranks=[0])
            assert read[0]["mem_used_mib"] - idle[0]["mem_used_mib"] == pytest.approx(6400, rel=0.2)
            assert read[1]["mem_used_mib"] == pytest.approx(idle[1]["mem_used_mib"], abs=50)
            tell(ranks[1], "burn")
            burnt = settled(client, lambda row: row["util_pct"] > 30, ranks=[1])
            assert burnt[1]["power_w"] > 230
            assert burnt[2]["util_pct"] <= 5
            ranks[0].kill()
            ranks[0].wait()
            dead = settled(client, lambda row: row["processes"] == [], ranks=[0])
            assert (dead[0]["mem_used_mib"], dead[0]["util_pct"]) == (1, 0)
            assert dead[1]["processes"]
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()


def tell(rank: subprocess.Popen[str], word: str) -> None:
    assert rank.stdin
    rank.stdin.write(word + "\n")
    rank.stdin.flush()


def settled(client: AgentClient, wanted: Any, ranks: list[int]) -> list[dict[str, Any]]:
    frame = client.until(
        lambda frame: bool(frame.get("gpus")) and all(wanted(frame["gpus"][rank]) for rank in ranks), 15.0
    )
    return frame["gpus"]
