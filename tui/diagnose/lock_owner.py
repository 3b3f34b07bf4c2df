"""Whether anybody who could release a lock file still lives, judged by what a look saw of it and around it.

A *baton* (``torch/utils/file_baton.py``) is a file that its maker keeps open, so that nobody who has it open is nobody
who will remove it; a *soft* lock (``filelock``) names its maker; a *flock* is held by a process that the kernel names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tui.untyped import number

NEW_S = 5.0
"""Between a file's making and its maker's being seen with it."""

SHARED_QUIET_S = 3600.0
"""Of a folder that other hosts may write, too: nobody is at work in it when nothing was written for so long. Single
files take compilers up to a quarter of an hour."""

SHARED = frozenset(
    {"nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb3", "wekafs", "9p", "virtiofs", "afs", "pvfs2"}
)
"""File systems, by their names in ``/proc/PID/mountinfo``, that several hosts write."""

OF_ONE_CONTAINER = "overlay"
"""A container's own layer: no other container writes there, so that all of its processes are seen from inside."""


def owner_alive(row: Mapping[str, Any], answer: Mapping[str, Any]) -> bool | None:
    """``row`` of the ``answer`` to a look at locks: ``True`` where its owner was seen, ``False`` where nobody who could
    own it is left, ``None`` where somebody out of sight may. What is missing from either proves nothing."""
    if row.get("owner_lives") is True:
        return True
    age_s = number(row.get("age_s"))
    if row.get("owner_lives") is not False or row.get("all_asked") is not True or age_s is None or age_s < NEW_S:
        return None
    dead = {"soft": _soft_is_dead, "baton": _baton_is_dead}.get(str(row.get("kind")))
    return False if dead is not None and dead(row, answer, age_s) else None


def _soft_is_dead(row: Mapping[str, Any], answer: Mapping[str, Any], age_s: float) -> bool:
    """The process that it names is not there, where all that are could be seen."""
    return row.get("made_here") is True and answer.get("whole_host") is True


def _baton_is_dead(row: Mapping[str, Any], answer: Mapping[str, Any], age_s: float) -> bool:
    """Nobody who can reach the file has it, or it is older than the launch and its folder has been quiet for long."""
    fs = row.get("fs")
    if not isinstance(fs, str):
        return False
    if fs not in SHARED and (answer.get("whole_host") is True or fs == OF_ONE_CONTAINER):
        return True
    launched_s, quiet_s = number(answer.get("launched_s")), number(row.get("quiet_s"))
    return launched_s is not None and age_s > launched_s and (quiet_s or 0.0) >= SHARED_QUIET_S
