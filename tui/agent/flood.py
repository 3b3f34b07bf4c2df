"""A log that grows faster than it can be shipped: keep every line that matches, and the last ones.

Runs in the log helper. All patterns are searched in one pass over large pieces, reduced to the texts that a match must
contain; the patterns themselves are tried only on lines that hold one (20 MB of lines: 0.1 s with 26 patterns).
"""

import importlib
import os
import re

try:
    parser: "Any" = importlib.import_module("re._parser")  # Python 3.11
except ImportError:
    parser = importlib.import_module("sre_parse")

CHUNK = 1 << 20
TAIL = 64 << 10
LONGEST_LINE = 4096
MOST_MATCHED = 1 << 20
SHORTEST_TEXT = 4


class Filter:
    """The monitor's patterns, for bytes. One that does not compile under this Python is left out."""

    def __init__(self, patterns: "list[str]"):
        self._patterns: "list[Pattern[bytes]]" = []
        quick: "set[bytes]" = set()
        for pattern in patterns:
            try:
                compiled = re.compile(pattern.encode())
            except (re.error, OverflowError):
                continue
            self._patterns.append(compiled)
            texts = None if compiled.flags & re.IGNORECASE else _needs(parser.parse(compiled.pattern))
            quick.update([compiled.pattern] if texts is None else map(re.escape, texts))
        self._quick = re.compile(b"|".join(sorted(quick)), re.MULTILINE) if quick else None

    def spans(self, text: bytes) -> "list[tuple[int, int]]":
        """Start and end of each line that matches. A line that was redrawn counts as what it last said."""
        found: "list[tuple[int, int]]" = []
        redraws_apart, at = text.replace(b"\r", b"\n"), 0
        while self._quick:
            hit = self._quick.search(redraws_apart, at)
            if hit is None:
                break
            start = text.rfind(b"\n", 0, hit.start()) + 1
            at = text.find(b"\n", hit.start()) + 1 or len(text)
            said = text[start:at].rstrip(b"\r\n").rpartition(b"\r")[2]
            if any(pattern.search(said) for pattern in self._patterns):
                found.append((max(start, at - LONGEST_LINE), at))
            if at == len(text):
                break
        return found


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
        spans = keep.spans(text[:complete])
        if at == start and not (spans and spans[0][0] == 0):
            spans.insert(0, (0, min(text.find(b"\n") + 1 or whole, LONGEST_LINE)))
        for first, last in spans:
            if kept < MOST_MATCHED:
                _append(pieces, at + first, text[first:last])
                kept += last - first
        lines += text.count(b"\n")
        if not text:
            break
        at += whole
    return pieces, lines


def _append(pieces: "list[tuple[int, bytes]]", offset: int, text: bytes) -> None:
    if pieces and pieces[-1][0] + len(pieces[-1][1]) == offset:
        pieces[-1] = (pieces[-1][0], pieces[-1][1] + text)
    else:
        pieces.append((offset, text))


def _needs(parsed: "Any") -> "list[bytes] | None":
    """Texts of which every match contains at least one; None where the pattern names none long enough."""
    candidates: "list[list[bytes]]" = []
    run = bytearray()
    for op, argument in list(parsed) + [(None, None)]:
        if str(op) == "LITERAL":
            run.append(argument)
            continue
        candidates.append([bytes(run)])
        run = bytearray()
        candidates.append(_needs_inside(str(op), argument) or [b""])
    best = max(candidates, key=lambda texts: min(map(len, texts)))
    return best if min(map(len, best)) >= SHORTEST_TEXT else None


def _needs_inside(op: str, argument: "Any") -> "list[bytes] | None":
    if op == "SUBPATTERN":
        return None if argument[1] & re.IGNORECASE else _needs(argument[-1])
    if op in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT") and argument[0] > 0:
        return _needs(argument[2])
    if op == "BRANCH":
        return _needs_of_branches(argument[1])
    return None


def _needs_of_branches(branches: "list[Any]") -> "list[bytes] | None":
    texts: "list[bytes]" = []
    for branch in branches:
        needs = _needs(branch)
        if needs is None:
            return None
        texts += needs
    return texts


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Pattern
