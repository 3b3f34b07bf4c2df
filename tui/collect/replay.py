"""A recorded start-up (scenario format 1) as the samples that its hosts would have sent, on a virtual clock.

Rates become counters again, so that everything behind sees what it sees live. What lies after the clock's time is never
looked at, except that a file must be read to be split.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from tui import toml
from tui.collect.logtext import LogSplitter
from tui.errors import UsageError
from tui.model import ChildGroup, Fact, Gpu, Identity, Launch, LogLine, LogRef, LogUpdate, Member, Proc, Sample
from tui.safetext import clean, clean_tree

START_WALL = 1_767_225_600.0
"""2026-01-01T00:00:00Z: a scenario's second 0, in Unix time."""

_MB = 1e6
_ROLES = {
    "driver": "driver",
    "api": "api",
    "enginecore": "engine_core",
    "detokenizer": "detokenizer",
    "raylet": "raylet",
}
_LAUNCHERS = ("agent", "runner", "launch", "torchrun", "mpirun", "srun")

Row = dict[str, Any]


def _role(name: str) -> str:
    base = name.rstrip("0123456789")
    return "launcher" if base in _LAUNCHERS else _ROLES.get(base, base)


@dataclass(slots=True)
class _Process:
    """One process of a recording: its invented identity and its counters so far."""

    name: str
    pid: int
    start_ticks: int
    rank: int | None
    counters: dict[str, float] = field(default_factory=dict[str, float])
    children: dict[str, float] = field(default_factory=dict[str, float])

    def proc(self, row: Mapping[str, Any], dt: float) -> Proc:
        return Proc(
            pid=self.pid,
            start_ticks=self.start_ticks,
            comm=clean(self.name, 15),
            state=str(row.get("state", "?"))[:1] or "?",
            threads=row.get("threads"),
            cpu_s=self._grow(row, "cpu_pct", 0.01, dt),
            rss_mib=row.get("rss_mib"),
            read_bytes=self._grow(row, "read_mbps", _MB, dt),
            write_bytes=self._grow(row, "write_mbps", _MB, dt),
            net_rx_bytes=self._grow(row, "net_rx_mbps", _MB, dt),
            wchan=None if row.get("wchan") is None else clean(str(row["wchan"]), 64),
            cache_dir_bytes=None if row.get("cache_dir_gib") is None else row["cache_dir_gib"] * 2.0**30,
            children=tuple(self._child(group, dt) for group in row.get("children") or ()),
        )

    def _grow(self, row: Mapping[str, Any], key: str, unit: float, dt: float) -> float | None:
        if row.get(key) is None:
            return None
        self.counters[key] = self.counters.get(key, 0.0) + row[key] * unit * dt
        return self.counters[key]

    def _child(self, group: Mapping[str, Any], dt: float) -> ChildGroup:
        comm, n = clean(str(group["comm"]), 64), int(group.get("n", 1))
        if group.get("cpu_pct") is None:
            return ChildGroup(comm, n)
        self.children[comm] = self.children.get(comm, 0.0) + n * group["cpu_pct"] * 0.01 * dt
        return ChildGroup(comm, n, self.children[comm])


class _Log:
    """A recorded log: what lay there at the start, then line by line at its time."""

    def __init__(self, path: Path, timing: Path | None, from_t: float) -> None:
        self.name = path.name
        try:
            data = path.read_bytes()
            times = [float(part) for part in timing.read_text().split()] if timing is not None else []
        except (OSError, ValueError) as error:
            raise UsageError(f"{path.name} or its timing cannot be read: {error}") from None
        self._lines = data.splitlines(keepends=True) if b"\r" not in data else _split_lf(data)
        if len(times) < data.count(b"\n"):
            raise UsageError(f"{path.name}: {data.count(bytes([10]))} lines, but {len(times)} times in its timing")
        self._times = times[: data.count(b"\n")]
        if len(self._lines) > len(self._times):  # the open last line comes with the line before it
            self._times.append(self._times[-1] if self._times else from_t)
        self._from_t = from_t
        self._next = 0
        self._splitter = LogSplitter()
        self._size = 0
        self._first = True

    def update(self, until: float, wall: float) -> LogUpdate | None:
        """What came up to ``until``; ``wall`` is the host's wall time minus the recording's time."""
        lines: list[LogLine] = []
        mtime = None
        while self._next < len(self._lines) and self._times[self._next] <= until:
            raw, t = self._lines[self._next], self._times[self._next]
            lines += self._splitter.feed(raw, t if t > self._from_t else None)
            self._size += len(raw)
            mtime = wall + t
            self._next += 1
        if not lines and not self._first:
            return None
        first, self._first = self._first, False
        total = self._next
        return LogUpdate(
            self.name, float(self._size), self._size, 1, mtime, tuple(lines), total, change="appeared" if first else ""
        )


def _split_lf(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    ended = [line + b"\n" for line in lines[:-1]]
    return ended + ([lines[-1]] if lines[-1] else [])


class _HostReplay:
    def __init__(self, folder: Path, table: Mapping[str, Any], index: int, scenario: Mapping[str, Any]) -> None:
        self.name = clean(str(table["name"]), 200)
        self.from_t = float(scenario.get("attach_at", 0.0))
        self.offset = float(table.get("clock_offset_s", 0.0))
        self.step_s = float(scenario["step_s"])
        self.power_limit_w: float | None = scenario.get("gpu_power_limit_w")
        self.log: _Log | None = None
        if "log" in table:
            timing = folder / str(table["timing"]) if "timing" in table else None
            self.log = _Log(folder / str(table["log"]), timing, self.from_t)
        self._rows = _rows(folder / str(table["signals"]), self.from_t) if "signals" in table else None
        self._next = 0
        self._last_row_t: float | None = None
        self._pid = 1000 * (index + 1)
        self._processes: dict[str, _Process] = {}
        self.members: list[Member] = []
        self.started_t: float | None = None
        self._first_seen_running = False

    @property
    def silent(self) -> bool:
        """Whether only the log speaks: then each step is a sample without readings."""
        return self._rows is None

    def samples(self, until: float) -> list[Sample]:
        found: list[Sample] = []
        rows = self._rows or []
        while self._next < len(rows) and rows[self._next]["t"] <= until:
            found.append(self._sample(rows[self._next]))
            self._next += 1
        rest = self._logs(until)
        if rest or self.silent:
            found.append(self._bare(until, rest))
        return found

    def _bare(self, t: float, logs: tuple[LogUpdate, ...]) -> Sample:
        return Sample(self.name, t, t, START_WALL + t + self.offset, self.name, logs=logs)

    def _logs(self, until: float) -> tuple[LogUpdate, ...]:
        update = self.log.update(until, START_WALL + self.offset) if self.log is not None else None
        return (update,) if update is not None else ()

    def _sample(self, row: Row) -> Sample:
        t = float(row["t"])
        dt = self.step_s if self._last_row_t is None else t - self._last_row_t
        procs, new, gone = self._procs(row.get("procs") or (), t, dt)
        self._last_row_t = t
        gpus = row.get("gpus")
        return Sample(
            host=self.name,
            t=t,
            mono=t,
            wall=START_WALL + t + self.offset,
            boot_id=self.name,
            gpus=tuple(self._gpu(gpu) for gpu in gpus) if gpus else None,
            gpu_error=None if gpus else "NVML did not answer",
            procs=procs,
            new=new,
            gone=gone,
            logs=self._logs(t),
            facts=tuple(_fact(t, fact) for fact in row.get("facts") or ()),
        )

    def _gpu(self, row: Mapping[str, Any]) -> Gpu:
        nvlink = row.get("nvlink_mbps")
        return Gpu(
            index=int(row["index"]),
            util_pct=row.get("util"),
            mem_util_pct=row.get("mem_util"),
            mem_used_mib=row.get("mem_mib"),
            power_w=row.get("power_w"),
            power_limit_w=self.power_limit_w,
            nvlink_mib_s=None if nvlink is None else nvlink * _MB / 2.0**20,
        )

    def _procs(
        self, rows: Sequence[Row], t: float, dt: float
    ) -> tuple[tuple[Proc, ...], tuple[Identity, ...], tuple[tuple[int, int], ...]]:
        procs: list[Proc] = []
        new: list[Identity] = []
        names = {str(row["rank"]) for row in rows}
        gone = [self._processes.pop(name) for name in list(self._processes) if name not in names]
        for row in rows:
            name = str(row["rank"])
            process = self._processes.get(name)
            if process is None:
                process = self._begin(name, row["rank"], t)
                new.append(
                    Identity(
                        process.pid,
                        process.start_ticks,
                        comm=clean(name, 15),
                        rank=process.rank,
                        role=self.members[-1].role,
                    )
                )
            procs.append(process.proc(row, dt))
        return tuple(procs), tuple(new), tuple((process.pid, process.start_ticks) for process in gone)

    def _begin(self, name: str, rank: Any, t: float) -> _Process:
        self._pid += 1
        number = rank if isinstance(rank, int) else None
        if self._last_row_t is None:
            self._first_seen_running = True  # it may have run for long
        elif self.started_t is None and not self._first_seen_running:
            self.started_t = t
        process = self._processes[name] = _Process(name, self._pid, int(t * 100), number)
        role = "rank" if number is not None else _role(clean(name, 64))
        title = f"rank {number}" if number is not None else clean(name, 64)
        self.members.append(Member(self.name, process.pid, process.start_ticks, number, role, title))
        return process


class Replay:
    """A scenario folder on a virtual clock.

    Raises: UsageError where the folder is no scenario of format 1 or a file of it cannot be read.
    """

    start_wall = START_WALL

    def __init__(self, path: Path) -> None:
        try:
            text = (path / "scenario.toml").read_text(encoding="utf-8")
            table: dict[str, Any] = toml.loads(text)
        except OSError as error:
            raise UsageError(f"{path} is no scenario: scenario.toml cannot be read ({error.strerror})") from None
        except ValueError as error:
            raise UsageError(f"{path}/scenario.toml is not TOML: {error}") from None
        if table.get("format") != 1:
            raise UsageError(f"{path}: this reads scenario format 1, not {table.get('format')!r}")
        try:
            self.id = clean(str(table["id"]), 200)
            self.duration_s = float(table["duration_s"])
            self.step_s = float(table["step_s"])
            self.attach_at = float(table.get("attach_at", 0.0))
            self._world_size = int(table["world_size"]) if "world_size" in table else None
            rows: list[dict[str, Any]] = table["host"]
            self._hosts = [_HostReplay(path, row, index, table) for index, row in enumerate(rows)]
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(f"{path}/scenario.toml lacks something or holds a wrong value: {error}") from None
        if self.step_s <= 0:
            raise UsageError(f"{path}/scenario.toml: step_s must be above 0")

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(host.name for host in self._hosts)

    @property
    def has_signals(self) -> bool:
        """Whether processes or GPUs were recorded anywhere."""
        return any(not host.silent for host in self._hosts)

    def steps(self) -> Iterator[tuple[float, list[Sample], Launch]]:
        """(time, samples since the step before in the order of time, the launch as far as it is seen). Once only."""
        step = 0
        while (t := self.attach_at + step * self.step_s) <= self.duration_s:
            samples = [sample for host in self._hosts for sample in host.samples(t)]
            yield t, sorted(samples, key=lambda sample: sample.t), self._launch()
            step += 1

    def _launch(self) -> Launch:
        started = [host.started_t for host in self._hosts if host.started_t is not None]
        return Launch(
            id=self.id,
            name=self.id,
            hosts=self.hosts,
            members=tuple(member for host in self._hosts for member in host.members),
            logs=tuple(LogRef(host.name, host.log.name, "recording") for host in self._hosts if host.log is not None),
            world_size=self._world_size,
            started_wall=START_WALL + min(started) if started else None,
        )


def _rows(path: Path, from_t: float) -> list[Row]:
    try:
        rows = [cast(Row, json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        return [row for row in rows if row["t"] >= from_t]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path.name} cannot be read as one JSON object a line: {error}") from None


def _fact(t: float, row: Mapping[str, Any]) -> Fact:
    """A fact is named by its first key; its value is that key's, or the whole object where there is more to it."""
    name = next(iter(row), "")
    value = dict(row) if len(row) > 1 else row.get(name)
    return Fact(t, clean(name, 64), clean_tree(value))
