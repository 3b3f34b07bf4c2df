"""What a person asks for before suspect and hung are said: it delays what rests on silence, and nothing else."""

from __future__ import annotations

import pytest

from tests.simulated_launch import ASLEEP, SimulatedLaunch, sglang_until_loaded
from tui.diagnose import diagnose
from tui.history import History
from tui.model import Verdict
from tui.thresholds import RULES_ALONE, Thresholds

SECONDS = 420


def loaded_and_still(least: Thresholds, killed_after: int | None = None) -> dict[str, float]:
    """When each verdict was said first, in seconds after eight ranks had loaded and fell asleep."""
    sim, history, verdict = SimulatedLaunch(8), History(), None
    first: dict[str, float] = {}

    def look() -> None:
        nonlocal verdict
        history.add(sim.tick(1.0))
        verdict = _judged(history, sim, verdict, least)
        if start is not None:
            first.setdefault(verdict.id, sim.t - start)

    start: float | None = None
    sglang_until_loaded(sim, look)
    start, sim.doing = sim.t, dict.fromkeys(range(8), ASLEEP)
    for second in range(SECONDS):
        if second == killed_after:
            del sim.doing[3]
        look()
    return first


def _judged(history: History, sim: SimulatedLaunch, before: Verdict | None, least: Thresholds) -> Verdict:
    return diagnose(history, sim.launch, sim.t, before, least=least).verdict


def test_both_are_said_no_sooner_than_asked_for() -> None:
    first = loaded_and_still(Thresholds(suspect_s=150.0, hung_s=300.0))
    assert 150 <= first["suspect"] <= 165
    assert 300 <= first["hung"] <= 315


@pytest.mark.parametrize("least", [Thresholds(suspect_s=5.0), Thresholds(hung_s=10.0), Thresholds(5.0, 10.0)])
def test_no_number_makes_the_rules_less_careful(least: Thresholds) -> None:
    assert loaded_and_still(least) == loaded_and_still(RULES_ALONE)


def test_hung_is_never_said_before_suspicion_is_allowed() -> None:
    """Where the rules were sure long before, it is said then, without suspicion first."""
    first = loaded_and_still(Thresholds(suspect_s=200.0))
    assert 200 <= first["hung"] <= 215


def test_a_dead_rank_is_told_at_once_as_ever() -> None:
    patient = loaded_and_still(Thresholds(suspect_s=400.0, hung_s=400.0), killed_after=20)
    assert patient["crashed"] == loaded_and_still(RULES_ALONE, killed_after=20)["crashed"] < 60
