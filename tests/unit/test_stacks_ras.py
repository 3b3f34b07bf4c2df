"""Answers of NCCL RAS, text and JSON: who is lost, who is behind, and what only two looks can tell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tui.stacks import ras
from tui.stacks.called import Called

SAMPLES = Path(__file__).parent.parent / "samples" / "ras"
SEATS = [ras.Seat("gpu01", 4188 + r, r + 10, ("127.0.0.1", "10.0.0.1")) for r in range(8)]

MISMATCH = """NCCL version 2.30.7 compiled with CUDA 13.0

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         1         8         8         8   RUNNING  MISMATCH

Warnings
========

#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different AllReduce operation counts
"""


def sample(name: str) -> ras.Answer:
    return ras.parse((SAMPLES / name).read_text())


def text(*lines: str) -> ras.Answer:
    return ras.parse(MISMATCH + "".join(f"  {line}\n" for line in lines))


def counted(**by_rank: int) -> ras.Answer:
    """JSON of eight ranks, all at 6650 but those given (``r5=6649``)."""
    value = json.loads((SAMPLES / "ok.json.txt").read_text())
    for rank in value["communicators"][0]["ranks"]:
        rank["collective_counts"]["AllReduce"] = by_rank.get(f"r{rank['rank']}", by_rank.get("all", 6650))
    return ras.from_value(value)


def twice(answer: ras.Answer, seats: list[ras.Seat] = SEATS) -> Called:
    return ras.called(answer, answer, seats, 3.0)


@pytest.mark.parametrize("name", ["dead.json.txt", "dead.text.txt"])
def test_a_dead_rank_is_named_and_joined_to_ours_by_host_and_pid(name: str) -> None:
    found = twice(sample(name))
    assert found.blamed == (15,) and found.findings[0].kind == "gone"
    assert found.findings[0].says == "NCCL considers rank 15 (process 4193 on 127.0.0.1) dead"
    assert ras.called(sample(name), None).blamed == (5,), "without our ranks NCCL's own number stands"


def test_json_that_lacks_a_comma_is_repaired() -> None:
    """NCCL 2.28.7 and 2.28.9, wherever a rank is missing."""
    broken = (SAMPLES / "dead.json.txt").read_text().replace('"nvml_dev": 5,', '"nvml_dev": 5')
    with pytest.raises(ValueError, match="delimiter"):
        json.loads(broken)
    assert ras.parse(broken) == sample("dead.json.txt")


def test_the_handshake_before_and_anything_after_the_answer_do_no_harm() -> None:
    body = (SAMPLES / "ok.json.txt").read_text()
    assert ras.parse(f"SERVER PROTOCOL 2\r\nOK\r\nOK\r\n{body}trailing").comms == sample("ok.json.txt").comms


def test_a_rank_that_has_launched_fewer_collectives_at_two_looks_is_behind() -> None:
    late = counted(r5=6649)
    found = twice(late)
    assert found.blamed == (15,)
    assert found.findings[0].says == (
        "rank 15 (process 4193 on 127.0.0.1) has launched 6649 AllReduce, the furthest 6650, and nothing moved in 3 s"
    )
    once = ras.called(late, None, SEATS)
    assert once.blamed == () and once.findings[0].says.endswith("at one look")


def test_counts_that_move_are_no_hang() -> None:
    found = ras.called(counted(r5=6649), counted(all=6700, r5=6698), SEATS, 3.0)
    assert found.moves and found.blamed == ()


def test_all_alike_and_frozen_is_not_the_programs_fault() -> None:
    found = twice(counted())
    assert found.blamed == () and "look at the GPUs and the network" in found.findings[0].says
    assert twice(sample("ok.text.txt")).findings[0].says == "NCCL sees no rank behind and none lost"


def test_the_laggards_that_text_leaves_out_are_those_that_it_does_not_name() -> None:
    """NVIDIA/nccl issue 1911: two leaders are listed, thirty stragglers are not."""
    found = twice(
        text(
            "6 ranks have launched up to operation 6649",
            "2 ranks have launched up to operation 6650",
            "Rank 2 -- GPU 2 managed by process 4190 on node 10.0.0.1",
            "Rank 5 -- GPU 5 (NVML 3) managed by process 4193 on node 10.0.0.1",
        ),
        [],
    )
    assert found.blamed == (0, 1, 3, 4, 6, 7)


def test_one_named_laggard_and_those_that_are_further_behind_but_unnamed() -> None:
    found = twice(
        text(
            "7 ranks have launched up to operation 6650",
            "Rank 5 has launched up to operation 6649 -- GPU 5 managed by process 4193 on node 10.0.0.1",
        )
    )
    assert found.blamed == (15,)
    hidden = text(
        "5 ranks have launched up to operation 6650",
        "2 ranks have launched up to operation 6640",
        "Rank 5 has launched up to operation 6649 -- GPU 5 managed by process 4193 on node 10.0.0.1",
    )
    assert twice(hidden).blamed == () or 15 not in twice(hidden).blamed


def test_a_rank_that_has_launched_nothing_yet() -> None:
    found = twice(
        text(
            "7 ranks have launched up to operation 1",
            "Rank 5 has not launched any operations -- GPU 5 managed by process 4193 on node 10.0.0.1",
        )
    )
    assert found.blamed == (15,) and "has launched 0 AllReduce" in found.findings[0].says


def test_a_member_of_a_small_communicator_is_no_rank_of_the_launch_by_its_number() -> None:
    """Rank 1 of a tensor-parallel pair need not be the launch's rank 1."""
    value = json.loads((SAMPLES / "dead.json.txt").read_text())
    small = json.loads(json.dumps(value["communicators"][0]))
    small |= {"hash": "0x1", "size": 2, "ranks": small["ranks"][:1], "ranks_count": 1}
    small["missing_ranks"][0] |= {"rank": 1, "pid": 999}
    value["communicators"] = [small]
    found = twice(ras.from_value(value))
    assert found.blamed == () and found.findings[0].says == "NCCL considers process 999 on 127.0.0.1 dead"


def test_a_communicator_that_is_still_being_set_up() -> None:
    value = json.loads((SAMPLES / "ok.json.txt").read_text())
    for rank in value["communicators"][0]["ranks"]:
        rank["status"]["init_state"] = 7
        rank["collective_counts"] = {}
    found = twice(ras.from_value(value))
    assert "a communicator is still being set up" in found.findings[0].says


@pytest.mark.parametrize("said", ["", "OK", "ERROR: Unknown command", '{"communicators": [', '{"communicators": {}}'])
def test_what_is_no_answer_is_refused_in_a_sentence(said: str) -> None:
    with pytest.raises(ras.BadAnswer):
        ras.parse(said)
