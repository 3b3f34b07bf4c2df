"""The frameworks' own log lines as data: one TOML file per framework, read at the first line of the first log.

A file has ``framework`` (a name, or ``""`` for lines that belong to no framework), optional ``prefix`` (a regular
expression with the groups ``rank``, ``tp``, ``pp``, ``pid`` or ``who``) and ``usual`` (the phases that every start of
it goes through, in their order), and ``[[marker]]`` tables. Adding a
framework is adding a file; a user's own files add to those of the package, and replace markers of the same name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, TypeAlias, cast

from tui import toml

EDGES = ("begin", "progress", "end", "fatal", "ready", "heartbeat", "neutral")
"""What a line does: opens a phase, moves inside it, closes it, says that the launch failed, says that a server serves
(or that training steps come), recurs on a clock without meaning anything, or looks like something and is nothing."""

TELLS = ("lock_wait", "request", "worker_wait", "load", "done", "gpu_lost", "process_lost")
"""What a line tells beside a phase: its writer waits for a lock file; a request begins; a server waits for its workers'
answer; statistics, with the groups ``running`` (requests at work), ``prompt`` and ``generated`` (tokens a second); the
last step of a job is done, and it only ends now; of the kernel's lines, what is over for good, a GPU or one process."""

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
        "only",
        "during",
        "holds",
        "tells",
        "run",
        "cause",
        "remedy",
    }
)


_LISTS = ("inside", "only", "during", "holds")

Clauses: TypeAlias = tuple[tuple[str, ...], ...]
"""Words that a text must hold: of each inner tuple one."""


@dataclass(frozen=True, slots=True)
class Marker:
    """One kind of line. ``who`` prints it: ``all`` ranks, ``rank0``, or ``main`` (a process that is no rank).

    ``then`` is the phase that begins where a bar is full or the edge is ``end``; ``again`` the phase from the second
    time on that the same rank prints it in a run; ``inside`` names phases in which the line does not change the phase,
    ``only`` the ones in which alone it does; outside of ``during``, where that is given, the line means nothing. A
    group ``total`` beside ``rank`` is how many ranks it counts within: within a part of the job it is no rank's name.
    ``run`` is ``start`` on a launch's first line and ``over`` on its orderly last. ``tells`` is one of :data:`TELLS`;
    with it ``edge`` may be empty: the line is no other than a line that no marker knows. ``cause`` and ``remedy`` (with
    its source) belong to fatal lines, where a group ``pid`` is the process that a launcher says has failed. Every line
    that matches contains one of each of ``words``; a file may add a list that cannot be read off the pattern as
    ``holds``.
    """

    id: str
    framework: str
    pattern: str
    phase: str
    edge: str = ""
    who: str = "all"
    versions: str = ""
    source: str = ""
    example: str = ""
    unit: str = ""
    then: str = ""
    again: str = ""
    inside: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    during: tuple[str, ...] = ()
    tells: str = ""
    run: str = ""
    cause: str = ""
    remedy: str = ""
    words: Clauses = ()

    def match(self, text: str) -> re.Match[str] | None:
        return _compiled(self.pattern).search(text)

    def may_match(self, words: set[bytes]) -> bool:
        """Whether a text of these words may match."""
        return all(any(word.encode() in words for word in clause) for clause in self.words)

    @property
    def name(self) -> str:
        return f"{self.framework or 'common'}:{self.id}"


@dataclass(frozen=True, slots=True)
class MarkerFile:
    """One file as it was read."""

    framework: str
    prefix: str
    markers: tuple[Marker, ...]
    usual: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Markers:
    """All markers, findable by a word that must stand in the line; ``wordless`` ones are tried on every line."""

    by_word: Mapping[bytes, tuple[Marker, ...]]
    wordless: tuple[Marker, ...]
    prefixes: tuple[tuple[str, str], ...] = ()
    """(framework, pattern) of line prefixes."""
    usual: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """By framework, the phases that every start goes through."""
    all: tuple[Marker, ...] = field(default=(), repr=False)
    seen: dict[bytes, tuple[Marker, ...]] = field(default_factory=dict[bytes, tuple[Marker, ...]], repr=False)
    """What was found for lines that differ in their figures only: most of a log is such lines."""

    def of(self, text: str) -> tuple[Marker, ...]:
        """The few markers that may match ``text``: those whose words stand in it."""
        shape = text.encode("utf-8", "replace").translate(None, _FIGURES)
        known = self.seen.get(shape)
        if known is None:
            if len(self.seen) >= _SHAPES:
                self.seen.clear()
            known = self.seen[shape] = self._by_words(set(words_of(text)))
        rare = [marker for marker in self.wordless if _compiled(loosened(marker.pattern)).search(text)]
        return (*known, *rare) if rare else known

    def _by_words(self, words: set[bytes]) -> tuple[Marker, ...]:
        by_word = self.by_word
        # In the order of the words, whatever the order of a set: two markers of one line must meet in the same order.
        found = {m.name: m for word in sorted(words & by_word.keys()) for m in by_word[word] if m.may_match(words)}
        return tuple(found.values())

    def filter(self) -> list[dict[str, Any]]:
        """What a host needs to keep marked lines of a log that grows faster than it can be shipped: ``pattern``, free
        of its anchors since a carrier's mark may stand before the line, and ``words``, of each list one in the line."""
        kept = [
            {"pattern": loosened(marker.pattern), "words": [list(clause) for clause in marker.words]}
            for marker in self.all
            if _sought_in_a_flood(marker)
        ]
        return [*kept, *_TRACEBACKS]


_TRACEBACKS: tuple[dict[str, Any], ...] = (
    {"pattern": r"Traceback \(most recent call last\):", "words": [["Traceback"]]},
    {"pattern": r"\b\w*(?:Error|Exception): ", "words": [["*Error", "*Exception"]]},
)

_FIGURES = b"0123456789"
_SHAPES = 4096
_NOT_LETTERS = bytes(c if chr(c).isalpha() and c < 128 else 32 for c in range(256))


def _sought_in_a_flood(marker: Marker) -> bool:
    """Not what comes with each request, and means a ready server only where no start was seen: a flood may be made of
    such lines, and they would crowd out those that come once. The end of a flood is read whole."""
    if not marker.words or (marker.edge == "ready" and marker.only and not marker.tells):
        return False
    return bool(marker.tells) or marker.edge not in ("heartbeat", "neutral")


def words_of(text: str) -> list[bytes]:
    """The runs of ASCII letters in ``text``."""
    return text.encode("utf-8", "replace").translate(_NOT_LETTERS).split()


@cache
def loosened(pattern: str) -> str:
    """The pattern without an anchor at its ends: it matches wherever the line stands behind something else.

    What the line must not hold is left out too: it would be looked for again at every character of it.
    """
    start = re.sub(r"^\^(?: \+|\\s\*| \?)?", "", pattern)
    start = re.sub(r"^(?:\(\?!(?:[^()]|\([^()]*\))*\))+\.\*\?", "", start)
    return start[:-1] if start.endswith("$") and not start.endswith("\\$") else start


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@cache
def required_words(pattern: str) -> Clauses:
    """Plain words that every match of ``pattern`` contains, each as a whole word; empty where none is sure.

    A clause of one word for each that the pattern demands outside of groups, and one for the alternatives of a group.
    Conservative: classes, whatever an operator makes optional, and a word that touches something which may continue it
    are left out. A match right behind or before another letter is none.
    """
    if re.search(r"\(\?[aiLmsux-]", pattern):
        return ()  # flags change what a letter is
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
    return _clauses(flat, groups)


_HOLE, _MARK = "\ue000", "\ue001"
"""Stand in a pattern for whatever may be part of a word, and for a character that cannot be."""


def _clauses(flat: str, groups: list[str]) -> Clauses:
    if "|" in flat:
        parts = [_clauses(part, groups) for part in flat.split("|")]
        # Of each alternative its most particular clause; only all of them together are one.
        return (tuple(word for part in parts for word in _longest(part)),) if all(parts) else ()
    plain = re.sub(r"\{\d+\}", _HOLE, flat)
    plain = re.sub(r"\\[sdbD][*?+]?| [*+]", " ", plain)
    plain = re.sub(r"\\[wWS][*?+]?|[^ ][*?]|\.\+?", _HOLE, plain)
    words = re.findall(rf"(?<![A-Za-z{_HOLE}])[A-Za-z]{{3,}}(?![A-Za-z{_HOLE}+])", plain)
    spaced = re.sub(r"\\[sdbD]", " ", flat)
    inner = [_clauses(groups[int(i)], groups) for i in re.findall(r"(?<![A-Za-z}])\{(\d+)\}(?![A-Za-z{])", spaced)]
    return (*((word,) for word in dict.fromkeys(words)), *(clause for clauses in inner for clause in clauses))


def _longest(clauses: Clauses) -> tuple[str, ...]:
    """The clause that is least likely to hold by chance: its shortest word is the longest."""
    return max(clauses, key=lambda clause: (min(map(len, clause)), -len(clause)))


def parse(text: str, name: str) -> MarkerFile:
    """One marker file.

    Raises: ValueError with the file's and the marker's name where the file does not say what it must.
    """
    try:
        table: dict[str, Any] = toml.loads(text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if extra := table.keys() - {"framework", "prefix", "usual", "marker"}:
        raise ValueError(f"{name}: unknown keys {', '.join(sorted(extra))}")
    framework, prefix, rows = table.get("framework", ""), table.get("prefix", ""), table.get("marker", [])
    if not isinstance(framework, str) or not isinstance(prefix, str) or not isinstance(rows, list):
        raise ValueError(f"{name}: framework and prefix must be texts, and markers [[marker]] tables")
    _check_pattern(prefix, f"{name}: prefix")
    markers = tuple(_marker(framework, row, name, i) for i, row in enumerate(cast("list[Any]", rows)))
    return MarkerFile(framework, prefix, markers, tuple(_texts(table.get("usual", []), f"{name}: usual")))


def _marker(framework: str, row: Any, name: str, index: int) -> Marker:
    if not isinstance(row, dict):
        raise ValueError(f"{name}: marker {index} must be a [[marker]] table")
    table = cast("dict[str, Any]", row)
    label = f"{name}: marker {table.get('id', index)}"
    if extra := table.keys() - _KEYS:
        raise ValueError(f"{label}: unknown keys {', '.join(sorted(extra))}")
    needed = {"id", "pattern"} if "tells" in table else {"id", "pattern", "edge"}
    if missing := needed - table.keys():
        raise ValueError(f"{label}: needs {', '.join(sorted(missing))}")
    lists = {key: tuple(_texts(table.get(key, []), f"{label}: {key}")) for key in _LISTS}
    for key in table.keys() - lists.keys():
        if not isinstance(table[key], str):
            raise ValueError(f"{label}: {key} must be a text")
    for key, known in (("edge", EDGES), ("tells", TELLS)):
        if key in table and table[key] not in known:
            raise ValueError(f"{label}: {key} must be one of {', '.join(known)}")
    if table.get("edge") in ("begin", "progress", "end", "ready") and not table.get("phase"):
        raise ValueError(f"{label}: needs phase")
    _check_pattern(table["pattern"], label)
    holds = [holds] if (holds := lists.pop("holds")) else []
    given = {key: value for key, value in table.items() if key not in _LISTS}
    values: dict[str, Any] = {**given, **lists, "phase": table.get("phase", "")}
    return Marker(framework=framework, words=(*required_words(table["pattern"]), *holds), **values)


def _texts(value: Any, label: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in cast("list[Any]", value)):
        raise ValueError(f"{label} must be a list of texts")
    return cast("list[str]", value)


def _check_pattern(pattern: str, label: str) -> None:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{label}: {error}") from None


def gather(marker_files: Collection[MarkerFile]) -> Markers:
    """The markers of these files; of two with one name the later counts."""
    every: dict[str, Marker] = {}
    prefixes: list[tuple[str, str]] = []
    for file in marker_files:
        every.update({marker.name: marker for marker in file.markers})
        if file.prefix:
            prefixes.append((file.framework, file.prefix))
    by_word: dict[bytes, list[Marker]] = {}
    for marker in every.values():
        for word in set(_longest(marker.words) if marker.words else ()):
            by_word.setdefault(word.encode(), []).append(marker)
    wordless = tuple(marker for marker in every.values() if not marker.words)
    usual = {file.framework: file.usual for file in marker_files if file.usual}
    found = {word: tuple(markers) for word, markers in by_word.items()}
    return Markers(found, wordless, tuple(prefixes), usual, tuple(every.values()))


@lru_cache(maxsize=4)
def load(own: tuple[MarkerFile, ...] = ()) -> Markers:
    """All markers of the package, and a user's ``own`` files after them."""
    from importlib.resources import files  # dear to import, and not needed before a log is there

    folder = files("tui.diagnose").joinpath("markers")
    ours = sorted((file for file in folder.iterdir() if file.name.endswith(".toml")), key=lambda file: file.name)
    return gather([*(parse(file.read_text(encoding="utf-8"), file.name) for file in ours), *own])
