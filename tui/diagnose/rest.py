"""Where the ranks of a ready server rest between requests, as it was seen, and whether they are elsewhere now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tui.diagnose.observe import Scene
from tui.diagnose.views import ProcView

_LEARNT_S = 45.0
"""A rest must have been seen for so long to be known: some servers poll for a while before they sleep."""

_CORE, _ASLEEP = "at a core", "asleep"

_WAIT_TOLD_S = 150.0
"""A server that waits for its workers says so each minute; while starting that is as healthy as not."""


def note_rest(scene: Scene, rest: dict[str, Any]) -> None:
    """Learn where each rank is while nothing has been asked since the ready line; ``rest`` is carried along."""
    if _asked_t(scene) is not None or not scene.observed or not _no_gpu_busy(scene):
        return
    rest.setdefault("since", scene.now)
    rest["until"] = scene.now
    places: dict[str, list[str]] = rest.setdefault("places", {})
    for view in scene.ranks:
        known = places.setdefault(str(view.member.rank), [])
        if (place := _place(view)) not in known and len(known) < 8:
            known.append(place)


def open_request(scene: Scene) -> str | None:
    """What says that a request was begun and has not ended, in words; ``None`` where nothing does."""
    return _engine_waits(scene) or _running(scene) or _not_at_rest(scene, scene.rest)


def _asked_t(scene: Scene) -> float | None:
    asked, ready = scene.run.request_t, scene.run.ready_t
    return asked if asked is not None and ready is not None and asked > ready + 1.0 else None


def _no_gpu_busy(scene: Scene) -> bool:
    return not scene.gpu_kinds.get("works") and not scene.gpu_kinds.get("spins")


def _place(view: ProcView) -> str:
    if view.one_core or view.many_cores:
        return _CORE
    return "?" if not view.asleep else view.wchan if view.wchan not in ("", "0") else _ASLEEP


def _engine_waits(scene: Scene) -> str | None:
    ready = scene.run.ready_t
    since = max(scene.now - _WAIT_TOLD_S, ready if ready is not None else float("-inf"))
    told = any(run.worker_wait_t is not None and run.worker_wait_t > since for run in scene.runs)
    return "the engine says that it waits for its workers" if told else None


def _running(scene: Scene) -> str | None:
    """The last statistics count a request that gets no token."""
    load = next((run.load for run in scene.runs if run.load is not None), None)
    if load is None or not load.running or load.tokens_s:
        return None
    return f"its statistics count {load.running:.0f} running and no token a second"


def _not_at_rest(scene: Scene, rest: Mapping[str, Any]) -> str | None:
    """After a request was begun, every rank is where none was at rest."""
    asked = _asked_t(scene)
    if asked is None or rest.get("until", 0.0) - rest.get("since", 0.0) < _LEARNT_S or not scene.ranks:
        return None
    places: Mapping[str, list[str]] = rest["places"]
    now = {view.member.rank: _place(view) for view in scene.ranks}
    for rank, place in now.items():
        known = places.get(str(rank), ["?"])
        if place == "?" or place in known or "?" in known or (_ASLEEP in (place, *known) and known != [_CORE]):
            return None
    usual = {place for known in places.values() for place in known}
    return (
        f"a request was begun {scene.now - asked:.0f} s ago, and its ranks are {_said(now.values())}, "
        f"not {_said(usual)} as at rest"
    )


def _said(places: Iterable[str]) -> str:
    return ", ".join(place if place in (_CORE, _ASLEEP) else f"in {place}" for place in sorted(set(places)))
