"""Nobody is seen at work: which explanation stands, and for how long it must stand before it counts.

Time asks, evidence answers: how long nothing was seen decides when to speak, never what is said. All times count
observed quiet only; a gap in observation stops them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from tui.diagnose.clock import Clock
from tui.diagnose.culprits import awaited, culprits
from tui.diagnose.facts.locks import held_lock
from tui.diagnose.hypotheses import Hypothesis, seen
from tui.diagnose.hypotheses.hung import HUNG_HYPOTHESES
from tui.diagnose.hypotheses.workers import disbelieved
from tui.diagnose.judgement import Judgement, fitting, silence
from tui.diagnose.observe import Scene
from tui.diagnose.patience import patient
from tui.diagnose.phases import AFTER_WEIGHTS, PLAIN_WORK, title
from tui.model import Explanation

SUSPECT_S = 32.0
"""Observed quiet after which a stall that no healthy explanation fits is suspect, times the patience of the explanation
and of the phase. Compilers pause for up to 20 s between two files, readers for some seconds."""

CONFIRM_S = 46.0
"""So much longer it must last to be called hung, times the square root of the patience: what asks for patience is in
question before the stall is suspect, and each further look that sees nothing counts for more."""

DECISIVE_S = 12.0
"""The same for evidence that speaks for itself: enough for a second look, however rare the looks are."""

SECOND_LOOK_S = 20.0
"""For so long nobody must have been seen at work before ``hung``, however long the log has been still."""

LONG_SILENT_S = 120.0
NEW_HERE_S = 50.0
"""Of a launch that had been silent for long when it was first seen, nothing is said for so long: to call it a wait
would be a guess."""

NO_HYPOTHESIS = 2.0
"""The patience where no hung explanation stands either."""

MOST_PATIENCE = 5.0
"""No stall is watched for longer than four and a half minutes before it is called, but for what names its own."""

STANDS_S = 300.0
"""For so long a hang stands as it was called though its host is not heard."""

LOOKS = 3.1
"""Nothing is suspect before it was looked at so many times: rare looks can all fall into pauses."""

PHASE_PATIENCE: Mapping[str, float] = {
    "import": 5.0,
    "spawn": 3.0,
    "weight_load": 1.5,
    "compile": 1.5,
    "data_index": 1.5,
    "checkpoint_save": 4.0,
    "unknown": 1.25,
}
"""Modules on a network file system come without visible bytes for a while, storage has hiccups, compilers pause, a
checkpoint is written by threads and servers that nobody sees, and of a job of no known framework it is not known what
it should be doing."""

FIRST_STEP = 2.5
"""More patience in training until its pace is known: a first step takes up to five minutes."""

SLEEPING_TRAINING = 4.0
"""More patience in training where every rank sleeps and no GPU spins: evaluations and data waits take two minutes and
more, and a hung collective spins."""

NOT_ALL_THERE = 2.0
"""More patience in setting up communicators while a rank has not said that it has come: it may still import."""

PAUSED_BUILD = 2.0
"""More patience where compilers or busy children were at work in this phase already."""

NO_LOG = 2.0
"""More patience where no log tells the phase and no weights are there: it may be setting up communicators."""

UNWATCHED_PEERS = 1.7
"""More patience where ranks on hosts that are not watched may be at work; a training job whose pace is known needs
none."""

NODES_TO_COME = 2.0
"""More patience where a launcher has no rank yet: nodes are allotted and images pulled for many minutes, and torchrun
itself gives up after ten."""

BLOCKED_THREAD = 2.0
"""More patience where a sweep saw a thread busy or blocked in a process whose main thread sleeps."""

_OPEN_FOR = 4.0
"""So many times the time for ``hung``, an explanation that rests on what could not be read holds the verdict back: no
kernel of a start-up runs for minutes while every thread of every rank sleeps."""

_RULED_OUT_CHARS = 80
"""A line of a band that is read in seconds; the table of explanations has them all."""

_SHORT = {  # named first: a capture is what most people take a silence for
    "gpu_work": "graph capture or other GPU work",
    "cpu_work": "CPU work",
    "rank0_preparing": "one rank preparing for all",
    "cpu_bound_capture": "capture on the CPU",
    "torch_compile": "torch.compile",
    "builder_elsewhere": "a builder on another host",
}

ASLEEP_BESIDE = frozenset({"collective_spin", "graph_capture_deadlock", "rank_wait", "comm_init"})
"""Causes whose victims are seen, and whose culprit is found by comparing ranks."""

_LOOKED_AT = frozenset({"rank_cpu", "children_cpu", "compilers", "bytes", "gpus", "ranks_compared"})
"""Signals that are read at every tick; where they are unknown, an explanation that rests on them stands."""


def judge_stall(scene: Scene, clock: Clock, healthy: list[Explanation]) -> Judgement:
    """The judgement where nobody was seen at work."""
    healthy = sorted(healthy, key=lambda e: e.cause not in PLAIN_WORK)
    rivals = [(h, h.explain(scene)) for h in HUNG_HYPOTHESES if h.concerns(scene.phase)]
    standing = [(h, e) for h, e in rivals if e.alive]
    hypothesis, explanation = standing[0] if standing else (None, None)
    seen_so = clock.stall(True)
    quiet_s = clock.quiet_s if disbelieved(scene) else clock.still_s
    judgement = Judgement(
        "waiting",
        reasons=stall_reasons(scene),
        explanations=tuple([e for _, e in standing] + healthy + [e for _, e in rivals if not e.alive]),
        quiet_s=quiet_s,
        still=True,
    )
    suspect_s, hung_s = times(scene, clock, hypothesis)
    decisive = hypothesis is not None and hypothesis.decisive(scene)
    doubts = [] if decisive else _doubts(scene, quiet_s, _sighted(healthy, hypothesis), hung_s)
    if hypothesis is None and doubts:
        suspect_s *= _OPEN_FOR  # nothing speaks for a hang, and something that may be healthy could not be seen
    held = _held(clock)
    if quiet_s < suspect_s and not held:
        return _early(scene, clock, judgement, hypothesis)
    judgement.culprits = culprits(scene)
    judgement.cause = hypothesis.cause if hypothesis is not None else held
    judgement.probe = hypothesis.probe if hypothesis is not None else "stacks"
    if explanation is not None and hypothesis is not None:
        judgement.reasons = _note(scene, clock, hypothesis, explanation, quiet_s)
        _name(judgement)
    judgement.reasons[2:2] = _ruled_out(scene, healthy)
    judgement.reasons += doubts
    sure = hypothesis is not None and quiet_s >= hung_s and not doubts
    sure = sure and (
        decisive or (seen_so >= SECOND_LOOK_S and hypothesis is not None and _may_convict(scene, hypothesis))
    )
    if not sure and not held:
        judgement.id = "unknown" if may_be_idle(scene) else "suspect"
        return judgement
    judgement.id = "hung"
    judgement.strength = "proven" if decisive else "weak" if any(_open(e) for e in healthy) else "firm"
    clock.held = {"cause": judgement.cause, "solid": clock.solid}
    return judgement


def _held(clock: Clock) -> str | None:
    """The cause of a ``hung`` that stands until something moves: a reading that flickers does not undo it."""
    return clock.held["cause"] if clock.held is not None and clock.held["solid"] == clock.solid else None


def standing(scene: Scene, clock: Clock, unseen: str) -> Judgement | None:
    """``hung`` as it was called, while nothing can be seen for some time: what will not go on by itself has not."""
    cause = _held(clock)
    if cause is None or scene.stale_s > STANDS_S:
        return None
    reasons = [f"{title(cause)}: called before, and it stands; now {unseen}", silence(scene)]
    return Judgement(
        "hung", "weak", cause, reasons, probe="stacks", culprits=culprits(scene), quiet_s=clock.quiet_s, still=True
    )


def _early(scene: Scene, clock: Clock, judgement: Judgement, hypothesis: Hypothesis | None) -> Judgement:
    """Too early to say more than whom it waits for."""
    judgement.cause = "rank_missing" if _is_missing(hypothesis) else None
    whom = awaited(scene) or ("the ranks wait for each other" if len(scene.ranks) > 1 else "it waits")
    judgement.reasons.insert(0, f"{whom}; {_unmoved(scene, clock, judgement.quiet_s)}: too early to say")
    if scene.came_late and (scene.silent_s or 0.0) >= LONG_SILENT_S and scene.watched_s < NEW_HERE_S:
        judgement.id = "unknown"
    return judgement


def _is_missing(hypothesis: Hypothesis | None) -> bool:
    return hypothesis is not None and hypothesis.cause == "rank_missing"


def _may_convict(scene: Scene, hypothesis: Hypothesis) -> bool:
    """What may be at work on a host that is not watched is at best suspect: a lock's builder, a late node."""
    if hypothesis.cause == "rank_missing":
        return bool(scene.missing)
    return hypothesis.cause != "lock_held" or held_lock(scene) is not None or scene.run.waits_for_baton is None


def _note(scene: Scene, clock: Clock, hypothesis: Hypothesis, explanation: Explanation, quiet_s: float) -> list[str]:
    """What speaks for the cause first, then what was seen of ranks, GPUs, children and bytes; how long, at the end."""
    telling = _telling(explanation)
    quiet, *seen_so = stall_reasons(scene)
    plain = hypothesis.cause == "rank_wait" and explanation.predictions[0].signal == "ranks"
    particular = [] if plain else [f"{explanation.title}: {telling}"]
    rest = [reason for reason in seen_so if not any(reason in said for said in particular)]
    return [*particular, *rest, f"{quiet}; {_unmoved(scene, clock, quiet_s)}"]


def _unmoved(scene: Scene, clock: Clock, quiet_s: float) -> str:
    """For how long nothing has moved; after a gap in observation it is said that only watched time is counted."""
    what = "nothing but busy cores" if disbelieved(scene) else "nothing"
    if clock.blind > scene.look_s:
        return f"{what} has moved in the {quiet_s:.0f} s that were watched"
    return f"{what} has moved for {quiet_s:.0f} s"


def _name(judgement: Judgement) -> None:
    """Whose stack to take, where somebody is elsewhere than the others and the cause's own remedy does not say so."""
    named = [(rank, why) for _, rank, why in judgement.culprits if rank is not None]
    if not named or len({why for _, why in named}) > 1 or judgement.cause not in ASLEEP_BESIDE:
        return
    who = seen.ranks([rank for rank, _ in named])
    judgement.remedy = f"Take the stack of {who}: what it waits for holds the others up. [py-spy]"


def _ruled_out(scene: Scene, healthy: list[Explanation]) -> list[str]:
    """The healthy explanations that an observation refutes in what only they predict, in one line."""
    names = _SHORT if scene.phase in AFTER_WEIGHTS - {"graph_capture"} else {**_SHORT, "gpu_work": "GPU work"}
    refuted = [names.get(e.cause, e.cause.replace("_", " ")) for e in healthy if e.predictions[0].outcome == "refutes"]
    shown = len(refuted)
    while shown > 1 and len(", ".join(refuted[:shown])) > _RULED_OUT_CHARS:
        shown -= 1
    more = f" and {len(refuted) - shown} more" if shown < len(refuted) else ""
    return [f"ruled out: {', '.join(refuted[:shown])}{more}"] if refuted else []


def _telling(explanation: Explanation) -> str:
    """What speaks for it that the general observations do not say already."""
    first = explanation.predictions[0]
    return first.seen if first.outcome == "fits" else fitting(explanation)


def _sighted(healthy: list[Explanation], hypothesis: Hypothesis | None) -> list[Explanation]:
    """Those that do not rest on a signal which cannot be read if ``hypothesis`` is true."""
    blind = hypothesis.blinds if hypothesis is not None else frozenset[str]()
    return [e for e in healthy if e.predictions[0].signal not in blind]


def _doubts(scene: Scene, quiet_s: float, healthy: list[Explanation], hung_s: float) -> list[str]:
    """What keeps a stall from being certain, in words."""
    doubts = [
        f"not refuted: {e.title} ({_open_point(e)})" for e in healthy if _open(e) and quiet_s < _OPEN_FOR * hung_s
    ]
    if scene.mute and not scene.gpu_kinds.get("spins"):
        doubts.append("no log says what it should be doing: an idle process looks the same")
    return doubts[:2]


def may_be_idle(scene: Scene) -> bool:
    """Without a log, sleepers that listen, hold GPU memory, are one process or no ranks, are as likely at rest."""
    resting = bool(scene.launch.ports) or scene.has_context or len(scene.workers) == 1 or not scene.ranks
    return scene.mute and not scene.gpu_kinds.get("spins") and resting


def _open(explanation: Explanation) -> bool:
    """A healthy explanation that nothing refutes, because what it rests on could not be seen."""
    first = explanation.predictions[0]
    refuted = any(p.outcome == "refutes" for p in explanation.predictions)
    return not refuted and first.outcome == "unknown" and first.signal in _LOOKED_AT


def _open_point(explanation: Explanation) -> str:
    return ", ".join(p.signal for p in explanation.predictions if p.outcome == "unknown") + " not known"


def times(scene: Scene, clock: Clock, hypothesis: Hypothesis | None) -> tuple[float, float]:
    """Quiet seconds until suspect and until hung."""
    if hypothesis is not None and hypothesis.decisive(scene):
        enough = DECISIVE_S if scene.interval_s <= 0.5 * DECISIVE_S else min(DECISIVE_S, 0.7 * scene.interval_s)
        return enough, enough
    pace = scene.run.interval_s() or 0.0
    patience = hypothesis.patience if hypothesis is not None else NO_HYPOTHESIS
    if hypothesis is None or not (hypothesis.particular or _is_missing(hypothesis)):
        patience = min(MOST_PATIENCE, patience * max(_circumstances(scene, clock, pace)))
    silent = scene.now - clock.heard if clock.heard is not None and not clock.moved_here(scene) else 0.0
    if hypothesis is not None and not _is_missing(hypothesis) and silent >= 2.0 * (SUSPECT_S + CONFIRM_S) * patience:
        patience = max(1.0, patience / 2.0)  # what looks the same for a while had its time before anybody looked
    if scene.only_launchers:
        patience *= NODES_TO_COME
    rhythm = max(pace, clock.pauses.get(scene.phase, 0.0))
    least = LOOKS * scene.interval_s
    suspect_s, hung_s = max(SUSPECT_S * patience, 1.5 * rhythm, least), max(hung_after_s(patience), 3.0 * rhythm, least)
    return patient(scene, suspect_s, hung_s)


def hung_after_s(patience: float) -> float:
    """Quiet seconds until hung: 78 at a patience of 1, 176 at 3, 386 at 8."""
    return SUSPECT_S * patience + CONFIRM_S * math.sqrt(patience)


def _circumstances(scene: Scene, clock: Clock, pace: float) -> Iterator[float]:
    """What asks for patience here, as factors; the greatest counts."""
    training = scene.phase == "training_step"
    yield PHASE_PATIENCE.get(scene.phase, 1.0)
    if training and not pace:
        yield FIRST_STEP
    elif training and not scene.spinning:
        yield SLEEPING_TRAINING
    if scene.mute and not scene.has_weights:
        yield NO_LOG
    if scene.peers_elsewhere and not (training and pace):
        yield UNWATCHED_PEERS
    if scene.phase in ("spawn", "dist_init") and _somebody_unheard(scene):
        yield NOT_ALL_THERE
    if scene.phase in clock.built:
        yield PAUSED_BUILD
    if any(not swept.asleep for swept in scene.sweeps.values()):
        yield BLOCKED_THREAD


def _somebody_unheard(scene: Scene) -> bool:
    """Whether ranks print their own lines, and a living one has printed none."""
    heard = {rank for run in scene.runs for rank in run.ranks}
    return bool(heard) and any(view.member.rank not in heard for view in scene.ranks)


def _gpus(scene: Scene) -> str:
    """What the GPUs do and, of idle ones, what that refutes: what most people take a silence for."""
    said = seen.gpus(scene)
    if scene.gpu_kinds.keys() != {"idle"}:
        return said
    capture = scene.has_weights and scene.phase in AFTER_WEIGHTS and all(view.asleep for view in scene.workers)
    return f"{said}: {'no graph capture, ' if capture else ''}no kernel runs"


def stall_reasons(scene: Scene) -> list[str]:
    """What is seen of a stall, the log first."""
    reasons = [silence(scene), seen.cpu(scene, brief=True), _gpus(scene)]
    reasons.append(f"{seen.builders(scene)}, {seen.children(scene)}, {seen.byte_flow(scene)}")
    return [reason for reason in reasons if reason]
