"""Since when each observation speaks as it does: kept from verdict to verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from tui.model import Explanation, Prediction

Outcomes: TypeAlias = dict[str, tuple[str, float]]
"""``cause signal`` → what the observation does to the explanation, and since when (s on the monitor's timeline)."""


def since_when(
    explanations: tuple[Explanation, ...], before: Mapping[str, tuple[str, float]], now: float
) -> tuple[tuple[Explanation, ...], Outcomes]:
    """The explanations with the time since which each prediction fits, or is refuted; and what to remember of it."""
    outcomes: Outcomes = {}
    dated: list[Explanation] = []
    for explanation in explanations:
        predictions: list[Prediction] = []
        for prediction in explanation.predictions:
            key, outcome = f"{explanation.cause} {prediction.signal}", prediction.outcome
            kept = before.get(key)
            outcomes[key] = kept = kept if kept is not None and kept[0] == outcome else (outcome, now)
            predictions.append(_since(prediction, kept[1]))
        dated.append(replace(explanation, predictions=tuple(predictions)))
    return tuple(dated), outcomes


def _since(of: Prediction, since: float) -> Prediction:
    """``dataclasses.replace`` would take five times as long, thirty times a verdict."""
    return Prediction(of.signal, of.expects, of.seen, of.outcome, since)
