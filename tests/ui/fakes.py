"""Snapshots made by hand, as real launches would show them: eight H200, SGLang, a silent hang and its relatives.

``snapshot(state, t)`` is the state at ``t`` seconds on the monitor's timeline; nothing depends on the real clock.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tui.model import (
    ChildGroup,
    Course,
    Deadline,
    Dump,
    Evidence,
    Explanation,
    Frame,
    Gpu,
    HostState,
    HostView,
    Launch,
    LaunchView,
    LogLine,
    LogRef,
    LogView,
    Member,
    MergedStacks,
    Odd,
    PhaseSpan,
    Prediction,
    ProcessStacks,
    ProcView,
    Progress,
    RankPhase,
    Sample,
    Snapshot,
    StackGroup,
    Step,
    ThreadStack,
    Trend,
    Verdict,
)

WALL = 1_790_000_000.0
"""The wall clock at ``t`` = 0."""

START = 400.0
"""A good moment to look: the hang below is about four minutes old."""

AHEAD = ("draft_load", "kv_alloc", "graph_capture", "warmup", "serving")
STATES = (
    "hung",
    "slow",
    "ready",
    "progressing",
    "multi",
    "fleet",
    "lost",
    "stale",
    "empty",
    "connecting",
    "nogpu",
    "nohost",
    "dump",
    "hostile",
)


def gpu(index: int, host: str, util: float | None, power: float, used: float = 76_012, **more: object) -> Gpu:
    values: dict[str, object] = {
        "index": index,
        "uuid": f"GPU-{host}-{index}",
        "name": "NVIDIA H200",
        "util_pct": util,
        "mem_util_pct": 0 if not util else util / 3,
        "mem_used_mib": used,
        "mem_total_mib": 143_771,
        "power_w": power,
        "power_limit_w": 700,
        "temp_c": 31 + index % 3 + (util or 0) / 4,
        "sm_clock_mhz": 1980,
        "nvlink_mib_s": 0 if not util else util * 900.0,
        "pcie_rx_mib_s": 0.4 if not util else 210,
        "pcie_tx_mib_s": 0.2 if not util else 96,
    }
    return Gpu(**{**values, **more})  # type: ignore[arg-type]


def trends(gpus: Sequence[Gpu], t: float, busy_until: float) -> dict[str, Trend]:
    """A minute and a half of history: busy in waves until ``busy_until``, idle afterwards."""
    seconds = [t - 90 + i for i in range(90)]

    def util(index: int, at: float) -> float:
        return 45 + 40 * math.sin(at / 7 + index) if at < busy_until else 0.0

    return {g.uuid: Trend(util_pct=tuple(util(g.index, s) for s in seconds)) for g in gpus}


def host(
    name: str,
    t: float,
    gpus: Sequence[Gpu] | None,
    *,
    state: HostState = "live",
    busy_until: float = 0.0,
    **more: object,
) -> HostView:
    sample = Sample(host=name, t=t, mono=t, wall=WALL + t, gpus=None if gpus is None else tuple(gpus))
    return HostView(
        name=name,
        state=state,
        sample=sample,
        age_s=0.4,
        trends=trends(gpus or (), t, busy_until),
        **more,  # type: ignore[arg-type]
    )


def process(host: str, rank: int | None, pid: int, local: int, **more: object) -> ProcView:
    values: dict[str, object] = {
        "host": host,
        "pid": pid,
        "start_ticks": 1000 + pid,
        "rank": rank,
        "role": "scheduler" if rank is not None else "launcher",
        "title": f"sglang::scheduler_TP{rank}" if rank is not None else "python -m sglang.launch_server",
        "state": "S",
        "ppid": 4700 if rank is not None else 1,
        "threads": 205 + local,
        "cpu_pct": 0.4,
        "rss_mib": 9216 + 13 * local,
        "read_mib_s": 0.0,
        "wchan": "futex_wait_queue",
        "gpus": (f"GPU-{host}-{local}",) if rank is not None else (),
        "sigabrt": "python_dump_then_death" if rank is not None else "death_no_dump",
    }
    return ProcView(**{**values, **more})  # type: ignore[arg-type]


def shard(n: int, at: float, total: int = 64) -> LogLine:
    bar = f"{100 * n // total:3d}% Completed | {n}/{total} [01:{n % 60:02d}<00:00,  1.09s/it]"
    text = f"Loading safetensors checkpoint shards: {bar}"
    return LogLine(text, t=at, redraw=n < total)


def sglang_log(last: int, until: float) -> tuple[LogLine, ...]:
    """SGLang's start as it logs it, up to shard ``last``, which came at ``until``."""
    begun = until - 1.09 * last
    head = [
        "[2026-09-21 14:13:21] server_args=ServerArgs(model_path='/srv/models/orion-v3-fp8', tp_size=8, "
        "speculative_algorithm='EAGLE3', mem_fraction_static=0.85, watchdog_timeout=900, trust_remote_code=True)",
        "[2026-09-21 14:13:24] Using default HuggingFace chat template with detected content format: string",
        *(f"[2026-09-21 14:13:4{i} TP{i}] Init torch distributed begin." for i in range(8)),
        "[Gloo] Rank 3 is connected to 7 peer ranks. Expected number of connected peer ranks is : 7",
        "[2026-09-21 14:13:58 TP0] sglang is using nccl==2.27.3",
        "[2026-09-21 14:14:02 TP0] Init torch distributed ends. mem usage=1.62 GB",
        "[2026-09-21 14:14:03 TP0] Load weight begin. avail mem=137.92 GB",
    ]
    lines = [LogLine(text, t=begun - 48 + 2 * i) for i, text in enumerate(head)]
    return (*lines, *(shard(n, until - 1.09 * (last - n)) for n in range(max(1, last - 30), last + 1)))


def launch(
    hosts: Sequence[str], per_host: int = 8, ident: str = "gpu-a17:4700", name: str = "sglang orion-v3-fp8"
) -> Launch:
    members = tuple(
        Member(h, 4711 + 100 * n + i, 1000, rank=per_host * n + i, role="scheduler")
        for n, h in enumerate(hosts)
        for i in range(per_host)
    )
    logs = tuple(LogRef(h, "/var/log/serve/orion-v3.log", "stdout") for h in hosts)
    return Launch(ident, name, tuple(hosts), "sglang", "", members, logs, (30000,), per_host * len(hosts))


def explanations(silent: float) -> tuple[Explanation, ...]:
    window = f"{min(64, int(silent))} s"
    return (
        Explanation(
            "graph_capture",
            "CUDA graphs are being captured",
            True,
            False,
            (
                Prediction(
                    "gpu_util", "at least one GPU above 5 % within 60 s", f"0 % on all 8 for {window}", "refutes"
                ),
                Prediction("rank CPU", "at least 30 % of a core on every rank", "0.4 % at most", "refutes"),
                Prediction("log", "may be silent for minutes", "silent", "fits"),
            ),
        ),
        Explanation(
            "kernel_build",
            "one rank builds kernels and the others wait",
            True,
            False,
            (
                Prediction("children", "nvcc, ptxas or cicc below one rank", "none", "refutes"),
                Prediction("cache_dir", "grows", "unchanged", "refutes"),
            ),
        ),
        Explanation(
            "slow_storage",
            "weights come slowly from storage",
            True,
            False,
            (
                Prediction("progress", "shards left to load", "64 of 64 loaded", "refutes"),
                Prediction("read_bytes", "above 1 MiB/s on some rank", "0 on all 8", "refutes"),
            ),
        ),
        Explanation(
            "collective_spin",
            "a collective spins on the GPUs",
            False,
            False,
            (Prediction("gpu_util", "100 % with idle memory and links", "0 %", "refutes"),),
        ),
        Explanation(
            "rank_wait",
            "the ranks wait for each other without GPU work",
            False,
            True,
            (
                Prediction("gpu_util", "0 % on all ranks", f"0 % on all 8 for {window}", "fits"),
                Prediction("threads", "all asleep in futex or poll", "1 647 of 1 647 asleep", "fits"),
                Prediction("stacks", "one rank outside the collective", "not taken yet", "unknown"),
            ),
            remedy="Take the stacks, then restart with CUDA graphs and the draft model off to see which of them it is.",
        ),
        Explanation(
            "thread_deadlock",
            "one rank holds a lock that it waits for",
            False,
            True,
            (Prediction("stacks", "one rank in a lock of its own", "not taken yet", "unknown"),),
        ),
    )


def _dated(made: tuple[Explanation, ...], since: float) -> tuple[Explanation, ...]:
    """Each prediction has stood since some seconds after ``since``."""
    return tuple(
        replace(e, predictions=tuple(replace(p, since=since + 3 * i) for i, p in enumerate(e.predictions)))
        for e in made
    )


HANG_AT = 156.0
"""When the hang's last shard was logged."""


def hung(t: float, dumps: tuple[Dump, ...] = ()) -> Snapshot:
    """Eight ranks asleep since the last of 64 shards; rank 5 stands elsewhere."""
    name = "gpu-a17"
    silent = t - HANG_AT
    gpus = [gpu(i, name, 0, 116 + i % 3) for i in range(8)]
    rows = [process(name, i, 4711 + i, i) for i in range(8)]
    rows[5] = process(name, 5, 4716, 5, wchan="do_poll.constprop.0", threads=207)
    rows += [
        process(name, None, 4700, 0, threads=31, rss_mib=1210, wchan="do_wait"),
        process(name, None, 4706, 0, role="detokenizer", threads=19, rss_mib=880, wchan="ep_poll"),
    ]
    alarmed = silent > 60
    verdict = Verdict(
        t=t,
        id="hung" if alarmed else "suspect",
        since=HANG_AT + (60 if alarmed else 40),
        strength="firm",
        cause="rank_wait",
        phase="post_load",
        phase_since=HANG_AT,
        progress=Progress(64, 64, "shards"),
        silent_s=silent,
        still_s=silent - 5.6,
        alive=8,
        expected=8,
        ranks=tuple(RankPhase(i, name, "weight_load" if i == 5 else "post_load") for i in range(8)),
        odd=(Odd(name, 4716, 5, "scheduler", "its main thread polls while seven wait in futex"),),
        explanations=_dated(explanations(silent), HANG_AT + 22),
        evidence=(
            Evidence(
                "gpu_util",
                0,
                64,
                1.0,
                ("graph_capture", "collective_spin"),
                ("rank_wait",),
                "GPU utilisation 0 % on all 8",
            ),
            Evidence("power", 117, 64, 1.0, ("graph_capture",), (), "power flat at 117 W of 700 W"),
            Evidence("children", 0, 64, 0.98, ("kernel_build",), (), "no compiler runs below any rank"),
        ),
        reasons=(
            "all 8 GPUs at 0 % and 117 W of 700 W for 64 s: refutes graph capture, which would keep them busy",
            "no rank has a child process and no kernel cache grows: refutes a kernel build",
            "64 of 64 shards are loaded and no rank reads: refutes slow storage",
        ),
        remedy="take the stacks, then restart without the draft model to see whether it is that",
        deadlines=(Deadline("the SGLang watchdog ends the launch", max(0.0, 900 - silent), True),),
        next_probe="stacks",
    )
    spans = (
        PhaseSpan("import", HANG_AT - 150, HANG_AT - 139),
        PhaseSpan("spawn", HANG_AT - 139, HANG_AT - 122),
        PhaseSpan("dist_init", HANG_AT - 122, HANG_AT - 70),
        PhaseSpan("weight_load", HANG_AT - 70, HANG_AT),
        PhaseSpan("post_load", HANG_AT),
    )
    marks = (
        ("dist_init", "[2026-09-21 14:13:40 TP0] Init torch distributed begin."),
        ("weight_load", "[2026-09-21 14:14:03 TP0] Load weight begin. avail mem=137.92 GB"),
    )
    log = LogView(name, "/var/log/serve/orion-v3.log", 10_013, 110, silent, sglang_log(64, HANG_AT), marks=marks)
    view = LaunchView(launch([name]), verdict, spans, tuple(rows), (log,), 20.0, AHEAD)
    return Snapshot(t, WALL + t, (host(name, t, gpus, busy_until=HANG_AT, simulated=True),), (view,), dumps)


def slow(t: float) -> Snapshot:
    """The healthy twin: as silent, but rank 0 builds kernels with eight ptxas below it."""
    base = hung(t)
    view = base.launches[0]
    name = "gpu-a17"
    rows = list(view.processes)
    rows[0] = process(
        name,
        0,
        4711,
        0,
        state="R",
        cpu_pct=99.0,
        read_mib_s=12.0,
        wchan=None,
        children=(ChildGroup("ptxas", 8, 812.0), ChildGroup("nvcc", 1, 3.1)),
    )
    verdict = Verdict(
        t=t,
        id="slow",
        since=HANG_AT + 12,
        strength="firm",
        cause="kernel_build",
        phase="graph_capture",
        phase_since=HANG_AT + 2,
        progress=Progress(3, 52, "batch sizes", 0.05, 980),
        silent_s=t - HANG_AT,
        still_s=0.4,
        alive=8,
        expected=8,
        ranks=tuple(RankPhase(i, name, "graph_capture") for i in range(8)),
        explanations=(
            Explanation(
                "kernel_build",
                "rank 0 builds kernels and the others wait",
                True,
                True,
                (
                    Prediction("children", "compilers at work below one rank", "8 ptxas at 796 % CPU", "fits"),
                    Prediction("cache_dir", "grows", "+31 MiB in 60 s", "fits"),
                ),
            ),
            Explanation(
                "rank_wait",
                "the ranks wait for each other without GPU work",
                False,
                False,
                (Prediction("children", "none at work", "8 ptxas at 796 % CPU", "refutes"),),
            ),
        ),
        reasons=("8 ptxas below rank 0 use 796 % CPU and the kernel cache grew by 31 MiB in the last minute",),
        deadlines=(Deadline("the SGLang watchdog ends the launch", max(0.0, 900 - t + HANG_AT), True),),
    )
    spans = (*view.spans[:4], PhaseSpan("post_load", HANG_AT, HANG_AT + 2), PhaseSpan("graph_capture", HANG_AT + 2))
    made = LaunchView(view.launch, verdict, spans, tuple(rows), view.logs, 20.0, ("warmup", "serving"))
    return Snapshot(t, WALL + t, base.hosts, (made,))


def progressing(t: float) -> Snapshot:
    """Weights come in, a shard a second, over and over; rank 3 lags behind."""
    name = "gpu-a17"
    n = 1 + int(t) % 63
    gpus = [gpu(i, name, (7 * i + 13 * t) % 40, 130 + (11 * i + 3 * t) % 60, used=20_000 + 900 * n) for i in range(8)]
    rows = [
        process(
            name,
            i,
            4711 + i,
            i,
            state="R" if i % 2 else "D",
            cpu_pct=62 + i,
            read_mib_s=410.0 + 9 * i,
            wchan="folio_wait_bit_common",
        )
        for i in range(8)
    ]
    verdict = Verdict(
        t=t,
        id="progressing",
        since=t - n - 4,
        phase="weight_load",
        phase_since=t - n,
        progress=Progress(n, 64, "shards", 0.92, (64 - n) / 0.92),
        silent_s=0.3,
        still_s=0.1,
        alive=8,
        expected=8,
        ranks=tuple(RankPhase(i, name, "dist_init" if i == 3 else "weight_load") for i in range(8)),
        reasons=("a shard was loaded 0.3 s ago; they come every 1.1 s",),
    )
    spans = (
        PhaseSpan("import", t - n - 80, t - n - 69),
        PhaseSpan("spawn", t - n - 69, t - n - 52),
        PhaseSpan("dist_init", t - n - 52, t - n),
        PhaseSpan("weight_load", t - n),
    )
    log = LogView(name, "/var/log/serve/orion-v3.log", 9_000 + 90 * n, 46 + n, 0.3, sglang_log(n, t - t % 1))
    view = LaunchView(launch([name]), verdict, spans, tuple(rows), (log,), 20.0, ("post_load", *AHEAD))
    return Snapshot(t, WALL + t, (host(name, t, gpus, busy_until=t),), (view,))


def ready(t: float) -> Snapshot:
    """A server that serves: full memory, changing load."""
    name = "gpu-a17"
    gpus = [
        gpu(i, name, 50 + 40 * math.sin(t / 5 + i), 420 + 160 * math.sin(t / 5 + i), used=131_000 + 3 * i)
        for i in range(8)
    ]
    rows = [process(name, i, 4711 + i, i, state="R", cpu_pct=99.5, wchan=None) for i in range(8)]
    verdict = Verdict(
        t=t,
        id="ready",
        since=300.0,
        strength="proven",
        phase="serving",
        phase_since=300.0,
        silent_s=t % 7,
        still_s=0.1,
        alive=8,
        expected=8,
        reasons=("the server said that it is fired up, and port 30000 answers",),
    )
    base = hung(t)
    spans = (
        *base.launches[0].spans[:4],
        PhaseSpan("post_load", HANG_AT, HANG_AT + 20),
        PhaseSpan("graph_capture", HANG_AT + 20, 290.0),
        PhaseSpan("warmup", 290.0, 300.0),
        PhaseSpan("serving", 300.0),
    )
    tail = (
        *sglang_log(64, HANG_AT),
        LogLine("[2026-09-21 14:18:20] The server is fired up and ready to roll!", t=300.0),
        LogLine(
            f"[2026-09-21 14:20:00 TP0] Decode batch. #running-req: {int(t) % 40}, token usage: 0.31, "
            "cuda graph: True, gen throughput (token/s): 2143.70",
            t=t - t % 7,
        ),
    )
    log = LogView(name, "/var/log/serve/orion-v3.log", 42_113, 390, t % 7, tail)
    view = LaunchView(launch([name]), verdict, spans, tuple(rows), (log,), 20.0)
    return Snapshot(t, WALL + t, (host(name, t, gpus, busy_until=t),), (view,))


def multi(t: float) -> Snapshot:
    """Four hosts with eight GPUs each; one is lost, one stale; rank 21 never joined. A second launch runs beside."""
    names = ["gpu-a17", "gpu-a18", "gpu-b03", "gpu-b04"]
    hosts = []
    rows = []
    for n, name in enumerate(names):
        gpus = [gpu(i, name, 100 if n < 3 else 0, 182 + i + n, used=61_000) for i in range(8)]
        hosts.append(host(name, t, gpus, busy_until=t))
        rows += [
            process(name, 8 * n + i, 4711 + 100 * n + i, i, state="R", cpu_pct=100.0, wchan=None, role="rank")
            for i in range(8)
        ]
    hosts[2] = HostView(
        "gpu-b03",
        "stale",
        "no sample for 41 s; the channel is open",
        sample=hosts[2].sample,
        age_s=41.0 + t - START,
        trends=hosts[2].trends,
    )
    verdict = Verdict(
        t=t,
        id="suspect",
        since=t - 44,
        strength="weak",
        cause="rank_missing",
        phase="dist_init",
        phase_since=t - 190,
        silent_s=171.0 + (t - START),
        still_s=171.0 + (t - START),
        alive=31,
        expected=32,
        ranks=tuple(RankPhase(i, names[i // 8], "import" if i == 21 else "dist_init") for i in range(32)),
        odd=(Odd("gpu-b03", 4916, 21, "rank", "31 ranks printed their rendezvous line, this one did not"),),
        explanations=(
            Explanation(
                "rank_missing",
                "a rank has not joined",
                False,
                True,
                (Prediction("markers", "one rank without the rendezvous line", "rank 21", "fits"),),
            ),
            Explanation(
                "comm_init",
                "the first collective never completes",
                False,
                True,
                (Prediction("markers", "all ranks past the rendezvous", "31 of 32", "unknown"),),
            ),
            Explanation(
                "slow_import",
                "modules are still being imported",
                True,
                False,
                (Prediction("read_bytes", "some rank reads", "0 on all", "refutes"),),
            ),
        ),
        reasons=(
            "31 of 32 ranks wait in the rendezvous for 2m 51s; rank 21 on gpu-b03 has printed nothing since import",
            "GPUs of three hosts spin at 100 % with 182 W of 700 W and silent links: no work is done",
        ),
        deadlines=(Deadline("the rendezvous times out", 1629 - (t - START), False),),
        next_probe="stacks",
    )
    spans = (
        PhaseSpan("import", t - 215, t - 201),
        PhaseSpan("spawn", t - 201, t - 190),
        PhaseSpan("dist_init", t - 190),
    )
    logs = tuple(
        LogView(
            name,
            f"/scratch/runs/llama-70b/{name}/attempt_0/0/stderr.log",
            20_113,
            210 + i,
            171.0 + i,
            tuple(
                LogLine(
                    f"[rank{8 * i + r}]: [2026-09-21 14:15:0{r}] initialising torch.distributed with tcp://10.0.3.17:29500",
                    t=t - 179 + r,
                )
                for r in range(8)
            ),
        )
        for i, name in enumerate(names)
    )
    view = LaunchView(
        launch(names, ident="job-7781", name="torchrun llama-70b"),
        verdict,
        spans,
        tuple(rows),
        logs,
        20.0,
        ("weight_load", "compile", "training_step"),
    )
    other = ready(t).launches[0]
    return Snapshot(t, WALL + t, tuple(hosts), (view, other), note="gpu-b03 has not been heard for 41 s; trying again")


def many(t: float) -> Snapshot:
    """Sixty-four hosts with eight GPUs each: a job over most of them hangs, three servers run beside, two are away."""
    names = [f"gpu-{rack}{n:02d}" for rack in "abcd" for n in range(1, 17)]
    hosts = []
    for n, name in enumerate(names):
        busy = n >= 40
        gpus = [
            gpu(i, name, (61 + 37 * ((n * 7 + i * 3) % 10) / 10) if busy else 100, 420 + 25 * (i % 4) if busy else 182)
            for i in range(8)
        ]
        hosts.append(host(name, t, gpus if n != 63 else [gpu(i, name, 0, 74, used=4) for i in range(8)]))
    hosts[17] = HostView(
        names[17], "lost", "connection reset by peer; trying again", sample=hosts[17].sample, age_s=88.0
    )
    hosts[52] = HostView(names[52], "connecting", "opening the connection")
    stuck = multi(t).launches[0]
    verdict = replace(stuck.verdict, odd=(), id="hung", cause="collective_spin", phase="training_step")
    views = [replace(stuck, launch=launch(names[:40], ident="job-7781", name="torchrun llama-405b"), verdict=verdict)]
    for n, (made, first) in enumerate(((ready(t), 40), (slow(t), 48), (progressing(t), 56))):
        view = made.launches[0]
        named = launch(names[first : first + 7], ident=f"serve-{n}", name=f"sglang orion-{n}")
        views.append(replace(view, launch=named))
    return Snapshot(t, WALL + t, tuple(hosts), tuple(views))


def lost(t: float) -> Snapshot:
    """The host of the hang cannot be reached any more."""
    base = hung(t)
    view = base.launches[0]
    verdict = Verdict(
        t=t,
        id="unknown",
        since=t - 32,
        phase="post_load",
        phase_since=HANG_AT,
        silent_s=view.verdict.silent_s,
        still_s=view.verdict.still_s,
        alive=8,
        expected=8,
        reasons=("nothing has been heard of gpu-a17 for 35 s, so nothing can be said about its launch",),
        taken_back="hung is taken back: the host is lost, and its silence says nothing",
    )
    made = LaunchView(view.launch, verdict, view.spans, view.processes, view.logs, 20.0, AHEAD)
    gone = HostView(
        "gpu-a17",
        "lost",
        "the connection broke (no answer to keepalive); next try in 8 s",
        sample=base.hosts[0].sample,
        age_s=35.0 + t - START,
        trends=base.hosts[0].trends,
    )
    return Snapshot(t, WALL + t, (gone,), (made,))


def stale(t: float) -> Snapshot:
    base = lost(t)
    old = base.hosts[0]
    return Snapshot(
        t,
        WALL + t,
        (HostView("gpu-a17", "stale", "no sample for 6 s", sample=old.sample, age_s=6.0, trends=old.trends),),
        base.launches,
    )


def stacks(n: int, t: float) -> Dump:
    """The hang's stacks when ``n`` of eight ranks have answered."""
    name = "gpu-a17"
    common = (
        "<module> (launch_server.py:10)",
        "run_scheduler_process (scheduler.py:2310)",
        "__init__ (scheduler.py:255)",
        "load_model (model_runner.py:620)",
    )
    barrier = (*common, "monitored_barrier (distributed_c10d.py:4021)", "wait (futures.py:88)")
    alone = (*common, "load_draft (eagle_worker.py:148)", "__enter__ (filelock.py:301)", "acquire (filelock.py:212)")

    def one(rank: int) -> ProcessStacks:
        if rank == 6 and n >= 7:
            return ProcessStacks(
                name,
                4717,
                6,
                "py-spy",
                (),
                "permission denied: py-spy needs CAP_SYS_PTRACE or the owner's account",
                "scheduler",
                WALL + t,
                0.1,
            )
        texts = alone if rank == 5 else barrier
        frames = tuple(
            Frame(f.split(" (")[0], f.split(" (")[1].rsplit(":", 1)[0], int(f.rsplit(":", 1)[1][:-1]))
            for f in reversed(texts)
        )
        threads = (
            ThreadStack(
                4711 + rank, "MainThread", frames, active=False, owns_gil=rank == 5, main=True, wchan="futex_wait_queue"
            ),
            ThreadStack(
                4900 + rank,
                "watchdog",
                (Frame("wait", "threading.py", 327), Frame("_run", "watchdog.py", 52)),
                active=False,
            ),
        )
        return ProcessStacks(name, 4711 + rank, rank, "py-spy", threads, None, "scheduler", WALL + t, 0.4)

    done = tuple(one(r) for r in (5, 0, 1, 2, 3, 4, 7, 6)[:n])
    others = tuple(r for r in (0, 1, 2, 3, 4, 7) if any(p.rank == r for p in done))
    groups = (
        StackGroup((5,), (f"{name}:4716",), alone, odd=True),
        *((StackGroup(others, tuple(f"{name}:{4711 + r}" for r in others), barrier),) if others else ()),
    )
    merged = (
        MergedStacks(
            groups,
            common,
            (5,),
            (Odd(name, 4716, 5, "scheduler", "alone in filelock"),),
            "rank 5 waits for a file lock while six ranks wait in a barrier: look for the holder of the lock",
        )
        if n
        else None
    )
    log = ("14:20:01 py-spy --nonblocking on 8 processes of gpu-a17", *((f"14:20:02 {n} of 8 answered",) if n else ()))
    refused = ((4717, "permission denied: py-spy needs CAP_SYS_PTRACE or the owner's account"),) if n >= 7 else ()
    steps = (
        Step(name, "/proc", WALL + t, 0.09, 8, 8),
        Step(name, "py-spy", WALL + t + 0.1, 0.41 if n >= 8 else None, 8, n - len(refused), errors=refused),
        *((Step(name, "NCCL RAS", WALL + t + 0.5, 2.02, 1, 1),) if n >= 8 else ()),
    )
    return Dump(1, "gpu-a17:4700", "stacks", WALL + t, n >= 8, 8, done, merged, log, steps)


def hostile(t: float) -> Snapshot:
    """A launch whose every string tries to be markup, or is wide or long."""
    bad = "[bold]x[/] [/foo] [@click=app.quit]y[/] \\[ 漢字 " + "z" * 90
    base = hung(t)
    view = base.launches[0]
    v = view.verdict
    rows = tuple(
        process(
            "gpu-a17", p.rank, p.pid, i, title=bad, role=bad, wchan=bad, children=(ChildGroup(bad, 3),), sigabrt=bad
        )
        for i, p in enumerate(view.processes)
    )
    verdict = Verdict(
        t=t,
        id="[/foo]",
        cause=bad,
        phase=bad,
        progress=Progress(1, 2, bad),
        silent_s=9,
        still_s=9,
        ranks=(RankPhase(0, bad, bad), RankPhase(1, bad, "import")),
        odd=(Odd(bad, 4716, 5, bad, bad),),
        explanations=(
            Explanation(bad, bad, True, False, (Prediction(bad, bad, bad, "refutes"),)),
            Explanation("b", bad, False, True, (Prediction(bad, bad, bad, "fits"),)),
        ),
        evidence=(Evidence(bad, bad, 10, 1.0, (bad,), (), bad),),
        reasons=(bad, bad),
        remedy=bad,
        deadlines=(Deadline(bad, 10),),
        next_probe=bad,
        taken_back=bad,
        since=v.since,
    )
    made = LaunchView(
        Launch(bad, bad, ("gpu-a17",), bad, bad),
        verdict,
        (PhaseSpan(bad, t - 10),),
        rows,
        (LogView("gpu-a17", bad, 1, 1, 9, (LogLine(bad, t=t), LogLine(bad))),),
        1.0,
        (bad,),
    )
    dump = stacks(8, t)
    evil = ProcessStacks(bad, 1, 0, bad, (ThreadStack(1, bad, (Frame(bad, bad, 3),), main=True, wchan=bad),), bad, bad)
    merged = MergedStacks((StackGroup((0,), (bad,), (bad, bad), True),), (bad,), (0,), (), bad)
    dumps = (Dump(2, bad, bad, dump.started_wall, True, 1, (evil,), merged, (bad,)),)
    gpus = [
        gpu(0, "gpu-a17", 0, 100, name=bad),
        gpu(1, "gpu-a17", 0, 100, error=bad),
        gpu(2, "gpu-a17", None, 100, xids=(62,)),
    ]
    hosts = (host("gpu-a17", t, gpus), HostView(bad, "failed", bad))
    return Snapshot(t, WALL + t, hosts, (made,), dumps, note=bad)


def course(view: LaunchView, t: float) -> Course:
    """A second by second course that goes with the launch's spans and its verdict."""
    begin = view.spans[0].start if view.spans else 20.0
    times = [begin + i for i in range(int(t - begin) + 1)]
    phases = [next((s.phase for s in reversed(view.spans) if s.start <= x), "") for x in times]
    still = view.verdict.id in ("suspect", "hung")
    load = [
        0.0 if phase in ("import", "spawn", "dist_init") or (still and x >= HANG_AT) else 1.0
        for x, phase in zip(times, phases, strict=True)
    ]
    loaded = [sum(load[: i + 1]) / max(1.0, sum(load)) for i in range(len(load))]
    columns = {
        "util_pct": [v * (20 + 6 * math.sin(i / 5)) for i, v in enumerate(load)],
        "power_pct": [15 + v * (8 + 2 * math.sin(i / 7)) for i, v in enumerate(load)],
        "mem_pct": [54 * v for v in loaded],
        "cpu_cores": [0.1 if still and x >= HANG_AT else 7.5 + math.sin(x / 3) for x in times],
        "log_bytes": [10_013 * v for v in loaded],
    }
    change = ((HANG_AT + 12, "slow"), (HANG_AT + 40, "suspect"), (HANG_AT + 60, "hung"))
    turns = tuple(item for item in change if item[0] <= t) if still else ((view.verdict.since, view.verdict.id),)
    return Course(times, columns, ((max(begin, 20.0), "progressing"), *turns))


def snapshot(state: str, t: float = START) -> Snapshot:
    """The named state at a moment; see :data:`STATES`."""
    made = _snapshot(state, t)
    return replace(made, launches=tuple(replace(view, course=course(view, t)) for view in made.launches))


def _snapshot(state: str, t: float) -> Snapshot:
    made = {
        "hung": hung,
        "slow": slow,
        "ready": ready,
        "progressing": progressing,
        "multi": multi,
        "fleet": many,
        "lost": lost,
        "stale": stale,
        "hostile": hostile,
    }
    if state in made:
        return made[state](t)
    if state == "dump":
        return hung(t, (stacks(8, t),))
    idle = [gpu(i, "gpu-a17", 0, 74, used=4) for i in range(8)]
    hosts: dict[str, tuple[HostView, ...]] = {
        "empty": (host("gpu-a17", t, idle),),
        "connecting": tuple(HostView(f"gpu-a{n}", "connecting", "opening the connection") for n in (17, 18)),
        "nogpu": (
            host("laptop", t, None)
            if t < 0
            else HostView(
                "laptop",
                "live",
                sample=Sample(
                    "laptop",
                    t,
                    t,
                    WALL + t,
                    gpus=None,
                    gpu_error="no NVIDIA driver here (libnvidia-ml.so.1 was not found)",
                ),
            ),
        ),
        "nohost": (),
    }
    return Snapshot(t, WALL + t, hosts[state])
