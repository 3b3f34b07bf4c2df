"""From a scene to a judgement: decisive evidence first, then progress, then visible work, then the stall.

Time asks, evidence answers: how long nothing was seen decides when to speak, never what is said. The times below count
observed quiet only; a gap in observation stops them.
"""

from __future__ import annotations

from collections.abc import Mapping

from tui.diagnose.clock import Clock
from tui.diagnose.decisive import decide
from tui.diagnose.hypotheses import Hypothesis, seen
from tui.diagnose.hypotheses.healthy import HEALTHY_HYPOTHESES
from tui.diagnose.hypotheses.hung import HUNG_HYPOTHESES
from tui.diagnose.judgement import Culprit, Judgement, silence
from tui.diagnose.observe import Scene
from tui.diagnose.phases import PLAIN_WORK, title
from tui.diagnose.views import ProcView
from tui.model import CauseId, Explanation

SUSPECT_S = 32.0
HUNG_S = 78.0
"""Observed quiet after which a stall that no healthy explanation fits is suspect, and hung; times the patience of the
explanation and of the phase. Compilers pause for up to 20 s between two files, readers for some seconds."""

DECISIVE_S = 12.0
"""The same for evidence that speaks for itself: enough for a second look."""

RECENT_S = 10.0
PHASE_PATIENCE: Mapping[str, float] = {"import": 3.0, "spawn": 2.0, "weight_load": 1.5, "checkpoint_save": 2.0}
"""Modules on a network file system come without visible bytes for a while, and storage has hiccups."""

LOG_ONLY_SUSPECT_S = 900.0
"""A silent log without any signal: longer than nine tenths of the healthy silences on record, and no evidence."""

NOTABLE_S = 60.0
"""From this on, what slowed a start is named when it is over."""

PAUSED_BUILD = 2.0
"""More patience where compilers were at work in this phase already."""


def judge(scene: Scene, clock: Clock) -> Judgement:
    """The judgement at ``scene.now``; ``clock`` is taken on to it."""
    stale_after = max(12.0, 3.2 * scene.interval_s)
    if not scene.hosts or all(host.latest is None for host in scene.hosts):
        clock.note(scene, moves=False)
        return Judgement("unknown", reasons=["nothing has been seen of its hosts yet"])
    decided = decide(scene)
    if decided is not None:
        clock.note(scene, moves=False)
        return decided
    if scene.stale_s > stale_after:
        clock.note(scene, moves=False)
        host = min(scene.hosts, key=lambda host: host.latest.t if host.latest is not None else float("-inf")).name
        return Judgement("unknown", reasons=[f"{host} has not been heard for {scene.stale_s:.0f} s"])
    if scene.run.ready:
        return _served(scene, clock)
    return _start_up(scene, clock)


def _start_up(scene: Scene, clock: Clock) -> Judgement:
    progressing = _progressing(scene)
    if not scene.workers:
        clock.note(scene, moves=False)
        return progressing or _log_only(scene)
    healthy = [(h, h.explain(scene)) for h in HEALTHY_HYPOTHESES if h.concerns(scene.phase)]
    at_work = [(h, e) for h, e in healthy if e.alive and not h.waits]
    clock.note(scene, moves=bool(at_work))
    named = [h.cause for h, _ in at_work if h.cause not in PLAIN_WORK]
    if named and clock.before is not None:
        clock.slow[named[0]] = clock.slow.get(named[0], 0.0) + scene.now - clock.before
    if any(h.cause == "kernel_build" for h, _ in at_work):
        clock.built = scene.phase
    if progressing is not None:
        progressing.explanations = tuple(e for _, e in healthy if e.alive)
        cause, seconds = _main_cause(clock)
        if scene.phase == "training_step" and seconds >= NOTABLE_S:
            progressing.cause = cause
            progressing.reasons.append(f"its start was slow for {seconds:.0f} s: {title(cause)}")
        progressing.quiet_s = clock.quiet_s
        return progressing
    if at_work and not clock.doubtful:
        return _slow(scene, clock, at_work, [e for _, e in healthy])
    waits = [(h, e) for h, e in healthy if e.alive and h.waits]
    if not scene.observed:
        return _unobserved(scene, clock)
    if waits:
        hypothesis, explanation = waits[0]
        reasons = [f"{title(hypothesis.cause)}: {_fitting(explanation)}", silence(scene)]
        return Judgement("waiting", "weak", hypothesis.cause, reasons, tuple(e for _, e in healthy))
    return _stall(scene, clock, [e for _, e in healthy])


# ------------------------------------------------------------------------------------------------- serving and progress


def _served(scene: Scene, clock: Clock) -> Judgement:
    """A ready server is ready for ever, unless its GPUs spin without working: then a request hangs."""
    spin = next(h for h in HUNG_HYPOTHESES if h.cause == "collective_spin")
    explanation = spin.explain(scene) if scene.workers else None
    stuck = explanation is not None and explanation.alive
    clock.note(scene, moves=not stuck)
    if stuck and explanation is not None and clock.quiet_s >= SUSPECT_S * 2:
        hung = clock.quiet_s >= HUNG_S * 2
        reasons = ["ready, but the GPUs have been spinning since", *_stall_reasons(scene)]
        return Judgement(
            "hung" if hung else "suspect",
            "firm" if hung else "weak",
            spin.cause,
            reasons,
            (explanation,),
            probe=spin.probe,
            quiet_s=clock.quiet_s,
        )
    cause, seconds = _main_cause(clock)
    reasons = ["it said that it is ready"]
    if seconds >= NOTABLE_S:
        reasons.append(f"its start was slow for {seconds:.0f} s: {title(cause)}")
    return Judgement("ready", "firm", cause if seconds >= NOTABLE_S else "idle", reasons)


def _main_cause(clock: Clock) -> tuple[CauseId, float]:
    """What held the start up longest, and for how many seconds."""
    return max(clock.slow.items(), key=lambda item: item[1], default=("idle", 0.0))


def _progressing(scene: Scene) -> Judgement | None:
    """Something that counts as progress moved within twice its own usual interval, or within ten seconds."""
    counter_s = min(scene.run.interval_s() or 0.0, 600.0)
    if scene.progress_t is not None and scene.now - scene.progress_t <= max(RECENT_S, 2.0 * counter_s):
        counter = scene.run.counter
        said = f"{counter.done:g} of {counter.total:g} {counter.unit}" if counter and counter.total else scene.phase
        return Judgement("progressing", "firm", reasons=[f"{said}; moved {scene.now - scene.progress_t:.0f} s ago"])
    if scene.news_t is not None and scene.now - scene.news_t <= RECENT_S and any(log.tail for log in scene.logs):
        return Judgement("progressing", "weak", reasons=["the log says something new"])
    young = [view for view in scene.living if scene.now - _seen_t(scene, view) <= max(RECENT_S, scene.look_s)]
    if young:
        return Judgement("progressing", "weak", reasons=[f"{seen.who(young)} started just now"])
    return None


def _seen_t(scene: Scene, view: ProcView) -> float:
    """When a process began, as far as it was seen: one that was there at the first look may be as old as its log."""
    host = scene.history.host(view.member.host)
    proc = host.procs.get((view.member.pid, view.member.start_ticks)) if host is not None else None
    if host is None or proc is None or proc.seen_t == host.first_look_t:
        fresh = host is not None and host.first_t is not None and scene.now - host.first_t <= 3.0 * RECENT_S
        fresh = fresh and not scene.came_late
        return scene.now if fresh and not scene.observed else float("-inf")
    return proc.seen_t


def _log_only(scene: Scene) -> Judgement:
    """No process of it is known: only the log can speak, and silence alone never convicts."""
    silent = scene.silent_s
    if silent is None:
        return Judgement("unknown", reasons=["no process of it and no line of a log has been seen"])
    first = min((host.first_t for host in scene.hosts if host.first_t is not None), default=scene.now)
    if scene.came_late and scene.now - first <= 2.0 * RECENT_S:
        return Judgement("unknown", reasons=[f"watched for {scene.now - first:.0f} s only; its log was still before"])
    if silent >= LOG_ONLY_SUSPECT_S:
        reasons = [f"log still for {silent:.0f} s in {scene.phase}", "no process or GPU of it can be seen to say more"]
        return Judgement("suspect", "weak", reasons=reasons, probe="snapshot", quiet_s=silent)
    return Judgement(
        "slow", "weak", reasons=[f"log still for {silent:.0f} s in {scene.phase}; nothing else can be seen"]
    )


def _unobserved(scene: Scene, clock: Clock) -> Judgement:
    covered = min((view.coverage for view in scene.workers), default=0.0)
    reasons = [f"only {100 * covered:.0f} % of the last {scene.look_s:.0f} s were observed"]
    return Judgement("unknown", reasons=reasons, quiet_s=clock.quiet_s)


# ---------------------------------------------------------------------------------------------------- work and silence


def _slow(
    scene: Scene, clock: Clock, at_work: list[tuple[Hypothesis, Explanation]], healthy: list[Explanation]
) -> Judgement:
    hypothesis, explanation = at_work[0]
    named = hypothesis.cause not in PLAIN_WORK
    reasons = [f"{title(hypothesis.cause)}: {_fitting(explanation)}", silence(scene)]
    return Judgement(
        "slow",
        "firm",
        hypothesis.cause if named else None,
        reasons,
        tuple(healthy),
        quiet_s=clock.quiet_s,
    )


def _stall(scene: Scene, clock: Clock, healthy: list[Explanation]) -> Judgement:
    """Nobody was seen at work. The explanation that stands says how long that must last before it counts."""
    rivals = [(h, h.explain(scene)) for h in HUNG_HYPOTHESES if h.concerns(scene.phase)]
    standing = [(h, e) for h, e in rivals if e.alive]
    hypothesis, explanation = standing[0] if standing else (None, None)
    judgement = Judgement(
        "waiting",
        reasons=_stall_reasons(scene),
        explanations=tuple([e for _, e in standing] + healthy + [e for _, e in rivals if not e.alive]),
        quiet_s=clock.quiet_s,
        still=True,
    )
    suspect_s, hung_s = _times(scene, clock, hypothesis)
    decisive = hypothesis is not None and hypothesis.decisive
    doubts = [] if decisive else _doubts(scene, clock, healthy, hung_s)
    if hypothesis is None and doubts:
        suspect_s *= _OPEN_FOR  # nothing speaks for a hang, and something that may be healthy could not be seen
    if clock.quiet_s < suspect_s:
        judgement.cause = "rank_missing" if hypothesis is not None and hypothesis.cause == "rank_missing" else None
        judgement.reasons.insert(0, f"nothing has moved for {clock.quiet_s:.0f} s: too early to say")
        return judgement
    judgement.culprits = _culprits(scene)
    judgement.cause = hypothesis.cause if hypothesis is not None else None
    judgement.probe = hypothesis.probe if hypothesis is not None else "stacks"
    judgement.reasons += doubts
    if hypothesis is None or explanation is None or clock.quiet_s < hung_s or doubts:
        judgement.id = "unknown" if _may_be_idle(scene) else "suspect"
        return judgement
    judgement.id = "hung"
    judgement.strength = "proven" if decisive else "weak" if any(_open(e) for e in healthy) else "firm"
    if decisive:
        judgement.reasons.insert(0, f"{title(hypothesis.cause)}: {_fitting(explanation)}")
    return judgement


def _doubts(scene: Scene, clock: Clock, healthy: list[Explanation], hung_s: float) -> list[str]:
    """What keeps a stall from being certain, in words."""
    doubts = [
        f"not refuted: {e.title} ({_open_point(e)})" for e in healthy if _open(e) and clock.quiet_s < _OPEN_FOR * hung_s
    ]
    if scene.mute and not scene.gpu_kinds.get("spins"):
        doubts.append("no log says what it should be doing: an idle process looks the same")
    return doubts[:2]


def _may_be_idle(scene: Scene) -> bool:
    """Without a log, a sleeping process that listens, or is alone, is as likely a server or a notebook at rest."""
    return scene.mute and not scene.gpu_kinds.get("spins") and (bool(scene.launch.ports) or len(scene.workers) == 1)


_OPEN_FOR = 4.0
"""So many times the time for ``hung``, an explanation that rests on what could not be read holds the verdict back: no
kernel of a start-up runs for minutes while every thread of every rank sleeps."""

_LOOKED_AT = frozenset({"rank_cpu", "children_cpu", "compilers", "bytes", "gpus", "ranks_compared"})
"""Signals that are read at every tick; where they are unknown, an explanation that rests on them stands."""


def _open(explanation: Explanation) -> bool:
    """A healthy explanation that nothing refutes, because what it rests on could not be seen."""
    first = explanation.predictions[0]
    refuted = any(p.outcome == "refutes" for p in explanation.predictions)
    return not refuted and first.outcome == "unknown" and first.signal in _LOOKED_AT


def _times(scene: Scene, clock: Clock, hypothesis: Hypothesis | None) -> tuple[float, float]:
    """Quiet seconds until suspect and until hung."""
    if hypothesis is not None and hypothesis.decisive:
        return DECISIVE_S, DECISIVE_S
    patience = hypothesis.patience if hypothesis is not None else 2.0
    if hypothesis is None or not hypothesis.particular:
        patience *= PHASE_PATIENCE.get(scene.phase, 1.0)
    if clock.built == scene.phase:
        patience *= PAUSED_BUILD
    if hypothesis is not None and hypothesis.cause == "comm_init" and _unwatched_peers(scene):
        patience *= 2.0
    pace = scene.run.interval_s() or 0.0
    silent = scene.silent_s or 0.0
    if hypothesis is not None and hypothesis.cause != "rank_missing" and silent >= 3.0 * HUNG_S * patience:
        patience = 1.0  # whatever healthy wait looks the same for a while has had its time before anybody looked
    return max(SUSPECT_S * patience, 1.5 * pace), max(HUNG_S * patience, 3.0 * pace)


def _unwatched_peers(scene: Scene) -> bool:
    return scene.launch.world_size is not None and scene.launch.world_size > (scene.expected or 0)


def _stall_reasons(scene: Scene) -> list[str]:
    reasons = [silence(scene), seen.cpu(scene), seen.gpus(scene)]
    reasons.append(f"{seen.builders(scene)}, {seen.children(scene)}, {seen.byte_flow(scene)}")
    return [reason for reason in reasons if reason]


def _fitting(explanation: Explanation) -> str:
    return "; ".join(dict.fromkeys(p.seen for p in explanation.predictions if p.outcome == "fits"))


def _open_point(explanation: Explanation) -> str:
    return "; ".join(p.signal for p in explanation.predictions if p.outcome == "unknown")


def _culprits(scene: Scene) -> list[Culprit]:
    """Who stands elsewhere. Rarity alone is no evidence: it takes a state, an absence or a line not printed."""
    if scene.stopped:
        return [(view, view.member.rank, f"stopped, state {view.state}") for view in scene.stopped]
    if scene.missing:
        return [(None, rank, "has no process on the watched hosts") for rank in scene.missing]
    spins = scene.gpu_kinds.get("spins", 0)
    asleep = [view for view in scene.ranks if view.asleep]
    if spins and 0 < len(asleep) <= spins and all(v.one_core for v in scene.ranks if not v.asleep):
        return [(view, view.member.rank, "asleep while the others spin in a collective") for view in asleep]
    roll = scene.run.behind()
    if roll is not None:
        by_rank = {view.member.rank: view for view in scene.ranks}
        what = f'has not printed "{roll[0].marker.example.split("] ")[-1][:40]}"'
        return [(by_rank[rank], rank, what) for rank in sorted(roll[1]) if rank in by_rank]
    return []
