"""The flood filter finds exactly the lines that a plain search would find."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tui.agent import flood
from tui.agent.flood import Filter, sift

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
SPICE += ["NCCL ERROR", "xxxxy", "42%", "abc", "abcd", "done", "\r", "\n", "\r\n", " ", "noise", "Capture", "\xff"]

logs = st.lists(st.sampled_from(SPICE), max_size=60).map(lambda parts: "".join(parts).encode("latin-1"))


def plain(text: bytes, patterns: list[str]) -> list[bytes]:
    """Line by line, with what each line said last."""
    compiled = [re.compile(pattern.encode()) for pattern in patterns]
    lines = re.findall(rb"[^\n]*\n|[^\n]+\Z", text)
    said = [(line, line.rstrip(b"\r\n").rpartition(b"\r")[2]) for line in lines]
    return [line for line, last in said if any(pattern.search(last) for pattern in compiled)]


@example(b"noise\r42%\n", [r"^\d+%$"])
@given(logs, st.lists(st.sampled_from(PATTERNS), max_size=5))
def test_finds_what_a_plain_search_finds(text: bytes, patterns: list[str]) -> None:
    """No marker is lost to the shortcut over literal texts, and no other line is kept."""
    found = [text[start:end] for start, end in Filter(patterns).spans(text)]
    assert found == plain(text, patterns)


@given(st.sampled_from(PATTERNS).flatmap(lambda pattern: st.tuples(st.just(pattern), st.from_regex(pattern))))
def test_every_match_holds_one_of_the_texts_that_are_looked_for(pair: tuple[str, str]) -> None:
    """The texts derived from a pattern are really necessary."""
    pattern, match = pair
    needs = flood._needs(flood.parser.parse(pattern))
    if needs is not None and "(?i)" not in pattern:
        assert any(text in match.encode() for text in needs)


def test_a_pattern_that_does_not_compile_is_left_out() -> None:
    """The others still work."""
    assert Filter(["(", "good marker"]).spans(b"a good marker\n") == [(0, 14)]


@pytest.mark.parametrize("chunk", [64, 100, 1000])
def test_pieces_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    """Wherever the pieces that are read end, each marker is found once and every line is counted."""
    monkeypatch.setattr(flood, "CHUNK", chunk)
    lines = [b"marker number %d\n" % n if n % 7 == 0 else b"noise %d\n" % n for n in range(300)]
    path = tmp_path / "log"
    path.write_bytes(b"".join(lines))
    fd = os.open(path, os.O_RDONLY)
    pieces, count = sift(fd, 0, path.stat().st_size, Filter(["marker number"]))
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
    pieces, count = sift(fd, 0, path.stat().st_size, Filter(["marker"]))
    os.close(fd)
    assert sum(len(text) for _, text in pieces) <= 1007
    assert count == 10_000
