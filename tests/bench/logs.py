"""What reading logs costs: in the agent's helper, and in the monitor.

``python -m tests.bench.logs [FOLDER ...]``: 20 MB that came in one tick, as redraws and as lines, through the agent's
flood filter with all of the monitor's patterns; then lines through the reader, and every ``*.log`` below the folders
(default: the repository's recordings). Aims: 5 ms for the redraws; one second for all logs together.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tui.agent.flood import TAIL, Filter, sift, sift_back
from tui.collect.logtext import LogSplitter
from tui.diagnose.markers import load
from tui.diagnose.reader import LogReader
from tui.model import LogLine

SIZE = 20_000_000
REDRAW = b"shards:  3/64 " + b"#" * 85 + b"\r"
LINE = b"[2026-01-01 00:00:00 TP0] Decode batch. #running-req: 12, #token: 812, gen throughput (token/s): 812.21\n"
SCENARIOS = Path(__file__).parent.parent / "scenarios"


def ms(work: Callable[[], object], rounds: int = 3) -> float:
    """Least CPU time of some rounds, in ms."""
    times: list[float] = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        times.append(1e3 * (time.process_time() - began))
    return min(times)


def agent() -> None:
    keep = Filter([(row["pattern"], row["words"]) for row in load().filter()])
    for name, block, aim in (("redraws", REDRAW, "5 ms"), ("lines", LINE, "")):
        with tempfile.TemporaryFile() as file:
            file.write(block * (SIZE // len(block)))
            file.flush()
            took = ms(lambda: sift(file.fileno(), 0, SIZE - TAIL, keep))
            print(f"agent: 20 MB of {name:8} {took:8.1f} ms  {aim and 'aim ' + aim}")
            if block is LINE:
                found: list[int] = []
                began = time.monotonic()
                found.append(len(sift_back(file.fileno(), 0, os.fstat(file.fileno()).st_size, keep, 0.4)))
                print(f"agent: the same, searched back {1e3 * (time.monotonic() - began):4.1f} ms  aim 400 ms")


def reader() -> None:
    lines = [LogLine(LINE.decode().strip(), i * 1e-3) for i in range(SIZE // len(LINE))]
    print(f"reader: 20 MB of lines, live  {ms(lambda: LogReader().read(lines, None), 1):8.1f} ms")
    lump = [LogLine(line.text) for line in lines]
    print(f"reader: 20 MB that lay there  {ms(lambda: LogReader().read(lump, 5.0), 1):8.1f} ms")
    redraws = REDRAW * (SIZE // len(REDRAW))
    print(f"splitter: 20 MB of redraws    {ms(lambda: LogSplitter().feed(redraws)):8.1f} ms")


def recordings(folders: list[Path]) -> None:
    logs = [path.read_bytes() for folder in folders for path in folder.rglob("*.log")]

    def read_all() -> None:
        for data in logs:
            splitter, log = LogSplitter(), LogReader()
            for i, line in enumerate(data.splitlines(keepends=True)):
                log.read(splitter.feed(line, float(i)), None)

    read_all()
    print(f"reader: {len(logs)} recordings, {sum(map(len, logs)) / 1e6:.1f} MB {ms(read_all):8.1f} ms  aim 1000 ms")


if __name__ == "__main__":
    agent()
    reader()
    recordings([Path(word) for word in sys.argv[1:]] or [SCENARIOS])
