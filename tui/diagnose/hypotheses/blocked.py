"""Hangs of a process on something outside of it: locks, storage, the driver, a pipe, a signal, a full file system."""

from __future__ import annotations

from typing import cast

from tui.diagnose.hypotheses import expect, seen
from tui.diagnose.hypotheses.expected import all_asleep, gpus_idle, gpus_wait, nobody_works, ranks_wait
from tui.diagnose.observe import Scene
from tui.diagnose.phases import LOADS
from tui.model import Prediction

_LOCK_WAITS = ("fcntl_setlk", "locks_lock_inode_wait", "flock_lock", "posix_lock")


def download_stall(scene: Scene) -> list[Prediction]:
    got = _downloaded_bytes(scene)
    least = 1e8 if scene.phase in LOADS else 1e9  # modules come over the network, too
    seen_before = scene.phase == "weight_download" or (got is not None and got >= least)
    said = "not known" if got is None else f"{got / 1e9:.1f} GB came since it was first seen, and nothing any more"
    return [
        expect("downloaded", "it was downloading", said, seen_before),
        expect(
            "log",
            "files are still missing",
            _progress_text(scene),
            not (scene.run.counter and scene.run.counter.full) or None,
        ),
        all_asleep(scene),
        *nobody_works(scene),
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


def io_stall(scene: Scene) -> list[Prediction]:
    blocked = [view for view in scene.workers if view.stuck_in_kernel and not view.in_driver]
    return [
        expect(
            "state",
            "a process stays in uninterruptible sleep",
            f"{seen.who(blocked)} blocked{seen.waits_in(blocked)}, burning nothing" if blocked else "none does",
            bool(blocked),
        ),
        *nobody_works(scene),
    ]


def lock_fact(scene: Scene) -> dict[str, object] | None:
    """The newest look at a lock file that its owner does not hold any more."""
    for fact in reversed(scene.facts("lock_file", 180.0)):
        if isinstance(fact.value, dict):
            return cast("dict[str, object]", fact.value)  # pyright: ignore[reportUnknownMemberType]
    return None


def stale_lock(scene: Scene) -> list[Prediction]:
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
        expect("wchan", "a rank polls for it", seen.where(scene.workers), somebody_polls(scene)),
        expect("rank_cpu", "every rank waits", seen.cpu(scene), _lock_waiters(scene)),
        gpus_idle(scene),
        *nobody_works(scene),
    ]


def _lock_waiters(scene: Scene) -> bool | None:
    if not scene.observed:
        return None
    return all(view.asleep or (view.busy and scene.run.waits_for_baton is not None) for view in scene.workers)


def somebody_polls(scene: Scene) -> bool | None:
    """Whether a process waits as those do who wait for a lock file: by a timer, or as the log says."""
    if scene.run.waits_for_baton is not None or any("nanosleep" in view.wchan for view in scene.workers):
        return True
    elsewhere = [view for view in scene.workers if view.wchan and "futex" not in view.wchan and view.wchan != "0"]
    return False if len(elsewhere) == len(scene.workers) else None  # another of its threads may poll


def surely_polled(scene: Scene) -> bool:
    return somebody_polls(scene) is True


def lock_held(scene: Scene) -> list[Prediction]:
    waiters = [view for view in scene.workers if view.wchan.startswith(_LOCK_WAITS)]
    told = scene.run.waits_for_baton
    said = f"{seen.who(waiters)} in {waiters[0].wchan}" if waiters else told or "no rank waits for a lock"
    return [
        expect("wchan", "ranks wait for a file lock", said, bool(waiters) or told is not None),
        expect("rank_cpu", "every rank waits", seen.cpu(scene), _lock_waiters(scene)),
        *nobody_works(scene),
    ]


def cuda_init(scene: Scene) -> list[Prediction]:
    inside = [view for view in scene.workers if view.in_driver]
    mute = [view for view in scene.workers if view.stuck_in_kernel] if scene.gpu_kinds.get("unknown") else []
    said = f"{seen.who(inside)} in {inside[0].wchan}" if inside else "none does"
    return [
        expect("wchan", "a process waits inside the GPU driver", said, bool(inside) or bool(mute)),
        ranks_wait(scene),
        *nobody_works(scene),
    ]


def pipe_full(scene: Scene) -> list[Prediction]:
    inside = [view for view in scene.living if "pipe_write" in view.wchan]
    said = f"{seen.who(inside)} waits to write into it" if inside else "none does"
    return [
        expect("wchan", "a process waits to write into a pipe", said, bool(inside)),
        *nobody_works(scene),
    ]


def stopped(scene: Scene) -> list[Prediction]:
    views = scene.stopped
    return [
        expect("state", "a process is stopped", f"{seen.who(views)} in state T" if views else "none is", bool(views))
    ]


def gpu_fault(scene: Scene) -> list[Prediction]:
    faults = [item for item in scene.xids if item.ends_the_gpu] or scene.xids
    said = faults[-1].text[:160] if faults else "none seen"
    return [
        expect("kernel_line", "the kernel log names a fault that ends work on a GPU", said, bool(faults)),
        ranks_wait(scene),
        gpus_wait(scene),
        *nobody_works(scene),
    ]


def fresh_fault(scene: Scene) -> bool:
    """Whether a fault that ends a GPU's work came while it was watched: an older line may be of another run."""
    return any(item.ends_the_gpu and item.fresh for item in scene.xids)


def shm_full(scene: Scene) -> list[Prediction]:
    facts = scene.facts("shm_free_mib", 300.0)
    free = facts[-1].value if facts else None
    full = None if not isinstance(free, (int, float)) else free < 1
    return [
        expect("shm", "/dev/shm is full", "not looked at" if free is None else f"{free} MiB free", full),
        ranks_wait(scene),
        *nobody_works(scene),
    ]
