"""The GPU table: one row per GPU under its host; hosts that are not in focus shrink to one row where room is short."""

from __future__ import annotations

from collections.abc import Sequence

from tui.model import Gpu, HostView, Trend
from tui.ui import format as fmt
from tui.ui.lines import Column, Line, bar, block, fit_columns, plain, row, spark, spread, titles, wrap_spans
from tui.ui.view import View
from tui.ui.widgets.pane import Painting, Pane

COLUMNS = (
    Column("gpu", "GPU", 3, "right"),
    Column("rank", "rank", 5, "right", drop=2),
    Column("util", "util", 10, flex=2, most=20),
    Column("util_pct", "", 4, "right"),
    Column("history", "last minute", 8, flex=3, most=30, drop=6),
    Column("power", "power W", 7, "right"),
    Column("mem", "memory", 6, flex=1, most=16, drop=4),
    Column("mem_gib", "GiB", 9, "right", drop=1),
    Column("temp", "°C", 3, "right", drop=5),
    Column("sm", "SM MHz", 6, "right", drop=8),
    Column("nvlink", "NVLink", 6, "right", drop=9),
    Column("pcie", "PCIe rx/tx", 11, "right", drop=10),
    Column("name", "model", 5, drop=11, flex=1, most=24),
)
STALE = {"stale", "lost", "failed"}


def paint_gpus(view: View, width: int, room: int) -> tuple[list[Line], list[Line]]:
    """The column titles and the rows. ``room`` is the height for both."""
    fitted = fit_columns(COLUMNS, width)
    head = [titles(fitted)] if width >= 60 and any(_gpus(h) for h in view.hosts) else []
    compact = view.many_hosts and sum(2 + len(_gpus(h)) for h in view.hosts) > room - len(head)
    body: list[Line] = []
    if compact:
        for host in view.hosts:
            body += _host_row(host, width)
        return [], body
    for host in view.hosts:
        body += _host_rows(view, host, fitted, width)
    return head, body


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


def _host_rows(view: View, host: HostView, fitted: Sequence[tuple[Column, int]], width: int) -> list[Line]:
    rows: list[Line] = []
    if view.many_hosts:
        note: Line = [(" SIMULATED ", "badge-sim")] if host.simulated else []
        rows.append(spread([(host.name, "strong")], note, width))
    if host.state != "live":
        state = state_line(host)
        rows += wrap_spans([(" " * (3 if view.many_hosts else 0), "text")], plain(state), state[0][1], width)
    gpus = _gpus(host)
    if not gpus and host.state == "live":
        rows += wrap_spans([], no_gpu_words(host), "dim", width)
    rows += [_gpu_row(view, host, gpu, fitted) for gpu in gpus]
    return rows


def no_gpu_words(host: HostView) -> str:
    """Why a host that is heard has no GPU rows."""
    if host.sample is None:
        return "No reading has come yet."
    if host.sample.gpus is None:
        return f"GPUs cannot be read: {host.sample.gpu_error or 'NVML gives no answer'}."
    return "No GPU on this host; processes and logs are watched all the same."


def _gpu_row(view: View, host: HostView, gpu: Gpu, fitted: Sequence[tuple[Column, int]]) -> Line:
    widths = {column.key: width for column, width in fitted}
    stale = host.state in STALE
    text, dim = ("faint", "faint") if stale else ("text", "dim")
    ranks = view.ranks_of_gpu.get((host.name, gpu.uuid), [])
    odd = any((p.host, p.pid) in view.odd for p in view.processes if gpu.uuid in p.gpus and p.host == host.name)
    rank_role = "odd" if odd and not stale else dim
    cells: dict[str, Line] = {
        "gpu": [(str(gpu.index), text)],
        "rank": [("◂" if odd and "rank" not in widths else "", rank_role), (_rank_text(ranks), rank_role)],
    }
    if gpu.error is not None:
        cells["util"] = [(gpu.error, "bad")]
        return _error_row(fitted, cells)
    trend = host.trends.get(gpu.uuid) or host.trends.get(f"#{gpu.index}") or Trend()
    cells |= {
        "util": bar(_share(gpu.util_pct, 100), widths["util"], text if stale else "bar"),
        "util_pct": [(fmt.percent(gpu.util_pct), text)],
        "history": [(spark(trend.util_pct, widths.get("history", 0)), text if stale else "history")],
        "power": [(fmt.number(gpu.power_w), text), (_of(gpu.power_limit_w), dim)],
        "mem": bar(_share(gpu.mem_used_mib, gpu.mem_total_mib), widths.get("mem", 0), text if stale else "bar-mem"),
        "mem_gib": [(fmt.gib(gpu.mem_used_mib), text), (f"/{fmt.gib(gpu.mem_total_mib)}", dim)],
        "temp": [(fmt.number(gpu.temp_c), dim)],
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


def _error_row(fitted: Sequence[tuple[Column, int]], cells: dict[str, Line]) -> Line:
    """A GPU that could not be read: its index, its rank and the reason over the rest of the row."""
    lead = [(c, w) for c, w in fitted if c.key in ("gpu", "rank")]
    return [*row(lead, cells), ("  ", "text"), *cells["util"]]


def _of(limit: float | None) -> str:
    return "" if limit is None else f"/{limit:.0f}"


def _rank_text(ranks: Sequence[int]) -> str:
    return fmt.ranks(list(ranks)) if ranks else ""


def _share(value: float | None, whole: float | None) -> float | None:
    return None if value is None or not whole else value / whole


def _host_row(host: HostView, width: int) -> list[Line]:
    """A whole host in one row, or two where it is narrow or has something to say: a block per GPU, then sums."""
    gpus = _gpus(host)
    role = "faint" if host.state in STALE else "text"
    blocks = "".join(block(g.util_pct) for g in gpus)
    util = _mean([g.util_pct for g in gpus])
    power = _mean([g.power_w for g in gpus])
    used = _total([g.mem_used_mib for g in gpus])
    total = _total([g.mem_total_mib for g in gpus])
    numbers = f"{fmt.percent(util)} · {fmt.watts(power)} each"
    memory = f" · {fmt.memory(used, total)}"
    name: Line = [(host.name, "strong")]
    mark: Line = [(" SIMULATED ", "badge-sim")] if host.simulated else []
    reading: Line = [(blocks, "bar" if role == "text" else role), ("  ", "text"), (numbers, role), (memory, "dim")]
    rows: list[Line] = []
    if not gpus and host.state == "live":
        return [*[spread(name, mark, width)], *wrap_spans([("  ", "text")], no_gpu_words(host), "dim", width)]
    if gpus and width >= 90:
        rows.append(spread([*name, (" " * max(1, 18 - len(host.name)), "text"), *reading], mark, width))
    else:
        rows.append(spread(name, mark, width))
        if gpus:
            rows.append([("  ", "text"), *reading])
    if host.state != "live":
        state = state_line(host)
        rows += wrap_spans([("  ", "text")], plain(state), state[0][1], width)
    return rows


def _mean(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None


def _total(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) if known else None


class GpuPane(Pane):
    KEY = "g"

    def paint(self, view: View, width: int, height: int) -> Painting:
        hosts = view.hosts
        title: Line = [("GPUs", "title")]
        note: Line = []
        if not hosts:
            return Painting([], title=title)
        if view.many_hosts:
            live = sum(h.state == "live" for h in hosts)
            title.append((f"  {fmt.plural(len(hosts), 'host')}, {live} live", "dim"))
        else:
            title.append((f"  {hosts[0].name}", "dim"))
            note = [(" SIMULATED ", "badge-sim")] if hosts[0].simulated else []
        head, body = paint_gpus(view, width, height - 1)
        return Painting(body, title=title, note=note, head=head)
