"""Dumps of several processes in one file are taken apart by their thread ids, whatever the order of the lines."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tui.model import ThreadStack
from tui.stacks import faulthandler, pyspy
from tui.stacks.attribute import apart, attribute
from tui.stacks.frames import bare

SAMPLES = Path(__file__).parent.parent / "samples"
TEXTS = [(SAMPLES / "gloo8" / f"rank{rank}.stderr.log").read_text() for rank in range(8)]


def known() -> dict[int, tuple[ThreadStack, ...]]:
    return {
        rank: pyspy.from_json(json.loads((SAMPLES / "gloo8" / f"rank{rank}.pyspy.json").read_text()))
        for rank in range(8)
    }


def shuffled(pieces: list[list[str]], seed: int) -> str:
    """The pieces of all writers, each writer's own in order, the writers mixed at random."""
    rng = random.Random(seed)
    left = [list(reversed(own)) for own in pieces]
    mixed: list[str] = []
    while any(left):
        mixed.append(rng.choice([own for own in left if own]).pop())
    return "".join(mixed)


def blocks(text: str) -> list[str]:
    """A dump as blocks that end with an empty line."""
    return [block + "\n\n" for block in text.split("\n\n")]


def plain(threads: tuple[ThreadStack, ...]) -> dict[int | None, list[tuple[str, int]]]:
    return {t.thread_id: [(bare(f.function), f.line) for f in t.frames] for t in threads}


def test_dumps_one_after_another_in_one_file() -> None:
    found = attribute(faulthandler.parse("".join(TEXTS)), known())
    assert {rank: plain(d.threads) for rank, d in found.owned.items()} == {r: plain(t) for r, t in known().items()}
    assert not found.strays
    assert found.owned[5].threads[0].main
    assert {t.name for t in found.owned[5].threads} == {"MainThread", "heartbeat", "cache-evictor"}
    assert found.owned[5].threads[0].os_thread_id == 4193


@pytest.mark.parametrize("seed", range(20))
def test_blocks_of_eight_processes_mixed(seed: int) -> None:
    found = attribute(faulthandler.parse(shuffled([blocks(t) for t in TEXTS], seed)), known())
    assert {rank: plain(d.threads) for rank, d in found.owned.items()} == {r: plain(t) for r, t in known().items()}
    assert not found.strays


@pytest.mark.parametrize("seed", range(20))
def test_single_lines_of_eight_processes_mixed(seed: int) -> None:
    """Nobody can say from the text alone whose a line is; the stacks taken before can, and the doubt is marked."""
    found = attribute(faulthandler.parse(shuffled([t.splitlines(keepends=True) for t in TEXTS], seed)), known())
    assert {rank: plain(d.threads) for rank, d in found.owned.items()} == {r: plain(t) for r, t in known().items()}
    assert all(d.torn for d in found.owned.values())


@pytest.mark.parametrize("seed", range(20))
def test_mixed_blocks_without_any_knowledge_come_apart_by_address(seed: int) -> None:
    dumps = apart(faulthandler.parse(shuffled([blocks(t) for t in TEXTS], seed)))
    assert sorted(sorted(plain(d.threads)) for d in dumps) == sorted(sorted(plain(t)) for t in known().values())
    assert all(sum(t.main for t in d.threads) == 1 for d in dumps)


def test_a_thread_that_began_later_goes_with_its_process() -> None:
    before = {rank: tuple(t for t in threads if t.main) for rank, threads in known().items()}
    found = attribute(faulthandler.parse(shuffled([blocks(t) for t in TEXTS], 1)), before)
    assert {rank: set(plain(d.threads)) for rank, d in found.owned.items()} == {
        r: set(plain(t)) for r, t in known().items()
    }


def test_a_dump_of_a_stranger_is_nobodys() -> None:
    theirs = (SAMPLES / "faulthandler" / "3.11.7.env.stderr").read_text()
    found = attribute(faulthandler.parse(theirs), known())
    assert not found.owned
    assert len(found.strays) == 1


@pytest.mark.parametrize("seed", range(5))
def test_a_stranger_whose_addresses_lie_beside_a_known_process_stays_a_stranger(seed: int) -> None:
    """Where libraries land is random over 2^40 bytes: of eight processes two are near each other one time in nine."""
    stacks = known()
    main = {rank: next(t.thread_id or 0 for t in threads if t.main) for rank, threads in stacks.items()}
    text = TEXTS[5]
    for thread in stacks[5]:
        moved = (thread.thread_id or 0) - main[5] + main[2] + (6 << 30)
        text = text.replace(f"0x{thread.thread_id:016x}", f"0x{moved:016x}")
    del stacks[5]
    others = [TEXTS[rank] for rank in range(8) if rank != 5]
    found = attribute(faulthandler.parse(shuffled([blocks(t) for t in [*others, text]], seed)), stacks)
    assert sorted(found.owned) == [0, 1, 2, 3, 4, 6, 7]
    assert {rank: plain(d.threads) for rank, d in found.owned.items()} == {r: plain(t) for r, t in stacks.items()}
    assert sum(len(stray.threads) for stray in found.strays) == 3
