"""Rival explanations of a silence. Each predicts; an observation refutes it, and the table of both is what is shown.

Adding one is adding an entry to the list of its module: a cause id, the phases that it explains, a function that sets
its predictions against the scene, and the probe that would settle it. Titles and remedies: :mod:`tui.diagnose.phases`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tui.diagnose.observe import Scene
from tui.diagnose.phases import is_healthy, remedy, title
from tui.model import Explanation, Prediction


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """An explanation and where it applies; ``phases`` empty: any.

    ``patience`` stretches the time that a hung explanation must stand unrefuted, where healthy starts are known to look
    the same for a while. ``waits``: it explains a wait for somebody, not work. ``particular``: it rests on where
    a process waits, whatever the phase; ``decides``: whether, here, it rests on evidence that speaks for itself.
    ``blinds``: signals that cannot be read where it is true, so that their absence is no doubt. ``wants``: the looks at
    the hosts whose facts would support or refute it, see :mod:`tui.diagnose.wanted`.
    """

    cause: str
    predict: Callable[[Scene], list[Prediction]]
    phases: frozenset[str] = frozenset()
    not_phases: frozenset[str] = frozenset()
    probe: str = "stacks"
    patience: float = 1.0
    waits: bool = False
    particular: bool = False
    blinds: frozenset[str] = frozenset()
    decides: Callable[[Scene], bool] | None = None
    wants: tuple[str, ...] = ()
    title: str = ""
    """Where two of one cause are to be told apart; else the cause's own."""

    @property
    def healthy(self) -> bool:
        return is_healthy(self.cause)

    def concerns(self, phase: str) -> bool:
        return (not self.phases or phase in self.phases) and phase not in self.not_phases

    def decisive(self, scene: Scene) -> bool:
        return self.decides is not None and self.decides(scene)

    def explain(self, scene: Scene) -> Explanation:
        """Alive where its first prediction, the one that only it makes, holds, and nothing refutes the others."""
        predictions = tuple(self.predict(scene))
        outcomes = [prediction.outcome for prediction in predictions]
        alive = outcomes[0] == "fits" and "refutes" not in outcomes
        said = self.title or title(self.cause)
        return Explanation(self.cause, said, self.healthy, alive, predictions, remedy(self.cause))


def expect(signal: str, expects: str, seen: str, holds: bool | None) -> Prediction:
    """A prediction set against what was seen; ``holds`` ``None`` where that is not known."""
    return Prediction(signal, expects, seen, "unknown" if holds is None else "fits" if holds else "refutes")
