"""How long ``q`` takes, as it is and while a driver call hangs in the agent's helper, against an empty Textual app.

``python -m tests.bench.leave [ROUNDS]``: from the key to the end of the process. Aim: 0.5 s.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tests import nvml_standin
from tests.bench.first_paint import EMPTY, OURS
from tests.bench.screen import compiled_in, read_for, start


def seconds_to_leave(command: tuple[str, ...], key: bytes, env: Mapping[str, str]) -> float:
    pid, terminal = start(command, env=env)
    read_for(terminal, 4.0)
    began = time.perf_counter()
    os.write(terminal, key)
    with suppress(OSError):  # the terminal's other end is closed
        while read_for(terminal, 10.0):
            pass
    os.waitpid(pid, 0)
    os.close(terminal)
    return time.perf_counter() - began


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        well, stuck = Path(folder) / "well", Path(folder) / "stuck"
        nvml_standin.write(well, {f"{gpu}.power": 311_000 for gpu in range(8)})
        nvml_standin.write(stuck, {"3.hang": 1, **{f"{gpu}.power": 311_000 for gpu in range(8)}})
        compiled = compiled_in(folder)
        cases = {
            "empty Textual app": (EMPTY, b"\x11", {}),  # ctrl+q
            "gputop-hang": (OURS, b"q", nvml_standin.environment(well)),
            "gputop-hang, a driver call hangs": (OURS, b"q", nvml_standin.environment(stuck)),
        }
        times: dict[str, list[float]] = {name: [] for name in cases}
        for _ in range(rounds):
            for name, (command, key, env) in cases.items():
                times[name].append(seconds_to_leave(command, key, {**compiled, **env}))
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for name, took in times.items():
        print(f"{name:34} least {min(took):.3f} s  median {statistics.median(took):.3f} s  aim 0.5 s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
