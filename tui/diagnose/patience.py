"""What past launches, and the user, add to the patience with a stall: they delay what rests on silence, and speak for
nothing.

A baseline is no evidence: that a phase takes longer than usual does not make it a hang, and once it does, the launch is
judged as if nothing were known of others. What speaks for itself (a dead rank, a lock whose owner is dead) never waits.
"""

from __future__ import annotations

from tui.diagnose.observe import Scene

LEAST_LAUNCHES = 3
"""Fewer past launches may have been lucky, or odd, together."""

ROOM = 1.25
"""So much longer than usual a silence may be and still be the usual one."""


def patient(scene: Scene, suspect_s: float, hung_s: float) -> tuple[float, float]:
    """The quiet seconds until suspect and until hung, both later by what a usual silence of this phase asks for, and by
    what the user does.

    Not how long the phase takes but how long nobody was seen at work in it counts: twenty minutes of loading in which
    somebody always reads do not excuse one of silence.
    """
    delay = max(0.0, ROOM * usual_quiet_s(scene) - suspect_s)
    return no_sooner(scene, suspect_s + delay, hung_s + delay)


def no_sooner(scene: Scene, suspect_s: float, hung_s: float) -> tuple[float, float]:
    """The quiet seconds until suspect and until hung, neither of them before the user's own."""
    suspect_s = max(suspect_s, scene.least.suspect_s)
    return suspect_s, max(hung_s, scene.least.hung_s, suspect_s)


def usual_quiet_s(scene: Scene) -> float:
    """The longest silence that is usual in the present phase, for as long as the phase lasts no longer than usual."""
    known = scene.usual.get(scene.phase, ()) if scene.usual else ()
    passed = _in_phase_s(scene) if known else None
    if passed is None:
        return 0.0
    fits = [usual for usual in known if usual.launches >= LEAST_LAUNCHES and passed <= usual.high_s]
    return max((usual.quiet_s for usual in fits), default=0.0)


def _in_phase_s(scene: Scene) -> float | None:
    """How long the present phase has lasted; ``None`` where its beginning is not known."""
    since = scene.run.phase_since if scene.phase == scene.run.phase else None
    if since is None and scene.phase == "import":
        since = scene.started_t
    return None if since is None else scene.now - since
