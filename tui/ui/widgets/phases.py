"""The phase bar: what is done and how long it took, what goes on, what lies ahead; progress and ranks apart."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from tui.ui import format as fmt
from tui.ui.lines import Line, bar, fit, merge, pad, width_of
from tui.ui.view import View
from tui.ui.widgets.pane import Drawing
from tui.ui.words import ALARMS, spaced, verdict_role

if TYPE_CHECKING:
    from tui.model import LaunchView, PhaseSpan, Progress, Usual, Verdict

GAP = 2
MOVES = frozenset({"progressing", "slow"})


def spans_of(launch: LaunchView) -> tuple[PhaseSpan, ...]:
    """The spans that were seen; the present phase alone where none were."""
    verdict = launch.verdict
    if launch.spans:
        return launch.spans
    from tui.model import PhaseSpan  # loaded with the session: the first picture has no launch

    return (PhaseSpan(verdict.phase, verdict.phase_since),) if verdict.phase != "unknown" else ()


def span_seconds(span: PhaseSpan, now: float) -> float:
    return max(0.0, (now if span.end is None else span.end) - span.start)


def paint_phases(view: View, width: int, height: int) -> list[Line]:
    """Labels, durations, a bar and the progress below each other where there is room, else one line and the rest."""
    launch = view.launch
    if launch is None:
        return []
    spans = spans_of(launch)
    if not spans:
        return [[("phase unknown", "dim"), (": the log has not named one yet", "dim")]]
    from tui.record.usual import words  # loaded with the session, as above

    usual = launch.usual_at(view.now)
    said = fit(words(usual), width) if usual is not None else ""
    chain = _chain(view, launch, spans, width) if width >= 96 and height >= 4 else None
    if chain is not None:
        return (chain + _details(launch, said, width))[:height]
    short, said = _short(view, launch, spans, said, width)
    return [short, *_details(launch, said, width)][:height]


def _chain(view: View, launch: LaunchView, spans: tuple[PhaseSpan, ...], width: int) -> list[Line] | None:
    """Three rows of columns, one a phase; ``None`` where they do not fit even without the oldest."""
    current = verdict_role(launch.verdict.id) if launch.verdict.id in ALARMS else "info"
    columns: list[tuple[str, str, str, float]] = []
    for span in spans:
        role = "done" if span is not spans[-1] or launch.verdict.phase != span.phase else current
        seconds = span_seconds(span, view.now)
        columns.append((spaced(span.phase), fmt.duration(seconds), role, seconds))
    columns += [(spaced(phase), "", "ahead", 0.0) for phase in launch.ahead]
    hidden = 0
    while _least(columns) + (10 if hidden else 0) > width:
        if columns[-1][2] == "ahead":
            columns.pop()
        elif len(columns) > 1:
            columns.pop(0)
            hidden += 1
        else:
            return None
    return _draw_chain(columns, hidden, width, launch.usual_at(view.now))


def _least(columns: list[tuple[str, str, str, float]]) -> int:
    return sum(max(len(label), 7) for label, _, _, _ in columns) + GAP * (len(columns) - 1)


def _draw_chain(columns: list[tuple[str, str, str, float]], hidden: int, width: int, usual: Usual | None) -> list[Line]:
    lead = 10 if hidden else 0
    spare = width - lead - _least(columns)
    # A share grows each time that the duration has doubled: the present phase seldom shifts the row.
    shares = [0 if role == "ahead" else int(math.log2(4 + seconds)) - 1 for _, _, role, seconds in columns]
    whole = sum(shares) or 1
    rows: list[Line] = [[], [], []]
    if hidden:
        rows = [
            [(f"{hidden} before".ljust(lead), "dim")],
            [(" " * lead, "text")],
            [("━" * (lead - GAP) + " " * GAP, "good")],
        ]
    for (label, took, role, seconds), share in zip(columns, shares, strict=True):
        wide = max(len(label), 7) + spare * share // whole
        name, line = {"done": ("dim", "good"), "ahead": ("faint", "track")}.get(role, (role, role))
        mark = "╌" if role == "ahead" else "━"
        blank = (" " * GAP, "text")
        rows[0] += [*pad([(label, name)], wide), blank]
        rows[1] += [*pad([(took, "dim" if role == "done" else role)], wide), blank]
        now = role not in ("done", "ahead") and usual is not None
        rows[2] += [*(band(seconds, usual, wide, line) if now and usual else [(mark * wide, line)]), blank]
    return [merge(line) for line in rows]


def band(seconds: float, usual: Usual, width: int, role: str) -> Line:
    """The present phase running through what it usually takes: ``━━━━━━━──═══─``, the range as a double line."""
    whole = max(1.2 * usual.high_s, seconds, 1.0)
    done = max(1, round(width * seconds / whole))
    low, high = int(width * usual.low_s / whole), max(1, round(width * usual.high_s / whole))
    high = max(high, low + 1)
    cells = [("═" if low <= x < high else "━" if x < done else "─", role if x < done else "dim") for x in range(width)]
    return merge([(mark, "track" if mark == "─" else own) for mark, own in cells])


def _short(view: View, launch: LaunchView, spans: tuple[PhaseSpan, ...], usual: str, width: int) -> tuple[Line, str]:
    """``✓ 4 phases  post load 4m 04s  usually 110–122 s (10 launches)  then kv alloc, graph capture``; and what is
    usual where that had no room."""
    last = spans[-1]
    role = verdict_role(launch.verdict.id) if launch.verdict.id in ALARMS else "info"
    done = len(spans) - 1
    line: Line = []
    if done:
        words = f"✓ {fmt.plural(done, 'phase')}" if width >= 60 else f"✓{done}"
        line += [(words, "good"), ("  ", "text")]
    line += [(spaced(last.phase), role), (" ", "text"), (fmt.duration(span_seconds(last, view.now)), role)]
    if usual and width_of(line) + 2 + len(usual) <= width:
        line.append((f"  {usual}", "dim"))
        usual = ""
    ahead = [spaced(phase) for phase in launch.ahead]
    while ahead:
        text = f"  then {', '.join(ahead)}"
        if width_of(line) + len(text) <= width:
            line.append((text, "dim"))
            break
        ahead.pop()
    return line, usual


def _details(launch: LaunchView, usual: str, width: int) -> list[Line]:
    """Progress, which ranks are apart and what is usual, in as few rows as they need; the first matter most."""
    progress, apart = launch.verdict.progress, ranks_apart(launch.verdict)
    moves = launch.verdict.id in MOVES
    parts: list[Line] = [_progress(progress, width, moves)] if progress else []
    parts += [[(fit(apart, width), "warn")]] if apart else []
    parts += [[(usual, "dim")]] if usual else []
    rows: list[Line] = []
    for part in parts:
        row = next((row for row in rows if width_of(row) + 3 + width_of(part) <= width), None)
        if row is None:
            rows.append(part)
        else:
            row += [("   ", "text"), *part]
    return rows


def _progress(progress: Progress, width: int, moves: bool) -> Line:
    """``12/64 shards ━━━━━━ · 0.9/s · 12s left``; how fast it was is not said of what is done or does not move."""
    total = progress.total
    counted = fmt.count(progress.done) + (f"/{fmt.count(total)}" if total else "")
    line: Line = [(f"{counted} {progress.unit}", "text")]
    if total:
        wide = 24 if width >= 96 else 12
        line += [(" ", "text"), *bar(progress.done / total, wide, "good" if progress.done >= total else "info")]
    more = ""
    moves = moves and (not total or progress.done < total)
    if progress.rate and moves:
        per_s = progress.rate
        more += f"  {per_s:.1f}/s" if per_s >= 0.1 else f"  one in {fmt.duration(1 / per_s)}"
    if progress.eta_s is not None and moves:
        more += f"  {fmt.duration(progress.eta_s)} left"
    line.append((more, "dim"))
    return line


def ranks_apart(verdict: Verdict) -> str:
    """Which ranks are in another phase than most: ``rank 5 in weight load; ranks 0–3 in import``."""
    phases = Counter(r.phase for r in verdict.ranks)
    if len(phases) < 2:
        return ""
    most = verdict.phase if verdict.phase in phases else phases.most_common(1)[0][0]
    parts: list[str] = []
    for phase, _ in sorted(phases.items(), key=lambda item: item[1]):
        if phase != most:
            numbers = [r.rank for r in verdict.ranks if r.phase == phase]
            parts.append(f"{fmt.rank_words(numbers)} in {spaced(phase)}")
    return "; ".join(parts)


class PhaseBar(Drawing):
    def show(self, view: View) -> None:
        rows = paint_phases(view, self.size.width - 4, self.size.height)
        self.set_rows([[("  ", "text"), *row] for row in rows])
