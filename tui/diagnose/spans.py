"""The phases of a launch so far, for the phase bar."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from tui.diagnose.observe import Scene
from tui.diagnose.phases import PHASES
from tui.history import History, ProcTrack
from tui.model import Launch, PhaseId, PhaseSpan


def phase_spans(history: History, launch: Launch, now: float) -> tuple[PhaseSpan, ...]:
    """The launch's phases in their order; what lies before the monitor came is filled in from the log's own stamps."""
    scene = Scene(history, launch, now)
    run = scene.run
    starts = [(phase, t) for phase, t in run.spans if t is not None]
    began = _began(scene, starts[0][1] if starts else None)
    if began is not None and (not starts or starts[0][0] != "import") and _lived(scene):
        starts.insert(0, ("import" if starts or scene.phase == "import" else "unknown", began))
    if starts and starts[-1][0] != scene.phase and scene.phase != "unknown":
        starts.append((scene.phase, max(starts[-1][1], now)))
    ends = [t for _, t in starts[1:]]
    if starts and (over_t := _all_dead_t(scene)) is not None:
        ends.append(max(starts[-1][1], over_t))
    return tuple(PhaseSpan(phase, t, end) for (phase, t), end in zip_longest(starts, ends))


def phases_ahead(usual: Sequence[PhaseId], phase: PhaseId) -> tuple[PhaseId, ...]:
    """Which of a framework's ``usual`` phases are still to come in ``phase``; none where that is not known."""
    order = list(PHASES)
    if phase not in order or phase in ("shutdown", "unknown"):
        return ()
    return tuple(later for later in usual if order.index(later) > order.index(phase))


def _began(scene: Scene, first: float | None) -> float | None:
    """When the launch's first process was seen or started, if that was before the log's first phase."""
    seen = [host.procs[key].seen_t for host in scene.hosts for key in host.procs if _is_member(scene, host.name, key)]
    began = scene.started_t if scene.started_t is not None else min(seen, default=None)
    return began if began is not None and (first is None or began < first) else None


def _lived(scene: Scene) -> bool:
    """Whether a process of the launch was seen alive."""
    return any(track.lived for track in _tracks(scene))


def _tracks(scene: Scene) -> list[ProcTrack]:
    return [found[1] for member in scene.launch.members if (found := scene.track_of(member)) is not None]


def _all_dead_t(scene: Scene) -> float | None:
    """When the last of its processes died; ``None`` while one lives, or where none was ever seen."""
    tracks = _tracks(scene)
    if not tracks or any(t.gone_t is None and t.last is not None and t.last.state not in "ZX" for t in tracks):
        return None
    return max((t for view in scene.procs if (t := scene.died_t(view)) is not None), default=None)


def _is_member(scene: Scene, host: str, key: tuple[int, int]) -> bool:
    return any(m.host == host and (m.pid, m.start_ticks) == key for m in scene.launch.members)
