"""Flight recorders: read without running anything of them, and compared over all ranks by process group."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.stacks import desync, flight, pickled
from tui.stacks.called import Called, Finding

TORCH = Path(__file__).parent.parent / "samples" / "torch213"


def records(case: str, suffix: str = "", ranks: Sequence[int] = range(8)) -> dict[int, flight.FlightRecord]:
    return {r: flight.load((TORCH / case / f"comm_lib_trace_rank_{r}{suffix}").read_bytes()) for r in ranks}


# -------------------------------------------------------------------------------------------------- real ones, of gloo


@pytest.mark.parametrize("suffix", ["", ".json"])
def test_rank_5_never_called_what_the_others_wait_in(suffix: str) -> None:
    found = desync.called(records("lock", suffix))
    assert found.blamed == (5,) and found.known == frozenset(range(8))
    assert found.findings[0].kind == "uncalled" and found.findings[0].group == "default_pg"
    assert "its last was 8, which has ended" in found.findings[0].says


@pytest.mark.parametrize("suffix", ["", ".json"])
def test_rank_5_left_out_a_barrier(suffix: str) -> None:
    """By its own past: it called what always came after the barrier. Torch's own analyser blames the other seven."""
    found = desync.called(records("skip", suffix))
    assert found.blamed == (5,) and found.findings[0].kind == "other_call"
    assert found.findings[0].says.endswith("rank 5 left out the barrier, after which that comes")


def test_two_groups_whose_members_the_record_does_not_name() -> None:
    """gloo loses its members in ``pg_config`` where there are several groups."""
    found = desync.called(records("groups"))
    assert found.blamed == (5,) and [f.group for f in found.findings] == ["default_pg"]


def test_without_the_culprits_record_nobody_is_blamed() -> None:
    others = [r for r in range(8) if r != 5]
    for case, said in {"lock": "of rank 5 there is no record", "groups": "who else belongs to it is not told"}.items():
        found = desync.called(records(case, ranks=others))
        assert found.blamed == () and said in found.findings[0].says


def test_the_frames_of_a_record_tell_where_it_was_called() -> None:
    call = records("lock")[0].calls[-1]
    assert (call.op, call.seq, call.place, call.done) == ("all_reduce", 9, "sync_gradients (train.py:19)", False)
    assert records("lock", ".json")[0].calls[-1].place == ""


# ----------------------------------------------------------------------------------------------------- made, of NCCL


def entry(seq: int, op: str = "all_reduce", state: str = "completed", **more: Any) -> dict[str, Any]:
    made = {
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": seq,
        "p2p_seq_id": 0,
        "profiling_name": f"nccl:{op}",
        "input_sizes": [[4]],
        "input_dtypes": ["Float"],
        "state": state,
        "retired": state == "completed",
        "is_p2p": False,
    }
    return made | more


def record(*entries: dict[str, Any], groups: Mapping[str, Sequence[int]] | None = None) -> flight.FlightRecord:
    config = groups if groups is not None else {"0": [*range(8)]}
    return flight.from_value(
        {
            "version": "2.10",
            "pg_config": {k: {"name": k, "desc": k, "ranks": str([*v])} for k, v in config.items()},
            "entries": list(entries),
        }
    )


def team(name: str, title: str) -> dict[str, Any]:
    return {"process_group": (name, title), "pg_id": int(name)}


def run(ops: str, *, last: str = "started", **more: Any) -> list[dict[str, Any]]:
    """``a`` all_reduce, ``b`` barrier, ``g`` all_gather; the last one as ``last``."""
    names = {"a": "all_reduce", "b": "barrier", "g": "all_gather"}
    made = [entry(n, names[op], **more) for n, op in enumerate(ops, 1)]
    made[-1] |= {"state": last, "retired": last == "completed"}
    return made


def only(found: Called) -> Finding:
    (finding,) = found.findings
    return finding


def test_all_have_called_it_and_it_does_not_end() -> None:
    found = only(desync.called({r: record(*run("aaab")) for r in range(8)}))
    assert found.kind == "unfinished" and found.ranks == ()
    assert "no rank's program holds it up" in found.says


def test_a_launch_at_rest_gives_no_finding() -> None:
    assert desync.called({r: record(*run("aaab", last="completed")) for r in range(8)}).findings == ()
    assert desync.called({}).findings == ()


def test_a_record_from_before_the_call_tells_nothing_of_it() -> None:
    """An older file of a rank that could not write a new one: it may have called it since."""
    stuck = run("aab", time_created_ns=1_000_000_000_000)
    made = {r: record(*run("aa", last="completed") if r == 5 else stuck) for r in range(8)}
    assert desync.called(made).blamed == (5,)
    made[5] = replace(made[5], taken_wall=1001.0)
    assert desync.called(made).blamed == (5,)
    made[5] = replace(made[5], taken_wall=990.0)
    found = only(desync.called(made))
    assert found.ranks == () and found.says.startswith("the record of rank 5 is older than collective 3 of default_pg")


def test_called_by_all_but_not_begun_on_one_gpu() -> None:
    found = only(desync.called({r: record(*run("aab", last="scheduled" if r == 3 else "started")) for r in range(8)}))
    assert found.kind == "not_begun" and found.ranks == (3,)


def test_other_sizes_of_the_same_collective() -> None:
    def sized(rank: int) -> flight.FlightRecord:
        last = entry(3, state="started", input_sizes=[[8 if rank == 6 else 4]])
        return record(*run("aa", last="completed"), last)

    found = only(desync.called({r: sized(r) for r in range(8)}))
    assert found.kind == "other_size" and found.ranks == (6,) and "rank 6 with 8 elements" in found.says
    halves = {r: record(entry(1, state="started", input_dtypes=["Half" if r < 4 else "Float"])) for r in range(8)}
    assert only(desync.called(halves)).ranks == (), "of two halves neither is convicted"
    uneven = {r: record(entry(1, "all_to_all", "started", input_sizes=[[r]])) for r in range(8)}
    assert only(desync.called(uneven)).kind == "unfinished"


def test_half_against_half_is_decided_by_what_came_before_or_not_at_all() -> None:
    skipped = {r: record(*run("aabaabaa" + ("a" if r < 4 else "b"))) for r in range(8)}
    assert desync.called(skipped).blamed == (0, 1, 2, 3), "they left out the barrier that always came here"
    ended = {r: record(*run("aaaaaaaa" + ("b" if r < 4 else "a"))) for r in range(8)}
    found = desync.called(ended)
    assert found.blamed == () and "which side is wrong, the records do not tell" in found.findings[0].says
    two = {r: record(*run("aaaa" + "ab"[r]), groups={"0": [0, 1]}) for r in range(2)}
    assert desync.called(two).blamed == ()


def test_a_barrier_that_never_came_before_does_not_convict_those_who_are_in_it() -> None:
    """Seven enter the barrier at the end of an epoch, for the first time; rank 5 goes on with its batches."""
    assert desync.called({r: record(*run("aaaaaa" + ("a" if r == 5 else "b"))) for r in range(8)}).blamed == (5,)
    stuck = {r: record(*run("aaaaaa", last="completed") if r == 5 else run("aaaaaab")) for r in range(8)}
    assert desync.called(stuck).blamed == (5,)


def test_rank_0_alone_in_a_barrier() -> None:
    """Where the barrier never came before it may be wrong; where it always did, the others are late."""
    alone = {r: record(*run("aaaaab") if r == 0 else run("aaaaa", last="completed")) for r in range(8)}
    found = only(desync.called(alone))
    assert found.ranks == () and "it went in alone" in found.says
    usual = {r: record(*run("aabaab") if r == 0 else run("aabaa", last="completed")) for r in range(8)}
    assert desync.called(usual).blamed == (1, 2, 3, 4, 5, 6, 7)


def test_pipeline_stages_reduce_at_their_own_pace() -> None:
    """Two groups at different numbers, each at rest: nothing is wrong."""
    stages = {"1": [0, 1], "2": [2, 3]}
    made = {
        r: record(
            *run("aa" if r < 2 else "aaaaa", last="completed", **team("1" if r < 2 else "2", "dp")), groups=stages
        )
        for r in range(4)
    }
    assert desync.called(made).findings == ()


def test_the_blame_goes_on_to_whom_the_victim_waits_for() -> None:
    """Rank 1 is missed in its data-parallel group because its tensor-parallel group waits for rank 3."""
    groups = {"1": [0, 1], "2": [1, 3]}
    made = {
        0: record(*run("aaa", **team("1", "dp")), groups=groups),
        1: record(*run("aa", last="completed", **team("1", "dp")), *run("gg", **team("2", "tp")), groups=groups),
        3: record(*run("g", last="completed", **team("2", "tp")), groups=groups),
    }
    found = desync.called(made)
    assert found.blamed == (3,)
    assert [(f.group, f.ranks) for f in found.findings] == [("tp", (3,)), ("dp", ())]


def test_groups_that_wait_for_each_other_in_a_circle() -> None:
    groups = {"1": [0, 1], "2": [0, 1]}
    ended: dict[str, Any] = {"last": "completed"}
    made = {
        0: record(*run("aa", **team("1", "dp")), *run("g", **ended, **team("2", "tp")), groups=groups),
        1: record(*run("a", **ended, **team("1", "dp")), *run("gg", **team("2", "tp")), groups=groups),
    }
    found = desync.called(made)
    assert found.blamed == () and found.findings[0].kind == "circle"


def test_a_receive_whose_sender_never_sent() -> None:
    def p2p(seq: int, op: str, state: str) -> dict[str, Any]:
        return entry(0, op, state, is_p2p=True, p2p_seq_id=seq)

    made = {
        0: record(p2p(1, "send 0->1", "completed"), groups={"0": [0, 1]}),
        1: record(p2p(1, "recv 1<-0", "completed"), p2p(2, "recv 1<-0", "started"), groups={"0": [0, 1]}),
    }
    found = only(desync.called(made))
    assert found.ranks == (0,) and "rank 0 has not called its side of recv 2 with rank 1" in found.says


def test_a_status_without_entries_still_tells_who_is_behind() -> None:
    """``TORCH_INCLUDE_ONLY_ACTIVE`` leaves out what has ended."""

    def status(called: int, *entries: dict[str, Any]) -> flight.FlightRecord:
        return flight.from_value(
            {
                "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"}},
                "pg_status": {"0": {"last_enqueued_collective": str(called), "last_completed_collective": "29"}},
                "entries": list(entries),
            }
        )

    made = {0: status(30, entry(30, state="started")), 1: status(29), 2: status(30, entry(30, state="started"))}
    assert desync.called(made).blamed == (1,)


# ---------------------------------------------------------------------------------------------------------- the reader

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 200), 1 << 200) | st.floats(allow_nan=False) | st.text(max_size=300),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.text(max_size=5), inner, max_size=5)
        | st.tuples(inner)
        | st.tuples(inner, inner, inner, inner)
    ),
    max_leaves=30,
)


@settings(max_examples=200)
@given(PLAIN, st.sampled_from([2, 3, 4, 5]))
def test_plain_data_is_read_as_pickle_would(value: object, protocol: int) -> None:
    assert pickled.loads(pickle.dumps(value, protocol=protocol)) == value


class _Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("run",))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (pickle.dumps(_Evil(), 2), "more than data"),
        (pickle.dumps(json.JSONDecodeError, 4), "more than data"),
        (b"\x80\x02}q\x00(X\xff\xff\xff\xffshort", "cut short"),
        (b"\x80\x02]r\xff\xff\xff\xff.", None),
        (b"\x80\x02}K\x01K\x02s.", "no pickle of plain data"),
        (b"\x80\x02\x8b\xff\xff\xff\x7f", "cut short"),
        (b"\x80\x02]]" + b"h" * 9 + b".", "no pickle of plain data"),
        (b"", "cut short"),
        (b"\x80\x02" + b"(" * 1_000_000, "cut short"),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else None,
)
def test_what_is_hostile_is_refused_in_a_sentence_and_at_once(data: bytes, says: str | None) -> None:
    """A memo of 2^32 entries, a string of 4 GiB, integer keys: nothing is reserved for them, and nothing is run."""
    if says is None:
        assert pickled.loads(data) == []
        return
    with pytest.raises(pickled.BadPickle, match=says):
        pickled.loads(data)


def test_nesting_without_end_neither_overflows_nor_lasts() -> None:
    deep = b"\x80\x02" + b"]" * 500_000 + b"a" * 499_999 + b"."
    with pytest.raises(flight.BadRecord):
        flight.load(deep)
    with pytest.raises(flight.BadRecord):
        flight.load(b'{"entries": ' + b"[" * 500_000)


@pytest.mark.parametrize("value", [{}, [], 3, {"entries": 4}, {"entry": []}])
def test_other_data_is_no_record(value: object) -> None:
    with pytest.raises(flight.BadRecord, match="no list of entries"):
        flight.load(pickle.dumps(value, 2))
