"""Looks of a real agent at real things: locks, full pipes, full file systems, control groups, sockets, tracers."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent_client import AgentClient, identity_of
from tests.conftest import missing
from tests.dead_mount import DeadMount
from tui.diagnose.lock_owner import owner_alive

SLEEPER = "import sys, time; print('up', flush=True); time.sleep(120)"


@pytest.fixture(scope="module")
def agent() -> Iterator[AgentClient]:
    with AgentClient(local=True, silence_s=600.0) as client:
        client.hello()
        yield client


@contextlib.contextmanager
def running(code: str, *args: str, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has said a line; it is killed afterwards."""
    process = subprocess.Popen([sys.executable, "-c", code, *args], stdout=subprocess.PIPE, **options)
    try:
        assert process.stdout and process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.wait()


def look(agent: AgentClient, what: str, *pids: int, **args: Any) -> dict[str, Any]:
    (answer,) = agent.ask(do="look", what=what, procs=[identity_of(pid) for pid in pids], **args)
    assert "error" not in answer, answer
    return answer


# -------------------------------------------------------------------------------------------------------------- locks


def home(folder: Path, **more: str) -> dict[str, str]:
    moved = ("XDG_CACHE_HOME", "TORCH_EXTENSIONS_DIR", "HF_HOME", "HF_HUB_CACHE", "TMPDIR", "TORCHINDUCTOR_CACHE_DIR")
    kept = {name: value for name, value in os.environ.items() if name not in moved}
    return {**kept, "HOME": str(folder), "TMPDIR": str(folder), **more}


def locks(agent: AgentClient, folder: Path, *pids: int) -> dict[str, dict[str, Any]]:
    """Those below ``folder``, by their path in it, with what is judged of their owners: other launches' locks may lie
    in places that all share."""
    answer = look(agent, "locks", *pids)
    rows = [{**row, "owner_alive": owner_alive(row, answer)} for row in answer["locks"]]
    return {str(Path(row["path"]).relative_to(folder)): row for row in rows if row["path"].startswith(str(folder))}


def test_a_baton_that_nobody_has_open_has_a_dead_owner(agent: AgentClient, tmp_path: Path) -> None:
    baton = tmp_path / ".cache/torch_extensions/py311_cu128/cpu_adam/lock"
    baton.parent.mkdir(parents=True)
    baton.touch()
    os.utime(baton, (time.time() - 90000,) * 2)
    with running(SLEEPER, env=home(tmp_path)) as rank:
        row = locks(agent, tmp_path, rank.pid)[".cache/torch_extensions/py311_cu128/cpu_adam/lock"]
    assert (row["kind"], row["owner_alive"], row["owner"], row["open_by"]) == ("baton", False, None, [])
    assert 90000 <= row["age_s"] < 90100 and row["quiet_s"] == row["age_s"]


BUILDER = """
import os, sys, time
fd = os.open(sys.argv[1] + "/lock", os.O_CREAT | os.O_EXCL)   # torch/utils/file_baton.py
print("up", flush=True)
if len(sys.argv) > 2:
    os.close(fd)
    os.chdir(sys.argv[1])
time.sleep(120)
"""


def test_a_baton_lives_with_who_has_it_open_and_with_who_builds_in_its_folder(
    agent: AgentClient, tmp_path: Path
) -> None:
    """Also where the folder is moved by the environment; when the builder is killed, the same file is orphaned."""
    extensions = tmp_path / "extensions"
    held, built = extensions / "held", extensions / "built"
    for folder in (held, built):
        folder.mkdir(parents=True)
    env = home(tmp_path, TORCH_EXTENSIONS_DIR=str(extensions))
    with running(SLEEPER, env=env) as rank:
        with running(BUILDER, str(held)) as holder, running(BUILDER, str(built), "ninja") as ninja:
            os.utime(held / "lock", (time.time() - 90000,) * 2)
            time.sleep(0.2)
            rows = locks(agent, extensions, rank.pid)
            assert (rows["held/lock"]["owner_alive"], rows["held/lock"]["owner"]) == (True, holder.pid)
            assert (rows["built/lock"]["owner_alive"], rows["built/lock"]["owner"]) == (True, ninja.pid)
        os.utime(built / "lock", (time.time() - 30,) * 2)
        rows = locks(agent, extensions, rank.pid)
        assert [rows[name]["owner_alive"] for name in ("held/lock", "built/lock")] == [False, False]


WAITER = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
print("up", flush=True)
fcntl.flock(fd, fcntl.LOCK_EX)
"""


def test_a_flock_names_its_living_holder_and_who_waits_wherever_it_lies(agent: AgentClient, tmp_path: Path) -> None:
    """The file lies in no known cache folder: the waiter itself leads there. A stopped holder is said to be."""
    path = tmp_path / "elsewhere" / "any.name"
    path.parent.mkdir()
    holder_code = "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); " + SLEEPER
    with running(holder_code, str(path)) as holder, running(WAITER, str(path), env=home(tmp_path)) as rank:
        time.sleep(0.3)
        row = locks(agent, path.parent, rank.pid)["any.name"]
        assert (row["kind"], row["owner_alive"], row["owner"]) == ("flock", True, holder.pid)
        assert row["waiters"] == [rank.pid]
        holder.send_signal(signal.SIGSTOP)
        time.sleep(0.1)
        assert locks(agent, path.parent, rank.pid)["any.name"]["owner_state"] == "T"


def test_lock_files_that_nobody_holds_are_no_locks(agent: AgentClient, tmp_path: Path) -> None:
    """filelock and the hub leave theirs behind; only one that names a process that is gone was left by a crash."""
    folder = tmp_path / ".cache/huggingface/hub/.locks/models--a--b"
    folder.mkdir(parents=True)
    (folder / "left.lock").touch()
    dead = subprocess.Popen(["true"])
    dead.wait()
    (folder / "soft.lock").write_text(f"{dead.pid}\n{os.uname().nodename}\n")
    (folder / "other.lock").write_text(f"{dead.pid}\nanother-host\n")
    for path in folder.iterdir():
        os.utime(path, (time.time() - 60,) * 2)
    with (folder / "held.lock").open("w") as file, running(SLEEPER, env=home(tmp_path)) as rank:
        fcntl.flock(file, fcntl.LOCK_EX)
        rows = locks(agent, folder, rank.pid)
    assert {name: row["owner_alive"] for name, row in rows.items()} == {
        "soft.lock": False,
        "other.lock": None,
        "held.lock": True,
    }
    assert rows["held.lock"]["owner"] == os.getpid()


def test_a_folder_full_of_entries_is_left_in_time(agent: AgentClient, tmp_path: Path) -> None:
    """A cache with 30000 folders costs a bounded look."""
    cache = tmp_path / ".cache/flashinfer"
    for n in range(30000):
        (cache / f"{n % 100}/{n}").mkdir(parents=True)
    with running(SLEEPER, env=home(tmp_path)) as rank:
        began = time.monotonic()
        locks(agent, tmp_path, rank.pid)
        assert time.monotonic() - began < 3.0


# ------------------------------------------------------------------------------------------------------------ hold-ups


FILLER = "import os, sys, time; os.write(2, b'up\\n'); [os.write(1, b'x' * 4096) for _ in range(10**9)]"


def test_a_full_pipe_names_its_reader(agent: AgentClient) -> None:
    """64 KiB wait in it; the reader is this test, or one that is stopped."""
    with running("import time; print('up', flush=True); time.sleep(120)", stdin=subprocess.PIPE) as reader:
        assert reader.stdin
        writer = subprocess.Popen([sys.executable, "-c", FILLER], stdout=reader.stdin, stderr=subprocess.PIPE)
        reader.stdin.close()
        try:
            assert writer.stderr and writer.stderr.readline()
            reader.send_signal(signal.SIGSTOP)
            time.sleep(0.5)
            row = look(agent, "holdups", writer.pid)["processes"][str(writer.pid)]
        finally:
            writer.kill()
            writer.wait()
    out = row["stdout"]
    assert (out["bytes"], out["size"]) == (65536, 65536)
    assert [(r["pid"], r["state"]) for r in out["readers"]] == [(reader.pid, "T")]
    assert [r["pid"] for r in row["stderr"]["readers"]] == [os.getpid()] and row["stderr"]["bytes"] == 0


def test_a_pipe_without_a_reader_is_not_opened(agent: AgentClient) -> None:
    ours, theirs = os.pipe()
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"], stdout=theirs)
    os.close(theirs)
    os.close(ours)
    try:
        time.sleep(0.2)
        row = look(agent, "holdups", process.pid)["processes"][str(process.pid)]
        assert (row["stdout"]["readers"], row["stdout"]["bytes"], row["stdout"]["size"]) == ([], None, None)
    finally:
        process.kill()
        process.wait()


TRACER = """
import ctypes, sys, time
libc = ctypes.CDLL(None, use_errno=True)
if libc.ptrace(16, int(sys.argv[1]), None, None):   # PTRACE_ATTACH
    print("refused", flush=True)
else:
    print("up", flush=True)
time.sleep(120)
"""


def test_a_traced_process_names_its_tracer(agent: AgentClient) -> None:
    """A debugger that hangs holds its process in state t."""
    with running(SLEEPER) as rank:
        tracer = subprocess.Popen([sys.executable, "-c", TRACER, str(rank.pid)], stdout=subprocess.PIPE)
        try:
            assert tracer.stdout
            if tracer.stdout.readline() != b"up\n":
                missing("may not trace a process here")
            time.sleep(0.1)
            row = look(agent, "holdups", rank.pid)["processes"][str(rank.pid)]
        finally:
            tracer.kill()
            tracer.wait()
    assert row["state"] == "t"
    assert row["tracer"]["pid"] == tracer.pid and row["tracer"]["comm"].startswith("python")


# -------------------------------------------------------------------------------------------------------- surroundings


@contextlib.contextmanager
def control_group(controller: str) -> Iterator[Path]:
    """A group of version 1 or 2 with this controller, removed afterwards."""
    base = Path("/sys/fs/cgroup")
    places = [base / controller] if (base / controller).is_dir() else [base]
    folder = places[0] / f"gputop-hang-test-{os.getpid()}-{controller}"
    try:
        if places == [base] and controller not in (base / "cgroup.subtree_control").read_text().split():
            missing(f"no control group with {controller} may be made here")
        folder.mkdir()
    except OSError as error:
        missing(f"control groups may not be made here: {error}")
    try:
        yield folder
    finally:
        for _ in range(100):
            with contextlib.suppress(OSError):
                folder.rmdir()
                break
            time.sleep(0.05)


JOINER = """
import sys
open(sys.argv[1] + "/cgroup.procs", "w").write("0")
print("up", flush=True)
"""


def group(agent: AgentClient, pid: int) -> dict[str, Any]:
    (row,) = look(agent, "surroundings", pid)["groups"]
    return row


def test_a_throttled_group_is_seen_to_be(agent: AgentClient) -> None:
    """A fiftieth of a core for a process that would burn one: nearly every period ends in waiting."""
    with control_group("cpu") as folder:
        if (folder / "cpu.max").exists():
            (folder / "cpu.max").write_text("2000 100000")
        else:
            (folder / "cpu.cfs_period_us").write_text("100000")
            (folder / "cpu.cfs_quota_us").write_text("2000")
        with running(JOINER + "while True: pass", str(folder)) as rank:
            before = group(agent, rank.pid)
            time.sleep(2.0)
            after = group(agent, rank.pid)
    assert after["quota_cores"] == 0.02
    periods, throttled = after["periods"] - before["periods"], after["throttled"] - before["throttled"]
    assert periods >= 10 and throttled >= 0.6 * periods
    assert after["throttled_s"] > before["throttled_s"]


def test_kills_for_memory_are_counted_and_the_limit_above_counts(agent: AgentClient) -> None:
    """A sibling in the same group is killed: the survivor's group says so, and the kernel log names the victim."""
    grower = JOINER + "kept = []\nwhile True: kept.append(bytearray(b'x') * 2**20)"
    with control_group("memory") as folder:
        version1 = (folder / "memory.limit_in_bytes").exists()
        (folder / ("memory.limit_in_bytes" if version1 else "memory.max")).write_text(str(96 << 20))
        with running(JOINER + "import time; time.sleep(120)", str(folder)) as rank:
            before = group(agent, rank.pid)
            assert (before["oom_kills"], before["memory_max"]) == (0, 96 << 20)
            victim = subprocess.Popen([sys.executable, "-c", grower, str(folder)], stdout=subprocess.DEVNULL)
            assert victim.wait(30) == -signal.SIGKILL
            assert group(agent, rank.pid)["oom_kills"] == 1
    log = look(agent, "kernel_log", since_s=60)
    if not log["readable"]:
        missing(f"the kernel log may not be read here: {log['why']}")
    told = [line for line in log["lines"] if f"Killed process {victim.pid}" in line["text"]]
    assert told and told[0]["age_s"] < 30


UNSHARED = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x20000) or libc.mount(b"none", b"/", None, 0x44000, None):   # CLONE_NEWNS; MS_REC | MS_PRIVATE
    print("refused", flush=True)
    sys.exit()
if libc.mount(b"shm", b"/dev/shm", b"tmpfs", 0, b"size=1m"):
    print("refused", flush=True)
    sys.exit()
with open("/dev/shm/all", "wb") as file:
    try:
        file.write(bytes(2 << 20))
        file.flush()
    except OSError:
        pass
print("up", flush=True)
time.sleep(120)
"""


def test_shared_memory_is_that_of_the_process(agent: AgentClient) -> None:
    """A container's /dev/shm of 1 MiB is full while the host's has room."""
    with running(SLEEPER) as outside, running(UNSHARED) as inside:
        if inside.poll() is not None or not Path(f"/proc/{inside.pid}/root/dev/shm/all").exists():
            missing("a file system may not be mounted here")
        rows = {row["pids"][0]: row for row in look(agent, "surroundings", inside.pid, outside.pid)["shm"]}
    assert (rows[inside.pid]["free"], rows[inside.pid]["total"]) == (0, 1 << 20)
    assert rows[outside.pid]["total"] > 1 << 20


# ------------------------------------------------------------------------------------------------------------- sockets


CALLER = """
import socket, sys, time
held = []
for number in range(4):                       # the accept queue of one holds two; further calls are not answered
    call = socket.socket()
    call.setblocking(False)
    call.connect_ex(("127.0.0.1", int(sys.argv[1])))
    held.append(call)
print("up", flush=True)
time.sleep(120)
"""


def test_calls_that_nobody_answers(agent: AgentClient) -> None:
    """A listener with a full backlog lets further calls wait in SYN-SENT; a free port has no listener at all."""
    with socket.socket() as listener, socket.socket() as bound:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        bound.bind(("127.0.0.1", 0))
        with running(CALLER, str(port)) as rank:
            time.sleep(1.5)
            answer = look(agent, "sockets", rank.pid, master=["127.0.0.1", port])
            row = answer["sockets"][str(rank.pid)]
            assert row["states"]["syn_sent"] >= 1 and row["states"]["established"] >= 1
            vain = [tcp for tcp in row["tcp"] if tcp["state"] == "syn_sent"]
            assert vain[0]["peer"] == f"127.0.0.1:{port}" and vain[0]["tries"] >= 1
            assert answer["master"] == {"name": "127.0.0.1", "port": port, "here": True, "listening": True}
            free = look(agent, "sockets", rank.pid, master=["localhost", bound.getsockname()[1]])["master"]
            assert (free["here"], free["listening"]) == (True, False)
            away = look(agent, "sockets", rank.pid, master=["192.0.2.1", 29500])["master"]
            assert (away["here"], away["listening"]) == (False, None)


def test_who_holds_the_meeting_place_is_there(agent: AgentClient) -> None:
    """The rank whose store the others call need not call it itself."""
    free = socket.create_server(("127.0.0.1", 0))
    port = free.getsockname()[1]
    free.close()
    sleeps = "print('up', flush=True); time.sleep(120)"
    holds = f"import socket, time; s = socket.create_server(('127.0.0.1', {port})); {sleeps}"
    with running(holds) as master, running(f"import time; {sleeps}") as other:
        rows = look(agent, "sockets", master.pid, master=["127.0.0.1", port])["sockets"]
        assert rows[str(master.pid)]["meets"] is True
        rows = look(agent, "sockets", other.pid, master=["127.0.0.1", port])["sockets"]
        assert rows[str(other.pid)]["meets"] is False


def test_bytes_that_nobody_takes_wait_in_the_queue(agent: AgentClient) -> None:
    """This end sends 1000 bytes that the process never reads; the row tells of both ends' view."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        code = (
            "import socket, sys, time; s = socket.create_connection(('127.0.0.1', int(sys.argv[1])));"
            "print('up', flush=True); time.sleep(120)"
        )
        with running(code, str(listener.getsockname()[1])) as rank:
            peer, _ = listener.accept()
            with peer:
                peer.sendall(b"x" * 1000)
                time.sleep(0.1)
                (tcp,) = look(agent, "sockets", rank.pid)["sockets"][str(rank.pid)]["tcp"]
    assert (tcp["state"], tcp["unread"], tcp["unsent"]) == ("established", 1000, 0)


# ---------------------------------------------------------------------------------------------------------- kernel log


def test_the_kernel_log_is_told_by_kind_and_age(agent: AgentClient) -> None:
    """Lines of known kinds alone, with the seconds since the kernel said them."""
    mark = f"mlx5_core 0000:ff:00.0: Port module event: module 7, Cable unplugged ({os.getpid()})"
    try:
        with Path("/dev/kmsg").open("w") as log:
            for said in (mark, "something else is said by nobody in particular"):
                log.write(said + "\n")
                log.flush()
    except OSError as error:
        missing(f"the kernel log may not be written here: {error}")
    time.sleep(1.0)
    lines = look(agent, "kernel_log", since_s=30)["lines"]
    (told,) = [line for line in lines if mark in line["text"]]
    assert 0.9 <= told["age_s"] <= 10
    assert not [line for line in lines if "nobody in particular" in line["text"]]
    assert mark not in str(look(agent, "kernel_log", since_s=0.5))


# ---------------------------------------------------------------------------------------------------------- infiniband


def test_ports_of_infiniband_tell_state_and_bytes(agent: AgentClient, tmp_path: Path) -> None:
    """The kernel's files (``/sys/class/infiniband``) as mlx5 writes them; words of four bytes become bytes."""
    port = tmp_path / "mlx5_0/ports/1"
    (port / "counters").mkdir(parents=True)
    for name, said in {
        "state": "1: DOWN\n", "phys_state": "3: Disabled\n", "rate": "400 Gb/sec (4X NDR)\n",
        "counters/port_rcv_data": "1000\n", "counters/port_xmit_data": "250\n", "counters/link_downed": "2\n",
    }.items():  # fmt: skip
        (port / name).write_text(said)
    (row,) = look(agent, "infiniband", folder=str(tmp_path))["ports"]
    assert (row["device"], row["port"], row["state"], row["physical"]) == ("mlx5_0", "1", "DOWN", "Disabled")
    assert (row["rx_bytes"], row["tx_bytes"], row["errors"]) == (4000, 1000, {"link_downed": 2})


def test_processes_that_are_gone_are_no_error(agent: AgentClient) -> None:
    gone = subprocess.Popen(["true"])
    key = identity_of(gone.pid)
    gone.wait()
    for what in ("locks", "surroundings", "holdups", "sockets"):
        (answer,) = agent.ask(do="look", what=what, procs=[key])
        assert "error" not in answer, (what, answer)


def test_a_thread_of_control_that_the_kernel_does_not_know(agent: AgentClient) -> None:
    """Process ids beyond all limits are answered like any that is gone."""
    (answer,) = agent.ask(do="look", what="holdups", procs=[[2**30, 1]])
    assert answer["processes"] == {str(2**30): None}


def test_received_bytes_are_counted_by_connection(agent: AgentClient) -> None:
    """A megabyte that the process reads and throws away is seen by the kernel's count alone."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        code = (
            "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1])));"
            "print('up', flush=True)\nwhile s.recv(65536): pass"
        )
        with running(code, str(listener.getsockname()[1])) as rank:
            peer, _ = listener.accept()
            with peer:
                peer.sendall(b"x" * (1 << 20))
                time.sleep(0.2)
                received = look(agent, "sockets", rank.pid)["sockets"][str(rank.pid)]["received"]
    assert list(received.values()) == [1 << 20]


def test_looks_leave_nothing_behind_in_the_agent(agent: AgentClient) -> None:
    """They are loaded and done in helpers: the agent's own memory does not grow, and without looks its CPU is idle."""
    with running(SLEEPER) as rank:
        before = agent.tick()["self"]
        for _ in range(5):
            for what in ("locks", "surroundings", "kernel_log", "holdups", "sockets", "infiniband"):
                look(agent, what, rank.pid)
        after = agent.tick()["self"]
        assert after["rss_mib"] - before["rss_mib"] < 1.0
        began = time.monotonic()
        first = agent.tick()["self"]["cpu_s"]
        agent.pump(6.0)
        spent = agent.tick()["self"]["cpu_s"] - first
    assert spent / (time.monotonic() - began) < 0.02


def test_a_dead_folder_costs_its_look_alone(tmp_path: Path) -> None:
    """A cache on a file system that hangs for good: that look ends with a sentence after its deadline; others go on."""
    with DeadMount(tmp_path / "dead") as dead, AgentClient(local=True) as agent:
        agent.hello()
        with running(SLEEPER, env=home(tmp_path, TORCH_EXTENSIONS_DIR=str(dead.path / "extensions"))) as rank:
            hanging = agent.send(do="look", what="locks", procs=[identity_of(rank.pid)])
            assert look(agent, "surroundings", rank.pid)["groups"]
            answer = agent.until(lambda frame: frame["type"] == "answer" and frame["id"] == hanging, 12.0)
            assert "hangs" in answer["error"]
