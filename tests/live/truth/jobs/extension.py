"""Two ranks that load one C++ extension of torch, as fused optimizers are: the first one builds, the other waits for
its file baton. A lock file that lies there already makes both wait."""

from __future__ import annotations

import os
import time
from pathlib import Path

import faults

faults.die_with_parent()

import torch.distributed as dist  # noqa: E402
from torch.utils.cpp_extension import load  # noqa: E402

SOURCE = """
#include <torch/extension.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/functional.h>
torch::Tensor scale_{n}(torch::Tensor x, double by) {{ return torch::nn::functional::gelu(x * by) + {n}; }}
"""
BINDING = """
#include <torch/extension.h>
torch::Tensor scale_0(torch::Tensor x, double by);
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("scale_0", &scale_0); }
"""


def main() -> None:
    rank = int(os.environ["RANK"])
    count = int(os.environ["TRUTH_SOURCES"])
    if rank == 0:
        print("[2026-05-04 11:42:34,120] [INFO] [comm.py:658:init_distributed] cdb=None", flush=True)
    dist.init_process_group("gloo")
    sources = [str(faults.HERE / f"scale_{n}.cpp") for n in range(count)] + [str(faults.HERE / "binding.cpp")]
    if rank == 0:
        for n, path in enumerate(sources[:-1]):
            Path(path).write_text(SOURCE.format(n=n))
        Path(sources[-1]).write_text(BINDING)
        faults.begins()
    dist.barrier()
    time.sleep(0.3 * rank)
    load("fused_scale", sources, verbose=rank == 0)
    dist.barrier()
    (faults.HERE / "built").write_text(repr(time.monotonic()))
    for step in range(1, 10_000):
        if rank == 0:
            print(f"step {step} loss 2.{step}", flush=True)
        time.sleep(1.0)
        dist.barrier()


if __name__ == "__main__":
    main()
