"""An observation that goes on speaking the same way keeps the time since which it does."""

from __future__ import annotations

from tui.diagnose.since import since_when
from tui.model import Explanation, Prediction


def weighed(outcome: str, cause: str = "rank_wait") -> tuple[Explanation, ...]:
    prediction = Prediction("gpu_util", "0 %", "0 %", outcome)  # type: ignore[arg-type]
    return (Explanation(cause, "the ranks wait", False, True, (prediction,)),)


def test_a_time_stands_while_the_outcome_does_and_begins_anew_when_it_turns() -> None:
    memory: dict[str, tuple[str, float]] = {}
    seen: list[float | None] = []
    for now, outcome in ((10.0, "fits"), (11.0, "fits"), (12.0, "refutes"), (13.0, "refutes"), (14.0, "fits")):
        dated, memory = since_when(weighed(outcome), memory, now)
        seen.append(dated[0].predictions[0].since)
    assert seen == [10.0, 10.0, 12.0, 12.0, 14.0]


def test_an_explanation_that_was_not_weighed_for_a_while_is_not_said_to_have_stood() -> None:
    _, memory = since_when(weighed("fits"), {}, 10.0)
    _, memory = since_when(weighed("fits", "comm_init"), memory, 11.0)
    dated, _ = since_when(weighed("fits"), memory, 12.0)
    assert dated[0].predictions[0].since == 12.0
