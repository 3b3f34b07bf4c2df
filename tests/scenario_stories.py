"""Start-ups of kinds that the recorded ones lack, told from public incidents and from how the frameworks behave.

``HELD_BACK`` were not looked at while the rules were tuned; the split was made by a checksum of the names. ``LATER``
were written and judged when the rules were finished.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

from tests import scenario_maker as make
from tests.scenario_maker import (
    ASLEEP,
    BURST,
    CORE,
    EMPTY,
    IDLE,
    IMPORTS,
    LOADS,
    POLLS,
    SPIN,
    WORK,
    Act,
    Card,
    Name,
    Story,
)

STORIES: dict[str, Callable[[], Story]] = {}
CONTEXT = EMPTY.but(mem=520.0)
FULL = IDLE.but(mem=61_000.0)


def story(tell: Callable[[], Story]) -> Callable[[], Story]:
    STORIES[tell.__name__.replace("_", "-")] = tell
    return tell


# ------------------------------------------------------------------------------------------------------------ openings


def _tp(s: Story, text: str, only: tuple[int, ...] | None = None) -> None:
    """A line of SGLang's schedulers, each into its own host's log."""
    for k, host in enumerate(s.hosts):
        for rank in host.ranks if only is None else [r for r in only if r in host.ranks]:
            s.say(f"[{s.stamp()} TP{rank}] {text}", host=k)


def sglang_dist(s: Story) -> None:
    for k in range(len(s.hosts)):
        s.say(f"[{s.stamp()}] server_args=ServerArgs(model_path='/m/x', tp_size={s.world}, nnodes=1)", host=k)
    s.stretch(18, {"driver": IMPORTS}, EMPTY)
    s.stretch(20, {"driver": ASLEEP, **_ranks(s, IMPORTS)}, EMPTY)
    _tp(s, "Init torch distributed begin.")


def sglang_load(s: Story, shards: int = 12, per: float = 2.5) -> None:
    sglang_dist(s)
    s.stretch(9, {"driver": ASLEEP, **_ranks(s, CORE)}, CONTEXT)
    _tp(s, "Init torch distributed ends. elapsed=9.01 s, mem usage=1.41 GB")
    _tp(s, "Load weight begin. avail mem=77.63 GB")
    for n in range(shards + 1):
        bar = f"Loading safetensors checkpoint shards: {100 * n // shards:3d}% Completed | {n}/{shards}"
        s.say(f"{bar} [00:{n:02d}<00:10,  2.50s/it]")
        if n < shards:
            s.stretch(per, {"driver": ASLEEP, **_ranks(s, LOADS)}, FULL)


def sglang_capture(s: Story) -> None:
    sglang_load(s)
    s.stretch(4, {"driver": ASLEEP, **_ranks(s, CORE)}, FULL)
    _tp(s, "Load weight end. elapsed=33.10 s, type=Qwen3ForCausalLM, dtype=torch.bfloat16, avail mem=20.11 GB")
    s.stretch(3, {"driver": ASLEEP, **_ranks(s, CORE)}, FULL)
    _tp(s, "Memory pool end. avail mem=11.49 GB")
    _tp(s, "Capture cuda graph begin. This can take up to several minutes. avail mem=11.08 GB")
    s.say("\r  0%|          | 0/23 [00:00<?, ?it/s]")


def sglang_end(s: Story, serve: float = 90.0) -> None:
    for n in range(1, 24, 4):
        bar = f"Capturing batches (bs={200 - n} avail_mem=9.00 GB): {100 * n // 23:3d}%|##"
        s.say(f"\r{bar}| {n}/23 [00:{n:02d}<00:05,  1.1it/s]")
        s.stretch(5, {"driver": ASLEEP, **_ranks(s, CORE)}, WORK)
    _tp(s, "Capture cuda graph end. Time elapsed: 31.2 s. mem usage=1.1 GB. avail mem=9.90 GB.")
    s.stretch(8, {"driver": CORE, **_ranks(s, CORE)}, BURST)
    s.ready(f"[{s.stamp()}] The server is fired up and ready to roll!")
    s.stretch(serve, {"driver": ASLEEP, **_ranks(s, CORE)}, IDLE)


def _ranks(s: Story, act: Act, but: dict[int, Act] | None = None) -> dict[Name, Act]:
    return {rank: act for host in s.hosts for rank in host.ranks} | dict(but or {})


def _cards(s: Story, card: Card, but: dict[int, Card] | None = None) -> dict[int, Card]:
    return dict.fromkeys(range(s.cards * len(s.hosts)), card) | dict(but or {})


def vllm_dist(s: Story) -> None:
    s.say(f"(APIServer pid=700) INFO {s.stamp('%m-%d %H:%M:%S')} [api_server.py:1977] vLLM API server version 0.11.2")
    s.stretch(15, {"api0": IMPORTS}, EMPTY)
    s.say(
        f"(EngineCore_DP0 pid=710) INFO {s.stamp('%m-%d %H:%M:%S')} [core.py:93] Initializing a V1 LLM engine "
        "(v0.11.2) with config: model='/m/y', speculative_config=None"
    )
    s.stretch(14, {"api0": ASLEEP, "enginecore": ASLEEP, **_ranks(s, IMPORTS)}, EMPTY)
    for host in s.hosts[:1]:
        for rank in host.ranks:
            s.say(
                f"INFO {s.stamp('%m-%d %H:%M:%S')} [parallel_state.py:1208] world_size={s.world} rank={rank} "
                f"local_rank={rank} distributed_init_method=tcp://127.0.0.1:37554 backend=nccl"
            )


def vllm_load(s: Story, shards: int = 10, per: float = 3.0) -> None:
    vllm_dist(s)
    s.stretch(6, _vllm(s, CORE), CONTEXT)
    s.say(f"INFO {s.stamp('%m-%d %H:%M:%S')} [pynccl.py:111] vLLM is using nccl==2.27.5")
    s.stretch(5, _vllm(s, CORE), CONTEXT)
    for rank in range(s.each):
        s.say(
            f"INFO {s.stamp('%m-%d %H:%M:%S')} [parallel_state.py:1394] rank {rank} in world size {s.world} is "
            f"assigned as DP rank 0, PP rank 0, TP rank {rank}, EP rank {rank}"
        )
    s.say(_w(s, 0, "[gpu_model_runner.py:3259] Starting to load model /m/y..."))
    for n in range(shards + 1):
        bar = f"Loading safetensors checkpoint shards: {100 * n // shards:3d}% Completed | {n}/{shards}"
        s.say(f"(Worker_TP0 pid=720) \r{bar} [00:{n:02d}<00:10,  3.00s/it]")
        if n < shards:
            s.stretch(per, _vllm(s, LOADS), FULL)


def _w(s: Story, rank: int, text: str) -> str:
    return f"(Worker_TP{rank} pid={720 + rank}) INFO {s.stamp('%m-%d %H:%M:%S')} {text}"


def _vllm(s: Story, act: Act, but: dict[int, Act] | None = None) -> dict[Name, Act]:
    return {"api0": ASLEEP.but(wchan="ep_poll"), "enginecore": ASLEEP, **_ranks(s, act, but)}


def vllm_compile(s: Story) -> None:
    vllm_load(s)
    s.stretch(3, _vllm(s, CORE), FULL)
    s.say(_w(s, 0, "[default_loader.py:314] Loading weights took 30.12 seconds"))
    s.say(_w(s, 0, "[gpu_model_runner.py:3338] Model loading took 27.1 GiB and 34.2 seconds"))
    s.say(_w(s, 0, "[backends.py:618] Using cache directory: /root/.cache/vllm/torch_compile_cache/ab/rank_0_0"
                   "/backbone for vLLM's torch.compile"))  # fmt: skip
    s.stretch(9, _vllm(s, CORE), FULL)
    s.say(_w(s, 0, "[backends.py:629] Dynamo bytecode transform time: 9.12 s"))


def vllm_end(s: Story, serve: float = 90.0) -> None:
    s.say(_w(s, 0, "[monitor.py:34] torch.compile takes 61.20 s in total"))
    s.stretch(7, _vllm(s, CORE), WORK)
    s.say(_w(s, 0, "[gpu_worker.py:298] Available KV cache memory: 34.54 GiB"))
    for n in (1, 30, 67):
        s.say(
            f"(Worker_TP0 pid=720) \rCapturing CUDA graphs (decode, FULL): {100 * n // 67:3d}%|#| {n}/67 [00:0{n % 9}"
        )
        s.stretch(4, _vllm(s, CORE), BURST)
    s.say(_w(s, 0, "[gpu_model_runner.py:4244] Graph capturing finished in 12 secs, took 1.83 GiB"))
    s.stretch(4, _vllm(s, CORE), IDLE)
    s.ready("(APIServer pid=700) INFO:     Application startup complete.")
    s.stretch(serve, _vllm(s, CORE), IDLE)


def megatron(s: Story, steps: int = 12, pace: float = 7.0, first: int = 100) -> None:
    s.say(f"using world size: {s.world}, data-parallel size: 2, context-parallel size: 1")
    s.stretch(22, {"agent": POLLS, **_ranks(s, IMPORTS)}, EMPTY)
    s.say("> initializing torch distributed ...")
    s.stretch(8, {"agent": POLLS, **_ranks(s, CORE)}, CONTEXT)
    s.say("> initialized tensor model parallel with size 2", "> setting random seeds to 1234 ...")
    s.say("time to initialize megatron (seconds): 30.500", "building GPT model ...")
    s.stretch(12, {"agent": POLLS, **_ranks(s, LOADS)}, FULL)
    s.say(f"[after model, optimizer, and learning rate scheduler are built] datetime: {s.stamp()} ")
    s.say("> building train, validation, and test datasets for GPT ...")
    s.stretch(10, {"agent": POLLS, **_ranks(s, CORE)}, FULL)
    s.say("> finished creating GPT datasets ...", "done with setup ...", "training ...")
    s.say(f"[before the start of training step] datetime: {s.stamp()} ")
    s.stretch(14, {"agent": POLLS, **_ranks(s, CORE)}, WORK)
    for n in range(first, first + steps):
        megatron_step(s, n)
        s.stretch(pace, {"agent": POLLS, **_ranks(s, CORE)}, WORK)


def megatron_step(s: Story, n: int) -> None:
    s.say(
        f" [{s.stamp()}.175481] iteration {n:8d}/   24000 | consumed samples: {n * 128:12d} | "
        "elapsed time per iteration (ms): 7012.3 | learning rate: 1.0E-04 | global batch size:   128 | lm loss: 2.1E+00"
    )


def steps_on(s: Story, steps: int, pace: float, first: int) -> None:
    for n in range(first, first + steps):
        megatron_step(s, n)
        s.stretch(pace, {"agent": POLLS, **_ranks(s, CORE)}, WORK)


def script(s: Story, *lines: str) -> None:
    """A job of no known framework."""
    s.say("loading config from conf/base.yaml", "seed 17")
    s.stretch(20, _ranks(s, IMPORTS), EMPTY)
    s.say(*lines)


# ------------------------------------------------------------------------------------------------------------- healthy


@story
def h_first_collective_75s() -> Story:
    """All ranks spin 75 s in the communicator over two hosts, then go on. No NVLink counter on these cards."""
    s = Story("h-first-collective-75s", "sglang", 8, hosts=2)
    s.no_keys = {"nvlink_mbps"}
    sglang_dist(s)
    s.stretch(75, {"driver": ASLEEP, **_ranks(s, CORE)}, SPIN.but(mem=900.0), "dist_init")
    _tp(s, "Init torch distributed ends. elapsed=75.01 s, mem usage=1.41 GB")
    _tp(s, "Load weight begin. avail mem=77.63 GB")
    s.stretch(40, {"driver": ASLEEP, **_ranks(s, LOADS)}, FULL)
    _tp(s, "Load weight end. elapsed=39.10 s, type=Qwen3ForCausalLM, dtype=torch.bfloat16, avail mem=20.11 GB")
    _tp(s, "Capture cuda graph begin. This can take up to several minutes. avail mem=11.08 GB")
    sglang_end(s)
    return s.healthy()


@story
def h_eval_on_rank0() -> Story:
    """Two minutes of evaluation: rank 0 computes metrics on one core, seven spin in the barrier."""
    s = Story("h-eval-on-rank0", "megatron", 8, step=6)
    megatron(s)
    s.stretch(125, {"agent": POLLS, **_ranks(s, CORE)}, _cards(s, SPIN, {0: IDLE}))
    s.say(" validation loss at iteration 112 | lm loss value: 4.2E+00 | lm loss PPL: 6.7E+01 | ")
    steps_on(s, 14, 7.0, 113)
    s.truth["ready_at"] = 80.0
    return s.healthy(end_phase="training_step", ready=False)


@story
def h_eval_low_power() -> Story:
    """Evaluation for 150 s at low, uneven load and a third of the power."""
    s = Story("h-eval-low-power", "megatron", 8, step=6, limit=400)
    megatron(s)
    eval_card = Card(util=55, mem_util=5, power=0.28, links=40, busy=True)
    s.stretch(150, {"agent": POLLS, **_ranks(s, CORE)}, eval_card)
    s.say(" validation loss at iteration 112 | lm loss value: 4.2E+00 | lm loss PPL: 6.7E+01 | ")
    steps_on(s, 14, 7.0, 113)
    return s.healthy(end_phase="training_step", ready=False)


@story
def h_nfs_import_asleep() -> Story:
    """Eight interpreters import torch from a network file system: no bytes are counted, one or two percent of a core,
    asleep or blocked, for four minutes; what they hold grows."""
    s = Story("h-nfs-import-asleep", "megatron", 8)
    slow = Act(cpu=2.0, state="D", wchan="rpc_wait_bit_killable", net=0.0, other="S", rss_rate=1.3)
    s.stretch(240, {"agent": POLLS, **_ranks(s, slow)}, EMPTY, "import")
    s.say("using world size: 8, data-parallel size: 2, context-parallel size: 1")
    s.say("> initializing torch distributed ...")
    s.stretch(12, {"agent": POLLS, **_ranks(s, CORE)}, CONTEXT)
    s.say("time to initialize megatron (seconds): 30.500", "training ...")
    s.stretch(20, {"agent": POLLS, **_ranks(s, CORE)}, WORK)
    steps_on(s, 10, 7.0, 1)
    return s.healthy("slow_import", "slow_storage", end_phase="training_step", ready=False)


@story
def h_import_pauses() -> Story:
    """An import whose file server pauses for 50 s at a time: fully asleep, then bytes again."""
    s = Story("h-import-pauses", "vllm", 1)
    s.say(f"INFO {s.stamp('%m-%d %H:%M:%S')} [__init__.py:216] Automatically detected platform cuda.")
    for _ in range(4):
        s.stretch(50, {0: Act(cpu=0.3, state="S", wchan="rpc_wait_bit_killable")}, EMPTY, "import")
        s.stretch(15, {0: IMPORTS.but(cpu=40, read=6)}, EMPTY)
    s.say(f"(APIServer pid=700) INFO {s.stamp('%m-%d %H:%M:%S')} [api_server.py:1977] vLLM API server version 0.11.2")
    s.stretch(20, {0: LOADS}, FULL)
    s.ready("(APIServer pid=700) INFO:     Application startup complete.")
    s.stretch(90, {0: ASLEEP}, IDLE)
    return s.healthy("slow_import", "slow_storage")


@story
def h_inductor_pauses() -> Story:
    """torch.compile with a pool of workers that mostly sleep: bursts of compiling, pauses of 28 s, ranks asleep."""
    s = Story("h-inductor-pauses", "vllm", 4)
    vllm_compile(s)
    for _ in range(5):
        busy = ASLEEP.but(children={"python3": (32, 22.0)})
        idle = ASLEEP.but(children={"python3": (32, 0.05)})
        s.stretch(22, _vllm(s, busy), IDLE, "compile")
        s.stretch(28, _vllm(s, idle), IDLE, "compile")
    vllm_end(s)
    return s.healthy("torch_compile")


@story
def h_rank0_tokenizes() -> Story:
    """Rank 0 tokenises with sixteen children, three ranks spin; the bar moves every 40 s. Six minutes."""
    s = Story("h-rank0-tokenizes", "torchrun", 4, limit=400)
    script(s, "Running tokenizer on dataset (num_proc=16):   0%|          | 0/61000 [00:00<?, ? examples/s]")
    work = Act(cpu=3, wchan="ep_poll", children={"python": (16, 95.0)})
    for n in range(1, 10):
        s.stretch(40, {"agent": POLLS, **_ranks(s, CORE, {0: work})}, _cards(s, SPIN.but(mem=900), {0: CONTEXT}))
        s.say(f"Running tokenizer on dataset (num_proc=16): {n * 11:3d}%|#| {n * 6700}/61000 [06:1{n}<03:00, 160 ex/s]")
    s.say("{'loss': 2.11, 'grad_norm': 1.2, 'learning_rate': 1e-05, 'epoch': 0.01}")
    for n in range(10):
        s.stretch(6, {"agent": POLLS, **_ranks(s, CORE)}, WORK.but(mem=50_000))
        s.say(f"{{'loss': 2.0{n}, 'grad_norm': 1.2, 'learning_rate': 1e-05, 'epoch': 0.0{n}}}")
    return s.healthy(end_phase="training_step", ready=False)


@story
def h_compiler_pauses_25s() -> Story:
    """Rank 0 builds kernels with pauses of 25 s between two files; the others sleep in a CPU barrier."""
    s = Story("h-compiler-pauses-25s", "sglang", 8)
    sglang_capture(s)
    for _ in range(6):
        build = ASLEEP.but(wchan="do_wait", children={"ninja": (1, 0.2), "nvcc": (4, 0.5), "cicc": (4, 88.0)})
        s.stretch(35, {"driver": ASLEEP, **_ranks(s, ASLEEP, {0: build})}, IDLE, "graph_capture")
        s.stretch(25, {"driver": ASLEEP, **_ranks(s, ASLEEP)}, IDLE, "graph_capture")
    sglang_end(s)
    return s.healthy("kernel_build")


@story
def h_checkpoint_to_nfs() -> Story:
    """Rank 0 writes three minutes to a slow network file system, 2 % of a core, blocked; seven spin."""
    s = Story("h-checkpoint-to-nfs", "megatron", 8, step=6)
    megatron(s)
    s.say("saving checkpoint at iteration     112 to /nfs/ckpt in torch_dist format")
    writes = Act(cpu=2.5, state="D", wchan="nfs_wb_folio", other="S")
    s.stretch(190, {"agent": POLLS, **_ranks(s, CORE, {0: writes})}, _cards(s, SPIN, {0: IDLE}), "checkpoint_save")
    s.say("  successfully saved checkpoint from iteration     112 to /nfs/ckpt [ t 1/2, p 1/2 ]")
    steps_on(s, 12, 7.0, 113)
    return s.healthy(end_phase="training_step", ready=False)


@story
def h_slow_download() -> Story:
    """A hub download at 3 MB/s for eight minutes without a line; the other ranks sleep on a file lock."""
    s = Story("h-slow-download", "sglang", 4)
    sglang_dist(s)
    s.stretch(8, {"driver": ASLEEP, **_ranks(s, CORE)}, CONTEXT)
    _tp(s, "Init torch distributed ends. elapsed=9.01 s, mem usage=1.41 GB")
    _tp(s, "Load weight begin. avail mem=77.63 GB")
    gets = Act(cpu=6, wchan="do_poll.constprop.0", net=3.0, cache_rate=3.0)
    waits = Act(cpu=0.3, wchan="locks_lock_inode_wait")
    s.stretch(480, {"driver": ASLEEP, **_ranks(s, waits, {0: gets})}, IDLE)
    _load_tail(s)
    return s.healthy("slow_download")


def _load_tail(s: Story) -> None:
    for n in range(5):
        s.say(f"Loading safetensors checkpoint shards: {25 * n:3d}% Completed | {n}/4 [00:{n:02d}<00:10,  2.50s/it]")
        s.stretch(4, {"driver": ASLEEP, **_ranks(s, LOADS)}, FULL)
    _tp(s, "Load weight end. elapsed=39.10 s, type=Qwen3ForCausalLM, dtype=torch.bfloat16, avail mem=20.11 GB")
    _tp(s, "Capture cuda graph begin. This can take up to several minutes. avail mem=11.08 GB")
    sglang_end(s)


@story
def h_lustre_d_state() -> Story:
    """A shard takes 75 s: ranks blocked in the page cache, 4 % of a core, 6 MB/s each with pauses of 30 s."""
    s = Story("h-lustre-d-state", "vllm", 4, step=10)
    vllm_dist(s)
    s.stretch(6, _vllm(s, CORE), CONTEXT)
    s.say(_w(s, 0, "[gpu_model_runner.py:3259] Starting to load model /m/y..."))
    for n in range(1, 9):
        s.stretch(45, _vllm(s, make.STORAGE.but(read=6.0)), FULL, "weight_load")
        s.stretch(30, _vllm(s, make.STORAGE.but(read=0.0, cpu=0.6)), FULL, "weight_load")
        bar = f"Loading safetensors checkpoint shards: {12 * n:3d}% Completed | {n}/8"
        s.say(f"(Worker_TP0 pid=720) \r{bar} [00:{n:02d}<00:10, 75.00s/it]")
    s.say(_w(s, 0, "[default_loader.py:314] Loading weights took 630.12 seconds"))
    vllm_end(s)
    return s.healthy("slow_storage")


@story
def h_starved_container() -> Story:
    """Four ranks share half a core: throttled 90 % of the time, imports and loading crawl."""
    s = Story("h-starved-container", "sglang", 4)
    s.say(f"[{s.stamp()}] server_args=ServerArgs(model_path='/m/x', tp_size=4, nnodes=1)")
    for _ in range(30):
        s.fact({"cgroup_throttled_pct": 91, "cgroup_cpu_quota_cores": 0.5})
        s.stretch(10, {"driver": Act(cpu=4), **_ranks(s, Act(cpu=11, state="R", wchan="0", other="S"))}, EMPTY)
    for rank in range(4):
        s.say(f"[{s.stamp()} TP{rank}] Init torch distributed begin.")
    s.stretch(10, {"driver": ASLEEP, **_ranks(s, CORE)}, CONTEXT)
    _tp(s, "Init torch distributed ends. elapsed=9.01 s, mem usage=1.41 GB")
    _tp(s, "Load weight begin. avail mem=77.63 GB")
    _load_tail(s)
    return s.healthy("cpu_starved", "slow_import")


@story
def h_placement_wait() -> Story:
    """vLLM on Ray waits six minutes for a placement group, then starts."""
    s = Story("h-placement-wait", "vllm", 4, step=10)
    s.say(f"INFO {s.stamp('%m-%d %H:%M:%S')} [api_server.py:1977] vLLM API server version 0.11.2")
    s.stretch(15, {"driver": IMPORTS, "raylet": ASLEEP}, EMPTY)
    s.say(f"{s.stamp()},101\tINFO worker.py:1841 -- Connecting to existing Ray cluster at address: 10.0.0.3:6379...")
    for wait in (20, 80, 270):
        s.stretch(wait, {"driver": ASLEEP, "raylet": ASLEEP}, EMPTY)
        s.say(
            f"INFO {s.stamp('%m-%d %H:%M:%S')} [ray_utils.py:233] Waiting for creating a placement group of specs for "
            f"{wait} seconds. specs=[{{'GPU': 1.0}}, {{'GPU': 1.0}}]. Check `ray status`."
        )
    s.windows.append((120, s.t - 5, ["waiting", "progressing"], ["suspect", "hung", "crashed"]))
    s.phases.append((60, s.t - 5, "wait_resources"))
    front = {"driver": ASLEEP, "raylet": ASLEEP}
    for said in ("[model.py:631] Resolved architecture: Qwen3ForCausalLM", "[model.py:1745] Using max model len 32768",
                 "[scheduler.py:216] Chunked prefill is enabled with max_num_batched_tokens=8192.",
                 "[core.py:93] Initializing a V1 LLM engine (v0.11.2) with config: model='/m/y'"):  # fmt: skip
        s.say(f"INFO {s.stamp('%m-%d %H:%M:%S')} {said}")
    s.stretch(15, front | _ranks(s, IMPORTS), EMPTY)
    s.say(_w(s, 0, "[gpu_model_runner.py:3259] Starting to load model /m/y..."))
    for n in range(11):
        s.say(
            f"(Worker_TP0 pid=720) \rLoading safetensors checkpoint shards: {10 * n:3d}% Completed | {n}/10 [0:0{n % 9}"
        )
        s.stretch(3, front | _ranks(s, LOADS), FULL)
    s.say(_w(s, 0, "[gpu_model_runner.py:3338] Model loading took 27.1 GiB and 34.2 seconds"))
    s.stretch(40, front | _ranks(s, CORE.but(children={"python3": (16, 40.0)})), IDLE)
    s.ready("INFO:     Application startup complete.")
    s.stretch(90, front | _ranks(s, CORE), IDLE)
    return s.healthy("waiting_resources", "torch_compile")


@story
def h_builder_on_other_host() -> Story:
    """Ranks of two hosts wait for a lock on a shared file system; the builder runs on the second one."""
    s = Story("h-builder-on-other-host", "vllm", 8, hosts=2, step=10)
    vllm_load(s)
    s.say(_w(s, 0, "[gpu_model_runner.py:3338] Model loading took 27.1 GiB and 34.2 seconds"))
    s.say("[aiter] waiting for baton release at /share/jit/build/lock_module_gemm (pid 720)")
    build = ASLEEP.but(wchan="do_wait", children={"ninja": (1, 0.1), "hipcc": (3, 1.0), "clang-19": (6, 97.0)})
    s.stretch(420, _vllm(s, POLLS, {5: build}), IDLE)
    s.say(_w(s, 0, "[monitor.py:34] torch.compile takes 61.20 s in total"))
    vllm_end(s)
    return s.healthy("kernel_build", "builder_elsewhere")


@story
def h_pipeline_stage_late() -> Story:
    """Two pipeline stages: the first is loaded and spins, the second reads for three minutes more."""
    s = Story("h-pipeline-stage-late", "sglang", 8)
    sglang_load(s)
    _tp(s, "Load weight end. elapsed=33.10 s, type=X, dtype=torch.bfloat16, avail mem=20.11 GB", (0, 1, 2, 3))
    late = dict.fromkeys((4, 5, 6, 7), make.STORAGE.but(read=30, cpu=12))
    cards = _cards(s, SPIN, dict.fromkeys((4, 5, 6, 7), IDLE))
    s.stretch(190, {"driver": ASLEEP, **_ranks(s, CORE, late)}, cards)
    _tp(s, "Load weight end. elapsed=223.10 s, type=X, dtype=torch.bfloat16, avail mem=20.11 GB", (4, 5, 6, 7))
    _tp(s, "Capture cuda graph begin. This can take up to several minutes. avail mem=11.08 GB")
    sglang_end(s)
    return s.healthy("slow_storage", "rank0_preparing", "repacking")


@story
def h_tp2_autotune() -> Story:
    """TP 2: rank 0 tunes kernels in bursts on its GPU, rank 1 spins beside it for three minutes."""
    s = Story("h-tp2-autotune", "sglang", 2)
    sglang_load(s)
    _tp(s, "Load weight end. elapsed=33.10 s, type=X, dtype=torch.bfloat16, avail mem=20.11 GB")
    _tp(s, "Memory pool end. avail mem=11.49 GB")
    _tp(s, "Running FlashInfer autotune...")
    s.stretch(180, {"driver": ASLEEP, **_ranks(s, CORE)}, {0: BURST, 1: SPIN})
    _tp(s, "FlashInfer autotune completed.")
    _tp(s, "Capture cuda graph begin. This can take up to several minutes. avail mem=11.08 GB")
    sglang_end(s)
    return s.healthy("autotune", "rank0_preparing")


@story
def h_unknown_jax() -> Story:
    """A script of no known framework: one process on eight cards compiles for three minutes on six cores, then runs."""
    s = Story("h-unknown-jax", "", 1, gpus_per_host=8)
    script(s, "mesh (2, 4) built", "lowering train_step")
    s.stretch(180, {0: Act(cpu=610, state="R", wchan="0")}, FULL)
    for n in range(12):
        s.say(f"step {n} took 4.{n}s loss 9.{n}")
        s.stretch(6, {0: CORE}, WORK)
    return s.healthy(end_phase="training_step", ready=False)


@story
def h_neighbours_job() -> Story:
    """Our two ranks read from slow storage on cards 0 and 1; on the other six somebody else's job works."""
    s = Story("h-neighbours-job", "sglang", 2, gpus_per_host=8)
    theirs = dict.fromkeys(range(2, 8), WORK.but(mem=70_000))
    s.say(f"[{s.stamp()}] server_args=ServerArgs(model_path='/m/x', tp_size=2, nnodes=1)")
    s.stretch(30, {"driver": ASLEEP, **_ranks(s, IMPORTS)}, {0: EMPTY, 1: EMPTY, **theirs})
    _tp(s, "Init torch distributed begin.")
    _tp(s, "Init torch distributed ends. elapsed=1.01 s, mem usage=1.41 GB")
    _tp(s, "Load weight begin. avail mem=77.63 GB")
    s.stretch(
        250, {"driver": ASLEEP, **_ranks(s, make.STORAGE.but(read=20))}, {0: FULL, 1: FULL, **theirs}, "weight_load"
    )
    _tp(s, "Load weight end. elapsed=250 s, type=X, dtype=torch.bfloat16, avail mem=20.11 GB")
    s.stretch(10, {"driver": ASLEEP, **_ranks(s, CORE)}, {0: WORK, 1: WORK, **theirs})
    s.ready(f"[{s.stamp()}] The server is fired up and ready to roll!")
    s.stretch(120, {"driver": ASLEEP, **_ranks(s, CORE)}, {0: IDLE, 1: IDLE, **theirs})
    return s.healthy("slow_storage")


@story
def h_repack_5min() -> Story:
    """After the last shard every rank repacks weights for five minutes: one core, no byte, no line, GPUs idle."""
    s = Story("h-repack-5min", "sglang", 8)
    sglang_load(s)
    s.stretch(300, {"driver": ASLEEP, **_ranks(s, CORE.but(cpu=100))}, IDLE, "post_load")
    _tp(s, "Load weight end. elapsed=333.10 s, type=X, dtype=torch.bfloat16, avail mem=20.11 GB")
    _tp(s, "Capture cuda graph begin. This can take up to several minutes. avail mem=11.08 GB")
    sglang_end(s)
    return s.healthy("repacking")


@story
def h_buffered_stdout() -> Story:
    """Training whose stdout is block-buffered: the log is still for ten minutes, the GPUs work."""
    s = Story("h-buffered-stdout", "", 4, step=10)
    script(s, "model built: 7.1 B parameters")
    s.stretch(600, _ranks(s, CORE), WORK.but(mem=60_000))
    s.say(*[f"epoch 0 step {n} loss 3.{n}" for n in range(40)])
    s.stretch(60, _ranks(s, CORE), WORK)
    return s.healthy(end_phase="training_step", ready=False)


@story
def h_ptx_jit() -> Story:
    """The first CUDA call compiles PTX for a new card: one core, a context, nothing else, for four minutes."""
    s = Story("h-ptx-jit", "", 1)
    script(s, "torch 2.9.1, cuda available")
    s.stretch(240, {0: CORE.but(cpu=100)}, CONTEXT)
    s.say("first matmul done")
    for n in range(12):
        s.say(f"batch {n} {n * 3} samples/s")
        s.stretch(5, {0: CORE}, WORK.but(mem=9000))
    return s.healthy(end_phase="training_step", ready=False)


@story
def h_second_node_late() -> Story:
    """Only the first of two nodes is watched; its ranks sleep in the store until the second comes after 150 s."""
    s = Story("h-second-node-late", "sglang", 4, world=8)
    sglang_dist(s)
    s.stretch(150, {"driver": ASLEEP, **_ranks(s, make.STORE)}, EMPTY, "dist_init")
    s.stretch(8, {"driver": ASLEEP, **_ranks(s, CORE)}, CONTEXT)
    _tp(s, "Init torch distributed ends. elapsed=158.01 s, mem usage=1.41 GB")
    _tp(s, "Load weight begin. avail mem=77.63 GB")
    _load_tail(s)
    return s.healthy()


@story
def h_steps_of_95s() -> Story:
    """A training step takes 95 s; the GPUs work all the time but for a data wait of 40 s in each, asleep."""
    s = Story("h-steps-of-95s", "megatron", 8, step=10)
    megatron(s, steps=0)
    for n in range(1, 9):
        s.stretch(55, {"agent": POLLS, **_ranks(s, CORE)}, WORK)
        s.stretch(40, {"agent": POLLS, **_ranks(s, ASLEEP)}, IDLE)
        megatron_step(s, n)
    s.stretch(20, {"agent": POLLS, **_ranks(s, CORE)}, WORK)
    return s.healthy(end_phase="training_step", ready=False)


@story
def h_no_nvml() -> Story:
    """NVML never answers. Slow storage, then kernels are built for five minutes."""
    s = Story("h-no-nvml", "sglang", 4)
    s.nvml = False
    sglang_load(s, shards=6, per=40)
    s.stretch(5, {"driver": ASLEEP, **_ranks(s, CORE)})
    _tp(s, "Load weight end. elapsed=233.10 s, type=X, dtype=torch.bfloat16, avail mem=20.11 GB")
    _tp(s, "Capture cuda graph begin. This can take up to several minutes. avail mem=11.08 GB")
    build = ASLEEP.but(wchan="do_wait", children={"nvcc": (2, 0.3), "ptxas": (5, 99.0)})
    s.stretch(300, {"driver": ASLEEP, **_ranks(s, CORE, {0: build})}, phase="graph_capture")
    sglang_end(s)
    return s.healthy("kernel_build")


@story
def h_old_xid() -> Story:
    """The kernel log holds an Xid 63 and an Xid 45 from before; ranks wait 26 s asleep for the slowest reader."""
    s = Story("h-old-xid", "sglang", 4)
    s.fact({"kernel_line": "NVRM: Xid (PCI:0000:3b:00): 63, pid='<unknown>', name=<unknown>, Row Remapper: New row"})
    s.fact({"kernel_line": "NVRM: Xid (PCI:0000:3b:00): 45, pid=4011, name=python, Ch 00000008"})
    sglang_load(s)
    s.stretch(26, {"driver": ASLEEP, **_ranks(s, ASLEEP)}, IDLE)
    _tp(s, "Load weight end. elapsed=63.10 s, type=X, dtype=torch.bfloat16, avail mem=20.11 GB")
    _tp(s, "Capture cuda graph begin. This can take up to several minutes. avail mem=11.08 GB")
    sglang_end(s)
    return s.healthy()


@story
def h_stale_lock_lying() -> Story:
    """A lock of a killed run lies in some cache all the time and nobody waits for it: quiet of 25 s here and there."""
    s = Story("h-stale-lock-lying", "sglang", 4)
    lock = {
        "lock_file": "/home/u/.cache/torch_extensions/old/lock",
        "lock_age_s": 262000,
        "lock_owner_pid_alive": False,
    }

    def quiet(seconds: float) -> None:
        for _ in range(int(seconds / 5)):
            s.fact(lock)
            s.stretch(5, {"driver": ASLEEP, **_ranks(s, make.STORE)}, CONTEXT)

    sglang_dist(s)
    quiet(25)
    _tp(s, "Init torch distributed ends. elapsed=25.01 s, mem usage=1.41 GB")
    _tp(s, "Load weight begin. avail mem=77.63 GB")
    s.stretch(30, {"driver": ASLEEP, **_ranks(s, LOADS)}, FULL)
    quiet(25)
    _tp(s, "Load weight end. elapsed=63.10 s, type=X, dtype=torch.bfloat16, avail mem=20.11 GB")
    _tp(s, "Capture cuda graph begin. This can take up to several minutes. avail mem=11.08 GB")
    quiet(25)
    sglang_end(s)
    return s.healthy()


@story
def h_refaults() -> Story:
    """A memory limit below the model's size: pages are read again and again at 200 MB/s, no shard in five minutes."""
    s = Story("h-refaults", "vllm", 1)
    vllm_load(s, shards=4)
    for _ in range(30):
        s.fact({"cgroup_memory_limit_gib": 64, "cgroup_refault_mbps": 190.0})
        s.stretch(10, _vllm(s, make.STORAGE.but(read=200, cpu=25)), FULL)
    s.say(_w(s, 0, "[default_loader.py:314] Loading weights took 330.12 seconds"))
    vllm_end(s)
    return s.healthy("memory_refault", "slow_storage")


# ---------------------------------------------------------------------------------------------------------------- hung


@story
def x_p2p_iommu() -> Story:
    """Four PCIe cards behind an IOMMU: the first collective spins for ever, the kernel log has DMA faults."""
    s = Story("x-p2p-iommu", "vllm", 4, limit=250)
    vllm_dist(s)
    s.stretch(6, _vllm(s, CORE), CONTEXT)
    s.say(f"INFO {s.stamp('%m-%d %H:%M:%S')} [pynccl.py:111] vLLM is using nccl==2.27.5")
    s.fault()
    s.stretch(3, _vllm(s, CORE), SPIN.but(mem=900, power=0.2))
    s.fact({"kernel_line": "DMAR: [DMA Write NO_PASID] Request device [41:00.0] fault addr 0xf8000000"})
    s.stretch(560, _vllm(s, CORE), SPIN.but(power=0.2), "dist_init")
    return s.sick("p2p_iommu", "comm_init", "collective_spin", end_phase="dist_init")


@story
def x_mismatch_in_capture() -> Story:
    """Half of the ranks has begun to capture the draft's graphs, the others wait in the collective before: all spin."""
    s = Story("x-mismatch-in-capture", "sglang", 8)
    sglang_capture(s)
    s.stretch(20, {"driver": ASLEEP, **_ranks(s, CORE)}, WORK)
    _tp(s, "Capture cuda graph end. Time elapsed: 21.2 s. mem usage=1.1 GB. avail mem=9.90 GB.", (0, 1, 2, 3))
    _tp(s, "Capture draft cuda graph begin. This can take up to several minutes. avail mem=9.90 GB", (0, 1, 2, 3))
    s.fault()
    s.stretch(560, {"driver": ASLEEP, **_ranks(s, CORE)}, SPIN)
    return s.sick("collective_mismatch", "graph_capture_deadlock", "collective_spin", end_phase="graph_capture")


@story
def x_gil() -> Story:
    """One process, a thread holds the interpreter lock and sleeps: everything asleep after the last line."""
    s = Story("x-gil", "", 1)
    script(s, "building model", "moving to device")
    s.stretch(15, {0: LOADS}, FULL)
    s.say("starting loader threads")
    s.stretch(10, {0: CORE}, FULL)
    s.fault()
    s.stretch(560, {0: Act(cpu=0.9)}, FULL)
    return s.sick("gil_deadlock", "thread_deadlock", "rank_wait")


@story
def x_first_request() -> Story:
    """Ready, then the first long request never ends: all GPUs spin at a fifth of their power."""
    s = Story("x-first-request", "sglang", 8)
    sglang_capture(s)
    sglang_end(s, serve=100)
    _tp(s, "Prefill batch. #new-seq: 1, #new-token: 8192, #cached-token: 0, token usage: 0.00, #running-req: 0", (0,))
    s.stretch(3, {"driver": ASLEEP, **_ranks(s, CORE)}, WORK)
    s.fault()
    s.stretch(600, {"driver": ASLEEP, **_ranks(s, CORE)}, SPIN, "serving")
    ready = ("progressing", "slow", "waiting", "ready")
    return s.sick("collective_spin", "collective_mismatch", end_phase="serving", begins=ready)


@story
def x_oom_in_load() -> Story:
    """Rank 5 is killed for memory while weights are read; a zombie stays, the others sleep."""
    s = Story("x-oom-in-load", "sglang", 8)
    sglang_load(s, shards=8)
    s.fault()
    s.fact({"cgroup_oom_kill": 1})
    for _ in range(40):
        s.stretch(10, {"driver": ASLEEP, **_ranks(s, ASLEEP, {5: make.ZOMBIE})}, IDLE)
    return s.sick("oom_kill", "dead_rank", odd=(5,), certain=60)


@story
def x_rank_vanishes() -> Story:
    """Rank 2 of a training job is gone without a word and without a zombie; the others spin."""
    s = Story("x-rank-vanishes", "megatron", 8)
    megatron(s)
    s.fault()
    acts = {"agent": POLLS, **_ranks(s, CORE)}
    del acts[2]
    s.stretch(400, acts, _cards(s, SPIN, {2: EMPTY}))
    return s.sick("dead_rank", odd=(2,), certain=60)


@story
def x_xid79() -> Story:
    """A GPU falls off the bus in training: its row goes, its rank blocks in the driver, seven spin."""
    s = Story("x-xid79", "megatron", 8)
    megatron(s)
    s.fault()
    s.fact(
        {"kernel_line": "NVRM: Xid (PCI:0000:5d:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."}
    )
    cards = _cards(s, SPIN)
    del cards[3]
    s.stretch(400, {"agent": POLLS, **_ranks(s, CORE, {3: make.DRIVER})}, cards)
    return s.sick("gpu_fault", certain=90)


@story
def x_pipe_full() -> Story:
    """Its output goes into a pager that nobody scrolls: rank 0 waits to write, three others spin for it."""
    s = Story("x-pipe-full", "torchrun", 4)
    script(s, "dataset of 1200000 rows", "trainer ready")
    for n in range(8):
        s.stretch(6, {"agent": POLLS, **_ranks(s, CORE)}, WORK.but(mem=50_000))
        s.say(f"step {n} loss 2.{n}")
    s.fault()
    full = Act(cpu=0.0, wchan="anon_pipe_write")
    s.stretch(500, {"agent": POLLS, **_ranks(s, CORE, {0: full})}, _cards(s, SPIN, {0: IDLE}))
    return s.sick("pipe_full")


@story
def x_traced() -> Story:
    """A debugger that died holds rank 1 stopped while weights are loaded; the others end up asleep."""
    s = Story("x-traced", "sglang", 4)
    sglang_load(s)
    s.fault()
    s.stretch(420, {"driver": ASLEEP, **_ranks(s, ASLEEP, {1: make.STOPPED.but(state="t", wchan="ptrace_stop")})}, IDLE)
    return s.sick("stopped", odd=(1,), certain=180)


@story
def x_nfs_dead() -> Story:
    """The file server dies in the middle of the load: every rank blocked for good, not one byte."""
    s = Story("x-nfs-dead", "vllm", 4)
    vllm_load(s, shards=40, per=2.0)
    s.windows.clear()
    s.fault()
    s.stretch(560, _vllm(s, make.STUCK_IO), FULL)
    return s.sick("io_stall")


@story
def x_download_stalls() -> Story:
    """A hub download of the driver process stops at 20 GB; connections stay open, nothing comes."""
    s = Story("x-download-stalls", "vllm", 2)
    vllm_dist(s)
    s.stretch(8, _vllm(s, CORE), CONTEXT)
    s.say(_w(s, 0, "[gpu_model_runner.py:3259] Starting to load model org/model..."))
    gets = Act(cpu=30, wchan="ep_poll", net=110, cache_rate=110)
    s.stretch(180, _vllm(s, Act(wchan="locks_lock_inode_wait"), {0: gets}), IDLE)
    s.fault()
    s.stretch(
        600, _vllm(s, Act(wchan="locks_lock_inode_wait"), {0: Act(cpu=0.5, wchan="ep_poll", cache_rate=0.0)}), IDLE
    )
    return s.sick("download_stall")


@story
def x_second_node_never() -> Story:
    """Only the first of two nodes is watched and the second never comes: ranks sleep in the store."""
    s = Story("x-second-node-never", "sglang", 4, world=8)
    sglang_dist(s)
    s.fault()
    s.stretch(1000, {"driver": ASLEEP, **_ranks(s, make.STORE)}, EMPTY, "dist_init")
    return s.sick("rank_missing", "comm_init", end_phase="dist_init", certain=None)


@story
def x_odd_rank_asleep() -> Story:
    """In the capture rank 3 sleeps in a lock of its own, seven spin for it."""
    s = Story("x-odd-rank-asleep", "sglang", 8)
    sglang_capture(s)
    s.stretch(12, {"driver": ASLEEP, **_ranks(s, CORE)}, WORK)
    s.fault()
    s.stretch(560, {"driver": ASLEEP, **_ranks(s, CORE, {3: ASLEEP})}, _cards(s, SPIN, {3: IDLE}), "graph_capture")
    return s.sick("graph_capture_deadlock", "collective_spin", "thread_deadlock", end_phase="graph_capture", odd=(3,))


@story
def x_tp2_one_asleep() -> Story:
    """TP 2 after the load: rank 1 sleeps, rank 0 spins on its GPU."""
    s = Story("x-tp2-one-asleep", "sglang", 2)
    sglang_load(s)
    s.stretch(4, {"driver": ASLEEP, **_ranks(s, CORE)}, FULL)
    s.fault()
    s.stretch(560, {"driver": ASLEEP, **_ranks(s, CORE, {1: ASLEEP})}, {0: SPIN, 1: IDLE})
    return s.sick("collective_spin", "rank_wait", "thread_deadlock", "comm_init")


@story
def x_driver_blocks() -> Story:
    """The driver is stuck: NVML does not answer, the process blocks at its first CUDA call."""
    s = Story("x-driver-blocks", "", 1, step=10)
    s.nvml = False
    script(s, "torch 2.9.1")
    s.fault()
    s.stretch(700, {0: make.DRIVER.but(wchan="nvidia_unlocked_ioctl")})
    return s.sick("cuda_init_blocked", "gpu_fault")


@story
def x_flock_holder_sleeps() -> Story:
    """Three ranks wait for a file lock whose holder, rank 0, sleeps in a socket."""
    s = Story("x-flock-holder-sleeps", "sglang", 4)
    sglang_capture(s)
    s.fault()
    lock = {"lock_file": "/home/u/.cache/flashinfer/lock", "lock_age_s": 30, "lock_owner_pid_alive": True}
    for _ in range(60):
        s.fact(lock)
        acts = _ranks(s, Act(wchan="locks_lock_inode_wait"), {0: Act(wchan="wait_woken")})
        s.stretch(10, {"driver": ASLEEP, **acts}, IDLE)
    return s.sick("lock_held", "rank_wait", end_phase="graph_capture")


@story
def x_stale_lock_polled() -> Story:
    """Every rank polls for a lock that a killed run left in the extensions folder."""
    s = Story("x-stale-lock-polled", "sglang", 8)
    sglang_capture(s)
    s.fault()
    lock = {"lock_file": "/root/.cache/x/lock", "lock_age_s": 86000, "lock_owner_pid_alive": False}
    for _ in range(50):
        s.fact(lock)
        s.stretch(10, {"driver": ASLEEP, **_ranks(s, POLLS)}, IDLE)
    return s.sick("stale_lock", certain=120)


@story
def x_training_wedged_at_40_percent() -> Story:
    """One host of four is watched: steps stop, every GPU at 100 % and 40 % of its limit, no memory traffic."""
    s = Story("x-training-wedged", "megatron", 8, world=32, limit=350, step=10)
    megatron(s, steps=20)
    s.fault()
    s.stretch(600, {"agent": POLLS, **_ranks(s, CORE)}, SPIN.but(power=0.4), "training_step")
    return s.sick("collective_spin", "collective_mismatch", end_phase="training_step")


@story
def x_hang_in_evaluation() -> Story:
    """Evaluation begins as always, works for a minute, then nothing but spinning."""
    s = Story("x-hang-in-evaluation", "megatron", 8, step=6)
    megatron(s)
    s.stretch(60, {"agent": POLLS, **_ranks(s, CORE)}, BURST.but(links=60))
    s.fault()
    s.stretch(560, {"agent": POLLS, **_ranks(s, CORE)}, SPIN)
    return s.sick("collective_spin", end_phase="training_step")


@story
def x_unknown_script_spins() -> Story:
    """A script of no known framework, four ranks, first all-reduce: all spin. No NVLink, no memory counter."""
    s = Story("x-unknown-script-spins", "", 4)
    s.no_keys = {"nvlink_mbps"}
    script(
        s, "[worker 0] joined", "[worker 1] joined", "[worker 2] joined", "[worker 3] joined", "broadcasting parameters"
    )
    s.stretch(5, _ranks(s, CORE), CONTEXT)
    s.fault()
    s.stretch(560, _ranks(s, CORE), SPIN.but(mem=2100))
    return s.sick("collective_spin", "comm_init")


@story
def x_never_placed() -> Story:
    """Ray says that no node type can hold what is asked for; nothing will ever come."""
    s = Story("x-never-placed", "vllm", 8, step=10)
    s.say(f"INFO {s.stamp('%m-%d %H:%M:%S')} [api_server.py:1977] vLLM API server version 0.11.2")
    s.stretch(15, {"driver": IMPORTS, "raylet": ASLEEP}, EMPTY)
    s.say(f"{s.stamp()},101\tINFO worker.py:1841 -- Connecting to existing Ray cluster at address: 10.0.0.3:6379...")
    s.fault()
    for wait in (10, 20, 40, 80, 160, 320, 400):
        s.stretch(wait, {"driver": ASLEEP, "raylet": ASLEEP}, EMPTY)
        s.say(
            f"INFO {s.stamp('%m-%d %H:%M:%S')} [ray_utils.py:233] Waiting for creating a placement group of specs for "
            f"{wait} seconds. specs=[{{'GPU': 1.0}}]. Check `ray status`."
        )
        s.say("(autoscaler +1m) Error: No available node types can fulfill resource request {'GPU': 16.0}")
    return s.sick("resources_missing", "waiting_resources", end_phase="wait_resources", certain=None)


@story
def x_all_asleep_in_draft() -> Story:
    """Target and draft are loaded; then every rank sleeps for ever."""
    s = Story("x-all-asleep-in-draft", "sglang", 8)
    sglang_load(s)
    s.stretch(4, {"driver": ASLEEP, **_ranks(s, CORE)}, FULL)
    _tp(s, "Load weight end. elapsed=33.10 s, type=Qwen3ForCausalLM, dtype=torch.bfloat16, avail mem=20.11 GB")
    _tp(s, "Load weight begin. avail mem=20.63 GB")
    s.say("Loading safetensors checkpoint shards: 100% Completed | 1/1 [00:01<00:00,  1.50s/it]")
    s.fault()
    s.stretch(500, {"driver": ASLEEP, **_ranks(s, ASLEEP)}, IDLE)
    return s.sick("rank_wait", "thread_deadlock")


@story
def x_shm_full() -> Story:
    """/dev/shm of 64 MB is full: ranks sleep in communicator set-up."""
    s = Story("x-shm-full", "sglang", 4)
    sglang_dist(s)
    s.stretch(5, {"driver": ASLEEP, **_ranks(s, CORE)}, CONTEXT)
    s.fault()
    for _ in range(55):
        s.fact({"shm_free_mib": 0})
        s.stretch(10, {"driver": ASLEEP, **_ranks(s, ASLEEP)}, CONTEXT, "")
    return s.sick("shm_full", "comm_init", "rank_wait", end_phase="dist_init")


@story
def x_forked_with_a_lock() -> Story:
    """Rank 0 tokenises with forked children that inherited a held lock: all asleep, three ranks spin for it."""
    s = Story("x-forked-with-a-lock", "torchrun", 4)
    script(s, "Running tokenizer on dataset (num_proc=16):   0%|          | 0/61000 [00:00<?, ? examples/s]")
    s.stretch(
        8,
        {"agent": POLLS, **_ranks(s, CORE, {0: Act(cpu=5, children={"python": (16, 80.0)})})},
        _cards(s, SPIN.but(mem=900)),
    )
    s.fault()
    stuck = Act(cpu=0.2, children={"python": (16, 0.0)})
    s.stretch(600, {"agent": POLLS, **_ranks(s, CORE, {0: stuck})}, _cards(s, SPIN, {0: CONTEXT}))
    return s.sick("thread_deadlock", "collective_spin", "rank_wait", odd=(0,))


@story
def x_chatty_hang() -> Story:
    """Training hangs while side threads go on printing: metrics on a clock, a new warning now and then."""
    s = Story("x-chatty-hang", "megatron", 8)
    megatron(s)
    s.fault()
    words = ["throttled metrics flush", "dataloader prefetch queue full", "wandb: network retry", "gc took 0.2s"]
    for n in range(14):
        s.stretch(20, {"agent": POLLS, **_ranks(s, CORE)}, SPIN)
        s.say(f"[metrics] uptime {n * 20} s")
        s.stretch(22, {"agent": POLLS, **_ranks(s, CORE)}, SPIN)
        if n % 4 == 3:
            s.say(
                f"W0304 07:12:11.123 {words[n % 4]} (code {n})"
                if n < 8
                else f"W0304 07:19:11.123 {words[n // 4]} again"
            )
    return s.sick("collective_spin", "collective_mismatch", end_phase="training_step")


@story
def x_one_rank_in_dead_storage() -> Story:
    """TP 8: rank 6 is blocked in storage for good while the others spin for it."""
    s = Story("x-one-rank-in-dead-storage", "sglang", 8)
    sglang_load(s)
    _tp(s, "Load weight end. elapsed=33.10 s, type=X, dtype=torch.bfloat16, avail mem=20.11 GB", (0, 1, 2, 3, 4, 5, 7))
    s.fault()
    s.stretch(560, {"driver": ASLEEP, **_ranks(s, CORE, {6: make.STUCK_IO})}, _cards(s, SPIN, {6: IDLE}))
    return s.sick("io_stall", "collective_spin", odd=(6,))


@story
def x_fatal_log_only() -> Story:
    """Only the log is there: it ends in a collective's time-out."""
    s = Story("x-fatal-log-only", "megatron", 8, signals=False)
    megatron(s)
    s.stretch(600, {})
    s.fault("crashed")
    s.say(
        "[rank3]:[E304 07:31:01.123 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=991, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600083 milliseconds "
        "before timing out."
    )
    s.stretch(300, {})
    return s.sick("collective_timeout", certain=60)


@story
def x_two_hosts_one_gone() -> Story:
    """Two hosts train; the second is cut off from the network: its samples end, the first spins for ever."""
    s = Story("x-two-hosts-one-gone", "megatron", 16, hosts=2, step=10)
    megatron(s)
    s.fault()
    away = s.hosts.pop()
    s.stretch(600, {"agent": POLLS, **_ranks(s, CORE)}, SPIN)
    s.hosts.append(away)
    at = s.truth["fault_at"]
    s.truth["causes"] = ["collective_spin", "comm_init"]
    s.windows += [
        (20, at, ["progressing", "slow", "waiting"], ["suspect", "hung", "crashed", "ready", "ended"]),
        (at + 240, s.t - 1, ["suspect", "hung", "unknown"], ["progressing", "ready", "ended", "slow"]),
    ]
    return s


@story
def x_nccl_init_asleep() -> Story:
    """Bootstrap sockets never connect: contexts exist, every rank sleeps in communicator set-up."""
    s = Story("x-nccl-init-asleep", "vllm", 8)
    vllm_dist(s)
    s.stretch(6, _vllm(s, CORE), CONTEXT)
    s.say(f"INFO {s.stamp('%m-%d %H:%M:%S')} [pynccl.py:111] vLLM is using nccl==2.27.5")
    s.fault()
    s.stretch(600, _vllm(s, ASLEEP.but(wchan="wait_woken")), CONTEXT, "dist_init")
    return s.sick("comm_init", "rank_wait", end_phase="dist_init")


# ------------------------------------------------------------------------------- written when the rules were finished


@story
def h_later_async_checkpoint() -> Story:
    """A checkpoint goes to an object store by threads and a server that nobody sees: all ranks asleep for 100 s."""
    s = Story("h-later-async-checkpoint", "megatron", 8, step=6)
    megatron(s)
    s.say("saving checkpoint at iteration     112 to s3://ckpt in torch_dist format")
    s.stretch(100, {"agent": POLLS, **_ranks(s, Act(cpu=6.0, wchan="ep_poll"))}, IDLE, "checkpoint_save")
    s.say("  successfully saved checkpoint from iteration     112 to s3://ckpt [ t 1/2, p 1/2 ]")
    steps_on(s, 12, 7.0, 113)
    return s.healthy(end_phase="training_step", ready=False)


@story
def h_later_download_before_ranks() -> Story:
    """The API process fetches the weights before it starts any rank: six minutes at 40 MB/s, not one line."""
    s = Story("h-later-download-before-ranks", "vllm", 4)
    s.say(f"(APIServer pid=700) INFO {s.stamp('%m-%d %H:%M:%S')} [api_server.py:1977] vLLM API server version 0.11.2")
    s.stretch(12, {"api0": IMPORTS}, EMPTY)
    s.stretch(360, {"api0": Act(cpu=35, wchan="ep_poll", net=40, cache_rate=40)}, EMPTY)
    vllm_compile(s)
    s.stretch(40, _vllm(s, CORE.but(children={"python3": (16, 40.0)})), IDLE)
    vllm_end(s)
    return s.healthy("slow_download", "torch_compile")


@story
def h_later_build_on_second_host() -> Story:
    """Two hosts: kernels are built under rank 4 of the second, every GPU of the first spins. Five minutes."""
    s = Story("h-later-build-on-second-host", "sglang", 8, hosts=2)
    sglang_capture(s)
    build = ASLEEP.but(wchan="do_wait", children={"nvcc": (4, 1.0), "cicc": (4, 95.0), "ptxas": (3, 99.0)})
    s.stretch(300, {"driver": ASLEEP, **_ranks(s, CORE, {4: build})}, _cards(s, SPIN, {4: IDLE}), "graph_capture")
    sglang_end(s)
    return s.healthy("kernel_build")


@story
def h_later_rank0_reads_for_all() -> Story:
    """Rank 0 reads the checkpoint and broadcasts it; the others spin between two broadcasts."""
    s = Story("h-later-rank0-reads-for-all", "vllm", 8)
    vllm_dist(s)
    s.stretch(6, _vllm(s, CORE), CONTEXT)
    s.say(_w(s, 0, "[gpu_model_runner.py:3259] Starting to load model /m/y..."))
    s.stretch(260, _vllm(s, CORE, {0: LOADS}), _cards(s, SPIN.but(mem=40_000), {0: FULL}), "weight_load")
    s.say(_w(s, 0, "[default_loader.py:314] Loading weights took 260.12 seconds"))
    vllm_end(s)
    return s.healthy("slow_storage", "rank0_preparing")


@story
def h_later_slow_data() -> Story:
    """Every third step waits 35 s for data, all ranks asleep; its workers sit in storage."""
    s = Story("h-later-slow-data", "megatron", 8)
    megatron(s, steps=3)
    for n in range(10):
        s.stretch(35, {"agent": POLLS, **_ranks(s, ASLEEP.but(children={"pt_data_worker": (4, 1.5)}))}, IDLE)
        steps_on(s, 3, 7.0, 200 + 3 * n)
    return s.healthy(end_phase="training_step", ready=False)


@story
def h_later_polling_idle_server() -> Story:
    """A ready vLLM whose workers poll a timer for ten minutes: nobody asks anything."""
    s = Story("h-later-polling-idle-server", "vllm", 4, step=10)
    vllm_compile(s)
    s.stretch(40, _vllm(s, CORE.but(children={"python3": (16, 40.0)})), IDLE)
    vllm_end(s, serve=30)
    s.stretch(600, _vllm(s, POLLS), IDLE, "serving")
    return s.healthy("torch_compile", "idle")


@story
def x_later_asleep_after_ready() -> Story:
    """Ready, then the engine waits for workers that all sleep; it says so each minute."""
    s = Story("x-later-asleep-after-ready", "vllm", 4)
    vllm_compile(s)
    s.stretch(30, _vllm(s, CORE.but(children={"python3": (16, 40.0)})), IDLE)
    vllm_end(s, serve=90)
    s.fault()
    for _ in range(11):
        s.stretch(60, _vllm(s, ASLEEP), IDLE, "serving")
        head = f"(EngineCore_DP0 pid=710) INFO {s.stamp('%m-%d %H:%M:%S')} [shm_broadcast.py:466]"
        s.say(f"{head} No available shared memory broadcast block found in 60 seconds. This typically happens when ...")
    ready = ("progressing", "slow", "waiting", "ready")
    return s.sick("rank_wait", "collective_mismatch", "thread_deadlock", end_phase="serving", begins=ready)


@story
def x_later_step_in_dead_storage() -> Story:
    """Training: rank 5's file server is gone, it is blocked for good; seven spin."""
    s = Story("x-later-step-in-dead-storage", "megatron", 8)
    megatron(s)
    s.fault()
    s.stretch(560, {"agent": POLLS, **_ranks(s, CORE, {5: make.STUCK_IO})}, _cards(s, SPIN, {5: IDLE}))
    return s.sick("io_stall", "collective_spin", end_phase="training_step", odd=(5,))


@story
def x_later_half_asleep() -> Story:
    """Two hosts: the ranks of the second sleep in a lock, those of the first spin for them."""
    s = Story("x-later-half-asleep", "sglang", 8, hosts=2)
    sglang_capture(s)
    s.stretch(10, {"driver": ASLEEP, **_ranks(s, CORE)}, WORK)
    s.fault()
    asleep, idle = dict.fromkeys(range(4, 8), ASLEEP), dict.fromkeys(range(4, 8), IDLE)
    s.stretch(560, {"driver": ASLEEP, **_ranks(s, CORE, asleep)}, _cards(s, SPIN, idle), "graph_capture")
    return s.sick("graph_capture_deadlock", "collective_spin", "rank_wait", end_phase="graph_capture")


@story
def x_later_front_dies() -> Story:
    """The API process is gone while weights are loaded; the engine and its ranks go on for a while, then sleep."""
    s = Story("x-later-front-dies", "vllm", 4)
    vllm_load(s, shards=6)
    s.fault("crashed")
    s.stretch(20, {"enginecore": ASLEEP, **_ranks(s, CORE)}, WORK)
    s.stretch(300, {"enginecore": ASLEEP, **_ranks(s, ASLEEP)}, FULL)
    return s.sick("dead_rank", "api_timeout", "exception", certain=60)


@story
def x_later_silent_kill() -> Story:
    """A rank was killed, nothing tells why; the others burn a core each on idle GPUs."""
    s = Story("x-later-silent-kill", "sglang", 8)
    sglang_load(s)
    s.fault()
    acts = {"driver": ASLEEP, **_ranks(s, CORE)}
    del acts[6]
    s.stretch(400, acts, IDLE)
    return s.sick("dead_rank", "oom_kill", odd=(6,), certain=60)


@story
def x_later_idle_workers() -> Story:
    """torch.compile never ends: all ranks asleep, their 32 compile workers asleep, too."""
    s = Story("x-later-idle-workers", "vllm", 4)
    vllm_compile(s)
    s.stretch(30, _vllm(s, ASLEEP.but(children={"python3": (32, 20.0)})), IDLE)
    s.fault()
    s.stretch(600, _vllm(s, ASLEEP.but(children={"python3": (32, 0.03)})), IDLE, "compile")
    return s.sick("rank_wait", "thread_deadlock", end_phase="compile")


@story
def x_later_tp2_first_collective() -> Story:
    """TP 2 on cards without peer access: one GPU reads 100 %, the other 0 %, both ranks at one core, for ever."""
    s = Story("x-later-tp2-first-collective", "sglang", 2, limit=300)
    sglang_dist(s)
    s.fault()
    s.stretch(600, {"driver": ASLEEP, **_ranks(s, CORE)}, {0: SPIN.but(mem=500), 1: IDLE.but(mem=500)}, "dist_init")
    return s.sick("comm_init", "p2p_iommu", "collective_spin", end_phase="dist_init")


def is_held_back(name: str) -> bool:
    return zlib.crc32(name.encode()) % 2 == 1


LATER = sorted(name for name in STORIES if "-later-" in name)
TUNED = sorted(name for name in STORIES if name not in LATER and not is_held_back(name))
HELD_BACK = sorted(name for name in STORIES if name not in LATER and is_held_back(name))
