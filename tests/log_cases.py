"""Logs written line by line after the frameworks' own sources, with the phase that is true after each line.

``tests/logs/FRAMEWORK/CASE.txt``: a head (``framework``, ``version``, ``source`` of the format), ``---``, then one
written line a row, ``SECONDS PHASE | TEXT``. ``=`` is the phase before, ``-`` is not judged. ``\\r``, ``\\e`` (escape)
and ``\\n`` stand for the bytes, ``\\\\`` for a backslash; a row that ends in ``\\c`` is not ended by a newline. After
``===`` come words on what the reader must hold in the end; :data:`_CHECKS` knows them. ``stamps: yes`` in the head:
each line that begins a phase has a stamp. ``first_rank``: the rank of the host's local rank 0, or ``unknown``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tui.collect.logtext import LogSplitter
from tui.diagnose.phase_tracker import Run
from tui.diagnose.reader import LogReader

_ESCAPES = {"r": "\r", "e": "\x1b", "n": "\n", "\\": "\\"}
FOLDER = Path(__file__).parent / "logs"


@dataclass(frozen=True)
class Row:
    t: float
    phase: str
    data: bytes


@dataclass(frozen=True)
class LogCase:
    name: str
    head: dict[str, str]
    rows: tuple[Row, ...]
    ends: tuple[str, ...]

    @property
    def data(self) -> bytes:
        return b"".join(row.data for row in self.rows)

    @property
    def first_rank(self) -> int | None:
        said = self.head.get("first_rank", "0")
        return None if said == "unknown" else int(said)

    def read(self) -> tuple[LogReader, list[tuple[Row, str]]]:
        """Written row by row while somebody watches: the reader, and the phase it held after each row."""
        splitter, reader = LogSplitter(), LogReader()
        seen: list[tuple[Row, str]] = []
        for row in self.rows:
            reader.read(splitter.feed(row.data, row.t), row.t, self.first_rank)
            seen.append((row, reader.run.phase))
        return reader, seen

    def read_late(self) -> LogReader:
        """All of it lay there when somebody came, last written at the last row's time."""
        reader = LogReader()
        reader.read(LogSplitter().feed(self.data), self.rows[-1].t, self.first_rank)
        return reader

    def check(self, reader: LogReader, *, live: bool) -> None:
        for line in self.ends:
            word, _, rest = line.partition(" ")
            _CHECKS[word](reader, reader.run, rest, live)


def _ready(reader: LogReader, run: Run, rest: str, live: bool) -> None:
    assert run.ready


def _framework(reader: LogReader, run: Run, rest: str, live: bool) -> None:
    assert run.framework == rest


def _rank(reader: LogReader, run: Run, rest: str, live: bool) -> None:
    rank, phase = rest.split()
    assert run.phase_of(int(rank)) == phase


def _behind(reader: LogReader, run: Run, rest: str, live: bool) -> None:
    roll = run.behind()
    assert roll is not None and sorted(roll[1]) == [int(rank) for rank in rest.split()]


def _fatal(reader: LogReader, run: Run, rest: str, live: bool) -> None:
    assert [line.marker.cause for line in run.fatal] == rest.split()


def _fatal_rank(reader: LogReader, run: Run, rest: str, live: bool) -> None:
    assert run.fatal[0].rank == (None if rest == "unknown" else int(rest))


def _attempt(reader: LogReader, run: Run, rest: str, live: bool) -> None:
    assert run.attempt == int(rest)


def _progress(reader: LogReader, run: Run, rest: str, live: bool) -> None:
    assert run.counter is not None
    progress = run.counter.progress()
    assert f"{progress.done:g}/{progress.total:g} {progress.unit}" == rest


def _traceback(reader: LogReader, run: Run, rest: str, live: bool) -> None:
    assert run.tracebacks[0].text == rest


def _spoke(reader: LogReader, run: Run, rest: str, live: bool) -> None:
    assert not live or reader.spoke_t == float(rest)


def _moved(reader: LogReader, run: Run, rest: str, live: bool) -> None:
    assert not live or run.progress_t == float(rest)


def _over(reader: LogReader, run: Run, rest: str, live: bool) -> None:
    assert run.over


def _not(reader: LogReader, run: Run, rest: str, live: bool) -> None:
    assert not {"fatal": run.fatal, "behind": run.behind(), "ready": run.ready}[rest]


_CHECKS = {
    "ready": _ready,
    "framework": _framework,
    "rank": _rank,
    "behind": _behind,
    "fatal": _fatal,
    "fatal_rank": _fatal_rank,
    "attempt": _attempt,
    "progress": _progress,
    "traceback": _traceback,
    "spoke": _spoke,
    "moved": _moved,
    "over": _over,
    "not": _not,
}


def load_cases() -> list[LogCase]:
    return [_load(path) for path in sorted(FOLDER.glob("*/*.txt"))]


def _load(path: Path) -> LogCase:
    head, _, body = path.read_text(encoding="utf-8").partition("---\n")
    body, _, ends = body.partition("===\n")
    rows: list[Row] = []
    phase = "unknown"
    for line in body.splitlines():
        before, _, text = line.partition("| ")
        seconds, said = before.rstrip("|").split()
        phase = phase if said == "=" else said
        rows.append(Row(float(seconds), phase, _bytes(text)))
    words = dict(line.split(": ", 1) for line in head.splitlines() if ": " in line)
    return LogCase(f"{path.parent.name}/{path.stem}", words, tuple(rows), tuple(ends.splitlines()))


def _bytes(text: str) -> bytes:
    ending = "" if text.endswith("\\c") else "\n"
    text = re.sub(r"\\([ren\\])", lambda found: _ESCAPES[found[1]], text.removesuffix("\\c"))
    return (text + ending).encode()
