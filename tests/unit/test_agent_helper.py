"""Disposable helpers, with real forks: what hangs is named, killed and replaced; what crashes too."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from tui.agent import identities, identity, wire
from tui.agent.helper import Helper
from tui.agent.loop import Loop
from tui.agent.procs import Census


def work(mark: Callable[[str, float], None]) -> Callable[[Any], bytes]:
    """Items that hang, crash, take long but move, or just answer."""

    def handle(request: list[str]) -> bytes:
        for item in request:
            mark(item, 0.3)
            if item == "hang":
                time.sleep(60)
            if item == "crash":
                os.abort()
            if item == "slow":
                time.sleep(0.2)
        return b"|".join(item.encode() for item in request)

    return handle


class Seen:
    def __init__(self) -> None:
        self.loop = Loop()
        self.answers: list[bytes] = []
        self.lost: list[tuple[str, str]] = []
        self.helper = Helper(self.loop, work, self._answered, self._lost)

    def run(self, seconds: float = 3.0) -> None:
        """Until something comes."""
        self.loop.stopped = False
        self.loop.after(seconds, self._stop)
        self.loop.run()

    def _stop(self) -> None:
        self.loop.stopped = True

    def _answered(self, answer: bytes) -> None:
        self.answers.append(answer)
        self._stop()

    def _lost(self, item: str, reason: str) -> None:
        self.lost.append((item, reason))
        self._stop()


def test_answers_come_one_for_one() -> None:
    """The same child serves many requests."""
    seen = Seen()
    pids = set()
    for text in ("a", "b", "c"):
        assert seen.helper.ask([text])
        seen.run()
        pids.add(seen.helper.pid)
    assert seen.answers == [b"a", b"b", b"c"]
    assert len(pids) == 1
    seen.helper.end()


def test_a_hanging_item_is_named_and_the_next_request_gets_a_new_child() -> None:
    """Killed within its own time though earlier items were allowed more, and reaped."""
    seen = Seen()
    seen.helper.ask(["a", "hang", "b"])
    first = seen.helper.pid
    started = time.monotonic()
    seen.run()
    assert time.monotonic() - started < 2.0
    assert seen.lost == [("hang", "late")]
    time.sleep(0.1)
    assert seen.helper.ask(["c"])
    assert seen.helper.pid != first
    seen.run()
    assert seen.answers == [b"c"]
    assert not seen.helper.stuck
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)
    seen.helper.end()


def test_a_crash_is_told_from_a_hang() -> None:
    """A native crash in a driver's library costs the child, not the agent."""
    seen = Seen()
    seen.helper.ask(["a", "crash"])
    seen.run()
    assert seen.lost == [("crash", "died")]


def test_many_slow_items_are_no_hang() -> None:
    """Each item has its own time: a request may take longer than any one of them."""
    seen = Seen()
    seen.helper.ask(["slow"] * 8)
    seen.run(5.0)
    assert seen.answers == [b"|".join([b"slow"] * 8)]
    seen.helper.end()


def test_a_main_process_that_was_held_up_blames_nobody() -> None:
    """A starved or stopped agent must not take its own absence for a helper's."""
    seen = Seen()
    seen.helper.ask(["slow"] * 8)
    seen.loop.after(0.1, lambda: time.sleep(1.5))
    seen.run(5.0)
    assert (seen.lost, len(seen.answers)) == ([], 1)
    seen.helper.end()


def test_a_process_that_cannot_be_read_costs_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading one command line never returns (as behind an owner in an uninterruptible wait): it is announced by
    its name with a sentence, and all others are announced in full."""
    own = os.getpid()

    def hanging(mark: Callable[[str, float], None]) -> Callable[[list[int]], bytes]:
        reader = identity.Reader(mark)
        read_row = reader._row

        def row(pid: int) -> dict[str, object] | None:
            if pid == own:
                time.sleep(60)
            return read_row(pid)

        reader._row = row  # type: ignore[method-assign]
        return lambda procs: wire.encode(reader.batch(procs)).encode()

    monkeypatch.setattr(identity, "work", hanging)
    monkeypatch.setattr(identity, "MAY_TAKE_S", 0.3)
    monkeypatch.setattr("tui.agent.procs.OWN", -1)
    loop = Loop()
    census = Census()
    census.update(b"1")
    others = {pid for pid in census.new if pid != own}

    def done() -> None:
        loop.stopped = True

    reading = identities.Identities(loop, census, done)
    reading.update([])
    loop.after(10.0, done)
    loop.run()
    rows = {row["pid"]: row for row in reading.take()}
    reading.helper.end()
    assert "does not return" in str(rows[own]["error"])
    assert rows[own]["comm"]
    assert len(others & set(rows)) > 0.8 * len(others)
    assert all("does not return" not in str(rows[pid].get("error")) for pid in others & set(rows))
