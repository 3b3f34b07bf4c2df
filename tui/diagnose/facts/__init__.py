"""What looks at the hosts found out about one launch, read from its facts: typed, and forgiving to what is missing.

A fact that names the processes it is about (``pids``) counts only for the launch that has one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from tui.diagnose.observe import Scene
from tui.model import Fact
from tui.untyped import mapped, number


def concerning(scene: Scene, name: str, within_s: float) -> list[tuple[str, Fact]]:
    """(host, fact) of that name that is about a process of this launch, oldest first."""
    found: list[tuple[str, Fact]] = []
    for host in scene.hosts:
        members = {member.pid for member in scene.launch.members if member.host == host.name}
        for fact in host.facts.get(name, ()):
            pids = mapped(fact.value).get("pids")
            if fact.t >= scene.now - within_s and (not isinstance(pids, list) or members & {*cast("list[int]", pids)}):
                found.append((host.name, fact))
    return sorted(found, key=lambda item: item[1].t)


def newest_figure(scene: Scene, word: str, within_s: float) -> tuple[float | None, Mapping[str, Any]]:
    """The newest number whose name begins with ``word``, whatever fact carries it, and what that fact says beside."""
    best: tuple[float, float, Mapping[str, Any]] | None = None
    names = dict.fromkeys(name for host in scene.hosts for name in host.facts)
    for name in names:
        for _, fact in concerning(scene, name, within_s):
            table = mapped(fact.value) or {fact.name: fact.value}
            for key, value in table.items():
                known = number(value) if key.startswith(word) else None
                if known is not None and (best is None or fact.t >= best[0]):
                    best = (fact.t, known, table)
    return (None, {}) if best is None else best[1:]


def newest(scene: Scene, name: str, within_s: float) -> dict[str, Fact]:
    """The newest such fact of each host."""
    return dict(concerning(scene, name, within_s))


def figure(fact: Fact, name: str) -> float | None:
    """A fact's number; it may carry more beside it."""
    table = mapped(fact.value)
    return number(table.get(name) if table else fact.value)
