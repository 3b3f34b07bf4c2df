"""What the agent reads of processes and the wire, on hostile and odd input."""

from __future__ import annotations

import json
import os
import zlib

from hypothesis import given
from hypothesis import strategies as st

from tui.agent.identity import command_line, environment
from tui.agent.nvml import Counter, _within
from tui.agent.procfs import Stat
from tui.agent.procs import Kin
from tui.agent.wire import SYNC, Input, Output, spliced
from tui.collect import payload

STAT = b"17 (%s) S 1 17 17 0 -1 4194560 2 0 3 0 150 50 9 9 20 0 7 0 4242 1000 256 18446744073709551615 1 1 0"


@given(st.binary(max_size=15).filter(lambda name: b"\0" not in name))
def test_stat_with_any_command_name(name: bytes) -> None:
    """Blanks, parentheses and line feeds in a name do not shift the fields."""
    stat = Stat(STAT % name)
    assert (stat.comm, stat.state, stat.ppid, stat.start_ticks, stat.threads) == (name, "S", 1, 4242, 7)
    assert stat.cpu_s == 200 / os.sysconf("SC_CLK_TCK")
    assert (stat.minor_faults, stat.major_faults, stat.kernel) == (2, 3, False)


def test_environment_after_setproctitle_reads_as_zeros() -> None:
    """The kernel then shows the title and zeros where the variables were."""
    assert environment(b"\0" * 4000) == {}
    assert environment(b"glang::scheduler_TP0\0" + b"\0" * 100) == {}


def test_environment_lets_only_harmless_names_through() -> None:
    """Allow-list first, then anything that smells of a secret is dropped, by name or by value."""
    wanted = {
        "RANK": "0",
        "NCCL_SOCKET_IFNAME": "eth0",
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
        "TORCH_FR_BUFFER_SIZE": "2000",
        "SLURM_JOB_ID": "1",
        "VLLM_MAX_TOKENS_PADDING": "8",
    }
    secret = {"VLLM_API_KEY": "x", "SGLANG_AUTH_TOKEN": "x", "SLURM_JWT": "x", "MASTER_PASSWORD": "x", "HOME": "/root"}
    secret |= {"NCCL_WHATEVER": "sk-abc", "RANKING": "1", "AWS_SECRET_ACCESS_KEY": "x"}
    raw = b"".join(f"{name}={value}\0".encode() for name, value in {**wanted, **secret}.items())
    assert environment(raw) == wanted


def test_command_lines_are_bounded_and_undecodable_bytes_survive() -> None:
    """A megabyte of arguments, a lone surrogate, an empty command line."""
    assert sum(map(len, command_line(b"a" * 1_000_000))) == 8192
    assert json.loads(json.dumps(command_line(b"x\0\xff\0")))[1] == "\udcff"
    assert command_line(b"") == []
    assert command_line(b"python\0\0x\0") == ["python", "", "x"]


@given(
    st.lists(
        st.lists(st.tuples(st.integers(1, 5), st.sampled_from([b"sh", b"cc1", b"python"])), unique_by=lambda c: c[0]),
        max_size=12,
    )
)
def test_child_counters_only_grow(ticks: list[list[tuple[int, bytes]]]) -> None:
    """Children that come, burn, rename themselves and end in any order never make a group's counter shrink."""
    kin, burnt = Kin(), dict.fromkeys(range(1, 6), 0)
    before: dict[object, float] = {}
    for children in ticks:
        members: list[tuple[int, Stat]] = []
        for pid, name in children:
            burnt[pid] += 10
            raw = STAT.replace(b" 150 50 ", b" %d 0 " % burnt[pid]) % name
            members.append((pid, Stat(raw)))
        after = {comm: cpu_s for comm, _, cpu_s in kin.update(members)}
        assert all(after[comm] >= cpu_s for comm, cpu_s in before.items())
        before = after


def test_a_counter_that_wraps_gives_no_rate() -> None:
    """Unknown for that interval, and right again after it."""
    counter = Counter()
    assert [counter.rate(value, now) for now, value in enumerate([100, 300, 50, 150, None, 200, 400])] == [
        None,
        200,
        None,
        100,
        None,
        None,
        200,
    ]


@given(st.sampled_from([-1, 2**31 - 16, 2**32 - 1, 2**63 - 1, 2**64 - 1, -2, 3.7e6]))
def test_sentinels_are_unknown(value: float) -> None:
    """What drivers return for "not available" is outside of what a GPU can show."""
    assert _within(value, 0, 3000) is None


def test_requests_arrive_in_any_pieces() -> None:
    """Split anywhere, with garbage between: each whole object once, in order."""
    reader, writer = os.pipe()
    channel = Input(reader)
    data = b'{"a": 1}\nnonsense\n[1]\n{"b": "\xc3\xa4"}\n{"c": 3}\n'
    requests = []
    for at in range(0, len(data), 3):
        os.write(writer, data[at : at + 3])
        requests += channel.requests()
    assert requests == [{"a": 1}, {"b": "ä"}, {"c": 3}]
    assert not channel.ended
    os.close(writer)
    assert channel.requests() == []
    assert channel.ended
    os.close(reader)


def test_frames_survive_a_reader_that_is_slow() -> None:
    """Nothing blocks, nothing is lost: what did not fit goes out later, in one zlib stream behind the marker."""
    reader, writer = os.pipe()
    output = Output(writer)
    frames = [spliced({"n": n, "noise": os.urandom(3000).hex()}, extra=b"[1,2]") for n in range(40)]
    for frame in frames:
        output.frame(frame)
    assert output.full
    received = b""
    while output.full:
        received += os.read(reader, 1 << 16)
        output.flush()
    os.set_blocking(reader, False)
    received += os.read(reader, 1 << 20)
    assert SYNC == payload.SYNC
    assert received.startswith(SYNC)
    text = zlib.decompressobj().decompress(received[len(SYNC) :])
    assert text.split(b"\n")[:-1] == frames
    assert json.loads(frames[3])["extra"] == [1, 2]
    os.close(reader)
    os.close(writer)


def test_splicing_into_an_empty_object() -> None:
    """The fragment's comma is only there where something precedes it."""
    assert json.loads(spliced({}, logs=b"[]")) == {"logs": []}
