"""``score DIR ...``: recordings judged and compared with what was true of them."""

from __future__ import annotations

import json as json_text
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from tui import toml
from tui.collect.replay import Replay
from tui.errors import Exit, UsageError
from tui.headless.replay import verdicts
from tui.model import Verdict

_FINAL = frozenset({"hung", "crashed"})
_GRAVE = _FINAL | {"suspect"}


@dataclass(slots=True)
class Score:
    """One scenario's score. Shares are of 1; ``None`` where the truth says nothing of it."""

    id: str
    outcome: str
    passed: bool = False
    hard_errors: list[str] = field(default_factory=list[str])
    unfinished_windows: list[str] = field(default_factory=list[str])
    allowed: float | None = None
    phases: float | None = None
    phase_at_end: bool | None = None
    cause: bool | None = None
    odd_ranks: bool | None = None
    suspect_s: float | None = None
    latency_s: float | None = None
    verdict: str = ""
    last_phase: str = ""
    last_cause: str | None = None
    signals: bool = True
    """Whether any process or GPU was recorded: a log alone never convicts, and has no latency."""
    seconds: float = 0.0


def score(path: Path) -> Score:
    """Replay the scenario at ``path`` and compare it with its ``truth.toml``.

    Raises: UsageError where one of the two cannot be read.
    """
    try:
        truth: dict[str, Any] = toml.loads((path / "truth.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        what = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{path}/truth.toml cannot be read: {what}") from None
    started = time.perf_counter()
    replay = Replay(path)
    rows = [(t, verdict) for t, _, verdict in verdicts(replay)]
    result = Score(replay.id, str(truth.get("outcome", "")), seconds=round(time.perf_counter() - started, 2))
    result.signals = replay.has_signals
    if not rows:
        raise UsageError(f"{path}: it ends before its first step")
    _judge_windows(result, rows, truth.get("window", ()))
    _judge_phases(result, rows, truth)
    last = rows[-1][1]
    result.verdict, result.last_phase = last.id, last.phase
    result.last_cause = next((verdict.cause for _, verdict in reversed(rows) if verdict.cause), None)
    if truth.get("causes"):
        result.cause = result.last_cause in truth["causes"]
    if "odd_ranks" in truth:
        result.odd_ranks = {item.rank for item in last.odd if item.rank is not None} == set(truth["odd_ranks"])
    fault = truth.get("fault_at", truth.get("crash_at"))
    if fault is not None and result.outcome in ("hung", "crashed"):
        begins = max(float(fault), replay.attach_at)
        result.suspect_s = _latency(rows, _GRAVE, begins)
        result.latency_s = _latency(rows, _FINAL, begins)
    result.passed = not result.hard_errors and not result.unfinished_windows
    return result


def _judge_windows(result: Score, rows: Sequence[tuple[float, Verdict]], windows: Iterable[dict[str, Any]]) -> None:
    inside = allowed = 0
    for window in windows:
        span = f"{window['from']:g}-{window['to']:g}"
        seen = [(t, verdict.id) for t, verdict in rows if window["from"] <= t <= window["to"]]
        inside += len(seen)
        allowed += sum(1 for _, verdict in seen if verdict in window["allow"])
        wrong = [(t, verdict) for t, verdict in seen if verdict in window.get("forbid", ())]
        if wrong:
            result.hard_errors.append(f"{wrong[0][1]} at {wrong[0][0]:g} in {span} ({len(wrong)} steps)")
        if seen and seen[-1][1] not in window["allow"]:
            result.unfinished_windows.append(f"{seen[-1][1]} at the end of {span}")
    result.allowed = round(allowed / inside, 3) if inside else None


def _judge_phases(result: Score, rows: Sequence[tuple[float, Verdict]], truth: dict[str, Any]) -> None:
    inside = right = 0
    for row in truth.get("phase", ()):
        seen = [verdict.phase for t, verdict in rows if row["from"] <= t <= row["to"]]
        inside += len(seen)
        right += sum(1 for phase in seen if phase == row["id"])
    result.phases = round(right / inside, 3) if inside else None
    if "phase_at_end" in truth:
        result.phase_at_end = rows[-1][1].phase == truth["phase_at_end"]


def _latency(rows: Sequence[tuple[float, Verdict]], ids: frozenset[str], begins: float) -> float | None:
    """From ``begins`` to the first such verdict that is never taken back."""
    first: float | None = None
    for t, verdict in rows:
        if verdict.id not in ids:
            first = None
        elif first is None:
            first = t
    return None if first is None else round(first - begins, 1)


def run(paths: Sequence[Path], *, json: bool) -> Exit:
    """Score the scenarios; the exit is 0 where all passed.

    Raises: UsageError where a scenario or its truth cannot be read.
    """
    scores = [score(path) for path in paths]
    if json:
        out = {"v": 1, "scenarios": [asdict(item) for item in scores], "summary": _summary(scores)}
        sys.stdout.write(json_text.dumps(out, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(_table(scores))
    return Exit.READY if all(item.passed for item in scores) else Exit.UNDECIDED


def _share(values: Iterable[bool | None]) -> str | None:
    known = [value for value in values if value is not None]
    return f"{sum(known)}/{len(known)}" if known else None


def _summary(scores: Sequence[Score]) -> dict[str, Any]:
    hung = [item for item in scores if item.outcome == "hung" and item.signals]
    latencies = [item.latency_s for item in hung if item.latency_s is not None]
    suspects = [item.suspect_s for item in hung if item.suspect_s is not None]
    phases = [item.phases for item in scores if item.phases is not None]
    return {
        "passed": f"{sum(item.passed for item in scores)}/{len(scores)}",
        "hard_errors": sum(len(item.hard_errors) for item in scores),
        "allowed": round(sum(item.allowed or 0.0 for item in scores) / len(scores), 3),
        "phases": round(sum(phases) / len(phases), 3) if phases else None,
        "phase_at_end": _share(item.phase_at_end for item in scores),
        "cause": _share(item.cause for item in scores),
        "odd_ranks": _share(item.odd_ranks for item in scores),
        "suspect_median_s": median(suspects) if suspects else None,
        "hung_median_s": median(latencies) if latencies else None,
        "hung_worst_s": max(latencies, default=None),
    }


def _table(scores: Sequence[Score]) -> str:
    width = max(len(item.id) for item in scores)
    head = f"{'scenario':<{width}} pass  allow phase end cause odd suspect    hung  last verdict, phase, cause\n"
    lines = [head]
    for item in scores:
        flags = [
            "-" if flag is None else "y" if flag else "N" for flag in (item.phase_at_end, item.cause, item.odd_ranks)
        ]
        shares = f"{_number(item.allowed, 5)} {_number(item.phases, 5)}"
        times = f"{_number(item.suspect_s, 7)} {_number(item.latency_s, 7)}"
        said = f"{item.verdict}, {item.last_phase}, {item.last_cause or '-'}"
        lines.append(
            f"{item.id:<{width}} {'yes' if item.passed else 'NO ':<4} {shares}  "
            f"{flags[0]}     {flags[1]}   {flags[2]} {times}  {said}\n"
        )
        lines += [f"{'':<{width}}   {error}\n" for error in (*item.hard_errors, *item.unfinished_windows)]
    summary = ", ".join(f"{name} {value}" for name, value in _summary(scores).items() if value is not None)
    return "".join(lines) + summary + "\n"


def _number(value: float | None, width: int) -> str:
    return f"{'-' if value is None else f'{value:g}':>{width}}"
