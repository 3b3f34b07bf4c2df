"""All hosts at once: which are shown, in which order, and what a host comes to. No widget, no terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property

from tui.errors import UsageError
from tui.model import Gpu, HostView, LaunchView, Snapshot
from tui.numbers import mean_known

GRAVITY = ("hung", "crashed", "suspect", "unknown", "waiting", "slow", "progressing", "ready", "ended")
"""Verdicts, the one that needs somebody first."""


@dataclass(frozen=True)
class FleetHost:
    """A host and the launches that run on it, the gravest first."""

    host: HostView
    launches: tuple[LaunchView, ...]

    @property
    def name(self) -> str:
        return self.host.name

    @property
    def launch(self) -> LaunchView | None:
        return self.launches[0] if self.launches else None

    @property
    def verdict(self) -> str:
        """Of its gravest launch; empty where none runs there."""
        return self.launches[0].verdict.id if self.launches else ""

    @cached_property
    def gpus(self) -> Sequence[Gpu]:
        return (self.host.sample.gpus or ()) if self.host.sample else ()

    @property
    def silent_since(self) -> float | None:
        """Since when its gravest launch is silent, on the monitor's timeline: verdicts are of different moments."""
        verdict = self.launches[0].verdict if self.launches else None
        return None if verdict is None or verdict.silent_s is None else verdict.t - verdict.silent_s

    def mean(self, metric: Metric) -> float | None:
        return mean_known(metric.of(gpu) for gpu in self.gpus)


@dataclass(frozen=True, slots=True)
class Metric:
    """What the blocks show: a reading of a GPU, what fills a block, and how the host's mean is written."""

    name: str
    of: Callable[[Gpu], float | None]
    top: Callable[[Gpu], float | None]
    unit: str


METRICS = (
    Metric("utilisation", lambda gpu: gpu.util_pct, lambda gpu: 100.0, "%"),
    Metric("power", lambda gpu: gpu.power_w, lambda gpu: gpu.power_limit_w, "W"),
    Metric("memory", lambda gpu: _gib(gpu.mem_used_mib), lambda gpu: _gib(gpu.mem_total_mib), "G"),
    Metric("temperature", lambda gpu: gpu.temp_c, lambda gpu: 100.0, "°"),
)

ORDERS: tuple[tuple[str, Callable[[FleetHost], tuple[object, ...]]], ...] = (
    ("gravest first", lambda row: (_gravity(row), row.name)),
    ("by name", lambda row: (row.name,)),
    ("idle first", lambda row: (_missing_last(row.mean(METRICS[0])), row.name)),
    ("silent longest first", lambda row: (_missing_last(row.silent_since), row.name)),
)


def fleet(snapshot: Snapshot, order: int = 0, wanted: str = "") -> list[FleetHost]:
    """The hosts that match ``wanted``, in order ``order`` of :data:`ORDERS`.

    Raises: UsageError for a filter that names something unknown.
    """
    on: dict[str, list[LaunchView]] = {}
    for view in sorted(snapshot.launches, key=lambda view: grave(view.verdict.id)):
        for name in view.launch.hosts:
            on.setdefault(name, []).append(view)
    tests = [_test(word) for word in wanted.split()]
    rows = (FleetHost(host, tuple(on.get(host.name, ()))) for host in snapshot.hosts)
    return sorted((row for row in rows if all(test(row) for test in tests)), key=ORDERS[order][1])


def grave(verdict: str) -> int:
    return GRAVITY.index(verdict) if verdict in GRAVITY else GRAVITY.index("unknown")


def counts(rows: Iterable[FleetHost]) -> list[tuple[str, int]]:
    """How many hosts have each verdict, the gravest first."""
    found: dict[str, int] = {}
    for row in rows:
        if row.verdict:
            found[row.verdict] = found.get(row.verdict, 0) + 1
    return sorted(found.items(), key=lambda item: grave(item[0]))


def _gravity(row: FleetHost) -> int:
    if row.host.state in ("lost", "failed", "stale"):
        return min(GRAVITY.index("suspect"), grave(row.verdict))
    return grave(row.verdict) if row.verdict else len(GRAVITY)


def _missing_last(value: float | None) -> tuple[bool, float]:
    return (value is None, value or 0.0)


def _gib(mib: float | None) -> float | None:
    return None if mib is None else mib / 1024


_FIELDS: dict[str, Callable[[FleetHost], Iterable[str]]] = {
    "host": lambda row: [row.name],
    "verdict": lambda row: [view.verdict.id for view in row.launches],
    "launch": lambda row: [view.launch.name for view in row.launches],
    "phase": lambda row: [view.verdict.phase for view in row.launches],
    "state": lambda row: [row.host.state],
}


def _test(word: str) -> Callable[[FleetHost], bool]:
    """``verdict:hung``, ``host:gpu1*``; a word alone is looked for in the names of hosts and launches."""
    field, colon, pattern = word.partition(":")
    if not colon:
        return lambda row: any(word.lower() in text.lower() for f in ("host", "launch") for text in _FIELDS[f](row))
    if field not in _FIELDS:
        raise UsageError(f"{field!r} is no filter: {', '.join(_FIELDS)} are, as in verdict:hung or host:gpu1*")
    said = _FIELDS[field]
    return lambda row: any(fnmatchcase(text.lower(), pattern.lower()) for text in said(row))
