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
