"""The phases of a start-up in their usual order, and the causes of a silence, with their titles for people.

The ids are a contract with every reader of the JSON output; readers accept ids they do not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause of silence: its meaning in a few words, whether it is healthy, what to do, and who says so."""

    title: str
    healthy: bool
    remedy: str = ""
    source: str = ""


CAUSES: Mapping[str, Cause] = {
    "slow_import": Cause(
        "modules are being imported from slow storage",
        True,
        "Let it import; a local virtual environment starts faster than one on a network file system.",
        "CPython",
    ),
    "slow_download": Cause(
        "weights are being downloaded",
        True,
        "Let it download, or fetch the weights beforehand.",
        "huggingface_hub",
    ),
    "slow_storage": Cause(
        "data is being read from or written to slow storage",
        True,
        "Let it read; local NVMe or prefetching would be faster.",
        "safetensors over network file systems",
    ),
    "repacking": Cause(
        "weights are being repacked after the last shard",
        True,
        "Let it repack; quantised weights take minutes.",
        "SGLang issue 9162",
    ),
    "torch_compile": Cause(
        "torch.compile is at work",
        True,
        "Let it compile; the next start reads the cache.",
        "torch.compile",
    ),
    "kernel_build": Cause(
        "kernels are being built",
        True,
        "Let it build; the next start finds the kernels in the cache.",
        "flashinfer, Triton, DeepGEMM caches",
    ),
    "autotune": Cause(
        "kernels are being tuned",
        True,
        "Let it tune; the result is cached.",
        "flashinfer autotuner",
    ),
    "cpu_bound_capture": Cause(
        "graphs are being captured on the CPU",
        True,
        "Let it capture, or capture fewer batch sizes.",
        "vLLM cudagraph_capture_sizes, SGLang --cuda-graph-max-bs",
    ),
    "rank0_preparing": Cause(
        "one rank prepares, the others wait for it",
        True,
        "Let the rank finish, but mind the collective's time-out.",
        "torch.distributed",
    ),
    "builder_elsewhere": Cause(
        "another host holds the build lock",
        True,
        "Look on the other hosts of the shared file system for the compiler that holds the lock.",
        "file baton",
    ),
    "waiting_resources": Cause(
        "it waits for nodes or placement",
        True,
        "Check the scheduler's queue: nodes, pods or the placement group it asks for.",
        "Ray, Slurm or Kubernetes",
    ),
    "cpu_starved": Cause(
        "it is short of CPU time",
        True,
        "Raise the container's CPU limit.",
        "cgroup v2 cpu.max",
    ),
    "memory_refault": Cause(
        "pages are read again and again under a memory limit",
        True,
        "Raise the memory limit above the size of the model file, or load without mmap.",
        "cgroup v2 memory.stat workingset_refault",
    ),
    "idle": Cause(
        "a ready server without requests",
        True,
        "",
        "",
    ),
    "gpu_work": Cause(
        "the GPUs compute",
        True,
        "",
        "",
    ),
    "cpu_work": Cause(
        "a process computes",
        True,
        "",
        "",
    ),
    "comm_init": Cause(
        "the communicator does not come up",
        False,
        "Start with NCCL_DEBUG=INFO; if the last line is a P2P or SHM connect, try NCCL_P2P_DISABLE=1.",
        "NCCL issue 2428",
    ),
    "rank_missing": Cause(
        "ranks never joined",
        False,
        "Start the missing node, and check --nnodes, --node-rank and the rendezvous address.",
        "SGLang, vLLM, torchrun",
    ),
    "p2p_iommu": Cause(
        "GPU peer-to-peer traffic is blocked",
        False,
        "Switch the IOMMU or ACS off, or start with NCCL_P2P_DISABLE=1.",
        "NCCL troubleshooting guide",
    ),
    "collective_spin": Cause(
        "a collective never completes",
        False,
        "Find the rank that is not in the collective by its stack; NCCL_DEBUG=INFO tells which operation.",
        "NCCL RAS",
    ),
    "collective_mismatch": Cause(
        "the ranks are in different collectives",
        False,
        "Compare the ranks' stacks: two of them are in different collectives.",
        "NCCL RAS",
    ),
    "graph_capture_deadlock": Cause(
        "graph capture is deadlocked in a collective",
        False,
        "Find the rank that is not in the collective; --disable-custom-all-reduce or eager mode get past it.",
        "SGLang issue 4417",
    ),
    "rank_wait": Cause(
        "the ranks wait for each other without GPU work",
        False,
        "Take the stacks of all ranks: the one that is elsewhere holds the others up.",
        "py-spy",
    ),
    "stale_lock": Cause(
        "a lock file has outlived its owner",
        False,
        "Delete the lock file and start again.",
        "file batons of torch, flashinfer and aiter never time out",
    ),
    "lock_held": Cause(
        "somebody holds a lock and does not work",
        False,
        "Find the holder in /proc/locks and see what it waits for.",
        "proc(5)",
    ),
    "shm_full": Cause(
        "shared memory is full",
        False,
        "Enlarge /dev/shm.",
        "docker --shm-size, or an emptyDir of medium Memory",
    ),
    "dead_rank": Cause(
        "a process that the launch needs is gone",
        False,
        "Look for its own last words, an OOM kill and an Xid in the kernel log.",
        "dmesg",
    ),
    "cuda_init_blocked": Cause(
        "CUDA cannot be initialised",
        False,
        "See whether nvidia-smi answers; look for Xid lines and a stuck fabric manager.",
        "NVIDIA driver",
    ),
    "gpu_fault": Cause(
        "a GPU has failed",
        False,
        "Restart without that GPU and reset it; the Xid says why.",
        "NVIDIA Xid catalogue",
    ),
    "io_stall": Cause(
        "storage does not answer",
        False,
        "Read from that file system by hand; look for 'not responding' in the kernel log.",
        "NFS, Lustre",
    ),
    "download_stall": Cause(
        "the download does not move",
        False,
        "Stop and start again with HF_HUB_DISABLE_XET=1, or download beforehand.",
        "huggingface/xet-core issue 883",
    ),
    "thread_deadlock": Cause(
        "threads of one process wait for each other",
        False,
        "Take its stack: the main thread's leaf names the lock it waits for.",
        "py-spy",
    ),
    "gil_deadlock": Cause(
        "a thread holds the interpreter lock and sleeps",
        False,
        "Its dump shows which thread holds the interpreter lock and sleeps.",
        "py-spy",
    ),
    "stopped": Cause(
        "a process is stopped",
        False,
        "Send SIGCONT to it, or detach what traces it.",
        "signal(7); TracerPid in /proc/PID/status",
    ),
    "pipe_full": Cause(
        "a pipe that nobody reads is full",
        False,
        "Start it with its output in a file, or revive the reader of the pipe.",
        "pipe(7)",
    ),
    "resources_missing": Cause(
        "the resources it waits for do not exist",
        False,
        "Ask for what the cluster has, or add it.",
        "Ray, Slurm or Kubernetes",
    ),
    "oom_kill": Cause(
        "the kernel killed a process for memory",
        False,
        "Give the job more host memory, or load with less.",
        "cgroup memory.max; the kernel log names the process",
    ),
    "gpu_oom": Cause(
        "a GPU ran out of memory",
        False,
        "Free the GPU, or lower the memory fraction.",
        "torch CUDA allocator",
    ),
    "no_kv_memory": Cause(
        "no GPU memory is left for the KV cache",
        False,
        "Raise the memory fraction or lower the context length.",
        "vLLM, SGLang",
    ),
    "collective_timeout": Cause(
        "a collective timed out",
        False,
        "Find the rank that did not come, or raise the time-out.",
        "torch ProcessGroupNCCL",
    ),
    "rendezvous_timeout": Cause(
        "the rendezvous timed out",
        False,
        "Check that every node was started and reaches the rendezvous address.",
        "torch TCPStore",
    ),
    "api_timeout": Cause(
        "a part of the server did not answer in time",
        False,
        "Take the stack of the part that does not answer before the next start.",
        "vLLM",
    ),
    "exception": Cause(
        "it failed with an error",
        False,
        "Read the first traceback in the log: it is the root cause.",
        "the log",
    ),
}
"""Every cause that a verdict can name; healthy ones first."""

PLAIN_WORK = frozenset({"gpu_work", "cpu_work"})
"""Work that the phase does anyway: no cause of slowness, and not named as one."""


def title(cause: str) -> str:
    """What a cause means, in a few words."""
    return CAUSES[cause].title if cause in CAUSES else cause.replace("_", " ")


def remedy(cause: str) -> str:
    """What to do about it in one sentence, with its source; empty where nothing is to be done."""
    known = CAUSES.get(cause)
    return f"{known.remedy} [{known.source}]" if known is not None and known.remedy else ""


def is_healthy(cause: str) -> bool:
    return cause in CAUSES and CAUSES[cause].healthy


BUSY_CORE_S: Mapping[str, float] = {
    "import": 900.0,
    "spawn": 900.0,
    "weight_load": 300.0,
    "draft_load": 300.0,
    "kv_alloc": 120.0,
    "post_load": 600.0,
    "profile": 240.0,
    "jit_build": 1800.0,
    "data_index": 1800.0,
    "training_step": 300.0,
    "checkpoint_save": 900.0,
    "graph_capture": 900.0,
    "warmup": 900.0,
}
"""How long busy cores alone, without bytes, compilers, memory that grows or GPU work, pass for work in a phase. Phases
that are made of bytes: five minutes; a KV cache is there in seconds; repacking takes up to 6.5 minutes (SGLang issue
9162), an import up to ten, one module of kernels 9 (aiter issue 2336)."""

BUSY_CORE_ELSE_S = 2400.0
"""The same for every other phase that computes on the CPU: compiles of 37 minutes are on record."""

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
        "profile",
        "data_index",
        "training_step",
        "checkpoint_save",
        "shutdown",
        "unknown",
    }
)
"""Phases in which a rank may keep one core busy in its own process without GPU work. Not among them: setting up
communicators, where a busy core is a wait."""

AFTER_WEIGHTS = frozenset(
    {"post_load", "draft_load", "profile", "kv_alloc", "compile", "jit_build", "graph_capture", "warmup"}
)
"""Phases of a server in which graphs may be captured, for all that a silent log says."""
LOADS = frozenset({"weight_download", "weight_load", "draft_load"})
"""Phases that end when a known amount of data has come."""
