"""A log that grows faster than it can be shipped, or whose middle is old: keep every line that matches.

Runs in the log helper. What the monitor sends with each pattern are the words that stand in every line that matches.
So a piece of a log is reduced to its letters, equal lines to one, and the patterns themselves are tried on the few
lines that hold their words (20 MB of lines with 300 patterns: 40 ms; one by one they would take minutes).
"""

import os
import re

from .loop import clock

CHUNK = 1 << 20
TAIL = 64 << 10
LONGEST_LINE = 4096
MOST_MATCHED = 1 << 20
_COLOUR = re.compile(b"\x1b\\[[0-9;]*[A-Za-z]")
_LETTERS = bytes(c if c == 10 or chr(c).isalpha() and c < 128 else 32 for c in range(256))


class Filter:
    """The monitor's patterns, for bytes, each with its words: of each list one (``*Error``: any word that ends so);
    without words it is tried on every line. One that does not compile under this Python is left out."""

    def __init__(self, patterns: "list[tuple[str, list[list[str]]]]"):
        self._by_word: "dict[bytes, list[tuple[str, list[set[bytes]]]]]" = {}
        self._by_ending: "dict[bytes, str]" = {}
        self._always = [pattern for pattern, words in patterns if not words]
        self._compiled: "dict[str, Pattern[bytes] | None]" = {}
        for pattern, words in patterns:
            needs = sorted(({word.encode() for word in one_of} for one_of in words), key=_chance)
            for word in needs[0] if needs else ():
                if word.startswith(b"*"):
                    self._by_ending[word[1:]] = pattern
                else:
                    self._by_word.setdefault(word, []).append((pattern, needs[1:]))
        self._endings = tuple(self._by_ending)

    def spans(self, text: bytes) -> "list[tuple[int, int]]":
        """Start and end of each line that matches. A line that was redrawn counts as what it last said."""
        if b"\x1b" in text:  # a colour's last letter would stick to the word behind it
            text = _COLOUR.sub(lambda code: b" " * len(code.group()), text)
        lines = text.translate(_LETTERS).split(b"\n")
        wanted = {line: patterns for line in set(lines) for patterns in [self._may_match(line)] if patterns}
        found: "list[tuple[int, int]]" = []
        at = 0
        for line in lines if wanted else ():
            end = min(at + len(line) + 1, len(text))
            if line in wanted:
                said = text[at:end].rstrip(b"\r\n").rpartition(b"\r")[2]
                if any(self._matches(pattern, said) for pattern in wanted[line]):
                    found.append((max(at, end - LONGEST_LINE), end))
            at = end
        return found

    def _may_match(self, line: bytes) -> "list[str]":
        """The patterns whose words stand in a line that was reduced to its letters."""
        words = set(line.split())
        patterns = list(self._always)
        for word in words & self._by_word.keys():
            patterns += [p for p, rest in self._by_word[word] if not any(words.isdisjoint(need) for need in rest)]
        if self._endings:
            for word in words:
                if word.endswith(self._endings):
                    patterns += [pattern for end, pattern in self._by_ending.items() if word.endswith(end)]
        return patterns

    def _matches(self, pattern: str, said: bytes) -> bool:
        if pattern not in self._compiled:
            try:
                self._compiled[pattern] = re.compile(pattern.encode())
            except (re.error, OverflowError):
                self._compiled[pattern] = None
        compiled = self._compiled[pattern]
        return compiled is not None and compiled.search(said) is not None


def _chance(one_of: "set[bytes]") -> "tuple[int, int]":
    """For sorting: the words that are least likely to stand in any line come first."""
    return -min(map(len, one_of)), len(one_of)


def sift(fd: int, start: int, end: int, keep: Filter) -> "tuple[list[tuple[int, bytes]], int]":
    """The matching lines between two offsets as ``(offset, bytes)``, neighbours joined, and how many LFs lie there.

    The first line is always kept: its beginning was shipped before.
    """
    pieces: "list[tuple[int, bytes]]" = []
    lines, kept, at = 0, 0, start
    while at < end:
        text = os.pread(fd, min(CHUNK, end - at), at)
        complete = text.rfind(b"\n") + 1
        whole = complete or text.rfind(b"\r") + 1 or len(text)
        spans = keep.spans(text[:complete]) if complete else []
        if at == start and not (spans and spans[0][0] == 0):
            spans.insert(0, (0, min(text.find(b"\n") + 1 or whole, LONGEST_LINE)))
        for first, last in spans:
            if kept < MOST_MATCHED:
                _append(pieces, at + first, text[first:last])
                kept += last - first
        lines += text.count(b"\n") if complete else 0  # counting is dearer than finding that there is none
        if not text:
            break
        at += whole
    return pieces, lines


def sift_back(fd: int, start: int, end: int, keep: Filter, seconds: float) -> "list[tuple[int, bytes]]":
    """The matching lines between two offsets, searched from the end for at most so long: what is newer counts more."""
    found: "list[tuple[int, bytes]]" = []
    kept, until = 0, clock() + seconds
    while end > start and kept < MOST_MATCHED and clock() < until:
        at = max(start, end - CHUNK)
        text = os.pread(fd, end - at, at)
        begin = 0 if at == start else text.find(b"\n", 0, len(text) - 1) + 1
        if begin or at == start:
            for first, last in reversed(keep.spans(text[begin:])):
                found.append((at + begin + first, text[begin + first : begin + last]))
                kept += last - first
        end = at + begin
    pieces: "list[tuple[int, bytes]]" = []
    for offset, text in reversed(found):
        _append(pieces, offset, text)
    return pieces


def _append(pieces: "list[tuple[int, bytes]]", offset: int, text: bytes) -> None:
    if pieces and pieces[-1][0] + len(pieces[-1][1]) == offset:
        pieces[-1] = (pieces[-1][0], pieces[-1][1] + text)
    else:
        pieces.append((offset, text))


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Pattern
