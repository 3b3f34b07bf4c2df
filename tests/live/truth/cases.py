"""The cases: what is started, what goes wrong with it, and what may and must be said of it.

A sick case must come to one of ``says`` with one of ``causes`` within ``within_s`` of its fault, and nothing grave may
be said before the fault nor with another cause after it. A healthy one must never be called anything grave.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from tests.live.truth.launching import JOBS, Job, Stage, torchrun
from tests.live.truth.trickle import Trickle
from tests.sshd import free_port

GRAVE = frozenset({"suspect", "hung", "crashed"})

Start: TypeAlias = Callable[[Stage], Job | str]
"""Starts a case; a sentence where it cannot run here."""


@dataclass(frozen=True)
class Case:
    """``ranks``: how many it has. ``odd``: those that must be named, ``None`` where it cannot be known from outside;
    ``stacks``: those that the stacks must name, where they are offered. ``gpus``: watched a second time, with so many
    simulated GPUs. ``also``: causes that a first word may bear before more is known."""

    name: str
    what: str
    start: Start
    says: frozenset[str]
    causes: frozenset[str | None]
    ranks: int | None = 4
    within_s: float = 0.0
    stacks: tuple[int, ...] | None = None
    odd: tuple[int, ...] | None = None
    gpus: int = 0
    also: frozenset[str | None] = frozenset()
    ends: bool = False
    """Whether all of it ends by itself, so that who comes late finds nothing."""
    meanwhile: str = ""
    """A cause that must be named at some time."""

    @property
    def sick(self) -> bool:
        return bool(self.says & GRAVE)


CASES: list[Case] = []


def sick(what: str, *causes: str, within_s: float, says: str = "hung", also: tuple[str | None, ...] = (), **more: Any):
    """A case that goes wrong; the function's name is its name."""
    return _put(what, says, causes, within_s=within_s, also=frozenset(also), **more)


def healthy(what: str, *causes: str | None, says: str, **more: Any):
    """A case in which nothing is wrong; without ``causes`` any will do."""
    return _put(what, says, causes, **more)


def _put(what: str, says: str, causes: tuple[str | None, ...], **more: Any) -> Callable[[Start], Start]:
    def put(start: Start) -> Start:
        name = start.__name__.replace("_", "-")
        CASES.append(Case(name, what, start, frozenset(says.split()), frozenset(causes), **more))
        return start

    return put


# ------------------------------------------------------------------------------------------------------------ torchrun


def _torchrun(stage: Stage, name: str, fault: str, ranks: int = 4, *more: str) -> Job:
    folder = stage.place(name)
    more = more or (f"--master-port={free_port()}",)
    process = stage.start(folder, torchrun("pretrain.py", ranks, fault, *more))
    return Job(process.pid, folder)


@sick("torchrun, gloo: rank 3 skips a barrier", "rank_wait", within_s=150, stacks=(3,), gpus=4)
def barrier_skipped(stage: Stage) -> Job:
    return _torchrun(stage, "barrier-skipped", "barrier")


@sick("torchrun, gloo: rank 3 sits in a Python lock", "rank_wait", "thread_deadlock", within_s=150, stacks=(3,), gpus=4)
def python_lock(stage: Stage) -> Job:
    return _torchrun(stage, "python-lock", "lock")


@sick("torchrun, gloo: rank 3 is there and never joins the rendezvous", "comm_init", "rank_wait",
      says="suspect hung", within_s=190)  # fmt: skip
def never_joins(stage: Stage) -> Job:
    return _torchrun(stage, "never-joins", "absent")


@healthy("torchrun on one of two nodes: the other was never started; as it may yet come, it waits",
         "rank_missing", "waiting_resources", None, says="waiting unknown", ranks=None)  # fmt: skip
def node_missing(stage: Stage) -> Job:
    more = ("--nnodes=2", "--node-rank=0", "--master-addr=127.0.0.1", f"--master-port={free_port()}")
    job = _torchrun(stage, "node-missing", "none", 2, *more)
    (job.folder / "fault").write_text(repr(time.monotonic()))
    return job


@healthy("two ranks of three were started, by hand: the third may be on its way elsewhere", "rank_missing",
         says="waiting", ranks=2)  # fmt: skip
def rank_absent(stage: Stage) -> Job:
    folder = stage.place("rank-absent")
    meeting = {"WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    command = [sys.executable, str(JOBS / "pretrain.py"), "--fault", "none"]
    first, _ = [stage.start_from_shell(folder, command, env={**meeting, "RANK": rank}) for rank in "01"]
    (folder / "fault").write_text(repr(time.monotonic()))
    return Job(first, folder)


@sick("torchrun: a rank is killed by SIGKILL between two steps", "dead_rank", says="crashed", within_s=20, odd=(3,),
      ends=True)  # fmt: skip
def rank_killed(stage: Stage) -> Job:
    return _torchrun(stage, "rank-killed", "kill")


@sick("torchrun: a DataLoader worker of rank 2 never comes back from a read", "rank_wait", "io_stall",
      says="suspect hung", within_s=190, ranks=3, gpus=3)  # fmt: skip
def loader_stuck(stage: Stage) -> Job:
    return _torchrun(stage, "loader-stuck", "loader", 3)


@sick("torchrun: rank 3 sits in a lock in the middle of training", "rank_wait", says="suspect hung", within_s=190)
def step_stuck(stage: Stage) -> Job:
    return _torchrun(stage, "step-stuck", "step")


# ---------------------------------------------------------------------------------------------------------- extensions


def _extension(stage: Stage, name: str, sources: int, **env: str) -> Job:
    folder = stage.place(name)
    command = torchrun("extension.py", 2, "", f"--master-port={free_port()}")
    cache = folder / "extensions"
    settings = {"TORCH_EXTENSIONS_DIR": str(cache), "TRUTH_SOURCES": str(sources), "MAX_JOBS": "1", **env}
    process = stage.start(folder, command, env=settings)
    return Job(process.pid, folder)


@sick("a lock file of torch's extension cache has outlived its owner", "stale_lock", within_s=170, ranks=2,
      also=("rank_wait", "lock_held"))  # fmt: skip
def stale_baton(stage: Stage) -> Job:
    folder = stage.folder / "stale-baton" / "extensions" / "fused_scale"
    job = _extension(stage, "stale-baton", 1)
    folder.mkdir(parents=True)
    (folder / "lock").touch()
    os.utime(folder / "lock", (1_770_000_000, 1_770_000_000))
    return job


@healthy("an extension is really built", says="slow progressing", meanwhile="kernel_build", ranks=2)
def extension_built(stage: Stage) -> Job:
    return _extension(stage, "extension-built", 3)


# ------------------------------------------------------------------------------------------------------------ a server


def server(stage: Stage, name: str, fault: str, ranks: int = 4, *, cgroup: str = "", out: int | None = None) -> Job:
    folder = stage.place(name)
    command = [sys.executable, str(JOBS / "sglang" / "launch_server.py"), "--model-path", "/models/cedar-70b"]
    command += ["--tp-size", str(ranks), "--port", str(free_port()), "--fault", fault, "--cgroup", cgroup]
    return Job(stage.start(folder, command, out=out).pid, folder)


@sick("a server's rank 2 forked while a lock was held: the child waits for ever", "rank_wait", within_s=150, odd=(2,),
      stacks=(2,), gpus=4)  # fmt: skip
def fork_with_lock(stage: Stage) -> Job:
    return server(stage, "fork-with-lock", "fork")


@sick("a C call of rank 2 holds the interpreter lock and sleeps", "gil_deadlock", within_s=170, odd=(2,), stacks=(2,),
      gpus=4,
      also=("rank_wait",))  # fmt: skip
def gil_held(stage: Stage) -> Job:
    return server(stage, "gil-held", "gil")


@sick("rank 2 waits for a flock that a living process holds", "lock_held", within_s=190, odd=(2,), also=("rank_wait",))
def flock_held(stage: Stage) -> Job:
    folder = stage.folder / "flock-held"
    job = server(stage, "flock-held", "flock")
    code = "import fcntl, sys, time; f = open(sys.argv[1], 'a'); fcntl.flock(f, fcntl.LOCK_EX); time.sleep(3600)"
    stage.start(folder, [sys.executable, "-c", code, str(folder / "kernels.lock")], out=subprocess.DEVNULL)
    return job


@sick("rank 2 is stopped", "stopped", within_s=45, odd=(2,))
def rank_stopped(stage: Stage) -> Job:
    return server(stage, "rank-stopped", "stop")


@sick("rank 2 of a server that goes on waiting is killed", "dead_rank", says="crashed", within_s=20, odd=(2,))
def server_rank_killed(stage: Stage) -> Job:
    return server(stage, "server-rank-killed", "kill")


@sick("the kernel kills rank 2 for memory", "oom_kill", says="crashed", within_s=45, odd=(2,), also=("dead_rank",))
def rank_oom(stage: Stage) -> Job | str:
    group = stage.cgroup("memory", {"memory.max": str(160 << 20), "memory.swap.max": "0"})
    if group is None:
        return "no control group can be made here"
    return server(stage, "rank-oom", "oom", cgroup=str(group))


@sick("rank 2's standard error is full: tee writes into a pager that nobody scrolls", "pipe_full", within_s=150,
      also=("rank_wait",))  # fmt: skip
def stderr_full(stage: Stage) -> Job:
    folder = stage.folder / "stderr-full"
    pager_in, tee_out = os.pipe()
    tee_in, job_out = os.pipe()
    job = server(stage, "stderr-full", "pipe", out=job_out)
    stage.start(folder, ["tee", str(folder / "tee.log")], stdin=tee_in, out=tee_out)
    pager = "import os, signal; os.read(0, 32768); signal.pause()"
    stage.start(folder, [sys.executable, "-c", pager], stdin=pager_in, out=subprocess.DEVNULL)
    for fd in (pager_in, tee_out, tee_in, job_out):
        os.close(fd)
    return job


@healthy("all ranks compute under a CPU quota of a tenth of a core", says="slow", ranks=2)
def cpu_throttled(stage: Stage) -> Job | str:
    group = stage.cgroup("cpu", {"cpu.max": "10000 100000"})
    if group is None:
        return "no control group can be made here"
    return server(stage, "cpu-throttled", "throttled", 2, cgroup=str(group))


@healthy("a server is ready and idle", "idle", says="ready", ranks=2, gpus=2)
def idle_server(stage: Stage) -> Job:
    return server(stage, "idle-server", "none", 2)


@healthy("one rank reads from slow storage, the others wait for it", "slow_storage", "rank0_preparing", says="slow")
def slow_reader(stage: Stage) -> Job:
    return server(stage, "slow-reader", "slow")


# ----------------------------------------------------------------------------------------------------------- downloads


def _download(stage: Stage, name: str, server: Trickle) -> Job:
    folder = stage.place(name)
    server.note = folder / "fault"
    stage.closing.append(server.stop)
    command = [sys.executable, str(JOBS / "fetch.py"), server.url, "4"]
    return Job(stage.start_from_shell(folder, command, env={"RANK": "0", "WORLD_SIZE": "1"}), folder)


@sick("a download stalls: the server sends nothing any more", "download_stall", within_s=190, ranks=1,
      also=("thread_deadlock", None))  # fmt: skip
def download_stalled(stage: Stage) -> Job:
    return _download(stage, "download-stalled", Trickle(bytes_s=8e6, stalls_after=12_000_000))


@healthy("a download is slow: two hours for a file", "slow_download", "slow_storage", says="slow", ranks=1)
def download_slow(stage: Stage) -> Job:
    return _download(stage, "download-slow", Trickle(bytes_s=3e5))
