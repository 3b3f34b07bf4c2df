"""A launch as an agent would show it at one-second ticks, from what its processes are said to do: for the diagnosis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tui.model import ChildGroup, Fact, Gpu, Identity, Launch, LogLine, LogRef, LogUpdate, Member, Proc, Sample

WALL = 1_770_000_000.0


@dataclass
class Doing:
    """What a process does for the coming seconds; rates in percent of a core and bytes a second."""

    cpu_pct: float = 0.5
    state: str = "S"
    wchan: str = "futex_do_wait"
    read_bps: float = 0.0
    children: dict[str, float] = field(default_factory=dict)
    wakes: float = 0.0
    """Voluntary switches of the main thread a second."""
    rss_mib: float | None = None


ASLEEP = Doing()
SPINNING = Doing(cpu_pct=99.0, state="R", wchan="0")
LOADING = Doing(cpu_pct=90.0, state="R", wchan="0", read_bps=4e8)


@dataclass
class GpuDoing:
    util: float | None = 0.0
    mem_util: float | None = 0.0
    power: float = 118.0
    mem_mib: float = 60_000.0
    links: float | None = 0.0


IDLE, SPIN, WORK = (
    GpuDoing(),
    GpuDoing(util=100.0, power=132.0),
    GpuDoing(util=60.0, mem_util=30.0, power=420.0, links=900.0),
)


class SimulatedLaunch:
    """``n`` ranks on one host. CPU counters have the kernel's 10 ms resolution."""

    def __init__(
        self, n: int = 8, host: str = "node1", log: str | None = "/var/log/run.log", ports: tuple[int, ...] = ()
    ) -> None:
        self.n, self.host, self.log, self.ports = n, host, log, ports
        self.t = 0.0
        self.doing: dict[int, Doing] = dict.fromkeys(range(n), ASLEEP)
        self.gpus: dict[int, GpuDoing] = dict.fromkeys(range(n), IDLE)
        self.nvml = True
        self.xids: dict[int, tuple[int, ...]] = {}
        self.lines: list[str] = []
        self.facts: list[tuple[str, object] | Fact] = []
        self._cpu = [0.0] * n
        self._read = [0.0] * n
        self._woke = [0.0] * n
        self.command = ""
        self.env: dict[str, str] = {}
        self.pid_ns = ""
        self._children: list[dict[str, float]] = [{} for _ in range(n)]
        self._announced = False
        self._size = 0
        self._gone: set[int] = set()

    @property
    def launch(self) -> Launch:
        members = tuple(Member(self.host, 4000 + rank, 77, rank, "rank", f"rank {rank}") for rank in range(self.n))
        logs = (LogRef(self.host, self.log, "stdout"),) if self.log else ()
        return Launch(
            "demo", "demo", (self.host,), command=self.command, members=members, logs=logs, ports=self.ports,
            world_size=self.n,
        )  # fmt: skip

    def tick(self, dt: float = 1.0) -> Sample:
        """The next sample, ``dt`` seconds later."""
        self.t += dt
        procs = tuple(self._proc(rank, dt) for rank in range(self.n) if rank in self.doing)
        gone = tuple((4000 + rank, 77) for rank in range(self.n) if rank not in self.doing and rank not in self._gone)
        self._gone |= {rank for rank in range(self.n) if rank not in self.doing}
        known = [
            Identity(p.pid, 77, rank=i, role="rank", env=self.env, pid_ns=self.pid_ns) for i, p in enumerate(procs)
        ]
        new = () if self._announced else tuple(known)
        self._announced = True
        facts = tuple(fact if isinstance(fact, Fact) else Fact(self.t, *fact) for fact in self.facts)
        self.facts = []
        return Sample(
            self.host, self.t, 5000.0 + self.t, WALL + self.t, "boot", self._gpus() if self.nvml else None,
            procs=procs, new=new, gone=gone, logs=self._logs(), facts=facts,
        )  # fmt: skip

    def _proc(self, rank: int, dt: float) -> Proc:
        doing = self.doing[rank]
        self._cpu[rank] += doing.cpu_pct / 100.0 * dt
        self._read[rank] += doing.read_bps * dt
        self._woke[rank] += doing.wakes * dt
        burned = self._children[rank]
        for comm, pct in doing.children.items():
            burned[comm] = burned.get(comm, 0.0) + pct / 100.0 * dt
        return Proc(
            4000 + rank, 77, 1, "python3", doing.state, 200, int(self._cpu[rank] * 100) / 100.0,
            read_bytes=self._read[rank], rss_mib=doing.rss_mib, wchan=doing.wchan,
            voluntary_switches=int(self._woke[rank]),
            children=tuple(ChildGroup(comm, 1, burned[comm]) for comm in doing.children),
        )  # fmt: skip

    def _gpus(self) -> tuple[Gpu, ...]:
        return tuple(
            Gpu(
                rank, f"GPU-{rank}", util_pct=g.util, mem_util_pct=g.mem_util, power_w=g.power + self.t * 7 % 3,
                mem_used_mib=g.mem_mib, mem_total_mib=81_920.0, power_limit_w=700.0, nvlink_mib_s=g.links,
                xids=self.xids.get(rank, ()),
            )
            for rank, g in self.gpus.items()
        )  # fmt: skip

    def _logs(self) -> tuple[LogUpdate, ...]:
        if not self.lines or self.log is None:
            return ()
        lines, self.lines = tuple(LogLine(text, self.t) for text in self.lines), []
        self._size += sum(len(line.text) + 1 for line in lines)
        return (LogUpdate(self.log, float(self._size), mtime=WALL + self.t, lines=lines),)


def sglang_until_loaded(sim: SimulatedLaunch, tick: Callable[[], None], shards: int = 10) -> None:
    """Start-up in the words of SGLang, up to the last shard: one second a step."""
    sim.doing = dict.fromkeys(range(sim.n), LOADING)
    sim.lines = [f"[2026-02-22 11:42:14] server_args=ServerArgs(model_path='/m', tp_size={sim.n})"]
    tick()
    sim.lines = [f"[2026-02-22 11:42:34 TP{rank}] Init torch distributed begin." for rank in range(sim.n)]
    tick()
    sim.lines = [f"[2026-02-22 11:42:44 TP{rank}] Init torch distributed ends." for rank in range(sim.n)]
    tick()
    sim.lines = [f"[2026-02-22 11:42:45 TP{rank}] Load weight begin. avail mem=138.28 GB" for rank in range(sim.n)]
    for k in range(shards + 1):
        bar = f"Loading safetensors checkpoint shards: {100 * k // shards:3d}% Completed | {k}/{shards}"
        sim.lines.append(f"{bar} [00:{k:02d}<00:01,  1.00it/s]")
        tick()
