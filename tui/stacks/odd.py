"""Which process stands elsewhere, by evidence and never by rarity alone.

A collective ends when its last member comes. So, in this order: whoever is not waiting for the others, while others
are, is the one they wait for, be it one of eight or seven of eight. Where all wait, whoever has called fewer
collectives is late, or whoever called another one at the same number (flight recorder, NCCL RAS). Then whoever holds
the interpreter's lock without running. Where nobody waits, whoever stands still while the others move. A majority
proves nothing by itself: with two ranks, with two equal halves or with pipeline stages there is none, and a rank alone
in a barrier may be the only one that is right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tui.model import Odd, ThreadStack
from tui.stacks.called import Called
from tui.stacks.frames import ranges
from tui.stacks.waits import Wait, place

WAITING = frozenset({"collective", "p2p", "peers", "device"})
"""Kinds of waits that another rank, or the GPU on its behalf, must end."""

IDLE = frozenset({"work", "supervise"})

DECISIVE = frozenset({"storage", "gpu_driver", "file_lock", "pipe_full", "stopped"})
"""What the kernel's word alone proves, without any frame: a futex or a socket may be anybody's wait."""

CHILDREN = frozenset({"data_worker", "child", "helper"})
"""Processes that a rank started."""

_FOR_CHILDREN = frozenset({"data_loader", "queue", "child", "socket", "future", "condition", "thread_join"})
_STUCK = DECISIVE | {"lock", "orphan_lock", "file_baton", "download", "import_lock", "gil"}
"""Where no idle worker of a DataLoader or a pool stands."""

_PLAIN = frozenset({"queue", "child", "condition", "thread_join", "future", "sleep", "socket", "events", "pipe"})
"""Where a process that is no rank may well stand all its life."""


APART_S = 2.0
"""Two looks at least so far apart that show the same stack say that it stands there."""


@dataclass(frozen=True, slots=True, eq=False)
class Stand:
    """Where the main thread of one process stands; ``path`` is equal for processes at the same place.

    ``moved``: whether an earlier look, ``gap_s`` before, found it elsewhere; ``None`` where there was none, or the same
    stack was seen too soon to say anything. ``inside``: the kind of wait that its frames show where the interpreter's
    lock says more.
    """

    host: str
    pid: int | None
    rank: int | None
    role: str
    thread: ThreadStack
    wait: Wait | None
    path: tuple[object, ...]
    moved: bool | None = None
    gap_s: float | None = None
    inside: str = ""

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
    """``why`` is true, also where nobody can be named; ``against`` its part on the others. ``ranks`` are named by what
    they called, with a stack or without. ``moving`` are those whose stacks changed: slow, not hung."""

    odd: tuple[Stand, ...]
    why: str
    against: str = ""
    ranks: tuple[int, ...] = ()
    moving: tuple[Stand, ...] = ()


def judge(stands: Sequence[Stand], called: Sequence[Called] = ()) -> Judgement:
    """Name who stands elsewhere. ``called``: what the ranks called, where a flight recorder or NCCL RAS tells it."""
    judgement = _judge(stands, called)
    judgement = _with_calls(judgement, called)
    return replace(_with_motion(judgement), moving=tuple(s for s in stands if s.moved))


def _judge(stands: Sequence[Stand], called: Sequence[Called]) -> Judgement:
    ranks = [s for s in stands if s.rank is not None] or [s for s in stands if s.kind != "supervise"]
    others = _without(stands, ranks)
    blamed = next((c for c in called if c.blamed), None)
    if not ranks:
        return _by_calls(blamed, []) or _nothing(stands, called)
    waiting = [s for s in ranks if s.kind in WAITING] or [s for s in ranks if s.kind == "socket"]
    idle = [s for s in ranks if s.kind in IDLE]
    elsewhere = _without(ranks, [*waiting, *idle])
    holding = [s for s in elsewhere if s.inside in WAITING]
    outside = _without(elsewhere, holding)
    if outside and (waiting or idle or holding):
        return _with_children(_elsewhere(outside, [*waiting, *holding], idle), others)
    if outside:
        return _by_calls(blamed, ranks) or _nobody_waits(outside)
    if behind := _by_calls(blamed, ranks):
        return behind
    if holding:
        return _named(holding, [*waiting, *idle]) if waiting or idle else _nobody_waits(holding)
    if lone := _lone(waiting):
        return lone
    if culprit := [s for s in others if _is_culprit(s, all_idle=not waiting)]:
        against = _rest(ranks, everyone=True)
        return Judgement(tuple(culprit), f"{_clause(culprit)}; {against}.", against)
    if waiting and idle:
        return _waiting_and_idle(waiting, idle)
    return (
        _all_wait(waiting) if waiting else Judgement((), f"{_rest(idle, everyone=True).capitalize()}: nothing is due.")
    )


def _without(stands: Sequence[Stand], those: Sequence[Stand]) -> list[Stand]:
    gone = set(those)
    return [stand for stand in stands if stand not in gone]


def _nothing(stands: Sequence[Stand], called: Sequence[Called]) -> Judgement:
    if stands:
        return Judgement((), "Only supervising processes gave a stack.")
    if any(c.findings for c in called):
        return Judgement((), "")
    source = next((c.source for c in called), None)
    return Judgement((), f"{source[:1].upper()}{source[1:]} names nobody." if source else "No process gave a stack.")


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


def _with_children(judgement: Judgement, others: Sequence[Stand]) -> Judgement:
    """Whoever waits for its children, and a child on the same host is stuck itself: that one is named as well."""
    named = judgement.odd
    if not named or not all(s.wait is not None and s.wait.id in _FOR_CHILDREN for s in named):
        return judgement
    hosts = {s.host for s in named}
    stuck = [s for s in others if s.role in CHILDREN and s.host in hosts and s.wait and s.wait.id in _STUCK]
    if not stuck:
        return judgement
    why = judgement.why.removesuffix(".")
    return replace(judgement, odd=(*named, *stuck), why=f"{why}; on the same host {_clause(stuck)}.")


def _nobody_waits(elsewhere: list[Stand]) -> Judgement:
    moved, stood = ([s for s in elsewhere if s.moved is moves] for moves in (True, False))
    if moved and stood and len(moved) + len(stood) == len(elsewhere):
        against = f"the {'other moves' if len(moved) == 1 else f'other {len(moved)} move'} on"
        return Judgement(tuple(stood), f"{_clause(stood)}; {against}.", against)
    if len({s.path for s in elsewhere}) == 1 and len(elsewhere) > 1:
        return Judgement((), f"{_rest(elsewhere, everyone=True).capitalize()}: the stacks show no odd one.")
    return Judgement((), f"{_clause(elsewhere)}. None of them waits for another, so that none can be named.")


def _by_calls(called: Called | None, ranks: Sequence[Stand]) -> Judgement | None:
    """Whom the counts of collectives blame, whatever the stacks show."""
    if called is None or called.best is None:
        return None
    odd = tuple(s for s in ranks if s.rank in called.blamed)
    return Judgement(odd, f"{called.best.says} ({called.source}).", ranks=called.blamed)


def _with_calls(judgement: Judgement, called: Sequence[Called]) -> Judgement:
    """The words of those that count collectives, as far as the judgement does not repeat them."""
    why, ranks = judgement.why, {s.rank for s in judgement.odd} | set(judgement.ranks)
    for one in called:
        if one.moves:
            why += f" {one.source[:1].upper()}{one.source[1:]}: collectives go on being called: slow, not hung."
        elif one.best is not None and one.best.says not in why:
            agrees = " agrees" if one.blamed and ranks >= set(one.blamed) else ""
            why += f" {one.source[:1].upper()}{one.source[1:]}{agrees}: {one.best.says}."
    return replace(judgement, why=why.strip())


def _with_motion(judgement: Judgement) -> Judgement:
    """Whether those that are named stand there still, or move."""
    if not judgement.odd or any(s.moved is None for s in judgement.odd):
        return judgement
    moved = [s for s in judgement.odd if s.moved]
    gap = max((s.gap_s for s in judgement.odd if s.gap_s is not None), default=None)
    since = f"within {gap:.0f} s" if gap is not None else "since an earlier look"
    if len(moved) == len(judgement.odd):
        its, it_is = ("its stack", "it is") if len(moved) == 1 else ("their stacks", "they are")
        said = f"{its[:1].upper()}{its[1:]} changed {since}: {it_is} slow, not hung."
    elif moved:
        said = f"Of these {_subject(moved)} moved {since}."
    else:
        it_was = "It was" if len(judgement.odd) == 1 else "They were"
        said = f"{it_was} there {gap:.0f} s before too."
    return replace(judgement, why=f"{judgement.why} {said}")


def _lone(waiting: Sequence[Stand]) -> Judgement | None:
    """One rank in another collective than all others, who agree."""
    if any(s.kind not in ("collective", "peers") for s in waiting):
        return None
    places = Counter(s.path for s in waiting).most_common()
    if len(places) != 2 or places[1][1] != 1 or places[0][1] < 3:
        return None
    lone = [s for s in waiting if s.path == places[1][0]]
    rest = _without(waiting, lone)
    called = f", called in {place(lone[0].thread)}"
    return Judgement(
        tuple(lone), f"{_clause(lone)}{called}; {_rest(rest)}: it left out a call or made one too many.", _rest(rest)
    )


def _waiting_and_idle(waiting: list[Stand], idle: list[Stand]) -> Judgement:
    """Some wait for the rest, and the rest for orders: those who entered first are wrong if they are few."""
    odd, rest = (waiting, idle) if len(waiting) < len(idle) else (idle, waiting)
    return _named(odd, rest)


def _all_wait(waiting: list[Stand]) -> Judgement:
    if len({(s.wait.name if s.wait else "") for s in waiting}) == 1:
        return Judgement(
            (),
            f"{_rest(waiting, everyone=True).capitalize()}: no Python code holds them up; look below it, at the GPUs "
            "and the network, and for a rank that is missing.",
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
    names = [_name(s) for s in stands[:4]]
    return ", ".join(names) + (f" and {len(stands) - 4} more" if len(stands) > 4 else "")


def _name(stand: Stand) -> str:
    """``engine core 4711 on gpu01``; of a file that was sent, which need not tell a pid, ``process of job.log``."""
    role = "process" if stand.role == "rank" else stand.role.replace("_", " ")
    return f"{role} {stand.pid} on {stand.host}" if stand.pid is not None else f"{role} of {stand.host}"


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
