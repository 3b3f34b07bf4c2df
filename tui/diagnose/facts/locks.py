"""The lock files that a launch may wait for, as looks found them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from tui.diagnose.facts import concerning
from tui.diagnose.observe import Scene
from tui.diagnose.views import ASLEEP_PCT
from tui.untyped import mapped, number, text

LOCKS_S = 180.0
"""For so long a look at lock files counts; the newest look of a host replaces what an older one found."""


@dataclass(frozen=True, slots=True)
class LockFile:
    """A lock file at the last look. ``kind``: ``flock`` (the kernel's), ``baton`` (a mere file), ``soft`` (a file that
    names its maker), empty where a recording does not say. ``owner_cpu``: per cent of a core that its owner and its
    descendants burned between two looks. ``waiters``: processes that the kernel has waiting for it."""

    host: str
    path: str
    age_s: float | None
    owner_alive: bool | None
    kind: str = ""
    owner: int | None = None
    owner_comm: str = ""
    owner_state: str = ""
    owner_cpu: float | None = None
    waiters: tuple[int, ...] = ()

    @property
    def orphaned(self) -> bool:
        return self.owner_alive is False

    @property
    def held(self) -> bool:
        return self.owner_alive is True

    @property
    def owner_stopped(self) -> bool:
        return self.held and self.owner_state in ("T", "t")

    @property
    def owner_idle(self) -> bool | None:
        """Whether its owner does nothing for it: ``None`` where that was not seen twice."""
        if self.owner_stopped:
            return True
        return None if self.owner_cpu is None else self.owner_cpu < ASLEEP_PCT

    @property
    def text(self) -> str:
        """
        >>> LockFile("a", "/c/lock", 90000.0, False, "baton").text
        '/c/lock, 25 h old: nobody has it open and nothing builds in its folder, its owner is dead'
        """
        old = "" if self.age_s is None else f", {span(self.age_s)} old"
        return f"{self.path}{old}: {self._owner_text}"

    @property
    def _owner_text(self) -> str:
        if self.orphaned:
            seen = {
                "baton": "nobody has it open and nothing builds in its folder, ",
                "soft": f"process {self.owner}, which it names, does not exist, " if self.owner else "",
            }.get(self.kind, "")
            return f"{seen}its owner is dead"
        if not self.held:
            return "its owner is not known"
        if self.owner is None:
            return "its owner lives"
        doing = "stopped" if self.owner_stopped else "" if self.owner_cpu is None else f"{self.owner_cpu:.0f} % CPU"
        named = ", ".join(part for part in (self.owner_comm, doing) if part)
        return f"held by process {self.owner}{f' ({named})' if named else ''}"


def span(seconds: float) -> str:
    """
    >>> span(45), span(600), span(90000), span(260000)
    ('45 s', '10 min', '25 h', '3 d')
    """
    for unit, size, most in (("s", 1, 120), ("min", 60, 120), ("h", 3600, 48)):
        if seconds < most * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"


def lock_files(scene: Scene) -> list[LockFile] | None:
    """The locks that the newest looks showed, the most telling last; ``None`` where nobody has looked."""
    found: list[LockFile] = []
    facts = concerning(scene, "lock_file", LOCKS_S)
    looked = {host: fact.t for host, fact in concerning(scene, "locks", LOCKS_S) if "error" not in mapped(fact.value)}
    for host, fact in facts:
        newest = max([t for other, t in [*looked.items(), *((h, f.t) for h, f in facts)] if other == host])
        row = mapped(fact.value)
        if row and fact.t >= newest - 1.0:
            found.append(_lock(host, row))
    if not found and not looked:
        return None
    return sorted(
        dict.fromkeys(found), key=lambda lock: (lock.orphaned, bool(lock.waiters), lock.held, -(lock.age_s or 0.0))
    )


def _lock(host: str, row: Mapping[str, Any]) -> LockFile:
    alive, owner = row.get("lock_owner_pid_alive"), row.get("lock_owner_pid")
    waiters: object = row.get("lock_waiters")
    return LockFile(
        host=host,
        path=text(row.get("lock_file")) or "",
        age_s=number(row.get("lock_age_s")),
        owner_alive=alive if isinstance(alive, bool) else None,
        kind=text(row.get("lock_kind")) or "",
        owner=owner if type(owner) is int else None,
        owner_comm=text(row.get("lock_owner_comm")) or "",
        owner_state=text(row.get("lock_owner_state")) or "",
        owner_cpu=number(row.get("lock_owner_cpu_pct")),
        waiters=tuple(cast("list[int]", waiters)) if isinstance(waiters, list) else (),
    )


def orphaned_lock(scene: Scene) -> LockFile | None:
    """The youngest lock whose owner is dead: what is waited for now was left last."""
    orphans = [lock for lock in lock_files(scene) or () if lock.orphaned]
    return orphans[-1] if orphans else None


def held_lock(scene: Scene) -> LockFile | None:
    """A lock that somebody who lives holds: first one that the kernel has a process of this launch waiting for."""
    members = {(member.host, member.pid) for member in scene.launch.members}
    held = [lock for lock in lock_files(scene) or () if lock.held]
    waited = [lock for lock in held if any((lock.host, pid) in members for pid in lock.waiters)]
    return (waited or held or [None])[-1]
