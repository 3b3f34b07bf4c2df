"""From a scene to a judgement: decisive evidence first, then progress, then visible work, then the stall.

One host that is not heard does not take the rest down: progress and work that others show still count.
"""

from __future__ import annotations

from collections.abc import Mapping

from tui.diagnose.clock import Clock
from tui.diagnose.decisive import decide
from tui.diagnose.hypotheses import Hypothesis, seen
from tui.diagnose.hypotheses.healthy import HEALTHY_HYPOTHESES
from tui.diagnose.hypotheses.hung import HUNG_HYPOTHESES
from tui.diagnose.hypotheses.workers import busy_cores, solid
from tui.diagnose.judgement import Judgement, amount, fitting, silence
from tui.diagnose.movement import last_movement
from tui.diagnose.observe import Scene
from tui.diagnose.phases import PLAIN_WORK, title
from tui.diagnose.serving import NOTABLE_S, served
from tui.diagnose.stall import SUSPECT_S, judge_stall, standing
from tui.diagnose.views import ProcView
from tui.model import CauseId, Explanation
from tui.track import COVERED

RECENT_S = 10.0

LOG_ONLY_SUSPECT_S: Mapping[str, float] = {
    "weight_download": 2700.0,
    "weight_load": 2700.0,
    "compile": 2700.0,
    "jit_build": 2700.0,
    "graph_capture": 1800.0,
    "warmup": 2700.0,
    "data_index": 1800.0,
}
"""A silent log without any signal: longer than healthy silences on record in that phase, and no evidence."""

LOG_ONLY_ELSE_S = 900.0

GPU_ONLY_SUSPECT_S = 300.0
"""The same where every GPU spins in a collective: one that waits for a rank at work has that rank's GPU idle."""

_LAST_WORD_S = 20.0
_AFTER_LINES = 12
"""So few lines come after the error that ends a launch: of its resource tracker, its launcher, its siblings, and what
others write on a clock."""

LIKELY: Mapping[str, CauseId] = {
    "dist_init": "comm_init",
    "post_load": "rank_wait",
    "draft_load": "rank_wait",
    "graph_capture": "graph_capture_deadlock",
    "training_step": "collective_spin",
    "weight_download": "download_stall",
}
"""What most hangs in a phase turned out to be, for want of any signal."""

_FIRST_LOOK_S = 20.0
"""How long a launch whose log was still before is looked at before its waiting is called anything."""

_TOLD = frozenset({"cpu_starved"})
"""Healthy explanations that rest on what the host says, not on what the processes do."""


def judge(scene: Scene, clock: Clock) -> Judgement:
    """The judgement at ``scene.now``; ``clock`` is taken on to it."""
    if not scene.hosts or all(host.latest is None for host in scene.hosts):
        clock.note(scene, solid_t=None)
        return Judgement("unknown", reasons=["nothing has been seen of its hosts yet"])
    scene.unmoved_s = clock.quiet_s
    decided = decide(scene)
    if decided is not None:
        clock.note(scene, solid_t=None)
        return decided
    if scene.run.ready:
        return _unheard(scene, clock) or served(scene, clock)
    heard = scene.heard() if scene.stale_s >= SUSPECT_S else None
    return _by_the_others(scene, heard, clock) if heard is not None else _start_up(scene, clock)


def _unheard(scene: Scene, clock: Clock) -> Judgement | None:
    """A host whose samples have stopped coming."""
    if scene.stale_s <= max(12.0, 3.2 * scene.interval_s):
        return None
    clock.note(scene, solid_t=None)
    said = _not_heard(scene)
    return standing(scene, clock, said) or Judgement("unknown", reasons=[said], quiet_s=clock.quiet_s)


def _not_heard(scene: Scene) -> str:
    host = min(scene.hosts, key=lambda host: host.latest.t if host.latest is not None else float("-inf")).name
    return f"{host} has not been heard for {scene.stale_s:.0f} s"


def _by_the_others(scene: Scene, heard: Scene, clock: Clock) -> Judgement:
    """What the hosts show that are heard: work and progress as ever; where all of them wait, suspect and no more."""
    heard.unmoved_s = scene.unmoved_s
    judgement = _start_up(heard, clock)
    said = _not_heard(scene)
    if judgement.id in ("suspect", "hung"):
        judgement.id, judgement.strength = "suspect", "weak"
    elif judgement.id in ("waiting", "unknown"):
        return Judgement("unknown", reasons=[said, silence(scene)], quiet_s=clock.quiet_s)
    judgement.reasons.insert(1, said)
    return judgement


def _start_up(scene: Scene, clock: Clock) -> Judgement:
    if not scene.workers:
        clock.note(scene, solid_t=None)
        return _progressing(scene, clock) or _unheard(scene, clock) or _log_only(scene)
    healthy = [(h, h.explain(scene)) for h in HEALTHY_HYPOTHESES if h.concerns(scene.phase)]
    at_work = [(h, e) for h, e in healthy if e.alive and not h.waits and not _outweighed(scene, h)]
    _note_work(scene, clock, at_work)
    progressing = _progressing(scene, clock)
    if progressing is not None:
        clock.stall(False)
        return _on_the_way(scene, clock, progressing, [e for _, e in healthy if e.alive])
    if at_work and not clock.doubtful and not (clock.weak and not scene.observed):
        clock.stall(False)
        return _slow(scene, clock, at_work, [e for _, e in healthy])
    if (unheard := _unheard(scene, clock)) is not None:
        return unheard
    if scene.came_late and scene.watched_s < _FIRST_LOOK_S:
        said = f"watched for {scene.watched_s:.0f} s only; its log had been still before"
        return Judgement("unknown", reasons=[said, silence(scene)], quiet_s=clock.quiet_s)
    if not scene.observed:
        return standing(scene, clock, _uncovered(scene)) or _unobserved(scene, clock)
    waits = [(h, e) for h, e in healthy if e.alive and h.waits]
    if waits:
        return _waiting(scene, clock, waits[0], [e for _, e in healthy])
    return judge_stall(scene, clock, [e for _, e in healthy])


def _outweighed(scene: Scene, healthy: Hypothesis) -> bool:
    """Whether it rests on busy cores alone, which may be a wait, against evidence that speaks for itself."""
    if healthy.cause in _TOLD or solid(scene) or scene.gpu_kinds.get("works"):
        return False
    return any(
        h.concerns(scene.phase) and h.decisive(scene) and h.explain(scene).alive
        for h in HUNG_HYPOTHESES
        if h.decides is not None
    )


def _note_work(scene: Scene, clock: Clock, at_work: list[tuple[Hypothesis, Explanation]]) -> None:
    """Tell the clock who moved when; a busy core alone may be a wait."""
    views = solid(scene)
    moving = bool(scene.gpu_kinds.get("works")) or any(gpu.mem_moved for gpu in scene.gpus)
    solid_t = weak_t = None
    if at_work and (views or moving or any(h.cause in _TOLD for h, _ in at_work)):
        solid_t = last_movement(scene, views, gpus=moving) or scene.now
    elif at_work:
        weak_t = last_movement(scene, busy_cores(scene) or scene.workers, gpus=False)
    clock.note(scene, solid_t=solid_t, weak_t=weak_t)
    if any(view.builds or view.children_work for view in scene.living):
        clock.note_build(scene.phase)
    named = [h.cause for h, _ in at_work if h.cause not in PLAIN_WORK]
    if named:
        clock.count(named[0])


def _on_the_way(scene: Scene, clock: Clock, judgement: Judgement, alive: list[Explanation]) -> Judgement:
    judgement.explanations = tuple(alive)
    cause, seconds = clock.main_cause()
    if scene.phase == "training_step" and seconds >= NOTABLE_S:
        judgement.cause = cause
        judgement.reasons.append(f"its start was slow for {seconds:.0f} s: {title(cause)}")
    judgement.quiet_s = clock.quiet_s
    return judgement


def _waiting(
    scene: Scene, clock: Clock, first: tuple[Hypothesis, Explanation], healthy: list[Explanation]
) -> Judgement:
    """A wait for somebody that the launch itself names; where that one can never come, it is judged as a stall."""
    impossible = next((h for h in HUNG_HYPOTHESES if h.cause == "resources_missing"), None)
    if impossible is not None and impossible.concerns(scene.phase) and impossible.explain(scene).alive:
        return judge_stall(scene, clock, healthy)
    hypothesis, explanation = first
    clock.count(hypothesis.cause)
    reasons = [f"{title(hypothesis.cause)}: {fitting(explanation)}", silence(scene)]
    return Judgement("waiting", "weak", hypothesis.cause, reasons, tuple(healthy), quiet_s=clock.quiet_s)


# ------------------------------------------------------------------------------------------------------------ progress


def _progressing(scene: Scene, clock: Clock) -> Judgement | None:
    """Something that counts as progress moved within twice its own usual interval, or within ten seconds."""
    counter_s = min(scene.run.interval_s() or 0.0, 600.0)
    if scene.progress_t is not None and scene.now - scene.progress_t <= max(RECENT_S, 2.0 * counter_s):
        counter = scene.run.counter
        total = counter.total if counter is not None else None
        said = f"{amount(counter.done)} of {amount(total)} {counter.unit}" if counter and total else scene.phase
        return Judgement("progressing", "firm", reasons=[f"{said}; moved {scene.now - scene.progress_t:.0f} s ago"])
    if clock.heard is not None and scene.now - clock.heard <= RECENT_S and any(log.tail for log in scene.logs):
        return Judgement("progressing", "weak", reasons=["the log says something new"])
    young = [view for view in scene.living if scene.now - _seen_t(scene, view) <= max(RECENT_S, scene.look_s)]
    if young:
        return Judgement("progressing", "weak", reasons=[f"{seen.who(young)} started just now"])
    return None


def _seen_t(scene: Scene, view: ProcView) -> float:
    """When a process began, as far as it was seen: one that was there at the first look may be as old as its log."""
    host = scene.history.host(view.member.host)
    proc = host.procs.get((view.member.pid, view.member.start_ticks)) if host is not None else None
    if host is None or proc is None or proc.seen_t == host.first_look_t:
        fresh = host is not None and host.first_t is not None and scene.now - host.first_t <= 3.0 * RECENT_S
        fresh = fresh and not scene.came_late
        fresh = fresh and (scene.started_t is None or scene.now - scene.started_t <= 3.0 * RECENT_S)
        return scene.now if fresh and not scene.observed else float("-inf")
    return proc.seen_t


def _log_only(scene: Scene) -> Judgement:
    """No process of it is known: only the log can speak, and silence alone never convicts."""
    silent = scene.silent_s
    if silent is None:
        return Judgement("unknown", reasons=["no process of it and no line of a log has been seen"])
    if scene.came_late and scene.watched_s < _FIRST_LOOK_S:
        return Judgement("unknown", reasons=[f"watched for {scene.watched_s:.0f} s only; its log was still before"])
    if (crashed := _last_word(scene, silent)) is not None:
        return crashed
    if scene.gpu_kinds.get("works"):
        return Judgement("slow", "weak", reasons=[f"no process of it can be seen; {seen.gpus(scene)}", silence(scene)])
    if silent >= max(GPU_ONLY_SUSPECT_S, scene.least.suspect_s) and scene.gpu_kinds.keys() == {"spins"}:
        reasons = [f"{seen.gpus(scene)}; {silence(scene)}", "no process of it can be seen to say more"]
        return Judgement("suspect", "weak", LIKELY.get(scene.phase), reasons, probe="snapshot", quiet_s=silent)
    if silent >= max(LOG_ONLY_SUSPECT_S.get(scene.phase, LOG_ONLY_ELSE_S), scene.least.suspect_s):
        reasons = [f"log still for {silent:.0f} s in {scene.phase}", "no process or GPU of it can be seen to say more"]
        cause = LIKELY.get(scene.phase)
        return Judgement("suspect", "weak", cause, reasons, probe="snapshot", quiet_s=silent)
    return Judgement(
        "slow", "weak", reasons=[f"log still for {silent:.0f} s in {scene.phase}; nothing else can be seen"]
    )


def _last_word(scene: Scene, silent_s: float) -> Judgement | None:
    """An error that nobody caught, if the log ends with it: with nothing else to be seen, it is the end."""
    run = scene.run
    last = next((trace for trace in reversed(run.tracebacks) if trace.uncaught), None)
    if last is None:
        return None
    since_s = silent_s if last.t is None else scene.now - last.t
    went_on = run.progress_t is not None and last.t is not None and run.progress_t > last.t
    if went_on or since_s < _LAST_WORD_S or run.lines - last.line > _AFTER_LINES + since_s / 10.0:
        return None
    reasons = [f"the log ends with an error that nobody caught: {last.text[:200]}", silence(scene)]
    return Judgement("crashed", "firm", "exception", reasons, probe="log", quiet_s=silent_s)


def _unobserved(scene: Scene, clock: Clock) -> Judgement:
    return Judgement("unknown", reasons=[_uncovered(scene), silence(scene)], quiet_s=clock.quiet_s)


def _uncovered(scene: Scene) -> str:
    if scene.watched_s < scene.look_s:
        return f"watched for {scene.watched_s:.0f} s only: too short to say"
    covered = min((view.coverage for view in scene.workers if view.cpu is not None), default=0.0)
    if covered < COVERED:
        return f"only {100 * covered:.0f} % of the last {scene.look_s:.0f} s were observed"
    unread = [view for view in scene.workers if view.cpu is None]
    if unread:
        return f"of {seen.who(unread)} no CPU time was read in the last {scene.look_s:.0f} s"
    return f"the GPUs were not looked at throughout the last {scene.gauge_s:.0f} s"


# ---------------------------------------------------------------------------------------------------- work and silence


def _slow(
    scene: Scene, clock: Clock, at_work: list[tuple[Hypothesis, Explanation]], healthy: list[Explanation]
) -> Judgement:
    hypothesis, explanation = at_work[0]
    named = hypothesis.cause not in PLAIN_WORK
    reasons = [f"{title(hypothesis.cause)}: {fitting(explanation)}", silence(scene)]
    beyond_doubt = clock.quiet_s <= 2.0 * scene.look_s
    if not beyond_doubt:
        reasons.append(f"nothing but busy cores for {clock.quiet_s:.0f} s")
    return Judgement(
        "slow",
        "firm" if beyond_doubt else "weak",
        hypothesis.cause if named else None,
        reasons,
        tuple(healthy),
        quiet_s=clock.quiet_s,
    )
