"""The verdict band: the one word, why, since when, what to do, what to press; and the two timers."""

from __future__ import annotations

from dataclasses import dataclass

from textual.color import Color

from tui.model import Odd, Verdict
from tui.ui import format as fmt
from tui.ui.lines import Line, cut, spread, to_be_continued, width_of, wrap_spans
from tui.ui.view import View
from tui.ui.widgets.gpus import STALE, state_line
from tui.ui.widgets.pane import Drawing
from tui.ui.words import ALARMS, cause_words, probe_words, verdict_glyph, verdict_role, verdict_word

LEAD = 6
"""Cells of the labels ``why``, ``odd``, ``do``, ``next``, ``ends`` with their gap."""

TIMERS = 28
"""Cells of the two timers where they stand at the right."""


@dataclass(frozen=True, slots=True)
class Section:
    """Rows that belong together; where room is short, sections keep ``least`` rows, the lowest ``order`` first."""

    order: int
    rows: list[Line]
    least: int = 1


def paint_verdict(view: View, width: int, height: int) -> list[Line]:
    """The rows of the band, without its coloured edge."""
    if view.launch is None:
        return wrap_spans([], nothing_words(view), "text", width)[:height]
    verdict = view.launch.verdict
    timers = paint_timers(view)
    beside = width >= 84
    room = width - TIMERS - 4 if beside else width
    sections = _sections(view, verdict, room)
    if not beside:
        line = [*timers[0], ("   ", "text"), *timers[1]]
        rows = [line] if width_of(line) <= width else timers
        sections.insert(1, Section(0, rows, least=len(rows)))
    rows = choose(sections, height, room)
    if not beside:
        return rows
    rows += [[] for _ in range(max(0, 2 - len(rows)))]
    for index, timer in enumerate(timers):
        rows[index] = spread(cut(rows[index], room), timer, width)
    return rows


def paint_timers(view: View) -> list[Line]:
    """``log silent 1m 04s`` and ``nothing moved 58s``, run on since the snapshot while all hosts are heard."""
    if view.launch is None:
        return []
    verdict = view.launch.verdict
    role = verdict_role(verdict.id) if verdict.id in ALARMS else "strong"
    rows: list[Line] = []
    held: Line = [] if view.live else [(" frozen", "info") if view.frozen else (" held", "warn")]
    for label, value in (("log silent", verdict.silent_s), ("nothing moved", verdict.still_s)):
        text = fmt.duration(None if value is None else value + view.carried_s)
        rows.append([(f"{label:<14}", "dim"), (f"{text:>7}", role), *held])
    return rows


def nothing_words(view: View) -> str:
    """One helpful sentence for a screen without a launch."""
    hosts = view.snapshot.hosts
    if not hosts:
        return "no host yet: name one on the command line, or leave it out to watch this machine"
    if all(h.state == "connecting" for h in hosts):
        return f"connecting to {_names(view)} …"
    if not any(h.state == "live" for h in hosts):
        down = next((h for h in hosts if h.state in ("failed", "lost", "stale")), hosts[0])
        return f"no host is heard. {down.name}: {down.reason or down.state}"
    return "no launch found yet: waiting for SGLang, vLLM or torchrun processes; --pid or --log point at one"


def _names(view: View) -> str:
    names = [h.name for h in view.snapshot.hosts]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def choose(sections: list[Section], height: int, width: int) -> list[Line]:
    """The rows that fit, in reading order: the least of every section by its order, then the rest by its order."""
    given = [0] * len(sections)
    left = height
    by_order = sorted(range(len(sections)), key=lambda i: sections[i].order)
    for index in by_order:
        given[index] = min(sections[index].least, len(sections[index].rows), left)
        left -= given[index]
    for index in by_order:
        more = len(sections[index].rows) - given[index]
        if given[index] or more <= left:
            given[index] += min(more, left)
            left -= min(more, left)
    rows: list[Line] = []
    for section, n in zip(sections, given, strict=True):
        rows += section.rows[:n]
        if 0 < n < len(section.rows):
            rows[-1] = to_be_continued(rows[-1], width)
    return rows


def _sections(view: View, verdict: Verdict, width: int) -> list[Section]:
    reasons = [_labelled("why" if i == 0 else "", reason, "text", width) for i, reason in enumerate(verdict.reasons)]
    odds = [_labelled("odd" if i == 0 else "", odd_words(odd), "odd", width) for i, odd in enumerate(verdict.odd)]
    sections = [
        Section(0, _headline(verdict, width), least=3),
        Section(3, [_standing(view, verdict, width)]),
        *(Section(1, rows) for rows in _host_troubles(view, width)),
        *([Section(2, wrap_spans([], verdict.taken_back, "info", width))] if verdict.taken_back else []),
        *(Section(2 if i == 0 else 6 + i, rows, least=int(i == 0)) for i, rows in enumerate(reasons)),
        *(Section(4 if i == 0 else 8 + i, rows, least=int(i == 0)) for i, rows in enumerate(odds)),
    ]
    if verdict.remedy:
        sections.append(Section(5, _labelled("do", verdict.remedy, "text", width)))
    if verdict.next_probe:
        sections.append(Section(3, _probe(verdict.next_probe, width)))
    for i, deadline in enumerate(verdict.deadlines):
        left = fmt.duration(deadline.in_s - view.carried_s)
        kind = " (default)" if deadline.default else ""
        rows = _labelled("ends" if i == 0 else "", f"in {left}: {deadline.what}{kind}", "dim", width)
        sections.append(Section(5 if i == 0 else 9 + i, rows, least=int(i == 0)))
    return sections


def _headline(verdict: Verdict, width: int) -> list[Line]:
    badge = f" {verdict_glyph(verdict.id)} {verdict_word(verdict.id)} "
    lead: Line = [(badge, f"badge-{verdict_role(verdict.id).removeprefix('verdict-')}"), ("  ", "text")]
    words = cause_words(verdict)
    if not words:
        return [lead]
    if width_of(lead) + len(words) <= width or width >= 60:
        return wrap_spans(lead, words, "strong", width)
    return [lead, *wrap_spans([], words, "strong", width)]


def _standing(view: View, verdict: Verdict, width: int) -> Line:
    since = f"since {fmt.clock(view.wall_of(verdict.since))}, " if width >= 60 else "for "
    parts = [since + fmt.duration(view.now - verdict.since)]
    if verdict.cause:
        parts.insert(0, f"{verdict.strength} evidence")
    if verdict.alive is not None and verdict.expected is not None:
        parts.append(f"{verdict.alive} of {verdict.expected} alive")
    if view.launch is not None and view.launch.launch.attempt > 1:
        parts.append(f"attempt {view.launch.launch.attempt}")
    return [(" · ".join(parts), "dim")]


def _host_troubles(view: View, width: int) -> list[list[Line]]:
    """A row for each host of the launch that is not heard."""
    launch = view.launch
    rows: list[list[Line]] = []
    for host in view.snapshot.hosts if launch else ():
        if launch and host.name in launch.launch.hosts and host.state in STALE:
            state = state_line(host)
            text = "".join(part for part, _ in state)
            rows.append(wrap_spans([(host.name + " ", "strong")], text, state[0][1], width))
    return rows


def _labelled(label: str, text: str, role: str, width: int) -> list[Line]:
    return wrap_spans([(f"{label:<{LEAD}}", "dim")], text, role, width)


def odd_words(odd: Odd) -> str:
    name = odd.role if odd.rank is None else fmt.rank_words([odd.rank])
    pid = f" (pid {odd.pid})" if odd.pid is not None else ""
    return f"{name} on {odd.host}{pid}: {odd.why}"


def _probe(probe: str, width: int) -> list[Line]:
    key, words = probe_words(probe)
    lead: Line = [(f"{'next':<{LEAD}}", "dim")]
    if key:
        lead += [(f" {key} ", "badge-key"), (" ", "text")]
    return wrap_spans(lead, words, "text", width)


class VerdictBand(Drawing):
    """The band with an edge in the verdict's colour on a faint tint of it."""

    EDGE = "▌ "

    def show(self, view: View) -> None:
        verdict_id = view.launch.verdict.id if view.launch else ""
        self._tint(self.gputop.palette.bands.get(verdict_id))
        edge = verdict_role(verdict_id) if verdict_id else "rule"
        rows = paint_verdict(view, self.size.width - 4, self.size.height)
        rows += [[] for _ in range(self.size.height - len(rows))]
        self.set_rows([[(self.EDGE, edge), *row] for row in rows])

    def _tint(self, tint: Color | None) -> None:
        if tint is None:
            if self.styles.has_rule("background"):
                self.styles.clear_rule("background")
        elif self.styles.background != tint:
            self.styles.background = tint
