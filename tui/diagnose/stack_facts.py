"""What the stacks said, once somebody took them: it makes a grave verdict's cause precise, names the odd rank, or takes
``hung`` back where the stack that was blamed moves.

The fact is named ``stacks``; its value is that of ``tui.stacks.evidence.Testimony.as_fact``. Stacks alone make nothing
grave: whether anything moves is seen by other signals, and a look that is older than the last movement says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from tui.diagnose.clock import Clock
from tui.diagnose.judgement import Culprit, Judgement
from tui.diagnose.observe import Scene
from tui.diagnose.phases import CAUSES, is_healthy, remedy, title
from tui.model import Explanation, Fact, Prediction
from tui.safetext import clean

STACKS_S = 1800.0
"""For so long a look at the stacks counts, if nothing moved since."""

MOVING_S = 120.0
"""For so long after stacks that moved nothing is called hung. A loop that polls moves too, and for ever."""

SETTLED = frozenset(
    {"stale_lock", "lock_held", "dead_rank", "stopped", "gpu_fault", "shm_full", "io_stall", "gil_deadlock"}
)
"""Causes that rest on what is seen outside of the processes: a stack that merely waits does not replace them."""

WAITS_FOR_ONE = frozenset({"rank_wait", "collective_spin", "comm_init", "thread_deadlock", "graph_capture_deadlock"})
_READ_IT = "Its stack was taken and says what it waits for: look there, then end the launch and start it again."
"""The remedy of such causes is to take the stack; here it was taken."""

_VAGUE = frozenset({"rank_wait", "collective_spin", "comm_init"})
"""What a stack says of those who wait for somebody; it names a cause only where nothing else is known."""


def heed(scene: Scene, clock: Clock, judgement: Judgement) -> Judgement:
    """The same judgement with what the newest look at the stacks adds; changed in place."""
    fact = _newest(scene, clock) if judgement.id in ("suspect", "hung") else None
    if fact is None:
        return judgement
    said = cast("Mapping[str, Any]", fact.value)
    text = clean(str(said.get("text") or ""), 600)
    if said.get("moving") is True:
        if judgement.id == "hung" and judgement.strength != "proven" and scene.now - fact.t < MOVING_S:
            judgement.id, judgement.strength = "suspect", "weak"
            clock.held = None
        judgement.reasons.insert(0, f"the stacks move: {text}")
        return judgement
    judgement.reasons.insert(min(1, len(judgement.reasons)), f"stacks: {text}")
    named = _ids(said.get("causes"))
    cause = _cause(judgement, named)
    if cause != judgement.cause:
        judgement.cause = cause
        judgement.remedy = ""
    odd = _culprits(scene, said.get("odd"))
    if cause is not None and cause in named:
        judgement.explanations = _explained(judgement.explanations, cause, text, odd)
    if odd:
        judgement.culprits = odd
        judgement.probe = "dumps"
        if judgement.cause in WAITS_FOR_ONE:
            judgement.remedy = _READ_IT
    return judgement


def _explained(
    explanations: tuple[Explanation, ...], cause: str, text: str, odd: list[Culprit]
) -> tuple[Explanation, ...]:
    """With what the stacks say in the table. What was expected of a process seen from outside does not speak against a
    cause that was read inside of it."""
    same = [e for e in explanations if e.cause == cause] or [Explanation(cause, title(cause), False, True)]
    known = min(same, key=lambda e: sum(p.outcome == "refutes" for p in e.predictions))  # asleep, or burning a core
    outside = tuple(p for p in known.predictions if p.outcome != "refutes" and p.signal != "stacks")
    read = Prediction("stacks", "a stack that stands there", text, "fits")
    ranks = [rank for _, rank, _ in odd if rank is not None]
    said = known.title if known.alive else title(cause)
    if cause == "thread_deadlock" and len(ranks) == 1:
        said = f"threads of rank {ranks[0]} wait for each other, and the others for it"
    told = replace(known, title=said, alive=True, predictions=(read, *outside), remedy=remedy(cause))
    return (told, *(e for e in explanations if e.cause != cause))


def _newest(scene: Scene, clock: Clock) -> Fact | None:
    """The newest look at this launch's stacks since which nothing moved."""
    since = scene.now - max(0.0, clock.quiet_s)
    for fact in reversed(scene.facts("stacks", STACKS_S)):
        value: object = fact.value
        if isinstance(value, dict) and cast("Mapping[str, Any]", value).get("launch") in (None, scene.launch.id):
            return fact if fact.t >= since else None
    return None


def _ids(value: object) -> list[str]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [item for item in items if isinstance(item, str) and item in CAUSES and not is_healthy(item)]


def _cause(judgement: Judgement, named: list[str]) -> str | None:
    """The stacks' first cause that is particular, unless what stands is known from outside, or is among theirs."""
    if judgement.strength == "proven" or judgement.cause in SETTLED:
        return judgement.cause
    particular = [cause for cause in named if cause not in _VAGUE]
    if particular:
        return judgement.cause if judgement.cause in particular else particular[0]
    return judgement.cause or next(iter(named), None)


def _culprits(scene: Scene, value: object) -> list[Culprit]:
    found: list[Culprit] = []
    views = {(view.member.host, view.member.pid): view for view in scene.living}
    for item in cast("list[object]", value) if isinstance(value, list) else []:
        row = cast("Mapping[str, Any]", item) if isinstance(item, dict) else cast("Mapping[str, Any]", {})
        rank, why = row.get("rank"), row.get("why")
        pid = row.get("pid")
        view = views.get((str(row.get("host")), pid if isinstance(pid, int) else -1))
        if isinstance(why, str) and (view is not None or isinstance(rank, int)):
            own = f"rank {rank} "
            found.append((view, rank if isinstance(rank, int) else None, clean(why, 400).removeprefix(own)))
    return found
