"""NCCL's RAS is found and asked by the agent's own client: both forms of the answer, and all that can go wrong."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.agent_client import AgentClient, identity_of
from tests.conftest import missing, need_program
from tests.watching import Watcher, watched
from tui.collect.local import LocalChannel
from tui.model import Launch, Member
from tui.session.capture import Capture

SAMPLES = Path(__file__).parent.parent / "samples" / "ras"


class Server:
    def __init__(self, mode: str, body: Path, port: int = 0, env: dict[str, str] | None = None) -> None:
        command = [sys.executable, "-m", "tests.ras_standin", str(port), mode, str(body)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, **(env or {})}, cwd=Path(__file__).parents[2]
        )
        assert self.process.stdout
        self.port = int(self.process.stdout.readline())
        self.pid = self.process.pid

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


def free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


@contextmanager
def server(mode: str, body: Path) -> Iterator[Server]:
    port = free_port()
    running = Server(mode, body, port, {"NCCL_RAS_ADDR": f"127.0.0.1:{port}"})
    try:
        yield running
    finally:
        running.end()


def asked(*pids: int) -> list[dict[str, Any]]:
    with AgentClient(local=True) as client:
        client.hello()
        return client.ask(do="ras", procs=[identity_of(pid) for pid in pids], timeout_s=28)[0]["asked"]


def body_of(row: dict[str, Any]) -> str:
    return zlib.decompress(base64.b64decode(row["data"])).decode()


@pytest.mark.parametrize("mode", ["json", "text", "slow"])
def test_it_is_asked_in_the_form_that_it_knows(mode: str) -> None:
    sample = SAMPLES / ("ok.text.txt" if mode == "text" else "ok.json.txt")
    with server(mode, sample) as ras:
        (row,) = asked(ras.pid)
    assert body_of(row) == sample.read_text()
    assert (row["format"], row["protocol"]) == ("text" if mode == "text" else "json", "2")
    assert (row["address"], row["pids"]) == (f"127.0.0.1:{ras.port}", [ras.pid])
    assert row["duration_s"] >= (3 if mode == "slow" else 0)


BROKEN = {
    "silent": "accepts and stays silent (6 tries): its processes are stopped",
    "stalls": "began to answer and fell silent",
    "breaks": "broke off at TIMEOUT 5",
    "stranger": "is no NCCL RAS: it said 'HTTP/1.1 400 Bad Request'",
    "long": "broke off at CLIENT PROTOCOL 2",
}


@pytest.mark.parametrize("mode", BROKEN)
def test_what_does_not_answer_gives_a_sentence_in_time(mode: str) -> None:
    began = time.monotonic()
    with server(mode, SAMPLES / "ok.json.txt") as ras:
        (row,) = asked(ras.pid)
    assert BROKEN[mode] in row["error"]
    assert "data" not in row
    assert time.monotonic() - began < 15


def test_a_stopped_process_does_not_hide_those_that_share_its_port() -> None:
    """Each connection reaches any of them; silence means: try again."""
    port = free_port()
    env = {"NCCL_RAS_ADDR": f"127.0.0.1:{port}"}
    servers = [Server(mode, SAMPLES / "ok.json.txt", port, env) for mode in ("json", "json", "json")]
    try:
        os.kill(servers[0].pid, signal.SIGSTOP)
        for _ in range(3):
            rows = asked(*(s.pid for s in servers))
            assert len(rows) == 1, "they share one address"
            assert '"communicators"' in body_of(rows[0])
    finally:
        for running in servers:
            running.end()


def test_nobody_is_asked_where_there_is_no_ras() -> None:
    """No thread of that name and no listener at the address: not even a connection is made."""
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        assert asked(sleeper.pid) == []
    finally:
        sleeper.kill()
        sleeper.wait()


def test_a_container_with_a_network_of_its_own_is_asked_inside() -> None:
    """Its loopback is another one: the client steps in for the question, as root may."""
    unshare, ip = need_program("unshare"), need_program("ip")
    if os.getuid() != 0:
        missing("needs root for a network namespace")
    script = f'{ip} link set lo up && exec "$@"'
    command = [sys.executable, "-m", "tests.ras_standin", "28028", "json", str(SAMPLES / "ok.json.txt")]
    inside = subprocess.Popen(
        [unshare, "--net", "sh", "-c", script, "sh", *command],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    try:
        assert inside.stdout and inside.stdout.readline() == "28028\n"
        (row,) = asked(inside.pid)
        assert row["address"] == "localhost:28028" and '"communicators"' in body_of(row)
    finally:
        inside.kill()
        inside.communicate()


def _body(pids: list[int], counts: list[int]) -> str:
    zero = {"Broadcast": 0, "Reduce": 0, "AllGather": 0, "ReduceScatter": 0}
    status = {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False, "abort_flag": False}
    ranks = [
        {
            "rank": n,
            "host": "127.0.0.1",
            "pid": pid,
            "cuda_dev": n,
            "nvml_dev": n,
            "status": status,
            "collective_counts": {**zero, "AllReduce": count},
        }
        for n, (pid, count) in enumerate(zip(pids, counts, strict=True))
    ]
    comm = {"hash": "0x27", "secondary_hash": "0x1:0x2", "size": len(pids), "ranks_count": len(pids)}
    comm |= {"missing_ranks_count": 0, "ranks": ranks, "missing_ranks": []}
    return json.dumps({"nccl_version": "2.30.7", "communicators_count": 1, "communicators": [comm]})


@pytest.mark.parametrize("moving", [False, True])
async def test_two_polls_of_a_launch_name_who_is_behind_unless_it_moves(moving: bool, tmp_path: Path) -> None:
    """Four ranks wait alike; only RAS knows that rank 2 has launched one collective less. What moves between the polls
    is slow, and nobody is named."""
    body = tmp_path / "body.json"
    body.write_text("")
    port = free_port()
    env = {"NCCL_RAS_ADDR": f"127.0.0.1:{port}"}
    servers = [Server("json", body, port, env) for _ in range(4)]
    pids = [s.pid for s in servers]
    try:
        body.write_text(_body(pids, [40, 40, 39, 40]))
        watcher = Watcher()
        async with watched(watcher, here=LocalChannel()) as hosts:
            await watcher.until_state("here", "live")
            launch = Launch(
                "job",
                "job",
                ("here",),
                members=tuple(Member("here", *identity_of(pid), rank=n) for n, pid in enumerate(pids)),
            )

            def shown(dump: Any) -> None:
                if moving and any(s.method == "NCCL RAS" and s.duration_s for s in dump.steps):
                    body.write_text(_body(pids, [44, 44, 43, 44]))

            dump = await Capture(hosts, shown).stacks(launch)
    finally:
        for running in servers:
            running.end()
    polls = [s for s in dump.steps if s.method.startswith("NCCL RAS")]
    assert [s.method for s in polls] == ["NCCL RAS", "NCCL RAS again"]
    assert polls[1].started_wall - polls[0].started_wall >= 2
    assert [r.kind for r in dump.raw] == ["nccl_ras", "nccl_ras"]
    assert dump.merged is not None
    assert dump.merged.odd_ranks == (() if moving else (2,)), dump.merged.why
