"""What one process of a launch did, over the windows that suit what is asked: counters, states, memory."""

from __future__ import annotations

from itertools import pairwise

from tui.diagnose.views import GROWING_MIB, LONG_S, TRICKLE_BPS, ProcView
from tui.history import HostHistory, ProcTrack
from tui.model import Member
from tui.numbers import median

_STATES_S = 20.0
"""The window over which the states of a process are counted."""

_BLOCKED = float(ord("D"))


def proc_view(
    member: Member, host: HostHistory, proc: ProcTrack, now: float, look_s: float, gauge_s: float
) -> ProcView:
    """The process at ``now``: counters over ``look_s`` seconds, states over ``gauge_s`` and more."""
    last = proc.last
    state = last.state if last is not None else "?"
    wchan = (last.wchan if last is not None else None) or ""
    if proc.gone_t is not None or last is None:
        return ProcView(member, state, wchan, present=False)
    track = proc.track
    since = max(now - look_s, proc.seen_t)
    states = track.values("state", max(now - max(_STATES_S, 1.5 * gauge_s), proc.seen_t), now)

    def rate(name: str, scale: float = 1.0) -> float | None:
        value = track.rate(name, since, now, host.gap_s).value
        return None if value is None else value * scale

    reads = (rate("read_bytes"), rate("read_chars"))  # a file in the page cache is read, too
    read, write = max((value for value in reads if value is not None), default=None), rate("write_bytes")
    flows = (read or 0.0) + (write or 0.0) >= TRICKLE_BPS
    return ProcView(
        member,
        state,
        wchan,
        present=True,
        cpu=rate("cpu_s", 100.0),
        children=rate("children_cpu_s", 100.0),
        compilers=rate("compilers_cpu_s", 100.0),
        read=read,
        write=write,
        received=rate("net_rx_bytes"),
        cache=rate("cache_dir_bytes"),
        trickles=flows and _trickles(host, proc, now),
        grows=_grows(host, proc, now, look_s),
        wakes=rate("voluntary_switches"),
        blocked_share=states.count(_BLOCKED) / len(states) if states else 0.0,
        blocked_now=_BLOCKED in track.values("state", now - gauge_s, now),
        cpu_long=_cpu_long(host, proc, now) if state == "D" else None,
        coverage=track.coverage(since, now, host.gap_s) if now > since else 0.0,
    )


def _cpu_long(host: HostHistory, proc: ProcTrack, now: float) -> float | None:
    since = max(now - max(LONG_S, 3.2 * host.interval_s), proc.seen_t)
    value = proc.track.rate("cpu_s", since, now, host.gap_s).value if now > since else None
    return None if value is None else 100.0 * value


def _trickles(host: HostHistory, proc: ProcTrack, now: float) -> bool:
    """Whether bytes come steadily, if slowly: in both halves of the long window. A page-in comes in one."""
    half = max(LONG_S / 2.0, 1.6 * host.interval_s)
    if now - proc.seen_t < 2.0 * half:
        return False
    for until in (now, now - half):
        rates = [proc.track.rate(name, until - half, until, host.gap_s).value for name in ("read_bytes", "write_bytes")]
        if sum(value for value in rates if value is not None) < TRICKLE_BPS:
            return False
    return True


def _grows(host: HostHistory, proc: ProcTrack, now: float, look_s: float) -> bool:
    """Whether its memory rose from third to third of the long window, and rises still."""
    third = max(LONG_S / 3.0, 1.6 * host.interval_s)

    def held(since: float, until: float) -> float | None:
        values = proc.track.values("rss_mib", max(since, proc.seen_t), until)
        return median(values) if values else None

    lately = [held(now - k * look_s, now - (k - 1) * look_s) for k in (2, 1)]
    thirds = [held(now - k * third, now - (k - 1) * third) for k in (3, 2, 1)]
    return _rises(lately, GROWING_MIB * 2.0 / 3.0) and _rises(thirds, GROWING_MIB)


def _rises(values: list[float | None], least: float) -> bool:
    known = [value for value in values if value is not None]
    return len(known) == len(values) and all(b - a >= least for a, b in pairwise(known))
