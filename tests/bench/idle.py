"""What the monitor costs while nothing happens: a hung launch on the screen, eight GPUs, everything as it is live.

``python -m tests.bench.idle [SECONDS]`` starts the demo and its monitor in a pseudo-terminal of 200x50, waits until the
verdict stands, and measures for some seconds: CPU of the monitor and of its agent (both without their children), what
the agent holds of memory, and what goes to the terminal. Figures are per minute. The floor is an empty Textual
application with a timer that does nothing once a second, over the same seconds.
"""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from tests.bench.screen import compiled_in, cpu_s, start

DEMO = (sys.executable, "-m", "tui", "demo")
FLOOR = (
    sys.executable,
    "-c",
    "from tests.bench.empty_app import EmptyApp\n"
    "class Ticking(EmptyApp):\n"
    "    def on_mount(self): self.set_interval(1.0, lambda: None)\n"
    "Ticking().run()",
)
VERDICT = re.compile(rb"HUNG")
APPEARS_WITHIN_S = 300.0


class Program:
    """A program on a terminal, whose output is read as long as :meth:`read_for` runs."""

    def __init__(self, command: tuple[str, ...], env: dict[str, str]) -> None:
        self.pid, self._terminal = start(command, env=env)
        self.written = 0
        self.tail = b""

    def read_for(self, seconds: float, until: re.Pattern[bytes] | None = None) -> bool:
        """Whether ``until`` was found before the time was over."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self._terminal], [], [], left)[0]:
                data = os.read(self._terminal, 1 << 16)
                self.written += len(data)
                self.tail = (self.tail + data)[-400_000:]
                if until is not None and until.search(self.tail):
                    return True
        return False

    def end(self) -> None:
        os.kill(self.pid, signal.SIGTERM)
        with suppress(OSError):  # it has closed its end
            self.read_for(5.0)
        os.waitpid(self.pid, 0)
        os.close(self._terminal)


def main(seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        env = compiled_in(folder)
        floor = Program(FLOOR, env)
        floor.read_for(2.0)
        demo = Program(DEMO, env)
        if not demo.read_for(APPEARS_WITHIN_S, VERDICT):
            raise SystemExit(f"no verdict within {APPEARS_WITHIN_S:.0f} s: {demo.tail[-400:]!r}")
        demo.read_for(5.0)
        agents = _children(demo.pid)
        pids = {"floor": floor.pid, "monitor": demo.pid, "agent": agents[-1]}
        before, written = {name: cpu_s(pid) for name, pid in pids.items()}, demo.written
        demo.read_for(seconds)
        minutes = seconds / 60
        spent = {name: (cpu_s(pid) - before[name]) / minutes for name, pid in pids.items()}
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, {seconds:.0f} s")
        print(f"monitor, CPU a minute   {spent['monitor']:6.2f} s   aim 1.2; empty Textual app {spent['floor']:.2f} s")
        print(f"agent, CPU a minute     {spent['agent']:6.2f} s   aim 0.3")
        print(f"agent, memory           {_rss_mb(pids['agent']):6.1f} MB  aim 20")
        print(f"terminal, bytes a minute{(demo.written - written) / minutes / 1000:5.0f} kB  aim 300")
        demo.end()
        floor.end()


def _children(pid: int) -> list[int]:
    words = (task / "children" for task in Path(f"/proc/{pid}/task").iterdir())
    return sorted(int(word) for file in words for word in file.read_text().split())


def _rss_mb(pid: int) -> float:
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith("VmRSS:")) * 1024 / 1e6


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 30.0)
