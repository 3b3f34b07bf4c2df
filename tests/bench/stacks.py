"""What the stacks of a large job cost: 64 hosts with 8 ranks each, 60 threads a rank, rank 99 stuck in a lock.

``python -m tests.bench.stacks [RANKS]``: once as the monitor has them (threads in memory: merging, the verdict's
evidence, the tree as text), and once as someone sent them (py-spy's JSON on disk, some 170 KB a rank: reading, parsing,
merging), against a floor that only reads and parses the same bytes with ``json``. Each is a process of its own; CPU
seconds, and the peak of its resident memory less an empty interpreter's. Aims: merged within 2 s and 300 MB.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RANKS = 512
THREADS = 60
DEPTH = 12
CULPRIT = 99
C10D = "/opt/venv/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py"


def pyspy_json(rank: int) -> str:
    """As ``py-spy dump --json`` prints it; ids and addresses differ from rank to rank, as they do."""
    leaf = ("all_reduce", C10D, 3252) if rank != CULPRIT else ("BatchCache.refill", "/job/cache.py", 26)
    main = [
        leaf,
        *((f"step_{n}", f"/job/model/part{n}.py", 40 + n) for n in range(DEPTH)),
        ("<module>", "/job/train.py", 9),
    ]
    rows = [
        _thread(rank, thread, [(f"work_{thread}_{n}", f"/job/lib{n}.py", n + 1) for n in range(DEPTH)])
        for thread in range(1, THREADS)
    ]
    return json.dumps([*rows, _thread(rank, 0, main)], indent=2)


def _thread(rank: int, number: int, frames: list[tuple[str, str, int]]) -> dict[str, Any]:
    pid = 4000 + rank
    return {
        "pid": pid,
        "thread_id": (0x7F0000000000 + (rank << 26) + (number << 13)),
        "thread_name": "MainThread" if number == 0 else f"worker-{number}",
        "os_thread_id": pid + number * 1000,
        "active": False,
        "owns_gil": False,
        "frames": [
            {"name": name, "filename": file, "module": None, "short_filename": file.rpartition("/")[2], "line": line,
             "locals": None, "is_entry": False, "is_shim_entry": False}
            for name, file, line in frames
        ],
        "process_info": None,
    }  # fmt: skip


def contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.iterdir()):
        yield str(path), path.read_bytes()


def nothing(folder: Path) -> float:
    import tui.stacks.offline  # noqa: F401

    return 0.0


def floor(folder: Path) -> float:
    began = time.process_time()
    for _, data in contents(folder):
        json.loads(data)
    return time.process_time() - began


def sent(folder: Path) -> float:
    from tui.stacks.merge import merge
    from tui.stacks.offline import read
    from tui.stacks.tree import draw, tree

    began = time.process_time()
    reading = read(contents(folder))
    merged = merge(reading.processes, reading.called, reading.before)
    assert len(reading.processes) == len(list(folder.iterdir())) and draw(tree(merged.groups))
    assert merged.odd_ranks == ((CULPRIT,) if len(reading.processes) > CULPRIT else ()), merged.why
    return time.process_time() - began


def in_memory(folder: Path) -> float:
    from tui.stacks.evidence import speaks_for
    from tui.stacks.merge import merge
    from tui.stacks.offline import read
    from tui.stacks.tree import draw, tree

    processes = read(contents(folder)).processes
    began = time.process_time()
    merged = merge(processes)
    speaks_for(processes)
    draw(tree(merged.groups))
    return time.process_time() - began


CASES = {"nothing": nothing, "floor": floor, "sent": sent, "in_memory": in_memory}


def measure(case: str, folder: Path) -> tuple[float, float]:
    """CPU seconds and peak MB of one case, in a process of its own."""
    command = [sys.executable, "-m", "tests.bench.stacks", "--case", case, str(folder)]
    seconds, kib = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(seconds), float(kib) / 1024


def main(ranks: int) -> dict[str, tuple[float, float]]:
    """Prints the table and returns it: CPU seconds and MB above an empty interpreter."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for rank in range(ranks):
            (folder / f"host{rank // 8:02}-rank{rank}.json").write_text(pyspy_json(rank))
        size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
        empty = measure("nothing", folder)[1]
        found = {case: measure(case, folder) for case in ("floor", "sent", "in_memory")}
    table = {case: (seconds, peak - empty) for case, (seconds, peak) in found.items()}
    print(f"{ranks} ranks of {THREADS} threads, {size:.0f} MB of py-spy's JSON")
    for case, words in (
        ("floor", "json.loads of the same bytes"),
        ("sent", "read, parsed and merged as sent"),
        ("in_memory", "merged from memory, with evidence"),
    ):
        seconds, peak = table[case]
        print(f"{words:34} {seconds:6.2f} s  {seconds / table['floor'][0]:5.2f} x the floor  {peak:6.0f} MB")
    return table


if __name__ == "__main__":
    if sys.argv[1:2] == ["--case"]:
        took = CASES[sys.argv[2]](Path(sys.argv[3]))
        print(took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else RANKS)
