"""A snapshot for people: tables in a terminal, or Markdown to paste into an issue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text

from tui.headless.paper import Paper
from tui.model import Explanation, Gpu, HostView, LaunchView, ProcView, Snapshot
from tui.record.usual import words

_GPU_HEAD = ("GPU", "name", "util %", "memory MiB", "power W", "°C", "SM MHz", "note")
_PROC_HEAD = (
    "rank",
    "host",
    "pid",
    "role",
    "state",
    "threads",
    "CPU %",
    "RSS MiB",
    "reads MiB/s",
    "waits in",
    "children",
)
_RIVAL_HEAD = ("explanation", "", "it expects", "seen")


def write(snapshot: Snapshot, *, markdown: bool) -> None:
    """Print to standard output."""
    sheet = _Markdown() if markdown else _Terminal()
    for view in snapshot.launches:
        _launch(sheet, view)
    if not snapshot.launches and any(host.sample for host in snapshot.hosts):
        sheet.say(
            "no launch found: no SGLang, vLLM or torchrun process, none that computes on a GPU, "
            "and none that --pid or --port names"
        )
    for host in snapshot.hosts:
        _host(sheet, host)


class _Terminal:
    def __init__(self) -> None:
        self._console = Paper()

    def head(self, text: str) -> None:
        self._console.print(Text(text, style="bold"), soft_wrap=True)

    def say(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)

    def table(self, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for name in head:
            table.add_column(Text(name), style="" if name else "dim", overflow="fold")
        for cells in rows:
            table.add_row(*(Text(cell) for cell in cells))
        self._console.print(table)


class _Markdown:
    def head(self, text: str) -> None:
        print(f"\n### {_escaped(text)}\n")

    def say(self, text: str) -> None:
        print(f"* {_escaped(text)}")

    def table(self, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        print()
        for cells in (head, ["---"] * len(head), *rows):
            print("| " + " | ".join(cell if cell == "---" else _escaped(cell) for cell in cells) + " |")
        print()


def _escaped(text: str) -> str:
    """Text from a host must not become markup on the page that it is pasted into."""
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>|#!@" else c for c in text)


def _launch(sheet: _Terminal | _Markdown, view: LaunchView) -> None:
    launch, verdict = view.launch, view.verdict
    cause = f" ({verdict.cause}, {verdict.strength})" if verdict.cause else ""
    alive = f"{_number(verdict.alive)} of {_number(verdict.expected)} ranks alive"
    sheet.head(f"{launch.name} on {', '.join(launch.hosts)}: {verdict.id.upper()}{cause}")
    usual = view.usual_at(verdict.t)
    took = f", {words(usual)}" if usual is not None else ""
    sheet.say(f"phase {verdict.phase}{took}, {alive}, log still for {_seconds(verdict.silent_s)}")
    for sentence in (*verdict.reasons, *([verdict.remedy] if verdict.remedy else [])):
        sheet.say(sentence)
    rivals = [
        (rival.title, _fate(rival), prediction.expects, prediction.seen)
        for rival in verdict.explanations
        for prediction in rival.predictions
        if rival.alive or prediction.outcome == "refutes"
    ]
    if rivals:
        sheet.table(_RIVAL_HEAD, rivals)
    if view.processes:
        sheet.table(_PROC_HEAD, [_process(process) for process in view.processes])
    for log in view.logs:
        last = log.tail[-1].text if log.tail else ""
        sheet.say(f"{log.host}:{log.path}  {log.error or f'still for {_seconds(log.silent_s)}: {last}'}")


def _fate(rival: Explanation) -> str:
    return "stands" if rival.alive else "refuted" if rival.refuted else "open"


def _host(sheet: _Terminal | _Markdown, host: HostView) -> None:
    sheet.head(f"{host.name}: {host.state}{'  SIMULATED' if host.simulated else ''}")
    if host.state != "live":
        sheet.say(host.reason)
    sample = host.sample
    if sample is None:
        return
    if sample.gpus is None:
        sheet.say(sample.gpu_error or "GPUs not read yet")
    elif not sample.gpus:
        sheet.say("the driver answers, and knows no GPU")
    else:
        sheet.table(_GPU_HEAD, [_gpu(gpu) for gpu in sample.gpus])


def _gpu(gpu: Gpu) -> tuple[str, ...]:
    memory = f"{_number(gpu.mem_used_mib)}/{_number(gpu.mem_total_mib)}"
    power = f"{_number(gpu.power_w)}/{_number(gpu.power_limit_w)}"
    note = gpu.error or ", ".join((*gpu.throttle, *(f"Xid {xid}" for xid in gpu.xids)))
    numbers = (_number(gpu.util_pct), memory, power, _number(gpu.temp_c), _number(gpu.sm_clock_mhz))
    return (str(gpu.index), gpu.name, *numbers, note)


def _process(process: ProcView) -> tuple[str, ...]:
    children = ", ".join(f"{group.n} {group.comm}" for group in process.children)
    numbers = (
        _number(process.threads),
        _number(process.cpu_pct),
        _number(process.rss_mib),
        _number(process.read_mib_s),
    )
    rank = "" if process.rank is None else str(process.rank)
    place = (rank, process.host, str(process.pid), process.role, process.state)
    return (*place, *numbers, process.wchan or "–", children)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def _seconds(value: float | None) -> str:
    return "an unknown time" if value is None else f"{value:.0f} s"
