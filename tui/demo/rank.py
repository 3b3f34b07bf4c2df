"""One rank of the demo: a scheduler process like SGLang's, from its imports to its deadlock or to serving.

It takes its plan as one line of JSON on standard input, where a person with ``ps`` does not see which rank was chosen.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import queue
import random
import socket
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from tui.demo.collective import ProcessGroup
from tui.demo.kernels import KernelBuilder
from tui.demo.log import capture_bar, say, shard_bar, write
from tui.demo.process import die_with_parent, set_title
from tui.demo.shards import SHARDS, ShardCache, read_shards

TOTAL_GB = 140.4
CONTEXT_GB = 0.5
WEIGHTS_GB = 76.0
KV_GB = 38.0
POOL_BYTES = 128 << 20
"""What is read to fill the pool: as many bytes a GB as for the weights."""

CAPTURE_BATCHES = (160, 152, 144, 136, 128, 120, 112, 104, 96, 88, 80, 72, 64, 60, 56, 52, 48, 44, 40, 32)
CAPTURE_S = 0.3

_IMPORTS = (
    "asyncio",
    "concurrent.futures",
    "decimal",
    "email.mime.multipart",
    "http.client",
    "inspect",
    "unittest.mock",
)
_IDLE_THREADS = (
    *("tokenizer", "detokenizer", "metrics", "request-log", "kv-events", "heartbeat", "store"),
    *(f"prefetch-{n}" for n in range(4)),
)


class Scheduler:
    def __init__(self, rank: int, plan: dict[str, Any]) -> None:
        self.rank = rank
        self._plan = plan
        self._model = Path(plan["model"])
        self._started = time.monotonic()

    def run(self) -> None:
        """All of a rank's life, on the main thread as in SGLang."""
        self._import_modules()
        self._start_idle_threads()
        group = self._init_distributed()
        self._load_model()
        group.barrier()
        self._allocate_memory_pool()
        self._capture_graphs()
        group.barrier()
        if self.rank == 0:
            say("max_total_num_tokens=742144, chunked_prefill_size=8192, max_running_requests=48", 0)
        os.write(self._plan["ready_fd"], b"ready\n")
        self._event_loop()

    def _import_modules(self) -> None:
        for name in _IMPORTS:
            importlib.import_module(name)
            time.sleep(random.uniform(0.05, 0.15))

    def _start_idle_threads(self) -> None:
        """A real server's threads mostly wait for work; so do these, for good."""
        for name in _IDLE_THREADS:
            work: queue.SimpleQueue[None] = queue.SimpleQueue()
            threading.Thread(target=work.get, name=name, daemon=True).start()

    def _init_distributed(self) -> ProcessGroup:
        say("Init torch distributed begin.", self.rank)
        start = time.monotonic()
        group = ProcessGroup(self.rank, socket.socket(fileno=self._plan["listener_fd"]), self._plan["ports"])
        peers = group.size - 1
        write(
            f"[Gloo] Rank {self.rank} is connected to {peers} peer ranks. "
            f"Expected number of connected peer ranks is : {peers}\n"
        )
        group.barrier()
        time.sleep(random.uniform(0.4, 0.8))
        group.barrier()
        say(
            f"Init torch distributed ends. elapsed={time.monotonic() - start:.2f} s, mem usage={CONTEXT_GB:.2f} GB",
            self.rank,
        )
        return group

    def _load_model(self) -> None:
        start = time.monotonic()
        say(f"Load weight begin. avail mem={TOTAL_GB - CONTEXT_GB:.2f} GB", self.rank)
        if self.rank == 0:
            write(shard_bar(0, SHARDS, 0.0))
        read_shards(self._model, lambda done: self._on_shard(done, time.monotonic() - start))
        cache = ShardCache()
        if self._plan["refill_first"]:
            cache.start_refill()
        cache.share_embeddings()
        if self._plan["build_s"]:
            KernelBuilder(self._model.parent / "kernels").build(self._plan["build_s"])
        say(
            f"Load weight end. elapsed={time.monotonic() - start:.2f} s, type=DemoForCausalLM, dtype=torch.bfloat16, "
            f"avail mem={TOTAL_GB - CONTEXT_GB - WEIGHTS_GB:.2f} GB, mem usage={WEIGHTS_GB:.2f} GB.",
            self.rank,
        )

    def _on_shard(self, done: int, elapsed_s: float) -> None:
        if self.rank == 0:
            write(shard_bar(done, SHARDS, elapsed_s))
            if done == SHARDS:  # tqdm draws the full bar once more when it closes, and an empty line
                write(shard_bar(done, SHARDS, elapsed_s) + "\n")

    def _allocate_memory_pool(self) -> None:
        with Path("/dev/zero").open("rb", buffering=0) as zeros:
            for _ in range(POOL_BYTES >> 20):
                zeros.read(1 << 20)
        time.sleep(random.uniform(0.5, 0.8))
        half = KV_GB / 2
        say(f"KV Cache is allocated. #tokens: 742144, K size: {half:.2f} GB, V size: {half:.2f} GB", self.rank)
        say(f"Memory pool end. avail mem={TOTAL_GB - CONTEXT_GB - WEIGHTS_GB - KV_GB:.2f} GB", self.rank)

    def _capture_graphs(self) -> None:
        avail = TOTAL_GB - CONTEXT_GB - WEIGHTS_GB - KV_GB
        say(f"Capture cuda graph begin. This can take up to several minutes. avail mem={avail:.2f} GB", self.rank)
        total = len(CAPTURE_BATCHES)
        start = time.monotonic()
        if self.rank == 0:
            write(f"\r  0%|          | 0/{total} [00:00<?, ?it/s]")
        for done, batch in enumerate(CAPTURE_BATCHES, 1):
            _compute(CAPTURE_S)
            if self.rank == 0:
                write(capture_bar(batch, avail - 0.07 * done, done, total, time.monotonic() - start))
        elapsed = time.monotonic() - start
        say(
            f"Capture cuda graph end. Time elapsed: {elapsed:.2f} s. mem usage=1.40 GB. "
            f"avail mem={avail - 1.4:.2f} GB.",
            self.rank,
        )

    def _event_loop(self) -> None:
        """Wait for requests; the end of the pipe is the server's end."""
        while sys.stdin.buffer.readline():
            pass


def _compute(seconds: float) -> None:
    """Some work on the CPU in so much time, as a graph capture has: a twentieth of one core."""
    end = time.monotonic() + seconds
    while time.monotonic() < end - 0.95 * seconds:
        pass
    time.sleep(max(0.0, end - time.monotonic()))


def main() -> None:
    line = sys.stdin.buffer.readline()
    if not line:
        return  # the server ended before it could say what to do
    plan: dict[str, Any] = json.loads(line)
    die_with_parent(plan["parent"])
    faulthandler.enable()
    rank = int(os.environ["RANK"])
    set_title(f"demo::scheduler_TP{rank}")
    try:
        Scheduler(rank, plan).run()
    except OSError:
        say(f"Scheduler hit an exception: {traceback.format_exc()}", rank)
        sys.exit(1)


if __name__ == "__main__":
    main()
