"""The score says what the scenarios' truth says, to its letter."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tui.errors import Exit, UsageError
from tui.headless.score import run, score

SCENARIOS = Path(__file__).parent.parent / "scenarios"
ALL = sorted(path for path in SCENARIOS.iterdir() if (path / "truth.toml").exists())


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.name)
def test_scenario_passes(path: Path) -> None:
    """No forbidden verdict, an allowed one at the end of each window, the phases, cause and odd ranks right."""
    result = score(path)
    assert result.passed, (result.hard_errors, result.unfinished_windows)
    assert result.phase_at_end is not False and result.cause is not False and result.odd_ranks is not False
    assert (result.phases or 1.0) >= 0.97 and (result.allowed or 1.0) >= 0.95
    assert result.latency_s is None or result.latency_s <= 400


def _with_truth(tmp_path: Path, text: str) -> Path:
    target = tmp_path / "case"
    shutil.copytree(SCENARIOS / "seed-silent-hang", target)
    (target / "truth.toml").unlink()
    (target / "truth.toml").write_text(text)
    return target


def test_a_forbidden_verdict_is_a_hard_error_and_fails(tmp_path: Path) -> None:
    path = _with_truth(
        tmp_path, 'outcome = "ready_slow"\n[[window]]\nfrom = 0\nto = 1090\nallow = ["slow"]\nforbid = ["hung"]'
    )
    result = score(path)
    assert not result.passed and result.hard_errors[0].startswith("hung at ")


def test_the_verdict_at_the_end_of_a_window_counts_and_shares_are_of_time(tmp_path: Path) -> None:
    path = _with_truth(
        tmp_path,
        'outcome = "hung"\nphase_at_end = "serving"\ncauses = ["idle"]\nodd_ranks = [3]\nfault_at = 118.8\n'
        '[[window]]\nfrom = 50\nto = 104\nallow = ["progressing"]\n'
        '[[window]]\nfrom = 50\nto = 150\nallow = ["progressing"]\n'
        '[[phase]]\nfrom = 50\nto = 69\nid = "weight_load"\n[[phase]]\nfrom = 70\nto = 89\nid = "spawn"\n',
    )
    result = score(path)
    assert result.unfinished_windows == ["waiting at the end of 50-150"] or result.unfinished_windows[0].startswith(
        ("suspect", "waiting")
    )
    assert result.phases == 0.5
    assert (result.phase_at_end, result.cause, result.odd_ranks) == (False, False, False)
    assert result.suspect_s is not None and result.latency_s is not None
    assert 20 <= result.suspect_s < result.latency_s <= 150


def test_the_table_and_the_json_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    paths = [SCENARIOS / "seed-silent-hang", SCENARIOS / "vl-core-dead"]
    assert run(paths, json=True) is Exit.READY
    out = json.loads(capsys.readouterr().out)
    assert out["summary"]["passed"] == "2/2" and [s["id"] for s in out["scenarios"]] == [p.name for p in paths]
    assert run(paths, json=False) is Exit.READY
    text = capsys.readouterr().out
    assert "seed-silent-hang" in text and "passed 2/2" in text


def test_a_folder_without_truth_is_one_clear_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"truth\.toml cannot be read"):
        score(tmp_path)
