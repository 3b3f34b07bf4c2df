"""The fleet screen: every host in sight, found by filter and order, opened by enter or a second click."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.events import Resize
from textual.screen import Screen

from tui.errors import UsageError
from tui.ui.fleet import METRICS, ORDERS, FleetHost, fleet
from tui.ui.keys import FLEET
from tui.ui.layout import Rect
from tui.ui.lines import Line
from tui.ui.screens.main import put
from tui.ui.view import View
from tui.ui.widgets.fleet import FleetPane, in_sight, paint_chosen, paint_fleet_header
from tui.ui.widgets.hints import Hints
from tui.ui.widgets.pane import Drawing, app_of
from tui.ui.widgets.prompt import Prompt

if TYPE_CHECKING:
    from tui.model import LaunchView

CHOSEN_ROWS = 3

HINTS = (
    ("fleet.open", "open"),
    ("pane.back", "back"),
    ("search", "filter"),
    ("fleet.order", "order"),
    ("fleet.blocks", "blocks"),
    ("fleet.colour", "colour"),
    ("scroll.down", "move"),
)
"""Ids of bindings; those at the end are given up first where room is short."""


class FleetHeader(Drawing):
    line: Line

    def show(self, view: View) -> None:
        self.set_rows([self.line])


class ChosenHost(Drawing):
    rows: list[Line]

    def show(self, view: View) -> None:
        self.set_rows([[("  ", "text"), *row] for row in self.rows])


class FleetScreen(Screen[None]):
    BINDINGS: ClassVar[list[Binding]] = FLEET  # pyright: ignore[reportIncompatibleVariableOverride]
    ALSO: ClassVar[frozenset[str]] = frozenset({"freeze", "step", "step_change"})

    def __init__(self) -> None:
        super().__init__()
        self._header = FleetHeader(id="fleet-header")
        self.pane = FleetPane(self._clicked, self.action_move, id="fleet")
        self._chosen = ChosenHost(id="fleet-chosen")
        self._footer = Hints(HINTS, FLEET, id="fleet-footer")
        self.prompt = Prompt(id="prompt")
        self._rect = Rect(0, 0, 1, 2)
        self._order = 0
        self._wanted = ""
        self._name: str | None = None
        """The chosen host: it stays chosen when the order changes under it."""

    def compose(self) -> ComposeResult:
        yield from (self._header, self.pane, self._chosen, self._footer, self.prompt)

    def on_mount(self) -> None:
        self._place()
        self.pane.focus()
        self.show(app_of(self).view)

    def on_resize(self, event: Resize) -> None:
        self._place()
        self.show(app_of(self).view)

    def _place(self) -> None:
        width, height = app_of(self).size
        below = CHOSEN_ROWS if height >= 16 else 1
        put(self._header, Rect(0, 0, width, 1))
        self._rect = Rect(2, 1, max(1, width - 4), max(2, height - 3 - below))
        put(self.pane, self._rect)
        put(self._chosen, Rect(0, height - 1 - below, width, below))
        put(self._footer, Rect(0, height - 1, width, 1))
        put(self.prompt, Rect(0, height - 1, width, 1))

    def show(self, view: View) -> None:
        hosts = fleet(view.snapshot, self._order, self._wanted)
        pane = self.pane
        index = next((i for i, item in enumerate(hosts) if item.name == self._name), None)
        pane.hosts = hosts
        pane.chosen = index if index is not None else min(pane.chosen, max(0, len(hosts) - 1))
        self._name = hosts[pane.chosen].name if hosts else None
        width = app_of(self).size.width
        sight = in_sight(len(hosts), pane.chosen, self._rect.width, self._rect.height - 1)
        self._header.line = paint_fleet_header(
            hosts, view, width, pane.metric, pane.by_value, self._order, self._wanted, sight
        )
        self._chosen.rows = paint_chosen(self.chosen, width - 4, CHOSEN_ROWS)
        for part in (self._header, pane, self._chosen, self._footer):
            part.draw(view)

    @property
    def chosen(self) -> FleetHost | None:
        return self.pane.hosts[self.pane.chosen] if self.pane.hosts else None

    @property
    def subject(self) -> LaunchView | None:
        """The launch that keys are about here: the gravest one of the chosen host."""
        return self.chosen.launch if self.chosen is not None else None

    def choose(self, index: int) -> None:
        """Choose a host by its place; beyond the ends, the last one there."""
        if self.pane.hosts:
            self.pane.chosen = min(len(self.pane.hosts) - 1, max(0, index))
            self._name = self.pane.hosts[self.pane.chosen].name
            self.show(app_of(self).view)

    def _clicked(self, index: int, again: bool) -> None:
        self.action_open_host() if again else self.choose(index)

    # ------------------------------------------------------------------------------------------------------- actions

    def action_move(self, rows: int) -> None:
        self.choose(self.pane.chosen + rows)

    def action_column(self, columns: int) -> None:
        self.choose(self.pane.chosen + columns * self.pane.rows_a_column)

    def action_open_host(self) -> None:
        item = self.chosen
        if item is None:
            return
        self.dismiss()
        app_of(self).open_host(item.name, item.launch.launch.id if item.launch is not None else None)

    def action_leave(self) -> None:
        if self._wanted:
            self._filter("")
        else:
            self.dismiss()

    def action_order(self) -> None:
        self._order = (self._order + 1) % len(ORDERS)
        self.show(app_of(self).view)

    def action_blocks(self) -> None:
        self.pane.metric = METRICS[(METRICS.index(self.pane.metric) + 1) % len(METRICS)]
        self.show(app_of(self).view)

    def action_colour(self) -> None:
        self.pane.by_value = not self.pane.by_value
        self.show(app_of(self).view)

    def action_filter(self) -> None:
        self.prompt.ask("filter ", self._filter)

    def _filter(self, wanted: str | None) -> None:
        self.pane.focus()
        if wanted is None:
            return
        try:
            fleet(app_of(self).view.snapshot, self._order, wanted)
        except UsageError as error:
            app_of(self).notify(str(error), severity="warning", markup=False)
            return
        self._wanted = wanted.strip()
        self.show(app_of(self).view)
