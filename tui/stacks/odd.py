"""Which process stands elsewhere, by evidence and never by rarity alone.

A collective ends when its last member comes. So whoever is not waiting for the others, while others are, is the one
they wait for, be it one of eight or seven of eight. Where all wait, the lower position (number of collectives called)
is late. A majority proves nothing by itself: with two ranks, with two equal halves or with pipeline stages there is
none, and a rank alone in a barrier may be the only one that is right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tui.model import Odd, ThreadStack
from tui.stacks.frames import ranges
from tui.stacks.waits import Wait, place

WAITING = frozenset({"collective", "p2p", "peers", "device"})
"""Kinds of waits that another rank, or the GPU on its behalf, must end."""

IDLE = frozenset({"work", "supervise"})

DECISIVE = frozenset({"storage", "gpu_driver", "file_lock", "pipe_full", "stopped"})
"""What the kernel's word alone proves, without any frame: a futex or a socket may be anybody's wait."""

_PLAIN = frozenset({"queue", "child", "condition", "thread_join", "future", "sleep", "socket", "events", "pipe"})
"""Where a process that is no rank may well stand all its life."""


@dataclass(frozen=True, slots=True, eq=False)
class Stand:
    """Where the main thread of one process stands; ``path`` is equal for processes at the same place."""

    host: str
    pid: int | None
    rank: int | None
    role: str
    thread: ThreadStack
    wait: Wait | None
    path: tuple[object, ...]

    @property
    def kind(self) -> str:
        return self.wait.kind if self.wait else "elsewhere"

    @property
    def does(self) -> str:
        if self.wait:
            return self.wait.says
        return f"{'runs' if self.thread.state == 'R' else 'stands'} in {place(self.thread)}"


@dataclass(frozen=True, slots=True)
class Judgement:
    """``why`` is one true sentence, also where nobody can be named; ``against`` its part on the others."""

    odd: tuple[Stand, ...]
    why: str
    against: str = ""


def judge(stands: Sequence[Stand], positions: Mapping[int, int] | None = None) -> Judgement:
    """Name who stands elsewhere. ``positions`` are the collectives that each rank has called, where a flight recorder
    or NCCL RAS tells them."""
    ranks = [s for s in stands if s.rank is not None] or [s for s in stands if s.kind != "supervise"]
    others = [s for s in stands if s not in ranks]
    if not ranks:
        return Judgement((), "No process gave a stack." if not stands else "Only supervising processes gave a stack.")
    waiting = [s for s in ranks if s.kind in WAITING] or [s for s in ranks if s.kind == "socket"]
    idle = [s for s in ranks if s.kind in IDLE]
    elsewhere = [s for s in ranks if s not in waiting and s not in idle]
    if elsewhere and (waiting or idle):
        return _elsewhere(elsewhere, waiting, idle)
    if elsewhere:
        return _nobody_waits(elsewhere)
    if behind := _behind(waiting, positions or {}):
        return behind
    if culprit := [s for s in others if _is_culprit(s, all_idle=not waiting)]:
        against = _rest(ranks, everyone=True)
        return Judgement(tuple(culprit), f"{_clause(culprit)}; {against}.", against)
    if waiting and idle:
        return _waiting_and_idle(waiting, idle)
    return (
        _all_wait(waiting) if waiting else Judgement((), f"{_rest(idle, everyone=True).capitalize()}: nothing is due.")
    )


def odd_of(stand: Stand, judgement: Judgement) -> Odd:
    """The stand as the model's record of an odd process, with a sentence of its own."""
    why = f"{_clause([stand])}; {judgement.against}." if judgement.against else judgement.why
    return Odd(stand.host, stand.pid, stand.rank, stand.role, why)


def _named(odd: list[Stand], rest: list[Stand]) -> Judgement:
    against = _rest(rest)
    return Judgement(tuple(odd), f"{_clause(odd)}; {against}.", against)


def _elsewhere(elsewhere: list[Stand], waiting: list[Stand], idle: list[Stand]) -> Judgement:
    unexplained = all(s.wait is None for s in elsewhere) and len({s.path for s in elsewhere}) == 1
    if len(waiting) == 1 and not idle and len(elsewhere) > 1 and unexplained:
        return Judgement(
            (),
            f"{_clause(waiting)} and is alone there; {_rest(elsewhere)}: either they never come, or it went in alone. "
            "Nobody can be named from the stacks.",
        )
    return _named(elsewhere, [*waiting, *idle])


def _nobody_waits(elsewhere: list[Stand]) -> Judgement:
    if len({s.path for s in elsewhere}) == 1 and len(elsewhere) > 1:
        return Judgement((), f"{_rest(elsewhere, everyone=True).capitalize()}: the stacks show no odd one.")
    return Judgement((), f"{_clause(elsewhere)}. None of them waits for another, so that none can be named.")


def _behind(waiting: list[Stand], positions: Mapping[int, int]) -> Judgement | None:
    """The ranks that have called fewer collectives than the others, or one in another collective than all others."""
    counted = {s: positions[s.rank] for s in waiting if s.rank is not None and s.rank in positions}
    if len(counted) == len(waiting) and len(set(counted.values())) > 1:
        last, first = min(counted.values()), max(counted.values())
        late = [s for s in waiting if counted[s] == last]
        have = "has" if len(late) == 1 else "have"
        against = _rest([s for s in waiting if s not in late])
        return Judgement(
            tuple(late), f"{_subject(late)} {have} called {last} collectives, the furthest {first}; {against}."
        )
    if any(s.kind not in ("collective", "peers") for s in waiting):
        return None
    places = Counter(s.path for s in waiting).most_common()
    if len(places) != 2 or places[1][1] != 1 or places[0][1] < 3:
        return None
    lone = [s for s in waiting if s.path == places[1][0]]
    return Judgement(
        tuple(lone),
        f"{_clause(lone)}, called from another place than where {_rest([s for s in waiting if s not in lone])}: "
        "it left out a call or made one too many.",
    )


def _waiting_and_idle(waiting: list[Stand], idle: list[Stand]) -> Judgement:
    """Some wait for the rest, and the rest for orders: those who entered first are wrong if they are few."""
    odd, rest = (waiting, idle) if len(waiting) < len(idle) else (idle, waiting)
    return _named(odd, rest)


def _all_wait(waiting: list[Stand]) -> Judgement:
    if len({(s.wait.name if s.wait else "") for s in waiting}) == 1:
        return Judgement(
            (),
            f"{_rest(waiting, everyone=True).capitalize()}: no stack is to blame; look at the GPUs, the network, and "
            "for a rank that is missing.",
        )
    return Judgement((), f"All wait for each other ({_spread(waiting)}): nobody can be named from the stacks.")


def _is_culprit(stand: Stand, all_idle: bool) -> bool:
    """Whether a process that is no rank holds up ranks that all wait; an unexplained stack counts only where they all
    wait for orders, and then only of the one that gives them."""
    if stand.kind in IDLE or stand.kind in WAITING:
        return False
    leads = stand.role in ("driver", "engine_core", "scheduler", "controller")
    if stand.wait is None or stand.wait.id in _PLAIN:
        return leads and all_idle and (stand.wait is None or stand.wait.id != "child")
    return leads or stand.wait.id not in ("lock", "import", "jit_build", "compile", "weights_read")


# ---------------------------------------------------------------------------------------------------------- sentences


def _subject(stands: Sequence[Stand]) -> str:
    ranks = [s.rank for s in stands if s.rank is not None]
    if len(ranks) == len(stands):
        return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranges(ranks)}"
    names = [f"{'process' if s.role == 'rank' else s.role.replace('_', ' ')} {s.pid} on {s.host}" for s in stands[:4]]
    return ", ".join(names) + (f" and {len(stands) - 4} more" if len(stands) > 4 else "")


def _clause(stands: Sequence[Stand]) -> str:
    """Who does what, for up to three places."""
    does: dict[str, list[Stand]] = {}
    for stand in stands:
        does.setdefault(stand.does, []).append(stand)
    parts = [
        f"{_subject(group)} {what if len(group) == 1 else _plural(what)}" for what, group in list(does.items())[:3]
    ]
    more = len(does) - len(parts)
    return "; ".join(parts) + (f"; and {more} other places" if more else "")


def _rest(stands: Sequence[Stand], everyone: bool = False) -> str:
    """``the other 7 wait in all_reduce``."""
    n = len(stands)
    who = ("the only process" if n == 1 else f"all {n}") if everyone else ("the other" if n == 1 else f"the other {n}")
    does = {s.does for s in stands}
    if len(does) == 1:
        return f"{who} {does.pop() if n == 1 else _plural(does.pop())}"
    return f"{who} wait ({_spread(stands)})"


def _spread(stands: Sequence[Stand]) -> str:
    counts = Counter(s.wait.name if s.wait else place(s.thread) for s in stands).most_common()
    shown = ", ".join(f"{n} in {name}" for name, n in counts[:4])
    return shown + (f", and {len(counts) - 4} other places" if len(counts) > 4 else "")


def _plural(says: str) -> str:
    verb, _, rest = says.partition(" ")
    return f"{({'is': 'are', 'watches': 'watch'}).get(verb, verb.removesuffix('s'))} {rest}"
