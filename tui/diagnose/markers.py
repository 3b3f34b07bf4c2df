"""The frameworks' own log lines as data: one TOML file per framework, read at the first line of the first log.

A file has ``framework`` (a name, or ``""`` for lines that belong to no framework), optional ``prefix`` (a regular
expression with the groups ``rank``, ``tp``, ``pp``, ``pid`` or ``who``), and ``[[marker]]`` tables. Adding a
framework is adding a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any

from tui import toml

EDGES = ("begin", "progress", "end", "fatal", "ready", "heartbeat", "neutral")
"""What a line does: opens a phase, moves inside it, closes it, says that the launch failed, says that a server serves
(or that training steps come), recurs on a clock without meaning anything, or looks like something and is nothing."""

_KEYS = frozenset(
    {
        "id",
        "pattern",
        "phase",
        "edge",
        "who",
        "versions",
        "source",
        "example",
        "unit",
        "then",
        "again",
        "inside",
        "run",
        "cause",
        "remedy",
    }
)


@dataclass(frozen=True, slots=True)
class Marker:
    """One kind of line. ``who`` prints it: ``all`` ranks, ``rank0``, or ``main`` (a process that is no rank).

    ``then`` is the phase that begins where a bar is full or the edge is ``end``; ``again`` the phase from the second
    time on that the same rank prints it in a run; ``inside`` names phases in which the line does not change the phase.
    ``run`` is ``start`` on a launch's first line and ``over`` on its orderly last. ``cause`` and ``remedy`` (with its
    source) belong to fatal lines. Every line that matches contains one of ``words``.
    """

    id: str
    framework: str
    pattern: str
    phase: str
    edge: str
    who: str = "all"
    versions: str = ""
    source: str = ""
    example: str = ""
    unit: str = ""
    then: str = ""
    again: str = ""
    inside: tuple[str, ...] = ()
    run: str = ""
    cause: str = ""
    remedy: str = ""
    words: tuple[str, ...] = ()

    def match(self, text: str) -> re.Match[str] | None:
        return _compiled(self.pattern).search(text)


@dataclass(frozen=True, slots=True)
class Markers:
    """All markers, findable by a word that must stand in the line; ``wordless`` ones are tried on every line."""

    by_word: Mapping[str, tuple[Marker, ...]]
    wordless: tuple[Marker, ...]
    prefixes: tuple[tuple[str, str], ...] = ()
    """(framework, pattern) of line prefixes."""
    all: tuple[Marker, ...] = field(default=(), repr=False)

    def candidates(self, words: list[str]) -> Iterator[Marker]:
        by_word = self.by_word
        found = {marker.framework + marker.id: marker for word in words if word in by_word for marker in by_word[word]}
        yield from found.values()
        yield from self.wordless


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


WORD = re.compile(r"[A-Za-z]{4,}")


def required_words(pattern: str) -> tuple[str, ...]:
    """Plain words of which every match of ``pattern`` contains at least one as a whole word; empty where none is sure.

    One word where the pattern demands it outside of groups, else one for each alternative of a group. Conservative:
    classes, whatever an operator makes optional, and a word that touches something which may continue it are left out.
    """
    groups: list[str] = []

    def lift(found: re.Match[str]) -> str:
        if found[2] or found[0].startswith("(?!"):
            return _HOLE
        groups.append(re.sub(r"^\((?:\?:|\?P<\w+>)?|\)\+?$", "", found[0]))
        return f"{{{len(groups) - 1}}}"

    flat = re.sub(r"\\([^\w\s])", _MARK, pattern)  # an escaped operator is a character like any other
    flat = re.sub(r"\[[^\]]*\][*?+]?", _HOLE, re.sub(r"\{\d*,?\d*\}", "*", flat))
    while (smaller := re.sub(r"(\([^()]*\))([*?])?\+?", lift, flat)) != flat:
        flat = smaller
    return _words(flat, groups)


_HOLE, _MARK = "\ue000", "\ue001"
"""Stand in a pattern for whatever may be part of a word, and for a character that cannot be."""


def _words(flat: str, groups: list[str]) -> tuple[str, ...]:
    if "|" in flat:
        parts = [_words(part, groups) for part in flat.split("|")]
        return tuple(word for part in parts for word in part) if all(parts) else ()
    plain = re.sub(r"\{\d+\}", _HOLE, flat)
    plain = re.sub(r"\\[sdbD][*?+]?| [*+]", " ", plain)
    plain = re.sub(r"\\[wWS][*?+]?|[^ ][*?]|\.\+?", _HOLE, plain)
    words = re.findall(rf"(?<![A-Za-z{_HOLE}])[A-Za-z]{{4,}}(?![A-Za-z{_HOLE}+])", plain)
    if words:
        return (max(words, key=len),)
    inner = [_words(groups[int(i)], groups) for i in re.findall(r"(?<![A-Za-z}])\{(\d+)\}(?![A-Za-z{])", flat)]
    return min((words for words in inner if words), key=len, default=())


def parse(text: str, name: str) -> tuple[str, str, list[Marker]]:
    """A marker file's framework, prefix and markers.

    Raises: ValueError with the file's and the marker's name where the file does not say what it must.
    """
    try:
        table: dict[str, Any] = toml.loads(text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    framework = str(table.get("framework", ""))
    markers: list[Marker] = []
    rows: list[dict[str, Any]] = table.get("marker", [])
    for row in rows:
        label = f"{name}: marker {row.get('id', len(markers))}"
        if extra := row.keys() - _KEYS:
            raise ValueError(f"{label}: unknown keys {', '.join(sorted(extra))}")
        if missing := {"id", "pattern", "edge"} - row.keys():
            raise ValueError(f"{label}: needs {', '.join(sorted(missing))}")
        if row["edge"] not in EDGES:
            raise ValueError(f"{label}: edge must be one of {', '.join(EDGES)}")
        try:
            re.compile(row["pattern"])
        except re.error as error:
            raise ValueError(f"{label}: {error}") from None
        values: dict[str, Any] = {**row, "inside": tuple(row.get("inside", ())), "phase": row.get("phase", "")}
        markers.append(Marker(framework=framework, words=required_words(row["pattern"]), **values))
    return framework, str(table.get("prefix", "")), markers


@lru_cache(maxsize=1)
def load() -> Markers:
    """All marker files of the package."""
    by_word: dict[str, list[Marker]] = {}
    wordless: list[Marker] = []
    prefixes: list[tuple[str, str]] = []
    every: list[Marker] = []
    folder = files("tui.diagnose").joinpath("markers")
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if not file.name.endswith(".toml"):
            continue
        framework, prefix, markers = parse(file.read_text(encoding="utf-8"), file.name)
        if prefix:
            prefixes.append((framework, prefix))
        every += markers
        for marker in markers:
            for word in marker.words:
                by_word.setdefault(word, []).append(marker)
            if not marker.words:
                wordless.append(marker)
    return Markers(
        {word: tuple(found) for word, found in by_word.items()}, tuple(wordless), tuple(prefixes), tuple(every)
    )
