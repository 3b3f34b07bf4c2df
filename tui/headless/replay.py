"""``replay PATH --json``: a recorded start-up judged step by step, one JSON object per step and launch."""

from __future__ import annotations

import json as json_text
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

from tui.collect.replay import Replay
from tui.diagnose import diagnose
from tui.errors import Exit
from tui.headless.verdict_json import row
from tui.history import History
from tui.model import Launch, Verdict

_EXITS = {
    "ready": Exit.READY,
    "progressing": Exit.READY,
    "slow": Exit.READY,
    "waiting": Exit.READY,
    "suspect": Exit.UNDECIDED,
    "unknown": Exit.UNDECIDED,
    "hung": Exit.HUNG,
    "crashed": Exit.CRASHED,
    "ended": Exit.ENDED,
}


def verdicts(replay: Replay) -> Iterator[tuple[float, Launch, Verdict]]:
    """Every step's verdict, on the recording's own clock."""
    history = History()
    verdict: Verdict | None = None
    for t, samples, launch in replay.steps():
        for sample in samples:
            history.add(sample)
        verdict = diagnose(history, launch, t, verdict).verdict
        yield t, launch, verdict


def run(path: Path, *, json: bool, speed: float) -> Exit:
    """Print the verdicts; ``speed`` in times real time, infinite for as fast as it goes. The exit tells the last one.

    Raises: UsageError where ``path`` is no scenario.
    """
    replay = Replay(path)
    last: Verdict | None = None
    before: float | None = None
    for t, launch, verdict in verdicts(replay):
        if before is not None and speed != float("inf"):
            time.sleep((t - before) / speed)
        before, last = t, verdict
        at = datetime.fromtimestamp(replay.start_wall + t, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        if json:
            sys.stdout.write(json_text.dumps(row(t, at, launch, verdict), ensure_ascii=False) + "\n")
        else:
            sys.stdout.write(_line(t, verdict))
    sys.stdout.flush()
    return _EXITS.get(last.id, Exit.UNDECIDED) if last is not None else Exit.UNDECIDED


def _line(t: float, verdict: Verdict) -> str:
    """A step for people, on one line."""
    head = f"{t:>9.1f} {verdict.id.upper():<12} {verdict.phase:<15} {verdict.cause or '-':<20}"
    return f"{head} {'; '.join(verdict.reasons)}\n"
