"""What keeps one rank of the healthy demo busy: kernels that are really compiled, one after the other."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

_NICENESS = 10
_FUNCTIONS = 250


class KernelBuilder:
    """Compiles generated kernels with the machine's own compiler; where there is none, Python does some other work."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("cc") or shutil.which("gcc")

    def build(self, seconds: float) -> int:
        """Compile kernels for ``seconds``; returns how many."""
        self._directory.mkdir()
        end = time.monotonic() + seconds
        built = 0
        while time.monotonic() < end:
            self._compile(built)
            built += 1
        return built

    def _compile(self, number: int) -> None:
        """One kernel, a second or two of one core."""
        if self._compiler is None:
            command = [sys.executable, "-c", "sum(n * n for n in range(20_000_000))"]
        else:
            source = self._directory / f"kernel_{number}.c"
            source.write_text(_source(number))
            command = [self._compiler, "-O3", "-c", str(source), "-o", str(source.with_suffix(".o"))]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        os.setpriority(os.PRIO_PROCESS, process.pid, _NICENESS)
        if process.wait() != 0:
            self._compiler = None  # it is there but cannot compile


def _source(number: int) -> str:
    """Functions with nested loops that an optimiser likes to unroll; each kernel differs, so nothing can be cached."""
    return "\n".join(
        f"int k{number}_{n}(int *x) {{ int s = {number + n}; for (int i = 0; i < {8 + n % 7}; i++)"
        f" for (int j = 0; j < {16 + number % 5}; j++) s += x[i * 16 + j] * (s ^ {n * 31 + 7}); return s; }}"
        for n in range(_FUNCTIONS)
    )
