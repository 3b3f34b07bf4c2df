"""What the checks read, and what they say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tui.model import HostView, LaunchView, ProcView
from tui.untyped import mapped

Mark = Literal["ok", "note", "problem", "unknown"]
"""ok: works. note: worth knowing. problem: will spoil a launch or a look. unknown: could not be read."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: what was found, with its numbers, and what to do about it. ``command`` is to be copied as it stands."""

    mark: Mark
    text: str
    do: str = ""
    command: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was read of one host. ``answers`` are the agent's, by part (see :mod:`tui.agent.preflight`); ``failures``
    are sentences for the parts that did not come."""

    host: HostView
    launches: tuple[LaunchView, ...] = ()
    answers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    failures: Mapping[str, str] = field(default_factory=dict[str, str])

    def answer(self, part: str) -> Mapping[str, Any]:
        """Empty where it did not come."""
        return self.answers.get(part, {})

    def process(self, pid: int) -> Mapping[str, Any] | None:
        """What became of a process: ``None`` where none of this number is there, empty where that was not read."""
        table = mapped(self.answer("processes").get("processes"))
        key = str(pid)
        return None if key in table and table[key] is None else mapped(table.get(key))

    @property
    def container(self) -> bool:
        """Whether the agent is in another process namespace than the host's own."""
        return self.answer("processes").get("container") is True or self.answer("rights").get("container") is True

    @property
    def members(self) -> tuple[ProcView, ...]:
        """Processes of launches on this host that have not ended."""
        here = (process for view in self.launches for process in view.processes if process.host == self.host.name)
        return tuple(process for process in here if process.state != "gone")


def missing(seen: Seen, part: str, what: str) -> Iterable[Finding]:
    """That ``what`` is unknown, where its part did not come."""
    return [Finding("unknown", f"{what}: {seen.failures[part]}")] if part in seen.failures else []


def gib(size: float) -> str:
    """Bytes in words of three digits or so."""
    for unit, scale in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}" if size < 100 * scale else f"{size / scale:.0f} {unit}"
    return f"{size / 1024:.0f} KiB" if size >= 1024 else f"{size:.0f} bytes"


def ago(seconds: float) -> str:
    """A length of time in its largest unit."""
    for unit, scale in (("days", 86400), ("hours", 3600), ("min", 60)):
        if seconds >= 2 * scale:
            return f"{seconds / scale:.0f} {unit}"
    return f"{seconds:.0f} s"


def counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def plural(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"


def gpus_named(indices: Iterable[int]) -> str:
    """``GPU 3`` or ``GPUs 0–3, 5``."""
    sorted_indices = sorted(set(indices))
    return ("GPU " if len(sorted_indices) == 1 else "GPUs ") + ranges(sorted_indices)


def ranges(numbers: Iterable[int]) -> str:
    """Sorted numbers, runs of three and more drawn together."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    said = [f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return ", ".join(said)
