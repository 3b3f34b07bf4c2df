"""Nothing that a file may hold makes a reader of stacks fail or linger: truncated, spliced, interleaved, hostile.

``python -m tests.unit.test_stacks_fuzz SECONDS`` goes on for so long, with other throws of the dice each time.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from tui.headless.dump_output import as_json
from tui.stacks import faulthandler, flight, native, pickled, pyspy, ras
from tui.stacks.attribute import apart, attribute
from tui.stacks.evidence import speaks_for
from tui.stacks.merge import merge
from tui.stacks.offline import read
from tui.stacks.tree import draw, tree

SAMPLES = Path(__file__).parent.parent / "samples"
FILES = [p for p in sorted(SAMPLES.rglob("*")) if p.is_file() and p.stat().st_size < 24_000]
CONTENTS = [p.read_bytes() for p in FILES]
PICKLES = [c for c in CONTENTS if c[:1] == b"\x80"]
TEXTS = [c for c in CONTENTS if c[:1] != b"\x80"]

SECONDS = 3.0
"""CPU time for one input of at most some 100 KB; far more than any needs, far less than what grows with its square."""

HOSTILE = st.sampled_from(
    [
        b"\x1b[2J", b"\x00", b"\xff\xfe", b"\r", b"\n\n", b"  File \"", b"Thread 0x", b"Process 1: x\n", b"{",
        b"[" * 5000,
        b"(" * 3000, b"q" * 3000, b"]" * 3000, b"Extension modules: " * 300, b"frame #1: " * 500, b"9" * 5000,
        b"Fatal Python error: ", b"r\xff\xff\xff\xff", b"X\xff\xff\xff\x7f", b"\x8b\xff\xff\xff\x7f", b"...\n" * 200,
        b"#0-0 (", b"Rank 99999999999999999999 -- ", b'"entries": ', b"NCCL version ", b"1e999",
        "\u202e\u0131".encode(),
    ]
)  # fmt: skip


@st.composite
def broken(draw_: st.DrawFn, pool: list[bytes]) -> bytes:
    """A sample with pieces lost, doubled, exchanged, spliced in from another one, or its lines mixed with another's."""
    data = draw_(st.sampled_from(pool))
    for _ in range(draw_(st.integers(0, 4))):
        at = draw_(st.integers(0, len(data)))
        much = draw_(st.integers(0, 400))
        how = draw_(st.sampled_from(["cut", "drop", "double", "byte", "hostile", "splice", "mix"]))
        if how == "cut":
            data = data[:at]
        elif how == "drop":
            data = data[:at] + data[at + much :]
        elif how == "double":
            data = data[:at] + data[at : at + much] * draw_(st.integers(2, 9)) + data[at + much :]
        elif how == "byte":
            data = data[:at] + bytes([draw_(st.integers(0, 255))]) + data[at + 1 :]
        elif how == "hostile":
            data = data[:at] + draw_(HOSTILE) + data[at:]
        else:
            other = draw_(st.sampled_from(CONTENTS))
            data = data[:at] + other[-much * 8 :] if how == "splice" else _mixed(data, other, draw_(st.integers(0, 99)))
    return data[:120_000]


def _mixed(one: bytes, other: bytes, throw: int) -> bytes:
    rng = random.Random(throw)
    sides = [one.splitlines(keepends=True)[::-1], other.splitlines(keepends=True)[::-1]]
    lines: list[bytes] = []
    while any(sides):
        lines.append(rng.choice([side for side in sides if side]).pop())
    return b"".join(lines)


def read_all(files: dict[str, bytes]) -> None:
    """Every step of ``dump --from`` and of the verdict's evidence."""
    reading = read(files.items())
    merged = merge(reading.processes, reading.called, reading.before)
    said = speaks_for(reading.processes, reading.called, reading.before)
    assert draw(tree(merged.groups)) is not None
    json.dumps([as_json(reading.processes, merged, reading.called), said.as_fact("x")])
    assert merged.why == "" or merged.why.endswith(".")


def each_parser(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    dumps = faulthandler.parse(text)
    attribute(dumps, {0: dumps[0].threads} if dumps else {})
    apart(dumps)
    for parse in (pyspy.from_text, native.c10, native.gdb, native.pystack):
        parse(text)
    or_a_sentence(pickled.BadPickle, pickled.loads, data)
    or_a_sentence(flight.BadRecord, flight.load, data)
    or_a_sentence(ras.BadAnswer, lambda: ras.called(ras.parse(text), ras.parse(text)))


def or_a_sentence(error: type[Exception], work: Callable[..., object], *args: object) -> None:
    try:
        work(*args)
    except error as said:
        assert str(said) and "\n" not in str(said)


def within(work: Callable[..., object], *args: object) -> None:
    began = time.process_time()
    work(*args)
    assert time.process_time() - began < SECONDS


CHECKED = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
NAMES = st.sampled_from(
    ["rank1.log", "rank2.json", "nccl_trace_rank_3", "trace4", "VLLM_STACK_DUMP_for_worker_1_77.log", "x"]
)


@CHECKED
@given(broken(TEXTS))
def test_no_text_makes_a_parser_fail_or_linger(data: bytes) -> None:
    within(each_parser, data)


@CHECKED
@given(broken(PICKLES) | st.binary(max_size=3000).map(lambda tail: b"\x80\x02" + tail))
def test_no_pickle_makes_a_reader_fail_or_linger(data: bytes) -> None:
    within(each_parser, data)


@CHECKED
@given(st.dictionaries(NAMES, broken(CONTENTS), min_size=1, max_size=4))
def test_no_folder_makes_the_dump_fail_or_linger(files: dict[str, bytes]) -> None:
    within(read_all, files)


def lines(pattern: str, n: int = 12_000) -> bytes:
    return "".join(pattern.format(n=number) for number in range(n)).encode()


LONG = {
    "headers": lines('Thread 0x{n:016x} (most recent call first):\n  File "a.py", line 1 in f\n'),
    "mixed dumps": lines("Fatal Python error: Aborted\n\nThread 0x{n:016x} (most recent call first):\n"),
    "extension modules": b"Extension modules: " * 50_000,
    "processes of py-spy": lines("Process {n}: x\nThread {n} (idle)\n    f (a.py:1)\n"),
    "one frame of py-spy": b"Process 1: x\nThread 1 (idle)\n    f" + b" (a" * 300_000,
    "writers": lines('{n}: Thread 0x1 (most recent call first):\n{n}:   File "a.py", line 1 in f\n'),
    "processes of c10": lines("SIGABRT(6), PID: {n}, Thread {n}:\nframe #0: f + 0x1 (0x1 in x)\n"),
    "processes of gdb": lines("Thread 1 (LWP {n}):\n#0 f (x) at a.c:1\n"),
    "members of RAS": b"NCCL version 2\nCommunicators...\n#0-0 (1) MISMATCH\n"
    + b"Communicator ranks have different AllReduce operation counts\n"
    + lines("Rank {n} has launched up to operation {n} -- GPU 0 managed by process 1 on node x\n"),
    "communicators of RAS": b"NCCL version 2\nCommunicators...\n 0 1 1 9 131000 9 RUNNING MISMATCH\n"
    + lines("#0-{n} ({n:x}) MISMATCH\nCommunicator ranks have different AllReduce operation counts\n"
            "131000 ranks have launched up to operation 1\n"),
    "groups of a record": b'{"entries":['
    + lines('{{"collective_seq_id":1,"profiling_name":"nccl:x","pg_id":{n}}},') + b"{}]}",
    "lists of a pickle": b"\x80\x02" + b"]" * 500_000 + b".",
    "nested JSON": b"[" * 500_000,
}  # fmt: skip


@pytest.mark.parametrize("kind", LONG)
def test_what_is_long_and_hostile_takes_time_in_proportion(kind: str) -> None:
    """Half a megabyte or more of each: what grows with the square of its length would take minutes."""
    within(read_all, {"rank1": LONG[kind]})


def _within(work: Callable[..., object]) -> Callable[[object], None]:
    def one(value: object) -> None:
        within(work, value)

    return one


def main(seconds: float) -> None:
    began, n = time.monotonic(), 0
    more = settings(CHECKED, max_examples=500, database=None)
    while time.monotonic() - began < seconds:
        for given_, check, work in (
            (broken(TEXTS), "texts", each_parser),
            (broken(PICKLES) | st.binary(max_size=3000).map(lambda tail: b"\x80\x02" + tail), "pickles", each_parser),
            (st.dictionaries(NAMES, broken(CONTENTS), min_size=1, max_size=4), "folders", read_all),
        ):
            throw = random.SystemRandom().getrandbits(64)
            print(f"{time.monotonic() - began:5.0f} s  {n:7} inputs; {check}, seed {throw}", flush=True)

            seed(throw)(more(given(given_)(_within(work))))()
            n += 500
    print(f"{n} inputs in {time.monotonic() - began:.0f} s, no exception")


if __name__ == "__main__":
    main(float(sys.argv[1]))
