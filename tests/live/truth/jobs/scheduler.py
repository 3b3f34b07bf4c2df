"""One rank of the light server: loads, meets its fault where it is the one, waits for the others, serves."""

from __future__ import annotations

import json
import os
import socket
import sys
import time

import faults

from tui.demo.collective import ProcessGroup
from tui.demo.log import capture_bar, say, shard_bar, write
from tui.demo.process import set_title

SHARDS = 8


def main() -> None:
    plan = json.loads(sys.argv[1])
    rank = int(os.environ["RANK"])
    faults.die_with_parent()
    set_title(f"sglang::scheduler_TP{rank}")
    odd = rank == len(plan["ports"]) - 2
    fault = plan["fault"]
    if plan["cgroup"] and (odd or fault == "throttled"):
        faults.join_cgroup(plan["cgroup"])
    say("Init torch distributed begin.", rank)
    time.sleep(0.5)
    group = ProcessGroup(rank, socket.socket(fileno=plan["listener"]), plan["ports"])
    group.barrier()
    say("Init torch distributed ends. elapsed=0.50 s, mem usage=0.50 GB", rank)
    say("Load weight begin. avail mem=139.90 GB", rank)
    began = time.monotonic()
    for done in range(SHARDS + 1):
        if rank == 0:
            write(shard_bar(done, SHARDS, time.monotonic() - began))
        time.sleep(0.5)
    if odd or fault in EVERYBODYS:
        meet(fault, rank)
    say(f"Load weight end. elapsed={time.monotonic() - began:.2f} s, type=LlamaForCausalLM, avail mem=63.40 GB", rank)
    group.barrier()
    say("KV Cache is allocated. #tokens: 742144, K size: 19.00 GB, V size: 19.00 GB", rank)
    say("Memory pool end. avail mem=25.40 GB", rank)
    capture(rank)
    group.barrier()
    if rank == 0:
        say("max_total_num_tokens=742144, chunked_prefill_size=8192, max_running_requests=48", 0)
    os.write(plan["ready"], b"r")
    if fault == "none" and rank == 0:
        faults.begins()
    sys.stdin.buffer.read()


EVERYBODYS = frozenset({"throttled", "pause"})


def meet(fault: str, rank: int) -> None:
    if fault == "lock":
        faults.python_lock()
    elif fault == "fork":
        faults.fork_with_held_lock()
    elif fault == "gil":
        faults.held_gil()
    elif fault == "flock":
        faults.flock(faults.HERE / "kernels.lock")
    elif fault == "stop":
        faults.stop_myself()
    elif fault == "kill":
        faults.kill_myself()
    elif fault == "oom":
        faults.eat_memory()
    elif fault == "pipe":
        faults.fill_stderr()
    elif fault in ("throttled", "compute"):
        faults.compute(3600.0)
    elif fault == "slow":
        faults.read_slowly(2.0, 3600.0)
    elif fault == "pause":
        if rank == 0:
            faults.begins()
        faults.wait_for_word()
    elif fault != "none":
        raise SystemExit(f"no such fault: {fault}")


def capture(rank: int) -> None:
    say("Capture cuda graph begin. This can take up to several minutes. avail mem=25.40 GB", rank)
    began = time.monotonic()
    for done in range(1, 5):
        time.sleep(0.3)
        if rank == 0:
            write(capture_bar(40 - 8 * done, 25.0, done, 4, time.monotonic() - began))
    say("Capture cuda graph end. Time elapsed: 1.20 s. mem usage=1.40 GB. avail mem=24.00 GB.", rank)


if __name__ == "__main__":
    main()
