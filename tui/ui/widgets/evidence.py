"""The evidence: rival explanations, what each predicted, what was seen, and what refuted them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from rich.cells import cell_len

from tui.ui import format as fmt
from tui.ui.lines import Column, Line, fit, fit_columns, row, spread, titles, wrap, wrap_spans
from tui.ui.view import View
from tui.ui.widgets.pane import Painting, Pane
from tui.ui.words import spaced, verdict_role

if TYPE_CHECKING:
    from tui.model import Evidence, Explanation, Prediction, Verdict

OUTCOMES = {"fits": ("fits", "info"), "refutes": ("refutes", "bad"), "unknown": ("unknown", "dim")}
WIDE = 70


def paint_evidence(verdict: Verdict, width: int, full: bool) -> list[Line]:
    """Standing explanations first, refuted ones struck out below; in full, every prediction and every observation."""
    rows: list[Line] = []
    for explanation in sorted(verdict.explanations, key=lambda e: (not e.alive, e.refuted, e.cause != verdict.cause)):
        if full:
            rows += [*_explanation(explanation, verdict, width, whole=True), []]
        elif explanation.alive:
            rows += _explanation(explanation, verdict, width, whole=False)
        else:
            rows.append(_fallen(explanation, width))
    if full and verdict.evidence:
        rows += [[("seen", "strong")], *(line for e in verdict.evidence for line in _observation(e, width))]
    if not rows:
        return wrap_spans([], "No rival explanations are weighed at the moment.", "dim", width)
    return rows


def _explanation(explanation: Explanation, verdict: Verdict, width: int, *, whole: bool) -> list[Line]:
    """The title with its fate, and below it every prediction, in ``whole`` sentences or one row each."""
    title = explanation.title or spaced(explanation.cause)
    if explanation.alive:
        chosen = explanation.cause == verdict.cause
        mark = ("▸ ", verdict_role(verdict.id)) if chosen else ("? ", "dim")
        head: Line = [mark, (fit(title, width - 11), "strong" if chosen else "text")]
        fate = "healthy" if explanation.healthy else "a fault"
    elif explanation.refuted:
        head, fate = [("✗ ", "dim"), (fit(title, width - 11), "struck")], "refuted"
    else:
        head, fate = [("? ", "dim"), (fit(title, width - 11), "dim")], "open"
    remedy = explanation.remedy if whole and explanation.alive and not explanation.healthy else ""
    return [
        spread(head, [(fate, "dim")], width),
        *(line for p in explanation.predictions for line in _prediction(p, _lasted(p, verdict.t), width, whole)),
        *(wrap_spans([("    do  ", "dim")], remedy, "text", width) if remedy else []),
    ]


def _fallen(explanation: Explanation, width: int) -> Line:
    """A rival that does not stand in one row, with what was seen that refutes it, or that too little was seen."""
    why = next((p.seen for p in explanation.predictions if p.outcome == "refutes"), "open: not seen")
    room = (width - 4) * 3 // 5
    title = fit(explanation.title or spaced(explanation.cause), room)
    mark, style = ("✗ ", "struck") if explanation.refuted else ("? ", "dim")
    line: Line = [(mark, "dim"), (title, style), (" " * (room - cell_len(title)), "text"), ("  ", "text")]
    return [*line, (fit(why, width - room - 4), "dim")]


COLUMNS = (
    Column("signal", "signal", 12),
    Column("expects", "expects", 16, flex=3, most=60),
    Column("seen", "seen", 16, flex=3, most=60),
    Column("since", "for", 7, "right", drop=1),
    Column("outcome", "", 7),
)


def _lasted(prediction: Prediction, now: float) -> str:
    """For how long it has been so."""
    since = prediction.since if prediction.outcome != "unknown" else None
    return fmt.about(None if since is None else now - since)


@lru_cache(maxsize=512)  # from one second to the next, hardly any differs
def _prediction(prediction: Prediction, lasted: str, width: int, whole: bool) -> list[Line]:
    """A table row whose cells wrap; where it is narrow a sentence."""
    words, role = OUTCOMES.get(prediction.outcome, (prediction.outcome, "dim"))
    seen = "text" if prediction.outcome == "refutes" else "dim"
    if width < WIDE:
        text = f"{spaced(prediction.signal)}: expects {prediction.expects}, seen {prediction.seen}"
        return wrap_spans([("    ", "text")], f"{text} ({words})", seen, width)
    fitted = fit_columns(COLUMNS, width - 4)
    wide = {column.key: w for column, w in fitted}
    lay = wrap if whole else _one_row
    cells = {
        "signal": (lay(spaced(prediction.signal), wide["signal"]), "dim"),
        "expects": (lay(prediction.expects, wide["expects"]), "dim"),
        "seen": (lay(prediction.seen, wide["seen"]), seen),
        "since": ([lasted], "dim"),
        "outcome": ([words], role),
    }
    depth = max(len(lines) for lines, _ in cells.values())
    return [
        [("    ", "text"), *row(fitted, {k: [(lines[i], r)] for k, (lines, r) in cells.items() if i < len(lines)})]
        for i in range(depth)
    ]


def _one_row(text: str, width: int) -> list[str]:
    return [fit(text, width)]


def _observation(evidence: Evidence, width: int) -> list[Line]:
    text = evidence.text or f"{spaced(evidence.signal)}: {fmt.UNKNOWN if evidence.value is None else evidence.value}"
    if evidence.window_s:
        text += f" (over {fmt.duration(evidence.window_s)}, {evidence.coverage:.0%} sampled)"
    if evidence.refutes:
        text += f"; refutes {', '.join(spaced(c) for c in evidence.refutes)}"
    return wrap_spans([("  ∙ ", "dim")], text, "text", width)


class EvidencePane(Pane):
    OPENED_BY = "open.evidence"
    EVERY_S = 1.9

    def paint(self, view: View, width: int, height: int) -> Painting:
        title: Line = [("evidence", "title")]
        if view.launch is None:
            return Painting([], title=title)
        verdict = view.launch.verdict
        out = sum(e.refuted for e in verdict.explanations)
        if verdict.explanations:
            title.append((f"  {out} of {fmt.plural(len(verdict.explanations), 'explanation')} refuted", "dim"))
        body = paint_evidence(verdict, width, full=True)
        if not self.full and len(body) > height - 2:
            body = paint_evidence(verdict, width, full=False)
        table = width >= WIDE and any(e.predictions for e in verdict.explanations)
        head: list[Line] = [[("    ", "text"), *titles(fit_columns(COLUMNS, width - 4))]] if table else []
        return Painting(body, title=title, head=head)
