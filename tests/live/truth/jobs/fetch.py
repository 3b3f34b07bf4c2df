"""Fetch files over HTTP as a hub's client does, with its bars: ``fetch.py URL FILES``."""

from __future__ import annotations

import sys
import time
import urllib.request
from pathlib import Path

import faults


def main() -> None:
    faults.die_with_parent()
    url, count = sys.argv[1], int(sys.argv[2])
    began = time.monotonic()
    print("INFO 05-04 11:42:34 [weight_utils.py:315] Using model weights format ['*.safetensors']", file=sys.stderr)
    bar(0, count, began)
    for done in range(1, count + 1):
        blob = faults.HERE / f"blobs-{done}.incomplete"
        with urllib.request.urlopen(f"{url}/model-{done:05d}.safetensors") as answer, blob.open("wb") as file:
            while piece := answer.read(1 << 16):
                file.write(piece)
                file.flush()
        blob.rename(faults.HERE / f"blobs-{done}")
        bar(done, count, began)


def bar(done: int, total: int, began: float) -> None:
    percent = 100 * done // total
    rate = f"{(time.monotonic() - began) / done:.2f}s/it" if done else "?it/s"
    blocks = "█" * (percent // 10)
    text = f"\rFetching {total} files: {percent:3d}%|{blocks:10}| {done}/{total} [00:{done:02d}<00:10, {rate}]"
    print(text, end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    Path(faults.HERE).mkdir(exist_ok=True)
    main()
