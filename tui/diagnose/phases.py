"""The phases of a start-up in their usual order, and the causes of a silence, with their titles for people.

The ids are a contract with every reader of the JSON output; readers accept ids they do not know.
"""

from __future__ import annotations

from collections.abc import Mapping

PHASES: Mapping[str, str] = {
    "wait_resources": "resources",
    "import": "import",
    "spawn": "spawn",
    "dist_init": "dist init",
    "weight_download": "download",
    "weight_load": "weights",
    "post_load": "post-load",
    "draft_load": "draft",
    "engine_build": "engine",
    "profile": "profile",
    "kv_alloc": "KV cache",
    "compile": "compile",
    "jit_build": "kernels",
    "graph_capture": "graphs",
    "warmup": "warm-up",
    "serving": "serving",
    "data_index": "data",
    "training_step": "steps",
    "checkpoint_save": "checkpoint",
    "shutdown": "shutdown",
    "unknown": "unknown",
}
"""Phase id to a short title, in the usual order; a phase may come back, and none is obligatory."""

HEALTHY: Mapping[str, str] = {
    "slow_import": "modules are being imported from slow storage",
    "slow_download": "weights are being downloaded",
    "slow_storage": "data is being read from or written to slow storage",
    "repacking": "weights are being repacked after the last shard",
    "torch_compile": "torch.compile is at work",
    "kernel_build": "kernels are being built",
    "autotune": "kernels are being tuned",
    "cpu_bound_capture": "graphs are being captured on the CPU",
    "rank0_preparing": "one rank prepares, the others wait for it",
    "builder_elsewhere": "another host holds the build lock",
    "waiting_resources": "it waits for nodes or placement",
    "cpu_starved": "it is short of CPU time",
    "memory_refault": "pages are read again and again under a memory limit",
    "idle": "a ready server without requests",
    "gpu_work": "the GPUs compute",
    "cpu_work": "a process computes",
}
"""Causes of a healthy silence. The last two name work that the phase does anyway: they are no cause of slowness."""

PLAIN_WORK = frozenset({"gpu_work", "cpu_work"})

SICK: Mapping[str, str] = {
    "comm_init": "the communicator does not come up",
    "rank_missing": "ranks never joined",
    "p2p_iommu": "GPU peer-to-peer traffic is blocked",
    "collective_spin": "a collective never completes",
    "collective_mismatch": "the ranks are in different collectives",
    "graph_capture_deadlock": "graph capture is deadlocked in a collective",
    "rank_wait": "the ranks wait for each other without GPU work",
    "stale_lock": "a lock file has outlived its owner",
    "lock_held": "somebody holds a lock and does not work",
    "shm_full": "shared memory is full",
    "dead_rank": "a process that the launch needs is gone",
    "cuda_init_blocked": "CUDA cannot be initialised",
    "gpu_fault": "a GPU has failed",
    "io_stall": "storage does not answer",
    "download_stall": "the download does not move",
    "thread_deadlock": "threads of one process wait for each other",
    "gil_deadlock": "a thread holds the interpreter lock and sleeps",
    "stopped": "a process is stopped",
    "pipe_full": "a pipe that nobody reads is full",
    "resources_missing": "the resources it waits for do not exist",
    "oom_kill": "the kernel killed a process for memory",
    "gpu_oom": "a GPU ran out of memory",
    "no_kv_memory": "no GPU memory is left for the KV cache",
    "collective_timeout": "a collective timed out",
    "rendezvous_timeout": "the rendezvous timed out",
    "api_timeout": "a part of the server did not answer in time",
    "exception": "it failed with an error",
}
"""Causes of a hang or a crash."""

CAUSES: Mapping[str, str] = {**HEALTHY, **SICK}


def title(cause: str) -> str:
    """What a cause means, in a few words."""
    return CAUSES.get(cause, cause.replace("_", " "))


def is_healthy(cause: str) -> bool:
    return cause in HEALTHY


BEFORE_GPU = frozenset({"wait_resources", "import", "spawn", "unknown"})
"""Phases in which no rank has a CUDA context yet."""

COMPUTES_ON_CPU = frozenset(
    {
        "import",
        "spawn",
        "weight_load",
        "post_load",
        "draft_load",
        "engine_build",
        "kv_alloc",
        "compile",
        "jit_build",
        "graph_capture",
        "warmup",
        "data_index",
        "checkpoint_save",
        "shutdown",
        "unknown",
    }
)
"""Phases in which a rank may keep one core busy in its own process without GPU work. Not among them: setting up
communicators, profiling runs and training steps, where a busy core is a wait."""

LOADS = frozenset({"weight_download", "weight_load", "draft_load"})
"""Phases that end when a known amount of data has come."""
