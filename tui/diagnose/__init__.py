"""Slow or hung, and why: pure functions from a history and the previous verdict to the next one.

``import tui.diagnose`` is cheap; the markers are read when the first log line comes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.thresholds import RULES_ALONE, Thresholds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.history import History
    from tui.model import Diagnosis, Launch, PhaseId, PhaseSpan, Usual, Verdict

__all__ = ["diagnose", "phase_spans"]


def diagnose(
    history: History,
    launch: Launch,
    now: float,
    previous: Verdict | None = None,
    usual: Mapping[PhaseId, tuple[Usual, ...]] | None = None,
    least: Thresholds = RULES_ALONE,
) -> Diagnosis:
    """Judge ``launch`` at ``now``, in seconds on the monitor's timeline. See :mod:`tui.diagnose.verdict`."""
    from tui.diagnose.verdict import diagnose as judge_now  # the history imports the log reader of this package

    return judge_now(history, launch, now, previous, usual, least)


def phase_spans(history: History, launch: Launch, now: float) -> tuple[PhaseSpan, ...]:
    """The launch's phases so far. See :mod:`tui.diagnose.spans`."""
    from tui.diagnose.spans import phase_spans as spans_now

    return spans_now(history, launch, now)
