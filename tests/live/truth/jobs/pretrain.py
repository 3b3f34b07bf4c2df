"""A training script for torchrun, on gloo, in the words of Megatron-LM; one rank meets what ``--fault`` names."""

from __future__ import annotations

import argparse
import datetime
import os
import time

import faults

faults.die_with_parent()

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

LONG = datetime.timedelta(hours=2)
"""Some launches set such time-outs; with the default one the collective would give up after half an hour."""


class Tokens(Dataset[torch.Tensor]):
    def __init__(self, stuck: bool) -> None:
        self._stuck = stuck

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> torch.Tensor:
        if self._stuck and index == 6:
            faults.begins()
            faults.wait_for_word()  # a read that never comes back
        return torch.full((64,), float(index))


class Job:
    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.odd = self.rank == self.size - 1

    def say(self, text: str, only: int | None = 0) -> None:
        if only is None or self.rank == only:
            print(text, flush=True)

    def initialize(self) -> None:
        self.say(f"using world size: {self.size}, data-parallel size: {self.size}, tensor-model-parallel size: 1")
        self.say("> initializing torch distributed ...")
        if self.fault == "absent" and self.odd:
            faults.begins()
            faults.wait_for_word()
        dist.init_process_group("gloo", timeout=LONG)
        self.say("> initialized tensor model parallel with size 1")
        self.say("time to initialize megatron (seconds): 2.500")

    def build(self) -> None:
        self.say("building GPT model ...")
        time.sleep(0.5)
        self.say(" loading distributed checkpoint from /data/runs/cedar/ckpt at iteration 560")
        time.sleep(1.0)
        self.say("  successfully loaded checkpoint from /data/runs/cedar/ckpt [ t 1/1, p 1/1 ] at iteration 560")
        self.say("> building train, validation, and test datasets ...")
        if self.fault == "barrier":
            if self.odd:  # it skips the barrier and comes to the next collective alone
                faults.begins()
            else:
                dist.barrier()
        if self.fault == "lock" and self.odd:
            faults.python_lock()
        dist.all_reduce(torch.ones(1))
        self.say("> finished creating GPT datasets ...")

    def train(self, steps: int) -> None:
        self.say("training ...")
        stuck = self.fault == "loader" and self.odd
        loader = iter(DataLoader(Tokens(stuck), batch_size=1, num_workers=1, prefetch_factor=1))
        for step in range(561, 561 + steps):
            began = time.monotonic()
            batch = next(loader)
            time.sleep(0.8)
            if self.fault == "kill" and self.odd and step == 566:
                faults.kill_myself()
            if self.fault == "step" and self.odd and step == 566:
                faults.python_lock()
            dist.all_reduce(batch)
            if self.odd:  # Megatron-LM's last rank prints these
                print(
                    f" [{time.strftime('%Y-%m-%d %H:%M:%S')}.500000] iteration {step:8d}/   24000 | consumed samples: "
                    f"{step * 128:12d} | elapsed time per iteration (ms): {1000 * (time.monotonic() - began):.1f} | "
                    f"learning rate: 1.5E-04 | global batch size:   128 | lm loss: 4.2{step}E+00 |",
                    flush=True,
                )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", required=True)
    job = Job(parser.parse_args().fault)
    job.initialize()
    job.build()
    job.train(1_000_000)


if __name__ == "__main__":
    main()
