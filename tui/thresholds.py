"""What a person asks for before a launch is called suspect or hung. It is imported before the first picture stands."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The least seconds without any movement until ``suspect`` and until ``hung`` are said.

    They only delay what rests on silence. What speaks for itself (a dead rank, a lock whose owner is dead, an Xid, a
    fatal line) is said at once, and no number makes the rules themselves less careful.
    """

    suspect_s: float = 0.0
    hung_s: float = 0.0


RULES_ALONE = Thresholds()
