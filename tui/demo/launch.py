"""Starting and ending the demo: a real launch on this machine that goes silent."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tui.errors import UsageError

GPUS = 8
GPU_WEIGHTS_MIB = 76 * 1024
"""What the weights of one rank fill of a simulated GPU."""


BUILD_S = 110.0
"""How long the healthy twin builds kernels: longer than the deadlock needs to be called hung."""


class DemoLaunch:
    """A server of eight ranks in processes of its own, which ends when this process ends, however that happens.

    Everything it writes lies in one private directory (under ``directory``, else where temporary files go), which goes
    with it. ``healthy`` is the twin that is only slow: it builds kernels for ``build_s`` seconds.
    """

    def __init__(self, *, healthy: bool, directory: Path | None = None, build_s: float = BUILD_S) -> None:
        self.healthy = healthy
        self.parent_pid = 0
        self.log_path = Path()
        self._where = directory
        self._build_s = build_s
        self._directory: Path | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._life: int | None = None

    def start(self) -> None:
        """Start the server process and return at once.

        Raises: UsageError where this machine cannot run it.
        """
        if not sys.platform.startswith("linux"):
            raise UsageError("the demo needs Linux: it shows real processes as /proc shows them")
        try:
            self._directory = Path(tempfile.mkdtemp(prefix="gputop-hang-demo-", dir=self._where))
            self._start(self._directory)
        except OSError as error:
            self.stop()
            raise UsageError(f"the demo cannot start here: {error}; set TMPDIR to a directory with room") from error

    def simulation(self) -> dict[str, object]:
        """What the agent needs to simulate GPUs from these processes where there is no driver."""
        from tui.demo.shards import SHARD_BYTES, SHARDS

        return {"parent": self.parent_pid, "gpus": GPUS, "mib_per_byte": GPU_WEIGHTS_MIB / (SHARDS * SHARD_BYTES)}

    def stop(self) -> None:
        """End all of its processes and remove its directory; once is enough, twice does no harm."""
        if self._server is not None:
            # Not reaped before: as long as it is not, its number is nobody else's, and so is its group's.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._server.pid, signal.SIGKILL)
            self._server.wait()
            self._server = None
        if self._life is not None:
            os.close(self._life)
            self._life = None
        if self._directory is not None:
            _remove(self._directory)
            self._directory = None

    def _start(self, directory: Path) -> None:
        self.log_path = directory / "demo.log"
        command = [sys.executable, "-m", "tui.demo.server", "--model-path", str(directory / "moe-64-shards")]
        command += [
            "--tp-size",
            str(GPUS),
            "--port",
            str(_free_port()),
            *(["--build-seconds", str(self._build_s)] if self.healthy else []),
        ]
        package = str(Path(__file__).resolve().parent.parent.parent)
        env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))}
        reading, self._life = os.pipe()
        try:
            with self.log_path.open("ab") as log:
                self._server = subprocess.Popen(
                    command, stdin=reading, stdout=log, stderr=log, env=env, cwd=directory, start_new_session=True
                )
        finally:
            os.close(reading)
        self.parent_pid = self._server.pid


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def _remove(directory: Path) -> None:
    """Remove it; a process that is just dying may still put a file into it."""
    for _ in range(20):
        shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            return
        time.sleep(0.02)
