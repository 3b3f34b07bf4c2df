"""What one process of a launch did, over the windows that suit what is asked: counters, states, memory."""

from __future__ import annotations

from itertools import pairwise

from tui.diagnose.views import GROWING_MIB, LONG_S, TRICKLE_BPS, ProcView
from tui.history import HostHistory, ProcTrack
from tui.model import Member
from tui.numbers import median

_STATES_S = 20.0
"""The window over which the states of a process are counted."""

_BLOCKED, _RUNNABLE = float(ord("D")), float(ord("R"))
WOBBLE_ENOUGH = 6
"""So many readings of its memory tell growth from what it goes up and down by itself."""
STATES_ENOUGH = 4
"""So many states must have been read to say that a process is mostly ready to run."""


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
        trickles=flows and _steadily(host, proc, now, ("read_bytes", "write_bytes"), TRICKLE_BPS),
        fetches=_steadily(host, proc, now, ("net_rx_bytes",), TRICKLE_BPS),
        grows=_grows(host, proc, now, look_s),
        wakes=rate("voluntary_switches"),
        blocked_share=states.count(_BLOCKED) / len(states) if states else 0.0,
        ready_share=_ready_share(states),
        blocked_now=_BLOCKED in track.values("state", now - gauge_s, now),
        cpu_long=_cpu_long(host, proc, now) if state == "D" else None,
        coverage=track.coverage(since, now, host.gap_s) if now > since else 0.0,
    )


def _ready_share(states: list[float]) -> float:
    """The share of samples that saw it running or ready to; 0 where that is over, or too few saw it."""
    if len(states) < STATES_ENOUGH or _RUNNABLE not in states[-2:]:
        return 0.0
    return states.count(_RUNNABLE) / len(states)


def _cpu_long(host: HostHistory, proc: ProcTrack, now: float) -> float | None:
    """Percent of a core in the idler half of the long window: a blip comes in one of them."""
    half = max(LONG_S / 2.0, 1.6 * host.interval_s)
    values: list[float] = []
    for until in (now, now - half):
        since = max(until - half, proc.seen_t)
        value = proc.track.rate("cpu_s", since, until, host.gap_s).value if until > since else None
        values += [] if value is None else [value]
    return 100.0 * min(values) if values else None


def _steadily(host: HostHistory, proc: ProcTrack, now: float, fields: tuple[str, ...], least: float) -> bool:
    """Whether ``least`` bytes a second come steadily: in both halves of the long window. A page-in comes in one."""
    half = max(LONG_S / 2.0, 1.6 * host.interval_s)
    if now - proc.seen_t < 2.0 * half:
        return False
    for until in (now, now - half):
        rates = [proc.track.rate(name, until - half, until, host.gap_s).value for name in fields]
        if sum(value for value in rates if value is not None) < least:
            return False
    return True


def _grows(host: HostHistory, proc: ProcTrack, now: float, look_s: float) -> bool:
    """Whether its memory rose from third to third of the long window, by more than it goes up and down anyway, and
    stands now above all that it was shortly before, at a pace not out of keeping with the whole rise: what is left of
    a load that is over is no growth."""
    third = max(LONG_S / 3.0, 2.6 * host.interval_s)

    def held(since: float, until: float) -> list[float]:
        return proc.track.values("rss_mib", max(since, proc.seen_t), until)

    thirds = [held(now - k * third, now - (k - 1) * third) for k in (3, 2, 1)]
    lately, before = held(now - look_s, now), held(now - 3.0 * look_s, now - look_s - 1e-6)
    if not all(thirds) or sum(map(len, thirds)) < WOBBLE_ENOUGH or not lately or not before:
        return False
    wobble = _wobble([value for part in thirds for value in part])
    if not all(median(b) - median(a) >= max(GROWING_MIB, 2.0 * wobble) for a, b in pairwise(thirds)):
        return False
    usual = (median(thirds[2]) - median(thirds[0])) * look_s / (2.0 * third)
    least = max(GROWING_MIB / 3.0, _wobble([*before, *lately]), 0.05 * usual)
    return median(lately) - max(before) >= least


def _wobble(values: list[float]) -> float:
    """How far a memory reading goes up and down by itself, about one standard deviation, by what it gave back: what
    only grows gives nothing back."""
    back = [a - b for a, b in pairwise(values) if a > b]
    return 2.0 * sum(back) / max(1, len(values) - 1)
