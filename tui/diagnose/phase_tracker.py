"""One run of a launch as one log tells it: phases of the ranks and of the whole, counters, fatal lines, readiness.

Phases come back and overlap. The whole stands where its foremost rank stands; ranks that print nothing by design follow
the lines that only one of them prints.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tui.diagnose.markers import Marker
from tui.diagnose.progress import Counter, Frame
from tui.diagnose.tracebacks import Traceback
from tui.numbers import total_known

_BURST_S = 20.0
"""Lines of one kind without a rank that come closer than this are one event of several ranks."""

_CARRIERS = frozenset({"ray"})
_YOUNG = frozenset({"unknown", "import", "wait_resources"})
_EARLY = _YOUNG | {"spawn", "dist_init"}
_DYING_S = 3.0
"""The other ranks of a launch that fails say a little more before they end."""
_SPANS = 400


@dataclass(frozen=True, slots=True)
class FatalLine:
    """``rank`` printed it; of a launcher's line, the rank that it names. ``ticks``: how many steps the run's counters
    had made. ``pid``: the process that it says has failed."""

    t: float | None
    marker: Marker
    text: str
    rank: int | None = None
    ticks: int = 0
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """A server's statistics: requests at work, and tokens a second, read and written."""

    running: float
    tokens_s: float


@dataclass(slots=True)
class Roll:
    """Which ranks printed one line that all print, the ``occurrence``-th time."""

    marker: Marker
    occurrence: int
    first_t: float | None
    last_t: float | None
    ranks: set[int] = field(default_factory=set[int])


class Run:
    """What one run wrote into one log. Times are seconds on the monitor's timeline, ``None`` where unknown."""

    def __init__(self, attempt: int = 1) -> None:
        self.attempt = attempt
        self.phase = "unknown"
        self.phase_since: float | None = None
        self.phase_open = False
        self.spans: deque[tuple[str, float | None]] = deque(maxlen=_SPANS)
        self.opened: deque[tuple[str, str]] = deque(maxlen=_SPANS)
        """The phases of ``spans`` with the lines that began them."""
        self.counter: Counter | None = None
        self.fatal: list[FatalLine] = []
        self.ready_t: float | None = None
        self.ready = False
        self.over = False
        self.first_t: float | None = None
        self.last_t: float | None = None
        self.progress_t: float | None = None
        self.lines = 0
        self.ticks = 0
        """How many steps its counters have made."""
        self.request_t: float | None = None
        """When a request began last."""
        self.worker_wait_t: float | None = None
        """When a server said last that it waits for its workers."""
        self.load: Load | None = None
        """The last statistics."""
        self.done = False
        """Whether its work is said to be done, and no step has come since."""
        self.waits_for_baton: str | None = None
        """The last line that said so of a lock file, of a build or of the hub's cache."""
        self._lock_said: Marker | None = None
        self.tracebacks: list[Traceback] = []
        self.world = 0
        """How many ranks the job has, as its own lines count them; 0 where none does."""
        self.deduplicated = False
        """Whether Ray left lines out that other ranks had printed: then no rank can be missed in a roll."""
        self.ranks: dict[int, tuple[str, float | None, int]] = {}
        self._order = 0
        self._lead: tuple[str, int] = ("unknown", 0)
        self._votes: Tally[str] = Tally()
        self._kinds: set[str] = set()
        self._times_seen: dict[tuple[str, int | None], tuple[int, float | None]] = {}
        self._rolls: deque[Roll] = deque(maxlen=12)
        self._counters: dict[tuple[str, int | None], Counter] = {}

    @property
    def framework(self) -> str | None:
        """The framework of which the most kinds of lines were seen; ``None`` where no framework's own was. What only
        carries it counts where nothing else does."""
        votes = self._votes.most_common()
        return next((name for name, _ in votes if name not in _CARRIERS), votes[0][0] if votes else None)

    @property
    def advanced(self) -> bool:
        """Whether more was seen than a beginning: another first line then begins another run."""
        return self.phase not in _YOUNG or self.ready or self.over or bool(self.fatal)

    def is_followed_by(self, marker: Marker, rank: int | None, t: float | None) -> bool:
        """Whether this line cannot belong to the run any more: another has begun.

        By a launch's first line when more was seen than a beginning, or when it comes again too late for another
        process of the same launch; after a failure also by an early line that this rank had printed before.
        """
        times, last = self._times_seen.get((marker.name, rank), (0, None))
        if marker.run == "start":
            late = times and last is not None and t is not None and t - last >= _BURST_S
            return self.advanced or bool(late)
        failed = [line.t for line in self.fatal] or ([self.last_t] if self.over else [])
        if not failed or not times or marker.edge != "begin" or marker.phase not in _EARLY:
            return False
        return t is None or failed[-1] is None or t - failed[-1] >= _DYING_S

    def note_traceback(self, trace: Traceback) -> None:
        """Keep a traceback that is complete; the first is the root cause more often than not."""
        trace.line = max(trace.line, self.lines)
        if len(self.tracebacks) < 16:
            self.tracebacks.append(trace)

    def note_line(self, t: float | None) -> None:
        self.lines += 1
        self.last_t = t if t is not None else self.last_t
        if self.first_t is None:
            self.first_t = t

    def take(
        self,
        marker: Marker,
        rank: int | None,
        frame: Frame | None,
        t: float | None,
        text: str,
        groups: Mapping[str, str | None],
    ) -> bool:
        """Fold a recognised line in; says whether it counts as progress. ``groups`` are those of its pattern."""
        if marker.during and self.phase not in marker.during:
            return False
        if marker.tells:
            self._heed(marker, groups, t, text)
        if marker.edge in ("", "heartbeat", "neutral"):
            return False
        if marker.framework and marker.name not in self._kinds:
            self._kinds.add(marker.name)
            self._votes[marker.framework] += 1
        if marker.edge == "fatal":
            if len(self.fatal) < 32:
                self.fatal.append(FatalLine(t, marker, text, rank, self.ticks, _pid(groups)))
            return False
        if marker.edge == "ready" and not self._may_be_ready(marker):
            return False
        self._order += 1
        occurrence, leading = self._occurrence(marker, rank, t)
        phase = self._target(marker, occurrence, rank, frame)
        again = marker.edge == "begin" and occurrence > 1 and phase == self.phase  # a wait that is announced once more
        arrived = leading or (marker.who == "all" and rank is not None)  # one rank more has come to where others are
        moved = self._count(marker, rank, frame, t) if frame is not None else arrived and not again
        if leading or frame is not None:
            if phase != self.phase:
                self.opened.append((phase, text))
            self._enter(phase, t, marker, drawn=frame is not None)
        if marker.who == "all" and rank is not None:
            self.ranks[rank] = (phase, t, self._order)
        else:
            self._lead = (phase, self._order)
        if self._lock_said is not None and marker.tells != "lock_wait":
            self._end_lock_wait(marker, self._lock_said)
        if marker.phase == "training_step" and marker.edge == "progress":
            self.done = False
        if moved and t is not None:
            self.progress_t = t
        return moved

    def _may_be_ready(self, marker: Marker) -> bool:
        """Another framework's line says nothing; one of a server at work says so only where no start was seen."""
        return marker.framework == self.framework and (not marker.only or self.phase in marker.only)

    def take_bar(self, frame: Frame, rank: int | None, t: float | None) -> bool:
        """Fold a bar in that no marker knows: it belongs to the phase at hand."""
        moved = self._tick((frame.name, rank), frame, frame.unit, t)
        if moved and t is not None:
            self.progress_t = t
        return moved

    def phase_of(self, rank: int) -> str:
        """A rank's phase by its own lines, or by a later line that one rank prints for all."""
        own = self.ranks.get(rank)
        if own is None or own[2] < self._lead[1]:
            return self._lead[0] if self._lead[1] else self.phase
        return own[0]

    def behind(self) -> tuple[Roll, set[int]] | None:
        """The last line that all ranks print and some have not, with the ranks that are still before it."""
        known = self._expected() if not self.deduplicated else set[int]()
        ahead: set[int] = set()
        for roll in reversed(self._rolls):
            missing = known - roll.ranks - ahead
            if missing and 2 * len(roll.ranks) >= len(known):
                return roll, missing
            ahead |= roll.ranks
        return None

    def _expected(self) -> set[int]:
        """The ranks that print into this log: those that have, and the few that lines like NCCL's ``rank 3 nranks 8``
        count and nobody has heard. A log of one node of several lacks more than a few, and they are no loss."""
        unheard = set(range(self.world)) - self.ranks.keys()
        return set(self.ranks) | (unheard if 4 * len(unheard) <= self.world else set())

    # ------------------------------------------------------------------------------------------------------ folding

    def _occurrence(self, marker: Marker, rank: int | None, t: float | None) -> tuple[int, bool]:
        """The how-manieth time this rank prints the line, and whether it is the first rank to do so."""
        key = (marker.name, rank)
        times, last = self._times_seen.get(key, (0, None))
        single = marker.who in ("main", "one")
        same_burst = rank is None and not single and last is not None and t is not None and t - last < _BURST_S
        if not (same_burst and times):
            times += 1
        self._times_seen[key] = (times, t)
        if marker.who != "all" or rank is None:
            return times, not same_burst
        for roll in reversed(self._rolls):
            if roll.marker is marker and roll.occurrence == times:
                roll.ranks.add(rank)
                roll.last_t = t
                return times, False
        self._rolls.append(Roll(marker, times, t, t, {rank}))
        return times, True

    def _target(self, marker: Marker, occurrence: int, rank: int | None, frame: Frame | None) -> str:
        if marker.edge == "ready" or (self.ready and marker.phase != "shutdown"):
            return "serving"
        if not marker.phase:
            return self.phase
        current = self.phase_of(rank) if rank is not None and marker.who == "all" else self.phase
        if current in marker.inside and (current != "graph_capture" or self.phase_open):
            return current
        if marker.only and current not in marker.only:
            return current
        if marker.again and occurrence > 1:
            return marker.again
        full = frame is not None and frame.done >= frame.total > 0
        return marker.then if marker.then and (full or marker.edge == "end") else marker.phase

    def _enter(self, phase: str, t: float | None, marker: Marker, *, drawn: bool) -> None:
        if marker.edge == "ready":
            self.ready, self.ready_t = True, t
        if marker.run == "over":
            self.over = True
        self.phase_open = marker.edge != "end"
        if phase != self.phase:
            if not drawn:
                self.counter = None  # what was counted belongs to the phase before
            self.phase, self.phase_since = phase, t
            self.spans.append((phase, t))

    def _count(self, marker: Marker, rank: int | None, frame: Frame, t: float | None) -> bool:
        return self._tick((marker.name + frame.name, rank), frame, marker.unit or frame.unit, t)

    def _tick(self, key: tuple[str, int | None], frame: Frame, unit: str, t: float | None) -> bool:
        counter = self._counters.get(key)
        if counter is None:
            if len(self._counters) >= 64:
                self._counters.pop(next(iter(self._counters)))
            counter = self._counters[key] = Counter(unit)
        moved = counter.note(t, frame.done, frame.total)
        counter.own_rate, counter.own_left_s = frame.rate, frame.left_s
        if moved:
            self.counter = counter
            self.ticks += 1
        return moved

    def _heed(self, marker: Marker, groups: Mapping[str, str | None], t: float | None, text: str) -> None:
        """What a line tells beside its phase."""
        if marker.tells == "lock_wait":
            self.waits_for_baton, self._lock_said = text[-200:], marker
        elif marker.tells == "request":
            self.request_t = t
        elif marker.tells == "worker_wait":
            self.worker_wait_t = t
        elif marker.tells == "done":
            self.done = True
        elif marker.tells == "load":
            running, *rates = (_figure(groups.get(name)) for name in ("running", "prompt", "generated"))
            tokens_s = total_known(rates)
            self.load = None if running is None or tokens_s is None else Load(running, tokens_s)

    def _end_lock_wait(self, marker: Marker, said: Marker) -> None:
        """A wait that is told on a clock is over with any other line, one that is told once with one of its phase."""
        if said.edge == "heartbeat" or marker.phase == said.phase:
            self.waits_for_baton = self._lock_said = None

    def interval_s(self) -> float | None:
        """The usual time between two moves of the counter at hand."""
        return self.counter.interval_s() if self.counter is not None else None


def _pid(groups: Mapping[str, str | None]) -> int | None:
    text = groups.get("pid") or ""
    return int(text) if text.isdecimal() and len(text) <= 10 else None


def _figure(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None


def foremost(runs: Iterable[Run]) -> Run | None:
    """The run of the log that spoke last of a phase; of several hosts' logs it tells where the launch stands."""
    told = [run for run in runs if run.lines]
    return max(
        told, key=lambda run: (run.phase != "unknown", run.progress_t or run.last_t or float("-inf")), default=None
    )
