"""Which rank wrote a line: said by the line, by its framework's prefix or its carrier, or by its process id earlier."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import NamedTuple

from tui.diagnose.carriers import Head

_IN_TEXT = re.compile(r"\[[Rr]ank ?(\d+)\]|\[Gloo\] Rank (\d+)|\[RANK (\d+)\]|\bRank (\d+)[:\]]")
_PREFIXES_AT_MOST = 3
_PIDS = 4096


class Said(NamedTuple):
    """A line without its framework's prefixes, and what they said."""

    rest: str
    rank: int | None = None
    pid: str = ""
    source: str = ""


def first_rank(environments: Iterable[Mapping[str, str]], before: int | None) -> int | None:
    """The rank in the whole job of a host's local rank 0, by what torchrun set for its processes: it numbers the ranks
    of a node in a row (``_assign_worker_ranks`` in torch 2.9 ``elastic/agent/server/api.py``). ``before`` where no
    process tells, as when all have ended; ``None`` where processes of several nodes run on the host."""
    pairs = ((_number(env.get("RANK")), _number(env.get("LOCAL_RANK"))) for env in environments)
    firsts = {rank - local for rank, local in pairs if rank is not None and local is not None}
    return before if not firsts else firsts.pop() if len(firsts) == 1 else None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


class RankNames:
    """What one log's prefixes have taught about who is which rank."""

    def __init__(self) -> None:
        self.first: int | None = 0
        """The rank in the whole job of the host's local rank 0; ``None`` where several may be."""
        self._of_pid: dict[str, int] = {}
        self._tp_size = 0
        self.world = 0
        """The most ranks that a line counted within."""

    def split(self, text: str, prefixes: tuple[tuple[str, str], ...]) -> Said:
        """Take the frameworks' prefixes off ``text``."""
        rest, rank, pid, source = text, None, "", ""
        for _ in range(_PREFIXES_AT_MOST):
            found = next((m for _, pattern in prefixes if (m := _compiled(pattern).match(rest)) and m.end()), None)
            if found is None:
                break
            said = found.groupdict()
            rank = rank if rank is not None else self._rank_of(said)
            pid = said.get("pid") or pid
            source = f"{source}/{said.get('pid') or ''}{'' if rank is None else f'r{rank}'}"
            rest = rest[found.end() :]
        return Said(rest, rank, pid, source)

    def rank(self, head: Head, said: Said, text: str, groups: dict[str, str | None] | None = None) -> int | None:
        """The writer's rank in the whole job, ``None`` where nothing tells it. ``groups`` are a marker's own."""
        own = self._of_marker(groups or {})
        pid = f"{head.source}/{said.pid}" if said.pid else ""
        for rank in (own, said.rank, head.rank):
            if rank is not None:
                if pid and len(self._of_pid) < _PIDS:
                    self._of_pid[pid] = rank
                return rank
        if pid and pid in self._of_pid:
            return self._of_pid[pid]
        if (found := _IN_TEXT.search(text)) is not None:
            return _number(next(group for group in found.groups() if group))
        return None if head.local is None or self.first is None else self.first + head.local

    def _of_marker(self, groups: dict[str, str | None]) -> int | None:
        """A rank counted within ``total`` ranks: of a part of the job (a tensor-parallel group) it says nothing."""
        rank, total = _number(groups.get("rank")), _number(groups.get("total"))
        if rank is None or total is None:
            return rank
        self.world = max(self.world, total)
        return rank if total == self.world else None

    def _rank_of(self, said: dict[str, str | None]) -> int | None:
        rank, tp, pp = (_number(said.get(name)) for name in ("rank", "tp", "pp"))
        if rank is not None or tp is None:
            return rank if rank is not None else pp
        self._tp_size = max(self._tp_size, tp + 1)
        return (pp or 0) * self._tp_size + tp


def _number(text: str | None) -> int | None:
    """A rank or a count of ranks; what is no such number, or too long for one, is none."""
    return int(text) if text and len(text) <= 7 and text.isdecimal() else None
