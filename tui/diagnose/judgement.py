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

    ``strength``: weak where a rival stands or nothing could be refuted; firm where every healthy rival was refuted by
    an observation (for what is healthy: the work itself was seen); proven where evidence speaks for itself: a needed
    process is gone, a fatal line, a lock whose owner is dead, a stopped process, an Xid.
    """

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
    if scene.silent_s is None:
        wrong = next((log.error for log in scene.logs if log.error), None)
        return f"no log ({wrong})" if wrong else "no log"
    counter = scene.run.counter
    if counter is None or not counter.total or not counter.done or scene.run.ready:
        return f"log still for {scene.silent_s:.0f} s"
    done, total = (amount(value) for value in (counter.done, counter.total))
    return f"log still for {scene.silent_s:.0f} s, since {done} of {total} {counter.unit or 'items'}"


def amount(value: float) -> str:
    """A count as people write it: 64, 61000, 4.97 G."""
    return f"{value / 1e9:.2f} G" if value >= 1e9 else f"{value / 1e6:.1f} M" if value >= 1e7 else f"{value:.0f}"


def fitting(explanation: Explanation) -> str:
    """What was seen of that which the explanation predicts."""
    return "; ".join(dict.fromkeys(p.seen for p in explanation.predictions if p.outcome == "fits"))
