"""Evidence that decides by itself: fatal lines, needed processes that are gone, an end of everything."""

from __future__ import annotations

from dataclasses import replace

from tui.diagnose.facts.surroundings import memory_kill
from tui.diagnose.hypotheses import seen
from tui.diagnose.hypotheses.blocked import by_whom
from tui.diagnose.hypotheses.hung import HUNG_HYPOTHESES
from tui.diagnose.judgement import Culprit, Judgement, silence
from tui.diagnose.observe import Scene
from tui.diagnose.phase_tracker import FatalLine, Run
from tui.diagnose.views import ProcView

FRONT = frozenset({"driver", "api", "engine_core", "data_parallel_controller"})
"""Roles without which a launch is over; a launcher may end in order once it has started the ranks."""

SERVERS = frozenset({"sglang", "vllm", "tensorrt-llm", "lmdeploy", "tgi", "triton", "llama.cpp"})
"""What is to run until it is stopped: before it was ready, its end is a failure. A job ends when its work is done."""

_ALIVE_S = 15.0
"""An error's traceback counts, while all processes live, when for so long after it nothing moved."""


SURVIVED_TICKS = 4
"""So many steps of a counter after a fatal line, and it was survived, whenever they came: where it lay there, a line
without a stamp has no time of its own."""

NEW_S = 10.0
"""So long after the last of its processes was first seen, a rank without a process may only not be known yet."""

ENDING_S = 15.0
"""A job's ranks end one after the other when its work is done; who lives on for longer is stuck."""

SENT_S = 3600.0
"""For so long an end is put down to the signal that was sent from here."""


def decide(scene: Scene) -> Judgement | None:
    """The judgement where such evidence is there."""
    decided = _fatal(scene) or _dead(scene) or _gone(scene) or _stopped(scene)
    return _by_our_hand(scene, decided) if decided is not None and decided.id == "crashed" else decided


def _by_our_hand(scene: Scene, crashed: Judgement) -> Judgement:
    """What ended it is known where the monitor itself sent the signal."""
    sent = [f for f in scene.facts("sigabrt_sent", SENT_S) if f.value == scene.launch.id]
    if not sent:
        return crashed
    ago = f"SIGABRT was sent to its ranks from here {scene.now - sent[-1].t:.0f} s ago"
    dumps = "The dumps show where each rank stood when it was ended."
    return replace(crashed, cause=None, reasons=[ago, *crashed.reasons], remedy=dumps, probe="dumps", culprits=[])


def _fatal(scene: Scene) -> Judgement | None:
    """A fatal line of this run that nothing contradicts: no progress after it, and no server that goes on."""
    lines = [(run, line) for run in scene.runs for line in run.fatal if _stands(run, line)]
    if not lines or (scene.run.ready and not scene.dead and scene.living):
        return None
    particular = [
        line for _, line in lines if line.marker.cause != "exception" and not line.marker.id.startswith("shell.")
    ]
    caught = {line.marker.cause for line in particular} == {"gpu_oom"}
    if caught and not scene.dead and (_works_on(scene) or scene.watched_s < scene.look_s):
        return None  # those who look for the largest batch run out of memory, and go on with a smaller one
    if not particular and scene.living and not scene.dead and not _nothing_since(scene, lines[-1][1]):
        return None  # many healthy starts print tracebacks and survive them, or lose a helper that their shell tells of
    line = (particular or [line for _, line in lines])[0]
    reasons = [f"fatal line: {line.text.strip()[:200]}"]
    trace = next((trace for run, _ in lines for trace in run.tracebacks), None)
    if trace is not None and trace.exception not in line.text:
        who = "" if trace.rank is None else f" of rank {trace.rank}"
        reasons.append(f"first traceback{who}: {trace.text[:200]}")
    if scene.living:
        reasons.append(f"{_counted(len(scene.living))} of it still there")
    return Judgement(
        "crashed", "proven", line.marker.cause, reasons, remedy=line.marker.remedy, probe="log",
        culprits=_named_by_pid(scene, line) or _who_failed(scene, [line for _, line in lines]),
    )  # fmt: skip


def _works_on(scene: Scene) -> bool:
    """Whether work is seen, or busy cores of which it cannot be read whether their GPUs work."""
    kinds = scene.gpu_kinds
    unread = not kinds or "unknown" in kinds
    at_work = any(view.at_work or (unread and view.busy) for view in scene.living)
    return at_work or bool(kinds.get("works"))


def _named_by_pid(scene: Scene, line: FatalLine) -> list[Culprit]:
    """The rank whose process a launcher's line names."""
    named = [view for view in scene.procs if view.member.pid == line.pid]
    return [(view, view.member.rank, "the launcher says that it ended first") for view in named]


def _who_failed(scene: Scene, lines: list[FatalLine]) -> list[Culprit]:
    """The few ranks that printed an error of their own; a collective's time-out is printed by its victims."""
    if any(line.marker.cause not in ("exception", "gpu_oom") for line in lines):
        return []
    failed = {line.rank for line in lines if line.rank is not None}
    views = {view.member.rank: view for view in scene.procs if view.member.rank is not None}
    if not failed or 2 * len(failed) >= len(views):
        return []
    return [(views.get(rank), rank, "it printed the error") for rank in sorted(failed)]


def _counted(processes: int) -> str:
    return f"{processes} other process{'es' if processes != 1 else ''}"


def _nothing_since(scene: Scene, line: FatalLine) -> bool:
    """Whether a traceback was the last thing that happened, while the processes live on."""
    since = line.t if line.t is not None else scene.now - (scene.silent_s or 0.0)
    return min(scene.now - since, scene.unmoved_s) >= _ALIVE_S and not any(v.at_work for v in scene.living)


def _stands(run: Run, line: FatalLine) -> bool:
    if run.ticks - line.ticks >= SURVIVED_TICKS:
        return False
    if line.t is None:
        return True
    progress, ready = run.progress_t, run.ready_t
    return not ((progress is not None and progress > line.t + 5.0) or (ready is not None and ready > line.t))


def _dead(scene: Scene) -> Judgement | None:
    """A needed process is gone while others of the launch live on."""
    if not scene.living or scene.run.phase == "shutdown":
        return None
    vanished = _vanished(scene)
    if vanished:
        said = (
            "wrote into this log"
            if set(vanished) <= set(scene.run.ranks)
            else f"must have been there before {scene.phase}"
        )
        have = "have" if len(vanished) > 1 else "has"
        reasons = [f"{seen.ranks(vanished)} {said} and {have} no process any more", seen.cpu(scene)]
        culprits: list[Culprit] = [(None, rank, "its process is gone") for rank in vanished]
        return Judgement("crashed", "proven", "dead_rank", reasons, probe="log", culprits=culprits)
    dead: list[ProcView] = []
    for view in scene.dead:
        died = scene.died_t(view)
        if died is not None and scene.now - died >= _settled_s(scene, view) and not _ended_in_order(scene, view):
            dead.append(view)
    if not dead:
        return None
    killed = memory_kill(scene, dead)
    zombies = all(view.present for view in dead)
    many = len(dead) > 1
    how = ("zombies" if many else "a zombie") if zombies else "gone"
    reasons = [
        f"{seen.who(dead)} {'are' if many else 'is'} {how}, with {_counted(len(scene.living))} of it alive",
        seen.cpu(scene),
        seen.gpus(scene),
    ]
    if killed:
        reasons.insert(0, killed)
    named: list[Culprit] = [
        (view, view.member.rank, "its process is a zombie" if zombies else "its process is gone") for view in dead
    ]
    fault = scene.xids[-1] if scene.xids and not killed else None
    if fault is not None:
        reasons.insert(0, f"kernel log: {fault.text[:160]}")
    cause = "oom_kill" if killed else "gpu_fault" if fault is not None else "dead_rank"
    return Judgement("crashed", "proven", cause, reasons, probe="log", culprits=named)


_ALL_HAD_COME = frozenset(
    {
        "weight_load",
        "post_load",
        "kv_alloc",
        "compile",
        "graph_capture",
        "warmup",
        "serving",
        "training_step",
        "data_index",
    }
)
"""Phases that begin only when every rank has joined."""


def _vanished(scene: Scene) -> list[int]:
    """Ranks that were there, by this log, before anybody looked, and have no process any more."""
    if not scene.ranks or not scene.observed or 2 * len(scene.ranks) < (scene.expected or 0):
        return []
    if _still_coming(scene):
        return []
    wrote = [rank for rank in scene.missing if rank in scene.run.ranks]
    joined = scene.told_phase in _ALL_HAD_COME and scene.unmoved_s >= 15.0
    return wrote or (scene.missing if joined else [])


def _still_coming(scene: Scene) -> bool:
    """Whether ranks may be there that are not known as such yet: a process is announced before its title is, and ranks
    of one launch are not all read at once."""
    nameless = [view for view in scene.living if view.member.rank is None and view.member.role == "worker"]
    seen_t = [found[1].seen_t for view in scene.living if (found := scene.track_of(view.member)) is not None]
    return len(nameless) >= len(scene.missing) > 0 or scene.now - max(seen_t, default=scene.now) < NEW_S


def _settled_s(scene: Scene, view: ProcView) -> float:
    """How long an absence must last: it must be seen twice, unless looks are too rare for that."""
    least = ENDING_S if _done(scene) else 2.0 if view.member.rank is not None else 8.0
    return max(least, 0.9 * scene.interval_s) if scene.interval_s <= 12.0 else 0.0


def _done(scene: Scene) -> bool:
    """Whether a training job has done all its steps."""
    steps = scene.run.counter if scene.phase in ("training_step", "unknown") else None
    return (steps is not None and steps.full) or any(run.done for run in scene.runs)


def _ended_in_order(scene: Scene, view: ProcView) -> bool:
    """A launcher that is gone while its ranks go on has done its work."""
    return view.member.rank is None and view.member.role not in FRONT and scene.unmoved_s < 30.0


def _stopped(scene: Scene) -> Judgement | None:
    """A stopped process holds the whole launch up, whatever the others still do, unless the log goes on."""
    views = scene.stopped
    stopped_s = max((scene.stopped_s(view) for view in views), default=0.0)
    if not views or (scene.progress_t is not None and scene.progress_t > scene.now - stopped_s):
        return None
    held = f"{seen.who(views)} stopped (state {views[0].state}) for {stopped_s:.0f} s at least{by_whom(scene)}"
    reasons = [held, silence(scene), seen.cpu(scene), seen.gpus(scene)]
    culprits: list[Culprit] = [(view, view.member.rank, f"stopped, state {view.state}") for view in views]
    explanations = tuple(h.explain(scene) for h in HUNG_HYPOTHESES if h.cause == "stopped")
    return Judgement("hung", "proven", "stopped", reasons, explanations, probe="snapshot", culprits=culprits)


def _gone(scene: Scene) -> Judgement | None:
    """All its processes have ended."""
    if scene.living or not scene.procs:
        return None
    ended = [died for view in scene.procs if (died := scene.died_t(view)) is not None]
    if ended and scene.interval_s <= 12.0 and scene.now - max(ended) < 0.9 * scene.interval_s:
        return None
    run = scene.run
    if run.phase == "shutdown" or run.over or run.ready or _done(scene):
        return Judgement("ended", "firm", reasons=["all its processes have ended", silence(scene)])
    killed = memory_kill(scene, [view for view in scene.procs if scene.died_t(view) is not None])
    fault = next((item for item in reversed(scene.xids) if item.fresh and item.ends_the_gpu), None)
    if killed or fault is not None:
        reasons = [killed or f"kernel log: {fault.text[:160] if fault is not None else ''}"]
        reasons.append(f"all its processes ended in {scene.phase}, and its work was not done")
        return Judgement("crashed", "proven", "oom_kill" if killed else "gpu_fault", reasons, probe="log")
    if scene.framework not in SERVERS:
        said = "all its processes have ended, and no line of its log speaks of a failure"
        return Judgement("ended", "weak", reasons=[said, silence(scene)])
    return Judgement(
        "crashed",
        "firm",
        "dead_rank",
        [f"all its processes ended in {scene.phase}, before it was ready", silence(scene)],
        probe="log",
    )
