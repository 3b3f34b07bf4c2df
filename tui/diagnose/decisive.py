"""Evidence that decides by itself: fatal lines, needed processes that are gone, an end of everything."""

from __future__ import annotations

from tui.diagnose.hypotheses import seen
from tui.diagnose.hypotheses.hung import HUNG_HYPOTHESES
from tui.diagnose.judgement import Culprit, Judgement, silence
from tui.diagnose.observe import Scene
from tui.diagnose.phase_tracker import FatalLine, Run
from tui.diagnose.views import ProcView


def decide(scene: Scene) -> Judgement | None:
    """The judgement where such evidence is there."""
    return _fatal(scene) or _dead(scene) or _gone(scene) or _stopped(scene)


def _fatal(scene: Scene) -> Judgement | None:
    """A fatal line of this run that nothing contradicts: no progress after it, and no server that goes on."""
    lines = [(run, line) for run in scene.runs for line in run.fatal if _stands(run, line)]
    if not lines or (scene.run.ready and not scene.dead and scene.living):
        return None
    particular = [line for _, line in lines if line.marker.cause != "exception"]
    line = (particular or [line for _, line in lines])[0]
    reasons = [f"fatal line: {line.text.strip()[:200]}"]
    if scene.living:
        reasons.append(f"{len(scene.living)} of its processes are still there")
    return Judgement("crashed", "proven", line.marker.cause, reasons, remedy=line.marker.remedy, probe="log")


def _stands(run: Run, line: FatalLine) -> bool:
    if line.t is None:
        return True
    progress, ready = run.progress_t, run.ready_t
    return not ((progress is not None and progress > line.t + 5.0) or (ready is not None and ready > line.t))


def _dead(scene: Scene) -> Judgement | None:
    """A needed process is gone while others of the launch live on."""
    if not scene.living or scene.run.phase == "shutdown":
        return None
    vanished = [rank for rank in scene.missing if rank in scene.run.ranks]
    if vanished and scene.ranks and scene.observed:
        reasons = [f"rank {seen.ranks_text(vanished)} wrote into this log and has no process any more", seen.cpu(scene)]
        culprits: list[Culprit] = [(None, rank, "its process is gone") for rank in vanished]
        return Judgement("crashed", "proven", "dead_rank", reasons, probe="log", culprits=culprits)
    dead: list[ProcView] = []
    for view in scene.dead:
        died = scene.died_t(view)
        settled = 2.0 if view.member.rank is not None else 10.0
        if died is not None and (scene.now - died >= settled or scene.interval_s > settled):
            dead.append(view)
    if not dead:
        return None
    killed = _oom_kills(scene)
    how = "zombie" if all(view.present for view in dead) else "gone"
    reasons = [f"{seen.who(dead)} {how} while {len(scene.living)} other processes live: {seen.cpu(scene)}"]
    if killed:
        reasons.insert(0, killed)
    named: list[Culprit] = [(view, view.member.rank, f"its process is {how}") for view in dead]
    fault = scene.xids[-1] if scene.xids and not killed else None
    if fault is not None:
        reasons.insert(0, f"kernel log: {fault[:160]}")
    cause = "oom_kill" if killed else "gpu_fault" if fault is not None else "dead_rank"
    return Judgement("crashed", "proven", cause, reasons, probe="log", culprits=named)


def _stopped(scene: Scene) -> Judgement | None:
    """A stopped process holds the whole launch up, whatever the others still do, unless the log goes on."""
    views = scene.stopped
    if not views or (scene.progress_t is not None and scene.now - scene.progress_t < 20.0):
        return None
    reasons = [f"{seen.who(views)} in state {views[0].state} for 20 s or more", silence(scene), seen.cpu(scene)]
    culprits: list[Culprit] = [(view, view.member.rank, f"stopped, state {view.state}") for view in views]
    explanations = tuple(h.explain(scene) for h in HUNG_HYPOTHESES if h.cause == "stopped")
    return Judgement("hung", "proven", "stopped", reasons, explanations, probe="snapshot", culprits=culprits)


def _oom_kills(scene: Scene) -> str | None:
    count = scene.fact_number("cgroup_oom_kill", 3600.0)
    if count:
        return f"the kernel killed {count:.0f} processes of its control group for memory"
    lines = [str(fact.value) for fact in scene.facts("kernel_line", 3600.0)]
    return next((f"kernel log: {line[:160]}" for line in lines if "out of memory" in line.lower()), None)


def _gone(scene: Scene) -> Judgement | None:
    """All its processes have ended."""
    if scene.living or not scene.procs:
        return None
    run = scene.run
    finished = run.counter is not None and run.counter.full and scene.phase == "training_step"
    if run.phase == "shutdown" or run.over or run.ready or finished or scene.framework is None:
        return Judgement("ended", "firm", reasons=["all its processes have ended", silence(scene)])
    return Judgement(
        "crashed",
        "firm",
        "dead_rank",
        [f"all its processes ended in {scene.phase}, before it was ready", silence(scene)],
        probe="log",
    )
