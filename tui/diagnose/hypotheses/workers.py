"""Who is at work, and who only looks busy: a core that spins in a wait burns as much as one that computes."""

from __future__ import annotations

from tui.diagnose.observe import Scene
from tui.diagnose.phases import BUSY_CORE_ELSE_S, BUSY_CORE_S, COMPUTES_ON_CPU
from tui.diagnose.views import ProcView
from tui.numbers import median

ODD_CORE_S = 600.0
"""How long one rank's busy core is believed to be what the others wait for; a PTX compile in process takes five
minutes (pytorch issue 12283), and torch's collectives give up after ten."""

HELPER_CORE_S = 180.0
"""The same for a process that is no rank: front ends poll, too."""

BLOCKED_S = {"import": 900.0, "spawn": 900.0, "checkpoint_save": 900.0}
BLOCKED_ELSE_S = 180.0
"""How long a process that stays in uninterruptible sleep passes for one that storage serves slowly, while it burns
:data:`SERVED_PCT` of a core or waits for its own writes. Side threads of a blocked process burn less."""

SERVED_PCT = 2.0

_WRITES_BACK = (
    "balance_dirty_pages",
    "wb_wait",
    "nfs_wb",
    "folio_wait_writeback",
    "wait_on_page_writeback",
    "jbd2_log",
)


SPINS_WHEN_WAITING = frozenset({"tensorrt-llm"})
"""Whose ranks wait in MPI: Open MPI polls at a full core, so that who sleeps is not in the barrier with the others."""

OUTSIDE_S = 120.0
"""How long busy cores of such a launch pass for work while few of its ranks sleep and move nothing."""


def belief_s(scene: Scene) -> float:
    """How long a busy core alone passes for work in this phase."""
    if scene.phase not in COMPUTES_ON_CPU:
        return 0.0
    believed = BUSY_CORE_S.get(scene.phase, BUSY_CORE_ELSE_S)
    return min(believed, OUTSIDE_S) if outside_barrier(scene) else believed


def outside_barrier(scene: Scene) -> list[ProcView]:
    """The few ranks that sleep while all others burn a core each, where a rank that waits for others would burn one."""
    if scene.framework not in SPINS_WHEN_WAITING or scene.gpu_kinds.get("works"):
        return []
    asleep = [view for view in scene.ranks if view.asleep]
    spinning = [view for view in scene.ranks if view.one_core]
    return asleep if asleep and len(asleep) < len(spinning) == len(scene.ranks) - len(asleep) else []


def many_cores(scene: Scene) -> list[ProcView]:
    """Processes that burn several cores; where GPUs spin, only those that burn more than their spinning peers."""
    views = [view for view in scene.workers if view.many_cores]
    if not views or not scene.spinning:
        return views
    usual = median([view.cpu or 0.0 for view in scene.workers])
    return [view for view in views if (view.cpu or 0.0) > 1.6 * usual + 50.0]


def busy_cores(scene: Scene) -> list[ProcView]:
    """Processes whose busy core passes for work in this phase, for a while: no GPU spins, and no lock is waited for."""
    if scene.spinning or scene.run.waits_for_baton:
        views: list[ProcView] = []
    else:
        believed = scene.unmoved_s <= belief_s(scene)
        views = [view for view in scene.workers if view.busy and not view.many_cores] if believed else []
    helpers = [view for view in scene.helpers if (view.cpu or 0.0) >= 50.0]
    return views + (helpers if scene.unmoved_s <= HELPER_CORE_S else [])


def disbelieved(scene: Scene) -> bool:
    """Whether cores are busy that passed for work for a while and do so no more: then the wait began before."""
    return not scene.spinning and any(view.busy for view in scene.workers) and scene.unmoved_s > belief_s(scene)


def cpu_workers(scene: Scene) -> list[ProcView]:
    return many_cores(scene) + busy_cores(scene)


def in_storage(scene: Scene) -> list[ProcView]:
    """Processes that come and go in waits for storage; for a while, those that burn a little while blocked, or that the
    kernel makes wait for its own writes."""
    believed = scene.unmoved_s <= BLOCKED_S.get(scene.phase, BLOCKED_ELSE_S)
    return [view for view in scene.living if view.in_storage or (believed and _slowly_served(view))]


def _slowly_served(view: ProcView) -> bool:
    burns = view.state == "D" and min(view.cpu or 0.0, view.cpu_long or 0.0) >= SERVED_PCT and not view.in_driver
    return view.blocked_share >= 0.3 and (burns or view.wchan.startswith(_WRITES_BACK))


def odd_workers(scene: Scene) -> list[ProcView]:
    """Those that keep the others waiting by working: few of the ranks, while the rest waits."""
    blocked = in_storage(scene)
    at_work = [view for view in scene.workers if view.at_work or view in blocked]
    at_work += [view for view in many_cores(scene) if view not in at_work and _stands_out(scene, view)]
    if at_work and len(at_work) < len(scene.workers):
        return at_work
    return [] if at_work else _beside_the_collective(scene)


def _stands_out(scene: Scene, view: ProcView) -> bool:
    return (view.cpu or 0.0) > 1.6 * median([other.cpu or 0.0 for other in scene.workers]) + 25.0


def _beside_the_collective(scene: Scene) -> list[ProcView]:
    """All ranks burn a core, some GPUs spin and the others are idle: somebody computes on the CPU, seen from outside.

    Which one it is shows only where the driver names a GPU's processes; the busy ones are named together.
    """
    idle, spins = scene.gpu_kinds.get("idle", 0), scene.gpu_kinds.get("spins", 0)
    patient = max(ODD_CORE_S, belief_s(scene)) if scene.phase in ("data_index", "unknown") else ODD_CORE_S
    all_busy = all(view.busy for view in scene.workers)
    computes = scene.phase in COMPUTES_ON_CPU and scene.unmoved_s <= patient
    return [view for view in scene.workers if view.busy] if computes and all_busy and 0 < idle <= spins else []


def solid(scene: Scene) -> list[ProcView]:
    """Those who do what no wait looks like."""
    return [view for view in scene.living if view.at_work] + many_cores(scene)
