"""The fleet: a row of blocks for every host, in as many columns as it takes to see all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from textual.events import Click, MouseScrollDown, MouseScrollUp

from tui.ui import format as fmt
from tui.ui.fleet import METRICS, ORDERS, FleetHost, Metric, counts
from tui.ui.lines import (
    Column,
    Line,
    block,
    cut,
    fit,
    fit_columns,
    fit_left,
    pad,
    row,
    spread,
    titles,
    width_of,
    wrap_spans,
)
from tui.ui.view import View
from tui.ui.widgets.gpus import STALE, state_line
from tui.ui.widgets.header import HOST_MARKS, frozen_words
from tui.ui.widgets.pane import Drawing
from tui.ui.words import cause_words, spaced, verdict_glyph, verdict_role, verdict_word

COLUMN_LEAST = 23
GAP = 3

COLUMNS = (
    Column("mark", "", 1),
    Column("host", "host", 8, flex=2, most=24),
    Column("gpus", "GPUs", 8, flex=1, most=16),
    Column("value", "", 5, "right", drop=3),
    Column("phase", "phase", 12, drop=1, flex=1, most=14),
    Column("silent", "silent", 7, "right", drop=2),
)


def columns_of(hosts: int, width: int, height: int) -> int:
    """How many columns show that many hosts at once, or as many as the width has room for."""
    needed = -(-hosts // max(1, height))
    return max(1, min(needed, (width + GAP) // (COLUMN_LEAST + GAP)))


def in_sight(hosts: int, chosen: int, width: int, height: int) -> tuple[int, int]:
    """The index of the first host that is shown, and of the one after the last, where ``chosen`` is to be seen."""
    page = columns_of(hosts, width, height) * height
    top = max(0, chosen // page) * page
    return top, min(hosts, top + page)


def short_names(names: Sequence[str], width: int) -> list[str]:
    """The names in ``width`` cells each. A domain that all share goes first; then what is cut is the end or, where that
    leaves more of them apart (``ip-10-0-12-7`` and its hundred neighbours), the beginning."""
    if all(cell_len(name) <= width for name in names):
        return list(names)
    domains = {name.partition(".")[2] for name in names}
    if len(domains) == 1 and len(names) > 1:
        names = [name.partition(".")[0] for name in names]
    ends, begins = [fit(name, width) for name in names], [fit_left(name, width) for name in names]
    return begins if len(set(begins)) > len(set(ends)) else ends


@dataclass(frozen=True, slots=True)
class Looks:
    """What the blocks show, whether they are coloured by that or by the verdict, and which host is chosen."""

    metric: Metric
    by_value: bool
    chosen: int


def paint_fleet(rows: Sequence[FleetHost], view: View, width: int, height: int, looks: Looks) -> tuple[list[Line], int]:
    """The titles and ``height`` rows, hosts running down each column, and the index of the first one in sight."""
    count = columns_of(len(rows), width, height)
    wide = (width - GAP * (count - 1)) // count
    fitted = fit_columns(COLUMNS, wide)
    widths = {column.key: cells for column, cells in fitted}
    top, end = in_sight(len(rows), looks.chosen, width, height)
    names = short_names([item.name for item in rows[top:end]], widths.get("host", 0))
    lines: list[Line] = [[]]
    for x in range(count):
        lines[0] += [*([(" " * GAP, "text")] if x else []), *pad(titles(fitted), wide)]
    for y in range(height):
        line: Line = []
        for x in range(count):
            index = top + x * height + y
            if x:
                line.append((" " * GAP, "text"))
            if index < end:
                line += pad(
                    row(fitted, _row(rows[index], names[index - top], view, widths, looks, index == looks.chosen)), wide
                )
            else:
                line += pad([], wide)
        lines.append(line)
    return lines, top


def _row(
    item: FleetHost, short: str, view: View, wide: Mapping[str, int], looks: Looks, chosen: bool
) -> dict[str, Line]:
    stale = item.host.state in STALE
    glyph, role = HOST_MARKS.get(item.host.state, ("∙", "dim"))
    if item.verdict and not stale:
        glyph, role = verdict_glyph(item.verdict), verdict_role(item.verdict)
    name = "badge-key" if chosen else "strong" if item.verdict in ("hung", "crashed", "suspect") or stale else "text"
    cells: dict[str, Line] = {
        "mark": [(glyph, role)],
        "host": [(short, name)],
        "gpus": _blocks(item, looks.metric, wide["gpus"], "faint" if stale else None if looks.by_value else role),
    }
    if stale:
        cells["phase"] = [(fit(item.host.state, wide.get("phase", 0)), role)]
        return cells
    mean = item.mean(looks.metric)
    cells["value"] = [(fmt.UNKNOWN if mean is None else f"{mean:.0f}{looks.metric.unit}", "dim")]
    if item.launch is not None:
        verdict = item.launch.verdict
        silent = None if verdict.silent_s is None else verdict.silent_s + view.now - verdict.t
        cells["phase"] = [(fit(spaced(verdict.phase), wide.get("phase", 0)), "dim")]
        if silent is not None and silent >= 10:
            cells["silent"] = [(fmt.duration(silent), "dim")]
    return cells


def _blocks(item: FleetHost, metric: Metric, width: int, role: str | None) -> Line:
    """A block a GPU; its colour is the verdict's, or, with ``role`` ``None``, that of its own reading."""
    gap = " " if 2 * len(item.gpus) - 1 <= width else ""
    line: Line = []
    for gpu in item.gpus:
        value, top = metric.of(gpu), metric.top(gpu)
        said = role or _heat(value, top)
        line.append((("" if not line else gap) + block(value, top or 1.0), "bad" if gpu.error or gpu.xids else said))
    return line or [("no GPU" if item.host.sample else "", "faint")]


def _heat(value: float | None, top: float | None) -> str:
    if value is None or not top:
        return "dim"
    share = value / top
    return "dim" if share < 0.05 else "info" if share < 0.5 else "good" if share < 0.85 else "warn"


def paint_fleet_header(
    shown: Sequence[FleetHost],
    view: View,
    width: int,
    metric: Metric,
    by_value: bool,
    order: int,
    wanted: str,
    sight: tuple[int, int],
) -> Line:
    """How many hosts there are, which of them are in sight where not all are, and how they stand; what blocks, colours
    and order mean, or that it is not now."""
    all_hosts = len(view.snapshot.hosts)
    gpus = sum(len(item.gpus) for item in shown)
    hosts = fmt.plural(all_hosts, "host") if len(shown) == all_hosts else f"{len(shown)} of {all_hosts} hosts"
    if sight[1] - sight[0] < len(shown):
        hosts = f"{sight[0] + 1}–{sight[1]} of {fmt.plural(len(shown), 'host')}"
        hosts += "" if len(shown) == all_hosts else f" of {all_hosts}"
    line: Line = [(" fleet", "strong"), (f"  {hosts}, {fmt.plural(gpus, 'GPU')}", "dim")]
    for verdict, n in counts(shown):
        line += [("  ", "text"), (f"{verdict_glyph(verdict)} {n} {verdict}", verdict_role(verdict))]
    if wanted:
        line += [("  ", "text"), (f" {wanted} ", "badge-frozen")]
    colour = metric.name if by_value else "verdict"
    right: Line = [(f"blocks {metric.name}, colour {colour}, {ORDERS[order][0]} ", "dim")]
    if view.frozen:
        right = frozen_words(view)
        line = cut(line, width - width_of(right) - 1)
    return spread(line, right, width) if width_of(line) + width_of(right) < width else cut(line, width)


def paint_chosen(item: FleetHost | None, width: int, height: int) -> list[Line]:
    """What there is to say of the chosen host."""
    if item is None:
        return [[("no host matches the filter", "dim")]]
    lead: Line = [(f"{item.name} ", "strong")]
    if item.host.state != "live":
        return [cut([*lead, *state_line(item.host)], width)]
    if item.launch is None:
        return [cut([*lead, ("no launch runs here", "dim")], width)]
    view = item.launch
    verdict = view.verdict
    word = f" {verdict_glyph(verdict.id)} {verdict_word(verdict.id)} "
    lead += [(word, f"badge-{verdict_role(verdict.id).removeprefix('verdict-')}"), (f" {view.launch.name}  ", "text")]
    if len(item.launches) > 1:
        lead.append((f"and {fmt.plural(len(item.launches) - 1, 'launch', 'launches')} more  ", "dim"))
    rows = [cut([*lead, (cause_words(verdict), "text")], width)]
    for reason in verdict.reasons[:1]:
        rows += wrap_spans([], reason, "dim", width)
    return rows[:height]


class FleetPane(Drawing, can_focus=True):
    """``on_choose`` gets the index of a host that was clicked on, and whether it had been chosen before; ``on_move`` by
    how many hosts the wheel moves."""

    def __init__(self, on_choose: Callable[[int, bool], None], on_move: Callable[[int], None], *, id: str) -> None:
        super().__init__(id=id)
        self.hosts: list[FleetHost] = []
        self.chosen = 0
        self.metric = METRICS[0]
        self.by_value = False
        self._top = 0
        self._on_choose, self._on_move = on_choose, on_move

    @property
    def rows_a_column(self) -> int:
        return max(1, self.size.height - 1)

    def show(self, view: View) -> None:
        width = self.size.width
        looks = Looks(self.metric, self.by_value, self.chosen)
        rows, self._top = paint_fleet(self.hosts, view, width, self.rows_a_column, looks)
        self.set_rows(rows)

    def index_at(self, x: int, y: int) -> int | None:
        """Which host lies under a cell."""
        count = columns_of(len(self.hosts), self.size.width, self.rows_a_column)
        wide = (self.size.width - GAP * (count - 1)) // count
        index = self._top + min(count - 1, x // (wide + GAP)) * self.rows_a_column + y - 1
        return index if y and index < len(self.hosts) else None

    def on_click(self, event: Click) -> None:
        index = self.index_at(event.x, event.y)
        if index is not None:
            self._on_choose(index, index == self.chosen)

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        event.stop()
        self._on_move(3)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        event.stop()
        self._on_move(-3)
