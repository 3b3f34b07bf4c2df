"""Which GPUs of a host are the launch's, and what they do."""

from __future__ import annotations

from collections.abc import Iterable

from tui.diagnose.views import CONTEXT_MIB, GPU_MOVES_MIB, GpuReadings, GpuView
from tui.history import HostHistory, gpu_key
from tui.model import Gpu, Launch
from tui.track import COVERED


def cards_of(host: HostHistory, launch: Launch, now: float, look_s: float) -> Iterable[GpuView]:
    """The GPUs of ``host`` that the launch uses, over the last ``look_s`` seconds."""
    if not host.last_gpus and host.latest is not None and host.latest.gpus is None and _has_driver(host):
        return [GpuView(host.name, 0, "unknown", None, None, None, None, None, False)]
    return [_view(host, gpu, now, look_s) for gpu in _ours(host, launch)]


def _has_driver(host: HostHistory) -> bool:
    """Whether a missing reading hides a GPU: where there is no driver, the agent says so, and none is in use."""
    error = (host.latest.gpu_error if host.latest is not None else None) or ""
    return bool(error) and not error.startswith("no NVIDIA driver")


def _ours(host: HostHistory, launch: Launch) -> list[Gpu]:
    """Those whose processes are the launch's; where the driver does not say, those whose memory is or became used.

    A GPU whose memory was taken before the launch's processes came, and did not change while that of others did, is
    somebody else's, however busy it is.
    """
    if host.last_gpus and all(gpu.processes == () for gpu in host.last_gpus):
        return []  # nobody holds a context; what is used is the driver's own reserve
    pids = {member.pid for member in launch.members if member.host == host.name}
    holders = [gpu for gpu in host.last_gpus if any(p.pid in pids for p in gpu.processes or ())]
    if holders:
        return holders
    held = [gpu for gpu in host.last_gpus if gpu.mem_used_mib is None or gpu.mem_used_mib >= CONTEXT_MIB]
    filled = [gpu for gpu in held if host.cards[gpu_key(gpu)].grown_mib >= CONTEXT_MIB]
    taken = [gpu for gpu in held if gpu not in filled and _was_taken(host, gpu)]
    return [gpu for gpu in held if gpu not in taken] if filled else held


def _was_taken(host: HostHistory, gpu: Gpu) -> bool:
    return (host.cards[gpu_key(gpu)].first_mib or 0.0) >= CONTEXT_MIB


def _view(host: HostHistory, gpu: Gpu, now: float, look_s: float) -> GpuView:
    track, gap = host.gpus[gpu_key(gpu)], host.gap_s
    since = min(max(now - look_s, track.first_t or now), now - 0.9 * host.interval_s)

    def average(name: str) -> float | None:
        return track.mean(name, since, now, gap).value

    busy_w = host.cards[gpu_key(gpu)].busy_w
    readings = GpuReadings(
        util=average("util_pct"),
        mem_util=average("mem_util_pct"),
        links=average("nvlink_mib_s"),
        pcie=average("pcie_rx_mib_s"),
        power=average("power_w"),
        utils=track.recent("util_pct", since, now, gap),
        powers=track.values("power_w", now - 3.0 * look_s, now),
        busy_w=busy_w,
    )
    stopped = now - (track.last_t or now) > 30.0 + gap  # NVML answers no more, and did before
    memory = track.values("mem_used_mib", since, now)
    moved = bool(memory) and max(memory) - min(memory) >= GPU_MOVES_MIB
    return GpuView(
        host.name, gpu.index, readings.kind, readings.util, readings.mem_util, readings.power, readings.links,
        gpu.mem_used_mib, moved, busy_w, covered=stopped or track.coverage(since, now, gap) >= COVERED,
    )  # fmt: skip
