"""A third round of start-ups, told to break the rules: those at which the rules of that day failed, and neighbours.

``THIRD`` names them. What was made of them at the first look is kept in :mod:`tests.report` beside today's figures.
"""

from __future__ import annotations

from tests import scenario_maker as make
from tests.scenario_maker import ASLEEP, CORE, EMPTY, IDLE, IMPORTS, LOADS, POLLS, SPIN, WORK, Act, Card, Story
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
    sglang_capture,
    sglang_dist,
    sglang_end,
    story,
    vllm_compile,
    vllm_dist,
    vllm_end,
)

_BEFORE = frozenset(STORIES)
READY = ("progressing", "slow", "waiting", "ready")


def trainer(s: Story) -> None:
    """A script under torchrun until its first step."""
    s.say("[trainer] ddp")
    s.stretch(25, {"agent": POLLS, **_ranks(s, IMPORTS)}, EMPTY)
    s.stretch(20, {"agent": POLLS, **_ranks(s, LOADS)}, FULL)


def trains(s: Story, first: int, last: int, pace: float = 5.0) -> None:
    for n in range(first, last):
        s.say(f"step {n} | loss {3 - n / 50:.3f} | {n * 512} tokens")
        s.stretch(pace, {"agent": POLLS, **_ranks(s, CORE)}, WORK)


def trtllm(s: Story) -> dict[make.Name, Act]:
    """TensorRT-LLM until its weights are there; gives the processes that are no ranks."""
    front: dict[make.Name, Act] = {"proxy": POLLS, "orted": ASLEEP}
    s.say("[TensorRT-LLM] TensorRT LLM version: 1.2.0")
    s.stretch(12, {"proxy": IMPORTS}, EMPTY)
    s.say(
        _trt(s, "Using LLM with PyTorch backend"), "\x1b[33mrank 0 using MpiPoolSession to spawn MPI processes\x1b[0m"
    )
    s.stretch(14, front | _ranks(s, IMPORTS), EMPTY)
    for n in range(11):
        for _ in range(s.each):
            s.say(f"\rLoading weights: {10 * n}%|##| {80 * n}/800 [00:{3 * n:02d}<00:10, 20it/s]")
        s.stretch(3, front | _ranks(s, LOADS), FULL)
    return front


def _trt(s: Story, text: str) -> str:
    return f"[{s.stamp('%m/%d/%Y-%H:%M:%S')}] [TRT-LLM] [I] {text}"


# ------------------------------------------------------------------------------------------------------------- healthy


@story
def h_third_out_of_memory_is_caught() -> Story:
    """A missing module is caught with its traceback; later the largest batch that fits is looked for."""
    s = Story("h-third-oom-is-caught", "torchrun", 4)
    s.say("[run] start")
    s.stretch(12, {"agent": POLLS, **_ranks(s, IMPORTS)}, EMPTY)
    s.say("WARNING: falling back to sdpa", "Traceback (most recent call last):", '  File "/app/attn.py", line 3, in x')
    s.say("    import flash_attn", "ModuleNotFoundError: No module named 'flash_attn'")
    s.stretch(70, {"agent": POLLS, **_ranks(s, IMPORTS.but(read=2))}, EMPTY)
    s.say("finding batch size ...")
    s.stretch(20, {"agent": POLLS, **_ranks(s, CORE)}, WORK.but(mem=70_000))
    s.say("batch size 64 failed: CUDA out of memory. Tried to allocate 20.00 GiB; trying 32")
    s.stretch(30, {"agent": POLLS, **_ranks(s, CORE)}, WORK)
    trains(s, 1, 40)
    return s.healthy(end_phase="training_step", ready=False)


@story
def h_third_nodes_come_late() -> Story:
    """torchrun on two hosts: for five minutes there is nothing but the first one's agent."""
    s = Story("h-third-nodes-come-late", "torchrun", 8, hosts=2, step=10)
    s.say("W0304 07:00:00.794000 7301 torch/distributed/run.py:803] *****************************************")
    s.stretch(12, {"agent": IMPORTS}, EMPTY)
    s.stretch(300, {"agent": POLLS}, EMPTY, "wait_resources")
    trainer(s)
    trains(s, 1, 30)
    return s.healthy(end_phase="training_step", ready=False)


@story
def h_third_download_pauses() -> Story:
    """A silent download at 30 MB/s that dries up for 40 s, three times."""
    s = Story("h-third-download-pauses", "vllm", 4)
    vllm_dist(s)
    s.stretch(8, _vllm(s, CORE), CONTEXT)
    s.say(_w(s, 0, "[gpu_model_runner.py:3259] Starting to load model org/model..."))
    gets, waits = Act(cpu=12, wchan="ep_poll", net=30, cache_rate=30.0), Act(wchan="hrtimer_nanosleep")
    for _ in range(3):
        s.stretch(20, _vllm(s, waits, {0: gets}), CONTEXT)
        s.stretch(90, _vllm(s, waits, {0: gets}), CONTEXT, "weight_download")
        s.stretch(40, _vllm(s, waits, {0: Act(cpu=0.6, wchan="ep_poll", cache_rate=0.0)}), CONTEXT)
    s.stretch(60, _vllm(s, waits, {0: gets}), CONTEXT, "weight_download")
    s.say(_w(s, 0, "[weight_utils.py:441] Time spent downloading weights for org/model: 540.112 seconds"))
    for n in range(11):
        bar = f"Loading safetensors checkpoint shards: {10 * n:3d}% Completed | {n}/10"
        s.say(f"(Worker_TP0 pid=720) \r{bar} [00:{n:02d}<00:10,  3.00s/it]")
        s.stretch(3, _vllm(s, LOADS), FULL)
    s.say(_w(s, 0, "[gpu_model_runner.py:3338] Model loading took 27.1 GiB and 34.2 seconds"))
    vllm_end(s)
    return s.healthy("slow_download")


@story
def h_third_all_capture_on_the_cpu() -> Story:
    """The first size takes four minutes: every rank at one core, memory that grows on some of them, GPUs at 2 %."""
    s = Story("h-third-all-capture", "vllm", 4)
    vllm_compile(s)
    s.stretch(25, _vllm(s, CORE.but(children={"python3": (16, 40.0)})), IDLE)
    s.say(_w(s, 0, "[monitor.py:34] torch.compile takes 61.20 s in total"))
    s.stretch(7, _vllm(s, CORE), WORK)
    s.say(_w(s, 0, "[gpu_worker.py:298] Available KV cache memory: 34.54 GiB"))
    s.say("(Worker_TP0 pid=720) \rCapturing CUDA graphs (decode, FULL):   0%|          | 0/67 [00:00<?, ?it/s]")
    s.stretch(240, _vllm(s, CORE.but(cpu=100, rss_rate=0.8)), Card(util=2, power=0.15), "graph_capture")
    vllm_end(s)
    return s.healthy("cpu_bound_capture")


@story
def h_third_engine_build() -> Story:
    """trtllm-build for ten minutes: one core, bursts on the GPU, no line for minutes; then it has done its work."""
    s = Story("h-third-engine-build", "tensorrt-llm", 1, limit=350)
    s.say("[TensorRT-LLM] TensorRT LLM version: 0.18.0")
    s.stretch(15, {0: IMPORTS}, EMPTY)
    s.stretch(20, {0: LOADS}, CONTEXT)
    s.say(_trt(s, "Total time of constructing network from module object 20.11 seconds"))
    s.say(_trt(s, "Build TensorRT engine Unnamed Network 0"))
    for k in range(5):
        s.stretch(70, {0: CORE.but(cpu=100)}, Card(util=30 if k % 2 else 3, mem_util=4, power=0.25, busy=True))
        s.stretch(40, {0: CORE.but(cpu=100)}, IDLE.but(mem=20_000), "engine_build")
    s.say(
        _trt(s, "Total time of building Unnamed Network 0: 00:09:10"), _trt(s, "Serializing engine to /e/rank0.engine")
    )
    s.stretch(30, {0: Act(cpu=60, state="R", wchan="0")}, IDLE)
    s.say(_trt(s, "Engine serialized. Total time: 00:00:30"), _trt(s, "Total time of building all engines: 00:09:41"))
    at = s.t
    s.stretch(4, {0: Act(cpu=60, state="R", wchan="0")}, IDLE)
    s.stretch(70, {}, EMPTY)
    s.truth |= {"outcome": "ended"}
    s.windows += [
        (20, at - 1, ["progressing", "slow", "waiting"], ["suspect", "hung", "crashed", "ended"]),
        (at + 30, s.t - 1, ["ended"], ["suspect", "hung", "crashed"]),
    ]
    return s


@story
def h_third_ranks_end_apart() -> Story:
    """A training run has done its steps: three of four ranks end, the last one eight seconds after them."""
    s = Story("h-third-ranks-end-apart", "torchrun", 4, step=3)
    trainer(s)
    for n in range(1, 31):
        s.say(f"\r{100 * n // 30:3d}%|##        | {n}/30 [00:{n:02d}<01:11,  6.10s/it]")
        s.stretch(6, {"agent": POLLS, **_ranks(s, CORE)}, WORK)
    at = s.t
    s.stretch(5, {"agent": POLLS, **_ranks(s, CORE)}, IDLE)
    s.stretch(8, {"agent": POLLS, 0: CORE}, _cards(s, EMPTY, {0: IDLE}))
    s.stretch(70, {}, EMPTY)
    s.truth |= {"outcome": "ended"}
    s.windows += [
        (20, at - 1, ["progressing", "slow", "waiting"], ["suspect", "hung", "crashed", "ended"]),
        (at, s.t - 1, ["progressing", "slow", "waiting", "ended"], ["suspect", "hung", "crashed"]),
        (at + 50, s.t - 1, ["ended"], ["suspect", "hung", "crashed"]),
    ]
    return s


# ---------------------------------------------------------------------------------------------------------------- hung


@story
def x_third_outside_the_mpi_barrier() -> Story:
    """Autotuning has diverged: three ranks burn a core each in an MPI barrier, rank 1 sleeps, no GPU works."""
    s = Story("x-third-outside-mpi", "tensorrt-llm", 4)
    front = trtllm(s)
    s.say(_trt(s, "[Autotuner] Autotuning process starts ..."))
    s.stretch(20, front | _ranks(s, CORE), Card(util=35, mem_util=6, power=0.3, busy=True))
    s.fault()
    s.stretch(430, front | _ranks(s, CORE.but(cpu=100), {1: ASLEEP}), IDLE, "warmup")
    return s.sick("rank_wait", "collective_mismatch", "thread_deadlock", end_phase="warmup", odd=(1,))


@story
def x_third_uncaught_error() -> Story:
    """Rank 5 ends its script by an error and stays in its exit handlers; seven spin for it."""
    s = Story("x-third-uncaught-error", "torchrun", 8)
    trainer(s)
    trains(s, 1, 20)
    s.fault("crashed")
    s.say("[rank5]: Traceback (most recent call last):", '[rank5]:   File "/app/train.py", line 311, in <module>')
    s.say("[rank5]:     main()", "[rank5]: IndexError: list index out of range")
    s.stretch(200, {"agent": POLLS, **_ranks(s, CORE, {5: ASLEEP})}, _cards(s, SPIN, {5: IDLE}))
    return s.sick("exception", "dead_rank", end_phase="training_step", odd=(5,), certain=30)


@story
def x_third_out_of_memory_in_capture() -> Story:
    """Rank 1 runs out of GPU memory in the capture and is a zombie; the others sleep."""
    s = Story("x-third-oom-in-capture", "sglang", 4)
    sglang_capture(s)
    s.stretch(8, {"driver": ASLEEP, **_ranks(s, CORE)}, WORK)
    s.fault("crashed")
    s.say(f"[{s.stamp()} TP1] Scheduler hit an exception: Traceback (most recent call last):")
    s.say('  File "/sgl/scheduler.py", line 2700, in run', "torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB.")
    s.stretch(150, {"driver": ASLEEP, **_ranks(s, ASLEEP, {1: make.ZOMBIE})}, FULL)
    return s.sick("gpu_oom", "exception", odd=(1,), certain=60)


@story
def x_third_dead_mount_with_blips() -> Story:
    """Eight interpreters are blocked in a dead mount for good; now and then a thread of one burns a little."""
    s = Story("x-third-dead-mount", "sglang", 8)
    s.say(f"[{s.stamp()}] server_args=ServerArgs(model_path='/m/x', tp_size=8, nnodes=1)")
    s.stretch(15, {"driver": IMPORTS}, EMPTY)
    s.stretch(8, {"driver": ASLEEP, **_ranks(s, IMPORTS)}, EMPTY)
    s.fault()
    for k in range(26):
        s.stretch(15, {"driver": ASLEEP, **_ranks(s, make.STUCK_IO)}, EMPTY)
        s.stretch(5, {"driver": ASLEEP, **_ranks(s, make.STUCK_IO, {k % 8: make.STUCK_IO.but(cpu=12.0)})}, EMPTY)
    return s.sick("io_stall", "slow_storage", end_phase="spawn")


@story
def x_third_uneven_spin() -> Story:
    """Training hangs while the readings of the GPUs wander: 82 to 100 %, memory 0 to 2 %, some watts up and down."""
    s = Story("x-third-uneven-spin", "megatron", 8, limit=400)
    megatron(s, steps=15)
    s.fault()
    for k in range(80):
        cards = {
            i: Card(util=82 + (k * 7 + i * 3) % 19, mem_util=(k + i) % 3, power=0.25 + (k * 5 + i) % 7 * 0.003)
            for i in range(8)
        }
        s.stretch(4, {"agent": POLLS, **_ranks(s, CORE)}, cards, "training_step")
    return s.sick("collective_spin", "collective_mismatch", end_phase="training_step", certain=250)


@story
def x_third_fetch_dries_up() -> Story:
    """A download by rank 0 that nothing announces: 60, 30, 8, 2 MB/s, nothing; three ranks poll for its lock."""
    s = Story("x-third-fetch-dries-up", "sglang", 4)
    sglang_dist(s)
    s.stretch(8, {"driver": ASLEEP, **_ranks(s, CORE)}, CONTEXT)
    _tp(s, "Init torch distributed ends. elapsed=9.01 s, mem usage=1.41 GB")
    _tp(s, "Load weight begin. avail mem=77.63 GB")
    waits = ASLEEP.but(wchan="hrtimer_nanosleep")
    for rate in (60.0, 30.0, 8.0, 2.0):
        gets = Act(cpu=4 + rate / 4, wchan="ep_poll", net=rate, cache_rate=rate)
        s.stretch(40, {"driver": ASLEEP, **_ranks(s, waits, {0: gets})}, CONTEXT)
    s.fault()
    still = Act(cpu=0.7, wchan="ep_poll", cache_rate=0.0)
    s.stretch(460, {"driver": ASLEEP, **_ranks(s, waits, {0: still})}, CONTEXT, "weight_download")
    return s.sick("download_stall", end_phase="weight_download")


@story
def x_third_request_on_half_the_ranks() -> Story:
    """Ready; the first request leaves two GPUs spinning and two ranks asleep."""
    s = Story("x-third-request-on-half", "sglang", 4, step=2)
    sglang_capture(s)
    sglang_end(s, serve=100)
    _tp(s, "Prefill batch. #new-seq: 1, #new-token: 812, #cached-token: 0, token usage: 0.00, #running-req: 0", (0,))
    s.stretch(2, {"driver": ASLEEP, **_ranks(s, CORE)}, WORK)
    s.fault()
    half = {1: ASLEEP, 3: ASLEEP}
    s.stretch(300, {"driver": ASLEEP, **_ranks(s, CORE, half)}, _cards(s, SPIN, {1: IDLE, 3: IDLE}), "serving")
    return s.sick("collective_spin", "rank_wait", "collective_mismatch", end_phase="serving", begins=READY, certain=200)


THIRD = sorted(set(STORIES) - _BEFORE)
