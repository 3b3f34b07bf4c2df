"""The observations behind a verdict as a list: value, window, coverage, and whom each refutes or supports."""

from __future__ import annotations

from typing import Any

from tui.diagnose.hypotheses import seen
from tui.diagnose.judgement import Judgement
from tui.diagnose.observe import Scene
from tui.model import Evidence
from tui.numbers import mean

_MB = 1e6


def evidence(scene: Scene, judgement: Judgement) -> tuple[Evidence, ...]:
    """One entry a signal; explanations refer to signals by name."""
    coverage = min((view.coverage for view in scene.workers), default=0.0)
    silent = scene.silent_s
    found = [
        Evidence(
            "log_silence",
            None if silent is None else round(silent, 1),
            silent or 0.0,
            1.0 if silent is not None else 0.0,
            text="" if silent is None else f"the log has been silent for {silent:.0f} s",
        )
    ]
    if scene.workers:
        flow = sum((view.read or 0.0) + (view.received or 0.0) + (view.write or 0.0) for view in scene.living) / _MB
        found += [
            _entry(
                scene,
                judgement,
                "rank_cpu",
                round(sum(v.cpu or 0.0 for v in scene.workers), 1),
                coverage,
                seen.cpu(scene),
            ),
            _entry(
                scene,
                judgement,
                "compilers",
                round(sum(v.compilers or 0.0 for v in scene.living), 1),
                coverage,
                seen.builders(scene),
            ),
            _entry(
                scene,
                judgement,
                "children_cpu",
                round(sum(v.children or 0.0 for v in scene.living), 1),
                coverage,
                seen.children(scene),
            ),
            _entry(scene, judgement, "bytes", round(flow, 2), coverage, seen.byte_flow(scene)),
        ]
    if scene.gpus:
        utils = [gpu.util for gpu in scene.gpus if gpu.util is not None]
        value = round(mean(utils), 1) if utils else None
        share = len(utils) / len(scene.gpus)
        found.append(_entry(scene, judgement, "gpus", value, share, seen.gpus(scene)))
    known = {entry.signal for entry in found}
    for explanation in judgement.explanations:
        for p in explanation.predictions:
            if p.signal not in known and p.outcome != "unknown":
                known.add(p.signal)
                found.append(_entry(scene, judgement, p.signal, p.seen, 1.0, p.seen))
    return tuple(found)


def _entry(scene: Scene, judgement: Judgement, signal: str, value: Any, coverage: float, text: str) -> Evidence:
    about = [(e, p.outcome) for e in judgement.explanations for p in e.predictions if p.signal == signal]
    refutes = dict.fromkeys(e.cause for e, outcome in about if outcome == "refutes")
    supports = dict.fromkeys(e.cause for e, outcome in about if outcome == "fits" and e.alive)
    window = max(scene.look_s, judgement.quiet_s) if judgement.still else scene.look_s
    return Evidence(signal, value, round(window, 1), round(coverage, 2), tuple(refutes), tuple(supports), text)
