"""Hangs of ranks among each other: what they predict of communicators, collectives, barriers and of who came."""

from __future__ import annotations

import re

from tui.diagnose import kernel_log
from tui.diagnose.facts.sockets import meeting
from tui.diagnose.facts.surroundings import alone_on_hosts, rdma_mb_s
from tui.diagnose.hypotheses import expect, seen
from tui.diagnose.hypotheses.expected import (
    all_asleep,
    gpus_idle,
    gpus_spin,
    gpus_wait,
    no_odd_worker,
    nobody_works,
    ranks_wait,
)
from tui.diagnose.hypotheses.workers import disbelieved
from tui.diagnose.observe import Scene
from tui.diagnose.rest import open_request
from tui.model import Prediction


def rank_wait(scene: Scene) -> list[Prediction]:
    several = len(scene.workers) > 1 and not scene.only_launchers
    return [
        expect("ranks", "several ranks", f"{len(scene.workers)} ranks, none of them at work", several),
        all_asleep(scene),
        gpus_idle(scene),
        *nobody_works(scene),
    ]


def request_waits(scene: Scene) -> list[Prediction]:
    told = open_request(scene)
    return [
        expect("request", "a request was begun and has not ended", told or "nothing says so", told is not None),
        *rank_wait(scene)[1:],
    ]


def cores_wait(scene: Scene) -> list[Prediction]:
    """Ranks that poll each other burn a core each; that it is no work shows in time, and in all that does not move."""
    several = len(scene.workers) > 1
    return [
        busy_for_nothing(scene),
        expect("ranks", "several ranks", f"{len(scene.workers)} ranks", several),
        *_idly(scene),
    ]


def core_waits(scene: Scene) -> list[Prediction]:
    """The same of a single process: a thread that spins for another of its own."""
    alone = len(scene.workers) == 1
    return [
        busy_for_nothing(scene),
        expect("ranks", "one process", f"{len(scene.workers)} processes", alone),
        *_idly(scene),
    ]


def busy_for_nothing(scene: Scene) -> Prediction:
    said = f"{seen.cpu(scene)}; no byte, no growing memory and no GPU work in {scene.unmoved_s:.0f} s"
    return expect(
        "rank_cpu", "busy cores and nothing else, for longer than work of this phase takes", said, disbelieved(scene)
    )


def _idly(scene: Scene) -> list[Prediction]:
    return [gpus_idle(scene), ranks_wait(scene), *nobody_works(scene)]


def thread_deadlock(scene: Scene) -> list[Prediction]:
    return [
        expect(
            "ranks",
            "one process",
            "only launchers are there" if scene.only_launchers else "its only process sleeps",
            len(scene.workers) == 1 and not scene.only_launchers,
        ),
        all_asleep(scene),
        gpus_idle(scene),
        *nobody_works(scene),
    ]


def comm_init(scene: Scene) -> list[Prediction]:
    said = f"{len(scene.ranks)} of {scene.launch.world_size or scene.expected} ranks are there and none gets past it"
    found = meeting(scene)
    said += f": {found.trouble}" if found is not None and found.trouble else ""
    return [
        expect("ranks", "all ranks have come", said, not scene.missing and not _elsewhere_unheard(scene)),
        _meeting(scene),
        ranks_wait(scene),
        gpus_wait(scene),
        *nobody_works(scene),
    ]


def spin(scene: Scene) -> list[Prediction]:
    return [gpus_spin(scene), ranks_wait(scene), no_odd_worker(scene), _rdma(scene), *nobody_works(scene)]


RDMA_MB = 20.0
"""MB a second on an InfiniBand port: keep-alives and storage daemons stay below, a collective at work does not."""


def _rdma(scene: Scene) -> Prediction:
    """Collectives between hosts pass no counter of the GPUs; on a host that others use, too, traffic may be theirs."""
    rate = rdma_mb_s(scene)
    said = "not looked at" if rate is None else f"{rate:g} MB/s on the busiest port"
    busy = rate is not None and rate >= RDMA_MB
    holds = None if rate is None or (busy and not alone_on_hosts(scene)) else not busy
    return expect("rdma", "no traffic over InfiniBand", said, holds)


def _elsewhere_unheard(scene: Scene) -> bool:
    """Whether ranks of hosts that are not watched have given no sign: no GPU of ours is in a collective with them."""
    kinds = scene.gpu_kinds
    return scene.peers_elsewhere > 0 and not kinds.get("spins") and not kinds.get("works")


def rank_missing(scene: Scene) -> list[Prediction]:
    missing = scene.missing
    if scene.only_launchers:
        said = f"no rank at all, only {seen.who(scene.living)}"
    elif missing:
        said = f"no process of {seen.ranks(missing)}"
    elif scene.peers_elsewhere:
        said = f"{scene.peers_elsewhere} of {scene.launch.world_size} ranks belong to hosts that are not watched"
    else:
        said = "every rank has a process"
    unheard = _elsewhere_unheard(scene) and scene.phase != "import"
    absent = bool(missing) or scene.only_launchers or unheard
    return [
        expect("ranks", "ranks without a process", said, absent),
        _meeting(scene),
        ranks_wait(scene),
        *nobody_works(scene),
    ]


def _meeting(scene: Scene) -> Prediction:
    """Other ways to meet than ``env://`` are not seen, so that calls which are answered refute nothing."""
    found = meeting(scene)
    said = "not looked at" if found is None else found.trouble or "no call goes unanswered"
    return expect("sockets", "ranks wait for each other where they meet", said, bool(found and found.trouble) or None)


def p2p_iommu(scene: Scene) -> list[Prediction]:
    lines = [line for line, _, _ in scene.kernel_lines if kernel_log.of_iommu(line)]
    said = lines[-1][:160] if lines else "no such line seen"
    return [
        expect("kernel_line", "the IOMMU refuses a device's DMA", said, bool(lines)),
        gpus_wait(scene),
        ranks_wait(scene),
        *nobody_works(scene),
    ]


def collective_mismatch(scene: Scene) -> list[Prediction]:
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
        gpus_spin(scene),
        expect("gpus_compared", "no GPU is idle", seen.gpus(scene), not scene.gpu_kinds.get("idle")),
        ranks_wait(scene),
        *nobody_works(scene),
    ]


def gil_deadlock(scene: Scene) -> list[Prediction]:
    """Waiters for the interpreter lock wake every 5 ms, the switch interval (CPython, Python/ceval_gil.c)."""
    asleep = [view for view in scene.workers if view.asleep and not scene.only_launchers]
    waking = [view for view in asleep if 120.0 <= (view.wakes or 0.0) <= 260.0]
    known = any(view.wakes is not None for view in scene.workers)
    told = any("GIL induced hang" in text for text in scene.last_words())
    said = "the log says so" if told else f"{seen.who(waking)} wake 200 times a second" if waking else "none does"
    return [
        expect(
            "switches", "a thread wakes every 5 ms for the lock", said, bool(waking) or told if known or told else None
        ),
        all_asleep(scene),
        gpus_wait(scene),
        *nobody_works(scene),
    ]


_IMPOSSIBLE = re.compile(
    r"No available node types can fulfill|Insufficient nvidia\.com/gpu|"
    r"exceeds available GPUs|Requested node configuration is not available|ReqNodeNotAvail|infeasible",
    re.IGNORECASE,
)
"""Ray's autoscaler, kube-scheduler, vLLM on Ray and Slurm on requests that nothing they have can meet. Not among them:
what Ray says "cannot be scheduled right now", which others hold, or which a node brings that is being started."""


def resources_missing(scene: Scene) -> list[Prediction]:
    told = next((text.strip() for text in reversed(scene.last_words()) if _IMPOSSIBLE.search(text)), None)
    return [
        expect(
            "log", "the scheduler says that nothing it has will do", (told or "no such line")[:160], told is not None
        ),
        expect("ranks", "no rank exists", f"{len(scene.ranks)} ranks", not scene.ranks),
        *nobody_works(scene),
    ]
