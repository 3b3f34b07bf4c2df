"""Recordings: what they give back, what they never look at, and that the seeds are told apart however they are seen."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests import scenario_variants as variants
from tui.collect.replay import START_WALL, Replay
from tui.errors import Exit, UsageError
from tui.headless import replay as headless_replay
from tui.headless.replay import verdicts
from tui.headless.verdict_json import row
from tui.history import History
from tui.model import Sample, Verdict

SCENARIOS = Path(__file__).parent.parent / "scenarios"
HANG, SLOW = SCENARIOS / "seed-silent-hang", SCENARIOS / "seed-slow-capture"


def _judged(path: Path) -> list[Verdict]:
    return [verdict for _, _, verdict in verdicts(Replay(path))]


def _samples(path: Path) -> list[Sample]:
    return [sample for _, samples, _ in Replay(path).steps() for sample in samples]


def test_the_silent_hang_ends_hung_with_the_true_reasons() -> None:
    last = _judged(HANG)[-1]
    assert (last.id, last.phase, last.cause, last.strength) == ("hung", "post_load", "rank_wait", "firm")
    said = "; ".join(last.reasons)
    assert "all 8 ranks asleep in futex_do_wait" in said and "8 GPUs at 0 %" in said and "no compiler" in said
    assert not last.odd, "no rank stands elsewhere, and none is accused"


def test_the_slow_capture_is_never_suspect_and_says_why_it_is_slow() -> None:
    judged = _judged(SLOW)
    assert not {verdict.id for verdict in judged} & {"suspect", "hung", "crashed"}
    slow = next(v for v in judged if v.t == 400.0)
    assert (slow.id, slow.cause, slow.phase) == ("slow", "kernel_build", "graph_capture")
    assert "ptxas" in slow.reasons[0] and "rank 0" in slow.reasons[0]
    assert judged[-1].id == "ready"


VARIANTS: dict[str, Callable[[Path, Path], Path]] = {
    "thinned to every 2nd sample": variants.thinned,
    "thinned to every 3rd sample": partial(variants.thinned, every=3),
    "jittered": variants.jittered,
    "ranks and GPUs permuted": variants.permuted,
    "power scaled": variants.power_scaled,
    "log stamps removed": variants.unstamped,
    "unknown heartbeats mixed in": variants.with_heartbeats,
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_good_engine_does_not_notice(name: str, tmp_path: Path) -> None:
    """The same truth seen otherwise: same final verdict, and no alarm at the healthy one."""
    hang = _judged(VARIANTS[name](HANG, tmp_path / "hang"))
    assert (hang[-1].id, hang[-1].phase, hang[-1].cause) == ("hung", "post_load", "rank_wait")
    assert next(v.t for v in hang if v.id == "hung") <= 118.8 + 150
    slow = _judged(VARIANTS[name](SLOW, tmp_path / "slow"))
    assert slow[-1].id == "ready" and not {v.id for v in slow} & {"suspect", "hung", "crashed"}


@pytest.mark.parametrize("at", [200.0, 600.0])
def test_attached_in_the_silence_the_hang_is_called_and_the_build_is_not(at: float, tmp_path: Path) -> None:
    hang = _judged(variants.attached_late(HANG, tmp_path / "hang", at))
    assert hang[-1].id == "hung" and next(v.t for v in hang if v.id == "hung") <= at + 120
    assert (hang[0].silent_s or 0) >= at - 120, "the silence begins at the log's last write, not at our coming"
    slow = _judged(variants.attached_late(SLOW, tmp_path / "slow", at))
    assert not {v.id for v in slow} & {"suspect", "hung", "crashed"}


@pytest.mark.parametrize(("path", "at"), [(HANG, 300.0), (SLOW, 400.0), (SCENARIOS / "mg-2x8-late", 250.0)])
def test_nothing_is_read_of_what_lies_after_the_clock(path: Path, at: float, tmp_path: Path) -> None:
    """A copy that ends at ``at`` gives the same rows up to then."""
    short = variants.truncated(path, tmp_path / path.name, at)

    def rows(folder: Path) -> list[str]:
        found = verdicts(Replay(folder))
        return [json.dumps(row(t, "", launch, verdict)) for t, launch, verdict in found if t <= at]

    assert rows(short) == rows(path)


def test_rates_become_counters_of_stable_processes() -> None:
    samples = [s for s in _samples(SLOW) if s.procs]
    assert len({p.pid for s in samples for p in s.procs}) == 9, "eight ranks and the driver"
    by_pid: dict[int, list[float]] = {}
    for sample in samples:
        for proc in sample.procs:
            by_pid.setdefault(proc.pid, []).append(proc.cpu_s or 0.0)
    assert all(values == sorted(values) for values in by_pid.values())
    history = History()
    for sample in samples:
        if sample.t <= 300:
            history.add(sample)
    zero = next(i for s in samples for i in s.new if i.rank == 0)
    burned = history.rate("host1", zero.pid, zero.start_ticks, "compilers_cpu_s", 60.0, 300.0)
    assert burned.value is not None and 7 <= burned.value <= 14, "some ten cores of ptxas and cicc"


def test_a_late_attach_gives_the_log_as_one_lump_and_no_earlier_signals(tmp_path: Path) -> None:
    samples = _samples(variants.attached_late(HANG, tmp_path / "h", 300.0))
    first = next(s for s in samples if s.logs)
    assert first.t == 300.0 and all(line.t is None for line in first.logs[0].lines)
    assert first.logs[0].mtime == pytest.approx(START_WALL + 118.8, abs=0.2)
    assert min(s.t for s in samples) >= 300.0


def test_processes_that_leave_are_gone_and_names_that_are_no_numbers_become_roles() -> None:
    samples = _samples(SCENARIOS / "vl-core-dead")
    assert sum(len(s.gone) for s in samples) == 4
    roles = {i.role for s in samples for i in s.new}
    assert roles == {"api", "engine_core", "rank"}


def test_unknown_stays_unknown() -> None:
    gpus = [gpu for s in _samples(SCENARIOS / "sg-append-stopped") for gpu in s.gpus or ()]
    assert gpus and all(gpu.nvlink_mib_s is None for gpu in gpus)


def test_facts_are_named_by_their_first_key() -> None:
    facts = [f for s in _samples(SCENARIOS / "ds-stale-lock") for f in s.facts]
    assert facts[0].name == "lock_file" and facts[0].value["lock_owner_pid_alive"] is False


@pytest.mark.parametrize(
    ("files", "what"),
    [
        ({}, "scenario.toml cannot be read"),
        ({"scenario.toml": "[["}, "not TOML"),
        ({"scenario.toml": "format = 2"}, "format 1"),
        ({"scenario.toml": 'format = 1\nid = "x"\nduration_s = 5'}, "lacks something"),
        ({"scenario.toml": 'format=1\nid="x"\nduration_s=5\nstep_s=0\n[[host]]\nname="h"'}, "step_s"),
        (
            {"scenario.toml": 'format=1\nid="x"\nduration_s=5\nstep_s=1\n[[host]]\nname="h"\nlog="a"\ntiming="b"',
             "a": "one\ntwo\n", "b": "1.0\n"},
            "2 lines, but 1 times",
        ),
        (
            {"scenario.toml": 'format=1\nid="x"\nduration_s=5\nstep_s=1\n[[host]]\nname="h"\nsignals="s"', "s": "{"},
            "one JSON object a line",
        ),
    ],
)  # fmt: skip
def test_a_broken_folder_is_one_clear_sentence(files: dict[str, str], what: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=what):
        Replay(tmp_path)


def test_replay_prints_one_object_per_step_with_the_fixed_keys(capsys: pytest.CaptureFixture[str]) -> None:
    code = headless_replay.run(HANG, json=True, speed=float("inf"))
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert code is Exit.HUNG and len(rows) == 219
    assert {
        "v", "t", "at", "launch", "framework", "phase", "phase_s", "progress", "verdict", "verdict_since", "strength",
        "cause", "silent_s", "still_s", "alive", "expected", "ranks", "odd", "odd_ranks", "evidence", "reasons",
        "deadlines", "next_probe",
    } <= rows[-1].keys()  # fmt: skip
    assert rows[123]["at"] == "2026-01-01T00:10:15Z"
    assert (rows[-1]["framework"], rows[-1]["alive"], rows[-1]["expected"]) == ("sglang", 8, 8)
    assert rows[-1]["ranks"][5] == {"rank": 5, "host": "host1", "phase": "post_load"}
    assert rows[15]["progress"]["unit"] == "shards" and rows[15]["verdict"] == "progressing"


def test_ten_minutes_of_eight_ranks_take_less_than_a_second() -> None:
    import time

    began = time.process_time()
    steps = len(_judged(SLOW))
    assert (time.process_time() - began) * 120 / steps < 1.0
