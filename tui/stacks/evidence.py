"""What a finished look at all stacks says for and against the causes that the diagnosis weighs.

The cause of each place is data (``waits.toml``). A cause is named for those that stand elsewhere, or, where all wait
for each other, for what they wait in. Pure; the diagnosis reads :meth:`Testimony.as_fact`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tui.model import CauseId, Odd, ProcessStacks
from tui.stacks.called import Called
from tui.stacks.merge import main_thread, odd_in, weigh
from tui.stacks.odd import WAITING, Judgement, Stand
from tui.stacks.waits import causes_of, healthy_of

VISIBLE: Mapping[CauseId, frozenset[str]] = {
    "torch_compile": frozenset({"compile", "jit_build"}),
    "kernel_build": frozenset({"jit_build", "compile", "child"}),
    "slow_import": frozenset({"import", "import_lock"}),
}
"""Healthy work that shows in some thread's Python frames: where every process was read and none shows it, it is not
what takes the time."""

_BY_CALLS: Mapping[str, tuple[CauseId, ...]] = {
    "other_call": ("collective_mismatch",),
    "other_size": ("collective_mismatch",),
    "circle": ("collective_mismatch",),
    "uncalled": ("rank_wait",),
    "not_begun": ("collective_spin",),
    "gone": ("dead_rank",),
    "unfinished": ("collective_spin", "comm_init"),
}


@dataclass(frozen=True, slots=True)
class Testimony:
    """``causes``: of a hang, the likeliest first. ``healthy``: work that some stack shows. ``refutes``: healthy causes
    that no stack shows though all were read. ``moving``: all that are named moved between two looks, or collectives go
    on being called: it is slow, not hung. ``firm``: they stood there at two looks, or their counts did."""

    causes: tuple[CauseId, ...]
    healthy: tuple[CauseId, ...]
    odd: tuple[Odd, ...]
    text: str
    refutes: tuple[CauseId, ...] = ()
    moving: bool = False
    firm: bool = False

    def as_fact(self, launch: str) -> dict[str, Any]:
        """Plain JSON, as the value of a fact named ``stacks``."""
        return {
            "launch": launch,
            "causes": list(self.causes),
            "healthy": list(self.healthy),
            "odd": [asdict(odd) for odd in self.odd],
            "text": self.text,
            "refutes": list(self.refutes),
            "moving": self.moving,
            "firm": self.firm,
        }


def speaks_for(
    processes: Sequence[ProcessStacks], called: Sequence[Called] = (), before: Sequence[ProcessStacks] = ()
) -> Testimony:
    """Weigh the stacks of all processes of a launch; the arguments are those of :func:`tui.stacks.merge.merge`."""
    stands, judgement = weigh(processes, called, before)
    named = judgement.odd
    counts_move = any(c.moves for c in called)
    firm = any(c.blamed and c.blamed == judgement.ranks for c in called) or (
        bool(named) and all(s.moved is False for s in named)
    )
    return Testimony(
        causes=tuple(dict.fromkeys(_causes(stands, judgement, called))),
        healthy=tuple(dict.fromkeys(h for s in named or stands if s.wait for h in healthy_of(s.wait.id))),
        odd=odd_in(judgement, processes),
        text=judgement.why[:1].upper() + judgement.why[1:],
        refutes=_refuted(processes, stands),
        moving=counts_move or (bool(named) and all(s.moved for s in named)),
        firm=firm and not counts_move,
    )


def _causes(stands: Sequence[Stand], judgement: Judgement, called: Sequence[Called]) -> list[CauseId]:
    """What the named ones stand in comes first, then what was called, then that the others wait for them."""
    found: list[CauseId] = []
    for stand in sorted(
        judgement.odd, key=lambda s: s.rank is not None
    ):  # a stuck child says more than who waits for it
        if stand.wait is not None and stand.kind not in WAITING:
            found += causes_of(stand.wait.id)
    for one in called:
        if one.best is not None and not one.moves and (one.best.ranks or not judgement.odd):
            alive = one.best.kind == "gone" and {s.rank for s in stands} >= set(one.best.ranks)
            found += ["rank_wait"] if alive else _BY_CALLS[one.best.kind]
    waiting = [s for s in stands if s.kind in WAITING]
    if judgement.odd or judgement.ranks:
        lone = all(s.kind in WAITING for s in judgement.odd) and bool(judgement.odd)
        calls = {s.wait.name for s in waiting if s.wait}
        found += ["collective_mismatch"] if lone and len(calls) > 1 else []
        found += ["rank_wait"] if waiting else []
    elif waiting:
        found += [cause for s in waiting if s.wait for cause in causes_of(s.wait.id)]
    return found


def _refuted(processes: Sequence[ProcessStacks], stands: Sequence[Stand]) -> tuple[CauseId, ...]:
    """Healthy work that would show in a stack and shows in none, where every rank's was read."""
    ranks = [p for p in processes if p.rank is not None]
    if not ranks or any((main := main_thread(p)) is None or not main.frames for p in ranks):
        return ()
    shown = {s.wait.id for s in stands if s.wait}
    plain = {s.wait is None for s in stands}
    return tuple(cause for cause, ids in VISIBLE.items() if not shown & ids and True not in plain)
