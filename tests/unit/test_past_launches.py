"""The file of past launches: whatever is wrong with it, nobody fails, waits or loses what others wrote."""

from __future__ import annotations

import asyncio
import os
import resource
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.simulated_launch import SimulatedLaunch
from tui.headless.checks.past import past
from tui.history import History
from tui.model import LaunchView, Verdict
from tui.record import netfs, store
from tui.record.baselines import Baselines
from tui.record.likeness import Likeness
from tui.record.measured import Phase
from tui.record.store import LaterSchema, Store
from tui.record.usual import Took

LIKE = Likeness("sglang", "0.5.9", "moe", 8, "NVIDIA H200", "node1")
LOADED = (Phase("weight_load", 1, Took(40.0, 3.0)),)


def kept(folder: Path) -> int:
    with sqlite3.connect(folder / "launches.sqlite") as base:
        return base.execute("SELECT count(*) FROM launch").fetchone()[0]


def seconds(folder: Path, like: Likeness = LIKE) -> list[float]:
    return sorted(took.seconds for took in Store(folder).past(like).get(("weight_load", 1), []))


def test_what_is_kept_is_read_back(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there yet"
    assert Store(folder).past(LIKE) == {}
    Store(folder).keep("boot 1 77", LIKE, LOADED)
    assert Store(folder).past(LIKE) == {("weight_load", 1): [Took(40.0, 3.0)]}


def test_a_launch_counts_once_whoever_saw_it(tmp_path: Path) -> None:
    """Two monitors on one launch: the second adds the phases that the first had not seen, and changes none."""
    Store(tmp_path).keep("boot 1 77", LIKE, LOADED)
    later = (Phase("weight_load", 1, Took(41.0, None)), Phase("warmup", 1, Took(5.0, 0.0)))
    Store(tmp_path).keep("boot 1 77", LIKE, later)
    assert kept(tmp_path) == 1
    assert Store(tmp_path).past(LIKE) == {("weight_load", 1): [Took(40.0, 3.0)], ("warmup", 1): [Took(5.0, 0.0)]}


@pytest.mark.parametrize("field", ["framework", "model", "world_size", "gpu", "version"])
def test_what_is_not_known_is_a_value_of_its_own(tmp_path: Path, field: str) -> None:
    from dataclasses import replace

    unknown = replace(LIKE, **{field: None})
    Store(tmp_path).keep("boot 1 77", unknown, LOADED)
    assert seconds(tmp_path, unknown) == [40.0]
    assert seconds(tmp_path, LIKE) == []


def test_until_a_log_tells_its_version_it_is_taken_to_be_the_newest_one(tmp_path: Path) -> None:
    """The first phases come before the line with the version; they must not be without a baseline for that."""
    from dataclasses import replace

    Store(tmp_path).keep("boot 1 77", replace(LIKE, version="0.5.8"), LOADED)
    Store(tmp_path).keep("boot 2 77", LIKE, (Phase("weight_load", 1, Took(50.0, 3.0)),))
    assert seconds(tmp_path, replace(LIKE, version=None)) == [50.0]


def test_the_oldest_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    for n in range(store.KEPT_ALIKE + 5):
        Store(tmp_path).keep(f"boot {n} 77", LIKE, (Phase("weight_load", 1, Took(float(n), 0.0)),))
    assert seconds(tmp_path) == [float(n) for n in range(5, store.KEPT_ALIKE + 5)]
    monkeypatch.setattr(store, "KEPT", 10)
    Store(tmp_path).keep("boot 99 77", replace(LIKE, hosts="node2"), LOADED)
    assert kept(tmp_path) == 10
    with sqlite3.connect(tmp_path / "launches.sqlite") as base:
        assert base.execute("SELECT count(*) FROM phase").fetchone() == (10,), "and their phases with them"


_WRITER = """
import sys
from pathlib import Path
from tests.unit.test_past_launches import LIKE, LOADED
from tui.record.store import Store
sys.stdin.readline()
for n in range(15):
    Store(Path(sys.argv[1])).keep(f"boot {sys.argv[2]} {n}", LIKE, LOADED)
"""


def test_two_monitors_write_at_once_into_a_new_file(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _WRITER, str(tmp_path)]
    writers = [subprocess.Popen([*command, str(n)], stdin=subprocess.PIPE, text=True) for n in range(2)]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    assert [writer.wait(60) for writer in writers] == [0, 0]
    assert kept(tmp_path) == 30


_KILLED = """
import os, signal, sqlite3, sys
base = sqlite3.connect(sys.argv[1], isolation_level=None)
base.execute("PRAGMA cache_size = 1")
base.execute("BEGIN IMMEDIATE")
base.execute("UPDATE phase SET seconds = 0")
base.executemany("INSERT INTO phase VALUES (1, 'x', ?, 1.0, 0.0)", [(n,) for n in range(20000)])
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_monitor_that_is_killed_while_it_writes_takes_nothing_along(tmp_path: Path) -> None:
    """Half of its writing is in the file already: the next one who looks sets it right."""
    Store(tmp_path).keep("boot 1 77", LIKE, LOADED)
    path = tmp_path / "launches.sqlite"
    before = path.stat().st_size
    subprocess.run([sys.executable, "-c", _KILLED, str(path)], check=False)
    assert (tmp_path / "launches.sqlite-journal").exists() and path.stat().st_size > before
    assert seconds(tmp_path) == [40.0]
    Store(tmp_path).keep("boot 2 77", LIKE, LOADED)
    assert kept(tmp_path) == 2


# --------------------------------------------------------------------------------------------- what is wrong with it


def arrived(history: History, t: float) -> LaunchView:
    """A launch that has just become ready; its import was measured."""
    from tui.model import PhaseSpan

    sim = SimulatedLaunch(2)
    sim.t = t
    history.add(sim.tick())
    spans = (PhaseSpan("weight_load", t - 40.0, t - 1.0), PhaseSpan("serving", t - 1.0))
    return LaunchView(sim.launch, Verdict(t, "ready", phase="serving"), spans, seen_since=t - 50.0, ahead=("serving",))


async def slowest_turn(baselines: Baselines, seconds: float) -> float:
    """Feed a session's baselines while they are in trouble; gives back the longest that the event loop stood still."""
    history, loop, worst = History(), asyncio.get_running_loop(), 0.0
    end = loop.time() + seconds
    while loop.time() < end:
        began = loop.time()
        view = arrived(history, loop.time())
        baselines.note(history, [view])
        assert baselines.usual(view.launch) == {}
        await asyncio.sleep(0.005)
        worst = max(worst, loop.time() - began - 0.005)
    await baselines.close()
    return worst


async def test_a_locked_file_is_no_baseline_and_blocks_nothing(tmp_path: Path) -> None:
    Store(tmp_path).keep("boot 1 77", LIKE, LOADED)
    holder = sqlite3.connect(tmp_path / "launches.sqlite", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        assert await slowest_turn(Baselines(tmp_path), 3.0) < 0.25
        began = time.monotonic()
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            Store(tmp_path).past(LIKE)
        assert time.monotonic() - began < store.READ_WAIT_S + 1.0
    finally:
        holder.close()
    assert seconds(tmp_path) == [40.0]


@pytest.mark.parametrize("content", [b"", b"no database at all, but long enough to look like one" * 40, None])
async def test_a_broken_file_is_left_alone(tmp_path: Path, content: bytes | None) -> None:
    """Garbage, or a good file whose second half is gone. An empty file is a new one."""
    path = tmp_path / "launches.sqlite"
    if content is None:
        for n in range(20):
            Store(tmp_path).keep(f"boot {n} 77", LIKE, [Phase("weight_load", k, Took(1.0, None)) for k in range(50)])
        content = path.read_bytes()[: path.stat().st_size // 2]
    path.write_bytes(content)
    assert await slowest_turn(Baselines(tmp_path), 0.2) < 0.25
    if content:
        assert path.read_bytes() == content
        with pytest.raises(sqlite3.DatabaseError):
            Store(tmp_path).keep("boot 99 77", LIKE, LOADED)


def test_a_file_of_a_later_release_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "launches.sqlite"
    Store(tmp_path).keep("boot 1 77", LIKE, LOADED)
    with sqlite3.connect(path) as base:
        base.execute(f"PRAGMA user_version = {store.SCHEMA + 1}")
    before = path.read_bytes()
    with pytest.raises(LaterSchema):
        Store(tmp_path).past(LIKE)
    with pytest.raises(LaterSchema):
        Store(tmp_path).keep("boot 2 77", LIKE, LOADED)
    assert path.read_bytes() == before


def in_child(what: object, *, uid: int | None = None, file_bytes: int | None = None) -> str:
    """Run ``what`` in a forked child with fewer rights; gives back the name of the exception, or nothing."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = ""
        try:
            if file_bytes is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
            if uid is not None and os.getuid() == 0:
                os.setuid(uid)
            what()  # type: ignore[operator]
        except BaseException as error:
            said = type(error).__name__
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as answer:
        return answer.read()


def test_a_full_disk_costs_only_the_new_launch(tmp_path: Path) -> None:
    """The file cannot grow: what it held stays."""
    Store(tmp_path).keep("boot 1 77", LIKE, LOADED)
    many = [Phase("weight_load", n, Took(1.0, None)) for n in range(5000)]
    full = (tmp_path / "launches.sqlite").stat().st_size
    said = in_child(lambda: Store(tmp_path).keep("boot 2 77", LIKE, many), file_bytes=full)
    assert said in ("OperationalError", "DatabaseError")
    assert seconds(tmp_path) == [40.0]
    assert kept(tmp_path) == 1


def test_a_folder_that_may_not_be_written_is_still_read(tmp_path: Path) -> None:
    Store(tmp_path).keep("boot 1 77", LIKE, LOADED)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.getuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    tmp_path.chmod(0o555)
    try:
        assert in_child(lambda: Store(tmp_path).keep("boot 2 77", LIKE, LOADED), uid=65534) == "OperationalError"
        assert in_child(lambda: _check(seconds(tmp_path) == [40.0]), uid=65534) == ""
    finally:
        tmp_path.chmod(0o755)


def _check(holds: bool) -> None:
    assert holds


async def test_a_state_folder_that_cannot_be_is_no_baseline(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert await slowest_turn(Baselines(tmp_path / "file" / "state"), 0.2) < 0.25


# ----------------------------------------------------------------------------------------------- what doctor says of it


def said_of(folder: Path) -> str:
    return " ".join(f"{finding.text} {finding.do} {finding.command}" for finding in past(folder))


@pytest.mark.parametrize(
    ("course", "words"),
    [
        ("garbage", "file is not a database"),
        ("half", "malformed"),
        ("later", "schema 2 is later than 1"),
        ("folder", "unable to open database file"),
    ],
)
def test_doctor_says_that_the_file_cannot_be_used_and_what_to_do(tmp_path: Path, course: str, words: str) -> None:
    path = tmp_path / "launches.sqlite"
    for n in range(20):
        Store(tmp_path).keep(f"boot {n} 77", LIKE, [Phase("weight_load", k, Took(1.0, None)) for k in range(50)])
    if course == "garbage":
        path.write_bytes(b"no database at all, but long enough to look like one" * 40)
    elif course == "half":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    elif course == "later":
        with sqlite3.connect(path) as base:
            base.execute(f"PRAGMA user_version = {store.SCHEMA + 1}")
    else:
        path.unlink()
        path.mkdir()
    before = sorted(tmp_path.iterdir())
    (finding,) = past(tmp_path)
    assert words in finding.text and str(path) in finding.text
    assert sorted(tmp_path.iterdir()) == before, "it only looks"
    subprocess.run(["sh", "-c", finding.command], check=True)
    assert past(tmp_path) == []
    Store(tmp_path).keep("boot 1 77", LIKE, LOADED)
    assert seconds(tmp_path) == [40.0]


def test_doctor_says_nothing_where_all_is_in_order(tmp_path: Path) -> None:
    assert past(tmp_path / "not" / "there") == []
    Store(tmp_path).keep("boot 1 77", LIKE, LOADED)
    assert past(tmp_path) == []
    holder = sqlite3.connect(tmp_path / "launches.sqlite", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    assert past(tmp_path) == [], "somebody only writes into it"
    holder.close()


def test_doctor_says_that_the_folder_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    said = said_of(tmp_path / "file" / "state")
    assert "Make " in said and "mv" not in said


def test_doctor_says_that_the_folder_cannot_be_entered(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    Store(folder).keep("boot 1 77", LIKE, LOADED)
    for above in (tmp_path, *tmp_path.parents):
        if above.stat().st_uid == os.getuid() and above != Path("/"):
            above.chmod(above.stat().st_mode | 0o055)
    assert past(folder) == []
    folder.chmod(0)
    try:
        wanted = f"Make {folder} a folder that this user may write into."
        assert in_child(lambda: _check(wanted in said_of(folder)), uid=65534) == ""
    finally:
        folder.chmod(0o755)


def test_doctor_waits_for_no_dead_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    never = threading.Event()
    monkeypatch.setattr(Store, "fault", lambda store: never.wait(10) and None)
    began = time.monotonic()
    assert "does not answer" in said_of(tmp_path)
    assert time.monotonic() - began < 3
    never.set()


# ------------------------------------------------------------------------------------------------------- file systems


def test_the_type_of_a_file_system_is_read_as_stat_reads_it(tmp_path: Path) -> None:
    for folder in (tmp_path, Path("/proc"), Path("/dev/shm")):
        said = subprocess.run(["stat", "-f", "-c", "%t", str(folder)], capture_output=True, text=True, check=True)
        assert netfs.fs_type(folder) == int(said.stdout, 16)
        assert not netfs.on_network(folder) or folder == tmp_path
    with pytest.raises(OSError, match="absent"):
        netfs.fs_type(tmp_path / "absent")


@pytest.mark.parametrize("number", [0x6969, 0xFF534D42, 0xFE534D42, 0x0BD00BD0, 0x47504653, 0x00C36400, 0x65735546])
def test_on_a_network_file_system_each_machine_keeps_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Numbers of NFS, CIFS, SMB 2, Lustre, GPFS, Ceph and FUSE (magic.h); ext4's, XFS's and tmpfs' are local."""
    monkeypatch.setattr(netfs, "fs_type", lambda folder: number)
    Store(tmp_path).keep("boot 1 77", LIKE, LOADED)
    assert [path.name for path in tmp_path.iterdir()] == [f"launches-{os.uname().nodename}.sqlite"]
    assert seconds(tmp_path) == [40.0]
    for local in (0xEF53, 0x58465342, 0x01021994, None):
        monkeypatch.setattr(netfs, "fs_type", lambda folder, local=local: local)
        assert not netfs.on_network(tmp_path)


def test_never_wal(tmp_path: Path) -> None:
    Store(tmp_path).keep("boot 1 77", LIKE, LOADED)
    with sqlite3.connect(tmp_path / "launches.sqlite") as base:
        assert base.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert [path.name for path in tmp_path.iterdir()] == ["launches.sqlite"]
