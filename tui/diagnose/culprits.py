"""Who stands elsewhere than its peers, and whom a wait is for.

Rarity alone is no evidence: it takes a state, an absence, a place in the kernel, or a line that almost all others have
printed.
"""

from __future__ import annotations

from tui.diagnose.facts.sockets import Meeting, meeting
from tui.diagnose.hypotheses import seen
from tui.diagnose.hypotheses.workers import outside_barrier
from tui.diagnose.judgement import Culprit
from tui.diagnose.observe import Scene


def culprits(scene: Scene) -> list[Culprit]:
    """Those that a stall is to be blamed on, where that can be known."""
    if scene.stopped:
        return [(view, view.member.rank, f"stopped, state {view.state}") for view in scene.stopped]
    if scene.missing:
        return [(None, rank, "has no process on the watched hosts") for rank in scene.missing]
    absent = _not_at_the_meeting(scene)
    if absent is not None:
        why = f"not connected to {absent.address}, where the others are"
        return [(view, view.member.rank, why) for view in absent.absent]
    return _in_a_pipe(scene) or _in_the_kernel(scene) or _beside_the_collective(scene) or _behind(scene)


def _in_a_pipe(scene: Scene) -> list[Culprit]:
    writing = [view for view in scene.living if "pipe_write" in view.wchan]
    return [(view, view.member.rank, "waits to write into a pipe that nobody reads") for view in writing]


def _not_at_the_meeting(scene: Scene) -> Meeting | None:
    """Where ranks meet, and the few of them that have not come there; once they have met it says nothing."""
    found = meeting(scene) if scene.phase in ("import", "spawn", "dist_init", "unknown") else None
    return found if found is not None and 0 < 2 * len(found.absent) <= len(scene.ranks) else None


def _in_the_kernel(scene: Scene) -> list[Culprit]:
    """Ranks that storage holds are the culprits however many they are: no wait for other ranks is one in the kernel.
    In the driver all may wait for one."""
    stuck = [view for view in scene.ranks if view.stuck_in_kernel]
    most = len(scene.ranks) if not any(view.in_driver for view in stuck) else (len(scene.ranks) + 1) // 2
    if not 0 < len(stuck) < most:
        return []
    return [(view, view.member.rank, f"blocked in the kernel in {view.wchan or 'a place not known'}") for view in stuck]


def _beside_the_collective(scene: Scene) -> list[Culprit]:
    """The few that sleep while the many spin: they are not in the collective. With two ranks, or half against half,
    either side may be waiting for the other."""
    if outside := outside_barrier(scene):
        return [(view, view.member.rank, "asleep, where who waits for the others would spin") for view in outside]
    asleep = [view for view in scene.ranks if view.asleep]
    spins = scene.gpu_kinds.get("spins", 0)
    if not spins or not asleep or 2 * len(asleep) >= len(scene.ranks):
        return []
    if not all(view.busy for view in scene.ranks if not view.asleep):
        return []
    return [(view, view.member.rank, "asleep while the others spin in a collective") for view in asleep]


def _behind(scene: Scene) -> list[Culprit]:
    roll = scene.run.behind()
    if roll is None or 3 * len(roll[1]) > len(scene.run.ranks):
        return []
    by_rank = {view.member.rank: view for view in scene.ranks}
    what = f'has not printed "{scene.words_of(roll[0].marker)}", the others have'
    return [(by_rank[rank], rank, what) for rank in sorted(roll[1]) if rank in by_rank]


def awaited(scene: Scene) -> str | None:
    """Whom a wait is for, in words: who has not come, or has not printed what the others have."""
    if scene.missing:
        return f"waiting for {seen.ranks(scene.missing)}: no process on the watched hosts"
    if scene.phase in ("dist_init", "spawn") and scene.peers_elsewhere and not scene.spinning:
        many = "s" if scene.peers_elsewhere > 1 else ""
        return f"waiting for {scene.peers_elsewhere} rank{many} on hosts that are not watched"
    if scene.only_launchers and scene.launch.world_size:
        return f"no rank was started yet: waiting for the nodes of a job of {scene.launch.world_size} ranks"
    if (found := _not_at_the_meeting(scene)) is not None:
        return f"waiting for {seen.who(found.absent)}: not connected to {found.address}, where the others are"
    roll = scene.run.behind()
    if roll is not None:
        return f'waiting for {seen.ranks(sorted(roll[1]))}: no "{scene.words_of(roll[0].marker)}" yet'
    return None
