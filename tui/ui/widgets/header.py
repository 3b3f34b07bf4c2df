"""The first line: launches by number, hosts with their state, the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.events import Click

from tui.ui import format as fmt
from tui.ui.lines import Line, fit, spread, width_of
from tui.ui.view import View
from tui.ui.widgets.gpus import STALE
from tui.ui.widgets.pane import Drawing
from tui.ui.words import verdict_glyph, verdict_role

if TYPE_CHECKING:
    from tui.model import HostView, LaunchView

HOST_MARKS = {
    "live": ("▪", "good"),
    "connecting": ("∙", "info"),
    "stale": ("~", "warn"),
    "lost": ("✗", "bad"),
    "failed": ("✗", "bad"),
}


def paint_header(view: View, width: int) -> tuple[Line, list[tuple[int, int, str]]]:
    """The line, and where a click selects what: (first cell, end, ``launch:ID``, ``host:NAME`` or ``fleet:``)."""
    spots: list[tuple[int, int, str]] = []
    line: Line = [(" ", "text")]
    for number, launch in enumerate(view.snapshot.launches, 1):
        chosen = view.launch is not None and launch.launch.id == view.launch.launch.id
        start = width_of(line)
        line += [*_launch(number, launch, chosen, width - 14 - 6 * len(view.snapshot.launches)), ("   ", "text")]
        spots.append((start, width_of(line) - 3, f"launch:{launch.launch.id}"))
    if not view.snapshot.launches:
        line += [("gputop-hang", "strong"), ("   ", "text")]
    time: Line = [(fmt.clock(view.snapshot.wall)[:5], "dim"), (" ", "text")]
    if view.frozen:
        time = frozen_words(view)
    room = width - width_of(line) - width_of(time) - 2
    hosts = view.snapshot.hosts
    for n, host in enumerate(hosts):
        spans = _host(host, host.name == view.host)
        more = f"+{len(hosts) - n}"
        last = n == len(hosts) - 1
        if width_of(spans) + (0 if last else 2 + len(more)) > room:
            if len(more) <= room:
                start = width_of(line)
                line.append((more, "warn" if any(h.state in STALE for h in hosts[n:]) else "dim"))
                spots.append((start, width_of(line), "fleet:"))
            break
        start = width_of(line)
        line += [*spans, ("  ", "text")]
        spots.append((start, width_of(line) - 2, f"host:{host.name}"))
        room -= width_of(spans) + 2
    return spread(line, time, width), spots


def frozen_words(view: View) -> Line:
    """Which moment is looked at instead of now."""
    return [(f" FROZEN at {fmt.clock(view.snapshot.wall)} ", "badge-frozen")]


def _launch(number: int, launch: LaunchView, chosen: bool, room: int) -> Line:
    """Number, glyph and name; where room is short only the chosen launch keeps its name."""
    verdict = launch.verdict.id
    line: Line = [(str(number), "key" if chosen else "dim"), (" ", "text")]
    line.append((verdict_glyph(verdict), verdict_role(verdict)))
    if chosen or room >= 86:
        line += [(" ", "text"), (fit(launch.launch.name, min(40, room)), "strong" if chosen else "dim")]
    return line


def _host(host: HostView, chosen: bool) -> Line:
    mark, role = HOST_MARKS.get(host.state, ("∙", "dim"))
    return [(mark, role), (" ", "text"), (host.name, "title-focus" if chosen else "dim")]


class HeaderLine(Drawing):
    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._spots: list[tuple[int, int, str]] = []

    def show(self, view: View) -> None:
        line, self._spots = paint_header(view, self.size.width)
        self.set_rows([line])

    def on_click(self, event: Click) -> None:
        for start, end, target in self._spots:
            if start <= event.x < end:
                kind, _, name = target.partition(":")
                if kind == "launch":
                    self.gputop.choose_launch(name)
                elif kind == "host":
                    self.gputop.choose_host(name)
                else:
                    self.gputop.action_fleet()
