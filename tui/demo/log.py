"""The demo's log lines: SGLang 0.5.9's grammar on standard error, one write each so that ranks do not tear lines."""

from __future__ import annotations

import os
import time


def write(text: str) -> None:
    """Raw text to the log (bars bring their own carriage returns)."""
    os.write(2, text.encode())


def say(message: str, rank: int | None = None) -> None:
    """One line with time stamp and, for a rank, its name: ``[2026-02-22 11:42:34 TP2] message``."""
    who = "" if rank is None else f" TP{rank}"
    write(f"[{time.strftime('%Y-%m-%d %H:%M:%S')}{who}] {message}\n")


def shard_bar(done: int, total: int, elapsed_s: float) -> str:
    """tqdm's bar as SGLang up to 0.5.9 formats it for shards: a carriage return before, a newline behind."""
    rate = f"{elapsed_s / done:5.2f}s/it" if done else "?it/s"
    left = _clock(elapsed_s / done * (total - done)) if done else "?"
    percent = 100 * done // total
    return (
        f"\rLoading safetensors checkpoint shards: {percent:3d}% Completed | {done}/{total}"
        f" [{_clock(elapsed_s)}<{left}, {rate}]\n"
    )


def capture_bar(batch: int, avail_gb: float, done: int, total: int, elapsed_s: float) -> str:
    """The bar of graph captures: redrawn in place, the newline comes with the last."""
    blocks = 10 * done // total
    bar = "█" * blocks + " " * (10 - blocks)
    rate = f"{done / elapsed_s:5.2f}it/s" if done else "?it/s"
    left = _clock(elapsed_s / done * (total - done)) if done else "?"
    end = "\n" if done == total else ""
    return (
        f"\rCapturing batches (bs={batch} avail_mem={avail_gb:.2f} GB): {100 * done // total:3d}%|{bar}| {done}/{total}"
        f" [{_clock(elapsed_s)}<{left}, {rate}]{end}"
    )


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"
