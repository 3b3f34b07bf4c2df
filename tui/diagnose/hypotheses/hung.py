"""Hung silences. Each says what it expects of ranks, bytes, compilers, GPUs and locks; the first that nothing refutes
names the cause, the most particular ones first."""

from __future__ import annotations

from typing import cast

from tui.diagnose.hypotheses import Hypothesis, expect, seen
from tui.diagnose.hypotheses.healthy import odd_workers
from tui.diagnose.observe import Scene
from tui.diagnose.phases import BEFORE_GPU
from tui.model import Prediction

_LOCK_WAITS = ("fcntl_setlk", "locks_lock_inode_wait", "flock_lock", "posix_lock")


def _nobody_works(scene: Scene) -> list[Prediction]:
    """What every hang expects: nothing that is work."""
    moving = [view for view in scene.living if view.moves_bytes or view.in_storage]
    return [
        expect("compilers", "no compiler at work", seen.builders(scene), not any(view.builds for view in scene.living)),
        expect(
            "children_cpu", "no busy child", seen.children(scene), not any(view.children_work for view in scene.living)
        ),
        expect("bytes", "no bytes move", seen.byte_flow(scene), not moving),
    ]


def _ranks_wait(scene: Scene) -> Prediction:
    waiting = all(view.asleep or view.one_core or view.state in "TtD" for view in scene.workers)
    return expect("rank_cpu", "every rank waits", seen.cpu(scene), waiting if scene.observed else None)


def _all_asleep(scene: Scene) -> Prediction:
    return expect(
        "rank_cpu",
        "every rank sleeps",
        seen.cpu(scene),
        all(view.asleep for view in scene.workers) if scene.observed else None,
    )


def _gpus_idle(scene: Scene) -> Prediction:
    kinds = scene.gpu_kinds
    busy = kinds.get("works", 0) + kinds.get("spins", 0)
    return expect(
        "gpus", "the GPUs do nothing", seen.gpus(scene), False if busy else None if kinds.get("unknown") else True
    )


def _gpus_wait(scene: Scene) -> Prediction:
    kinds = scene.gpu_kinds
    return expect(
        "gpus",
        "no GPU computes",
        seen.gpus(scene),
        False if kinds.get("works") else None if kinds.get("unknown") else True,
    )


def _gpus_spin(scene: Scene) -> Prediction:
    kinds = scene.gpu_kinds
    spin = bool(kinds.get("spins")) and not kinds.get("works")
    return expect(
        "gpus",
        "utilisation without memory traffic, link traffic or work",
        seen.gpus(scene),
        None if kinds.get("unknown") and not spin else spin,
    )


def _no_odd_worker(scene: Scene) -> Prediction:
    odd = odd_workers(scene)
    return expect(
        "ranks_compared",
        "no rank works while the others wait",
        seen.who(odd) + " works" if odd else "none works",
        not odd,
    )


def _rank_wait(scene: Scene) -> list[Prediction]:
    several = len(scene.workers) > 1
    return [
        expect("ranks", "several ranks", f"{len(scene.workers)} at hand", several),
        _all_asleep(scene),
        _gpus_idle(scene),
        *_nobody_works(scene),
    ]


def _thread_deadlock(scene: Scene) -> list[Prediction]:
    return [
        expect("ranks", "one process", f"{len(scene.workers)} at hand", len(scene.workers) == 1),
        _all_asleep(scene),
        _gpus_idle(scene),
        *_nobody_works(scene),
    ]


def _comm_init(scene: Scene) -> list[Prediction]:
    said = f"{len(scene.ranks)} of {scene.expected} ranks alive"
    return [
        expect("ranks", "all ranks have come", said, not scene.missing),
        _ranks_wait(scene),
        _gpus_wait(scene),
        *_nobody_works(scene),
    ]


def _spin(scene: Scene) -> list[Prediction]:
    return [_gpus_spin(scene), _ranks_wait(scene), _no_odd_worker(scene), *_nobody_works(scene)]


def _rank_missing(scene: Scene) -> list[Prediction]:
    missing = scene.missing
    said = f"no process of rank {seen.ranks_text(missing)}" if missing else "every rank has a process"
    return [expect("ranks", "ranks without a process", said, bool(missing)), _ranks_wait(scene), *_nobody_works(scene)]


def _download_stall(scene: Scene) -> list[Prediction]:
    got = _downloaded_bytes(scene)
    seen_before = scene.phase == "weight_download" or (got is not None and got >= 1e8)
    said = "not known" if got is None else f"{got / 1e9:.1f} GB since it was first seen"
    return [
        expect("downloaded", "it was downloading", said, seen_before),
        expect(
            "log",
            "files are still missing",
            _progress_text(scene),
            not (scene.run.counter and scene.run.counter.full) or None,
        ),
        _all_asleep(scene),
        *_nobody_works(scene),
    ]


def _downloaded_bytes(scene: Scene) -> float | None:
    """What its processes received or put into a cache since they were first seen."""
    grown = [
        end - start
        for view in scene.living
        for field in ("net_rx_bytes", "cache_dir_bytes")
        for start, end in [scene.first_and_last(view, field)]
        if start is not None and end is not None
    ]
    return max(grown, default=None)


def _progress_text(scene: Scene) -> str:
    counter = scene.run.counter
    return "no bar" if counter is None else f"bar at {counter.done:g} of {counter.total or 0:g}"


def _io_stall(scene: Scene) -> list[Prediction]:
    blocked = [view for view in scene.workers if view.blocked_share >= 0.8 and (view.cpu or 0.0) < 1.0]
    return [
        expect(
            "state",
            "a process stays in uninterruptible sleep",
            seen.who(blocked) if blocked else "none does",
            bool(blocked),
        ),
        *_nobody_works(scene),
    ]


def lock_fact(scene: Scene) -> dict[str, object] | None:
    """The newest look at a lock file that its owner does not hold any more."""
    for fact in reversed(scene.facts("lock_file", 180.0)):
        if isinstance(fact.value, dict):
            return cast("dict[str, object]", fact.value)  # pyright: ignore[reportUnknownMemberType]
    return None


def _stale_lock(scene: Scene) -> list[Prediction]:
    fact = lock_fact(scene)
    owner = None if fact is None else fact.get("lock_owner_pid_alive")
    said = (
        "not looked at"
        if fact is None
        else (
            f"{fact.get('lock_file')}, {fact.get('lock_age_s')} s old, its owner "
            f"{'lives' if owner else 'is dead' if owner is not None else 'is not known'}"
        )
    )
    return [
        expect("lock_file", "a lock whose owner is dead", said, None if owner is None else not owner),
        expect("rank_cpu", "every rank waits", seen.cpu(scene), _lock_waiters(scene)),
        _gpus_idle(scene),
        *_nobody_works(scene),
    ]


def _lock_waiters(scene: Scene) -> bool | None:
    if not scene.observed:
        return None
    return all(view.asleep or (view.one_core and scene.run.waits_for_baton is not None) for view in scene.workers)


def _lock_held(scene: Scene) -> list[Prediction]:
    waiters = [view for view in scene.workers if view.wchan.startswith(_LOCK_WAITS)]
    told = scene.run.waits_for_baton
    said = f"{seen.who(waiters)} in {waiters[0].wchan}" if waiters else told or "no rank waits for a lock"
    return [
        expect("wchan", "ranks wait for a file lock", said, bool(waiters) or told is not None),
        expect("rank_cpu", "every rank waits", seen.cpu(scene), _lock_waiters(scene)),
        *_nobody_works(scene),
    ]


def _cuda_init(scene: Scene) -> list[Prediction]:
    inside = [view for view in scene.workers if view.wchan.startswith(("nvidia", "uvm_", "nv_"))]
    return [
        expect(
            "wchan",
            "a process waits inside the GPU driver",
            f"{seen.who(inside)} in {inside[0].wchan}" if inside else "none does",
            bool(inside),
        ),
        _all_asleep(scene),
        *_nobody_works(scene),
    ]


def _pipe_full(scene: Scene) -> list[Prediction]:
    inside = [view for view in scene.living if "pipe_write" in view.wchan]
    return [
        expect(
            "wchan", "a process waits to write into a pipe", seen.who(inside) if inside else "none does", bool(inside)
        ),
        *_nobody_works(scene),
    ]


def _stopped(scene: Scene) -> list[Prediction]:
    views = scene.stopped
    return [
        expect("state", "a process is stopped", f"{seen.who(views)} in state T" if views else "none is", bool(views))
    ]


def _gpu_fault(scene: Scene) -> list[Prediction]:
    lines = scene.xids
    return [
        expect("kernel_line", "the kernel log names an Xid", lines[-1][:160] if lines else "none seen", bool(lines)),
        _ranks_wait(scene),
        *_nobody_works(scene),
    ]


def _shm_full(scene: Scene) -> list[Prediction]:
    facts = scene.facts("shm_free_mib", 300.0)
    free = facts[-1].value if facts else None
    full = None if not isinstance(free, (int, float)) else free < 1
    return [
        expect("shm", "/dev/shm is full", "not looked at" if free is None else f"{free} MiB free", full),
        _ranks_wait(scene),
        *_nobody_works(scene),
    ]


_AFTER_START = BEFORE_GPU - {"unknown"} | {"serving", "shutdown"}

HUNG_HYPOTHESES: tuple[Hypothesis, ...] = (
    Hypothesis(
        "stopped",
        _stopped,
        decisive=True,
        probe="snapshot",
    ),
    Hypothesis(
        "gpu_fault",
        _gpu_fault,
        decisive=True,
        probe="doctor",
    ),
    Hypothesis(
        "stale_lock",
        _stale_lock,
        decisive=True,
        not_phases=frozenset({"serving", "training_step", "weight_load"}),
        probe="doctor",
    ),
    Hypothesis(
        "shm_full",
        _shm_full,
        decisive=True,
        probe="doctor",
    ),
    Hypothesis(
        "lock_held",
        _lock_held,
        not_phases=frozenset({"serving"}),
        patience=2.0,
        particular=True,
        probe="doctor",
    ),
    Hypothesis(
        "cuda_init_blocked",
        _cuda_init,
        frozenset({"import", "spawn", "unknown", "dist_init"}),
        patience=2.2,
        particular=True,
        probe="doctor",
    ),
    Hypothesis(
        "pipe_full",
        _pipe_full,
        probe="snapshot",
    ),
    Hypothesis(
        "rank_missing",
        _rank_missing,
        frozenset({"dist_init", "spawn", "wait_resources", "unknown"}),
        patience=8.0,
        probe="snapshot",
    ),
    Hypothesis(
        "io_stall",
        _io_stall,
        patience=1.8,
        probe="stacks",
    ),
    Hypothesis(
        "download_stall",
        _download_stall,
        frozenset({"weight_download", "weight_load", "draft_load"}),
        patience=2.2,
        particular=True,
    ),
    Hypothesis(
        "comm_init",
        _comm_init,
        frozenset({"dist_init"}),
        patience=2.2,
    ),
    Hypothesis(
        "graph_capture_deadlock",
        _spin,
        frozenset({"graph_capture"}),
        patience=1.5,
    ),
    Hypothesis(
        "collective_spin",
        _spin,
        not_phases=_AFTER_START - {"serving"} | {"graph_capture", "dist_init"},
        patience=1.5,
    ),
    Hypothesis(
        "rank_wait",
        _rank_wait,
        not_phases=frozenset({"serving", "shutdown", "dist_init", "weight_download", "wait_resources"}),
    ),
    Hypothesis(
        "thread_deadlock",
        _thread_deadlock,
        not_phases=frozenset({"serving", "shutdown", "wait_resources", "weight_download"}),
        patience=1.5,
    ),
)
