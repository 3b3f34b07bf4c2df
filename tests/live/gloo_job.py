"""A real launch for the ladder's tests: eight ranks of PyTorch under ``torchrun`` that reduce over gloo until rank 5 is
stuck in a lock of its own, or leaves out a barrier.

``torchrun … gloo_job.py lock|skip ODD FOLDER``. Each rank leaves ``FOLDER/rankN`` behind when it is about to hang. On a
cluster ``ProcessGroupNCCL`` reads the flight recorder's pipe; gloo has the recorder but no such thread, so that here a
thread of the job reads the pipe and writes what PyTorch's own recorder holds.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist


class BatchCache:
    def __init__(self) -> None:
        self._lock = threading.Lock()

    def start_evictor(self) -> None:
        held = threading.Event()

        def evict() -> None:
            with self._lock:
                held.set()
                time.sleep(3600)

        threading.Thread(target=evict, name="cache-evictor", daemon=True).start()
        held.wait()

    def refill(self) -> None:
        with self._lock:
            pass


def trace() -> bytes:
    return torch._C._distributed_c10d._dump_fr_trace()  # pyright: ignore


def record_on_demand(rank: int) -> None:
    """What ``HeartbeatMonitor`` of ProcessGroupNCCL does: a byte in the pipe makes a file of the recorder's content."""
    pipe = os.environ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] + f"{rank}.pipe"
    os.mkfifo(pipe)
    fd = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    def watch() -> None:
        while True:
            if os.read(fd, 100):
                Path(os.environ["TORCH_FR_DUMP_TEMP_FILE"] + str(rank)).write_bytes(trace())
            time.sleep(0.2)

    threading.Thread(target=watch, name="pipe-watch", daemon=True).start()


def train_step(rank: int, step: int, case: str, odd: int, cache: BatchCache) -> None:
    gradient = torch.ones(1000)
    if rank == odd and step == 3 and case == "lock":
        cache.start_evictor()
        cache.refill()
    sync_gradients(gradient)
    if not (rank == odd and step == 3 and case == "skip"):
        dist.barrier()


def sync_gradients(gradient: torch.Tensor) -> None:
    dist.all_reduce(gradient)


def main(case: str, odd: int, folder: Path) -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    record_on_demand(rank)
    cache = BatchCache()
    for step in range(1000):
        if step == 1:
            trace()  # reads symbols the first time, for a second of CPU: not while somebody waits for all eight
        if step == 3:
            (folder / f"rank{rank}").write_text(str(os.getpid()))
        train_step(rank, step, case, odd, cache)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
