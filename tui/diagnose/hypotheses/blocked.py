"""Hangs of a process on something outside of it: locks, storage, the driver, a pipe, a signal, a full file system."""

from __future__ import annotations

from tui.diagnose.facts.holdups import PipeEnd, pipes, tracer
from tui.diagnose.facts.locks import held_lock, lock_files, orphaned_lock
from tui.diagnose.facts.surroundings import shm, storage_trouble
from tui.diagnose.hypotheses import expect, seen
from tui.diagnose.hypotheses.expected import all_asleep, gpus_idle, gpus_wait, nobody_works, ranks_wait
from tui.diagnose.observe import Scene
from tui.diagnose.phases import LOADS
from tui.diagnose.received import received_bytes
from tui.diagnose.views import ProcView
from tui.model import Prediction

POLLS = (5.0, 35.0)
"""Wake-ups a second of who polls for a lock file: FileBaton looks ten times, filelock twenty times. Other waits that
sleep in between wake once a second or less, or a hundred times (``TCPStore::waitForWorkers``)."""

_LOCK_WAITS = ("fcntl_setlk", "locks_lock_inode_wait", "flock_lock", "posix_lock")


def download_stall(scene: Scene) -> list[Prediction]:
    got = _downloaded_bytes(scene)
    least = 1e8 if scene.phase in LOADS else 1e9  # modules come over the network, too
    seen_before = scene.phase == "weight_download" or (got is not None and got >= least)
    said = "not known" if got is None else f"{size(got)} came since it was first seen, and nothing any more"
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
    for view in scene.living:
        host = scene.history.host(view.member.host)
        over_tcp = received_bytes(host, view.member.pid) if host is not None else None
        grown += [over_tcp] if over_tcp is not None else []
    return max(grown, default=None)


def size(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


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
        _storage_trouble(scene),
        *nobody_works(scene),
    ]


def _storage_trouble(scene: Scene) -> Prediction:
    """The kernel complains only after minutes, or not at all, so that its silence says nothing."""
    told = storage_trouble(scene)
    return expect("kernel_line", "the kernel complains about storage", told or "no such line seen", bool(told) or None)


def stale_lock(scene: Scene) -> list[Prediction]:
    return [
        _orphaned(scene),
        expect("wchan", "a rank polls for it", seen.where(scene.workers), somebody_polls(scene)),
        expect("rank_cpu", "every rank waits", seen.cpu(scene), _lock_waiters(scene)),
        gpus_idle(scene),
        *nobody_works(scene),
    ]


def _orphaned(scene: Scene) -> Prediction:
    """Whether there is a lock that nobody will release; where an owner is not known, neither is that."""
    expected = "a lock whose owner is dead"
    locks = lock_files(scene)
    if locks is None:
        return expect("lock_file", expected, "not looked at", None)
    orphan = orphaned_lock(scene)
    if orphan is not None:
        return expect("lock_file", expected, orphan.text, True)
    unknown = [lock for lock in locks if not lock.held]
    said = (unknown or locks)[-1].text if locks else "no lock file in its cache folders"
    return expect("lock_file", expected, said, None if unknown else False)


def _lock_waiters(scene: Scene) -> bool | None:
    if not scene.observed:
        return None
    return all(view.asleep or (view.busy and scene.run.waits_for_baton is not None) for view in scene.workers)


def somebody_polls(scene: Scene) -> bool | None:
    """Whether a process waits as those do who wait for a lock file: by a timer, or as the log says."""
    if scene.run.waits_for_baton is not None:
        return True
    if scene.only_launchers:
        return False  # they look after their ranks by a timer
    if any(_polls(view) for view in scene.workers):
        return True
    elsewhere = [view for view in scene.workers if view.wchan and "futex" not in view.wchan and view.wchan != "0"]
    return False if len(elsewhere) == len(scene.workers) else None  # another of its threads may poll


def _polls(view: ProcView) -> bool:
    low, high = POLLS
    return "nanosleep" in view.wchan and (view.wakes is None or low <= view.wakes <= high)


def surely_polled(scene: Scene) -> bool:
    return somebody_polls(scene) is True


def lock_held(scene: Scene) -> list[Prediction]:
    waiters = [view for view in scene.workers if view.wchan.startswith(_LOCK_WAITS)]
    told, lock = scene.run.waits_for_baton, held_lock(scene)
    polled = lock is not None and lock.owner is not None and surely_polled(scene)
    said = f"{seen.who(waiters)} in {waiters[0].wchan}" if waiters else told or "no rank waits for a lock"
    if lock is not None and (waiters or told or polled):
        said = f"{said if waiters or told else 'a rank polls'}; {lock.text}"
    return [
        expect("wchan", "ranks wait for a file lock", said, bool(waiters) or told is not None or polled),
        expect(
            "lock_owner",
            "who holds the lock does nothing",
            "not looked at" if lock is None else lock.text,
            None if lock is None else lock.owner_idle,
        ),
        expect("rank_cpu", "every rank waits", seen.cpu(scene), _lock_waiters(scene)),
        *nobody_works(scene),
    ]


def lock_frozen(scene: Scene) -> bool:
    """Whether the kernel has a rank waiting for a lock whose holder is stopped."""
    lock = held_lock(scene)
    return lock is not None and lock.owner_stopped and bool(lock.waiters)


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
    inside = _pipe_writers(scene)
    said = f"{seen.who(inside)} waits to write into it" if inside else "none does"
    full = _full_pipe(scene)
    return [
        expect("wchan", "a process waits to write into a pipe", f"{said}: {full.text}" if full else said, bool(inside)),
        expect("pipe", "its output's pipe is full", full.text if full else "not seen", True if full else None),
        *nobody_works(scene),
    ]


def _pipe_writers(scene: Scene) -> list[ProcView]:
    return [view for view in scene.living if "pipe_write" in view.wchan]


def _full_pipe(scene: Scene) -> PipeEnd | None:
    """Another pipe than that of its output may be the full one: that those have room refutes nothing."""
    return next((pipe for view in _pipe_writers(scene) for pipe in pipes(scene, view) if pipe.full), None)


def reader_frozen(scene: Scene) -> bool:
    """Whether who should read the full pipe is stopped."""
    full = _full_pipe(scene)
    return full is not None and full.reader_stopped


def stopped(scene: Scene) -> list[Prediction]:
    views = scene.stopped
    said = f"{seen.who(views)} in state {views[0].state}{by_whom(scene)}" if views else "none is"
    return [expect("state", "a process is stopped", said, bool(views))]


def by_whom(scene: Scene) -> str:
    """`` traced by process 4711 (gdb, stopped)``: who holds a stopped process, where a look has shown it."""
    tracers = [who for view in scene.stopped if (who := tracer(scene, view))]
    return f", traced by {tracers[0]}" if tracers else ""


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
    space = shm(scene)
    if space is None:
        said = "not looked at"
    else:
        said = f"{space[0]:g} MiB free" + (f" of {space[1]:g} MiB in /dev/shm" if space[1] is not None else "")
    return [
        expect("shm", "/dev/shm is full", said, None if space is None else space[0] < 1.0),
        ranks_wait(scene),
        *nobody_works(scene),
    ]
