"""What every hang expects of ranks, GPUs, bytes and compilers: the predictions that hung explanations share."""

from __future__ import annotations

from tui.diagnose.hypotheses import expect, seen
from tui.diagnose.hypotheses.workers import in_storage, odd_workers
from tui.diagnose.observe import Scene
from tui.diagnose.views import ProcView
from tui.model import Prediction
from tui.numbers import median


def nobody_works(scene: Scene) -> list[Prediction]:
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


def ranks_wait(scene: Scene) -> Prediction:
    waiting = all(_waits(scene, view) for view in scene.workers)
    return expect("rank_cpu", "every rank waits", seen.cpu(scene), waiting if scene.observed else None)


def _waits(scene: Scene, view: ProcView) -> bool:
    """Sleeps, is stopped or blocked, or spins: at one core, or as its peers do while the GPUs spin."""
    if view.asleep or view.one_core or view.state in "TtD":
        return True
    usual = median([other.cpu or 0.0 for other in scene.workers])
    return scene.spinning and view.busy and abs((view.cpu or 0.0) - usual) <= 0.6 * usual + 25.0


def all_asleep(scene: Scene) -> Prediction:
    return expect(
        "rank_cpu",
        "every rank sleeps",
        seen.cpu(scene),
        all(view.asleep for view in scene.workers) and not _woken(scene) if scene.observed else None,
    )


def _woken(scene: Scene) -> list[str]:
    """Threads that the last sweep saw burning CPU or blocked, in processes whose main thread sleeps."""
    return [name for swept in scene.sweeps.values() for name in (*swept.busy, *swept.blocked)]


def gpus_idle(scene: Scene) -> Prediction:
    kinds = scene.gpu_kinds
    busy = kinds.get("works", 0) + kinds.get("spins", 0)
    return expect(
        "gpus", "the GPUs do nothing", seen.gpus(scene), False if busy else None if kinds.get("unknown") else True
    )


def gpus_wait(scene: Scene) -> Prediction:
    kinds = scene.gpu_kinds
    return expect(
        "gpus",
        "no GPU computes",
        seen.gpus(scene),
        False if kinds.get("works") else None if kinds.get("unknown") else True,
    )


def gpus_spin(scene: Scene) -> Prediction:
    kinds = scene.gpu_kinds
    spin = bool(kinds.get("spins")) and not kinds.get("works")
    return expect(
        "gpus",
        "utilisation without memory traffic, link traffic or work",
        seen.gpus(scene),
        None if kinds.get("unknown") and not spin else spin,
    )


def no_odd_worker(scene: Scene) -> Prediction:
    odd = odd_workers(scene)
    return expect(
        "ranks_compared",
        "no rank works while the others wait",
        seen.doing(odd) if odd else "none works",
        not odd,
    )
