"""What ranks have called of their collectives, whoever counted: PyTorch's flight recorder or NCCL RAS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FindingKind = Literal["other_call", "other_size", "uncalled", "not_begun", "gone", "circle", "unfinished"]
"""``other_call``: another collective at the same number · ``other_size``: the same with other sizes or types ·
``uncalled``: others are in one that these have not called · ``not_begun``: called, but their GPU has not begun it ·
``gone``: NCCL has lost them · ``circle``: members wait for each other in two groups · ``unfinished``: all have called
it and it does not end."""

BLAMES = frozenset({"other_call", "other_size", "uncalled", "not_begun", "gone"})


@dataclass(frozen=True, slots=True)
class Finding:
    """``ranks`` are to blame, global numbers; empty where nobody can be named. ``says`` is the sentence, without its
    full stop; ``group`` the process group or communicator."""

    kind: FindingKind
    group: str
    ranks: tuple[int, ...]
    says: str


@dataclass(frozen=True, slots=True)
class Called:
    """``findings``: the best first. ``known``: the ranks whose counts were read; of all others nothing is known, be
    they alive or not. ``moves`` says that between two readings something was called: that is slow, not hung."""

    source: str
    findings: tuple[Finding, ...] = ()
    known: frozenset[int] = frozenset()
    moves: bool = False

    @property
    def blamed(self) -> tuple[int, ...]:
        """Whom the best finding that names anybody blames; nobody while the counts move on."""
        best = next((f for f in self.findings if f.ranks and f.kind in BLAMES), None)
        return best.ranks if best is not None and not self.moves else ()

    @property
    def best(self) -> Finding | None:
        return next((f for f in self.findings if f.ranks), self.findings[0] if self.findings else None)
