"""What SIGABRT does, row by row of the table, on real processes: foretold from ``/proc``, then sent, then seen."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.agent_client import AgentClient, identity_of
from tests.conftest import missing, need_program, need_torch
from tui.agent.sigabrt import effect
from tui.stacks.sigabrt import MUTE, SENTENCES

READY = "print('ready', flush=True)\n"
WAIT = READY + "import time\ndef wait_here():\n    while True: time.sleep(60)\nwait_here()\n"


@dataclass(frozen=True)
class Row:
    """``dumps`` is whether a Python dump is found afterwards, ``dies`` whether the process is gone."""

    effect: str
    code: str
    dies: bool
    dumps: bool = False
    flags: tuple[str, ...] = ()


ROWS = {
    "default action": Row("death_no_dump", WAIT, dies=True),
    "faulthandler": Row("python_dump_then_death", WAIT, dies=True, dumps=True, flags=("-X", "faulthandler")),
    "ignored": Row("ignored", "import signal\nsignal.signal(signal.SIGABRT, signal.SIG_IGN)\n" + WAIT, dies=False),
    "blocked by every thread": Row(
        "blocked",
        "import signal, threading, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGABRT])\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n" + WAIT,
        dies=False,
        flags=("-X", "faulthandler"),
    ),
    "blocked by the main thread alone": Row(
        "python_dump_then_death",
        "import signal, threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "time.sleep(0.1)\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGABRT])\n" + WAIT,
        dies=True,
        dumps=True,
        flags=("-X", "faulthandler"),
    ),
    "a handler in Python while the main thread is stuck in C": Row(
        "handler",
        "import ctypes, signal\nsignal.signal(signal.SIGABRT, lambda *_: None)\n"
        + READY
        + "mutex = (ctypes.c_char * 64)()\n"
        "lock = ctypes.CDLL(None).pthread_mutex_lock\nlock(mutex)\nlock(mutex)\n",
        dies=False,
    ),
    "absl's handlers over faulthandler's, as Ray sets them": Row(
        "single_stack_then_death",
        "import faulthandler, signal\nsignal.signal(signal.SIGTRAP, lambda *_: None)\n"
        "signal.signal(signal.SIGTERM, lambda *_: None)\nfaulthandler.enable(all_threads=False)\n" + WAIT,
        dies=True,
        dumps=True,
    ),
}


@pytest.fixture
def client() -> Iterator[AgentClient]:
    with AgentClient(local=True) as client:
        client.hello()
        yield client


def started(row: Row, folder: Path, *before: str) -> subprocess.Popen[str]:
    with (folder / "stderr").open("ab") as stderr:
        process = subprocess.Popen(
            [*before, sys.executable, *row.flags, "-c", row.code], stdout=subprocess.PIPE, stderr=stderr, text=True
        )
    assert process.stdout and process.stdout.readline() == "ready\n"
    time.sleep(0.1)
    return process


def foretold(client: AgentClient, pid: int) -> str:
    return client.ask(do="look", what="sigabrt", procs=[identity_of(pid)])[0]["effects"][str(pid)]


def sent(client: AgentClient, pid: int) -> dict[str, Any]:
    answer = client.ask(do="abort", procs=[identity_of(pid)], hold=[], timeout_s=15)[0]
    answer["text"] = base64.b64decode(answer["data"]).decode("utf-8", "replace")
    return answer


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def ended(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


@pytest.mark.parametrize("name", ROWS)
def test_it_does_what_was_foretold(name: str, client: AgentClient, tmp_path: Path) -> None:
    row = ROWS[name]
    process = started(row, tmp_path)
    try:
        assert foretold(client, process.pid) == row.effect
        answer = sent(client, process.pid)
        assert answer["effect"] == row.effect
        assert answer["result"] == ("died" if row.dies else "alive")
        assert ("most recent call first" in answer["text"]) == row.dumps
        assert not row.dumps or "wait_here" in answer["text"]
        assert row.dies or state(process.pid) == "S", "what lives on is not left stopped"
        assert (row.effect in MUTE) == (row.dies and not row.dumps)
    finally:
        ended(process)


def test_a_zombie_has_ended(client: AgentClient, tmp_path: Path) -> None:
    process = started(Row("ended", READY, dies=True), tmp_path)
    try:
        deadline = time.monotonic() + 5
        while state(process.pid) != "Z" and time.monotonic() < deadline:
            time.sleep(0.02)
        assert foretold(client, process.pid) == "ended"
    finally:
        ended(process)


def test_a_worker_of_a_dataloader_takes_its_rank_with_it(client: AgentClient, tmp_path: Path) -> None:
    """It dies without a word: PyTorch has set handlers of its own there."""
    need_torch()
    code = (
        "from torch.utils.data import DataLoader, Dataset\n"
        "class Slow(Dataset):\n    def __len__(self): return 9\n"
        "    def __getitem__(self, n):\n        import time; print('ready', flush=True); time.sleep(60)\n"
        "next(iter(DataLoader(Slow(), num_workers=1)))\n"
    )
    process = started(Row("", code, dies=True), tmp_path)
    workers = [pid for pid in children(process.pid) if Path(f"/proc/{pid}/comm").read_text() == "pt_data_worker\n"]
    try:
        assert [foretold(client, pid) for pid in workers] == ["worker_death"]
        answer = sent(client, workers[0])
        assert answer["result"] == "died" and "Fatal Python error" not in answer["text"]
        assert process.wait(20) == 1
        assert "exited unexpectedly" in (tmp_path / "stderr").read_text()
    finally:
        for pid in workers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        ended(process)


def test_pytorchs_own_handler_prints_native_stacks(client: AgentClient, tmp_path: Path) -> None:
    need_torch()
    code = "import torch\ntorch._C._set_print_stack_traces_on_fatal_signal(True)\n" + WAIT
    process = started(Row("", code, dies=True), tmp_path)
    try:
        assert foretold(client, process.pid) == "native_dump_then_death"
        assert sent(client, process.pid)["result"] == "died"
        assert "SIGABRT(6), PID: " in (tmp_path / "stderr").read_text()
    finally:
        ended(process)


@pytest.mark.parametrize("faulthandler", [False, True])
def test_the_first_process_of_a_container(faulthandler: bool, client: AgentClient, tmp_path: Path) -> None:
    """The kernel keeps it from default actions, even from outside: without a handler nothing happens; faulthandler
    prints and the process lives on, once."""
    unshare = need_program("unshare")
    if os.getuid() != 0:
        missing("needs root for a PID namespace")
    row = Row("", WAIT, dies=False, flags=("-X", "faulthandler") if faulthandler else ())
    outer = started(row, tmp_path, unshare, "--pid", "--fork", "--mount-proc", "--kill-child")
    try:
        (pid,) = children(outer.pid)
        for expected in ("python_dump_and_life" if faulthandler else "ignored", "ignored"):
            assert foretold(client, pid) == expected
            answer = sent(client, pid)
            assert answer["result"] == "alive"
            assert ("wait_here" in answer["text"]) == (expected == "python_dump_and_life")
            assert state(pid) == "S"
    finally:
        ended(outer)


IN_D = """
import ctypes, os, signal, sys, threading, time
CLONE_VFORK = 0x4000
SYS_CLONE = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
if sys.argv[1] == "threads":
    threading.Thread(target=lambda: [time.sleep(60) for _ in iter(int, 1)], daemon=True).start()
print("ready", flush=True)
def wait_in_the_kernel():
    # vfork(2): the parent waits, not to be interrupted, until the child has ended; ours waits for a writer
    if ctypes.CDLL(None).syscall(SYS_CLONE, CLONE_VFORK | signal.SIGCHLD, 0, 0, 0, 0) == 0:
        os.open(sys.argv[2], os.O_RDONLY)
        os._exit(0)
wait_in_the_kernel()
"""


@pytest.mark.parametrize("threads", [True, False])
def test_a_main_thread_that_waits_uninterruptibly(threads: bool, client: AgentClient, tmp_path: Path) -> None:
    """State D: the signal goes to a thread that sleeps, which prints everybody's stack, the main thread's included.
    Where there is no such thread, it stays pending, and that is said beforehand."""
    os.mkfifo(tmp_path / "fifo")
    word = "threads" if threads else "alone"
    with (tmp_path / "stderr").open("ab") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-c", IN_D, word, str(tmp_path / "fifo")],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    try:
        deadline = time.monotonic() + 5
        while state(process.pid) != "D":
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert foretold(client, process.pid) == ("python_dump_then_death" if threads else "uninterruptible")
        answer = sent(client, process.pid)
        if threads:
            assert answer["result"] == "died"
            assert "in wait_in_the_kernel" in answer["text"]
        else:
            assert (answer["result"], answer["text"]) == ("alive", "")
            assert state(process.pid) == "D"
    finally:
        os.close(os.open(tmp_path / "fifo", os.O_RDWR | os.O_NONBLOCK))
        for pid in children(process.pid):
            os.kill(pid, signal.SIGKILL)
        ended(process)


def test_a_full_pipe_that_nobody_reads_is_recognised_beforehand(client: AgentClient) -> None:
    """The dump would wait in ``write`` and the process live on; once there is room again it prints and dies."""
    code = "import os\nos.set_blocking(2, False)\ntry:\n    while True: os.write(2, b'x' * 512)\n"
    code += "except BlockingIOError: os.set_blocking(2, True)\n" + WAIT
    process = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout and process.stdout.readline() == "ready\n"
        assert foretold(client, process.pid) == "dump_blocked"
        answer = sent(client, process.pid)
        assert (answer["effect"], answer["result"]) == ("dump_blocked", "alive")
        assert "in wait_here" in process.communicate(timeout=10)[1]
        assert process.returncode == -signal.SIGABRT
    finally:
        ended(process)


@pytest.mark.parametrize("piped", [False, True])
def test_no_core_is_made_whatever_the_pattern(piped: bool, client: AgentClient, tmp_path: Path) -> None:
    """A limit of 0, or of 1 where ``core_pattern`` begins with a pipe, which takes no notice of 0; and no mapping in it
    even where a helper took it."""
    pattern = Path("/proc/sys/kernel/core_pattern")
    if not os.access(pattern, os.W_OK):
        missing("needs to set kernel.core_pattern (root)")
    helper = tmp_path / "helper"
    helper.write_text(f"#!/bin/sh\ncat > {tmp_path}/core.$1\n")
    helper.chmod(0o755)
    code = "import resource\nresource.setrlimit(resource.RLIMIT_CORE, (-1, -1))\n"
    process = started(Row("", code + WAIT, dies=True), tmp_path)
    before = pattern.read_text()
    if len(str(helper)) > 100:
        missing("the kernel keeps 128 bytes of core_pattern")
    pattern.write_text(f"|{helper} %p" if piped else f"{tmp_path}/core.%p")
    try:
        assert sent(client, process.pid)["result"] == "died"
        time.sleep(0.5)
        assert not list(tmp_path.glob("core.*"))
    finally:
        pattern.write_text(before)
        ended(process)


def test_every_word_of_the_table_has_its_sentence() -> None:
    words = {
        effect(state, blocked, ignored, caught, init=init, wakes=wakes, full=full)
        for state in "SDZ"
        for blocked in (0, 0x20)
        for ignored in (0, 0x20)
        for caught in (0, 0x2, 0x22, 0x44C0, 0x4E8, 0x4EA, 0xCEA, 0x44FA)
        for init in (False, True)
        for wakes in (False, True)
        for full in (False, True)
    }
    assert words == SENTENCES.keys()
