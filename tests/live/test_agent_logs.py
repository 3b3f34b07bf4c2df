"""Logs that grow, rotate, are cut, vanish and flood while a real agent follows them."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent_client import AgentClient, Frame


@pytest.fixture
def client() -> Iterator[AgentClient]:
    with AgentClient(local=True) as client:
        client.hello()
        client.send(do="interval", s=0.2)
        yield client


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "launch.log"
    path.write_bytes(b"first\n")
    return path


def follow(client: AgentClient, path: Path, **more: Any) -> None:
    client.send(do="follow", key="log", path=str(path), **more)


def pieces(client: AgentClient) -> list[dict[str, Any]]:
    return [row for frame in client.frames for row in frame.get("logs", ())]


def text(row: dict[str, Any]) -> bytes:
    return base64.b64decode(row["data"])


def has(data: bytes) -> Any:
    """Wait for a frame with a piece of this content."""
    return lambda frame: any(data in text(row) for row in frame.get("logs", ()))


def change(name: str) -> Any:
    return lambda frame: any(row["change"] == name for row in frame.get("logs", ()))


def the_log(frame: Frame) -> dict[str, Any]:
    return frame["logs"][0]


def test_what_lies_there_and_what_comes(client: AgentClient, log: Path) -> None:
    """Every byte arrives once and in order, a partial last line included; offsets, lines, size and inode are true."""
    follow(client, log)
    first = the_log(client.until(has(b"first")))
    assert (first["offset"], first["lines_total"], first["size"]) == (0, 1, 6)
    assert first["inode"] == log.stat().st_ino
    with log.open("ab") as file:
        for piece in (b"second\nthi", b"rd\n\xff\xfe 12%\r", b"99%\r"):
            file.write(piece)
            file.flush()
            client.until(has(piece))
    assert b"".join(map(text, pieces(client))) == log.read_bytes()
    assert pieces(client)[-1]["lines_total"] == 3
    assert all(row["skipped_bytes"] == 0 and row["error"] is None for row in pieces(client))


def test_a_quiet_log_costs_nothing_on_the_wire(client: AgentClient, log: Path) -> None:
    """Without news a log is not in the frame at all."""
    follow(client, log)
    client.until(has(b"first"))
    client.tick()
    assert client.tick()["logs"] == []


def test_a_large_log_gives_its_head_and_its_tail(client: AgentClient, tmp_path: Path) -> None:
    """Late attach: 256 KiB from the start, 1 MiB from the end, the gap counted, lines unknown."""
    path = tmp_path / "big.log"
    path.write_bytes(b"".join(b"line %07d\n" % number for number in range(400_000)))
    follow(client, path)
    client.until(has(b"line 0399999\n"))
    head, tail = pieces(client)
    size = path.stat().st_size
    assert (head["offset"], len(text(head))) == (0, 256 << 10)
    assert (tail["offset"], len(text(tail))) == (size - (1 << 20), 1 << 20)
    assert tail["skipped_bytes"] == size - (1 << 20) - (256 << 10)
    assert tail["lines_total"] is None


def test_the_middle_of_a_huge_log_gives_its_markers_within_the_budget(client: AgentClient, tmp_path: Path) -> None:
    """2 GB that lay there: head and tail, and from between them the matching lines that are near the end."""
    path = tmp_path / "huge.log"
    with path.open("wb") as file:
        file.write(b"first line\n")
        file.truncate(2 << 30)
        file.seek((2 << 30) - (5 << 20))
        file.write(b"\nCapture cuda graph begin. old\n" + b"nothing to see here\n" * 100_000)
        file.seek(2 << 30)
        file.write(b"\nthe end\n")
    client.send(do="filter", patterns=["Capture cuda graph begin"], words=[[["Capture"], ["graph"]]])
    follow(client, path)
    client.until(has(b"the end\n"))
    head, middle, tail = pieces(client)
    assert (head["offset"], text(middle)) == (0, b"Capture cuda graph begin. old\n")
    assert sum(len(text(row)) + row["skipped_bytes"] for row in pieces(client)) == path.stat().st_size
    assert tail["lines_total"] is None


def test_resumes_at_an_offset(client: AgentClient, log: Path) -> None:
    """A monitor that reconnects asks from where it was, and gets nothing twice."""
    follow(client, log, offset=6)
    client.tick()
    with log.open("ab") as file:
        file.write(b"second\n")
    client.until(has(b"second"))
    assert b"".join(map(text, pieces(client))) == b"second\n"


def test_rotation_by_rename_loses_nothing(client: AgentClient, log: Path) -> None:
    """What was written to the old file just before it was renamed still arrives, then the new file from its start."""
    follow(client, log)
    client.until(has(b"first"))
    with log.open("ab") as file:
        file.write(b"last words\n")
    log.rename(log.with_suffix(".1"))
    log.write_bytes(b"new file\n")
    client.until(has(b"new file"))
    assert b"".join(map(text, pieces(client))) == b"first\nlast words\nnew file\n"
    rotated = [row for row in pieces(client) if row["change"] == "rotated"]
    assert [(row["offset"], row["lines_total"], row["inode"]) for row in rotated] == [(0, 1, log.stat().st_ino)]


def test_truncation_begins_anew(client: AgentClient, log: Path) -> None:
    """``> log`` in place: the same inode, from 0."""
    follow(client, log)
    client.until(has(b"first"))
    log.write_bytes(b"2nd\n")
    row = the_log(client.until(has(b"2nd\n")))
    assert (row["change"], row["offset"], row["lines_total"]) == ("truncated", 0, 1)


def test_copytruncate_is_seen_even_when_the_file_has_grown_again(client: AgentClient, log: Path) -> None:
    """Between two polls the file was cut and grew past the old offset: other bytes before it give that away."""
    follow(client, log)
    client.until(has(b"first"))
    os.truncate(log, 0)
    with log.open("ab") as file:
        file.write(b"longer than what was there before\n")
    row = the_log(client.until(has(b"longer")))
    assert (row["change"], row["offset"]) == ("truncated", 0)


def test_a_writer_without_append_leaves_a_hole_that_is_not_shipped(client: AgentClient, log: Path) -> None:
    """After copytruncate such a writer goes on at its old offset; a megabyte of NULs is no news."""
    with log.open("r+b") as file:
        file.seek(1 << 20)
        file.write(b"x" * 100 + b"\n")
        file.flush()
        follow(client, log)
        client.until(has(b"xxx"))
        seen = len(pieces(client))
        os.truncate(log, 0)
        file.write(b"after the hole\n")
        file.flush()
        client.until(has(b"after the hole"))
    assert sum(len(text(row)) for row in pieces(client)[seen:]) <= 8192


def test_a_deleted_log_is_read_on(client: AgentClient, log: Path) -> None:
    """The writer keeps its descriptor and so do we; a new file of that name is a rotation."""
    follow(client, log)
    client.until(has(b"first"))
    with log.open("ab") as file:
        log.unlink()
        client.until(change("deleted"))
        file.write(b"into the void\n")
        file.flush()
        client.until(has(b"into the void"))
    log.write_bytes(b"again\n")
    assert the_log(client.until(has(b"again")))["change"] == "rotated"


def test_a_log_that_was_deleted_before_we_came(client: AgentClient, tmp_path: Path) -> None:
    """Through the writer's own descriptor, from the first byte."""
    path = tmp_path / "gone.log"
    source = (
        "import os, sys, time\n"
        "file = open(sys.argv[1], 'w')\n"
        "print('hello', file=file, flush=True)\n"
        "os.unlink(sys.argv[1])\n"
        "print(file.fileno(), flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", source, path], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout
        number = int(writer.stdout.readline())
        follow(client, path, fd=[writer.pid, number])
        client.until(has(b"hello\n"))
        writer.kill()


def test_a_log_that_does_not_exist_yet(client: AgentClient, tmp_path: Path) -> None:
    """One sentence, and when it appears all of it."""
    path = tmp_path / "later.log"
    follow(client, path)
    row = the_log(client.until(lambda frame: bool(frame.get("logs"))))
    assert row["error"] == f"{path} does not exist"
    path.write_bytes(b"here\n")
    row = the_log(client.until(has(b"here")))
    assert (row["change"], row["error"]) == ("appeared", None)


def test_a_fifo_is_refused(client: AgentClient, tmp_path: Path) -> None:
    """Reading a pipe would steal from its reader."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    follow(client, path)
    row = the_log(client.until(lambda frame: bool(frame.get("logs"))))
    assert "not a regular file" in row["error"]


def test_a_flood_keeps_every_match_the_last_lines_and_the_count(client: AgentClient, log: Path) -> None:
    """20 MB within a tick: all 140 markers arrive, in order, the tail is whole, and sent plus skipped is all."""
    client.send(do="filter", patterns=["Capture (cuda )?graph (begin|end)", r"NCCL WARN.*\d"])
    follow(client, log)
    client.until(has(b"first"))
    block = b"[2026-01-01] Decode batch. #running-req: 12, gen throughput (token/s): 812.21, #queue-req: 0\n" * 1500
    with log.open("ab") as file:
        for number in range(140):
            file.write(block + b"Capture cuda graph begin. %d\n" % number)
        file.write(b"the end\n")
    client.until(has(b"the end\n"))
    sent = b"".join(map(text, pieces(client)))
    markers = [line for line in sent.split(b"\n") if b"Capture" in line]
    assert markers == [b"Capture cuda graph begin. %d" % number for number in range(140)]
    assert log.read_bytes().endswith(text(pieces(client)[-1]))
    assert len(text(pieces(client)[-1])) > 60_000
    assert len(sent) < 300_000
    assert len(sent) + sum(row["skipped_bytes"] for row in pieces(client)) == log.stat().st_size
    assert pieces(client)[-1]["lines_total"] == 1 + 140 * 1501 + 1


def test_twenty_megabytes_cost_the_main_process_under_5_ms_more(client: AgentClient, log: Path) -> None:
    """Redraws and lines alike: the helper reads, the loop only passes on what is left."""
    client.send(do="filter", patterns=["Capture graph begin", "shards: .*done"])
    follow(client, log)
    client.until(has(b"first"))
    for block in (b"shards:  3/64 " + b"#" * 85 + b"\r", b"Decode batch, nothing to see here" + b"." * 66 + b"\n"):
        client.pump(1.0)
        before = cpu_ms(client.process.pid)
        client.pump(1.2)
        idle_ms = cpu_ms(client.process.pid) - before
        with log.open("ab") as file:
            file.write(block * 200_000)
        before = cpu_ms(client.process.pid)
        client.pump(1.2)
        assert pieces(client)[-1]["size"] == log.stat().st_size
        assert cpu_ms(client.process.pid) - before - idle_ms < 5.0


def cpu_ms(pid: int) -> float:
    """CPU time of a process's main thread so far, to the microsecond (the kernel's ``schedstat``)."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e6
