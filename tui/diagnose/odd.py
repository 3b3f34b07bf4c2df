"""Who stands elsewhere than its peers, for the verdict."""

from __future__ import annotations

from tui.diagnose.judgement import Judgement
from tui.diagnose.observe import Scene
from tui.model import Odd


def odd(scene: Scene, judgement: Judgement) -> tuple[Odd, ...]:
    """The culprits of a grave judgement, the lowest rank first."""
    if judgement.id not in ("suspect", "hung", "crashed", "waiting"):
        return ()
    found: list[Odd] = []
    for view, rank, why in judgement.culprits:
        if view is None:
            found.append(Odd("", None, rank, "rank", why))
        else:
            found.append(Odd(view.member.host, view.member.pid, rank, view.member.role, why))
    return tuple(sorted(found, key=lambda item: (item.rank is None, item.rank or 0)))
