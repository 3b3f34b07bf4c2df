"""What can be seen of a launch at one moment: every figure with the window it is taken over, unknown where that window
was not sampled."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from tui.diagnose.cards import cards_of
from tui.diagnose.kernel_log import Xid, xid
from tui.diagnose.markers import Marker
from tui.diagnose.phase_tracker import Run, foremost
from tui.diagnose.phases import BEFORE_GPU
from tui.diagnose.processes import proc_view
from tui.diagnose.received import received_bps
from tui.diagnose.sweeps import Sweep, sweep
from tui.diagnose.views import CONTEXT_MIB, LOOK_S, MB, GpuView, ProcView
from tui.history import History, HostHistory, LogTrack, ProcTrack
from tui.model import Fact, Launch, Member, PhaseId, Usual
from tui.numbers import mean
from tui.thresholds import RULES_ALONE, Thresholds
from tui.track import COVERED

_STOPPED, _TRACED, _ZOMBIE, _DEAD = (float(ord(letter)) for letter in "TtZX")


LAUNCHERS = frozenset({"launcher", "raylet"})
WEIGHTS_MIB = 2500.0
_FETCHED = ("net_rx_bytes", "cache_dir_bytes")
STOPPED_S = 14.0
"""A profiler, a debugger that takes stacks, or a supervisor that holds a process is done sooner."""

STARTED_SLACK_S = 30.0
"""A log's lines are this launch's from so long before its processes were seen to start."""


class Scene:
    """A launch at ``now``. Everything is computed once, when asked for."""

    def __init__(
        self,
        history: History,
        launch: Launch,
        now: float,
        usual: Mapping[PhaseId, tuple[Usual, ...]] | None = None,
        least: Thresholds = RULES_ALONE,
    ) -> None:
        self.history, self.launch, self.now = history, launch, now
        self.usual = usual or {}
        self.least = least
        self.unmoved_s = 0.0
        """For how many observed seconds nothing has moved that no wait looks like, as carried from the step before."""
        self.rest: Mapping[str, Any] = {}
        """Where its ranks were while it was ready and nothing was asked, as carried along."""

    # ------------------------------------------------------------------------------------------------ hosts and logs

    @cached_property
    def hosts(self) -> list[HostHistory]:
        return [host for name in self.launch.hosts if (host := self.history.host(name)) is not None]

    @cached_property
    def interval_s(self) -> float:
        return max((host.interval_s for host in self.hosts), default=1.0)

    @cached_property
    def look_s(self) -> float:
        """The window for "now" of what is counted (CPU time, bytes): two samples enclose it."""
        return max(LOOK_S, 0.95 * self.interval_s)

    @cached_property
    def gauge_s(self) -> float:
        """The window for what is read at an instant (utilisation, states): two samples and more lie in it."""
        return max(LOOK_S, 2.1 * self.interval_s)

    @cached_property
    def stale_s(self) -> float:
        """How old the oldest host's last sample is."""
        return max((self.now - host.latest.t for host in self.hosts if host.latest is not None), default=0.0)

    def heard(self) -> Scene | None:
        """The part of it that is on hosts whose samples still come; ``None`` where that is all of it, or nothing."""
        fresh = [host.name for host in self.hosts if host.latest is not None and self.now - host.latest.t < 12.0]
        if not fresh or len(fresh) == len(self.launch.hosts):
            return None
        members = tuple(member for member in self.launch.members if member.host in fresh)
        logs = tuple(log for log in self.launch.logs if log.host in fresh)
        launch = replace(self.launch, hosts=tuple(fresh), members=members, logs=logs)
        return Scene(self.history, launch, self.now, self.usual, self.least)

    @cached_property
    def watched_s(self) -> float:
        """How long it has been watched."""
        return self.now - min((host.first_t for host in self.hosts if host.first_t is not None), default=self.now)

    @cached_property
    def logs(self) -> list[LogTrack]:
        tracks = [self.history.log(ref.host, ref.path) for ref in self.launch.logs]
        return [track for track in tracks if track is not None]

    @cached_property
    def runs(self) -> list[Run]:
        """What the logs say of this run; what was written before its processes started is another run's."""
        return [run for log in self.logs if not self._of_another_run(log, run := self.run_of(log))]

    def run_of(self, log: LogTrack) -> Run:
        """What a log says since the launch's processes started; an older run in the same file is another launch's."""
        return log.reader.run_since(self._since)

    @cached_property
    def _since(self) -> float | None:
        """Stamps are cut to seconds, and a recording sees a process one step late."""
        return None if self.started_t is None else self.started_t - max(STARTED_SLACK_S, 3.0 * self.interval_s)

    @cached_property
    def attempt(self) -> int:
        """The how-manieth attempt of the launch this is: restarts that the logs tell, or that the processes told."""
        told = (log.reader.attempt_since(self._since) for log in self.logs)
        return max(self.launch.attempt, *told, 1)

    def _of_another_run(self, log: LogTrack, run: Run) -> bool:
        if run.over and (any(view.present for view in self.procs) or not log.reader.heard):
            return True  # it ended in order, before anybody looked or while processes live that have not written yet
        started = self.started_t
        return started is not None and run.last_t is not None and run.last_t < started - 30.0

    @cached_property
    def started_t(self) -> float | None:
        """When the launch's oldest process started, on the monitor's timeline."""
        host = next((host for host in self.hosts if host.latest is not None), None)
        if self.launch.started_wall is None or host is None or host.latest is None:
            return None
        return self.launch.started_wall - host.latest.wall + host.latest.t

    @cached_property
    def run(self) -> Run:
        """The run of the log that leads."""
        return foremost(self.runs) or Run()

    @cached_property
    def framework(self) -> str | None:
        return next((run.framework for run in self.runs if run.framework), self.launch.framework)

    @cached_property
    def mute(self) -> bool:
        """Whether no log of it has a line."""
        return not any(log.tail for log in self.logs)

    @cached_property
    def came_late(self) -> bool:
        """Whether its logs lay there, still, when the monitor came, and have said nothing since."""
        return bool(self.logs) and not any(log.reader.heard for log in self.logs) and (self.silent_s or 0.0) >= LOOK_S

    @cached_property
    def news_t(self) -> float | None:
        """When a log said something new last."""
        times = [log.reader.news_t for log in self.logs if log.reader.news_t is not None]
        lumps = [log.grown_t for log in self.logs if log.grown_t is not None and log.reader.news_t is None]
        return max(times + lumps, default=None)

    @cached_property
    def silent_s(self) -> float | None:
        """Seconds since a log grew by anything that does not come on a clock; ``None`` where no log has grown."""
        times = [
            log.reader.spoke_t if log.reader.spoke_t is not None else log.grown_t
            for log in self.logs
            if log.grown_t is not None
        ]
        return max(0.0, self.now - max(times)) if times else None

    @cached_property
    def progress_t(self) -> float | None:
        times = [run.progress_t for run in self.runs if run.progress_t is not None]
        return max(times, default=None)

    def words_of(self, marker: Marker) -> str:
        """What a marker's line says in this launch's own logs, without its figures; else the marker's plain words."""
        for log in self.logs:
            for line in reversed(log.tail):
                if (found := marker.match(line.text)) is not None:
                    return re.split(r"[\d=:(\[]", found[0].strip())[0].strip()[:60] or found[0][:60]
        return marker.id

    def last_words(self, lines: int = 40) -> list[str]:
        """The last lines of all logs, oldest first."""
        return [line.text for log in self.logs for line in list(log.tail)[-lines:]]

    # ------------------------------------------------------------------------------------------------------ processes

    @cached_property
    def procs(self) -> list[ProcView]:
        """The launch's processes, ended ones included (``present`` false)."""
        views: list[ProcView] = []
        for member in self.launch.members:
            found = self.track_of(member)
            if found is not None:
                view = proc_view(member, *found, self.now, self.look_s, self.gauge_s)
                if view.received is None and view.present:
                    view = replace(view, received=received_bps(found[0], member.pid, self.now))
                views.append(view)
        return views

    def track_of(self, member: Member) -> tuple[HostHistory, ProcTrack] | None:
        host = self.history.host(member.host)
        track = host.procs.get((member.pid, member.start_ticks)) if host is not None else None
        return None if host is None or track is None else (host, track)

    @cached_property
    def living(self) -> list[ProcView]:
        return [view for view in self.procs if view.present and view.state not in "ZX"]

    @cached_property
    def ranks(self) -> list[ProcView]:
        """Living ranks."""
        return [view for view in self.living if view.member.rank is not None]

    @cached_property
    def workers(self) -> list[ProcView]:
        """Those whose work or wait tells: the ranks, or everything alive where no rank is known."""
        return self.ranks or self.living

    @cached_property
    def only_launchers(self) -> bool:
        """Whether all that lives waits for others by its trade: of its threads none can be in a deadlock of ours."""
        return not self.ranks and bool(self.living) and all(view.member.role in LAUNCHERS for view in self.living)

    @cached_property
    def helpers(self) -> list[ProcView]:
        """Living processes that are no ranks, where ranks are known: front ends, engine cores, launchers."""
        return [view for view in self.living if view.member.rank is None] if self.ranks else []

    @cached_property
    def dead(self) -> list[ProcView]:
        """Needed processes that have ended or are zombies, and were not replaced by another of the same place."""
        alive = {(view.member.rank, view.member.role) for view in self.living}
        needed = {"rank", "driver", "api", "engine_core", "launcher", "data_parallel_controller"}
        return [
            view
            for view in self.procs
            if (not view.present or view.state in "ZX")
            and (view.member.rank is not None or view.member.role in needed)
            and (view.member.rank, view.member.role) not in alive
        ]

    def died_t(self, view: ProcView) -> float | None:
        found = self.track_of(view.member)
        if found is None:
            return None
        proc = found[1]
        if proc.gone_t is not None:
            return proc.gone_t
        times, states = proc.track.window("state", proc.seen_t, self.now)
        return next((t for t, code in zip(times, states, strict=True) if code in (_ZOMBIE, _DEAD)), None)

    def first_and_last(self, view: ProcView, field: str) -> tuple[float | None, float | None]:
        """The first and the last reading of a process's counter."""
        found = self.track_of(view.member)
        values = found[1].track.values(field, found[1].seen_t, self.now) if found is not None else []
        return (values[0], values[-1]) if values else (None, None)

    @cached_property
    def stopped(self) -> list[ProcView]:
        """Processes that are stopped or traced, and have been for longer than a debugger's or a profiler's look."""
        return [view for view in self.living if view.state in "Tt" and self.stopped_s(view) >= self._look_over_s]

    @property
    def _look_over_s(self) -> float:
        """Seconds from the first to the last sample that sees it stopped; of rare samples two must do."""
        return STOPPED_S if self.interval_s < 0.68 * STOPPED_S else 0.7 * self.interval_s

    def stopped_s(self, view: ProcView) -> float:
        """For how many seconds, from sample to sample, a process has been seen stopped."""
        found = self.track_of(view.member)
        if found is None:
            return 0.0
        times, states = found[1].track.window("state", self.now - 120.0, self.now)
        since = until = self.now
        for i, (t, code) in enumerate(zip(reversed(times), reversed(states), strict=True)):
            if code not in (_STOPPED, _TRACED):
                break
            since, until = t, until if i else t
        return until - since

    @cached_property
    def observed(self) -> bool:
        """Whether processes and GPUs were sampled well enough to speak of now."""
        known = [view for view in self.workers if view.cpu is not None and view.coverage >= COVERED]
        return bool(self.workers) and len(known) == len(self.workers) and all(gpu.covered for gpu in self.gpus)

    @cached_property
    def expected(self) -> int | None:
        """How many ranks the watched hosts should hold: the job's, at most one a GPU."""
        seen = len({view.member.rank for view in self.procs if view.member.rank is not None})
        world = self.launch.world_size
        if world is None:
            return seen or None
        gpus = sum(len(host.gpus) for host in self.hosts)
        return min(world, max(gpus, seen)) if gpus or seen else None

    @cached_property
    def missing(self) -> list[int]:
        """Ranks that no watched host has, where the watched hosts should have them all."""
        seen = {view.member.rank for view in self.procs if view.member.rank is not None}
        world = self.launch.world_size
        if world is None or not seen or self.expected != world:
            return []
        return sorted(set(range(world)) - seen)

    @cached_property
    def peers_elsewhere(self) -> int:
        """How many ranks of the job no watched host can hold: what they do is not known."""
        world, expected = self.launch.world_size, self.expected
        return max(0, world - (expected or 0)) if world is not None else 0

    @cached_property
    def sweeps(self) -> dict[tuple[str, int], Sweep]:
        """The last look at every thread, by host and process; only what was seen in the last minute."""
        found: dict[tuple[str, int], Sweep] = {}
        for host in self.hosts:
            facts = [fact for fact in host.facts.get("threads", ()) if fact.t >= self.now - 90.0]
            for view in self.workers if facts else ():
                if view.member.host == host.name and (seen := sweep(facts, view.member.pid)) is not None:
                    found[host.name, view.member.pid] = seen
        return found

    # ----------------------------------------------------------------------------------------------------------- GPUs

    @cached_property
    def gpus(self) -> list[GpuView]:
        """The launch's GPUs: those that hold its processes or, where the driver does not say, memory."""
        return [view for host in self.hosts for view in cards_of(host, self.launch, self.now, self.gauge_s)]

    @cached_property
    def gpu_kinds(self) -> dict[str, int]:
        kinds: dict[str, int] = {}
        for gpu in self.gpus:
            kinds[gpu.kind] = kinds.get(gpu.kind, 0) + 1
        return kinds

    @cached_property
    def has_context(self) -> bool:
        return any(gpu.mem is not None and gpu.mem >= CONTEXT_MIB for gpu in self.gpus)

    @cached_property
    def has_weights(self) -> bool:
        """Whether its GPUs hold more than contexts and communicators."""
        filled = [gpu.mem for gpu in self.gpus if gpu.mem is not None]
        return bool(filled) and mean(filled) >= WEIGHTS_MIB

    @cached_property
    def spinning(self) -> bool:
        """Whether busy cores are explained by GPUs that spin in a collective."""
        return self.gpu_kinds.get("spins", 0) > 0 and not self.gpu_kinds.get("works", 0)

    # ---------------------------------------------------------------------------------------------------------- facts

    def facts(self, name: str, within_s: float) -> list[Fact]:
        return [f for f in self.history.facts(self.launch.hosts, name) if f.t >= self.now - within_s]

    @cached_property
    def kernel_lines(self) -> list[tuple[str, float, bool]]:
        """What the kernel logs said: the line, when it was seen first, and whether the monitor was there before."""
        return sorted(
            (
                (line, t, host.first_t is not None and t > host.first_t + self.look_s)
                for host in self.hosts
                for line, t in host.kernel_lines.items()
            ),
            key=lambda item: item[1],
        )

    @cached_property
    def xids(self) -> list[Xid]:
        """Grave GPU faults, oldest first: what the driver told of the launch's GPUs while they were watched, then the
        kernel log's; consequences and warnings are left out."""
        ours = {(gpu.host, gpu.index) for gpu in self.gpus}
        told = [
            Xid(number, f"the driver reports Xid {number} on GPU {gpu.index}", self.now, True)
            for host in self.hosts
            for gpu in host.last_gpus
            for number in (gpu.xids if (host.name, gpu.index) in ours else ())
        ]
        found = [xid(line, t, fresh) for line, t, fresh in self.kernel_lines if "Xid" in line]
        return [item for item in (*told, *found) if item is not None and item.grave]

    # ---------------------------------------------------------------------------------------------------------- phase

    @cached_property
    def told_phase(self) -> str:
        """The phase by the log; before a word of it, a launch without a CUDA context imports."""
        if self.run.phase != "unknown":
            return self.run.phase
        begun = self.living or self.run.lines or (self.logs and all(log.size == 0 for log in self.logs))
        if self.run.counter is not None or self.has_context or not begun:
            return "unknown"
        return "import"

    @cached_property
    def phase(self) -> str:
        """The phase by the log, unless the signals name a later one: a label outlives its phase."""
        told = self.told_phase
        if self.only_launchers and told in BEFORE_GPU and all(view.asleep for view in self.living):
            return "wait_resources"
        reads = sum(view.read or 0.0 for view in self.workers)
        if told in BEFORE_GPU | {"dist_init"} and reads >= 10 * MB and self.has_weights:
            return "weight_load"
        if told == "weight_load" and self.run.counter is None and self._has_fetched():
            return "weight_download"  # which no framework announces
        return told

    def _has_fetched(self) -> bool:
        """Whether its processes have been getting weights over the network, and have not begun to read them."""
        got = max((self._grown(view, name) for view in self.living for name in _FETCHED), default=0.0)
        return got >= 100 * MB and sum(self._grown(view, "read_bytes") for view in self.ranks) < 0.2 * got

    def _grown(self, view: ProcView, field: str) -> float:
        """By how much a counter of a process has grown since the phase at hand began, as far as it was seen."""
        found = self.track_of(view.member)
        since = max(self.run.phase_since or float("-inf"), found[1].seen_t) if found is not None else 0.0
        values = found[1].track.values(field, since, self.now) if found is not None else []
        return values[-1] - values[0] if values else 0.0
