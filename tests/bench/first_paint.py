"""How soon the first picture and the first GPU numbers stand on the screen, against an empty Textual app.

``python -m tests.bench.first_paint [ROUNDS]``: the three programs take turns, each in a pseudo-terminal of 200x50
of its own, so that they meet the same machine. GPUs are the stand-in library's. Aims: 1.3 times and 2.3 times the
empty app, by the least of the rounds: what is above it is the machine's other work. CPU is the program's own.
All modules are compiled before, as they are where the program is installed.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from pathlib import Path

from tests import nvml_standin
from tests.bench.screen import Spent, compiled_in, spent_until

EMPTY = (sys.executable, "-m", "tests.bench.empty_app")
OURS = (sys.executable, "-m", "tui")


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "gpus"
        nvml_standin.write(config, {f"{gpu}.power": 311_000 + gpu * 1000 for gpu in range(8)})
        env = {**nvml_standin.environment(config), **compiled_in(folder)}
        cases = {
            "empty Textual app, first paint": (EMPTY, rb"the-first-paint", 1.0),
            "gputop-hang, first paint": (OURS, rb"GPU", 1.3),
            "gputop-hang, first GPU numbers": (OURS, rb"318", 2.3),
        }
        for command, pattern, _ in cases.values():
            spent_until(command, pattern, env=env)
        spent: dict[str, list[Spent]] = {name: [] for name in cases}
        for _ in range(rounds):
            for name, (command, pattern, _) in cases.items():
                spent[name].append(spent_until(command, pattern, env=env))
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"{'':34} {'least':>7} {'median':>7} {'ratio':>6} {'aim':>5} {'CPU':>7} {'ratio':>6}")
    floor = _least(spent["empty Textual app, first paint"])
    for name, (_, _, aim) in cases.items():
        wall, cpu = _least(spent[name])
        median = statistics.median(one.wall_s for one in spent[name])
        print(
            f"{name:34} {wall:6.3f}s {median:6.3f}s {wall / floor.wall_s:6.2f} {aim:5.1f}"
            f" {cpu:6.3f}s {cpu / floor.cpu_s:6.2f}"
        )


def _least(rounds: list[Spent]) -> Spent:
    return Spent(min(one.wall_s for one in rounds), min(one.cpu_s for one in rounds))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
