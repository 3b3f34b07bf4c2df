"""When something moved last, to the sample: a rate over a window says that it moved, not when."""

from __future__ import annotations

from collections.abc import Iterable

from tui.diagnose.observe import Scene
from tui.diagnose.views import (
    ASLEEP_PCT,
    BUILDING_PCT,
    CACHE_BPS,
    CHILDREN_PCT,
    READING_BPS,
    RECEIVING_BPS,
    TRICKLE_BPS,
    ProcView,
)
from tui.track import Track

_BLOCKED = float(ord("D"))


def last_movement(scene: Scene, views: Iterable[ProcView], *, gpus: bool) -> float | None:
    """The last sample in the look window at which one of ``views`` was busy, moved bytes or grew, or, with ``gpus``,
    at which a GPU worked."""
    since = scene.now - scene.gauge_s - scene.interval_s
    times = [t for view in views if (t := _of_process(scene, view, since)) is not None]
    if gpus:
        times += [t for host in scene.hosts for track in host.gpus.values() if (t := _of_gpu(track, since)) is not None]
    return max(times, default=None)


def _of_process(scene: Scene, view: ProcView, since: float) -> float | None:
    found = scene.track_of(view.member)
    if found is None:
        return None
    track, now = found[1].track, scene.now
    trickle = TRICKLE_BPS if view.trickles else READING_BPS
    least = (
        ("cpu_s", ASLEEP_PCT / 100.0),
        ("children_cpu_s", CHILDREN_PCT / 100.0),
        ("compilers_cpu_s", BUILDING_PCT / 100.0),
        ("read_bytes", trickle),
        ("write_bytes", trickle),
        ("net_rx_bytes", RECEIVING_BPS),
        ("cache_dir_bytes", CACHE_BPS),
        ("read_chars", READING_BPS),
    )
    times = [track.last_growth(field, since, now, rate) for field, rate in least]
    if view.grows:
        times.append(track.last_growth("rss_mib", since, now, 0.4))
    if view.in_storage:
        times.append(max((t for t, code in zip(*track.window("state", since, now), strict=True) if code == _BLOCKED)))
    return max((t for t in times if t is not None), default=None)


def _of_gpu(track: Track, since: float) -> float | None:
    until = track.last_t
    if until is None:
        return None
    times, loads = track.window("mem_util_pct", since, until)
    links = track.window("nvlink_mib_s", since, until)[1]
    utils = track.window("util_pct", since, until)[1]
    for t, load, link, util in zip(reversed(times), reversed(loads), reversed(links), reversed(utils), strict=True):
        unsure = load != load and util >= 10.0
        if load >= 3.0 or link >= 20.0 or unsure:  # never true of a NaN
            return t
    return None
