"""A second round of start-ups, told to break the rules: written and judged once before a rule was touched for them.

``SECOND`` names them. What the rules of that day made of them is kept in :mod:`tests.report` beside today's figures.
"""

from __future__ import annotations

from tests import scenario_maker as make
from tests.scenario_maker import ASLEEP, BURST, CORE, EMPTY, IDLE, IMPORTS, LOADS, POLLS, SPIN, WORK, Act, Card, Story
from tests.scenario_stories import (
    CONTEXT,
    FULL,
    STORIES,
    _cards,
    _ranks,
    _tp,
    _vllm,
    _w,
    megatron,
    script,
    sglang_capture,
    sglang_dist,
    sglang_end,
    sglang_load,
    steps_on,
    story,
    vllm_compile,
    vllm_dist,
    vllm_end,
    vllm_load,
)

_BEFORE = frozenset(STORIES)
BARRIER = ASLEEP.but(wchan="ep_poll")
READY = ("progressing", "slow", "waiting", "ready")


# ------------------------------------------------------------------------------------------------------------- healthy


@story
def h_second_no_log_comm_init() -> Story:
    """No log was found. Two hosts, eight ranks: 70 s of spinning in the communicator, then reading, then capture."""
    s = Story("h-second-no-log-comm-init", "sglang", 8, hosts=2)
    for host in s.hosts:
        host.missed.add("log")
    s.stretch(40, {"driver": ASLEEP, **_ranks(s, IMPORTS)}, EMPTY)
    s.stretch(70, {"driver": ASLEEP, **_ranks(s, CORE)}, SPIN.but(mem=900.0))
    s.stretch(60, {"driver": ASLEEP, **_ranks(s, LOADS)}, FULL)
    s.stretch(60, {"driver": ASLEEP, **_ranks(s, CORE)}, WORK)
    s.stretch(150, {"driver": ASLEEP, **_ranks(s, CORE)}, IDLE)
    s.truth |= {"outcome": "ready"}
    s.windows.append((0, s.t - 1, [*READY, "unknown"], ["suspect", "hung", "crashed", "ended"]))
    return s


@story
def h_second_eval_half_idle() -> Story:
    """Evaluation of a pipeline for two minutes: the first stage's GPUs work a little, the second's are idle between
    micro-batches, its ranks sleep in receives."""
    s = Story("h-second-eval-half-idle", "megatron", 8, step=6, limit=400)
    s.wobble = 9.0
    megatron(s)
    little = Card(util=18, mem_util=2, power=0.22, busy=True)
    second = dict.fromkeys(range(4, 8), ASLEEP.but(cpu=7))
    s.stretch(125, {"agent": POLLS, **_ranks(s, CORE, second)}, _cards(s, little, dict.fromkeys(range(4, 8), IDLE)))
    s.say(" validation loss at iteration 112 | lm loss value: 4.2E+00 | lm loss PPL: 6.7E+01 | ")
    steps_on(s, 14, 7.0, 113)
    return s.healthy(end_phase="training_step", ready=False)


@story
def h_second_import_by_pages() -> Story:
    """Sixteen interpreters on two hosts import from NFS: blocked, 50 kB/s of page reads, under one percent of a core,
    a quarter of a MiB a second. Four minutes."""
    s = Story("h-second-import-by-pages", "megatron", 16, hosts=2)
    s.wobble = 1.0
    slow = Act(cpu=0.8, state="D", wchan="folio_wait_bit_common", read=0.05, other="S", rss_rate=0.25)
    s.stretch(240, {"agent": POLLS, **_ranks(s, slow)}, EMPTY, "import")
    s.say("using world size: 16, data-parallel size: 2, context-parallel size: 1")
    s.say("> initializing torch distributed ...")
    s.stretch(12, {"agent": POLLS, **_ranks(s, CORE)}, CONTEXT)
    s.say("time to initialize megatron (seconds): 30.500", "training ...")
    s.stretch(20, {"agent": POLLS, **_ranks(s, CORE)}, WORK)
    steps_on(s, 10, 7.0, 1)
    return s.healthy("slow_import", "slow_storage", end_phase="training_step", ready=False)


@story
def h_second_one_rank_converts() -> Story:
    """Weights are converted on the CPU by a single thread of rank 2, three minutes; three ranks sleep in a barrier."""
    s = Story("h-second-one-rank-converts", "vllm", 4)
    s.wobble = 12.0
    vllm_load(s)
    s.say(_w(s, 0, "[default_loader.py:314] Loading weights took 30.12 seconds"))
    s.stretch(190, _vllm(s, BARRIER, {2: CORE.but(cpu=100)}), FULL, "post_load")
    s.say(_w(s, 0, "[gpu_model_runner.py:3338] Model loading took 27.1 GiB and 224.2 seconds"))
    vllm_end(s)
    return s.healthy("repacking", "rank0_preparing")


@story
def h_second_save_asleep() -> Story:
    """DeepSpeed saves to slow storage: rank 0 in writeback for two and a half minutes, seven asleep in a barrier."""
    s = Story("h-second-save-asleep", "deepspeed", 8, step=6)
    head = f"[{s.stamp()},100] [INFO]"
    s.say(f"{head} [launch.py:272:main] process 22871 spawned with command: ['python', '-u', 'train.py']")
    s.stretch(24, {"launcher": POLLS, **_ranks(s, IMPORTS)}, EMPTY)
    s.say(f"{head} [comm.py:689:init_distributed] Initializing TorchBackend in DeepSpeed with backend nccl")
    s.stretch(12, {"launcher": POLLS, **_ranks(s, CORE)}, CONTEXT)
    s.say(f"{head} [logging.py:107:log_dist] [Rank 0] DeepSpeed Final Optimizer = DeepSpeedZeroOptimizer")
    for n in range(1, 9):
        s.stretch(8, {"launcher": POLLS, **_ranks(s, CORE)}, WORK.but(mem=60_000))
        s.say(f"[{s.stamp()},900] [INFO] [logging.py:107:log_dist] [Rank 0] step={n * 10}, skipped=0, lr=[1e-05]")
    s.say(f"[{s.stamp()},900] [INFO] [torch_checkpoint_engine.py:21:save] [Torch] Saving /ckpt/s80/mp_rank_00.pt...")
    writes = Act(cpu=3.0, state="D", wchan="balance_dirty_pages", other="R")
    s.stretch(150, {"launcher": POLLS, **_ranks(s, BARRIER, {0: writes})}, IDLE, "checkpoint_save")
    s.say(f"[{s.stamp()},900] [INFO] [torch_checkpoint_engine.py:33:commit] [Torch] Checkpoint s80 is ready now!")
    for n in range(9, 20):
        s.stretch(8, {"launcher": POLLS, **_ranks(s, CORE)}, WORK)
        s.say(f"[{s.stamp()},900] [INFO] [logging.py:107:log_dist] [Rank 0] step={n * 10}, skipped=0, lr=[1e-05]")
    return s.healthy(end_phase="training_step", ready=False)


@story
def h_second_stage0_reads_on() -> Story:
    """Pipeline of two stages: the ranks of stage 0 read four minutes longer, at 2 MB/s each; stage 1 sleeps."""
    s = Story("h-second-stage0-reads-on", "vllm", 8, step=10)
    vllm_load(s)
    late = dict.fromkeys(range(4), make.STORAGE.but(read=2.0, cpu=2))
    s.stretch(240, _vllm(s, BARRIER, late), FULL, "weight_load")
    s.say(_w(s, 0, "[default_loader.py:314] Loading weights took 270.12 seconds"))
    s.say(_w(s, 0, "[gpu_model_runner.py:3338] Model loading took 27.1 GiB and 274.2 seconds"))
    vllm_end(s)
    return s.healthy("slow_storage")


@story
def h_second_index_one_core() -> Story:
    """Megatron builds its sample index on rank 0 with one core for five minutes; seven spin in the barrier."""
    s = Story("h-second-index-one-core", "megatron", 8, step=6)
    s.wobble = 10.0
    s.say("using world size: 8, data-parallel size: 8, context-parallel size: 1")
    s.stretch(22, {"agent": POLLS, **_ranks(s, IMPORTS)}, EMPTY)
    s.say("> initializing torch distributed ...")
    s.stretch(8, {"agent": POLLS, **_ranks(s, CORE)}, CONTEXT)
    s.say("time to initialize megatron (seconds): 30.500", "building GPT model ...")
    s.stretch(12, {"agent": POLLS, **_ranks(s, CORE)}, BURST.but(mem=61_000))
    s.say("> building train, validation, and test datasets for GPT ...")
    s.say("INFO:megatron.core.datasets.gpt_dataset:Build and save the GPTDataset train indices")
    s.stretch(300, {"agent": POLLS, **_ranks(s, CORE)}, _cards(s, SPIN, {0: IDLE}), "data_index")
    s.say("> finished creating GPT datasets ...", "training ...")
    s.stretch(15, {"agent": POLLS, **_ranks(s, CORE)}, WORK)
    steps_on(s, 12, 7.0, 1)
    return s.healthy("rank0_preparing", end_phase="training_step", ready=False)


@story
def h_second_xet_network_only() -> Story:
    """xet fetches for six minutes: only the network counter of rank 0 moves, in bursts; the cache folder is unseen."""
    s = Story("h-second-xet", "sglang", 4)
    sglang_dist(s)
    s.stretch(8, {"driver": ASLEEP, **_ranks(s, CORE)}, CONTEXT)
    _tp(s, "Init torch distributed ends. elapsed=9.01 s, mem usage=1.41 GB")
    _tp(s, "Load weight begin. avail mem=77.63 GB")
    gets, waits = Act(cpu=9, wchan="ep_poll", net=55.0), Act(cpu=0.3, wchan="locks_lock_inode_wait")
    for _ in range(8):
        s.stretch(24, {"driver": ASLEEP, **_ranks(s, waits, {0: gets})}, IDLE)
        s.stretch(21, {"driver": ASLEEP, **_ranks(s, waits, {0: gets.but(net=0.0, cpu=1.0)})}, IDLE)
    for n in range(5):
        s.say(f"Loading safetensors checkpoint shards: {25 * n:3d}% Completed | {n}/4 [00:{n:02d}<00:10,  2.50s/it]")
        s.stretch(4, {"driver": ASLEEP, **_ranks(s, LOADS)}, FULL)
    _tp(s, "Load weight end. elapsed=399.10 s, type=Qwen3ForCausalLM, dtype=torch.bfloat16, avail mem=20.11 GB")
    _tp(s, "Capture cuda graph begin. This can take up to several minutes. avail mem=11.08 GB")
    sglang_end(s)
    return s.healthy("slow_download")


@story
def h_second_deepgemm_short() -> Story:
    """DeepGEMM warm-up: compilers of rank 0 live for seconds, with own work between; seven spin; a bar moves each
    minute and a half."""
    s = Story("h-second-deepgemm", "sglang", 8)
    sglang_load(s)
    s.stretch(4, {"driver": ASLEEP, **_ranks(s, CORE)}, FULL)
    _tp(s, "Load weight end. elapsed=33.10 s, type=X, dtype=torch.bfloat16, avail mem=20.11 GB")
    _tp(s, "Memory pool end. avail mem=11.49 GB")
    _tp(s, "Try DeepGEMM JIT Compiling for <GEMM_NT_F8F8BF16> N=4608, K=7168, num_groups=1 with all Ms.", (0,))
    for n in range(1, 5):
        for _ in range(5):
            build = ASLEEP.but(wchan="do_wait", children={"nvcc": (2, 1.0), "cicc": (2, 60.0)})
            s.stretch(6, {"driver": ASLEEP, **_ranks(s, CORE, {0: build})}, _cards(s, SPIN, {0: IDLE}), "jit_build")
            s.stretch(12, {"driver": ASLEEP, **_ranks(s, CORE)}, _cards(s, SPIN, {0: IDLE}), "jit_build")
        s.say(f"DeepGEMM warmup:  {25 * n}%|#| {64 * n}/256 [0{n}:30<05:40,  1.40s/it]")
    _tp(s, "Capture cuda graph begin. This can take up to several minutes. avail mem=11.08 GB")
    sglang_end(s)
    return s.healthy("kernel_build")


@story
def h_second_moe_autotune() -> Story:
    """MoE kernels are tuned for four minutes without a line: short bursts, the memory controller hardly read."""
    s = Story("h-second-moe-autotune", "vllm", 4, limit=1000)
    vllm_load(s)
    s.say(_w(s, 0, "[default_loader.py:314] Loading weights took 30.12 seconds"))
    s.say(_w(s, 0, "[gpu_model_runner.py:3338] Model loading took 27.1 GiB and 34.2 seconds"))
    s.say(_w(s, 0, "[kernel_warmup.py:179] JIT kernel warmup starting"))
    s.say("[AutoTuner]: Tuning fused_moe::gemm1:   5%|#         | 1/22 [00:02<00:40,  2.0s/profile]")
    s.stretch(240, _vllm(s, CORE), Card(util=22, mem_util=2, power=0.2, busy=True), "warmup")
    s.say("[AutoTuner]: Tuning fused_moe::gemm1: 100%|#| 22/22 [04:02<00:00, 12.0s/profile]")
    vllm_end(s)
    return s.healthy("autotune")


@story
def h_second_draft_rank0() -> Story:
    """The draft model is read by rank 0 alone at 3 MB/s for two and a half minutes; seven sleep in a barrier."""
    s = Story("h-second-draft-rank0", "sglang", 8)
    sglang_load(s)
    s.stretch(4, {"driver": ASLEEP, **_ranks(s, CORE)}, FULL)
    _tp(s, "Load weight end. elapsed=33.10 s, type=Qwen3ForCausalLM, dtype=torch.bfloat16, avail mem=20.11 GB")
    _tp(s, "Load weight begin. avail mem=20.63 GB")
    s.say("Loading safetensors checkpoint shards:   0% Completed | 0/1 [00:00<?, ?it/s]")
    reads = make.STORAGE.but(read=3.0, cpu=2)
    s.stretch(150, {"driver": ASLEEP, **_ranks(s, BARRIER, {0: reads})}, IDLE, "draft_load")
    s.say("Loading safetensors checkpoint shards: 100% Completed | 1/1 [02:30<00:00, 150.0s/it]")
    _tp(s, "Load weight end. elapsed=151.10 s, type=Draft, dtype=torch.bfloat16, avail mem=19.11 GB")
    _tp(s, "Capture cuda graph begin. This can take up to several minutes. avail mem=11.08 GB")
    sglang_end(s)
    return s.healthy("slow_storage", "rank0_preparing")


@story
def h_second_profiler_pauses() -> Story:
    """A profiler stops rank 2 for twelve seconds, four times; seven spin meanwhile, and steps go on."""
    s = Story("h-second-profiler-pauses", "megatron", 8, step=4)
    megatron(s)
    for n in range(4):
        s.stretch(12, {"agent": POLLS, **_ranks(s, CORE, {2: make.STOPPED})}, _cards(s, SPIN, {2: IDLE}))
        steps_on(s, 4, 7.0, 200 + 4 * n)
    return s.healthy(end_phase="training_step", ready=False)


@story
def h_second_first_request_builds() -> Story:
    """Ready, then the first request builds its kernels: ninety seconds of compilers under every rank, GPUs idle."""
    s = Story("h-second-first-request-builds", "sglang", 4)
    sglang_capture(s)
    sglang_end(s, serve=60)
    _tp(s, "Prefill batch. #new-seq: 1, #new-token: 8192, #cached-token: 0, token usage: 0.00, #running-req: 0", (0,))
    build = ASLEEP.but(wchan="do_wait", children={"nvcc": (2, 1.0), "ptxas": (2, 80.0)})
    s.stretch(95, {"driver": ASLEEP, **_ranks(s, build)}, IDLE)
    s.say(f'[{s.stamp()}] INFO:     127.0.0.1:52718 - "POST /generate HTTP/1.1" 200 OK')
    s.stretch(120, {"driver": ASLEEP, **_ranks(s, CORE)}, IDLE)
    s.truth |= {"outcome": "ready", "phase_at_end": "serving"}
    at = s.truth["ready_at"]
    s.windows += [
        (20, at - 1, ["progressing", "slow", "waiting"], ["suspect", "hung", "crashed", "ended"]),
        (at + 12, s.t - 1, ["ready", "slow", "progressing"], ["suspect", "hung", "crashed", "ended"]),
    ]
    return s


# ---------------------------------------------------------------------------------------------------------------- hung


@story
def x_second_one_of_16_in_nfs() -> Story:
    """Two hosts, sixteen ranks: rank 11 never comes back from NFS in the load, fifteen sleep in the barrier."""
    s = Story("x-second-one-of-16-in-nfs", "sglang", 16, hosts=2)
    s.wobble = 14.0
    sglang_load(s)
    others = tuple(rank for rank in range(16) if rank != 11)
    _tp(s, "Load weight end. elapsed=33.10 s, type=X, dtype=torch.bfloat16, avail mem=20.11 GB", others)
    s.fault()
    s.stretch(560, {"driver": ASLEEP, **_ranks(s, BARRIER, {11: make.STUCK_IO})}, IDLE)
    return s.sick("io_stall", odd=(11,))


@story
def x_second_node_absent() -> Story:
    """Two watched hosts, but nothing was started on the second: eight ranks wait in the store for the other eight."""
    s = Story("x-second-node-absent", "sglang", 16, hosts=2)
    s.say(f"[{s.stamp()}] server_args=ServerArgs(model_path='/m/x', tp_size=16, nnodes=2)")
    first = range(8)
    s.stretch(18, {"driver": IMPORTS}, EMPTY)
    s.stretch(20, {"driver": ASLEEP, **dict.fromkeys(first, IMPORTS)}, EMPTY)
    _tp(s, "Init torch distributed begin.", tuple(first))
    s.fault()
    s.stretch(900, {"driver": ASLEEP, **dict.fromkeys(first, make.STORE)}, EMPTY, "dist_init")
    return s.sick("rank_missing", end_phase="dist_init", certain=None, final=("hung", "crashed", "suspect"))


@story
def x_second_python_lock() -> Story:
    """In the warm-up rank 2 sleeps in a lock of Python's, three spin on their GPUs for it."""
    s = Story("x-second-python-lock", "vllm", 4)
    s.wobble = 15.0
    vllm_load(s)
    s.say(_w(s, 0, "[gpu_model_runner.py:3338] Model loading took 27.1 GiB and 34.2 seconds"))
    s.say(_w(s, 0, "[kernel_warmup.py:179] JIT kernel warmup starting"))
    s.stretch(15, _vllm(s, CORE), WORK)
    s.fault()
    s.stretch(560, _vllm(s, CORE, {2: ASLEEP}), _cards(s, SPIN, {2: IDLE}), "warmup")
    return s.sick("collective_spin", "thread_deadlock", "rank_wait", end_phase="warmup", odd=(2,))


@story
def x_second_shm_full_spinning() -> Story:
    """/dev/shm is full: four vLLM ranks spin on the CPU in communicator set-up, no kernel runs."""
    s = Story("x-second-shm-full", "vllm", 4)
    vllm_dist(s)
    s.stretch(6, _vllm(s, CORE), CONTEXT)
    s.say(f"INFO {s.stamp('%m-%d %H:%M:%S')} [pynccl.py:111] vLLM is using nccl==2.27.5")
    s.fault()
    for _ in range(50):
        s.fact({"shm_free_mib": 0})
        s.stretch(10, _vllm(s, CORE), CONTEXT)
    return s.sick("shm_full", "comm_init", end_phase="dist_init", certain=120)


@story
def x_second_download_at_98() -> Story:
    """A hub download with bars: at 98 % of the last file nothing comes any more; the fetcher polls its sockets."""
    s = Story("x-second-download-at-98", "vllm", 2)
    vllm_dist(s)
    s.stretch(8, _vllm(s, CORE), CONTEXT)
    s.say(_w(s, 0, "[gpu_model_runner.py:3259] Starting to load model org/model..."))
    gets, waits = Act(cpu=30, wchan="ep_poll", net=110), Act(wchan="locks_lock_inode_wait")
    for n in range(1, 15):
        s.say(f"model-00004-of-00004.safetensors: {7 * n:3d}%|#| {0.348 * n:.2f}G/4.97G [00:{n:02d}<00:15, 24.1MB/s]")
        s.stretch(9, _vllm(s, waits, {0: gets}), IDLE)
    s.fault()
    s.stretch(600, _vllm(s, waits, {0: Act(cpu=0.9, wchan="ep_poll")}), IDLE, "weight_download")
    return s.sick("download_stall", end_phase="weight_download")


@story
def x_second_lock_of_another() -> Story:
    """Four ranks wait for a hub lock that a stopped process of an older launch holds: its pid lives."""
    s = Story("x-second-lock-of-another", "sglang", 4)
    sglang_dist(s)
    s.stretch(9, {"driver": ASLEEP, **_ranks(s, CORE)}, CONTEXT)
    _tp(s, "Init torch distributed ends. elapsed=9.01 s, mem usage=1.41 GB")
    _tp(s, "Load weight begin. avail mem=77.63 GB")
    s.fault()
    lock = {"lock_file": "/data/hub/.locks/models--org--m/abc.lock", "lock_age_s": 9000, "lock_owner_pid_alive": True}
    for n in range(50):
        s.fact(lock)
        s.stretch(10, {"driver": ASLEEP, **_ranks(s, Act(cpu=0.4, wchan="hrtimer_nanosleep"))}, IDLE)
        s.say(
            f"Still waiting to acquire lock on /data/hub/.locks/models--org--m/abc.lock (elapsed: {n * 10}.1 seconds)"
        )
    return s.sick("lock_held")


@story
def x_second_off_the_bus() -> Story:
    """A GPU falls off the bus while weights are loaded, seen every ten seconds: Xid 79, no row of it any more."""
    s = Story("x-second-off-the-bus", "vllm", 8, step=10)
    vllm_load(s, shards=30, per=2.0)
    s.fault()
    s.fact(
        {"kernel_line": "NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."}
    )
    cards = _cards(s, IDLE)
    del cards[4]
    s.stretch(400, _vllm(s, BARRIER, {4: make.DRIVER}), cards)
    return s.sick("gpu_fault", certain=60)


@story
def x_second_first_request_asleep() -> Story:
    """Ready, the first request is prefilled, then every rank sleeps; no line says that it ended."""
    s = Story("x-second-first-request-asleep", "sglang", 4)
    sglang_capture(s)
    sglang_end(s, serve=70)
    s.say(f'[{s.stamp()}] INFO:     127.0.0.1:52718 - "GET /model_info HTTP/1.1" 200 OK')
    _tp(s, "Prefill batch. #new-seq: 1, #new-token: 8192, #cached-token: 0, token usage: 0.00, #running-req: 0", (0,))
    s.stretch(3, {"driver": ASLEEP, **_ranks(s, CORE)}, WORK)
    s.fault()
    s.stretch(560, {"driver": ASLEEP, **_ranks(s, ASLEEP)}, IDLE, "serving")
    return s.sick("rank_wait", "thread_deadlock", "collective_mismatch", end_phase="serving", begins=READY)


@story
def x_second_cores_on_idle_gpus() -> Story:
    """The engine core sleeps, four workers spin on the CPU for its next message: a core each, no GPU, no byte."""
    s = Story("x-second-cores-on-idle-gpus", "vllm", 4)
    s.wobble = 6.0
    vllm_compile(s)
    s.stretch(40, _vllm(s, CORE.but(children={"python3": (16, 40.0)})), IDLE)
    s.say(_w(s, 0, "[monitor.py:34] torch.compile takes 61.20 s in total"))
    s.stretch(7, _vllm(s, CORE), WORK)
    s.say(_w(s, 0, "[gpu_worker.py:298] Available KV cache memory: 34.54 GiB"))
    s.fault()
    s.stretch(600, _vllm(s, CORE.but(cpu=100)), FULL, "kv_alloc")
    return s.sick("rank_wait", "thread_deadlock", "collective_spin", end_phase="kv_alloc")


@story
def x_second_stopped_seen_rarely() -> Story:
    """Rank 6 of a training job is stopped by somebody's ctrl-z; samples come every ten seconds."""
    s = Story("x-second-stopped-seen-rarely", "megatron", 8, step=10)
    megatron(s)
    s.fault()
    s.stretch(300, {"agent": POLLS, **_ranks(s, CORE, {6: make.STOPPED})}, _cards(s, SPIN, {6: IDLE}))
    return s.sick("stopped", end_phase="training_step", odd=(6,), certain=60)


@story
def x_second_forked_in_import() -> Story:
    """A fork inherited a lock of the importer: four ranks of an unknown script sleep for ever before any CUDA call."""
    s = Story("x-second-forked-in-import", "", 4)
    s.wobble = 5.0
    script(s, "registering plugins")
    s.fault()
    s.stretch(700, _ranks(s, ASLEEP), EMPTY)
    return s.sick("rank_wait", "thread_deadlock", certain=None)


@story
def x_second_tp2_weights() -> Story:
    """TP 2, after the last shard: both ranks asleep in a Gloo barrier that neither leaves; memory wobbles by 15 MiB."""
    s = Story("x-second-tp2-weights", "sglang", 2)
    s.wobble = 15.0
    sglang_load(s)
    s.fault()
    s.stretch(560, {"driver": ASLEEP, **_ranks(s, BARRIER)}, IDLE)
    return s.sick("rank_wait", "thread_deadlock")


SECOND = sorted(set(STORIES) - _BEFORE)
