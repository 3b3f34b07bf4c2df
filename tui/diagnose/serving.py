"""A ready server: at rest for ever, unless a request does not end.

An idle server looks like a hung one from outside, and each framework rests in its own way: some sleep in a poll, some
burn a core each. So a request must have been begun, and the ranks be elsewhere than where they rest.
"""

from __future__ import annotations

from tui.diagnose.clock import Clock
from tui.diagnose.hypotheses.hung import HUNG_HYPOTHESES
from tui.diagnose.judgement import Judgement
from tui.diagnose.observe import Scene
from tui.diagnose.patience import no_sooner
from tui.diagnose.phases import title
from tui.diagnose.rest import note_rest
from tui.diagnose.stall import SUSPECT_S, hung_after_s, stall_reasons, standing
from tui.model import Explanation

NOTABLE_S = 60.0
"""From this on, what slowed a start is named when it is over."""

_PATIENCE = 2.0
"""A long prefill keeps the log still for as long as compilers pause in a start-up, and more."""


def served(scene: Scene, clock: Clock) -> Judgement:
    """Ready, or a request that hangs: its GPUs spin without working, or its ranks wait where none rests."""
    if not scene.observed and (stands := standing(scene, clock, "so little was seen of it")) is not None:
        clock.note(scene, solid_t=None)
        return stands
    note_rest(scene, clock.rest)
    scene.rest = clock.rest
    stuck = _request(scene, "collective_spin") or _request(scene, "rank_wait")
    clock.note(scene, solid_t=None if stuck is not None else scene.now)
    suspect_s, hung_s = no_sooner(scene, SUSPECT_S * _PATIENCE, hung_after_s(_PATIENCE))
    if stuck is None or clock.quiet_s < suspect_s:
        return _ready(clock)
    asked = scene.run.request_t is not None or clock.rested or stuck.cause != "collective_spin"
    hung = clock.quiet_s >= hung_s and asked
    telling = next(p.seen for p in stuck.predictions if p.outcome == "fits")
    rest = [reason for reason in stall_reasons(scene) if reason not in telling]
    reasons = [f"ready, but a request does not end: {telling}", *rest]
    if not asked:
        reasons.append("whether anything was asked of it has not been seen")
    verdict, strength = ("hung", "firm") if hung else ("suspect", "weak")
    if hung:
        clock.held = {"cause": stuck.cause, "solid": clock.solid}
    return Judgement(
        verdict, strength, stuck.cause, reasons, (stuck,), probe="stacks", quiet_s=clock.quiet_s, still=True
    )


def _request(scene: Scene, cause: str) -> Explanation | None:
    """The explanation that a request hangs, where it is alive."""
    for hypothesis in HUNG_HYPOTHESES if scene.workers else ():
        if hypothesis.cause == cause and hypothesis.concerns("serving"):
            explanation = hypothesis.explain(scene)
            return explanation if explanation.alive else None
    return None


def _ready(clock: Clock) -> Judgement:
    clock.rested = True
    cause, seconds = clock.main_cause()
    reasons = ["it said that it is ready"]
    if seconds >= NOTABLE_S:
        reasons.append(f"its start was slow for {seconds:.0f} s: {title(cause)}")
    return Judgement("ready", "firm", cause if seconds >= NOTABLE_S else "idle", reasons)
