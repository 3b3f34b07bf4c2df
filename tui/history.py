"""What was seen of every host, in bounded memory: the diagnosis and the screen ask it, nothing else keeps samples.

Times are seconds on the monitor's own timeline; distances between two samples of a host are measured by that host's
monotonic clock. Numbers are kept as :mod:`tui.track` keeps them; of logs the last lines and what they meant.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tui.diagnose.compilers import is_compiler
from tui.diagnose.markers import Markers, load
from tui.diagnose.ranknames import first_rank
from tui.diagnose.reader import LogReader
from tui.model import Fact, Gpu, Identity, LogLine, LogUpdate, Proc, Sample
from tui.numbers import median
from tui.track import UNKNOWN, Reading, Track

GPU_FIELDS = ("util_pct", "mem_util_pct", "power_w", "mem_used_mib", "nvlink_mib_s", "pcie_rx_mib_s", "temp_c")
PROC_FIELDS = (
    "state",
    "cpu_s",
    "children_cpu_s",
    "compilers_cpu_s",
    "read_bytes",
    "write_bytes",
    "net_rx_bytes",
    "cache_dir_bytes",
    "rss_mib",
    "major_faults",
    "read_chars",
    "voluntary_switches",
)
"""``state`` is the letter's code point; the ``*_cpu_s`` of children add up what their groups burned, ended or not."""

TAIL_LINES = 500
HEAD_LINES = 60
_FACTS = 200
_SAYINGS = 512
_REBASE_S = 2.0

Ident = tuple[int, int]
"""(pid, start_ticks): a process of one host's boot."""


def gpu_key(gpu: Gpu) -> str:
    """By UUID; a GPU without one by its index."""
    return gpu.uuid or f"#{gpu.index}"


class ProcTrack:
    """A process while it was watched: its readings, its last sample, and when it ended."""

    def __init__(self, seen_t: float) -> None:
        self.seen_t = seen_t
        self.gone_t: float | None = None
        self.last: Proc | None = None
        self.lived = False
        """Whether it was ever seen alive, and not only as the zombie of one that had ended before."""
        self.track = Track(PROC_FIELDS)
        self._child_cpu: dict[str, float] = {}
        self._burned = [0.0, 0.0]

    def add(self, t: float, proc: Proc) -> None:
        known = self._add_children(proc)
        self.gone_t = None  # a look may miss a process once
        self.track.add(
            t,
            (
                float(ord(proc.state[:1] or "?")),
                proc.cpu_s,
                self._burned[0] if known else None,
                self._burned[1] if known else None,
                proc.read_bytes,
                proc.write_bytes,
                proc.net_rx_bytes,
                proc.cache_dir_bytes,
                proc.rss_mib,
                proc.major_faults,
                proc.read_chars,
                proc.voluntary_switches,
            ),
        )
        self.last = proc
        self.lived = self.lived or proc.state not in ("Z", "X")

    def _add_children(self, proc: Proc) -> bool:
        first = self.last is None
        for group in proc.children:
            if group.cpu_s is None:
                return False
            before = self._child_cpu.get(group.comm, group.cpu_s if first else 0.0)
            grown = max(0.0, group.cpu_s - before)
            self._child_cpu[group.comm] = group.cpu_s
            self._burned[0] += grown
            if is_compiler(group.comm):
                self._burned[1] += grown
        return True


class LogTrack:
    """A followed log: how it grew, its last lines, and what they meant."""

    def __init__(self, host: str, path: str, markers: Callable[[], Markers] = load) -> None:
        self.host, self.path = host, path
        self.size: float | None = None
        self.mtime: float | None = None
        self.grown_t: float | None = None
        self.lines_total: int | None = None
        self.skipped_bytes = 0
        self.error: str | None = None
        self.tail: deque[LogLine] = deque(maxlen=TAIL_LINES)
        self.head: list[str] = []
        """The first lines that were read: versions and arguments stand there."""
        self.reader = LogReader(markers)
        self._wall_to_t = 0.0

    def add(self, updates: list[LogUpdate], t: float, wall: float, first_rank: int | None = 0) -> None:
        """Take what one tick brought, in its order: what lay there is one lump, though it comes in pieces.
        ``first_rank``: what carriers count as local rank 0."""
        self._wall_to_t = t - wall
        for update in updates:
            self._note(update)
        lay_until = None if self.mtime is None else min(t, self.mtime + self._wall_to_t)
        lines = [line for update in updates for line in update.lines]
        self.reader.read(lines, lay_until, first_rank)
        if len(self.head) < 2 * HEAD_LINES:
            self._keep_head(lines)
        for line in lines:
            if self.tail and (self.tail[-1].open or self.tail[-1].redraw):
                self.tail.pop()
            self.tail.append(line)
            if line.t is not None:
                self.grown_t = line.t
        if self.grown_t is None and lines:
            self.grown_t = lay_until

    def _keep_head(self, lines: Sequence[LogLine]) -> None:
        """The first lines, and the time-outs among those that follow: some frameworks print all their arguments."""
        for line in lines:
            if len(self.head) < HEAD_LINES or ("timeout" in line.text and len(self.head) < 2 * HEAD_LINES):
                self.head.append(line.text[:400])

    def _note(self, update: LogUpdate) -> None:
        self.size = update.size if update.size is not None else self.size
        self.mtime = update.mtime if update.mtime is not None else self.mtime
        self.lines_total = update.lines_total
        self.skipped_bytes += update.skipped_bytes
        self.error = update.error

    def silent_s(self, now: float) -> float | None:
        """Seconds since the log grew, by arrival or by the file's mtime; ``None`` where it never did."""
        return None if self.grown_t is None else max(0.0, now - self.grown_t)


class CardHistory:
    """What a GPU's readings were at their extremes: its memory when it was first seen, and its power at work."""

    def __init__(self, gpu: Gpu) -> None:
        self.first_mib = gpu.mem_used_mib
        self.grown_mib = 0.0
        """The most that its used memory ever rose above the least since."""
        self.busy_w: float | None = None
        """The most power that two readings in a row reached while a kernel was resident."""
        self._least_mib = gpu.mem_used_mib
        self._last_w: float | None = None

    def add(self, gpu: Gpu) -> None:
        used = gpu.mem_used_mib
        if used is not None:
            self._least_mib = used if self._least_mib is None else min(self._least_mib, used)
            self.grown_mib = max(self.grown_mib, used - self._least_mib)
        watts = gpu.power_w if (gpu.util_pct or 0.0) >= 30.0 else None
        if watts is not None and self._last_w is not None:
            self.busy_w = max(self.busy_w or 0.0, min(watts, self._last_w))
        self._last_w = watts


@dataclass(slots=True)
class _Clock:
    boot_id: str = ""
    base: float = 0.0


class HostHistory:
    """All that is kept of one host."""

    def __init__(self, name: str, markers: Callable[[], Markers] = load) -> None:
        self.name = name
        self._markers = markers
        self.first_t: float | None = None
        self.first_look_t: float | None = None
        """When its processes were looked at first: those that were there then may be of any age."""
        self.latest: Sample | None = None
        self.gpus: dict[str, Track] = {}
        self.cards: dict[str, CardHistory] = {}
        self.last_gpus: tuple[Gpu, ...] = ()
        """As NVML answered last; whether that is long ago, the tracks tell."""
        self.procs: dict[Ident, ProcTrack] = {}
        self.identities: dict[Ident, Identity] = {}
        self.logs: dict[str, LogTrack] = {}
        self.facts: dict[str, deque[Fact]] = {}
        self.kernel_lines: dict[str, float] = {}
        """What its kernel log said, and when each line was first seen."""
        self.net = Track(("rx_bytes", "tx_bytes"))
        self._clock = _Clock()
        self._gaps: deque[float] = deque(maxlen=9)
        self.interval_s = 10.0
        """The usual distance of two samples: the median of the last ones; ten seconds until there are two."""
        self._looked: float | None = None
        self._first_rank: int | None = 0
        """As :func:`first_rank` says; a log without processes is read as that of a single node."""

    def add(self, sample: Sample) -> None:
        t = self._pace(sample)
        if self.first_t is None:
            self.first_t = sample.t
        self.last_gpus = sample.gpus if sample.gpus is not None else self.last_gpus
        for gpu in sample.gpus or ():
            key = gpu_key(gpu)
            if key not in self.gpus:
                self.gpus[key], self.cards[key] = Track(GPU_FIELDS), CardHistory(gpu)
            self.gpus[key].add(t, [getattr(gpu, name) for name in GPU_FIELDS])
            self.cards[key].add(gpu)
        for proc in sample.procs:
            ident = (proc.pid, proc.start_ticks)
            self._proc(ident, sample.t).add(t, proc)
        for identity in sample.new:
            self.identities[identity.pid, identity.start_ticks] = identity
        self._end(sample)
        if sample.new or sample.gone:
            environments = (identity.env for identity in self.identities.values())
            self._first_rank = first_rank(environments, self._first_rank)
        self._add_logs(sample)
        for fact in sample.facts:
            self.facts.setdefault(fact.name, deque(maxlen=_FACTS)).append(fact)
            if fact.name == "kernel_line" and len(self.kernel_lines) < _SAYINGS:
                self.kernel_lines.setdefault(str(fact.value)[:400], fact.t)
        self.net.add(t, (sample.net_rx_bytes, sample.net_tx_bytes))
        self.latest = sample

    def _add_logs(self, sample: Sample) -> None:
        by_path: dict[str, list[LogUpdate]] = {}
        for update in sample.logs:
            by_path.setdefault(update.path, []).append(update)
        for path, updates in by_path.items():
            log = self.logs.get(path) or self.logs.setdefault(path, LogTrack(self.name, path, self._markers))
            log.add(updates, sample.t, sample.wall, self._first_rank)

    def _pace(self, sample: Sample) -> float:
        """The sample's time, paced by the host's clock: samples that were held up on the way keep their distance."""
        clock = self._clock
        if (
            sample.boot_id != clock.boot_id
            or self.latest is None
            or abs(sample.t - sample.mono - clock.base) > _REBASE_S
        ):
            clock.boot_id, clock.base = sample.boot_id, sample.t - sample.mono
        if sample.procs or sample.gpus is not None:  # a look at the host, not only at its log
            if self.first_look_t is None:
                self.first_look_t = sample.t
            if self._looked is not None and sample.mono > self._looked:
                self._gaps.append(min(sample.mono - self._looked, 120.0))
                self.interval_s = median(self._gaps)
            self._looked = sample.mono
        return sample.mono + clock.base

    def _proc(self, ident: Ident, t: float) -> ProcTrack:
        track = self.procs.get(ident)
        if track is None:
            track = self.procs[ident] = ProcTrack(t)
        return track

    def _end(self, sample: Sample) -> None:
        for ident in sample.gone:
            track = self.procs.get(ident)
            if track is not None:
                track.gone_t = sample.t
            self.identities.pop(ident, None)
        if len(self.procs) > 4096:
            for ident in [ident for ident, track in self.procs.items() if track.gone_t is not None][:2048]:
                del self.procs[ident]

    @property
    def gap_s(self) -> float:
        """A longer pause than this between two samples is a gap in observation."""
        return max(3.5, 3.4 * self.interval_s)


class History:
    """What was seen, for all hosts. ``add`` takes each host's samples in their order.

    ``markers`` gives what logs are read by; it is asked when the first line comes.
    """

    def __init__(self, markers: Callable[[], Markers] = load) -> None:
        self._markers = markers
        self._hosts: dict[str, HostHistory] = {}

    def add(self, sample: Sample) -> None:
        host = self._hosts.get(sample.host)
        if host is None:
            host = self._hosts[sample.host] = HostHistory(sample.host, self._markers)
        host.add(sample)

    def hosts(self) -> tuple[str, ...]:
        return tuple(self._hosts)

    def host(self, name: str) -> HostHistory | None:
        return self._hosts.get(name)

    def latest(self, host: str) -> Sample | None:
        kept = self._hosts.get(host)
        return None if kept is None else kept.latest

    def log(self, host: str, path: str) -> LogTrack | None:
        kept = self._hosts.get(host)
        return None if kept is None else kept.logs.get(path)

    def rate(self, host: str, pid: int, start_ticks: int, counter: str, window_s: float, now: float) -> Reading:
        """The growth a second of one of :data:`PROC_FIELDS` over the last ``window_s`` seconds."""
        kept = self._hosts.get(host)
        proc = None if kept is None else kept.procs.get((pid, start_ticks))
        if kept is None or proc is None:
            return UNKNOWN
        return proc.track.rate(counter, now - window_s, now, kept.gap_s)

    def facts(self, hosts: Iterable[str], name: str) -> list[Fact]:
        """The facts of that name, oldest first."""
        found = [fact for host in hosts if (kept := self._hosts.get(host)) for fact in kept.facts.get(name, ())]
        return sorted(found, key=lambda fact: fact.t)
