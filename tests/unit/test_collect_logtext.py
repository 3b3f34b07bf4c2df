"""A log's bytes become the same lines however the reads cut them, and a progress bar is seen while it runs."""

from __future__ import annotations

import time
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from tui.collect.logtext import KEPT, LogSplitter
from tui.model import LogLine

BAR = "Multi-thread loading shards:  {pct:3d}% Completed | {n}/64 [00:0{s}<00:07,  8.1it/s]"
FRAMES = [BAR.format(pct=n * 100 // 64, n=n, s=n % 10).encode() for n in range(1, 9)]


def texts(lines: list[LogLine]) -> list[str]:
    return [("~" if line.redraw else "…" if line.open else "") + line.text for line in lines]


def settle(lines: list[LogLine]) -> list[LogLine]:
    """What a reader that forgets open lines once they are replaced holds in the end."""
    kept: list[LogLine] = []
    for line in lines:
        if kept and kept[-1].open:
            kept.pop()
        kept.append(line)
    return kept


def feed_in(pieces: list[bytes]) -> list[LogLine]:
    splitter = LogSplitter()
    return settle([line for piece in pieces for line in splitter.feed(piece)])


def shape(line: LogLine) -> str:
    return "".join(c for c in line.text if c.isalpha() and c.isascii())


def collapsed(lines: list[LogLine]) -> list[tuple[str, bool, bool]]:
    """Runs of redraws that differ in figures only, as their last one."""
    kept: list[LogLine] = []
    for line in lines:
        if kept and kept[-1].redraw and line.redraw and shape(kept[-1]) == shape(line):
            kept.pop()
        kept.append(line)
    return [(line.text, line.redraw, line.open) for line in kept]


def test_newlines_and_redraws_are_told_apart():
    lines = LogSplitter().feed(b"one\ntwo\r\nthree\rfour\n\nfive")
    assert texts(lines) == ["one", "two", "~three", "four", "", "…five"]


def test_frames_of_one_bar_collapse_to_the_last_of_a_read_but_each_read_shows_one():
    splitter = LogSplitter()
    first = splitter.feed(b"\r" + b"\r".join(FRAMES[:4]))
    second = splitter.feed(b"\r" + b"\r".join(FRAMES[4:]) + b"\n")
    assert texts(first) == ["~" + FRAMES[2].decode(), "…" + FRAMES[3].decode()]
    assert texts(second) == ["~" + FRAMES[6].decode(), FRAMES[7].decode()]


def test_other_text_glued_on_the_bars_physical_line_is_an_event_of_its_own():
    data = b"\r" + FRAMES[0] + b"\r" + FRAMES[1] + b"\r[TP3] Capture cuda graph begin\r" + FRAMES[2] + b"\r"
    assert texts(feed_in([data])) == [
        "~" + FRAMES[1].decode(),
        "~[TP3] Capture cuda graph begin",
        "…" + FRAMES[2].decode(),
    ]


def test_filled_blocks_of_a_bar_do_not_make_it_another_bar():
    frames = "".join(f"\r{n:3d}%|{'█' * n}▏{' ' * (9 - n)}| {n}/9 [00:0{n}<00:09, 1.{n}it/s]" for n in range(9))
    lines = LogSplitter().feed(frames.encode())
    assert [line.redraw for line in lines] == [True, False]
    assert "7/9" in lines[0].text and "8/9" in lines[1].text


def test_vllm_bars_with_newlines_stay_lines():
    data = b"(Worker_TP0 pid=17) \rLoading shards:  33% | 1/3\n(Worker_TP0 pid=17) \rLoading shards:  66% | 2/3\n"
    assert texts(feed_in([data])) == [
        "~(Worker_TP0 pid=17) ",
        "Loading shards:  33% | 1/3",
        "~(Worker_TP0 pid=17) ",
        "Loading shards:  66% | 2/3",
    ]


def test_an_open_line_is_told_once_a_change():
    splitter = LogSplitter()
    assert texts(splitter.feed(b"abc")) == ["…abc"]
    assert splitter.feed(b"") == []
    assert splitter.feed(b"\r") == []  # may become a newline: the text has not changed
    assert texts(splitter.feed(b"\n")) == ["abc"]


def test_a_letter_cut_in_two_is_not_shown_broken():
    splitter = LogSplitter()
    euro = "10 €".encode()
    assert texts(splitter.feed(euro[:-1])) == ["…10 "]
    assert texts(splitter.feed(euro[-1:] + b"\n")) == ["10 €"]


def test_time_of_arrival_and_cleaning():
    (line,) = LogSplitter().feed(b"\x1b[31mred\x1b[0m \x1b]52;c;aGk=\x1b\\x\0\n", 12.5)
    assert line == LogLine("red x", 12.5)


def test_flush_gives_the_rest_as_a_line_and_forgets_it():
    splitter = LogSplitter()
    splitter.feed(b"half a line\r")
    assert texts(splitter.flush()) == ["half a line"]
    assert texts(splitter.feed(b"\nnew\n")) == ["", "new"]


def test_a_line_without_end_is_bounded_in_memory_and_says_its_length():
    splitter = LogSplitter()
    for _ in range(100):
        splitter.feed(b"x" * 65536)
    assert len(splitter._open) == KEPT
    (line,) = splitter.feed(b"\n")
    assert len(line.text) < 4200
    assert "6553600 bytes" in line.text


def test_twenty_megabytes_of_bar_in_one_read_take_no_second():
    data = b"\r" + b"\r".join(FRAMES * (20_000_000 // sum(map(len, FRAMES))))
    began = time.process_time()
    lines = LogSplitter().feed(data)
    assert len(lines) == 2
    assert time.process_time() - began < 1.0


PIECES = st.sampled_from(
    [b"\r", b"\n", b"\r\n", b"a", b"7%", b"\0", "é█".encode(), b"\xff", b"\x1b[1m", *FRAMES[:2], b"x" * (KEPT - 1)]
)


@given(st.lists(PIECES, max_size=30), st.lists(st.integers(0, 1 << 20), max_size=8))
@example([b"a\r\r\n", b"b"], [2])
@example([b"a", b"\r", b"\0", b"\n"], [2, 3])
def test_any_cut_of_the_bytes_gives_the_same_events(pieces: list[bytes], cuts: list[int]):
    data = b"".join(pieces)
    at = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    whole = feed_in([data])
    cut = feed_in([data[a:b] for a, b in pairwise(at)])
    assert collapsed(cut) == collapsed(whole)


@given(st.binary(max_size=300), st.integers(0, 300))
def test_arbitrary_bytes_never_raise_and_give_clean_text(data: bytes, cut: int):
    lines = feed_in([data[:cut], data[cut:]])
    assert all(line.text.isprintable() for line in lines)
