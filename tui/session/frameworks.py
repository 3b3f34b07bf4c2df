"""What one process is, told from its own command line, title and environment: pure, one identity at a time.

Sources. SGLang: ``managers/scheduler.py`` and ``server_args.py`` of 0.3.6 to 0.5.23. vLLM: ``utils/system_utils.py``,
``v1/executor/multiproc_executor.py`` and ``config/parallel.py`` of 0.6.3 to 0.33.0. torchrun: ``elastic/agent`` of
torch 2.9.1. MPI and Slurm: the variables that Open MPI, MPICH/Hydra, PMIx and ``srun`` put into the environment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tui.model import Identity
from tui.session.arguments import PYTHON, Options, base, carries_agent, plain_number, program, script


@dataclass(frozen=True, slots=True)
class Sizes:
    """How the ranks of a launch are laid out, as its arguments say; ``nproc`` is torchrun's processes per node.

    ``known`` is false where the sizes may stand elsewhere (a configuration file): then nothing follows from a default.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    pcp: int = 1
    nnodes: int = 1
    node_rank: int = 0
    nproc: int | None = None
    dp_attention: bool = False
    known: bool = True


@dataclass(frozen=True, slots=True)
class Trait:
    """What a process is by itself. ``role`` as in :class:`tui.model.Member`; ``coords`` are the parallel coordinates of
    its title; ``rank`` and ``world`` come from its environment; ``join`` is the address or number that the processes of
    one job share, on several hosts too; ``subject`` is its model or script, short."""

    framework: str | None
    role: str
    coords: Mapping[str, int] = field(default_factory=dict[str, int])
    rank: int | None = None
    world: int | None = None
    sizes: Sizes | None = None
    join: str | None = None
    port: int | None = None
    subject: str = ""


SERVERS = frozenset({"sglang", "vllm", "demo"})
"""Frameworks whose ranks are known by title: RANK in their environment is a pod's, not theirs."""

PARENTS = frozenset({"driver", "launcher", "api", "engine_core", "data_parallel_controller"})
"""Roles that own other members of a launch."""

_PASSERS_ON = frozenset(
    """
    sh bash dash zsh fish tcsh csh ksh ash busybox vi vim nvim nano emacs less more tail head cat grep egrep rg awk
    gawk sed watch tee script tmux screen ssh sshd sudo su env timeout nohup time nice ionice taskset numactl setsid
    stdbuf nsys ncu strace ltrace perf gdb cuda-gdb py-spy pystack htop top uv uvx conda mamba poetry pixi pdm hatch
    tini dumb-init docker podman nerdctl kubectl singularity apptainer enroot srun sbatch salloc slurmstepd xargs
    make ninja systemd init login code node raylet nvidia-smi nv-hostengine nvidia-cuda-mps-server
    nvidia-cuda-mps-control nvidia-persistenced Xorg Xwayland gnome-shell kwin_x11 kwin_wayland
    """.split()  # noqa: SIM905 (a list of words reads better than eighty quoted ones)
)
"""Programs that only carry, show or start others' command lines: shells, editors, wrappers, the driver's daemons."""

_LAUNCHERS = {
    "torchrun": "torchrun",
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "ft_launcher": "torchrun",
    "accelerate": "torchrun",
    "accelerate-launch": "torchrun",
    "accelerate.commands.launch": "torchrun",
    "deepspeed": "torchrun",
    "deepspeed.launcher.runner": "torchrun",
    "deepspeed.launcher.launch": "torchrun",
    "mpirun": "mpi",
    "mpiexec": "mpi",
    "mpiexec.hydra": "mpi",
    "hydra_pmi_proxy": "mpi",
    "orterun": "mpi",
    "orted": "mpi",
    "prterun": "mpi",
    "prted": "mpi",
}

_RANK_VARIABLES = (
    ("torchrun", "RANK", ("WORLD_SIZE",)),
    ("mpi", "OMPI_COMM_WORLD_RANK", ("OMPI_COMM_WORLD_SIZE",)),
    ("mpi", "PMI_RANK", ("PMI_SIZE",)),
    ("mpi", "PMIX_RANK", ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")),
    ("slurm", "SLURM_PROCID", ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS")),
)

_SGLANG_TITLE = re.compile(r"(sglang|demo)::([a-z]+(?:_[a-z]+)*)")
_VLLM_TITLE = re.compile(
    r"\w+::(?:(EngineCore)|(Worker)|(APIServer)(?=_\d)|(DPCoordinator))((?:_(?:DP|PP|PCP|TP|DCP|EP)\d+|_\d+)*)$"
)
_COORDINATE = re.compile(r"_((?:ATTN_|MOE_)?[A-Z]{2,3})(\d{1,6})")

_SGLANG_ROLES = {"scheduler": "rank", "http_server": "api", "tokenizer_worker": "tokenizer"}
_VLLM_ROLES = ("engine_core", "rank", "api", "dp_coordinator")


def recognise(identity: Identity) -> Trait | None:
    """What ``identity`` is, or ``None`` where it shows nothing of a launch. Never raises, whatever the command line."""
    if passes_on(identity):
        return None
    return _by_title(identity.title) or _by_program(identity) or _by_environment(identity)


def passes_on(identity: Identity) -> bool:
    """A shell, an editor, a wrapper, or one of this monitor's own processes: no part of a launch whatever it names."""
    words = identity.cmdline
    file = base(words[0]).removeprefix("-") if words else identity.comm  # a login shell is called "-bash"
    _, name, _ = program(words)
    ours = base(name) == "gputop-hang" or name in ("tui", "tui.cli") or carries_agent(words)
    return file in _PASSERS_ON or base(name) in _PASSERS_ON or ours


def is_python(identity: Identity) -> bool:
    """Whether it runs Python, so that it may be what started ranks (a script with an engine inside, a spawner)."""
    program = base(identity.cmdline[0]) if identity.cmdline else ""
    return bool(PYTHON.match(program) or PYTHON.match(base(identity.exe)) or PYTHON.match(identity.comm))


def is_spawned_worker(identity: Identity) -> bool:
    """A child of ``multiprocessing`` that has not taken a title yet; its resource tracker is none."""
    return is_python(identity) and "multiprocessing.resource_tracker" not in identity.title


def subject(identity: Identity) -> str:
    """The script or module that a process runs, short, for a name."""
    _, name, _ = program(identity.cmdline)
    return base(name) or identity.comm


# ------------------------------------------------------------------------------------------------------------- by title


def _by_title(title: str) -> Trait | None:
    sglang = _SGLANG_TITLE.match(title)
    if sglang:
        framework, role = sglang.groups()
        return Trait(framework, _SGLANG_ROLES.get(role, role), _coordinates(title[sglang.end(2) :]))
    vllm = _VLLM_TITLE.match(title)
    if vllm:
        role = next(role for role, found in zip(_VLLM_ROLES, vllm.groups()[:4], strict=True) if found)
        return Trait("vllm", role, _coordinates(vllm.group(5)))
    return None


def _coordinates(text: str) -> dict[str, int]:
    """``_DP0_ATTN_CP1_TP3`` as a mapping. SGLang and vLLM write the dimensions above one only."""
    return {name: int(number) for name, number in _COORDINATE.findall(text[:200])}


def global_rank(framework: str | None, coords: Mapping[str, int], sizes: Sizes) -> int | None:
    """The rank in the whole job.

    vLLM (``parallel_state.py``): ranks are laid out as DP × PP × PCP × TP. SGLang (``bootstrap.py``): ``tp_size *
    pp_rank + tp_rank`` within a replica, TP counted over all nodes; replicas (DP) follow each other, unless DP
    attention splits the TP group itself. Nothing in the title means that every size is one.
    """
    if framework not in SERVERS:
        return None
    dp, pp, pcp, tp = (coords.get(name, 0) for name in ("DP", "PP", "PCP", "TP"))
    if framework == "vllm":
        return ((dp * sizes.pp + pp) * sizes.pcp + pcp) * sizes.tp + tp
    replica = 0 if sizes.dp_attention else dp
    return (replica * sizes.pp + pp) * sizes.tp + tp


def world_size(framework: str | None, sizes: Sizes) -> int | None:
    """The ranks of the whole job as the arguments say, ``None`` where they do not."""
    if framework in SERVERS:
        if not sizes.known:
            return None
        return sizes.tp * sizes.pp * sizes.pcp * (1 if sizes.dp_attention else sizes.dp)
    return sizes.nproc * sizes.nnodes if sizes.nproc is not None else None


# ----------------------------------------------------------------------------------------------------------- by command


def _by_program(identity: Identity) -> Trait | None:
    kind, name, rest = program(identity.cmdline)
    name = name if kind == "module" else base(name)
    if name == "sglang.launch_server" or (name == "sglang" and rest[:1] == ["serve"]):
        return _sglang("sglang", rest)
    if name == "tui.demo.server":
        return _sglang("demo", rest)
    if name == "launch_server.py" and "sglang/" in script(identity.cmdline):
        return _sglang("sglang", rest)
    if _is_vllm_server(name, rest):
        return _vllm(rest)
    launcher = _LAUNCHERS.get(name) or _LAUNCHERS.get(identity.comm)
    return _launcher(launcher, rest) if launcher else None


def _is_vllm_server(name: str, rest: Sequence[str]) -> bool:
    if name in ("vllm", "vllm.entrypoints.cli.main"):
        return list(rest[:1]) == ["serve"]
    return name in ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server")


def _sglang(framework: str, rest: Sequence[str]) -> Trait:
    options = Options(rest)
    nnodes = options.number("--nnodes", default=1)
    sizes = Sizes(
        tp=options.number("--tp-size", "--tp", "--tensor-parallel-size", default=1),
        pp=options.number("--pp-size", "--pp", "--pipeline-parallel-size", default=1),
        dp=options.number("--dp-size", "--dp", "--data-parallel-size", default=1),
        nnodes=nnodes,
        node_rank=options.number("--node-rank", default=0),
        dp_attention=options.has("--enable-dp-attention"),
        known=not options.has("--config"),
    )
    address = options.text("--dist-init-addr", "--nccl-init-addr") or None if nnodes > 1 else None
    return Trait(
        framework,
        "driver",
        sizes=sizes,
        join=address,
        port=options.number("--port", default=0) or None,
        subject=base(options.text("--model-path", "--model") or options.first()),
    )


def _vllm(rest: Sequence[str]) -> Trait:
    options = Options(rest)
    nnodes = options.number("--nnodes", "-n", default=1)
    sizes = Sizes(
        tp=options.number("--tensor-parallel-size", "-tp", default=1),
        pp=options.number("--pipeline-parallel-size", "-pp", default=1),
        dp=options.number("--data-parallel-size", "-dp", default=1),
        pcp=options.number("--prefill-context-parallel-size", "-pcp", default=1),
        nnodes=nnodes,
        node_rank=options.number("--node-rank", "-r", default=0),
        known=not options.has("--config"),
    )
    host, port = options.text("--master-addr"), options.text("--master-port") or "29501"
    return Trait(
        "vllm",
        "driver",
        sizes=sizes,
        join=f"{host}:{port}" if host and nnodes > 1 else None,
        port=options.number("--port", default=0) or None,
        subject=base(options.text("--model") or options.first("serve")),
    )


def _launcher(framework: str, rest: Sequence[str]) -> Trait:
    options = Options(rest)
    script = next((base(word) for word in rest if word.endswith(".py")), "")
    if framework != "torchrun":
        return Trait(framework, "launcher", subject=script)
    nnodes = max(plain_number(n) or 1 for n in (options.text("--nnodes", "--num-nodes") or "1").split(":"))
    sizes = Sizes(nproc=options.number("--nproc-per-node", "--num-gpus", default=0) or None, nnodes=nnodes)
    where = options.text("--rdzv-endpoint") or options.text("--master-addr")
    return Trait(framework, "launcher", sizes=sizes, join=where or None if nnodes > 1 else None, subject=script)


# ------------------------------------------------------------------------------------------------------- by environment


def _by_environment(identity: Identity) -> Trait | None:
    """A rank by its environment. MPI's and Slurm's variables also stand in the environment of what is no rank: a job of
    one task is none, and under ``srun`` only Python counts."""
    env = identity.env
    for framework, variable, sizes in _RANK_VARIABLES:
        rank = plain_number(env.get(variable, ""))
        if rank is None:
            continue
        world = next((size for name in sizes if (size := plain_number(env.get(name, ""))) is not None), None)
        if framework == "torchrun" and world is None and "LOCAL_RANK" not in env:
            continue
        if framework != "torchrun" and world is not None and world < 2:
            continue
        if framework == "slurm" and not is_python(identity):
            continue
        return Trait(framework, "rank", rank=rank, world=world, join=_meeting_point(framework, env))
    return None


def _meeting_point(framework: str, env: Mapping[str, str]) -> str | None:
    if framework == "torchrun" and env.get("MASTER_ADDR"):
        return f"{env['MASTER_ADDR']}:{env.get('MASTER_PORT', '')}"
    if framework == "mpi" and env.get("PMIX_NAMESPACE"):
        return env["PMIX_NAMESPACE"]
    if env.get("SLURM_JOB_ID"):
        return f"{env['SLURM_JOB_ID']}.{env.get('SLURM_STEP_ID', '')}"
    return None
