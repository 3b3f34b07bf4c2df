"""Hung silences. Each says what it expects of ranks, bytes, compilers, GPUs and locks; the first that nothing refutes
names the cause, the most particular ones first."""

from __future__ import annotations

import re
from typing import cast

from tui.diagnose import kernel_log
from tui.diagnose.hypotheses import Hypothesis, expect, seen
from tui.diagnose.hypotheses.workers import in_storage, odd_workers
from tui.diagnose.observe import Scene
from tui.diagnose.phases import BEFORE_GPU
from tui.diagnose.views import ProcView
from tui.model import Prediction
from tui.numbers import median

_LOCK_WAITS = ("fcntl_setlk", "locks_lock_inode_wait", "flock_lock", "posix_lock")


def _nobody_works(scene: Scene) -> list[Prediction]:
    """What every hang expects: nothing that is work."""
    blocked = in_storage(scene)
    moving = [view for view in scene.living if view.moves_bytes or view.grows or view in blocked]
    return [
        expect("compilers", "no compiler at work", seen.builders(scene), not any(view.builds for view in scene.living)),
        expect(
            "children_cpu", "no busy child", seen.children(scene), not any(view.children_work for view in scene.living)
        ),
        expect("bytes", "no bytes move", seen.byte_flow(scene), not moving),
    ]


def _ranks_wait(scene: Scene) -> Prediction:
    waiting = all(_waits(scene, view) for view in scene.workers)
    return expect("rank_cpu", "every rank waits", seen.cpu(scene), waiting if scene.observed else None)


def _waits(scene: Scene, view: ProcView) -> bool:
    """Sleeps, is stopped or blocked, or spins: at one core, or as its peers do while the GPUs spin."""
    if view.asleep or view.one_core or view.state in "TtD":
        return True
    usual = median([other.cpu or 0.0 for other in scene.workers])
    return scene.spinning and view.busy and abs((view.cpu or 0.0) - usual) <= 0.6 * usual + 25.0


def _all_asleep(scene: Scene) -> Prediction:
    return expect(
        "rank_cpu",
        "every rank sleeps",
        seen.cpu(scene),
        all(view.asleep for view in scene.workers) and not _woken(scene) if scene.observed else None,
    )


def _woken(scene: Scene) -> list[str]:
    """Threads that the last sweep saw burning CPU or blocked, in processes whose main thread sleeps."""
    return [name for swept in scene.sweeps.values() for name in (*swept.busy, *swept.blocked)]


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
        expect("ranks", "several ranks", f"{len(scene.workers)} ranks, none of them at work", several),
        _all_asleep(scene),
        _gpus_idle(scene),
        *_nobody_works(scene),
    ]


_RPC_WAITS = "No available shared memory broadcast block found"
"""vLLM from 0.11 on says so each minute, only while the engine waits for an answer of its workers
(``shm_broadcast.py``); while starting that is as healthy as not, of a server whose ranks all sleep it is not."""


def _request_waits(scene: Scene) -> list[Prediction]:
    ready = scene.run.ready_t
    told = [
        line.t
        for log in scene.logs
        for line in log.tail
        if line.t is not None and line.t >= scene.now - 150.0 and _RPC_WAITS in line.text
    ]
    waits = sum(1 for t in told if ready is None or t > ready) > 1
    return [
        expect("log", "the engine says that it waits for its workers", "it does" if waits else "no such line", waits),
        *_rank_wait(scene),
    ]


def _thread_deadlock(scene: Scene) -> list[Prediction]:
    return [
        expect(
            "ranks", "one process", "its only process sleeps in every thread that was seen", len(scene.workers) == 1
        ),
        _all_asleep(scene),
        _gpus_idle(scene),
        *_nobody_works(scene),
    ]


def _comm_init(scene: Scene) -> list[Prediction]:
    said = f"{len(scene.ranks)} of {scene.launch.world_size or scene.expected} ranks are there and none gets past it"
    return [
        expect("ranks", "all ranks have come", said, not scene.missing and not _elsewhere_unheard(scene)),
        _ranks_wait(scene),
        _gpus_wait(scene),
        *_nobody_works(scene),
    ]


def _spin(scene: Scene) -> list[Prediction]:
    return [_gpus_spin(scene), _ranks_wait(scene), _no_odd_worker(scene), *_nobody_works(scene)]


def _elsewhere_unheard(scene: Scene) -> bool:
    """Whether ranks of hosts that are not watched have given no sign: no GPU of ours is in a collective with them."""
    kinds = scene.gpu_kinds
    return scene.peers_elsewhere > 0 and not kinds.get("spins") and not kinds.get("works")


def _rank_missing(scene: Scene) -> list[Prediction]:
    missing = scene.missing
    if missing:
        said = f"no process of {seen.ranks(missing)}"
    elif scene.peers_elsewhere:
        said = f"{scene.peers_elsewhere} of {scene.launch.world_size} ranks belong to hosts that are not watched"
    else:
        said = "every rank has a process"
    absent = bool(missing) or _elsewhere_unheard(scene)
    return [expect("ranks", "ranks without a process", said, absent), _ranks_wait(scene), *_nobody_works(scene)]


def _p2p_iommu(scene: Scene) -> list[Prediction]:
    lines = [line for line, _, _ in scene.kernel_lines if kernel_log.of_iommu(line)]
    said = lines[-1][:160] if lines else "no such line seen"
    return [
        expect("kernel_line", "the IOMMU refuses a device's DMA", said, bool(lines)),
        _gpus_wait(scene),
        _ranks_wait(scene),
        *_nobody_works(scene),
    ]


def _collective_mismatch(scene: Scene) -> list[Prediction]:
    roll = scene.run.behind()
    late = [view for view in scene.ranks if roll is not None and view.member.rank in roll[1]]
    said = (
        f'{seen.who(late)} before "{scene.words_of(roll[0].marker)}", the others past it'
        if roll is not None and late
        else "no rank's lines are behind the others'"
    )
    apart = bool(late) and not any(view.asleep for view in scene.ranks)
    return [
        expect("ranks_compared", "some ranks are past a line that others have not printed, and all spin", said, apart),
        _gpus_spin(scene),
        expect("gpus_compared", "no GPU is idle", seen.gpus(scene), not scene.gpu_kinds.get("idle")),
        _ranks_wait(scene),
        *_nobody_works(scene),
    ]


def _gil_deadlock(scene: Scene) -> list[Prediction]:
    """Waiters for the interpreter lock wake every 5 ms, the switch interval (CPython, Python/ceval_gil.c)."""
    waking = [view for view in scene.workers if view.asleep and 120.0 <= (view.wakes or 0.0) <= 260.0]
    known = any(view.wakes is not None for view in scene.workers)
    told = any("GIL induced hang" in text for text in scene.last_words())
    said = "the log says so" if told else f"{seen.who(waking)} wake 200 times a second" if waking else "none does"
    return [
        expect(
            "switches", "a thread wakes every 5 ms for the lock", said, bool(waking) or told if known or told else None
        ),
        _all_asleep(scene),
        _gpus_wait(scene),
        *_nobody_works(scene),
    ]


_IMPOSSIBLE = re.compile(
    r"No available node types can fulfill|cannot be scheduled right now|Insufficient nvidia\.com/gpu|"
    r"exceeds available GPUs|Requested node configuration is not available|ReqNodeNotAvail|infeasible",
    re.IGNORECASE,
)
"""Ray's autoscaler, kube-scheduler, vLLM on Ray and Slurm on requests that nothing they have can meet."""


def _resources_missing(scene: Scene) -> list[Prediction]:
    told = next((text.strip() for text in reversed(scene.last_words()) if _IMPOSSIBLE.search(text)), None)
    return [
        expect(
            "log", "the scheduler says that nothing it has will do", (told or "no such line")[:160], told is not None
        ),
        expect("ranks", "no rank exists", f"{len(scene.ranks)} ranks", not scene.ranks),
        *_nobody_works(scene),
    ]


def _download_stall(scene: Scene) -> list[Prediction]:
    got = _downloaded_bytes(scene)
    seen_before = scene.phase == "weight_download" or (got is not None and got >= 1e8)
    said = "not known" if got is None else f"{got / 1e9:.1f} GB came since it was first seen, and nothing any more"
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
    blocked = [view for view in scene.workers if view.stuck_in_kernel and not view.in_driver]
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
        expect("wchan", "a rank polls for it", seen.where(scene.workers), _somebody_polls(scene)),
        expect("rank_cpu", "every rank waits", seen.cpu(scene), _lock_waiters(scene)),
        _gpus_idle(scene),
        *_nobody_works(scene),
    ]


def _lock_waiters(scene: Scene) -> bool | None:
    if not scene.observed:
        return None
    return all(view.asleep or (view.busy and scene.run.waits_for_baton is not None) for view in scene.workers)


def _somebody_polls(scene: Scene) -> bool | None:
    """Whether a process waits as those do who wait for a lock file: by a timer, or as the log says."""
    if scene.run.waits_for_baton is not None or any("nanosleep" in view.wchan for view in scene.workers):
        return True
    elsewhere = [view for view in scene.workers if view.wchan and "futex" not in view.wchan and view.wchan != "0"]
    return False if len(elsewhere) == len(scene.workers) else None  # another of its threads may poll


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
    inside = [view for view in scene.workers if view.in_driver]
    mute = [view for view in scene.workers if view.stuck_in_kernel] if scene.gpu_kinds.get("unknown") else []
    said = f"{seen.who(inside)} in {inside[0].wchan}" if inside else "none does"
    return [
        expect("wchan", "a process waits inside the GPU driver", said, bool(inside) or bool(mute)),
        _ranks_wait(scene),
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
    faults = [item for item in scene.xids if item.ends_the_gpu] or scene.xids
    said = faults[-1].text[:160] if faults else "none seen"
    return [
        expect("kernel_line", "the kernel log names a fault that ends work on a GPU", said, bool(faults)),
        _ranks_wait(scene),
        _gpus_wait(scene),
        *_nobody_works(scene),
    ]


def fresh_fault(scene: Scene) -> bool:
    """Whether a fault that ends a GPU's work came while it was watched: an older line may be of another run."""
    return any(item.ends_the_gpu and item.fresh for item in scene.xids)


def _shm_full(scene: Scene) -> list[Prediction]:
    facts = scene.facts("shm_free_mib", 300.0)
    free = facts[-1].value if facts else None
    full = None if not isinstance(free, (int, float)) else free < 1
    return [
        expect("shm", "/dev/shm is full", "not looked at" if free is None else f"{free} MiB free", full),
        _ranks_wait(scene),
        *_nobody_works(scene),
    ]


_JIT = frozenset(
    {
        "jit_build", "compile", "graph_capture", "warmup", "post_load", "kv_alloc", "profile", "draft_load",
        "engine_build", "training_step", "data_index", "unknown",
    }
)  # fmt: skip
"""Phases in which extensions and kernels are built, behind a lock."""

_NO_WORK_OF_OURS = frozenset({"serving", "shutdown"})

HUNG_HYPOTHESES: tuple[Hypothesis, ...] = (
    Hypothesis("stopped", _stopped, decides=lambda scene: True, probe="snapshot"),
    Hypothesis("gpu_fault", _gpu_fault, decides=fresh_fault, probe="doctor", blinds=frozenset({"gpus"})),
    Hypothesis("stale_lock", _stale_lock, _JIT, decides=lambda scene: _somebody_polls(scene) is True, probe="doctor"),
    Hypothesis("shm_full", _shm_full, decides=lambda scene: True, probe="doctor"),
    Hypothesis("p2p_iommu", _p2p_iommu, not_phases=BEFORE_GPU - {"unknown"}, patience=2.0, particular=True),
    Hypothesis(
        "cuda_init_blocked",
        _cuda_init,
        frozenset({"import", "spawn", "unknown", "dist_init"}),
        patience=2.2,
        particular=True,
        probe="doctor",
        blinds=frozenset({"gpus"}),
    ),
    Hypothesis("pipe_full", _pipe_full, patience=1.5, particular=True, probe="snapshot"),
    Hypothesis("resources_missing", _resources_missing, frozenset({"wait_resources"}), patience=5.0, probe="doctor"),
    Hypothesis(
        "rank_missing",
        _rank_missing,
        frozenset({"dist_init", "spawn", "wait_resources", "unknown"}),
        patience=8.0,
        probe="snapshot",
    ),
    Hypothesis("io_stall", _io_stall, patience=1.8),
    Hypothesis(
        "download_stall",
        _download_stall,
        frozenset({"weight_download", "weight_load", "draft_load"}),
        patience=2.2,
        particular=True,
    ),
    Hypothesis("lock_held", _lock_held, not_phases=_NO_WORK_OF_OURS, patience=2.0, particular=True, probe="doctor"),
    Hypothesis("comm_init", _comm_init, frozenset({"dist_init"}), patience=3.0),
    Hypothesis("collective_mismatch", _collective_mismatch, not_phases=BEFORE_GPU | {"dist_init"}, patience=1.5),
    Hypothesis("graph_capture_deadlock", _spin, frozenset({"graph_capture"}), patience=1.5),
    Hypothesis(
        "collective_spin",
        _spin,
        not_phases=BEFORE_GPU - {"unknown"} | {"shutdown", "graph_capture", "dist_init"},
        patience=1.5,
    ),
    Hypothesis("gil_deadlock", _gil_deadlock, not_phases=_NO_WORK_OF_OURS, patience=1.5),
    Hypothesis(
        "rank_wait",
        _rank_wait,
        not_phases=_NO_WORK_OF_OURS | {"dist_init", "weight_download", "wait_resources"},
    ),
    Hypothesis("rank_wait", _request_waits, frozenset({"serving"})),
    Hypothesis(
        "thread_deadlock",
        _thread_deadlock,
        not_phases=_NO_WORK_OF_OURS | {"wait_resources", "weight_download"},
        patience=1.5,
    ),
)
