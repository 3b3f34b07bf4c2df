"""An agent's stream is read however it is cut and whatever a login prints before it; a hostile one is given up."""

from __future__ import annotations

import json
import time
import tracemalloc
import zlib
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tui.collect.payload import SYNC
from tui.collect.wire import FRAME_LIMIT, NOISE_LIMIT, FrameReader
from tui.errors import HostError


def stream(*frames: Any, noise: bytes = b"") -> bytes:
    """What an agent sends: a sync flush behind each frame of one zlib stream."""
    deflate = zlib.compressobj()
    body = b"".join(
        deflate.compress(json.dumps(frame).encode() + b"\n") + deflate.flush(zlib.Z_SYNC_FLUSH) for frame in frames
    )
    return noise + SYNC + body


def deflated(data: bytes) -> bytes:
    deflate = zlib.compressobj()
    return SYNC + deflate.compress(data) + deflate.flush(zlib.Z_SYNC_FLUSH)


FRAMES = [{"type": "hello", "n": 1}, {"type": "tick", "text": "é\udcff\n" * 100}, {"type": "tick"}]


@given(st.lists(st.integers(0, 4000), max_size=10), st.binary(max_size=100))
def test_any_cut_of_the_stream_gives_the_same_frames(cuts: list[int], noise: bytes):
    assume(SYNC not in noise)
    data = stream(*FRAMES, noise=noise + SYNC[:5])
    at = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    reader = FrameReader()
    frames = [frame for a, b in pairwise(at) for frame in reader.feed(data[a:b])]
    assert frames == FRAMES


def test_each_frame_is_there_as_soon_as_its_flush_is():
    reader = FrameReader()
    first = stream(FRAMES[0])
    assert list(reader.feed(first)) == FRAMES[:1]


def test_the_last_words_of_a_login_are_kept_for_the_sentence():
    reader = FrameReader()
    assert list(reader.feed(b"Welcome\r\n\x1b[31mThis account is\x1b[0m disabled.\r\n\n")) == []
    assert reader.noise_tail() == "This account is disabled."


def test_a_login_that_prints_without_end_is_given_up_at_one_mebibyte():
    reader = FrameReader()
    with pytest.raises(HostError, match="over 1 MiB"):
        for _ in range(NOISE_LIMIT // 65536 + 1):
            list(reader.feed(b"x" * 65536))
    assert len(reader._noise) < 200_000


def test_a_frame_without_end_is_given_up_before_it_fills_the_memory():
    bomb = deflated(b" " * (FRAME_LIMIT * 4))  # 256 MiB in 256 KiB
    tracemalloc.start()
    try:
        with pytest.raises(HostError, match="without an end"):
            list(FrameReader().feed(bomb))
        assert tracemalloc.get_traced_memory()[1] < 3 * FRAME_LIMIT
    finally:
        tracemalloc.stop()


def test_a_large_frame_that_ends_is_read_in_linear_time():
    frame = {"type": "answer", "data": "A" * (16 << 20)}
    data = stream(frame)
    began = time.process_time()
    assert list(FrameReader().feed(data)) == [frame]
    assert time.process_time() - began < 2


def test_a_flood_of_empty_frames_is_given_up():
    with pytest.raises(HostError, match="floods"):
        list(FrameReader().feed(deflated(b"{}\n" * 100_000)))


@pytest.mark.parametrize(
    "line",
    [b"[1]\n", b"{\n", b"\xff\xfe\n", b'"text"\n', b"[" * 100_000 + b"\n", b'{"a": ' + b"9" * 5000 + b"}\n\n"],
    ids=["a list", "half", "not UTF-8", "text", "nested beyond reason", "an empty line"],
)
def test_a_line_that_is_no_frame_is_given_up_with_a_sentence(line: bytes):
    with pytest.raises(HostError, match="no agent's frames"):
        list(FrameReader().feed(deflated(line)))


def test_bytes_that_are_no_zlib_stream_are_given_up_with_a_sentence():
    with pytest.raises(HostError, match="no agent's frames"):
        list(FrameReader().feed(SYNC + b"hello, this is plain text"))
