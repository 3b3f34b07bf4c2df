"""A start-up in SGLang's words: ``start_up.py ENDS LOADING_S``, where ENDS is ``ready``, ``hangs`` or ``dies``.

The bar of its shards goes to standard error, where the launch's log is.
"""

from __future__ import annotations

import signal
import sys
import time

SHARDS = 8


def say(text: str) -> None:
    print(f"[{time.strftime('%Y-%m-%d %H:%M:%S')} TP0] {text}", file=sys.stderr, flush=True)


def main(ends: str, loading_s: float) -> None:
    time.sleep(1.5)
    say("Init torch distributed begin.")
    time.sleep(1.5)
    say("Init torch distributed ends. elapsed=1.50 s, mem usage=0.50 GB")
    say("Load weight begin. avail mem=138.28 GB")
    for done in range(SHARDS):
        time.sleep(loading_s / SHARDS)
        if ends != "ready" and done == SHARDS // 2:
            if ends == "dies":
                raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
            signal.pause()
        bar = f"{100 * (done + 1) // SHARDS:3d}% Completed | {done + 1}/{SHARDS}"
        print(f"Loading safetensors checkpoint shards: {bar} [00:01<00:01,  1.00s/it]", file=sys.stderr, flush=True)
    say("Load weight end. elapsed=3.00 s, type=M, dtype=torch.bfloat16, avail mem=60.00 GB, mem usage=76.00 GB.")
    say("Capture cuda graph begin. This can take up to several minutes. avail mem=20.00 GB")
    time.sleep(1.5)
    say("The server is fired up and ready to roll!")
    signal.pause()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
