"""Which looks at the hosts would tell the explanations of the moment apart: nothing is asked while a launch visibly
goes on, but for one look when it is first seen, against which counters are compared later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tui.diagnose.facts import concerning
from tui.diagnose.hypotheses import Hypothesis
from tui.diagnose.hypotheses.healthy import HEALTHY_HYPOTHESES
from tui.diagnose.hypotheses.hung import HUNG_HYPOTHESES
from tui.diagnose.judgement import Judgement
from tui.diagnose.observe import Scene
from tui.model import Prediction, Wanted
from tui.untyped import mapped

EVERY_S: Mapping[str, float] = {"locks": 15.0, "surroundings": 10.0, "kernel_log": 15.0, "sockets": 10.0}
EVERY_ELSE_S = 20.0
"""How old the answer to a look may be, in seconds, before it is asked for again."""

AT_WORK_S = 30.0
"""The same of a launch that is seen at work."""

REFUTED_S = 60.0
"""The same where every explanation that asks for it is refuted by something else."""

PACE, SLOWEST_S = 0.2, 150.0
"""A stall that has lasted for long is looked at more rarely: after a fifth of its length, but before the answers are
too old to count."""

DEATH_S = 120.0
"""For so long after a death it is asked what the host says of it."""

QUIET_LOG_S = 20.0
"""For so long a log is still before a launch that is at work is asked what slows it."""

FIRST_LOOK = "surroundings"
OF_THE_DEAD = ("kernel_log", "surroundings")
DOUBTFUL = frozenset({"waiting", "suspect", "hung", "unknown"})
OF_LOOKS = frozenset({"lock_file", "lock_owner", "shm", "pipe", "kernel_line", "cgroup", "sockets", "bytes", "rdma"})
"""Signals that a look may show otherwise: bytes, since what is received is seen by looks alone."""

MOST_PROCS = 64
ALWAYS = 1e9


def wanted(scene: Scene, judgement: Judgement) -> tuple[Wanted, ...]:
    """The looks that are due, host by host."""
    return tuple(
        Wanted(host, what, _arguments(scene, what, host, procs))
        for host, procs in _processes(scene).items()
        for what, every_s in _kinds(scene, judgement).items()
        if not _looked(scene, what, host, every_s, procs)
    )


def _kinds(scene: Scene, judgement: Judgement) -> dict[str, float]:
    """The kinds of look that would help now, and how old an answer may be."""
    kinds: dict[str, float] = {FIRST_LOOK: ALWAYS}
    if judgement.id == "crashed":
        return dict.fromkeys(OF_THE_DEAD, AT_WORK_S / 2) if _died_lately(scene) else kinds
    slower = AT_WORK_S if judgement.id == "slow" else min(SLOWEST_S, PACE * judgement.quiet_s)
    for hypothesis, open_yet in _asking(scene, judgement):
        for what in hypothesis.wants:
            every_s = max(slower, EVERY_S.get(what, EVERY_ELSE_S) if open_yet else REFUTED_S)
            kinds[what] = min(every_s, kinds.get(what, ALWAYS))
    if judgement.still:
        kinds["threads"] = max(EVERY_ELSE_S, min(REFUTED_S, slower))
    return kinds


def _died_lately(scene: Scene) -> bool:
    ended = [died for view in scene.dead if (died := scene.died_t(view)) is not None]
    return any(scene.now - died <= DEATH_S for died in ended) or scene.watched_s <= DEATH_S


def _asking(scene: Scene, judgement: Judgement) -> Iterable[tuple[Hypothesis, bool]]:
    """The explanations that a look could settle, each with whether nothing refutes it yet."""
    rivals: tuple[Hypothesis, ...] = ()
    if judgement.still or judgement.id in DOUBTFUL:
        rivals = (*HEALTHY_HYPOTHESES, *HUNG_HYPOTHESES)
    elif judgement.id == "slow" and (scene.silent_s or 0.0) >= QUIET_LOG_S:
        rivals = HEALTHY_HYPOTHESES
    refuted = {e.cause for e in judgement.explanations if any(_for_good(p) for p in e.predictions)}
    return [(h, h.cause not in refuted) for h in rivals if h.wants and h.concerns(scene.phase)]


def _for_good(prediction: Prediction) -> bool:
    """Whether it was refuted by something else than a look, which the next look may show otherwise."""
    return prediction.outcome == "refutes" and prediction.signal not in OF_LOOKS


def _processes(scene: Scene) -> dict[str, list[list[int]]]:
    """The living processes of each host, the ranks first; those that have ended where none lives any more."""
    found: dict[str, list[list[int]]] = {}
    for view in [*scene.workers, *scene.helpers] or scene.procs:
        procs = found.setdefault(view.member.host, [])
        if len(procs) < MOST_PROCS:
            procs.append([view.member.pid, view.member.start_ticks])
    return found


def _looked(scene: Scene, what: str, host: str, every_s: float, procs: list[list[int]]) -> bool:
    """Whether an answer is there that is not too old, and is about these processes."""
    if what == "threads":
        return any(
            fact.t >= scene.now - every_s for h in scene.hosts if h.name == host for fact in h.facts.get(what, ())
        )
    return any(at == host for at, _ in concerning(scene, what, every_s))


def _arguments(scene: Scene, what: str, host: str, procs: list[list[int]]) -> dict[str, Any]:
    ranks = [[v.member.pid, v.member.start_ticks] for v in scene.workers if v.member.host == host]
    arguments: dict[str, Any] = {"procs": ranks or procs if what in ("threads", "sockets") else procs}
    if what == "kernel_log":
        arguments["since_s"] = round(scene.now - scene.started_t + 5.0 if scene.started_t is not None else 3600.0, 1)
    if what == "surroundings" and (left := _groups_of_the_dead(scene, host)):
        arguments["left"] = left
    if what == "sockets" and (master := _master(scene, host, procs)) is not None:
        arguments["master"] = master
    return arguments


def _groups_of_the_dead(scene: Scene, host: str) -> list[Any]:
    """The control groups of processes that have ended, as they were seen while they lived."""
    dead = {view.member.pid for view in scene.dead if view.member.host == host}
    found: dict[str, Any] = {}
    for at, fact in concerning(scene, "surroundings", ALWAYS) if dead else ():
        for folders, pids in mapped(fact.value).get("groups", ()):
            if at == host and folders and dead & {*pids}:
                found[str(folders)] = [folders, sorted(dead & {*pids})]
    return list(found.values())


def _master(scene: Scene, host: str, procs: list[list[int]]) -> list[Any] | None:
    """Where the ranks are to meet, by their environment (torch.distributed, ``env://``)."""
    kept = scene.history.host(host)
    for pid, start_ticks in procs:
        identity = kept.identities.get((pid, start_ticks)) if kept is not None else None
        port = identity.env.get("MASTER_PORT", "") if identity is not None else ""
        if identity is not None and port.isdigit() and identity.env.get("MASTER_ADDR"):
            return [identity.env["MASTER_ADDR"], int(port)]
    return None
