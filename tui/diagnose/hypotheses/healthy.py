"""Healthy silences: as many and as sharp as the hung ones. Each needs somebody to be seen at work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tui.diagnose.facts import newest_figure
from tui.diagnose.facts.locks import held_lock, orphaned_lock
from tui.diagnose.hypotheses import Hypothesis, expect, seen
from tui.diagnose.hypotheses.workers import cpu_workers, in_storage, many_cores, odd_workers
from tui.diagnose.observe import Scene
from tui.diagnose.phases import BEFORE_GPU, BUSY_CORE_ELSE_S, LOADS
from tui.diagnose.views import (
    CACHE_BPS,
    CONTEXT_MIB,
    DOWNLOADING_BPS,
    FETCHING_BPS,
    MB,
    READING_BPS,
    RECEIVING_BPS,
    ProcView,
)
from tui.model import Prediction
from tui.untyped import number

REFAULTS_MB = 1.0
"""MB a second of evicted pages that come back: a few of them come back anywhere."""

LIMITED = "the control group's memory limit is reached"
FULL = 0.8
"""Of a limit: page cache is evicted near it; how near varies with what else is charged to the group."""


def _known(scene: Scene, holds: bool) -> bool | None:
    """What holds is known by itself; that it does not hold is known only where everything was seen."""
    return True if holds else False if scene.observed else None


def _kernel_build(scene: Scene) -> list[Prediction]:
    """NVRTC, Triton and LLVM compile in the process itself: where the log speaks of a build, a rank at work is it."""
    at_work = [view for view in scene.living if view.builds]
    alone = [] if at_work or scene.told_phase != "jit_build" else many_cores(scene) or odd_workers(scene)
    said = seen.doing(alone) if alone else seen.builders(scene)
    return [
        expect("compilers", "compilers that burn CPU under a rank", said, _known(scene, bool(at_work) or bool(alone)))
    ]


def _torch_compile(scene: Scene) -> list[Prediction]:
    at_work = [view for view in scene.living if view.children_work]
    alone = scene.phase == "compile" and bool(cpu_workers(scene))
    return [
        expect(
            "children_cpu",
            "compile workers or the rank itself burn CPU",
            _children_or_cpu(scene),
            _known(scene, bool(at_work) or alone),
        )
    ]


def _children_or_cpu(scene: Scene) -> str:
    return (
        seen.children(scene)
        if any(view.children_work for view in scene.living)
        else f"{seen.children(scene)}; {seen.cpu(scene)}"
    )


def _cpu_bound_capture(scene: Scene) -> list[Prediction]:
    return [
        expect("rank_cpu", "ranks compute on the CPU", seen.cpu(scene), _known(scene, bool(cpu_workers(scene)))),
        expect("gpus", "the GPUs wait for it", seen.gpus(scene), _no_gpu(scene, "works")),
    ]


def _storage(scene: Scene) -> list[Prediction]:
    moving = [
        view
        for view in scene.living
        if (view.read or 0.0) + (view.write or 0.0) >= READING_BPS or view.trickles or view.grows
    ] + in_storage(scene)
    readers = [view for view in moving if not view.builds]
    said = seen.doing(readers) if readers else seen.byte_flow(scene)
    return [expect("bytes", "bytes are read or written", said, _known(scene, bool(moving)))]


def _download(scene: Scene) -> list[Prediction]:
    least = RECEIVING_BPS if scene.phase in LOADS | {"unknown"} else FETCHING_BPS
    got = [view for view in scene.living if (view.received or 0.0) >= least or (view.cache or 0.0) >= CACHE_BPS]
    if scene.phase == "weight_download":  # nothing else is due then
        got += [view for view in scene.living if view.fetches or (view.received or 0.0) >= DOWNLOADING_BPS]
    return [expect("bytes", "bytes are received or the cache grows", seen.byte_flow(scene), _known(scene, bool(got)))]


def _importing(scene: Scene) -> list[Prediction]:
    with_context = {gpu.host for gpu in scene.gpus if gpu.mem is None or gpu.mem >= CONTEXT_MIB}
    read = {host.name for host in scene.hosts if host.last_gpus}
    past = {rank for run in scene.runs for rank, (phase, _, _) in run.ranks.items() if phase not in BEFORE_GPU}
    late = [
        view
        for view in scene.living
        if scene.told_phase in BEFORE_GPU
        or (view.member.host in read and view.member.host not in with_context and view.member.rank not in past)
    ]
    believed = scene.unmoved_s <= BUSY_CORE_ELSE_S
    busy = [view for view in late if view.at_work or view.many_cores or (view.busy and believed)]
    said = f"{seen.who(busy or late)}: {seen.cpu(scene)}; {seen.byte_flow(scene)}"
    return [expect("rank_cpu", "processes without a CUDA context compute or read", said, _known(scene, bool(busy)))]


def _repacking(scene: Scene) -> list[Prediction]:
    moved = [gpu for gpu in scene.gpus if gpu.mem_moved]
    busy = cpu_workers(scene) or [view for view in odd_workers(scene) if not _only_reads(view)]
    works = bool(scene.gpu_kinds.get("works"))
    said = [
        *([seen.doing(busy)] if busy else []),
        *([seen.gpus(scene)] if works else []),
        *([f"memory of {len(moved)} GPUs moved within {scene.gauge_s:.0f} s"] if moved else []),
    ] or [seen.cpu(scene), seen.gpus(scene)]
    return [
        expect(
            "rank_cpu",
            "busy cores, GPU kernels or moving GPU memory",
            "; ".join(said),
            _known(scene, works or bool(moved) or bool(busy)),
        )
    ]


def _autotune(scene: Scene) -> list[Prediction]:
    return [expect("gpus", "GPUs work in bursts", seen.gpus(scene), _gpu_works(scene))]


def _no_gpu(scene: Scene, kind: str) -> bool | None:
    """Whether no GPU does so; unknown where that of some is unknown."""
    if scene.gpu_kinds.get(kind):
        return False
    return None if scene.gpu_kinds.get("unknown") else True


def _gpu_works(scene: Scene) -> bool | None:
    if scene.gpu_kinds.get("works"):
        return True
    return None if scene.gpu_kinds.get("unknown") else False


def _rank0(scene: Scene) -> list[Prediction]:
    odd = odd_workers(scene)
    said = seen.doing(odd) if odd else f"{seen.cpu(scene)}; {seen.gpus(scene)}"
    wait = scene.spinning or all(view.asleep for view in scene.workers if view not in odd)
    return [expect("ranks_compared", "few ranks work while the others wait", said, _known(scene, bool(odd) and wait))]


def _only_reads(view: ProcView) -> bool:
    """Reads on where the others have read all: slow storage, no preparing."""
    return (view.moves_bytes or view.in_storage) and not (view.builds or view.children_work or view.one_core)


def _starved(scene: Scene) -> list[Prediction]:
    share, beside = newest_figure(scene, "cgroup_throttled_pct", 120.0)
    quota = number(beside.get("cgroup_cpu_quota_cores"))
    said = "not looked at" if share is None else f"throttled in {share:.0f} % of all periods"
    said += "" if quota is None else f", {quota:g} cores are all it may use"
    burned = sum((view.cpu or 0.0) + (view.children or 0.0) for view in scene.living)
    allowed = 10.0 if quota is None else min(10.0, 50.0 * quota)
    starved = [view for view in scene.workers if view.starved]
    if starved:
        burned_so = sum(view.cpu or 0.0 for view in starved)
        said = f"{seen.who(starved)} ready to run in most samples, and let for {burned_so:.0f} % of a core"
        allowed = 1.0
    throttled = bool(starved) or (None if share is None else share >= 50.0)
    return [
        expect("cgroup", "throttled half of the time, or ready to run and not let", said, throttled),
        expect("rank_cpu", "it burns what it may", f"{burned:.0f} % of a core", _known(scene, burned >= allowed)),
        expect("gpus", "no GPU spins", seen.gpus(scene), not scene.spinning and _no_gpu(scene, "spins")),
    ]


def _refaults(scene: Scene) -> list[Prediction]:
    rate, beside = newest_figure(scene, "cgroup_refault", 120.0)
    read = sum(view.read or 0.0 for view in scene.living) / MB
    said = "not looked at" if rate is None else f"pages that were evicted come back at {rate:g} MB/s"
    moving = [view for view in scene.living if view.moves_bytes or view.in_storage]
    return [
        expect(
            "cgroup",
            "much of what is read was there before, and was evicted",
            said,
            None if rate is None else rate >= max(REFAULTS_MB, 0.3 * read),
        ),
        _at_limit(beside),
        expect("bytes", "the same bytes are read again", seen.byte_flow(scene), _known(scene, bool(moving))),
    ]


def _at_limit(beside: Mapping[str, Any]) -> Prediction:
    """Others' pages come back in a control group that the launch shares, and none is evicted for a limit that is not
    there or not near. Unknown where no look said whether there is one."""
    limit, used = number(beside.get("cgroup_memory_limit_gib")), number(beside.get("cgroup_memory_used_gib"))
    if limit is None:
        looked = "cgroup_memory_limit_gib" in beside
        return expect("limit", LIMITED, "no memory limit" if looked else "not looked at", False if looked else None)
    if used is None:
        return expect("limit", LIMITED, f"a limit of {limit:g} GiB", True)
    return expect("limit", LIMITED, f"{used:g} of {limit:g} GiB are used", used >= FULL * limit)


def _elsewhere(scene: Scene) -> list[Prediction]:
    waits = scene.run.waits_for_baton
    here = any(view.builds for view in scene.living)
    return [
        expect("log", "ranks say that they wait for a build lock", waits or "no such line", waits is not None),
        expect("compilers", "no compiler on the watched hosts", seen.builders(scene), not here),
        expect("lock_file", "the lock's owner lives, on another host", _lock_text(scene), _owner_elsewhere(scene)),
    ]


def _owner_elsewhere(scene: Scene) -> bool | None:
    """A holder that is on this host, and does nothing, is no builder."""
    lock = held_lock(scene)
    if lock is None:
        return False if orphaned_lock(scene) is not None else None
    return not (lock.owner is not None and lock.owner_idle)


def _lock_text(scene: Scene) -> str:
    lock = held_lock(scene) or orphaned_lock(scene)
    return "not looked at" if lock is None else lock.text


def _gpu_work(scene: Scene) -> list[Prediction]:
    return [expect("gpus", "memory controller, links or memory of a GPU move", seen.gpus(scene), _gpu_moves(scene))]


def _gpu_moves(scene: Scene) -> bool | None:
    return True if any(gpu.mem_moved for gpu in scene.gpus) else _gpu_works(scene)


def _cpu_work(scene: Scene) -> list[Prediction]:
    busy = cpu_workers(scene) or [view for view in scene.living if view.children_work]
    return [
        expect("rank_cpu", "a process burns what no wait burns", _children_or_cpu(scene), _known(scene, bool(busy)))
    ]


def _resources(scene: Scene) -> list[Prediction]:
    told = scene.told_phase == "wait_resources"
    said = f"it stands at {scene.told_phase}"
    return [
        expect("log", "the log says that it waits for nodes, placement or a gate", said, told),
        expect("ranks", "no rank computes", seen.cpu(scene), not scene.observed or not cpu_workers(scene)),
    ]


ANY: frozenset[str] = frozenset()
_SERVED = frozenset({"serving", "shutdown"})

HEALTHY_HYPOTHESES: tuple[Hypothesis, ...] = (
    Hypothesis(
        "waiting_resources",
        _resources,
        frozenset({"wait_resources"}),
        waits=True,
        probe="snapshot",
    ),
    Hypothesis(
        "kernel_build",
        _kernel_build,
        not_phases=_SERVED,
    ),
    Hypothesis(
        "cpu_starved",
        _starved,
        not_phases=_SERVED,
        wants=("surroundings",),
    ),
    Hypothesis(
        "memory_refault",
        _refaults,
        not_phases=_SERVED,
        wants=("surroundings",),
    ),
    Hypothesis(
        "slow_download",
        _download,
        frozenset({"import", "spawn", "dist_init", "weight_download", "weight_load", "draft_load", "unknown"}),
        wants=("sockets",),
    ),
    Hypothesis(
        "slow_import",
        _importing,
        frozenset({"import", "spawn", "dist_init"}),
    ),
    Hypothesis(
        "rank0_preparing",
        _rank0,
        not_phases=_SERVED | LOADS | {"checkpoint_save", "post_load"},
    ),
    Hypothesis(
        "torch_compile",
        _torch_compile,
        frozenset({"compile", "graph_capture", "warmup", "profile", "post_load", "kv_alloc"}),
    ),
    Hypothesis(
        "cpu_bound_capture",
        _cpu_bound_capture,
        frozenset({"graph_capture"}),
    ),
    Hypothesis(
        "slow_storage",
        _storage,
        not_phases=_SERVED,
    ),
    Hypothesis(
        "repacking",
        _repacking,
        frozenset({"post_load", "draft_load", "weight_load"}),
    ),
    Hypothesis(
        "autotune",
        _autotune,
        frozenset({"warmup", "jit_build", "profile"}),
    ),
    Hypothesis(
        "builder_elsewhere",
        _elsewhere,
        frozenset({"jit_build"}),
        waits=True,
        wants=("locks",),
    ),
    Hypothesis("gpu_work", _gpu_work),
    Hypothesis("cpu_work", _cpu_work, not_phases=_SERVED),
)
