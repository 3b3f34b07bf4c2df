"""The evidence: rival explanations, what each predicted, what was seen, and what refuted them."""

from __future__ import annotations

from tui.model import Evidence, Explanation, Prediction, Verdict
from tui.ui import format as fmt
from tui.ui.lines import Column, Line, fit, fit_columns, row, spread, titles, wrap, wrap_spans
from tui.ui.view import View
from tui.ui.widgets.pane import Painting, Pane
from tui.ui.words import spaced, verdict_role

OUTCOMES = {"fits": ("fits", "info"), "refutes": ("refutes", "bad"), "unknown": ("unknown", "dim")}
WIDE = 70


def paint_evidence(verdict: Verdict, width: int, full: bool) -> list[Line]:
    """Standing explanations first, refuted ones struck out below; in full, every prediction and every observation."""
    rows: list[Line] = []
    ordered = sorted(verdict.explanations, key=lambda e: (not e.alive, e.cause != verdict.cause))
    for explanation in ordered:
        rows += _explanation(explanation, verdict, width, full)
        if full:
            rows.append([])
    if full and verdict.evidence:
        rows += [[("seen", "strong")], *(line for e in verdict.evidence for line in _observation(e, width))]
    if not rows:
        return wrap_spans([], "No rival explanations are weighed at the moment: the launch moves.", "dim", width)
    return rows


def _explanation(explanation: Explanation, verdict: Verdict, width: int, full: bool) -> list[Line]:
    chosen = explanation.cause == verdict.cause
    kind = "healthy" if explanation.healthy else "a fault"
    title = explanation.title or spaced(explanation.cause)
    if not explanation.alive:
        shown = [p for p in explanation.predictions if full or p.outcome == "refutes"]
        head = spread([("✗ ", "dim"), (fit(title, width - 11), "struck")], [("refuted", "dim")], width)
    else:
        shown = [p for p in explanation.predictions if full or p.outcome != "unknown"]
        role = "strong" if chosen else "text"
        mark = ("▸ ", verdict_role(verdict.id)) if chosen else ("? ", "dim")
        head = spread([mark, (fit(title, width - 11), role)], [(kind, "dim")], width)
    if not full:
        shown = shown[:2] if explanation.alive else shown[:1]
    return [head, *(line for p in shown for line in _prediction(p, width))]


COLUMNS = (
    Column("signal", "signal", 12),
    Column("expects", "expects", 16, flex=3, most=60),
    Column("seen", "seen", 16, flex=3, most=60),
    Column("outcome", "", 7),
)


def _prediction(prediction: Prediction, width: int) -> list[Line]:
    """A table row whose cells wrap; where it is narrow a sentence."""
    words, role = OUTCOMES.get(prediction.outcome, (prediction.outcome, "dim"))
    seen = "text" if prediction.outcome == "refutes" else "dim"
    if width < WIDE:
        text = f"{spaced(prediction.signal)}: expects {prediction.expects}, seen {prediction.seen}"
        return wrap_spans([("    ", "text")], f"{text} ({words})", seen, width)
    fitted = fit_columns(COLUMNS, width - 4)
    wide = {column.key: w for column, w in fitted}
    cells = {
        "signal": (wrap(spaced(prediction.signal), wide["signal"]), "dim"),
        "expects": (wrap(prediction.expects, wide["expects"]), "dim"),
        "seen": (wrap(prediction.seen, wide["seen"]), seen),
        "outcome": ([words], role),
    }
    depth = max(len(lines) for lines, _ in cells.values())
    return [
        [("    ", "text"), *row(fitted, {k: [(lines[i], r)] for k, (lines, r) in cells.items() if i < len(lines)})]
        for i in range(depth)
    ]


def _observation(evidence: Evidence, width: int) -> list[Line]:
    text = evidence.text or f"{spaced(evidence.signal)}: {fmt.UNKNOWN if evidence.value is None else evidence.value}"
    if evidence.window_s:
        text += f" (over {fmt.duration(evidence.window_s)}, {evidence.coverage:.0%} sampled)"
    if evidence.refutes:
        text += f"; refutes {', '.join(spaced(c) for c in evidence.refutes)}"
    return wrap_spans([("  ∙ ", "dim")], text, "text", width)


class EvidencePane(Pane):
    KEY = "e"

    def paint(self, view: View, width: int, height: int) -> Painting:
        title: Line = [("evidence", "title")]
        if view.launch is None:
            return Painting([], title=title)
        verdict = view.launch.verdict
        out = sum(not e.alive for e in verdict.explanations)
        if verdict.explanations:
            title.append((f"  {out} of {fmt.plural(len(verdict.explanations), 'explanation')} refuted", "dim"))
        body = paint_evidence(verdict, width, full=True)
        if not self.full and len(body) > height - 2:
            body = paint_evidence(verdict, width, full=False)
        table = width >= WIDE and any(e.predictions for e in verdict.explanations)
        head: list[Line] = [[("    ", "text"), *titles(fit_columns(COLUMNS, width - 4))]] if table else []
        return Painting(body, title=title, head=head)
