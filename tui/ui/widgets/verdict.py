"""The verdict band: the one word, why, since when, what to do, what to press; and the two timers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.ui import format as fmt
from tui.ui.keys import Keys
from tui.ui.layout import BESIDE_FROM, TIMERS_WIDTH
from tui.ui.lines import Line, right, to_be_continued, width_of, wrap_spans
from tui.ui.view import View, written_last
from tui.ui.widgets.gpus import STALE, state_line
from tui.ui.widgets.pane import Drawing
from tui.ui.words import ALARMS, cause_words, probe_words, verdict_glyph, verdict_role, verdict_word

if TYPE_CHECKING:
    from tui.model import Odd, Verdict

LEAD = 6
"""Cells of the labels ``why``, ``odd``, ``do``, ``next``, ``ends`` with their gap."""


STEADY_S = 2.0
"""Below this it moves now: where things move each second a timer would only flicker."""


@dataclass(frozen=True, slots=True)
class Section:
    """Rows that belong together; where room is short, sections keep ``least`` rows, the lowest ``order`` first."""

    order: int
    rows: list[Line]
    least: int = 1


def paint_verdict(view: View, width: int, height: int, *, timers: bool) -> list[Line]:
    """The rows of the band, without its coloured edge. ``timers``: with the timers, which else lie over its upper right
    corner: the first two rows leave that free."""
    if view.launch is None:
        return wrap_spans([], nothing_words(view), "text", width)[:height]
    verdict = view.launch.verdict
    sections = _sections(view, verdict, width, width if timers else width - TIMERS_WIDTH)
    if timers:
        rows = _timers_in(view, width)
        sections.insert(1, Section(0, rows, least=len(rows)))
    return choose(sections, height, width)


def paint_timers(view: View) -> list[Line]:
    """``log silent 1m 04s`` and ``nothing moved 58s``, run on since the verdict, or ``it moves now``; where the log's
    host, or one of the launch, is not heard, as it was when that was heard last."""
    if view.launch is None:
        return []
    verdict, hosts = view.launch.verdict, view.launch.launch.hosts
    speaks = written_last(view.launch.logs)
    of_log = view.unheard_s(*hosts) if speaks is None else view.unheard_s(speaks.host)
    role = verdict_role(verdict.id) if verdict.id in ALARMS else "strong"
    rows: list[Line] = []
    for label, moves, value, unheard_s in (
        ("log silent", "log grows", verdict.silent_s, of_log),
        ("nothing moved", "it moves", verdict.still_s, view.unheard_s(*hosts)),
    ):
        held: Line = [(" frozen", "info")] if view.frozen else [(" held", "warn")] if unheard_s else []
        now = None if value is None else max(0.0, value + view.since_judged_s - unheard_s)
        steady = now is not None and now < STEADY_S and not unheard_s
        label, text = (moves, "now") if steady else (label, fmt.duration(now))
        rows.append([(f"{label:<14}", "dim"), (f"{text:>7}", role), *held])
    return rows


def _timers_in(view: View, width: int) -> list[Line]:
    """Both timers in one row, close together where it is narrow, or below each other."""
    both = paint_timers(view)
    line: Line = [*both[0], ("   ", "text"), *both[1]]
    if width_of(line) <= width:
        return [line]
    close = [[(" ".join(text.split()) + " ", role) for text, role in row] for row in both]
    line = [*close[0], ("  ", "text"), *close[1]]
    return [line] if width_of(line) <= width else both


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
    if view.offers_demo:
        return "no GPU and no launch on this machine; a launch that starts is found by itself"
    return "no launch found yet: waiting for SGLang, vLLM or torchrun processes, or one that --pid or --port names"


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


def _sections(view: View, verdict: Verdict, width: int, upper: int) -> list[Section]:
    """``upper``: the width of the rows at the top."""
    reasons = [_labelled("why" if i == 0 else "", reason, "text", width) for i, reason in enumerate(verdict.reasons)]
    odds = [_labelled("odd" if i == 0 else "", odd_words(odd), "odd", width) for i, odd in enumerate(verdict.odd)]
    sections = [
        Section(0, _headline(verdict, upper), least=3),
        Section(3 if upper == width else 0, [_standing(view, verdict, upper)]),
        *(Section(1, rows) for rows in _host_troubles(view, width)),
        *([Section(2, wrap_spans([], verdict.taken_back, "info", width))] if verdict.taken_back else []),
        *(Section((2, 5)[i] if i < 2 else 6 + i, rows, least=int(i < 2)) for i, rows in enumerate(reasons)),
        *(Section(4 if i == 0 else 8 + i, rows, least=int(i == 0)) for i, rows in enumerate(odds)),
    ]
    if verdict.remedy:
        sections.append(Section(5, _labelled("do", verdict.remedy, "text", width)))
    if verdict.next_probe:
        sections.append(Section(3, _probe(verdict.next_probe, view.keys, width)))
    for i, deadline in enumerate(verdict.deadlines):
        left = fmt.duration(deadline.in_s - view.since_judged_s)
        kind = " (default)" if deadline.default else ""
        rows = _labelled("ends" if i == 0 else "", f"in {left}: {deadline.what}{kind}", "dim", width)
        sections.append(Section(5 if i == 0 else 9 + i, rows, least=int(i == 0)))
    return sections


def _headline(verdict: Verdict, width: int) -> list[Line]:
    badge = f" {verdict_glyph(verdict.id)} {verdict_word(verdict.id)} "
    lead: Line = [(badge, f"badge-{verdict_role(verdict.id).removeprefix('verdict-')}"), ("  ", "text")]
    words = cause_words(verdict)
    return wrap_spans(lead, words, "strong", width) if words else [lead]


def _standing(view: View, verdict: Verdict, width: int) -> Line:
    since = f"since {fmt.clock(view.wall_of(verdict.since))}, " if width >= 60 else "for "
    parts = [since + fmt.duration(view.now - verdict.since)]
    if verdict.cause:
        parts.insert(0, f"{verdict.strength} evidence")
    if verdict.alive is not None and verdict.expected is not None:
        heard = view.launch is None or not view.unheard_s(*view.launch.launch.hosts)
        parts.append(f"{verdict.alive} of {verdict.expected} alive{'' if heard else ' when last heard'}")
    attempt = max(verdict.attempt, view.launch.launch.attempt if view.launch is not None else 1)
    if attempt > 1:
        parts.append(f"attempt {attempt}")
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
    why = odd.why[len(name) + 1 :] if odd.why.lower().startswith(f"{name} ") else odd.why  # a sentence of the stacks
    return f"{name} on {odd.host}{pid}: {why}"


def _probe(probe: str, keys: Keys, width: int) -> list[Line]:
    binding, words = probe_words(probe)
    key = keys[binding]
    lead: Line = [(f"{'next':<{LEAD}}", "dim")]
    if key:
        lead += [(f" {key} ", "badge-key"), (" ", "text")]
    return wrap_spans(lead, words, "text", width)


class Tinted(Drawing):
    """A drawing on a faint tint of the verdict's colour."""

    def tint(self, view: View) -> None:
        tint = self.gputop.palette.bands.get(view.launch.verdict.id if view.launch else "")
        if tint is None:
            if self.styles.has_rule("background"):
                self.styles.clear_rule("background")
        elif self.styles.background != tint:
            self.styles.background = tint


class VerdictBand(Tinted):
    """The band with an edge in the verdict's colour."""

    EDGE = "▌ "

    def show(self, view: View) -> None:
        self.tint(view)
        edge = verdict_role(view.launch.verdict.id) if view.launch else "rule"
        timers = self.gputop.size.width < BESIDE_FROM
        rows = paint_verdict(view, self.size.width - 4, self.size.height, timers=timers)
        rows += [[] for _ in range(self.size.height - len(rows))]
        self.set_rows([[(self.EDGE, edge), *row] for row in rows])


class Timers(Tinted):
    """The two timers at the right of the band."""

    def show(self, view: View) -> None:
        self.tint(view)
        self.set_rows([right(timer, self.size.width - 2) for timer in paint_timers(view)])
