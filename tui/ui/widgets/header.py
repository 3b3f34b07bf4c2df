"""The first line: launches by number, hosts with their state, the clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.events import Click

from tui.ui import format as fmt
from tui.ui.lines import Line, fit, spread, width_of
from tui.ui.view import View
from tui.ui.widgets.gpus import STALE
from tui.ui.widgets.pane import Drawing
from tui.ui.words import ALARMS, verdict_glyph, verdict_role

if TYPE_CHECKING:
    from tui.model import HostView, LaunchView

HOST_MARKS = {
    "live": ("▪", "good"),
    "connecting": ("∙", "info"),
    "stale": ("~", "warn"),
    "lost": ("✗", "bad"),
    "failed": ("✗", "bad"),
}


GAP = 3
NAME_LEAST, NAME_NARROW, NAME_MOST = 20, 12, 40
"""Cells of the chosen launch's name; others give way where it would get fewer, in a narrow pane as few."""

AFTER_LAUNCHES = 14
"""Cells that launches leave to hosts and the clock."""


def paint_header(view: View, width: int) -> tuple[Line, list[tuple[int, int, str]]]:
    """The line, and where a click selects what: (first cell, end, ``launch:ID``, ``host:NAME``, ``launches:`` for those
    that have no room, or ``fleet:``)."""
    time: Line = [(fmt.clock(view.snapshot.wall)[:5], "dim"), (" ", "text")]
    if view.frozen:
        time = frozen_words(view)
    line, spots = _launches(view, width)
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


def _launches(view: View, width: int) -> tuple[Line, list[tuple[int, int, str]]]:
    """All launches where there is room, else the first ones and the chosen one, and how many there are beside them."""
    line: Line = [(" ", "text")]
    spots: list[tuple[int, int, str]] = []
    launches = view.snapshot.launches
    if not launches:
        return [*line, ("gputop-hang", "strong"), (" " * GAP, "text")], spots
    chosen = next((n for n, v in enumerate(launches) if view.launch and v.launch.id == view.launch.launch.id), 0)
    shown, room, named = _shown(view, chosen, width - AFTER_LAUNCHES)
    for n in shown:
        start = width_of(line)
        line += [*_launch(n + 1, launches[n], n == chosen, room, named), (" " * GAP, "text")]
        spots.append((start, width_of(line) - GAP, f"launch:{launches[n].launch.id}"))
    hidden = [v.verdict.id for n, v in enumerate(launches) if n not in shown]
    if hidden:
        from tui.ui.fleet import grave as gravity  # where there are so many: the first picture does not wait for it

        grave = min(hidden, key=gravity)
        start = width_of(line)
        line += [(f"+{len(hidden)}", verdict_role(grave) if grave in ALARMS else "dim"), (" " * GAP, "text")]
        spots.append((start, width_of(line) - GAP, "launches:"))
    return line, spots


def _shown(view: View, chosen: int, width: int) -> tuple[Sequence[int], int, bool]:
    """Which launches are shown, how many cells the chosen one's name gets, and whether the others show theirs."""
    launches = view.snapshot.launches
    least = [len(str(n)) + 2 + GAP for n in range(1, len(launches) + 1)]
    room = width - 6 * len(launches)
    names = sum(1 + cell_len(fit(v.launch.name, min(NAME_MOST, room))) for v in launches) if room >= 86 else 0
    if names and sum(least) + names <= width:
        return range(len(launches)), room, True
    name = NAME_LEAST if width >= 48 else NAME_NARROW
    room = width - 1 - sum(least)
    if room >= name or len(launches) == 1:
        return range(len(launches)), room, False
    left = width - least[chosen] - 1 - name - len(f"+{len(launches)}") - GAP
    shown = {chosen}
    for n, cells in enumerate(least):
        if n != chosen:
            left -= cells
            if left < 0:
                break
            shown.add(n)
    return sorted(shown), name + max(0, left), False


def frozen_words(view: View) -> Line:
    """Which moment is looked at instead of now."""
    return [(f" FROZEN at {fmt.clock(view.snapshot.wall)} ", "badge-frozen")]


def _launch(number: int, launch: LaunchView, chosen: bool, room: int, named: bool) -> Line:
    """Number, glyph and name; where room is short only the chosen launch keeps its name."""
    verdict = launch.verdict.id
    line: Line = [(str(number), "key" if chosen else "dim"), (" ", "text")]
    line.append((verdict_glyph(verdict), verdict_role(verdict)))
    if chosen or named:
        line += [(" ", "text"), (fit(launch.launch.name, min(NAME_MOST, room)), "strong" if chosen else "dim")]
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
                elif kind == "launches":
                    self.gputop.action_command_palette()
                else:
                    self.gputop.action_fleet()
