"""Writes start-ups that never happened in the scenario format: a story in a few lines, told with realistic noise.

A story moves a clock: ``stretch`` lets time pass while processes and GPUs do something, ``say`` writes a log line now,
``fact`` is what a look at the host would show. ``write`` makes the folder; the truth's windows follow from when the
fault came or the server was ready. The noise is that of real hosts: polls, page-ins, samples that come late or never.
"""

from __future__ import annotations

import json
import random
import zlib
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

Name = int | str


@dataclass(frozen=True)
class Act:
    """What a process does: percent of a core, MB/s, children as {command: (how many, percent of a core each)}."""

    cpu: float = 0.4
    state: str = "S"
    wchan: str = "futex_wait_queue"
    read: float = 0.0
    net: float = 0.0
    children: dict[str, tuple[int, float]] = field(default_factory=dict)
    rss_rate: float = 0.0
    cache_rate: float | None = None
    other: str = ""
    """A second state that it is seen in for a third of the time."""

    def but(self, **changes: Any) -> Act:
        return replace(self, **changes)


@dataclass(frozen=True)
class Card:
    """What a GPU does."""

    util: float = 0.0
    mem_util: float = 0.0
    power: float = 0.13
    """Of its limit."""
    links: float = 0.0
    mem: float | None = None
    """MiB in use; ``None`` stays as it was."""
    busy: bool = False
    """Readings move as those of kernels that work do."""

    def but(self, **changes: Any) -> Card:
        return replace(self, **changes)


ASLEEP = Act()
POLLS = Act(cpu=1.0, wchan="hrtimer_nanosleep")
STORE = Act(cpu=2.0, wchan="do_poll.constprop.0")
CORE = Act(cpu=98.0, state="R", wchan="0", other="S")
LOADS = Act(cpu=80.0, state="R", wchan="0", read=350.0, other="D", rss_rate=60.0)
IMPORTS = Act(cpu=90.0, state="R", wchan="0", read=25.0, rss_rate=15.0)
STORAGE = Act(cpu=4.0, state="D", wchan="folio_wait_bit_common", read=12.0, other="R")
STUCK_IO = Act(cpu=0.0, state="D", wchan="rpc_wait_bit_killable")
DRIVER = Act(cpu=0.1, state="D", wchan="nvidia_ioctl")
ZOMBIE = Act(cpu=0.0, state="Z", wchan="0")
STOPPED = Act(cpu=0.0, state="T", wchan="do_signal_stop")

IDLE = Card()
EMPTY = Card(mem=4.0, power=0.10)
SPIN = Card(util=100.0, power=0.19)
WORK = Card(util=70.0, mem_util=30.0, power=0.6, links=900.0, busy=True)
BURST = Card(util=35.0, mem_util=6.0, power=0.3, busy=True)


@dataclass
class Telling:
    """How stories are told now: another sampling step, another throw of the dice."""

    step: float | None = None
    salt: str = ""


NOW = Telling()

_GRAVE = ["suspect", "hung", "crashed"]
_CALM = ["progressing", "slow", "waiting"]


class Host:
    def __init__(self, name: str, ranks: range) -> None:
        self.name, self.ranks = name, ranks
        self.lines: list[tuple[float, str]] = []
        self.rows: list[dict[str, Any]] = []
        self.held: dict[int, float] = {}
        self.rss: dict[Name, float] = {}
        self.cache: dict[Name, float] = {}
        self.facts: list[tuple[float, dict[str, Any]]] = []
        self.missed: set[str] = set()


class Story:
    """A launch of ``ranks`` ranks, spread evenly over ``hosts`` hosts; those in ``unwatched`` are not recorded."""

    def __init__(
        self, name: str, framework: str, ranks: int, *, hosts: int = 1, world: int | None = None, step: float = 5.0,
        limit: float = 700.0, signals: bool = True, gpus_per_host: int | None = None,
    ) -> None:  # fmt: skip
        self.name, self.framework, self.step, self.limit, self.signals = (
            name,
            framework,
            NOW.step or step,
            limit,
            signals,
        )
        each = ranks // hosts
        self.hosts = [Host(f"n{k}-{name[:12]}", range(k * each, (k + 1) * each)) for k in range(hosts)]
        self.world, self.each = world or ranks, each
        self.cards = gpus_per_host or each
        self.t = 0.0
        self.chance = random.Random(zlib.crc32((name + NOW.salt).encode()))
        self.start = datetime(2026, 3, 4, 7, 0, 0, tzinfo=timezone.utc) + timedelta(seconds=self.chance.randrange(9**6))
        self.nvml = True
        self.no_keys: set[str] = set()
        self.wobble = 2.0
        """MiB by which resident memory goes up and down though nothing is kept."""
        self.truth: dict[str, Any] = {}
        self.phases: list[tuple[float, float, str]] = []
        self.windows: list[tuple[float, float, list[str], list[str]]] = []
        self._sampled = 0.0

    # ------------------------------------------------------------------------------------------------------ telling

    def stamp(self, form: str = "%Y-%m-%d %H:%M:%S") -> str:
        return (self.start + timedelta(seconds=self.t)).strftime(form)

    def say(self, *lines: str, host: int = 0) -> None:
        self.hosts[host].lines += [(round(self.t, 3), line) for line in lines]

    def fact(self, row: dict[str, Any], host: int = 0) -> None:
        self.hosts[host].facts.append((self.t, row))

    def stretch(
        self, seconds: float, procs: dict[Name, Act] | Act, gpus: dict[int, Card] | Card = IDLE, phase: str = ""
    ) -> None:
        """Let time pass. ``procs``: one act for all ranks, or by rank and by name (names live on the first host);
        ``gpus``: one for all, or by global rank of the card's usual owner."""
        begin, end = self.t, self.t + seconds
        acts = {rank: procs for host in self.hosts for rank in host.ranks} if isinstance(procs, Act) else procs
        for k, host in enumerate(self.hosts):
            for i in range(self.cards):
                card = gpus if isinstance(gpus, Card) else gpus.get(k * self.cards + i)
                if card is not None and card.mem is not None:
                    host.held[i] = card.mem
        while self._sampled <= end:
            at = self._sampled + self.chance.uniform(-0.12, 0.12) * self.step
            self._sampled += self.step
            if at < begin or self.chance.random() < 0.012:
                continue
            for k, host in enumerate(self.hosts):
                self._sample(host, k, at, acts, gpus)
        self.t = end
        if phase:
            self.phases.append((begin + 4.0, end - 4.0, phase))

    def _sample(self, host: Host, k: int, t: float, acts: dict[Name, Act], gpus: dict[int, Card] | Card) -> None:
        cards: list[dict[str, Any]] = []
        for i in range(self.cards):
            card = gpus if isinstance(gpus, Card) else gpus.get(k * self.cards + i)
            if card is not None:
                cards.append(self._card(host, i, card))
        names: list[Name] = [n for n in acts if isinstance(n, str) and k == 0] + [r for r in host.ranks if r in acts]
        row: dict[str, Any] = {
            "t": round(max(0.0, t), 2),
            "gpus": cards if self.nvml else [],
            "procs": [self._proc(host, name, acts[name]) for name in names],
        }
        facts = [fact for at, fact in host.facts if at <= t]
        host.facts = [(at, fact) for at, fact in host.facts if at > t]
        if facts:
            row["facts"] = facts
        host.rows.append(row)

    def _card(self, host: Host, index: int, card: Card) -> dict[str, Any]:
        chance = self.chance
        swing = chance.uniform(0.35, 1.4) if card.busy else 1.0
        util = min(100.0, card.util * swing) if card.util else float(chance.random() < 0.03)
        mem_util = card.mem_util * (chance.uniform(0.3, 1.8) if card.busy else 1.0)
        if not card.busy and card.util > 50 and chance.random() < 0.05:
            util, mem_util = 99.0, mem_util + 1.0
        power = self.limit * card.power * (chance.uniform(0.8, 1.15) if card.busy else 1.0) + chance.gauss(0, 1.2)
        row = {
            "index": index,
            "util": round(util),
            "mem_util": round(min(100.0, mem_util)),
            "mem_mib": round(host.held.get(index, 4.0) + index * 7),
            "power_w": round(power, 1),
            "nvlink_mbps": round(card.links * swing + (0.4 if chance.random() < 0.02 else 0.0), 1),
        }
        return {key: value for key, value in row.items() if key not in self.no_keys}

    def _proc(self, host: Host, name: Name, act: Act) -> dict[str, Any]:
        chance = self.chance
        cpu = max(0.0, chance.gauss(act.cpu, 0.3 if act.cpu < 3 else 2.5 if act.cpu < 120 else act.cpu * 0.06))
        if act.cpu < 3 and act.state == "S" and chance.random() < 0.03:
            cpu += chance.uniform(1.0, 8.0)
        state = act.other if act.other and chance.random() < 0.3 else act.state
        host.rss[name] = host.rss.get(name, 400.0) + act.rss_rate * self.step * chance.uniform(0.4, 1.6)
        read = act.read * chance.uniform(0.6, 1.4)
        if not read and act.state == "S" and chance.random() < 0.012:
            read = chance.uniform(0.02, 0.4)
        row: dict[str, Any] = {
            "rank": name, "state": state, "cpu_pct": round(cpu, 1), "threads": 60,
            "wchan": "0" if state in "RZ" else act.wchan, "read_mbps": round(read, 2),
            "rss_mib": round(host.rss[name] + chance.gauss(0, self.wobble)), "net_rx_mbps":
            round(act.net * chance.uniform(0.6, 1.4) + abs(chance.gauss(0, 0.02)), 2),
            "children": [
                {"comm": comm, "n": n, "cpu_pct": round(max(0.0, chance.gauss(pct, 0.05 * pct + 0.02)), 1)}
                for comm, (n, pct) in act.children.items()
            ],
        }  # fmt: skip
        if act.cache_rate is not None:
            host.cache[name] = host.cache.get(name, 3.0) + act.cache_rate * self.step / 1024
            row["cache_dir_gib"] = round(host.cache[name], 2)
        return {key: value for key, value in row.items() if key not in self.no_keys}

    # -------------------------------------------------------------------------------------------------------- truth

    def healthy(self, *causes: str, end_phase: str = "serving", ready: bool = True) -> Story:
        """Called at its end. Never an alarm; ``ready`` from the ready line on where it is a server."""
        ready_at = self.truth.get("ready_at")
        self.truth |= {"outcome": "ready_slow" if causes else "ready", "phase_at_end": end_phase}
        if causes:
            self.truth["causes"] = list(causes)
        calm_until = ready_at - 1 if ready_at is not None and ready else self.t - 1
        self.windows += [(0, 20, [*_CALM, "unknown"], [*_GRAVE, "ended"]), (20, calm_until, _CALM, [*_GRAVE, "ended"])]
        if ready_at is not None and ready:
            self.windows.append((ready_at + 12, self.t - 1, ["ready"], [*_GRAVE, "ended"]))
        return self

    def ready(self, text: str) -> None:
        self.say(text)
        self.truth["ready_at"] = round(self.t, 1)

    def fault(self, outcome: str = "hung") -> None:
        """From now on it is hung, or crashed."""
        self.truth |= {"outcome": outcome, "fault_at": round(self.t, 1)}

    def sick(
        self, *causes: str, end_phase: str = "", odd: tuple[int, ...] | None = None, certain: float | None = 420.0,
        final: tuple[str, ...] = ("hung", "crashed"), begins: tuple[str, ...] = ("progressing", "slow", "waiting"),
    ) -> Story:  # fmt: skip
        """Called at its end; ``certain``: seconds after the fault from which only ``final`` will do."""
        at = self.truth["fault_at"]
        self.truth["causes"] = list(causes)
        if end_phase:
            self.truth["phase_at_end"] = end_phase
        if odd is not None:
            self.truth["odd_ranks"] = list(odd)
        end = self.t - 1
        bad = [v for v in ("ready", "ended") if v not in begins]
        self.windows += [
            (0, 20, [*begins, "unknown"], [*_GRAVE, *bad]),
            (20, at - 1, list(begins), [*_GRAVE, *bad]),
            (at + 240, end, ["suspect", *final, "waiting"], ["progressing", "ended"]),
        ]
        if certain is not None:
            self.windows.append((at + certain, end, list(final), ["progressing", "slow", "waiting", "ended"]))
        return self

    def write(self, folder: Path) -> Path:
        """The scenario as a folder of files."""
        folder.mkdir(parents=True, exist_ok=True)
        head = [
            "format = 1", f'id = "{self.name}"', f'title = "{self.name}"', f'framework = "{self.framework}"',
            f"world_size = {self.world}", f"local_ranks = {self.each}", f"gpu_power_limit_w = {self.limit:g}",
            f"duration_s = {self.t:.1f}", f"step_s = {self.step:g}",
        ]  # fmt: skip
        for host in self.hosts:
            head += ["", "[[host]]", f'name = "{host.name}"']
            if "log" not in host.missed:
                head += [f'log = "{host.name}.log"', f'timing = "{host.name}.timing"']
                (folder / f"{host.name}.log").write_text("".join(f"{text}\n" for _, text in host.lines))
                times = [t for t, text in host.lines for _ in range(text.count("\n") + 1)]
                (folder / f"{host.name}.timing").write_text("".join(f"{t:.3f}\n" for t in times))
            if self.signals and "signals" not in host.missed:
                head.append(f'signals = "{host.name}.signals.jsonl"')
                rows = sorted(host.rows, key=lambda row: row["t"])
                (folder / f"{host.name}.signals.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / "scenario.toml").write_text("\n".join(head) + "\n")
        (folder / "truth.toml").write_text(self._truth())
        return folder

    def _truth(self) -> str:
        lines = [f"{key} = {json.dumps(value)}" for key, value in self.truth.items()]
        for begin, end, allow, forbid in self.windows:
            if end > begin:
                lines += ["[[window]]", f"from = {begin:g}", f"to = {end:g}"]
                lines += [f"allow = {json.dumps(allow)}", f"forbid = {json.dumps(forbid)}"]
        for begin, end, phase in self.phases:
            if end > begin:
                lines += ["[[phase]]", f"from = {begin:g}", f"to = {end:g}", f'id = "{phase}"']
        return "\n".join(lines) + "\n"
