"""What the session remembers of each host for showing: its state, its last sample, short trends and process rates."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from tui.model import ChildGroup, Gpu, HostState, HostView, Member, Proc, ProcView, Sample, Trend
from tui.stacks.sigabrt import sigabrt_effect

TREND_POINTS = 120
"""Readings that a trend keeps, one a second."""

RATE_WINDOW_S = 3.0
"""CPU counters step by 10 ms; over three seconds a rate is good to a third of a percent."""


def gpu_key(gpu: Gpu) -> str:
    return gpu.uuid or f"#{gpu.index}"


@dataclass(slots=True)
class _GpuTrend:
    util: deque[float | None] = field(default_factory=lambda: deque[float | None](maxlen=TREND_POINTS))
    power: deque[float | None] = field(default_factory=lambda: deque[float | None](maxlen=TREND_POINTS))
    memory: deque[float | None] = field(default_factory=lambda: deque[float | None](maxlen=TREND_POINTS))

    def frozen(self) -> Trend:
        return Trend(tuple(self.util), tuple(self.power), tuple(self.memory))


class HostBook:
    """One host as it is shown. ``feed`` takes its samples in order."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state: HostState = "connecting"
        self.reason = ""
        self.since = 0.0
        self.sample: Sample | None = None
        self.clock_offset_s: float | None = None
        self.clock_uncertain_s: float | None = None
        self._gpus: dict[str, _GpuTrend] = {}
        self._trends: Mapping[str, Trend] = {}
        self._procs: deque[tuple[float, dict[tuple[int, int], Proc]]] = deque(maxlen=8)
        self._gone: set[tuple[int, int]] = set()

    def feed(self, sample: Sample) -> None:
        self.sample = sample
        for gpu in sample.gpus or ():
            trend = self._gpus.setdefault(gpu_key(gpu), _GpuTrend())
            trend.util.append(gpu.util_pct)
            trend.power.append(gpu.power_w)
            trend.memory.append(gpu.mem_used_mib)
        self._trends = {key: trend.frozen() for key, trend in self._gpus.items()}
        self._gone.update(sample.gone)
        self._procs.append((sample.mono, {(proc.pid, proc.start_ticks): proc for proc in sample.procs}))

    def view(self, now: float) -> HostView:
        return HostView(
            name=self.name,
            state=self.state,
            reason=self.reason,
            since=self.since,
            simulated=self.sample is not None and self.sample.simulated,
            sample=self.sample,
            age_s=None if self.sample is None else max(0.0, now - self.sample.t),
            trends=self._trends,
            clock_offset_s=self.clock_offset_s,
            clock_uncertain_s=self.clock_uncertain_s,
        )

    def row(self, member: Member, launch: str) -> ProcView:
        """The process table's row of a member: ``gone`` where it has ended, ``?`` where it has not been read yet."""
        key = (member.pid, member.start_ticks)
        proc = self._procs[-1][1].get(key) if self._procs else None
        if proc is None:
            state = "gone" if key in self._gone else "?"
            return ProcView(self.name, *key, member.rank, member.role, member.title, state, launch=launch)
        return ProcView(
            host=self.name,
            pid=proc.pid,
            start_ticks=proc.start_ticks,
            rank=member.rank,
            role=member.role,
            title=member.title or proc.comm,
            state=proc.state,
            launch=launch,
            ppid=proc.ppid,
            threads=proc.threads,
            cpu_pct=self._rate(proc, "cpu_s", 100.0),
            cpu_time_s=proc.cpu_s,
            rss_mib=proc.rss_mib,
            read_mib_s=self._rate(proc, "read_bytes", 2.0**-20),
            wchan=proc.wchan,
            gpus=self._gpus_of(proc.pid),
            sigabrt=sigabrt_effect(proc),
            children=tuple(group for group in proc.children if group.n),
            children_cpu_pct=tuple(self._child_rate(proc, group) for group in proc.children if group.n),
        )

    def _rate(self, proc: Proc, counter: str, scale: float) -> float | None:
        """The counter's growth a second over about :data:`RATE_WINDOW_S`, by the host's own clock."""
        seconds, before = self._before(proc)
        end: float | None = getattr(proc, counter)
        start: float | None = getattr(before, counter)
        if start is None or end is None or seconds <= 0:
            return None
        return max(0.0, (end - start) / seconds) * scale

    def _child_rate(self, proc: Proc, group: ChildGroup) -> float | None:
        """What a group of its descendants burns; ``None`` where it has just appeared."""
        seconds, before = self._before(proc)
        start = next((other.cpu_s for other in before.children if other.comm == group.comm), None)
        if start is None or group.cpu_s is None or seconds <= 0:
            return None
        return max(0.0, (group.cpu_s - start) / seconds) * 100.0

    def _before(self, proc: Proc) -> tuple[float, Proc]:
        """The same process about :data:`RATE_WINDOW_S` ago, and how many seconds that is by the host's own clock."""
        newest, then, before = self._procs[-1][0], self._procs[-1][0], proc
        for mono, procs in reversed(self._procs):
            earlier = procs.get((proc.pid, proc.start_ticks))
            if earlier is None or newest - then >= RATE_WINDOW_S:
                break
            then, before = mono, earlier
        return newest - then, before

    def _gpus_of(self, pid: int) -> tuple[str, ...]:
        gpus = (self.sample.gpus if self.sample else None) or ()
        return tuple(gpu_key(gpu) for gpu in gpus if any(process.pid == pid for process in gpu.processes or ()))
