"""How soon the first picture and the first GPU numbers stand on the screen, against an empty Textual app.

``python -m tests.bench.first_paint [ROUNDS]``: the three programs take turns, each in a pseudo-terminal of 200x50
of its own, so that they meet the same machine. GPUs are the stand-in library's. Aims: 1.3 times and 2.3 times the
empty app.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

from tests import nvml_standin
from tests.bench.screen import seconds_until

EMPTY = (sys.executable, "-m", "tests.bench.empty_app")
OURS = (sys.executable, "-m", "tui")


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "gpus"
        nvml_standin.write(config, {f"{gpu}.power": 311_000 + gpu * 1000 for gpu in range(8)})
        env = nvml_standin.environment(config)
        cases = {
            "empty Textual app, first paint": (EMPTY, rb"the-first-paint", 1.0),
            "gputop-hang, first paint": (OURS, rb"GPU", 1.3),
            "gputop-hang, first GPU numbers": (OURS, rb"318", 2.3),
        }
        times: dict[str, list[float]] = {name: [] for name in cases}
        for _ in range(rounds):
            for name, (command, pattern, _) in cases.items():
                times[name].append(seconds_until(command, pattern, env=env))
    floor = statistics.median(times["empty Textual app, first paint"])
    print(f"{'':34} {'min':>7} {'median':>7} {'ratio':>6} {'aim':>5}")
    for name, (_, _, aim) in cases.items():
        median = statistics.median(times[name])
        print(f"{name:34} {min(times[name]):6.3f}s {median:6.3f}s {median / floor:6.2f} {aim:5.1f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
