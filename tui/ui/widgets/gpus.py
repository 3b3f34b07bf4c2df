"""The GPU table: one row per GPU under its host; hosts that are not in focus shrink to one row where room is short."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from tui.numbers import mean_known, share, total_known
from tui.ui import format as fmt
from tui.ui.lines import Column, Line, bar, block, cut, fit_columns, row, spark, spread, titles, wrap_spans
from tui.ui.view import View
from tui.ui.widgets.pane import LazyRows, Painting, Pane
from tui.ui.widgets.welcome import paint_welcome

if TYPE_CHECKING:
    from tui.model import Gpu, HostView

COLUMNS = (
    Column("gpu", "GPU", 3, "right"),
    Column("rank", "rank", 4, "right", drop=2),
    Column("util_pct", "util", 4, "right"),
    Column("util", "", 6, flex=2, most=20),
    Column("history", "history", 8, flex=3, most=30, drop=6),
    Column("power", "power W", 8, "right"),
    Column("mem", "memory", 6, flex=1, most=16, drop=4),
    Column("mem_gib", "GiB", 10, "right", drop=1),
    Column("temp", "°C", 4, "right", drop=5),
    Column("sm", "SM MHz", 6, "right", drop=8),
    Column("nvlink", "NVLink", 6, "right", drop=9),
    Column("pcie", "PCIe rx/tx", 11, "right", drop=10),
    Column("name", "model", 5, drop=11, flex=1, most=24),
)
HOST_COLUMNS = (
    Column("host", "host", 8, flex=1, most=24),
    Column("ranks", "ranks", 6, drop=5, flex=1, most=12),
    Column("util_pct", "util", 4, "right"),
    Column("util", "", 8, flex=3, most=16),
    Column("power_w", "W each", 6, "right"),
    Column("power", "", 8, drop=4, flex=3, most=16),
    Column("mem", "memory", 8, drop=6, flex=1, most=16),
    Column("mem_gib", "GiB", 9, "right", drop=1),
    Column("temp", "°C", 3, "right", drop=3),
    Column("mark", "", 11, drop=7),
)
Fitted: TypeAlias = Sequence[tuple[Column, int]]
STALE = {"stale", "lost", "failed"}


def rows_needed(view: View, width: int) -> tuple[int, int]:
    """How many rows the table takes with a row per GPU, and with a row per host, column titles included."""
    if not view.many_hosts:
        rows = sum(len(_gpus(h)) or len(wrap_spans([], no_gpu_words(h), "dim", width)) for h in view.hosts)
        return rows + 1, rows
    troubled = sum(h.state != "live" for h in view.hosts)
    full = sum(1 + max(1, len(_gpus(h))) for h in view.hosts) + troubled
    without = sum(h.state == "live" and not _gpus(h) for h in view.hosts)
    return full + 1, len(view.hosts) + troubled + without + 1


FEW_ROWS = 5
"""With less room than this even a single host is drawn in one row."""

FULL_GPUS = 128
"""Up to so many GPUs the open pane shows each in a row of its own, to be scrolled."""


def paint_gpus(view: View, width: int, room: int, full: bool = False) -> tuple[list[Line], Sequence[Line]]:
    """The column titles and the rows, a row per GPU where ``room`` rows hold them all, else a row per host.

    The titles give way where the rows would just fit without them.
    """
    gpus = sum(len(_gpus(h)) for h in view.hosts)
    needed = rows_needed(view, width)
    short = needed[0] - 1 > room and (view.many_hosts or room < FEW_ROWS)
    if short and not (full and gpus <= FULL_GPUS):
        fitted = fit_columns(HOST_COLUMNS, width)
        body = [line for host in view.hosts for line in _host_summary(view, host, fitted, width)]
        return [titles(fitted)] if len(body) != room else [], body
    fitted = fit_columns(COLUMNS, width)
    head = [titles(fitted)] if gpus and needed[0] != room + 1 else []
    makers = [make for host in view.hosts for make in _host_rows(view, host, fitted, width, units=not head)]
    return head, LazyRows(makers)


def _gpus(host: HostView) -> Sequence[Gpu]:
    return (host.sample.gpus or ()) if host.sample else ()


def state_line(host: HostView) -> Line:
    """The state of a host that is not live, with its age and reason."""
    role = "bad" if host.state in ("lost", "failed") else "warn"
    words = {"connecting": "connecting", "stale": "stale", "lost": "lost", "failed": "not reachable"}
    text = words.get(host.state, host.state)
    if host.age_s is not None and host.sample is not None:
        text += f" for {fmt.duration(host.age_s)}"
    return [(text, "info" if host.state == "connecting" else role), (f": {host.reason}" if host.reason else "", "dim")]


def _host_rows(view: View, host: HostView, fitted: Fitted, width: int, *, units: bool) -> list[Callable[[], Line]]:
    """A host's name where there are several, what is wrong with it, and its GPUs; each row is made when it is seen."""
    rows: list[Line] = []
    if view.many_hosts:
        note: Line = [(" SIMULATED ", "badge-sim")] if host.simulated else []
        rows.append(spread([(host.name, "strong")], note, width))
        if host.state != "live":
            rows.append(cut([("   ", "text"), *state_line(host)], width))
    gpus = _gpus(host)
    if not gpus and host.state == "live":
        words = wrap_spans([], no_gpu_words(host), "dim", width)
        rows += words[:1] if view.many_hosts else words
    return [
        *(partial(_same, line) for line in rows),
        *(partial(_gpu_row, view, host, gpu, fitted, units) for gpu in gpus),
    ]


def _same(line: Line) -> Line:
    return line


def no_gpu_words(host: HostView) -> str:
    """Why a host that is heard has no GPU rows."""
    if host.sample is None:
        return "No reading has come yet."
    if host.sample.gpus is None:
        return f"GPUs cannot be read: {host.sample.gpu_error or 'NVML gives no answer'}."
    return "No GPU on this host; processes and logs are watched all the same."


def _gpu_row(view: View, host: HostView, gpu: Gpu, fitted: Fitted, units: bool) -> Line:
    widths = {column.key: width for column, width in fitted}
    stale = host.state in STALE
    text, dim = ("faint", "faint") if stale else ("text", "dim")
    ranks = view.ranks_of_gpu.get((host.name, gpu.uuid), [])
    odd = (host.name, gpu.uuid) in view.odd_gpus
    rank_role = "odd" if odd and not stale else dim
    cells: dict[str, Line] = {
        "gpu": [(str(gpu.index), rank_role if odd and "rank" not in widths else dim)],
        "rank": [(("r" if units and ranks else "") + fmt.ranks(ranks), rank_role)],
    }
    if gpu.error is not None:
        cells["error"] = [(gpu.error, "bad")]
        return _error_row(fitted, cells)
    trend = host.trends.get(gpu.uuid) or host.trends.get(f"#{gpu.index}")
    cells |= {
        "util": bar(share(gpu.util_pct, 100), widths["util"], text if stale else "bar"),
        "util_pct": [(fmt.percent(gpu.util_pct), text)],
        "history": [(spark(trend.util_pct if trend else (), widths.get("history", 0)), text if stale else "history")],
        "power": [(fmt.number(gpu.power_w), text), (_of(gpu.power_limit_w) + ("W" if units else ""), dim)],
        "mem": bar(share(gpu.mem_used_mib, gpu.mem_total_mib), widths.get("mem", 0), text if stale else "bar-mem"),
        "mem_gib": [(fmt.gib(gpu.mem_used_mib), text), (_total_text(gpu.mem_total_mib) + ("G" if units else ""), dim)],
        "temp": [(fmt.number(gpu.temp_c) + ("°" if units else ""), dim)],
        "sm": [(fmt.number(gpu.sm_clock_mhz), dim)],
        "nvlink": [(fmt.rate(gpu.nvlink_mib_s), dim)],
        "pcie": [(f"{fmt.rate(gpu.pcie_rx_mib_s)}/{fmt.rate(gpu.pcie_tx_mib_s)}", dim)],
        "name": _name_cell(gpu, dim),
    }
    return row(fitted, cells)


def _name_cell(gpu: Gpu, role: str) -> Line:
    """The model, or what is wrong with the GPU, which matters more."""
    if gpu.xids:
        return [("Xid " + ", ".join(str(x) for x in gpu.xids), "bad")]
    if gpu.throttle:
        return [(gpu.throttle[0].replace("_", " "), "warn")]
    return [(gpu.name.removeprefix("NVIDIA "), role)]


def _error_row(fitted: Fitted, cells: dict[str, Line]) -> Line:
    """A GPU that could not be read: its index, its rank and the reason over the rest of the row."""
    lead = [(c, w) for c, w in fitted if c.key in ("gpu", "rank")]
    return [*row(lead, cells), ("  ", "text"), *cells["error"]]


def _of(limit: float | None) -> str:
    return "" if limit is None else f"/{limit:.0f}"


def _total_text(total_mib: float | None) -> str:
    return f"/{fmt.gib(total_mib)}" if total_mib else ""


def _host_summary(view: View, host: HostView, fitted: Fitted, width: int) -> list[Line]:
    """A whole host in one row, a block per GPU, and a second row where it has something to say."""
    gpus = _gpus(host)
    wide = {column.key: cells for column, cells in fitted}
    stale = host.state in STALE
    text, dim, fill = ("faint", "faint", "faint") if stale else ("text", "dim", "bar")
    ranks = [r for g in gpus for r in view.ranks_of_gpu.get((host.name, g.uuid), [])]
    used, total = total_known([g.mem_used_mib for g in gpus]), total_known([g.mem_total_mib for g in gpus])
    limit = max((g.power_limit_w or 0 for g in gpus), default=0)
    hottest = max((g.temp_c for g in gpus if g.temp_c is not None), default=None)
    cells: dict[str, Line] = {"host": [(host.name, "strong")]}
    if host.simulated:
        cells["mark"] = [(" SIMULATED ", "badge-sim")]
    if gpus:
        cells |= {
            "ranks": [(fmt.ranks(ranks), dim)],
            "util": [(_blocks([g.util_pct for g in gpus], wide["util"], 100), fill)],
            "util_pct": [(fmt.percent(mean_known([g.util_pct for g in gpus])), text)],
            "power": [(_blocks([g.power_w for g in gpus], wide.get("power", 0), limit), fill)],
            "power_w": [(fmt.number(mean_known([g.power_w for g in gpus])), text)],
            "mem": bar(share(used, total), wide.get("mem", 0), text if stale else "bar-mem"),
            "mem_gib": [(fmt.gib(used), text), (_total_text(total), dim)],
            "temp": [(fmt.number(hottest), dim)],
        }
    rows = [row(fitted, cells)]
    if host.state != "live":
        state = state_line(host)
        rows.append(cut([("  ", "text"), *state], width))
    elif not gpus:
        rows.append(cut([("  ", "text"), (no_gpu_words(host), "dim")], width))
    return rows


def _blocks(values: Sequence[float | None], width: int, top: float) -> str:
    """A block per value, set apart by blanks where they fit."""
    return (" " if 2 * len(values) - 1 <= width else "").join(block(v, top or 1.0) for v in values)


def paint_one_row(view: View, width: int) -> Line:
    """All GPUs in one row: a block each, hosts set apart, and what they come to."""
    gpus = [gpu for host in view.hosts for gpu in _gpus(host)]
    if not gpus:
        return [(no_gpu_words(view.hosts[0]), "dim")] if view.hosts else []
    used, total = total_known([g.mem_used_mib for g in gpus]), total_known([g.mem_total_mib for g in gpus])
    part = share(used, total)
    power = fmt.number(mean_known([g.power_w for g in gpus]))
    memory = fmt.percent(None if part is None else 100 * part)
    said = f" {fmt.percent(mean_known([g.util_pct for g in gpus]))} {power}W mem {memory}"
    note: Line = [(" SIMULATED ", "badge-sim")] if any(h.simulated for h in view.hosts) else []
    line: Line = [("GPUs ", "dim")]
    for i, host in enumerate(view.hosts):
        blocks = "".join(block(g.util_pct) for g in _gpus(host))
        line.append(((" " if i else "") + blocks, "faint" if host.state in STALE else "bar"))
    return spread([*line, (said, "text")], note, width)


class GpuPane(Pane):
    OPENED_BY = "open.gpus"
    EVERY_S = 1.9

    def paint(self, view: View, width: int, height: int) -> Painting:
        hosts = view.hosts
        if height == 1:
            return Painting([paint_one_row(view, width)])
        title: Line = [("GPUs", "title")]
        note: Line = []
        if not hosts:
            return Painting([], title=title)
        if view.many_hosts:
            live = sum(h.state == "live" for h in hosts)
            title.append((f"  {fmt.plural(len(hosts), 'host')}, {live} live", "dim"))
        else:
            title.append((f"  {hosts[0].name}", "dim"))
            if hosts[0].state != "live":
                title += [("  ", "text"), state_line(hosts[0])[0]]
            note = [(" SIMULATED ", "badge-sim")] if hosts[0].simulated else []
        head, body = paint_gpus(view, width, height - 1, self.full)
        if view.offers_demo:
            body = [*body, *paint_welcome(view.keys, width)]
        if not head and view.many_hosts and view.hosts[0].simulated:
            note = [(" SIMULATED ", "badge-sim")]
        return Painting(body, title=title, note=note, head=head)
