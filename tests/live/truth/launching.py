"""Starting the jobs of the truth tests, each in a folder of its own, and ending all that they ever started."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

JOBS = Path(__file__).resolve().parent / "jobs"
CGROUPS = Path("/sys/fs/cgroup")
_TAG = "TRUTH_RUN"


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG: nothing outlives a killed test run


@dataclass
class Job:
    """A started job: ``pid`` is its root, ``folder`` holds its log and notes."""

    pid: int
    folder: Path

    def fault_t(self) -> float | None:
        """When what goes wrong began, on the monotonic clock; ``None`` before."""
        with suppress(OSError):
            return float((self.folder / "fault").read_text())
        return None

    def say_go(self) -> None:
        """Let those go on that wait for a word."""
        for _ in range(64):
            with suppress(OSError):  # nobody waits (any more)
                os.close(os.open(self.folder / "word", os.O_WRONLY | os.O_NONBLOCK))
            time.sleep(0.002)


@dataclass
class Stage:
    """Where jobs are started, and the one way to end them: by what stands in the environment of all they started."""

    folder: Path
    tag: str = field(default_factory=lambda: uuid.uuid4().hex)
    _started: list[subprocess.Popen[bytes]] = field(default_factory=list[subprocess.Popen[bytes]])
    _cgroups: list[Path] = field(default_factory=list[Path])
    closing: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    """What else is to be called at the end."""

    def place(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir()
        os.mkfifo(folder / "word")
        return folder

    def start(
        self,
        folder: Path,
        command: Sequence[str],
        *,
        env: dict[str, str] | None = None,
        out: int | None = None,
        stdin: int | None = subprocess.DEVNULL,
        process_group: bool = True,
    ) -> subprocess.Popen[bytes]:
        """Start a command; its output goes into ``run.log`` of the folder unless ``out`` is a descriptor."""
        log = (folder / "run.log").open("ab")
        with log:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=self.environ(folder) | (env or {}),
                stdin=stdin,
                stdout=log if out is None else out,
                stderr=log if out is None else out,
                start_new_session=process_group,
                preexec_fn=_die_with_parent,
            )
        self._started.append(process)
        return process

    def start_from_shell(self, folder: Path, command: Sequence[str], *, env: dict[str, str]) -> int:
        """Start a command from a shell, as a person does, and give back its process number."""
        (folder / "pid").unlink(missing_ok=True)
        self.start(folder, ["sh", "-c", '"$@" & echo $! > pid.new; mv pid.new pid; wait', "sh", *command], env=env)
        until = time.monotonic() + 10.0
        while not (folder / "pid").exists() and time.monotonic() < until:
            time.sleep(0.01)
        return int((folder / "pid").read_text())

    def environ(self, folder: Path) -> dict[str, str]:
        mine = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "MASTER_ADDR")}
        mine |= {_TAG: self.tag, "TRUTH_PLACE": str(folder), "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
        paths = filter(None, (str(Path(__file__).resolve().parents[3]), os.environ.get("PYTHONPATH")))
        return mine | {"PYTHONPATH": os.pathsep.join(paths)}

    def cgroup(self, controller: str, limits: dict[str, str]) -> Path | None:
        """A control group of our own, v1 or v2, with the limits set; ``None`` where none can be made. Names of v2 are
        given, v1's are derived."""
        roots = [CGROUPS / controller] if (CGROUPS / controller).is_dir() else [CGROUPS, CGROUPS / "unified"]
        for root in roots:
            group = root / f"truth-{self.tag[:8]}-{controller}"
            with suppress(OSError):
                group.mkdir()
                self._cgroups.append(group)
                for name, value in limits.items():
                    _set_limit(group, name, value)
                return group
        return None

    def stop(self) -> None:
        """End everything that bears our mark, by pid, until nothing is left."""
        for close in self.closing:
            close()
        for _ in range(50):
            left = [process for process in psutil.process_iter() if self._is_ours(process)]
            for process in left:
                with suppress(psutil.Error):
                    process.kill()
            for process in self._started:
                process.poll()
            if not left:
                break
            time.sleep(0.1)
        for group in self._cgroups:
            _remove(group)

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            return process.pid != os.getpid() and process.environ().get(_TAG) == self.tag
        except (psutil.Error, OSError):
            return False


def _remove(group: Path) -> None:
    """Remove a control group; it is busy until the last of its processes is quite gone."""
    for _ in range(50):
        with suppress(OSError):
            group.rmdir()
        if not group.exists():
            return
        time.sleep(0.1)


def _set_limit(group: Path, name: str, value: str) -> None:
    if (group / name).exists():
        (group / name).write_text(value)
    elif name == "cpu.max":
        quota, _, period = value.partition(" ")
        (group / "cpu.cfs_period_us").write_text(period)
        (group / "cpu.cfs_quota_us").write_text(quota)
    else:
        version1 = {"memory.max": "memory.limit_in_bytes", "memory.swap.max": "memory.swappiness"}
        (group / version1[name]).write_text(value)


def torchrun(script: str, ranks: int, fault: str, *more: str) -> list[str]:
    """``torchrun`` as people call it, on one node with a port of its own."""
    return [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={ranks}", *more, str(JOBS / script),
            *(["--fault", fault] if fault else [])]  # fmt: skip
