"""Asking a process for its flight record touches nothing but a pipe that somebody reads."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.agent_client import AgentClient, identity_of


@contextmanager
def rank(**env: str) -> Iterator[int]:
    process = subprocess.Popen(
        [sys.executable, "-c", "print('ready', flush=True)\nimport time\ntime.sleep(60)"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "RANK": "3", **env},
    )
    try:
        assert process.stdout and process.stdout.readline()
        yield process.pid
    finally:
        process.kill()
        process.communicate()


def asked(pid: int) -> dict[str, Any]:
    with AgentClient(local=True) as client:
        client.hello()
        return client.ask(do="recorder", procs=[[*identity_of(pid), None]], timeout_s=20)[0]


def test_without_pipe_and_file_there_is_nothing_to_say() -> None:
    with rank(HOME="/nowhere", XDG_CACHE_HOME="") as pid:
        answer = asked(pid)
    assert not answer.keys() & {"data", "error"}


def test_the_file_that_a_watchdog_wrote_is_brought_without_asking(tmp_path: Path) -> None:
    with rank(TORCH_FR_DUMP_TEMP_FILE=str(tmp_path / "trace_")) as pid:
        (tmp_path / "trace_3").write_bytes(b"a record.")
        answer = asked(pid)
    assert zlib.decompress(base64.b64decode(answer["data"])) == b"a record."
    assert (answer["path"], answer["asked"]) == (str(tmp_path / "trace_3"), False)


def test_a_record_older_than_the_process_is_not_its_own(tmp_path: Path) -> None:
    record = tmp_path / "trace_3"
    record.write_bytes(b"of the last run.")
    os.utime(record, (1_000_000, 1_000_000))
    with rank(TORCH_FR_DUMP_TEMP_FILE=str(tmp_path / "trace_")) as pid:
        assert "data" not in asked(pid)


def made(path: Path, what: str) -> None:
    if what == "fifo":
        os.mkfifo(path)
    elif what == "file":
        path.write_bytes(b"precious")
    elif what == "link":
        path.with_name("elsewhere").write_bytes(b"precious")
        path.symlink_to(path.with_name("elsewhere"))


@pytest.mark.parametrize(
    "what, says",
    [
        ("nothing", "is not there: no NCCL process group yet, or none any more"),
        ("fifo", "nobody reads its flight recorder's pipe"),
        ("file", "is no pipe"),
        ("link", "cannot be written"),
    ],
)
def test_what_is_no_pipe_with_a_reader_is_left_as_it_is(what: str, says: str, tmp_path: Path) -> None:
    made(tmp_path / "pipe3.pipe", what)
    env = {"TORCH_NCCL_DEBUG_INFO_PIPE_FILE": str(tmp_path / "pipe"), "TORCH_FR_DUMP_TEMP_FILE": str(tmp_path / "t")}
    with rank(**env) as pid:
        answer = asked(pid)
    assert says in answer["error"]
    assert all(file.read_bytes() == b"precious" for file in tmp_path.iterdir() if file.is_file())
