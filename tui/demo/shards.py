"""The demo's model: shard files that every rank really reads, and the embeddings that the ranks then share."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

SHARDS = 64
SHARD_BYTES = 4 << 20
SECONDS_PER_SHARD = 0.19


def shard_path(model: Path, number: int) -> Path:
    return model / f"model-{number + 1:05d}-of-{SHARDS:05d}.safetensors"


def write_model(model: Path) -> None:
    """Lay the shards down. They are one file under many names: what counts is that they are read."""
    model.mkdir()
    first = shard_path(model, 0)
    first.write_bytes(os.urandom(SHARD_BYTES))
    for number in range(1, SHARDS):
        shard_path(model, number).hardlink_to(first)


def read_shards(model: Path, on_shard: Callable[[int], None]) -> None:
    """Read all shards, one each :data:`SECONDS_PER_SHARD`, as a storage of that speed would give them."""
    start = time.monotonic()
    for number in range(SHARDS):
        with shard_path(model, number).open("rb", buffering=0) as file:
            while file.read(1 << 18):
                pass
        time.sleep(max(0.0, start + (number + 1) * SECONDS_PER_SHARD - time.monotonic()))
        on_shard(number + 1)


class ShardCache:
    """Embeddings that the target and the draft model share.

    It has the error that the demo is about. The refill thread takes the table and then waits to be asked; who asks
    needs the table first. It goes well as long as the asking comes before the refill thread has begun.
    """

    def __init__(self) -> None:
        self._table = threading.Lock()
        self._asked = threading.Condition()
        self._embeddings_wanted = False
        self._refill_has_table = threading.Event()
        self._refill_thread = threading.Thread(target=self._refill, name="shard-refill", daemon=True)

    def start_refill(self) -> None:
        """Begin to refill in the background; returns once the thread is at work."""
        self._refill_thread.start()
        self._refill_has_table.wait()

    def share_embeddings(self) -> None:
        """Hand the embeddings over: ask for them, under the table's lock."""
        with self._table, self._asked:
            self._embeddings_wanted = True
            self._asked.notify_all()

    def _refill(self) -> None:
        with self._table:
            self._refill_has_table.set()
            with self._asked:
                while not self._embeddings_wanted:
                    self._asked.wait()
