"""Many launches: each gets its turn, whatever another one costs or comes to, and each has its hosts looked at."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.test_at_rest import launches_that_are
from tui.model import Launch, LaunchView, Verdict, Wanted
from tui.session.looks import Looks
from tui.session.plan import plan_hosts
from tui.session.turns import Turns

MANY = tuple(Launch(f"{n}", f"{n}", ("here",)) for n in range(40))


def test_a_rule_that_breaks_on_one_launch_blinds_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said what broke, the launch that it broke on waits for its next turn, and the rest are judged and shown."""
    watched = launches_that_are("slow", monkeypatch, cost_s=0.01, launches=MANY)
    whole = watched._engine.judge

    def judge(launch: Launch, now: float) -> Any:
        if launch.id == "0":
            raise ZeroDivisionError
        return whole(launch, now)

    monkeypatch.setattr(watched._engine, "judge", judge)
    now, broken = 1000.0, 0
    for _ in range(40):
        now += 0.5
        try:
            watched.judge(now)
        except ZeroDivisionError:
            broken += 1
    assert 0 < broken < 8
    assert len(watched.views) == 39 and all(now - view.verdict.t < 10.0 for view in watched.views)


def test_who_has_no_screen_that_waits_judges_everyone_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """``snapshot`` looks once: no launch may be missing from it, nor be as it was some time ago."""
    watched = launches_that_are("hung", monkeypatch, cost_s=0.01, launches=MANY)
    for now in (1000.0, 1000.1):
        watched.judge(now, everyone=True)
        assert [view.verdict.t for view in watched.views] == [now] * 40


def test_the_launch_that_is_looked_at_does_not_wait_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty at rest have their turn in ten seconds and more; the rows of the one on the screen stay as new as alone."""
    watched = launches_that_are("hung", monkeypatch, cost_s=0.01, launches=MANY)
    now = 1000.0
    for _ in range(60):
        now += 0.5
        watched.judge(now)
    watched.attend("7")
    made: set[float] = set()
    for _ in range(20):
        now += 0.5
        watched.judge(now)
        made.add(watched.views[7].verdict.t)
        assert now - watched.views[7].verdict.t < 2.0
    assert 5 <= len(made) <= 6, "at rest it is judged no more often than it would be alone"
    assert all(now - view.verdict.t < 15.0 for view in watched.views)


def test_what_moves_at_rest_is_looked_at_again_soon() -> None:
    """Work that was seen once, after long quiet, is believed when it goes on: whether it does is not asked when all
    others have had their turn only."""
    turns, doubt = Turns(), {"doubt": 5.0}

    def judge(launch: Launch) -> LaunchView:
        memory = doubt if launch.id == "7" else {"doubt": None}
        end = time.thread_time() + 0.01
        while time.thread_time() < end:
            pass
        return LaunchView(launch, Verdict(now, "hung", since=0.0, memory=memory))

    now = 1000.0
    for _ in range(60):
        now += 0.5
        turns.take(MANY, judge, now)
    assert now - turns.views[7].verdict.t <= 1.0


def test_only_a_monitor_that_stays_looks_at_many_hosts_more_rarely() -> None:
    """``snapshot`` has three seconds: two looks tell no rate."""
    hosts = [f"gpu{n}" for n in range(17)]
    assert plan_hosts(argparse.Namespace(hosts=hosts, interval=None)).interval_s == 2.0
    assert plan_hosts(argparse.Namespace(hosts=hosts, interval=0.5)).interval_s == 0.5
    assert plan_hosts(argparse.Namespace(hosts=hosts[:16], interval=None)).interval_s == 1.0
    assert plan_hosts(argparse.Namespace(hosts=hosts)).interval_s == 1.0


# ----------------------------------------------------------------------------------------------------- looks at a host


class Host:
    """Answers every look, and keeps at whom it was asked to look, and when."""

    def __init__(self) -> None:
        self.now = 100.0
        self.asked: list[tuple[float, str, list[int]]] = []
        self.args: list[Mapping[str, Any]] = []
        self.looks = Looks(self._ask, lambda work, name: asyncio.run(work))

    async def _ask(self, host: str, what: str, args: Mapping[str, Any]) -> dict[str, Any]:
        self.asked.append((self.now, what, [pid for pid, _ in args["procs"]]))
        self.args.append(args)
        return {}

    def want(self, *pids: int, **more: Any) -> None:
        self.looks.want([Wanted("node1", "locks", {"procs": [[pid, 1] for pid in pids], **more})], self.now)


def test_a_launch_whose_turn_comes_between_two_looks_is_not_passed_over() -> None:
    """Two launches of one host are judged four seconds apart, over and over; each is looked at."""
    host = Host()
    for n in range(20):
        host.now += 4.0
        host.want(n % 2)
    assert {pid for _, _, pids in host.asked for pid in pids} == {0, 1}
    assert [at for at, _, _ in host.asked] == [104.0 + 8.0 * n for n in range(10)], "and no more often than before"


def test_what_has_just_been_asked_is_not_asked_again() -> None:
    """The same is wanted until the answer has come with a sample."""
    host = Host()
    for _ in range(7):
        host.want(1, 2)
        host.now += 1.0
    host.now += 8.0
    host.looks.want([], host.now)
    assert host.asked == [(100.0, "locks", [1, 2])]


def test_of_very_many_processes_all_are_looked_at_in_turn() -> None:
    host = Host()
    for _ in range(4):
        for first in range(0, 600, 60):
            host.want(*range(first, first + 60))
        host.now += 8.0
    assert max(len(pids) for _, _, pids in host.asked) == 256
    assert {pid for _, _, pids in host.asked for pid in pids} == set(range(600))


def test_groups_of_the_dead_of_two_launches_are_both_asked_after() -> None:
    host = Host()
    host.want(1, left=[["/a", [9]]])
    host.now += 1.0
    host.want(2, left=[["/b", [8]]])
    host.want(3, left=[["/c", [7]]])
    host.now += 8.0
    host.looks.want([], host.now)
    assert host.args[-1]["left"] == [["/b", [8]], ["/c", [7]]]
