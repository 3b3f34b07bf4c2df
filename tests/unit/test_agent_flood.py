"""The flood filter finds exactly the lines that a plain search would find."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tui.agent import flood
from tui.agent.flood import Filter, sift, sift_back
from tui.diagnose.markers import load, required_words, words_of

PATTERNS = [
    r"Capture (cuda )?graph (begin|end)",
    r"^\[rank\d+\] ready",
    r"shards:\s+(\d+)/(\d+)",
    r"(?i)traceback",
    r"NCCL WARN|NCCL ERROR",
    r"x{4,6}y",
    r"abcd*",
    r"done$",
    r"^\d+%$",
]
SPICE = ["Capture cuda graph begin", "Capture graph end", "[rank3] ready", "shards:  3/64", "TraceBack", "NCCL WARN"]
SPICE += ["NCCL ERROR", "xxxxy", "42%", "abc", "abcd", "done", "noise", "Capture", "\xff"]
ENDS = ["\r", "\n", "\r\n", " ", "] "]

logs = st.lists(st.tuples(st.sampled_from(SPICE), st.sampled_from(ENDS)), max_size=60).map(
    lambda parts: "".join(word + end for word, end in parts).encode("latin-1")
)


def plain(text: bytes, patterns: list[str]) -> list[bytes]:
    """Line by line, with what each line said last."""
    compiled = [re.compile(pattern.encode()) for pattern in patterns]
    lines = re.findall(rb"[^\n]*\n|[^\n]+\Z", text)
    said = [(line, line.rstrip(b"\r\n").rpartition(b"\r")[2]) for line in lines]
    return [line for line, last in said if any(pattern.search(last) for pattern in compiled)]


def with_words(patterns: list[str]) -> Filter:
    return Filter([(pattern, [list(one_of) for one_of in required_words(pattern)]) for pattern in patterns])


@example(b"noise\r42%\n", [r"^\d+%$"])
@given(logs, st.lists(st.sampled_from(PATTERNS), max_size=5))
def test_finds_what_a_plain_search_finds(text: bytes, patterns: list[str]) -> None:
    """No marker is lost to the shortcut over words, and no other line is kept."""
    found = [text[start:end] for start, end in with_words(patterns).spans(text)]
    assert found == plain(text, patterns)


@given(st.sampled_from(PATTERNS).flatmap(lambda pattern: st.tuples(st.just(pattern), st.from_regex(pattern))))
def test_every_match_holds_one_of_the_words_that_are_looked_for(pair: tuple[str, str]) -> None:
    """The words derived from a pattern are really necessary, where no letter stands right before or behind a match."""
    pattern, match = pair
    said = re.search(pattern, match)
    assert said
    words = set(words_of(said[0]))
    assert all(words & {word.encode() for word in one_of} for one_of in required_words(pattern))


OF_REQUESTS = {"sglang:serves", "llama.cpp:serves"}
"""Of these lines a flood may be made; see :func:`tui.diagnose.markers.Markers.filter`."""

KEPT = [
    marker
    for marker in load().all
    if marker.edge not in ("heartbeat", "neutral") and marker.words and marker.name not in OF_REQUESTS
]


def test_every_marker_of_the_monitor_is_found_in_a_flood_behind_whatever_carries_it() -> None:
    """The patterns as they are sent, over the examples of all marker files between lines of noise."""
    assert {marker.name for marker in load().wordless} == {"llama.cpp:load.dots"}, "dots come on one open line"
    sent = load().filter()
    keep = Filter([(row["pattern"], row["words"]) for row in sent])
    for head in ("", "[1,3]<stderr>:", "2026-01-01T00:00:00.1Z stderr F ", "[default3]:\x1b[33m"):
        lines = [f"{head}{marker.example}\n".encode() for marker in KEPT]
        text = b"noise 1\n" + b"noise 2\n".join(lines)
        assert [text[start:end] for start, end in keep.spans(text)] == lines


def test_tracebacks_and_their_exceptions_are_kept() -> None:
    keep = Filter([(row["pattern"], row["words"]) for row in load().filter()])
    text = b"noise\nTraceback (most recent call last):\n  File x\nmy.own.WeirdError: no\nErrors: 3\n"
    assert [text[a:b] for a, b in keep.spans(text)] == [
        b"Traceback (most recent call last):\n",
        b"my.own.WeirdError: no\n",
    ]


def test_a_pattern_that_does_not_compile_is_left_out() -> None:
    """The others still work."""
    assert Filter([("(", []), ("good marker", [["good"]])]).spans(b"a good marker\n") == [(0, 14)]


@pytest.mark.parametrize("chunk", [64, 100, 1000])
def test_pieces_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    """Wherever the pieces that are read end, each marker is found once and every line is counted."""
    monkeypatch.setattr(flood, "CHUNK", chunk)
    lines = [b"marker number %d\n" % n if n % 7 == 0 else b"noise %d\n" % n for n in range(300)]
    path = tmp_path / "log"
    path.write_bytes(b"".join(lines))
    fd = os.open(path, os.O_RDONLY)
    pieces, count = sift(fd, 0, path.stat().st_size, Filter([("marker number", [["marker"]])]))
    os.close(fd)
    assert b"".join(text for _, text in pieces) == b"".join(line for line in lines if b"marker" in line)
    assert all(path.read_bytes()[offset : offset + len(text)] == text for offset, text in pieces)
    assert count == 300


def test_matches_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flood made of matching lines is still a flood."""
    monkeypatch.setattr(flood, "MOST_MATCHED", 1000)
    path = tmp_path / "log"
    path.write_bytes(b"marker\n" * 10_000)
    fd = os.open(path, os.O_RDONLY)
    pieces, count = sift(fd, 0, path.stat().st_size, Filter([("marker", [["marker"]])]))
    os.close(fd)
    assert sum(len(text) for _, text in pieces) <= 1007
    assert count == 10_000


@pytest.mark.parametrize("chunk", [64, 100, 1000])
def test_the_middle_is_searched_from_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    """Wherever the pieces begin, each marker is found once, at its place; a line longer than a piece is passed by."""
    monkeypatch.setattr(flood, "CHUNK", chunk)
    lines = [b"marker number %d\n" % n if n % 7 == 0 else b"noise %d\n" % n for n in range(300)]
    lines.insert(150, b"x" * 5000 + b"\n")
    path = tmp_path / "log"
    path.write_bytes(b"".join(lines))
    keep = Filter([("marker number", [["marker"]])])
    fd = os.open(path, os.O_RDONLY)
    try:
        pieces = sift_back(fd, 0, path.stat().st_size, keep, 10.0)
        assert b"".join(text for _, text in pieces) == b"".join(line for line in lines if b"marker" in line)
        assert all(path.read_bytes()[offset : offset + len(text)] == text for offset, text in pieces)
        assert sift_back(fd, 0, path.stat().st_size, keep, 0.0) == []
    finally:
        os.close(fd)
