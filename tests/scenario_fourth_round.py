"""A fourth round of start-ups, told to break the rules: newer and older wording, instruments that fail, hosts that lag,
attempts that are made again, errors of which nothing but a traceback tells.

``FOURTH`` names them. What was made of them at the first look is kept in :mod:`tests.report` beside today's figures.
"""

from __future__ import annotations

from pathlib import Path

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
    sglang_capture,
    sglang_end,
    sglang_load,
    story,
    vllm_dist,
    vllm_end,
    vllm_load,
)

_BEFORE = frozenset(STORIES)
READY = ("progressing", "slow", "waiting", "ready")
ALARMS = ["suspect", "hung", "crashed", "ended"]
BARRIER = ASLEEP.but(wchan="ep_poll")


class Late(Story):
    """A story that the monitor is started into at ``attach_at``."""

    attach_at = 0.0

    def attach(self) -> None:
        """The monitor is started now."""
        self.attach_at = round(self.t, 1)

    def write(self, folder: Path) -> Path:
        super().write(folder)
        path = folder / "scenario.toml"
        path.write_text(f"attach_at = {self.attach_at}\n" + path.read_text())
        return folder


# ------------------------------------------------------------------------------------------------------------ openings


def sglang_new(s: Story) -> None:
    """SGLang 0.5.23 until its weights are there, in the words of that version."""
    s.say(f"[{s.stamp()}] server_args=ServerArgs(model_path='/m/x', tp_size={s.world}, nnodes={len(s.hosts)})")
    s.stretch(18, {"driver": IMPORTS}, EMPTY)
    s.stretch(22, {"driver": ASLEEP, **_ranks(s, IMPORTS)}, EMPTY)
    _tp(s, "Init parallel begin.")
    s.stretch(8, {"driver": ASLEEP, **_ranks(s, CORE)}, CONTEXT)
    _tp(s, "Init parallel ends. elapsed=8.02 s")
    _tp(s, "Memory baseline taken. mem usage=1.41 GB")
    _tp(s, "Load weight begin. avail mem=77.63 GB")


def multi_thread_shards(s: Story, shards: int = 16, per: float = 2.5) -> None:
    """The bar of SGLang since 0.5.10: redrawn on one line that has no end before the load has."""
    bars: list[str] = []
    for n in range(shards + 1):
        bars.append(
            f"\rMulti-thread loading shards: {100 * n // shards:3d}% Completed | {n}/{shards} [00:{n:02d}<00:10]"
        )
        if n < shards:
            s.stretch(per, {"driver": ASLEEP, **_ranks(s, LOADS)}, FULL)
    s.say("".join(bars))


def trtllm_new(s: Story) -> dict[make.Name, Act]:
    """TensorRT-LLM 1.3 until its model is made; gives the processes that are no ranks."""
    front: dict[make.Name, Act] = {"proxy": POLLS, "orted": ASLEEP}
    s.say("[TensorRT-LLM] TensorRT LLM version: 1.3.0")
    s.stretch(14, {"proxy": IMPORTS}, EMPTY)
    s.say(_trt(s, "llmapi", "Using LLM with PyTorch backend"))
    s.say("\x1b[33mrank 0 using MpiPoolSession to spawn MPI processes\x1b[0m")
    s.stretch(16, front | _ranks(s, IMPORTS), EMPTY)
    s.say(*["[TensorRT-LLM] TensorRT LLM version: 1.3.0"] * s.each)
    s.say(_trt(s, "executor", "[RANK 0] Refreshed the MPI local session"))
    s.stretch(6, front | _ranks(s, CORE), CONTEXT)
    s.say(_trt(s, "_torch  ", "[RANK 0] Use 71.94 GB for model weights."))
    return front


def _trt(s: Story, module: str, text: str) -> str:
    return f"[{s.stamp('%m/%d/%Y-%H:%M:%S')}] [TRT-LLM] [I] [{module}] {text}"


def trainer(s: Story, steps: int = 14, pace: float = 6.0) -> dict[make.Name, Act]:
    """A fine-tuning of Hugging Face's under torchrun, which prints dictionaries without a stamp."""
    front: dict[make.Name, Act] = {"agent": POLLS}
    s.stretch(24, front | _ranks(s, IMPORTS), EMPTY)
    for n in range(5):
        s.say(f"Loading checkpoint shards: {25 * n:3d}%|##        | {n}/4 [00:{n:02d}<00:10,  2.50s/it]")
        s.stretch(4, front | _ranks(s, LOADS), FULL)
    s.say("***** Running training *****", "  Num examples = 51,760", "  Total optimization steps = 4,851")
    s.stretch(10, front | _ranks(s, CORE), WORK)
    trains(s, 1, steps, pace)
    return front


def trains(s: Story, first: int, last: int, pace: float = 6.0) -> None:
    for n in range(first, last):
        s.say(
            f"{{'loss': {2.9 - n / 100:.4f}, 'grad_norm': 1.7{n % 10}, 'learning_rate': 1.9e-05, "
            f"'epoch': {n / 990:.3f}}}"
        )
        s.stretch(pace, {"agent": POLLS, **_ranks(s, CORE)}, WORK)


# ------------------------------------------------------------------------------------------------------------- healthy


@story
def h_fourth_compile_by_one_thread() -> Story:
    """torch.compile with one compile thread for ten minutes: each rank one core, no child, not a line; vLLM 0.33."""
    s = Story("h-fourth-compile-by-one", "vllm", 4)
    stamp = "%m-%d %H:%M:%S"
    s.say(f"(APIServer pid=700) INFO {s.stamp(stamp)} [api_server.py:2214] vLLM API server version 0.33.0")
    s.stretch(16, {"api0": IMPORTS}, EMPTY)
    s.say(f"(EngineCore pid=710) INFO {s.stamp(stamp)} [core.py:131] Initializing a V1 LLM engine (v0.33.0) with "
          "config: model='/m/y', speculative_config=None")  # fmt: skip
    s.stretch(14, {"api0": ASLEEP, "enginecore": ASLEEP, **_ranks(s, IMPORTS)}, EMPTY)
    for rank in range(4):
        s.say(f"(Worker pid={720 + rank}) INFO {s.stamp(stamp)} [parallel_state.py:1508] world_size=4 rank={rank} "
              f"local_rank={rank} distributed_init_method=tcp://127.0.0.1:37554 backend=nccl")  # fmt: skip
    s.stretch(10, _vllm(s, CORE), CONTEXT)
    s.say(_w(s, 0, "[gpu_model_runner.py:4259] Starting to load model /m/y..."))
    for n in range(9):
        s.say(
            f"\rLoading safetensors checkpoint shards: {100 * n // 8:3d}% Completed | {n}/8 [00:{n:02d}<00:10,  3s/it]"
        )
        s.stretch(3, _vllm(s, LOADS), FULL)
    s.say(_w(s, 0, "[default_loader.py:384] Loading weights took 24.12 seconds"))
    s.say(_w(s, 0, "[gpu_model_runner.py:4338] Model loading took 27.1 GiB memory and 28.2 seconds"))
    s.say(_w(s, 0, "[backends.py:818] Using cache directory: /root/.cache/vllm/torch_compile_cache/ab/rank_0_0/backbone"
                   " for vLLM's torch.compile"))  # fmt: skip
    s.stretch(14, _vllm(s, CORE), IDLE)
    s.say(_w(s, 0, "[backends.py:878] Dynamo bytecode transform time: 13.12 s"))
    s.stretch(600, _vllm(s, CORE.but(cpu=100, rss_rate=0.5)), IDLE, "compile")
    vllm_end(s)
    return s.healthy("torch_compile")


@story
def h_fourth_deepgemm_in_process() -> Story:
    """DeepGEMM is warmed up by rank 0 in its own process for four minutes; the words are those of SGLang 0.5.23."""
    s = Story("h-fourth-deepgemm", "sglang", 8)
    sglang_new(s)
    multi_thread_shards(s)
    _tp(s, "Load weight end. elapsed=44.10 s, type=DeepseekV3ForCausalLM, avail mem=20.11 GB")
    s.stretch(5, {"driver": ASLEEP, **_ranks(s, CORE)}, FULL)
    _tp(s, "Memory pool end. avail mem=11.49 GB")
    _tp(s, "Entering DeepGEMM JIT Pre-Compile session. It may take a long time (typically 10-20 mins) if you do not "
           "have precompiled kernels", (0,))  # fmt: skip
    builds = CORE.but(cpu=390.0, rss_rate=2.0)
    s.stretch(240, {"driver": ASLEEP, **_ranks(s, CORE, {0: builds})}, _cards(s, SPIN, {0: IDLE}), "jit_build")
    _tp(s, "Capture target verify CUDA graph begin. bs=[1, 2, 4], avail mem=11.08 GB")
    s.stretch(10, {"driver": ASLEEP, **_ranks(s, CORE)}, WORK, "graph_capture")
    _tp(s, "Capture target verify CUDA graph end. elapsed=10.2 s, mem usage=1.1 GB, avail mem=9.90 GB.")
    s.stretch(8, {"driver": CORE, **_ranks(s, CORE)}, BURST)
    s.ready(f"[{s.stamp()}] The server is fired up and ready to roll!")
    s.stretch(90, {"driver": ASLEEP, **_ranks(s, CORE)}, IDLE)
    return s.healthy("kernel_build")


@story
def h_fourth_second_host_lags() -> Story:
    """Two hosts; the second reads its weights from NFS for five minutes more, and /proc/PID/io cannot be read there: it
    is blocked in storage and maps page by page. The ranks of the first wait in Gloo."""
    s = Story("h-fourth-second-host-lags", "sglang", 8, hosts=2)
    s.no_keys = {"read_mbps", "net_rx_mbps"}
    sglang_load(s)
    first = tuple(s.hosts[0].ranks)
    _tp(s, "Load weight end. elapsed=33.10 s, type=X, dtype=torch.bfloat16, avail mem=20.11 GB", first)
    maps = Act(cpu=6.0, state="D", wchan="folio_wait_bit_common", other="R", rss_rate=9.0)
    s.stretch(300, {"driver": ASLEEP, **_ranks(s, BARRIER, dict.fromkeys(s.hosts[1].ranks, maps))}, IDLE)
    _tp(
        s,
        "Load weight end. elapsed=333.10 s, type=X, dtype=torch.bfloat16, avail mem=20.11 GB",
        tuple(s.hosts[1].ranks),
    )
    _tp(s, "Capture cuda graph begin. This can take up to several minutes. avail mem=11.08 GB")
    sglang_end(s)
    return s.healthy("slow_storage")


@story
def h_fourth_xet_stalls_and_resumes() -> Story:
    """A download in front of everything by hf_xet: it retries by itself after stalls of 70 s, and says so."""
    s = Story("h-fourth-xet-resumes", "vllm", 2)
    vllm_dist(s)
    s.stretch(8, _vllm(s, CORE), CONTEXT)
    s.say(_w(s, 0, "[gpu_model_runner.py:3259] Starting to load model org/model..."))
    waits = Act(wchan="locks_lock_inode_wait")
    gets = Act(cpu=22, wchan="ep_poll", net=80, cache_rate=80.0)
    still = Act(cpu=0.8, wchan="ep_poll", cache_rate=0.0)
    for k in range(4):
        s.stretch(75, _vllm(s, waits, {0: gets}), CONTEXT)
        s.stretch(70, _vllm(s, waits, {0: still}), CONTEXT)
        s.say(f'  {{"timestamp":"{s.stamp("%Y-%m-%dT%H:%M:%S")}.114Z","level":"WARN","fields":{{"message":"Retry '
              f'attempt #{k}. Sleeping 1.2s before the next attempt"}},"filename":"src/retry.rs"}}')  # fmt: skip
    s.stretch(60, _vllm(s, waits, {0: gets}), CONTEXT)
    s.say(_w(s, 0, "[weight_utils.py:441] Time spent downloading weights for org/model: 640.112 seconds"))
    for n in range(6):
        s.say(
            f"(Worker_TP0 pid=720) \rLoading safetensors checkpoint shards: {20 * n:3d}% Completed | {n}/5 [00:0{n}<9"
        )
        s.stretch(3, _vllm(s, LOADS), FULL)
    s.say(_w(s, 0, "[gpu_model_runner.py:3338] Model loading took 27.1 GiB and 34.2 seconds"))
    vllm_end(s)
    return s.healthy("slow_download")


@story
def h_fourth_attempt_after_oom() -> Story:
    """torchrun starts its ranks again after a lack of GPU memory; the second attempt trains."""
    s = Story("h-fourth-attempt", "torchrun", 4)
    s.say(f"W{s.stamp('%m%d %H:%M:%S')}.794000 7301 torch/distributed/run.py:803] ****************************")
    s.stretch(25, {"agent": POLLS, **_ranks(s, IMPORTS)}, EMPTY)
    s.say("[trainer] micro batch 16")
    s.stretch(25, {"agent": POLLS, **_ranks(s, LOADS)}, FULL)
    s.say("[rank2]: Traceback (most recent call last):", '[rank2]:   File "/app/train.py", line 88, in <module>')
    s.say("[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB. GPU 2 has a total capacity "
          "of 79.10 GiB of which 3.11 GiB is free.")  # fmt: skip
    first = s.t
    s.stretch(5, {"agent": POLLS, **_ranks(s, CORE)}, IDLE)
    s.say(f"E{s.stamp('%m%d %H:%M:%S')}.101000 7301 torch/distributed/elastic/multiprocessing/api.py:882] failed "
          "(exitcode: 1) local_rank: 2 (pid: 7316) of binary: /opt/venv/bin/python")  # fmt: skip
    s.say(f"I{s.stamp('%m%d %H:%M:%S')}.102000 7301 torch/distributed/elastic/agent/server/api.py:899] [default] "
          "Worker group FAILED. 3/3 attempts left; will restart worker group")  # fmt: skip
    s.stretch(8, {"agent": POLLS}, EMPTY)
    again = s.t
    s.stretch(25, {"agent": POLLS, **_ranks(s, IMPORTS)}, EMPTY)
    s.say("[trainer] micro batch 8")
    s.stretch(30, {"agent": POLLS, **_ranks(s, LOADS)}, FULL)
    for n in range(1, 40):
        s.say(f"step {n} | loss {3 - n / 50:.3f} | {n * 512} tokens")
        s.stretch(5, {"agent": POLLS, **_ranks(s, CORE)}, WORK)
    s.truth |= {"outcome": "ready", "phase_at_end": "training_step"}
    calm = ["progressing", "slow", "waiting"]
    s.windows += [
        (20, first - 1, calm, ALARMS),
        (first, again + 25, [*calm, "crashed", "suspect", "unknown"], ["ended"]),
        (again + 25, s.t - 1, calm, ALARMS),
    ]
    return s


@story
def h_fourth_long_prefill() -> Story:
    """Ready; the first request is a long one: vLLM says 0.0 tokens/s for five minutes while every GPU works."""
    s = Story("h-fourth-long-prefill", "vllm", 4)
    vllm_load(s)
    s.say(_w(s, 0, "[gpu_model_runner.py:3338] Model loading took 27.1 GiB and 34.2 seconds"))
    vllm_end(s, serve=60)
    for _ in range(10):
        s.stretch(30, _vllm(s, CORE), Card(util=97, mem_util=35, power=0.8, links=400, busy=True))
        s.say(f"(APIServer pid=700) INFO {s.stamp('%m-%d %H:%M:%S')} [loggers.py:127] Engine 000: Avg prompt "
              "throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, "
              "GPU KV cache usage: 41.0%, Prefix cache hit rate: 0.0%")  # fmt: skip
    s.say('(APIServer pid=700) INFO:     10.0.0.9:52718 - "POST /v1/chat/completions HTTP/1.1" 200 OK')
    s.stretch(60, _vllm(s, CORE), IDLE)
    s.truth |= {"outcome": "ready", "phase_at_end": "serving"}
    at = s.truth["ready_at"]
    s.windows += [(20, at - 1, ["progressing", "slow", "waiting"], ALARMS), (at + 12, s.t - 1, list(READY), ALARMS)]
    return s


@story
def h_fourth_metrics_on_the_cpu() -> Story:
    """An evaluation that nothing announces: every rank computes its metrics on one core for three and a half minutes,
    GPUs idle, no byte."""
    s = Story("h-fourth-metrics", "torchrun", 4, step=6)
    front = trainer(s)
    s.stretch(210, front | _ranks(s, CORE.but(cpu=100)), IDLE)
    s.say("{'eval_loss': 1.9312, 'eval_rouge1': 0.412, 'eval_runtime': 208.4, 'epoch': 0.02}")
    trains(s, 14, 26)
    return s.healthy(end_phase="training_step", ready=False)


@story
def h_fourth_llamacpp_experts_on_cpu() -> Story:
    """llama.cpp maps 400 GB of experts: five minutes of dots on a line without an end, then four of warm-up on 32
    cores."""
    s = Story("h-fourth-llamacpp", "llama.cpp", 1, limit=350)
    s.say("ggml_cuda_init: found 1 CUDA devices:", "build: 9821 (050ee92) with cc for x86_64-linux-gnu")
    s.stretch(4, {0: IMPORTS}, CONTEXT)
    s.say(
        "llama_model_loader: loaded meta data with 52 key-value pairs and 96 tensors from /m/k2.gguf (version GGUF V3)"
    )
    s.say("load_tensors: loading model tensors, this can take a while... (mmap = true)")
    s.stretch(300, {0: make.STORAGE.but(cpu=11, read=900.0, rss_rate=900.0)}, FULL, "weight_load")
    s.say("." * 99, "llama_context: constructing llama_context")
    s.stretch(10, {0: CORE}, FULL)
    s.say("common_init_from_params: warming up the model with an empty run - please wait ... (--no-warmup to disable)")
    s.stretch(240, {0: Act(cpu=3150, state="R", wchan="0")}, Card(util=4, power=0.2), "warmup")
    s.say("srv    load_model: initializing slots, n_slots = 4")
    s.ready("main: server is listening on http://0.0.0.0:8091 - starting the main loop")
    s.stretch(90, {0: ASLEEP}, IDLE)
    return s.healthy()


@story
def h_fourth_attached_without_stamps() -> Story:
    """The monitor comes four minutes into a silent load of an unknown script; NVML is broken, no line has a stamp."""
    s = Late("h-fourth-attached", "", 4)
    s.nvml = False
    s.say("loading config from conf/base.yaml", "seed 17")
    s.stretch(25, _ranks(s, IMPORTS), EMPTY)
    s.say("reading checkpoint /share/ckpt/last.pt")
    s.stretch(240, _ranks(s, make.STORAGE.but(read=9.0, rss_rate=9.0)), EMPTY)
    s.attach()
    s.stretch(260, _ranks(s, make.STORAGE.but(read=9.0, rss_rate=9.0)), EMPTY)
    for n in range(1, 20):
        s.say(f"iter {n}: loss {4 - n / 50:.3f}, time 5011.22ms, mfu 31.10%")
        s.stretch(5, _ranks(s, CORE), WORK)
    s.truth |= {"outcome": "ready_slow", "phase_at_end": "training_step", "causes": ["slow_storage"]}
    s.windows.append((s.attach_at + 20, s.t - 1, ["progressing", "slow", "waiting"], ALARMS))
    return s


@story
def h_fourth_save_of_all_ranks() -> Story:
    """Every rank writes its part of a checkpoint to slow storage for four minutes; JSON lines in nobody's words."""
    s = Story("h-fourth-save-all", "torchrun", 8, step=6)
    front: dict[make.Name, Act] = {"agent": POLLS}

    def log(text: str) -> None:
        s.say(f'{{"ts": "{s.stamp("%Y-%m-%dT%H:%M:%S")}.204Z", "level": "info", "logger": "train", "msg": "{text}"}}')

    log("building model")
    s.stretch(30, front | _ranks(s, IMPORTS), EMPTY)
    s.stretch(30, front | _ranks(s, LOADS), FULL)
    for n in range(1, 15):
        log(f"step: {n}  loss: {9 - n / 9:.4f}  memory: 61.20GiB(77.3%)  tps: 3,812  mfu: 41.2%")
        s.stretch(7, front | _ranks(s, CORE), WORK)
    log("Saving the checkpoint (or staging if async is enabled).")
    writes = Act(cpu=2.4, state="D", wchan="balance_dirty_pages", other="S")
    s.stretch(240, front | _ranks(s, writes), IDLE, "checkpoint_save")
    log("Finished saving the checkpoint (or staging if async is enabled)in 240.31 seconds.")
    for n in range(15, 28):
        log(f"step: {n}  loss: {9 - n / 9:.4f}  memory: 61.20GiB(77.3%)  tps: 3,812  mfu: 41.2%")
        s.stretch(7, front | _ranks(s, CORE), WORK)
    return s.healthy(end_phase="training_step", ready=False)


@story
def h_fourth_streamed_from_a_bucket() -> Story:
    """The Run:ai streamer fetches from an object store: bytes come over the network alone, its bar in other words."""
    s = Story("h-fourth-streamed", "vllm", 4)
    vllm_dist(s)
    s.stretch(8, _vllm(s, CORE), CONTEXT)
    s.say(_w(s, 0, "[gpu_model_runner.py:3259] Starting to load model s3://bucket/y..."))
    streams = Act(cpu=60, wchan="ep_poll", net=180.0, rss_rate=2.0)
    for n in range(5):
        s.say(f"(Worker_TP0 pid=720) \rLoading safetensors using Runai Model Streamer: {25 * n:3d}% Completed | "
              f"{177 * n}/708 [0{n}:00<04:00,  2.95it/s]")  # fmt: skip
        s.stretch(70 if n < 4 else 3, _vllm(s, streams), FULL, "weight_load" if n < 4 else "")
    s.say("[RunAI Streamer] Overall time to stream 131.4 GiB of all files to cpu: 281.2s, 478.5 MiB/s")
    s.say(_w(s, 0, "[gpu_model_runner.py:3338] Model loading took 27.1 GiB and 284.2 seconds"))
    vllm_end(s)
    return s.healthy("slow_download", "slow_storage")


@story
def h_fourth_ready_long_ago() -> Story:
    """A server that was ready days ago; the head of its log was rotated away, requests come now and then."""
    s = Late("h-fourth-ready-long-ago", "sglang", 4)
    for n in range(40):
        _tp(s, f"Decode batch. #running-req: 2, #token: {1900 + 80 * n}, token usage: 0.02, cuda graph: True, gen "
               f"throughput (token/s): 8{n % 10}.12, #queue-req: 0", (0,))  # fmt: skip
        s.stretch(3, {"driver": ASLEEP, **_ranks(s, CORE)}, WORK.but(mem=70_000))
    s.say(f'[{s.stamp()}] INFO:     10.0.0.9:52718 - "POST /generate HTTP/1.1" 200 OK')
    s.stretch(200, {"driver": ASLEEP, **_ranks(s, CORE)}, IDLE)
    s.attach()
    s.stretch(400, {"driver": ASLEEP, **_ranks(s, CORE)}, IDLE)
    s.truth |= {"outcome": "ready", "phase_at_end": "serving"}
    s.windows.append((s.attach_at + 30, s.t - 1, ["ready"], ALARMS))
    return s


@story
def h_fourth_power_is_all_that_is_told() -> Story:
    """GPUs that tell power and memory and no load: a step takes 70 s, then a save of two minutes by rank 0."""
    s = Story("h-fourth-power-only", "torchrun", 4, limit=400)
    s.no_keys = {"util", "mem_util", "nvlink_mbps"}
    front = trainer(s, steps=10, pace=70)
    writes = Act(cpu=30.0, state="D", wchan="balance_dirty_pages", other="R")
    s.say("Saving model checkpoint to /ckpt/checkpoint-10")
    s.stretch(120, front | _ranks(s, CORE, {0: writes}), _cards(s, SPIN, {0: IDLE}), "checkpoint_save")
    trains(s, 10, 14, 70)
    return s.healthy(end_phase="training_step", ready=False)


@story
def h_fourth_images_are_profiled() -> Story:
    """vLLM profiles a multimodal encoder: the processor works on one core for three minutes, then the GPUs do."""
    s = Story("h-fourth-images", "vllm", 4)
    vllm_load(s)
    s.say(_w(s, 0, "[gpu_model_runner.py:3338] Model loading took 27.1 GiB and 34.2 seconds"))
    s.say(_w(s, 0, "[gpu_model_runner.py:4088] Encoder cache will be initialized with a budget of 16384 tokens, and "
                   "profiled with 1 image items of the maximum feature size."))  # fmt: skip
    s.stretch(190, _vllm(s, CORE.but(cpu=100)), IDLE, "profile")
    s.stretch(20, _vllm(s, CORE), WORK, "profile")
    vllm_end(s)
    return s.healthy()


@story
def h_fourth_bars_of_another_hub() -> Story:
    """A download from ModelScope by the process that starts the ranks: eight files, their bars, pauses of 40 s."""
    s = Story("h-fourth-other-hub", "sglang", 4)
    s.say(f"[{s.stamp()}] server_args=ServerArgs(model_path='org/x', tp_size=4, nnodes=1)")
    s.stretch(18, {"driver": IMPORTS}, EMPTY)
    for n in range(9):
        bar = f"Downloading [model-0000{n // 5 + 1}-of-00002.safetensors]: {20 * (n % 5):3d}%|##| {n % 5}.00G/4.97G"
        s.say(f"{bar} [00:{10 + n}<01:15, 24.1MB/s]")
        s.stretch(40, {"driver": Act(cpu=9, wchan="ep_poll", net=25.0)}, EMPTY, "weight_download")
        s.stretch(15, {"driver": Act(cpu=0.7, wchan="ep_poll")}, EMPTY)
    s.stretch(20, {"driver": ASLEEP, **_ranks(s, IMPORTS)}, EMPTY)
    _tp(s, "Init torch distributed begin.")
    s.stretch(9, {"driver": ASLEEP, **_ranks(s, CORE)}, CONTEXT)
    _tp(s, "Load weight begin. avail mem=77.63 GB")
    s.stretch(30, {"driver": ASLEEP, **_ranks(s, LOADS)}, FULL)
    _tp(s, "Load weight end. elapsed=30.10 s, type=X, avail mem=20.11 GB")
    _tp(s, "Capture cuda graph begin. This can take up to several minutes. avail mem=11.08 GB")
    sglang_end(s)
    return s.healthy("slow_download")


@story
def h_fourth_resumes_from_lustre() -> Story:
    """Megatron goes on from a distributed checkpoint: eight minutes of reads from Lustre in D state, every other rank
    waiting; two hosts, of which only one has a log."""
    s = Story("h-fourth-resumes", "megatron", 16, hosts=2, step=6)
    s.hosts[1].missed.add("log")
    front: dict[make.Name, Act] = {"agent": POLLS}
    s.say("using world size: 16, data-parallel size: 2, context-parallel size: 1")
    s.stretch(22, front | _ranks(s, IMPORTS), EMPTY)
    s.say("> initializing torch distributed ...")
    s.stretch(8, front | _ranks(s, CORE), CONTEXT)
    s.say("time to initialize megatron (seconds): 30.500", "building GPT model ...")
    s.stretch(12, front | _ranks(s, CORE), BURST.but(mem=61_000))
    s.say(" loading distributed checkpoint from /lustre/ckpt at iteration 500")
    reads = dict.fromkeys(range(0, 16, 2), make.STORAGE.but(wchan="ll_file_read_iter", read=15.0, rss_rate=10))
    s.stretch(480, front | _ranks(s, BARRIER, reads), IDLE, "weight_load")
    s.say(" successfully loaded checkpoint from /lustre/ckpt [ t 1/4, p 1/2 ] at iteration 500")
    s.say("training ...")
    s.stretch(20, front | _ranks(s, CORE), WORK)
    for n in range(501, 512):
        s.say(f" [{s.stamp()}.175481] iteration {n:8d}/   24000 | consumed samples: {n * 128:12d} | elapsed time per "
              "iteration (ms): 7012.3 | learning rate: 1.0E-04 | lm loss: 2.1E+00")  # fmt: skip
        s.stretch(7, front | _ranks(s, CORE), WORK)
    return s.healthy("slow_storage", end_phase="training_step", ready=False)


# ---------------------------------------------------------------------------------------------------------------- hung


@story
def x_fourth_watchdog_kills() -> Story:
    """The first request spins; after six minutes SGLang's watchdog prints stacks and ends the server."""
    s = Story("x-fourth-watchdog", "sglang", 4)
    sglang_capture(s)
    sglang_end(s, serve=60)
    _tp(s, "Prefill batch. #new-seq: 1, #new-token: 812, #cached-token: 0, token usage: 0.00, #running-req: 0", (0,))
    s.stretch(2, {"driver": ASLEEP, **_ranks(s, CORE)}, WORK)
    s.fault()
    s.stretch(360, {"driver": ASLEEP, **_ranks(s, CORE)}, SPIN, "serving")
    _tp(s, "Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)")
    s.say(
        "Process 4711: sglang::scheduler_TP0",
        "Python v3.12.3 (/usr/bin/python3.12)",
        'Thread 4711 (active): "MainThread"',
    )
    s.stretch(5, {"driver": ASLEEP, **_ranks(s, CORE)}, SPIN)
    s.say(f"[{s.stamp()}] SIGQUIT received. signum=None, frame=None. It usually means one child failed.")
    s.stretch(60, {}, EMPTY)
    return s.sick("collective_timeout", "collective_spin", "exception", begins=READY, certain=250)


@story
def x_fourth_checkpoint_never_saved() -> Story:
    """A distributed checkpoint: rank 3 never comes back from Lustre, its siblings sleep in Gloo; two hosts."""
    s = Story("x-fourth-save-hangs", "megatron", 8, hosts=2, step=6)
    s.wobble = 9.0
    front: dict[make.Name, Act] = {"agent": POLLS}
    s.say("using world size: 8, data-parallel size: 2, context-parallel size: 1")
    s.stretch(22, front | _ranks(s, IMPORTS), EMPTY)
    s.say("> initializing torch distributed ...")
    s.stretch(8, front | _ranks(s, CORE), CONTEXT)
    s.say("time to initialize megatron (seconds): 30.500", "training ...")
    s.stretch(20, front | _ranks(s, CORE), WORK.but(mem=70_000))
    for n in range(490, 501):
        s.say(f" [{s.stamp()}.175481] iteration {n:8d}/   24000 | consumed samples: {n * 128:12d} | elapsed time per "
              "iteration (ms): 7012.3 | learning rate: 1.0E-04 | lm loss: 2.1E+00")  # fmt: skip
        s.stretch(7, front | _ranks(s, CORE), WORK)
    s.say("saving checkpoint at iteration     500 to /lustre/ckpt in torch_dist format")
    s.stretch(20, front | _ranks(s, Act(cpu=30, state="D", wchan="balance_dirty_pages", other="R")), IDLE)
    s.fault()
    stuck = Act(cpu=0.0, state="D", wchan="cl_sync_io_wait")
    s.stretch(900, front | _ranks(s, BARRIER, {3: stuck}), IDLE, "checkpoint_save")
    return s.sick("io_stall", "rank_wait", end_phase="checkpoint_save", odd=(3,))


@story
def x_fourth_traceback_and_nothing_else() -> Story:
    """The data loader of rank 2 is killed: it prints a traceback and sleeps in its exit handlers, the others spin."""
    s = Story("x-fourth-traceback", "torchrun", 4, step=3)
    front = trainer(s)
    s.say(
        "[rank2]: Traceback (most recent call last):",
        '[rank2]:   File "/opt/v/site-packages/torch/utils/data/dataloader.py", line 1275, in _try_get_data',
        "[rank2]: RuntimeError: DataLoader worker (pid 8120) is killed by signal: Killed. ",
    )
    s.fault("crashed")
    s.stretch(400, front | _ranks(s, CORE, {2: ASLEEP}), _cards(s, SPIN, {2: IDLE}))
    return s.sick("exception", "oom_kill", end_phase="training_step", odd=(2,), certain=60)


@story
def x_fourth_behind_on_one_host() -> Story:
    """Two hosts of vLLM's own launcher; the second's file server dies: its ranks stand at shard 12, the first host's
    wait for them."""
    s = Story("x-fourth-host-behind", "sglang", 8, hosts=2, step=8)
    sglang_new(s)
    s.stretch(30, {"driver": ASLEEP, **_ranks(s, LOADS)}, FULL)
    _tp(s, "Load weight end. elapsed=30.10 s, type=X, avail mem=20.11 GB", tuple(s.hosts[0].ranks))
    s.fault()
    dead = make.STUCK_IO.but(wchan="nfs_wait_client_init_complete")
    s.stretch(560, {"driver": ASLEEP, **_ranks(s, BARRIER, dict.fromkeys(s.hosts[1].ranks, dead))}, IDLE)
    return s.sick("io_stall", odd=(4, 5, 6, 7))


@story
def x_fourth_blind_and_asleep() -> Story:
    """NVML never answers and /proc/PID/io cannot be read: after the load every rank of vLLM sleeps for ever."""
    s = Story("x-fourth-blind", "vllm", 4)
    s.nvml, s.no_keys = False, {"read_mbps", "net_rx_mbps"}
    vllm_load(s)
    s.say(_w(s, 0, "[default_loader.py:314] Loading weights took 30.12 seconds"))
    s.fault()
    s.stretch(800, _vllm(s, ASLEEP), IDLE)
    return s.sick("rank_wait", "thread_deadlock", certain=None)


@story
def x_fourth_attached_after_the_fault() -> Story:
    """The monitor comes eight minutes after training stopped: no stamps, all GPUs spin, their busy level unknown."""
    s = Late("x-fourth-attached", "torchrun", 8, limit=400)
    front = trainer(s)
    s.fault()
    spin = Card(util=100, power=0.31)
    s.stretch(480, front | _ranks(s, CORE), spin)
    s.attach()
    s.stretch(420, front | _ranks(s, CORE), spin, "training_step")
    s.truth |= {"causes": ["collective_spin", "collective_mismatch"], "phase_at_end": "training_step"}
    bad = ["progressing", "slow", "ready", "ended"]
    s.windows += [
        (s.attach_at + 200, s.t - 1, ["suspect", "hung"], bad),
        (s.attach_at + 300, s.t - 1, ["hung"], bad),
    ]
    return s


@story
def x_fourth_prefetch_dries_up() -> Story:
    """TensorRT-LLM 1.3 prefetches from NFS with every thread it has: nothing comes any more, all ranks in state D."""
    s = Story("x-fourth-prefetch", "tensorrt-llm", 8)
    front = trtllm_new(s)
    s.say(_trt(s, "_torch  ", "[RANK 0] Prefetching 551.20GB checkpoint files."))
    s.say(*[_trt(s, "_torch  ", f"[RANK 0] Prefetching /m/k/model-{k:05d}.safetensors to memory...") for k in range(9)])
    s.stretch(40, front | _ranks(s, LOADS), FULL, "weight_load")
    s.fault()
    s.stretch(600, front | _ranks(s, make.STUCK_IO.but(wchan="rpc_wait_bit_killable")), IDLE, "weight_load")
    return s.sick("io_stall", end_phase="weight_load")


@story
def x_fourth_llamacpp_between_cards() -> Story:
    """llama.cpp over two cards without peer access: the warm-up spins for ever in one process at one core."""
    s = Story("x-fourth-llamacpp", "llama.cpp", 1, limit=350, gpus_per_host=2)
    s.say("ggml_cuda_init: found 2 CUDA devices:")
    s.stretch(4, {0: IMPORTS}, CONTEXT)
    s.say("load_tensors: loading model tensors, this can take a while... (mmap = true)")
    s.stretch(40, {0: LOADS}, FULL)
    s.say("." * 99, "llama_context: constructing llama_context")
    s.stretch(6, {0: CORE}, FULL)
    s.say("common_init_from_params: warming up the model with an empty run - please wait ... (--no-warmup to disable)")
    s.fault()
    s.stretch(600, {0: CORE.but(cpu=100)}, SPIN, "warmup")
    return s.sick("collective_spin", "p2p_iommu", "thread_deadlock", end_phase="warmup")


@story
def x_fourth_actors_never_scheduled() -> Story:
    """The resources that Ray's actors ask for are held by others; the raylet says so, nothing else ever comes."""
    s = Story("x-fourth-actors", "ray", 8, step=10)
    s.say(f"{s.stamp()},101\tINFO worker.py:1942 -- Started a local Ray instance. View the dashboard at 127.0.0.1:8265")
    s.stretch(15, {"driver": IMPORTS, "raylet": ASLEEP}, EMPTY)
    s.say("creating 8 rollout workers")
    s.fault()
    for _ in range(15):
        s.stretch(60, {"driver": ASLEEP, "raylet": ASLEEP}, EMPTY)
        s.say("(raylet) Warning: The following resource request cannot be scheduled right now: {'CPU': 1.0, 'GPU': 1.0}"
              ". This is likely due to all cluster resources being claimed by actors. Consider creating fewer actors "
              "or adding more nodes to this Ray cluster.")  # fmt: skip
    s.truth |= {"causes": ["resources_missing", "waiting_resources"], "phase_at_end": "wait_resources"}
    told = s.truth["fault_at"] + 75.0
    s.windows.append(
        (told, s.t - 1, ["waiting", "suspect", "hung"], ["progressing", "slow", "ready", "ended", "crashed"])
    )
    return s


@story
def x_fourth_engine_gives_up() -> Story:
    """vLLM's front gives up after ten minutes of a healthy, slow load; only the log is there."""
    s = Story("x-fourth-engine-gives-up", "vllm", 4, signals=False)
    vllm_dist(s)
    s.say(_w(s, 0, "[gpu_model_runner.py:3259] Starting to load model /m/y..."))
    for n in range(20):
        s.say(
            f"(Worker_TP0 pid=720) \rLoading safetensors checkpoint shards: {n:3d}% Completed | {n}/100 [0{n}:00<90:10"
        )
        s.stretch(30, _vllm(s, LOADS), FULL)
    s.fault("crashed")
    s.say(
        "(APIServer pid=700) Traceback (most recent call last):",
        '(APIServer pid=700)   File "/usr/lib/python3/vllm/v1/engine/utils.py", line 951, in wait_for_engine_startup',
        "(APIServer pid=700) TimeoutError: Timed out waiting for engines to send initial message on input socket.",
    )
    s.stretch(200, _vllm(s, LOADS), FULL)
    return s.sick("api_timeout", "exception", end_phase="weight_load", certain=60)


@story
def x_fourth_asleep_in_mpi() -> Story:
    """TensorRT-LLM: MPI is being set up, every rank sleeps in a bootstrap socket that nobody answers."""
    s = Story("x-fourth-mpi", "tensorrt-llm", 4)
    front: dict[make.Name, Act] = {"proxy": POLLS, "orted": ASLEEP}
    s.say("[TensorRT-LLM] TensorRT LLM version: 1.2.0")
    s.stretch(12, {"proxy": IMPORTS}, EMPTY)
    s.say(f"[{s.stamp('%m/%d/%Y-%H:%M:%S')}] [TRT-LLM] [I] Using LLM with PyTorch backend")
    s.say("rank 0 using MpiPoolSession to spawn MPI processes")
    s.stretch(16, front | _ranks(s, IMPORTS), EMPTY)
    s.say(*["[TensorRT-LLM][INFO] Initializing MPI with thread mode 3"] * 4)
    s.fault()
    s.stretch(700, front | _ranks(s, ASLEEP.but(wchan="do_poll.constprop.0")), EMPTY)
    return s.sick("comm_init", "rank_wait", end_phase="dist_init", certain=600)


@story
def x_fourth_all_killed_at_once() -> Story:
    """A training job of 24000 steps is killed for memory as a whole at step 12: no process is left, and no line."""
    s = Story("x-fourth-all-killed", "torchrun", 8)
    trainer(s)
    s.fault("crashed")
    for _ in range(48):
        s.fact({"cgroup_oom_kill": 9})
        s.stretch(5, {}, EMPTY)
    return s.sick("oom_kill", "dead_rank", certain=60)


@story
def x_fourth_killed_says_the_shell() -> Story:
    """Only the log is there; the shell's own line is its last."""
    s = Story("x-fourth-shell", "vllm", 4, signals=False)
    vllm_load(s)
    s.fault("crashed")
    s.say("/opt/run.sh: line 12:  4711 Killed                  vllm serve /m/y --tensor-parallel-size 4")
    s.stretch(300, {}, EMPTY)
    return s.sick("oom_kill", "dead_rank", "exception", certain=60)


@story
def x_fourth_error_in_nobodys_words() -> Story:
    """Only the log is there: a traceback of an error that no framework names ends it."""
    s = Story("x-fourth-nobodys", "sglang", 4, signals=False)
    sglang_new(s)
    s.fault("crashed")
    s.say(
        "Traceback (most recent call last):",
        '  File "<frozen runpy>", line 198, in _run_module_as_main',
        '  File "/opt/venv/lib/python3.12/site-packages/sglang/launch_server.py", line 32, in <module>',
        "    run_server(server_args)",
        "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer",
    )
    s.stretch(300, {}, EMPTY)
    return s.sick("exception", certain=60)


@story
def x_fourth_remote_engines_never_come() -> Story:
    """vLLM over two hosts with data parallelism: the engines of the second never call, the front counts them on a
    clock."""
    s = Story("x-fourth-remote-engines", "vllm", 4, world=8, step=5)
    s.say(f"(APIServer pid=700) INFO {s.stamp('%m-%d %H:%M:%S')} [api_server.py:1977] vLLM API server version 0.11.2")
    s.stretch(15, {"api0": IMPORTS}, EMPTY)
    s.stretch(20, {"api0": ASLEEP, **_ranks(s, IMPORTS)}, EMPTY)
    s.fault()
    for _ in range(90):
        s.stretch(10, {"api0": ASLEEP.but(wchan="ep_poll"), **_ranks(s, make.STORE)}, CONTEXT)
        s.say(f"(APIServer pid=700) DEBUG {s.stamp('%m-%d %H:%M:%S')} [utils.py:776] Waiting for 0 local, 4 remote "
              "core engine proc(s) to connect.")  # fmt: skip
    s.truth |= {"causes": ["rank_missing", "comm_init", "rank_wait"]}
    s.windows.append(
        (120, s.t - 1, ["waiting", "suspect", "hung"], ["progressing", "slow", "ready", "ended", "crashed"])
    )
    return s


@story
def x_fourth_power_tells_a_spin() -> Story:
    """GPUs that tell power and memory and no load: steps stop, power falls to a third and stays flat to the watt."""
    s = Story("x-fourth-power-spin", "torchrun", 8, limit=400)
    s.no_keys = {"util", "mem_util", "nvlink_mbps"}
    front = trainer(s)
    s.fault()
    s.stretch(900, front | _ranks(s, CORE), SPIN, "training_step")
    return s.sick("collective_spin", "collective_mismatch", "rank_wait", end_phase="training_step", certain=None)


@story
def x_fourth_one_engine_of_four() -> Story:
    """Four pairs of ranks with data parallelism: in the capture the second pair's ranks sleep in a lock for good, six
    GPUs spin for them."""
    s = Story("x-fourth-one-pair", "sglang", 8)
    sglang_load(s)
    s.stretch(4, {"driver": ASLEEP, **_ranks(s, CORE)}, FULL)
    _tp(s, "Load weight end. elapsed=33.10 s, type=X, dtype=torch.bfloat16, avail mem=20.11 GB")
    _tp(s, "Capture target decode CUDA graph begin. bs=[1, 2, 4], avail mem=11.08 GB")
    s.stretch(6, {"driver": ASLEEP, **_ranks(s, CORE)}, WORK)
    s.fault()
    pair: dict[int, Act] = {2: ASLEEP, 3: ASLEEP}
    s.stretch(560, {"driver": ASLEEP, **_ranks(s, CORE, pair)}, _cards(s, SPIN, {2: IDLE, 3: IDLE}), "graph_capture")
    return s.sick("graph_capture_deadlock", "collective_spin", "rank_wait", end_phase="graph_capture", odd=(2, 3))


@story
def x_fourth_spins_unseen() -> Story:
    """NVML never answers: all ranks of a training job burn a core each for ever, no line after step 14."""
    s = Story("x-fourth-spins-unseen", "torchrun", 4)
    s.nvml = False
    front = trainer(s)
    s.fault()
    s.stretch(1300, front | _ranks(s, CORE), IDLE, "training_step")
    return s.sick("collective_spin", "rank_wait", "collective_mismatch", end_phase="training_step", certain=None)


FOURTH = sorted(set(STORIES) - _BEFORE)

BLIND = ("x-fourth-power-tells-a-spin", "x-fourth-spins-unseen")
"""Those in which nothing tells whether a GPU works: they may be judged later than others, and no more than suspect."""
