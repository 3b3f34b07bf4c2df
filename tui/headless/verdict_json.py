"""A launch and its verdict as one JSON object, version 1: keys may be added, none renamed; null is unknown."""

from __future__ import annotations

from typing import Any

from tui.model import Launch, Usual, Verdict


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def row(t: float, at: str, launch: Launch, verdict: Verdict, usual: Usual | None = None) -> dict[str, Any]:
    """``t``: seconds on the timeline of the caller; ``at``: the same moment as ISO 8601 in UTC; ``usual``: what the
    present phase took in past launches."""
    progress = verdict.progress
    attempt = max(launch.attempt, verdict.attempt)
    return {
        "v": 1,
        "t": round(t, 3),
        "at": at,
        "launch": {"id": launch.id, "name": launch.name, "hosts": list(launch.hosts), "attempt": attempt},
        "framework": verdict.framework or launch.framework,
        "phase": verdict.phase,
        "phase_s": _round(max(0.0, t - verdict.phase_since)),
        "usual": None
        if usual is None
        else {
            "low_s": _round(usual.low_s),
            "high_s": _round(usual.high_s),
            "launches": usual.launches,
            "start": usual.start or None,
        },
        "progress": None
        if progress is None
        else {"done": progress.done, "total": progress.total, "unit": progress.unit, "eta_s": _round(progress.eta_s)},
        "verdict": verdict.id,
        "verdict_since": _round(verdict.since),
        "strength": verdict.strength,
        "cause": verdict.cause,
        "silent_s": _round(verdict.silent_s),
        "still_s": _round(verdict.still_s),
        "alive": verdict.alive,
        "expected": verdict.expected,
        "ranks": [{"rank": r.rank, "host": r.host, "phase": r.phase} for r in verdict.ranks],
        "odd": [{"host": o.host, "pid": o.pid, "rank": o.rank, "role": o.role, "why": o.why} for o in verdict.odd],
        "odd_ranks": [o.rank for o in verdict.odd if o.rank is not None],
        "evidence": [
            {
                "signal": e.signal,
                "value": e.value,
                "window_s": _round(e.window_s),
                "coverage": round(e.coverage, 2),
                "refutes": list(e.refutes),
                "supports": list(e.supports),
                "text": e.text,
            }
            for e in verdict.evidence
        ],
        "reasons": list(verdict.reasons),
        "remedy": verdict.remedy or None,
        "taken_back": verdict.taken_back,
        "deadlines": [{"what": d.what, "in_s": round(d.in_s), "default": d.default} for d in verdict.deadlines],
        "next_probe": verdict.next_probe,
    }
