"""What flows through the monitor: samples in, launches and verdicts out, one snapshot to look at.

Everything here is frozen and carries no behaviour beyond small lookups, so that it can be recorded, replayed and
handed between tasks. Two rules hold everywhere:

* ``None`` is "not known"; a zero is a measured zero.
* Counters (names ending in ``_s`` for seconds of CPU, ``_bytes``, ``_count``) only grow; a rate is always made from two
  samples of one host's own monotonic clock, never from wall clocks or log stamps.

Times named ``t`` are seconds on the monitor's own timeline (live: its monotonic clock; replay: seconds since the
scenario's start). ``mono`` and ``wall`` are the watched host's ``CLOCK_MONOTONIC`` and Unix time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tui.snapshot import Snapshot as Snapshot

if TYPE_CHECKING:
    from tui.stacks.called import Called

VerdictId: TypeAlias = str
"""``progressing slow waiting suspect hung crashed ended ready unknown``; readers accept ids they do not know."""

PhaseId: TypeAlias = str
"""``import spawn dist_init weight_load ...``: see :mod:`tui.diagnose.phases` for the ids and their usual order."""

CauseId: TypeAlias = str

Strength = Literal["weak", "firm", "proven"]
"""weak: the best explanation, rivals stand. firm: every rival is refuted by an observation. proven: decisive evidence
(dead rank, fatal line, dead lock owner, Xid)."""

HostState = Literal["connecting", "live", "stale", "lost", "failed"]
"""connecting: not heard yet. live: a sample within 2.5 s. stale: older. lost: the channel is gone, it will be tried
again. failed: it will not be tried again (authentication, host key, unknown name, no Python)."""


# ---------------------------------------------------------------------------------------------- one sample of one host


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A compute process as NVML names it. In a container the pid may belong to another namespace."""

    pid: int
    used_mib: float | None = None


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU at one tick, from NVML. ``uuid`` is the key: indices shift when a GPU falls off the bus.

    Units: percent, MiB, watts, degrees Celsius, MHz, MiB/s. ``throttle`` holds reason names (``sw_power_cap``,
    ``hw_thermal`` ...), ``error`` one sentence where the GPU could not be read.
    """

    index: int
    uuid: str = ""
    name: str = ""
    util_pct: float | None = None
    mem_util_pct: float | None = None
    mem_used_mib: float | None = None
    mem_total_mib: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    temp_c: float | None = None
    sm_clock_mhz: float | None = None
    nvlink_mib_s: float | None = None
    pcie_rx_mib_s: float | None = None
    pcie_tx_mib_s: float | None = None
    throttle: tuple[str, ...] = ()
    xids: tuple[int, ...] = ()
    mig: tuple[str, ...] = ()
    processes: tuple[GpuProcess, ...] | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ChildGroup:
    """Descendants of one process that share a command name. ``cpu_s`` counts over all of them, ended ones too."""

    comm: str
    n: int
    cpu_s: float | None = None


@dataclass(frozen=True, slots=True)
class Proc:
    """A watched process at one tick. ``(boot id of the host, pid, start_ticks)`` is its identity.

    ``cpu_s`` sums all threads (user and system); ``state``, ``wchan`` and ``syscall`` are the main thread's, the last
    as the text of ``/proc/PID/syscall``. Signal masks are integers as in ``/proc/PID/status`` (bit = signal - 1).
    """

    pid: int
    start_ticks: int
    ppid: int = 0
    comm: str = ""
    state: str = "?"
    threads: int | None = None
    cpu_s: float | None = None
    voluntary_switches: int | None = None
    involuntary_switches: int | None = None
    rss_mib: float | None = None
    read_bytes: float | None = None
    write_bytes: float | None = None
    read_chars: float | None = None
    net_rx_bytes: float | None = None
    minor_faults: int | None = None
    major_faults: int | None = None
    wchan: str | None = None
    syscall: str | None = None
    sig_pending: int | None = None
    sig_blocked: int | None = None
    sig_ignored: int | None = None
    sig_caught: int | None = None
    cache_dir_bytes: float | None = None
    children: tuple[ChildGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class Identity:
    """What is read of a process once, when it is first seen, and again when its title changes.

    ``env`` holds allow-listed variables only (RANK and kin, NCCL_*, CUDA_VISIBLE_DEVICES ...). ``stdout`` and
    ``stderr`` are where descriptors 1 and 2 lead: a path, ``pipe:[inode]``, ``socket:[inode]``, ``/dev/pts/N``.
    ``pipe_files`` are the regular files that the readers of those pipes write. ``rank`` is set only where a recording
    knows it.
    """

    pid: int
    start_ticks: int
    ppid: int = 0
    uid: int | None = None
    comm: str = ""
    cmdline: tuple[str, ...] = ()
    exe: str = ""
    cwd: str = ""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    stdout: str = ""
    stderr: str = ""
    pipe_files: tuple[str, ...] = ()
    listens: tuple[int, ...] = ()
    pid_ns: str = ""
    rank: int | None = None
    role: str | None = None
    error: str | None = None

    @property
    def title(self) -> str:
        """The command line as one string; a title set by ``setproctitle`` is padded with empty arguments."""
        return " ".join(part for part in self.cmdline if part).strip() or self.comm


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line, or one redraw of a line, cleaned and bounded.

    ``t`` is when it was seen to arrive, ``None`` for what lay there before the monitor came. ``redraw`` marks text that
    ended in a lone carriage return; ``open`` an unterminated last line, which a later one replaces.
    """

    text: str
    t: float | None = None
    redraw: bool = False
    open: bool = False


@dataclass(frozen=True, slots=True)
class LogUpdate:
    """What a tick brought of one followed log.

    ``size`` in bytes; ``read_to`` the offset up to which it was read, where a new connection goes on; ``lines_total``
    counted LFs since offset 0 of this file (``None`` while the middle of a large file is unread); ``mtime`` in the
    host's wall time. ``change`` names what happened to the file itself.
    """

    path: str
    size: float | None = None
    read_to: int | None = None
    inode: int | None = None
    mtime: float | None = None
    lines: tuple[LogLine, ...] = ()
    lines_total: int | None = None
    skipped_bytes: int = 0
    change: Literal["", "rotated", "truncated", "deleted", "appeared"] = ""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Fact:
    """The answer to a look at a host, with the time of the look: ``name`` such as ``lock_file``, ``cgroup_oom_kill``,
    ``kernel_line``, ``threads``; ``value`` is plain JSON."""

    t: float
    name: str
    value: Any


@dataclass(frozen=True, slots=True)
class Sample:
    """All that one host showed at one tick.

    ``gpus`` is ``None`` where NVML did not answer (``gpu_error`` says why), and empty where it answered that there are
    none. ``new`` are identities first seen at this tick, ``gone`` identities (pid, start_ticks) that have ended.
    """

    host: str
    t: float
    mono: float
    wall: float
    boot_id: str = ""
    gpus: tuple[Gpu, ...] | None = None
    gpu_error: str | None = None
    simulated: bool = False
    procs: tuple[Proc, ...] = ()
    new: tuple[Identity, ...] = ()
    gone: tuple[tuple[int, int], ...] = ()
    logs: tuple[LogUpdate, ...] = ()
    facts: tuple[Fact, ...] = ()
    net_rx_bytes: float | None = None
    net_tx_bytes: float | None = None
    load1: float | None = None
    agent_cpu_s: float | None = None
    agent_rss_mib: float | None = None
    notes: tuple[str, ...] = ()


# ------------------------------------------------------------------------------------------------------------- launches


@dataclass(frozen=True, slots=True)
class Member:
    """A process of a launch. ``rank`` is the global rank; ``role`` is ``rank``, ``driver``, ``launcher``, ``api``,
    ``engine_core``, ``detokenizer``, ``helper`` or a framework's own word."""

    host: str
    pid: int
    start_ticks: int
    rank: int | None = None
    role: str = "rank"
    title: str = ""


@dataclass(frozen=True, slots=True)
class LogRef:
    """A log of a launch. ``found`` says how: ``stdout``, ``pipe reader``, ``option`` ..."""

    host: str
    path: str
    found: str = ""


@dataclass(frozen=True, slots=True)
class Launch:
    """The unit of diagnosis: processes over one or many hosts, their ranks and logs. Members stay listed when they end.

    ``world_size`` counts the ranks of the whole job, ``started_wall`` is the start of the oldest process in Unix time.
    """

    id: str
    name: str
    hosts: tuple[str, ...]
    framework: str | None = None
    command: str = ""
    members: tuple[Member, ...] = ()
    logs: tuple[LogRef, ...] = ()
    ports: tuple[int, ...] = ()
    world_size: int | None = None
    attempt: int = 1
    started_wall: float | None = None

    def ranks(self) -> tuple[Member, ...]:
        return tuple(m for m in self.members if m.rank is not None)


# ------------------------------------------------------------------------------------------------------------- verdicts


@dataclass(frozen=True, slots=True)
class Progress:
    """A counter inside a phase: ``done`` of ``total`` ``unit``; ``rate`` per second over its own recent steps."""

    done: float
    total: float | None
    unit: str
    rate: float | None = None
    eta_s: float | None = None


@dataclass(frozen=True, slots=True)
class RankPhase:
    rank: int
    host: str
    phase: PhaseId


@dataclass(frozen=True, slots=True)
class Odd:
    """A process that stands elsewhere than its peers, and why it is named."""

    host: str
    pid: int | None
    rank: int | None
    role: str
    why: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """An observation and what it does to the explanations: ``value`` is plain JSON or ``None`` for unknown,
    ``window_s`` in seconds, ``coverage`` the sampled share of the window (0 to 1); ``text`` says it in words."""

    signal: str
    value: Any
    window_s: float
    coverage: float
    refutes: tuple[CauseId, ...] = ()
    supports: tuple[CauseId, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What an explanation expects of one signal, beside what was seen. ``outcome`` decides its fate; ``since`` is since
    when it has been so, as far back as this explanation was weighed without a pause."""

    signal: str
    expects: str
    seen: str
    outcome: Literal["fits", "refutes", "unknown"]
    since: float | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """One hypothesis for the moment at hand, with its predictions against the observations."""

    cause: CauseId
    title: str
    healthy: bool
    alive: bool
    predictions: tuple[Prediction, ...] = ()
    remedy: str = ""

    @property
    def refuted(self) -> bool:
        """Whether an observation speaks against it. What is neither alive nor refuted is open: too little was seen."""
        return any(prediction.outcome == "refutes" for prediction in self.predictions)


@dataclass(frozen=True, slots=True)
class Deadline:
    """A time-out of the launch itself that will end the wait. ``default`` where it is the framework's default and not
    read from this launch's arguments."""

    what: str
    in_s: float
    default: bool = True


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is thought of a launch at time ``t``, and everything needed to argue about it.

    ``since`` is when ``id`` began, ``phase_since`` when ``phase`` began; ``silent_s`` counts from the log's last growth
    that was not a heartbeat, ``still_s`` from the last movement of anything. ``taken_back`` says in words that an
    earlier, graver verdict was withdrawn. ``framework`` is whose lines the logs hold. ``memory`` carries the engine's
    hysteresis from step to step; nothing else may read it.
    """

    t: float
    id: VerdictId = "unknown"
    since: float = 0.0
    strength: Strength = "weak"
    cause: CauseId | None = None
    phase: PhaseId = "unknown"
    phase_since: float = 0.0
    framework: str | None = None
    attempt: int = 1
    """The how-manieth attempt of the launch this is, as its processes or its logs tell."""
    progress: Progress | None = None
    silent_s: float | None = None
    still_s: float | None = None
    alive: int | None = None
    expected: int | None = None
    ranks: tuple[RankPhase, ...] = ()
    odd: tuple[Odd, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    explanations: tuple[Explanation, ...] = ()
    reasons: tuple[str, ...] = ()
    remedy: str = ""
    deadlines: tuple[Deadline, ...] = ()
    next_probe: str | None = None
    taken_back: str | None = None
    memory: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Wanted:
    """A fact that a hypothesis asks for; the session fetches it from the host at a bounded rate."""

    host: str
    what: str
    args: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Diagnosis:
    verdict: Verdict
    wanted: tuple[Wanted, ...] = ()


# --------------------------------------------------------------------------------------------------------------- stacks


@dataclass(frozen=True, slots=True)
class Frame:
    """One stack frame, newest first in a thread. ``line`` 0 means native or unknown."""

    function: str
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class ThreadStack:
    os_thread_id: int | None
    name: str
    frames: tuple[Frame, ...]
    active: bool | None = None
    owns_gil: bool | None = None
    main: bool = False
    thread_id: int | None = None
    """``pthread_self()``; the join key between py-spy's and faulthandler's dumps."""
    state: str | None = None
    wchan: str | None = None
    syscall: str | None = None
    """Where the kernel has it, from ``/proc/PID/task/TID`` as the agent reads it; ``None`` where that was not read."""


@dataclass(frozen=True, slots=True)
class ProcessStacks:
    """The stacks of one process as one method saw them. ``duration_s`` is how long the look took."""

    host: str
    pid: int | None
    rank: int | None
    method: str
    threads: tuple[ThreadStack, ...] = ()
    error: str | None = None
    role: str = "rank"
    taken_wall: float | None = None
    duration_s: float | None = None


@dataclass(frozen=True, slots=True)
class StackGroup:
    """Processes whose main threads stand at the same place.

    ``frames`` root first, as ``function (file:line)``, the ones that all groups share included; ``members`` as
    ``host:pid``. :func:`tui.stacks.tree.tree` turns groups into a prefix tree.
    """

    ranks: tuple[int, ...]
    members: tuple[str, ...]
    frames: tuple[str, ...]
    odd: bool = False


@dataclass(frozen=True, slots=True)
class MergedStacks:
    """``common`` are the frames shared by all, root first; ``groups`` the odd ones first; ``why`` one sentence."""

    groups: tuple[StackGroup, ...]
    common: tuple[str, ...] = ()
    odd_ranks: tuple[int, ...] = ()
    odd: tuple[Odd, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One rung of the ladder on one host: ``/proc``, ``py-spy``, ``NCCL RAS``, ``flight recorder``, ``py-spy again``,
    ``native stacks``, ``SIGABRT``.

    ``duration_s`` is ``None`` while it lasts. ``asked`` processes, of which ``answered`` gave something; ``error`` says
    in a sentence why all of it came to nothing, ``errors`` (pid, sentence) why single processes gave nothing.
    """

    host: str
    method: str
    started_wall: float
    duration_s: float | None = None
    asked: int = 0
    answered: int = 0
    error: str | None = None
    errors: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Raw:
    """What a launch keeps about itself, as it was brought: ``kind`` is ``nccl_ras`` (text or JSON) or
    ``flight_record`` (a pickle or JSON of PyTorch's). ``name`` is the address or path that it came from."""

    kind: str
    host: str
    pid: int | None
    rank: int | None
    name: str
    wall: float
    data: bytes


@dataclass(frozen=True, slots=True)
class Dump:
    """A taking of stacks, filling as results come. ``method`` is ``stacks`` or ``abort``."""

    id: int
    launch: str
    method: str
    started_wall: float
    done: bool
    expected: int
    processes: tuple[ProcessStacks, ...] = ()
    merged: MergedStacks | None = None
    log: tuple[str, ...] = ()
    """What was done to whom, when, and what came, one line each."""
    steps: tuple[Step, ...] = ()
    before: tuple[ProcessStacks, ...] = ()
    """The same processes a little earlier, where they were looked at twice: what differs has moved."""
    native: tuple[ProcessStacks, ...] = ()
    """With C frames, where those were asked for."""
    raw: tuple[Raw, ...] = ()
    called: tuple[Called, ...] = ()
    """What the ranks have called, by the flight recorder and by NCCL RAS."""
    evidence: Mapping[str, Any] | None = None
    """What these stacks say for and against causes, as the diagnosis reads it; once the dump is done."""


# ------------------------------------------------------------------------------------------------- what is looked at


@dataclass(frozen=True, slots=True)
class Trend:
    """The last readings of one GPU, oldest first, one a second; ``None`` where none was taken."""

    util_pct: tuple[float | None, ...] = ()
    power_w: tuple[float | None, ...] = ()
    mem_used_mib: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class ProcView:
    """A row of the process table. Rates are ``None`` until two samples exist. ``sigabrt`` is what SIGABRT would do."""

    host: str
    pid: int
    start_ticks: int
    rank: int | None
    role: str
    title: str
    state: str
    launch: str | None = None
    ppid: int | None = None
    threads: int | None = None
    cpu_pct: float | None = None
    cpu_time_s: float | None = None
    rss_mib: float | None = None
    read_mib_s: float | None = None
    wchan: str | None = None
    gpus: tuple[str, ...] = ()
    sigabrt: str | None = None
    children: tuple[ChildGroup, ...] = ()
    children_cpu_pct: tuple[float | None, ...] = ()
    """What each group of ``children`` burns together; 100 is one core."""


@dataclass(frozen=True, slots=True)
class LogView:
    """A followed log: its last lines (oldest first) and how long it has been still.

    ``marks`` are the lines that began a phase, after the phase's id, and the fatal ones, after ``fatal``; their text
    may lack what another program put before it.
    """

    host: str
    path: str
    size: float | None = None
    lines_total: int | None = None
    silent_s: float | None = None
    tail: tuple[LogLine, ...] = ()
    skipped_bytes: int = 0
    error: str | None = None
    marks: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class HostView:
    """``reason`` says in one sentence why the host is not live, or what on it could not be read."""

    name: str
    state: HostState
    reason: str = ""
    since: float = 0.0
    simulated: bool = False
    sample: Sample | None = None
    age_s: float | None = None
    trends: Mapping[str, Trend] = field(default_factory=dict[str, Trend])
    """By GPU uuid, or by ``#index`` where a GPU has none."""
    clock_offset_s: float | None = None
    clock_uncertain_s: float | None = None
    """By how much the offset may be off, from the round trip that it was measured with."""


@dataclass(frozen=True, slots=True)
class PhaseSpan:
    """A stretch of one phase; ``end`` is ``None`` while it lasts. ``start`` may lie before the monitor came."""

    phase: PhaseId
    start: float
    end: float | None = None


@dataclass(frozen=True, slots=True)
class Usual:
    """How long a phase took in ``launches`` past launches like this one: ``low_s`` to ``high_s`` seconds, outliers left
    out, of which nobody was seen at work for up to ``quiet_s`` at a time.

    ``start`` is ``warm`` or ``cold`` where past starts fall into fast and slow ones, else empty.
    """

    low_s: float
    high_s: float
    quiet_s: float
    launches: int
    start: str = ""


@dataclass(frozen=True, slots=True)
class Course:
    """What a launch showed over its life, in columns on one time axis; a NaN is a reading that is missing.

    ``times`` rise, in seconds on the monitor's timeline: every second of the last ten minutes, one row in ten seconds
    of the last three hours, one a minute before. ``columns``, means over its GPUs: ``util_pct``, ``power_pct`` (of the
    limit), ``mem_pct`` (of the total); sums: ``cpu_cores`` (busy, of its processes), ``log_bytes`` (the logs' sizes).
    ``verdicts`` are (since when, which), oldest first.
    """

    times: Sequence[float] = ()
    columns: Mapping[str, Sequence[float]] = field(default_factory=dict[str, Sequence[float]])
    verdicts: tuple[tuple[float, VerdictId], ...] = ()


@dataclass(frozen=True, slots=True)
class LaunchView:
    launch: Launch
    verdict: Verdict
    spans: tuple[PhaseSpan, ...] = ()
    processes: tuple[ProcView, ...] = ()
    logs: tuple[LogView, ...] = ()
    seen_since: float | None = None
    """When the monitor first saw it, on its own timeline."""
    ahead: tuple[PhaseId, ...] = ()
    """The phases that usually follow the present one for this framework, in order; empty where that is not known."""
    course: Course = Course()
    usual: Mapping[PhaseId, tuple[Usual, ...]] = field(default_factory=dict[PhaseId, tuple[Usual, ...]])
    """What past launches like this one took, where they are known; warm starts before cold ones."""

    def usual_at(self, t: float) -> Usual | None:
        """Of the present phase, the kind of start that still fits at ``t``, else the slowest."""
        began = self.spans[-1].start if self.spans else self.verdict.phase_since
        known = self.usual.get(self.verdict.phase, ())
        return next((usual for usual in known if t - began <= usual.high_s), known[-1] if known else None)
