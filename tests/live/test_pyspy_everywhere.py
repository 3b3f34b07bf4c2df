"""Stacks wherever the process is: in a container, where nothing may be executed, with an old py-spy, of another
architecture, of another user. And nobody is left stopped by it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.agent_client import AgentClient, identity_of
from tests.conftest import missing, need_program
from tests.watching import Watcher, watched
from tui.agent import dumper
from tui.collect import payload
from tui.collect.decode import Hello
from tui.collect.host import Host
from tui.collect.local import LocalChannel
from tui.errors import HostError
from tui.model import Launch, Member
from tui.session import pyspy_there
from tui.session.capture import Capture
from tui.session.folded import unfold

SLEEPER = "print('ready', flush=True)\nimport time\ndef wait_here():\n    time.sleep(600)\nwait_here()\n"
MANY = (
    "import threading, time\n"
    "def deeper(n):\n    deeper(n - 1) if n else time.sleep(600)\n"
    "for n in range(200): threading.Thread(target=deeper, args=(12,), name=f'pool-{n}', daemon=True).start()\n"
    + SLEEPER
)


@contextmanager
def running(code: str, *before: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([*before, sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout and process.stdout.readline() == "ready\n"
        time.sleep(0.2)
        yield process
    finally:
        process.kill()
        process.communicate()


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def program() -> Path:
    ours = pyspy_there.ours()
    return ours if ours is not None else missing("needs py-spy")


def put(client: AgentClient) -> None:
    """Send our binary as the session does."""
    data = program().read_bytes()
    packed = zlib.compress(data, 6)
    body = {
        "do": "put",
        "name": "py-spy",
        "size": len(packed),
        "sha256": hashlib.sha256(data).hexdigest(),
        "packed": True,
    }
    number = 0
    for at in range(0, len(packed), 1 << 20):
        number = client.send(**body, offset=at, data=base64.b64encode(packed[at : at + (1 << 20)]).decode())
    answer = client.until(lambda frame: frame["type"] == "answer" and frame["id"] == number)
    assert "error" not in answer, answer


# ------------------------------------------------------------------------------------------------------------ the wire


def test_two_hundred_threads_travel_as_a_table_and_numbers() -> None:
    """py-spy's JSON of them is most of a megabyte; folded and compressed it is some kilobytes, and nothing is lost."""
    with running(MANY) as process:
        spy = [str(program()), "dump", "--nonblocking", "--json", "--pid", str(process.pid)]
        whole = subprocess.run(spy, capture_output=True, check=True).stdout
        with AgentClient(local=True) as client:
            client.hello()
            client.tick()
            before = client.raw_bytes
            (answer,) = client.ask(do="stacks", procs=[identity_of(process.pid)], program=str(program()))
            wire = client.raw_bytes - before
    folded = len(json.dumps(answer["stacks"], separators=(",", ":")))
    print(f"py-spy's JSON {len(whole)} bytes, folded {folded}, on the wire {wire}")
    assert len(whole) > 500_000
    assert folded < len(whole) / 20
    assert wire < 15_000
    threads = unfold(answer["stacks"], process.pid)
    assert len(threads) == 201
    assert threads[0].main and threads[0].frames[0].function == "wait_here"
    assert sorted(t.name for t in threads[1:]) == sorted(f"pool-{n}" for n in range(200))
    assert all([f.function for f in t.frames[:13]] == ["deeper"] * 13 for t in threads[1:])


# ---------------------------------------------------------------------------------------------------------- containers


@pytest.mark.parametrize("native", [False, True])
def test_in_another_pid_namespace(native: bool) -> None:
    """Threads carry this host's ids. Seen from outside, py-spy cannot tell idle from active: that is left open. For
    native stacks it is run inside, from a descriptor: nothing is copied there."""
    if os.getuid() != 0:
        missing("needs root for a PID namespace")
    unshare = (need_program("unshare"), "--pid", "--fork", "--mount-proc", "--kill-child")
    with running(SLEEPER, *unshare) as outer, AgentClient(local=True) as client:
        client.hello()
        pid = int(Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text())
        look = client.ask(do="look", what="family", procs=[identity_of(outer.pid)])[0]
        assert [(row["pid"], row["of"], row["python"]) for row in look["below"]] == [(pid, outer.pid, True)]
        assert look["inner"] == {str(pid): 1}
        (answer,) = client.ask(
            do="stacks", procs=[identity_of(pid)], program=str(program()), native=native, timeout_s=25
        )
        assert answer["ok"], answer
        (thread,) = unfold(answer["stacks"], pid)
        assert thread.os_thread_id == pid and thread.main
        assert thread.active is (False if native else None)
        functions = [frame.function for frame in thread.frames]
        assert "wait_here" in functions
        assert any("nanosleep" in function for function in functions) == native
        assert state(pid) == "S"


def test_where_neither_memory_nor_tmp_may_be_executed() -> None:
    """``vm.memfd_noexec`` 2 and a ``noexec`` /tmp: another folder is found, and nothing stays in it."""
    unshare = need_program("unshare")
    if os.getuid() != 0 or not Path("/proc/sys/vm/memfd_noexec").exists():
        missing("needs root and vm.memfd_noexec (Linux 6.3)")
    setting = "echo 2 > /proc/sys/vm/memfd_noexec && mount -t tmpfs -o noexec none /tmp && mount -t tmpfs none /var/tmp"
    words = [unshare, "--pid", "--mount", "--fork", "--mount-proc", "--kill-child"]
    script = f'{setting} && exec "$@"'
    python = os.path.realpath(sys.executable)  # a virtual environment may lie in /tmp
    command = [*words, "sh", "-c", script, "sh", python, *payload.local_command()[1:]]
    with AgentClient(command, env={"HOME": "/tmp"}) as client:
        hello = client.hello()
        put(client)
        shell = int(Path(f"/proc/{client.process.pid}/task/{client.process.pid}/children").read_text())
        itself = (hello["pid"], identity_of(shell)[1])
        (answer,) = client.ask(do="stacks", procs=[itself], program="py-spy", timeout_s=15)
        assert answer["ok"], answer
        assert not list(Path(f"/proc/{shell}/root/var/tmp").iterdir())


# ------------------------------------------------------------------------------------------------- which py-spy is run


async def test_an_old_py_spy_of_the_host_is_left_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "py-spy"
    old.write_text(
        "#!/bin/sh\n[ \"$1\" = --version ] && echo 'py-spy 0.3.14' && exit\necho 'Error: reading python 3.14'; exit 1\n"
    )
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(pyspy_there, "program_on", lambda host: pyspy_there.NAME)
    with running(SLEEPER) as process:
        watcher = Watcher()
        async with watched(watcher, here=LocalChannel()) as hosts:
            await watcher.until_state("here", "live")
            launch = Launch("job", "job", ("here",), members=(Member("here", *identity_of(process.pid), rank=0),))
            dump = await Capture(hosts, lambda dump: None).stacks(launch)
    assert dump.processes[0].method == "py-spy"
    assert any(f"too old ({old}: 0.3.14)" in line for line in dump.log)
    assert any("none that fits on here, sending ours" in line for line in dump.log)


def wheel(folder: Path, machine: str, content: bytes) -> None:
    name = f"py_spy-{pyspy_there._version()}"
    with zipfile.ZipFile(folder / f"{name}-py2.py3-none-manylinux2014_{machine}.whl", "w") as archive:
        archive.writestr(f"{name}.data/scripts/py-spy", content)
        archive.writestr(f"{name}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: py-spy\nVersion: {name[7:]}\n")
        archive.writestr(f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: false\n")
        archive.writestr(f"{name}.dist-info/RECORD", "")


async def test_for_another_architecture_the_wheel_is_fetched_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip itself, over a folder that stands for the index; the second time the cache has it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    wheel(tmp_path, "aarch64", b"\x7fELF for aarch64")
    host = Host("grace01", LocalChannel(), Watcher())
    host.hello = Hello(machine="aarch64")
    notes: list[str] = []
    fitting = await pyspy_there._fitting(host, notes.append)
    assert fitting.read_bytes() == b"\x7fELF for aarch64"
    assert len(notes) == 1 and "fetching the one for Linux aarch64 with pip, once" in notes[0]
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    assert await pyspy_there._fitting(host, notes.append) == fitting
    assert len(notes) == 1


async def test_without_a_network_the_sentence_says_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    host = Host("grace01", LocalChannel(), Watcher())
    host.hello = Hello(machine="aarch64")
    with pytest.raises(HostError) as raised:
        await pyspy_there._fitting(host, lambda note: None)
    said = str(raised.value)
    assert "the one for Linux aarch64 could not be fetched" in said
    assert "install py-spy on grace01 (pip install py-spy)" in said
    assert "pip download --no-deps --platform manylinux2014_aarch64" in said and "where there is a network" in said


# -------------------------------------------------------------------------------------------------------------- rights


def test_another_users_process_gives_one_sentence() -> None:
    """An agent that runs as nobody may not read a process of root's."""
    setpriv = need_program("setpriv")
    if os.getuid() != 0 or not Path("/usr/bin/python3").exists():
        missing("needs root and a Python that any user may run")
    command = [
        setpriv,
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "/usr/bin/python3",
        *payload.local_command()[1:],
    ]
    with running(SLEEPER) as process, AgentClient(command) as client:
        client.hello()
        put(client)
        (answer,) = client.ask(do="stacks", procs=[identity_of(process.pid)], program="py-spy")
        assert not answer["ok"]
        assert "run as root or as its owner" in answer["error"]


async def test_sudo_that_asks_for_a_password_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sudo = tmp_path / "sudo"
    sudo.write_text('#!/bin/sh\n[ "$1" = -n ] && echo "sudo: a password is required" >&2\nexit 1\n')
    sudo.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    watcher = Watcher()
    async with watched(watcher, here=LocalChannel(sudo=True)):
        await watcher.until_state("here", "failed")
    assert watcher.reason("here").startswith("sudo -n starts nothing on here; it said: sudo: a password is required. ")
    assert "NOPASSWD" in watcher.reason("here")


async def test_with_sudo_the_agent_is_root() -> None:
    need_program("sudo")
    if subprocess.run(["sudo", "-n", "true"], capture_output=True).returncode:
        missing("needs a sudo that asks for no password")
    watcher = Watcher()
    async with watched(watcher, here=LocalChannel(sudo=True)):
        await watcher.until_state("here", "live")
    assert watcher.hellos[0][1].uid == 0


# ------------------------------------------------------------------------------------------------- nobody stays stopped


def test_native_stacks_leave_a_stopped_process_alone() -> None:
    """A blocking dumper would fail on it and let it run again."""
    with running(SLEEPER) as process, AgentClient(local=True) as client:
        client.hello()
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.1)
        (answer,) = client.ask(do="stacks", procs=[identity_of(process.pid)], program=str(program()), native=True)
        assert answer["error"] == "native stacks need the process to stop, and it is in state T"
        time.sleep(1.7)
        assert state(process.pid) == "T", "who stopped it meant it"


def test_what_a_dumper_left_stopped_is_let_go(tmp_path: Path) -> None:
    """A dumper that dies over its work, and leaves a stop behind."""
    broken = tmp_path / "py-spy"
    broken.write_text('#!/bin/sh\nfor pid; do :; done\nkill -STOP "$pid"\nexit 1\n')
    broken.chmod(0o755)
    with running(SLEEPER) as process, AgentClient(local=True) as client:
        client.hello()
        (answer,) = client.ask(do="stacks", procs=[identity_of(process.pid)], program=str(broken), native=True)
        assert not answer["ok"]
        client.pump(0.5)
        assert state(process.pid) == "S"


@pytest.mark.parametrize("how", ["leaves", "is killed"])
def test_an_agent_that_ends_meanwhile_leaves_nobody_stopped(how: str, tmp_path: Path) -> None:
    """The monitor quits, or the agent dies, while a dumper holds the process: both are gone and it runs on."""
    holds = tmp_path / "py-spy"
    holds.write_text(f'#!/bin/sh\nfor pid; do :; done\nkill -STOP "$pid"\necho $$ > {tmp_path}/pid\nexec sleep 60\n')
    holds.chmod(0o755)
    with running(SLEEPER) as process, AgentClient(local=True) as client:
        client.hello()
        client.send(do="stacks", procs=[identity_of(process.pid)], program=str(holds), native=True)
        deadline = time.monotonic() + 10
        while not (tmp_path / "pid").exists() or state(process.pid) != "T":
            assert time.monotonic() < deadline
            client.pump(0.02)
        if how == "leaves":
            client.close()
        else:
            client.process.kill()
        while state(process.pid) == "T":
            assert time.monotonic() < deadline
            time.sleep(0.02)
        time.sleep(0.7)
        assert state(process.pid) == "S"
        dumper_pid = int((tmp_path / "pid").read_text())
        assert not Path(f"/proc/{dumper_pid}").exists() or state(dumper_pid) == "Z"


def test_a_stop_that_waits_for_the_kernel_to_return_is_taken_away() -> None:
    """A dumper that was killed at a process in state D leaves the stop pending: it would strike later."""
    code = (
        "import ctypes, os, signal, sys\n"
        "clone = {'x86_64': 56, 'aarch64': 220}[os.uname().machine]\n"
        "print('ready', flush=True)\n"
        "if ctypes.CDLL(None).syscall(clone, 0x4000 | signal.SIGCHLD, 0, 0, 0, 0) == 0:\n"
        "    signal.pause()\n"
    )
    with running(code) as process:
        child = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())
        try:
            assert state(process.pid) == "D"
            process.send_signal(signal.SIGSTOP)
            dumper.let_go(*identity_of(process.pid))
            pending = [line for line in Path(f"/proc/{process.pid}/status").read_text().split("\n") if "Pnd" in line]
            assert all(int(line.split()[1], 16) & 1 << signal.SIGSTOP - 1 == 0 for line in pending), pending
        finally:
            os.kill(child, signal.SIGKILL)
