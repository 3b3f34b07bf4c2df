"""The timelines of the chosen launch on one axis, as far back as it was seen."""

from __future__ import annotations

from textual.events import Click

from tui.ui import format as fmt
from tui.ui.lines import Line
from tui.ui.timeline import LABEL, VALUE, Axis, axis, mark, paint_timeline
from tui.ui.view import View
from tui.ui.widgets.pane import Painting, Pane


class TimelinePane(Pane):
    OPENED_BY = "open.timeline"
    EVERY_S = 4.9

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.zoom = 0
        self._axis: Axis | None = None

    def paint(self, view: View, width: int, height: int) -> Painting:
        title: Line = [("timeline", "title")]
        launch = view.launch
        cells = width - LABEL - VALUE
        if launch is None or not launch.course.times or cells < 8:
            return Painting([], title=title)
        now, latest = view.snapshot.t, launch.course.times[-1]
        begin = min([launch.course.times[0], *(span.start for span in launch.spans)])
        self._axis = axis(begin, latest, cells, self.zoom)
        if now < self._axis.start or self.zoom:
            self._axis = axis(begin, min(latest, now + cells * self._axis.bin_s / 2), cells, self.zoom)
        rows = paint_timeline(launch, self._axis, now, height - 1, view.wall_of(0.0))
        x = self._axis.cell(now)
        if view.past and 0 <= x < cells:
            rows = [mark(row, LABEL + x) for row in rows]
            title.append((f"  at {fmt.clock(view.snapshot.wall)}, {fmt.duration(latest - now)} ago", "info"))
        else:
            title.append((f"  {fmt.duration(latest - begin)}", "dim"))
        return Painting(rows, title=title)

    def zoom_by(self, steps: int) -> None:
        """Show a shorter (positive) or longer stretch."""
        self.zoom = min(8, max(-4, self.zoom + steps))

    @property
    def cell_s(self) -> float:
        """The seconds that one cell covers; five where nothing is drawn."""
        return 2 * self._axis.bin_s if self._axis is not None else 5.0

    async def on_click(self, event: Click) -> None:
        """Look at the moment that was clicked on; the title is the pane's own matter, which is told as well."""
        if event.y and self._axis is not None and 0 <= event.x - LABEL < self._axis.cells:
            self.gputop.look_at(self._axis.start + (event.x - LABEL + 1) * self.cell_s)
