"""What holds a process up from outside, as looks found it: who traces it, and who should read its output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from tui.diagnose.facts import newest
from tui.diagnose.observe import Scene
from tui.diagnose.views import ProcView
from tui.untyped import mapped, number, text

HOLDUPS_S = 180.0


def _holdup(scene: Scene, view: ProcView) -> Mapping[str, Any]:
    fact = newest(scene, "holdups", HOLDUPS_S).get(view.member.host)
    processes = mapped(mapped(fact.value if fact is not None else None).get("processes"))
    return mapped(processes.get(str(view.member.pid)))


def tracer(scene: Scene, view: ProcView) -> str | None:
    """Who traces a process: ``process 4711 (gdb, stopped)``; empty where nobody does, ``None`` where not looked at."""
    row = _holdup(scene, view)
    return None if "tracer" not in row else "" if not row["tracer"] else _named(mapped(row["tracer"]))


@dataclass(frozen=True, slots=True)
class PipeEnd:
    """An output of a process that leads into a pipe: bytes in it, its size, and who should read it."""

    name: str
    waiting: float | None
    size: float | None
    readers: tuple[Mapping[str, Any], ...]

    @property
    def full(self) -> bool | None:
        """Short writes leave rooms in the pages of a pipe, half of it at worst (``pipe_write`` in fs/pipe.c)."""
        return None if self.waiting is None or self.size is None else self.waiting >= 0.5 * self.size

    @property
    def reader_stopped(self) -> bool:
        return bool(self.readers) and all(reader.get("state") in ("T", "t", "Z") for reader in self.readers)

    @property
    def text(self) -> str:
        fill = "" if self.full is None else f" holds {self.waiting or 0:.0f} of {self.size or 0:.0f} bytes"
        whom = ", ".join(_named(reader) for reader in self.readers[:3])
        return f"the pipe of its {self.name}{fill}, to be read by {whom or 'nobody in sight'}"


def pipes(scene: Scene, view: ProcView) -> list[PipeEnd]:
    """The pipes behind a process's standard output and error, as last looked at; the fuller one first."""
    found: list[PipeEnd] = []
    for key, name in (("stdout", "standard output"), ("stderr", "standard error")):
        row = mapped(_holdup(scene, view).get(key))
        if row:
            readers: object = row.get("readers")
            rows = tuple(mapped(item) for item in cast("list[object]", readers)) if isinstance(readers, list) else ()
            found.append(PipeEnd(name, number(row.get("bytes")), number(row.get("size")), rows))
    return sorted(found, key=lambda pipe: pipe.full is not True)


_STATE_WORDS = {"T": "stopped", "t": "stopped", "Z": "a zombie", "S": "asleep", "D": "blocked", "R": "running"}


def _named(row: Mapping[str, Any]) -> str:
    state = _STATE_WORDS.get(text(row.get("state")) or "", "")
    inside = ", ".join(part for part in (text(row.get("comm")), state) if part)
    return f"process {row.get('pid')}{f' ({inside})' if inside else ''}"
