"""What is thought of a launch at one moment, before it is set against what was said earlier."""

from __future__ import annotations

from dataclasses import dataclass, field

from tui.diagnose.observe import Scene
from tui.diagnose.views import ProcView
from tui.model import CauseId, Explanation, Strength, VerdictId

Culprit = tuple[ProcView | None, int | None, str]
"""(the process where there is one, its rank, why it is named)"""


@dataclass(slots=True)
class Judgement:
    """``reasons``: the best first.

    ``strength``: weak where a rival stands or nothing could be refuted, firm where every healthy rival was refuted by an observation (for what is healthy: the work itself was seen), proven where evidence
    speaks for itself: a needed process is gone, a fatal line, a lock whose owner is dead, a stopped process, an Xid."""

    id: VerdictId
    strength: Strength = "weak"
    cause: CauseId | None = None
    reasons: list[str] = field(default_factory=list[str])
    explanations: tuple[Explanation, ...] = ()
    remedy: str = ""
    """Where it is more particular than the cause's own."""
    probe: str | None = None
    culprits: list[Culprit] = field(default_factory=list[Culprit])
    quiet_s: float = 0.0
    still: bool = False
    """Whether nothing moved in the look window."""


def silence(scene: Scene) -> str:
    """How long the log has been still, in words."""
    return "no log" if scene.silent_s is None else f"log still for {scene.silent_s:.0f} s"


def fitting(explanation: Explanation) -> str:
    """What was seen of that which the explanation predicts."""
    return "; ".join(dict.fromkeys(p.seen for p in explanation.predictions if p.outcome == "fits"))
