"""What is looked at right now: a snapshot, the chosen launch and host, and how far the clocks have run since."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from tui.ui.keys import Keys

if TYPE_CHECKING:
    from tui.model import Dump, HostView, LaunchView, LogView, ProcView, Snapshot

CARRY_S = 2.5
"""A timer runs on by itself for this long after a snapshot, not longer: the next one should have come."""


def written_last(logs: Iterable[LogView]) -> LogView | None:
    """The log that spoke last; one that was never heard comes after all others."""
    return min(logs, key=lambda log: math.inf if log.silent_s is None else log.silent_s, default=None)


@dataclass(frozen=True)
class View:
    """``host`` is the chosen host's name, or ``None`` for all; ``elapsed_s`` the seconds since the snapshot came.

    ``log_at`` is the chosen log's host and path, ``None`` for the one that was written last.
    ``behind_s``: by how much the snapshot is older than the newest one.
    ``keys`` says which key runs what, for hints. ``offers_demo``: there is nothing here to look at but the demo.
    """

    snapshot: Snapshot
    launch: LaunchView | None = None
    host: str | None = None
    frozen: bool = False
    elapsed_s: float = 0.0
    behind_s: float = 0.0
    log_at: tuple[str, str] | None = None
    keys: Keys = field(default_factory=Keys)
    offers_demo: bool = False

    @cached_property
    def hosts(self) -> tuple[HostView, ...]:
        """The chosen host, else those of the launch, else all. A launch's host that is not watched is left out."""
        everyone = self.snapshot.hosts
        if self.host is not None:
            return tuple(h for h in everyone if h.name == self.host)
        if self.launch is not None:
            mine = tuple(h for h in everyone if h.name in self.launch.launch.hosts)
            return mine or everyone
        return everyone

    @cached_property
    def live(self) -> bool:
        """Whether every host of the launch is being heard, so that its timers may run on between snapshots."""
        names = self.launch.launch.hosts if self.launch else ()
        return not self.frozen and all(h.state == "live" for h in self.snapshot.hosts if h.name in names)

    def unheard_s(self, *names: str) -> float:
        """For how long one of these hosts has not been heard; 0 where all are. A session counts on meanwhile, but what
        was silent or still when a host was heard last may long have moved."""
        return max((h.age_s or 0.0 for h in self.snapshot.hosts if h.name in names and h.state != "live"), default=0.0)

    @property
    def past(self) -> bool:
        """Whether this moment is over: it is looked back at."""
        return self.frozen and self.behind_s > 0

    @property
    def carried_s(self) -> float:
        return min(self.elapsed_s, CARRY_S) if self.live else 0.0

    @property
    def now(self) -> float:
        """The monitor's timeline, run on since the snapshot while all is live."""
        return self.snapshot.t + self.carried_s

    @property
    def since_judged_s(self) -> float:
        """What the verdict's timers, which are of the time it was made, have run on since; 0 without a launch."""
        return max(0.0, self.now - self.launch.verdict.t) if self.launch else 0.0

    @cached_property
    def standing(self) -> tuple[object, ...]:
        """All but readings: two views with equal ones differ by measured numbers alone."""
        verdict = self.launch.verdict if self.launch else None
        return (
            self.launch.launch.id if self.launch else None,
            self.host,
            self.frozen and self.snapshot.t,
            verdict and (verdict.id, verdict.cause, verdict.odd, verdict.alive),
            len(self.processes),
            tuple((h.name, h.state, len((h.sample and h.sample.gpus) or ())) for h in self.hosts),
        )

    @property
    def many_hosts(self) -> bool:
        return len(self.hosts) > 1

    @cached_property
    def processes(self) -> tuple[ProcView, ...]:
        rows = self.launch.processes if self.launch else ()
        return tuple(p for p in rows if self.host is None or p.host == self.host)

    @cached_property
    def odd(self) -> frozenset[tuple[str, int | None]]:
        """(host, pid) of the processes that the verdict names."""
        return frozenset((o.host, o.pid) for o in self.launch.verdict.odd) if self.launch else frozenset()

    @cached_property
    def odd_gpus(self) -> frozenset[tuple[str, str]]:
        """(host, uuid) of the GPUs on which those processes compute."""
        return frozenset((p.host, uuid) for p in self.processes if (p.host, p.pid) in self.odd for uuid in p.gpus)

    @cached_property
    def ranks_of_gpu(self) -> Mapping[tuple[str, str], list[int]]:
        """(host, GPU uuid) → ranks that compute on it."""
        found: dict[tuple[str, str], list[int]] = {}
        for launch in self.snapshot.launches:
            for process in launch.processes:
                for uuid in process.gpus if process.rank is not None else ():
                    found.setdefault((process.host, uuid), []).append(process.rank or 0)
        return found

    @cached_property
    def logs(self) -> tuple[LogView, ...]:
        """The launch's logs on the chosen host, or on all."""
        logs = self.launch.logs if self.launch else ()
        return tuple(entry for entry in logs if self.host is None or entry.host == self.host)

    @cached_property
    def log(self) -> LogView | None:
        """The chosen log, else the one that was written last."""
        chosen = next((entry for entry in self.logs if (entry.host, entry.path) == self.log_at), None)
        return chosen or self.log_written_last

    @cached_property
    def log_written_last(self) -> LogView | None:
        return written_last(self.logs)

    @cached_property
    def dumps(self) -> tuple[Dump, ...]:
        """The takings of stacks of this launch, oldest first."""
        return tuple(d for d in self.snapshot.dumps if self.launch and d.launch == self.launch.launch.id)

    def wall_of(self, t: float) -> float:
        """The Unix time of a moment on the monitor's timeline."""
        return self.snapshot.wall - (self.snapshot.t - t)
