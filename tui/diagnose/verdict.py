"""The verdict over time: what is judged now, against what was said before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tui.diagnose.clock import Clock
from tui.diagnose.deadlines import deadlines, endless
from tui.diagnose.evidence import evidence
from tui.diagnose.judge import judge
from tui.diagnose.judgement import Judgement
from tui.diagnose.observe import Scene
from tui.diagnose.odd import odd
from tui.diagnose.phases import remedy
from tui.diagnose.since import since_when
from tui.diagnose.stack_facts import heed
from tui.diagnose.wanted import wanted
from tui.history import History
from tui.model import Diagnosis, Launch, PhaseId, RankPhase, Usual, Verdict
from tui.thresholds import RULES_ALONE, Thresholds

OVER = frozenset({"ready", "ended"})
"""Nothing is left to be done about what slowed the start."""

GRAVE = frozenset({"suspect", "hung", "crashed"})
ON_ITS_WAY = frozenset({"progressing", "slow", "waiting", "ready"})
"""What takes a grave verdict back; that nothing can be seen for a while does not."""

TAKEN_BACK_S = 120.0
"""How long the note stands that a graver verdict was withdrawn."""


def diagnose(
    history: History,
    launch: Launch,
    now: float,
    previous: Verdict | None = None,
    usual: Mapping[PhaseId, tuple[Usual, ...]] | None = None,
    least: Thresholds = RULES_ALONE,
) -> Diagnosis:
    """Judge ``launch`` at ``now`` (seconds on the monitor's timeline) from what ``history`` holds.

    Pure: no clock, no I/O; what must outlive a step is in ``previous.memory``. ``usual`` is what the phases of past
    launches like it took, where that is known, ``least`` what its user asks for: both only ever make more patient. The
    facts wanted are for the session to fetch, as fast as it sees fit.
    """
    scene = Scene(history, launch, now, usual, least)
    memory = dict(previous.memory) if previous is not None else {}
    clock = Clock(memory, scene)
    judgement = heed(scene, clock, judge(scene, clock))
    grave = judgement.id in ("suspect", "hung") or (judgement.id == "unknown" and clock.was_grave)
    carried: dict[str, Any] = clock.memory() | {"grave": grave}
    _remember_change(carried, memory, previous, judgement, now)
    explanations, carried["outcomes"] = since_when(judgement.explanations, memory.get("outcomes", {}), now)
    phase, phase_since = _phase(scene, previous, now)
    if judgement.id == "hung" and endless(scene):
        judgement.reasons.append("no time-out of its own ends this wait")
    verdict = Verdict(
        t=now,
        id=judgement.id,
        since=previous.since if previous is not None and previous.id == judgement.id else now,
        strength=judgement.strength,
        cause=judgement.cause,
        phase=phase,
        phase_since=phase_since,
        framework=scene.framework,
        attempt=scene.attempt,
        progress=scene.run.counter.progress() if scene.run.counter is not None else None,
        silent_s=scene.silent_s,
        still_s=max(0.0, now - max(clock.moved, clock.solid)),
        alive=len(scene.ranks) if scene.procs else None,
        expected=scene.expected,
        ranks=_ranks(scene, phase),
        odd=odd(scene, judgement),
        evidence=evidence(scene, judgement),
        explanations=explanations,
        reasons=tuple(judgement.reasons),
        remedy="" if judgement.id in OVER else judgement.remedy or remedy(judgement.cause or ""),
        deadlines=() if judgement.id in ("crashed", "ended") else deadlines(scene, stuck=judgement.id in GRAVE),
        next_probe=(judgement.probe or "stacks") if judgement.id in GRAVE else None,
        taken_back=carried.get("taken_back"),
        memory=carried,
    )
    return Diagnosis(verdict, wanted(scene, judgement))


def _remember_change(
    carried: dict[str, Any], memory: dict[str, Any], previous: Verdict | None, judgement: Judgement, now: float
) -> None:
    """Say openly that a grave verdict was taken back, for a while."""
    if previous is not None and previous.id in GRAVE and judgement.id in ON_ITS_WAY:
        since = now - previous.since
        carried["taken_back"] = f"{previous.id.upper()} was taken back after {since:.0f} s: {judgement.reasons[0]}"
        carried["taken_back_t"] = now
    elif "taken_back" in memory and now - memory.get("taken_back_t", now) < TAKEN_BACK_S and judgement.id not in GRAVE:
        carried["taken_back"], carried["taken_back_t"] = memory["taken_back"], memory["taken_back_t"]


def _phase(scene: Scene, previous: Verdict | None, now: float) -> tuple[str, float]:
    phase = scene.phase
    if previous is not None and previous.phase == phase:
        return phase, previous.phase_since
    if phase == scene.run.phase and scene.run.phase_since is not None:
        return phase, scene.run.phase_since
    started = scene.started_t
    return phase, started if previous is None and started is not None and phase == "import" else now


def _ranks(scene: Scene, phase: str) -> tuple[RankPhase, ...]:
    found: list[RankPhase] = []
    for view in scene.ranks:
        rank = view.member.rank
        log = next((log for log in scene.logs if log.host == view.member.host), None)
        own = scene.run_of(log) if log is not None else scene.run
        run = own if own in scene.runs else scene.run
        said = run.phase_of(rank) if rank is not None else phase
        found.append(RankPhase(rank or 0, view.member.host, phase if said == "unknown" else said))
    return tuple(sorted(found, key=lambda item: item.rank))
