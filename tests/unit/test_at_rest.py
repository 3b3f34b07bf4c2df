"""How often launches are judged: every second while something may come of it, half as often at rest, many in turns."""

from __future__ import annotations

import time
from collections.abc import Coroutine
from typing import Any

import pytest

from tui.collect.host import Host
from tui.collect.local import LocalChannel
from tui.model import Launch, LaunchView, LogLine, LogUpdate, Sample, Verdict
from tui.session.launches import Launches
from tui.session.plan import Plan
from tui.session.turns import AT_ONCE_S, AT_REST_AFTER_S

HERE = Launch("one", "one", ("here",))


def launches_that_are(
    verdict: str, monkeypatch: pytest.MonkeyPatch, cost_s: float = 0.0, launches: tuple[Launch, ...] = (HERE,)
) -> Launches:
    """Launches that have this verdict, since time 0, whatever is seen, at a cost of so much CPU time each."""
    here = Host("here", LocalChannel(), None)  # type: ignore[arg-type]  # it is never connected
    watched = Launches(Plan(channels=()), {"here": here}, {}, look=_nothing, spawn=_not_begun, changed=lambda: None)

    def judge(launch: Launch, now: float) -> tuple[LaunchView, list[Any]]:
        end = time.thread_time() + cost_s
        while time.thread_time() < end:
            pass
        return LaunchView(launch, Verdict(now, verdict, since=0.0)), []

    monkeypatch.setattr(watched._engine, "judge", judge)
    monkeypatch.setattr(watched._discovery, "launches", lambda: launches)
    return watched


async def _nothing(host: str, what: str, arguments: object) -> dict[str, Any]:
    return {}


def _not_begun(work: Coroutine[Any, Any, None], name: str) -> None:
    work.close()


def judged_at(watched: Launches, start: float, samples: dict[float, Sample] | None = None) -> list[float]:
    """When verdicts were made in ten seconds of one look a second."""
    made: list[float] = []
    for second in range(10):
        t = start + second
        if samples and t in samples:
            watched.on_sample(samples[t])
        watched.judge(t)
        if not made or watched.views[0].verdict.t != made[-1]:
            made.append(watched.views[0].verdict.t)
    return made


@pytest.mark.parametrize("verdict", ["hung", "crashed", "ended", "ready"])
def test_what_has_come_to_rest_is_judged_half_as_often(verdict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = launches_that_are(verdict, monkeypatch)
    assert len(judged_at(watched, 0.0)) == 10
    watched.judge(AT_REST_AFTER_S + 9.0)
    assert len(judged_at(watched, AT_REST_AFTER_S + 11.0)) == 5


@pytest.mark.parametrize("verdict", ["progressing", "slow", "waiting", "suspect", "unknown"])
def test_what_may_change_any_moment_is_judged_every_second(verdict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = launches_that_are(verdict, monkeypatch)
    watched.judge(1000.0)
    assert len(judged_at(watched, 1001.0)) == 10


def test_news_ends_the_rest_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of the log or a process that has ended is judged with the next look; a sample without either is not."""
    watched = launches_that_are("hung", monkeypatch)
    watched.judge(1000.0)
    watched.judge(1002.0)
    line = Sample("here", 1003.0, 1003.0, 0.0, logs=(LogUpdate("/log", lines=(LogLine("on it goes", 1003.0),)),))
    ended = Sample("here", 1006.0, 1006.0, 0.0, gone=((7, 70),))
    still = Sample("here", 1009.0, 1009.0, 0.0, logs=(LogUpdate("/log", size=100.0),))
    made = judged_at(watched, 1003.0, {1003.0: line, 1006.0: ended, 1009.0: still})
    assert made[:3] == [1003.0, 1005.0, 1006.0]
    assert 1009.0 not in made


def test_judging_takes_no_more_than_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a very large launch verdicts come more rarely, so that the screen goes on answering keys."""
    watched = launches_that_are("suspect", monkeypatch, cost_s=0.2)
    assert judged_at(watched, 1000.0) == [1000.0, 1001.0, 1004.0, 1007.0]


def test_many_launches_are_judged_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty at rest, 10 ms each: no turn takes long, each has its turn, and one that is new need not wait for them."""
    many = tuple(Launch(f"{n}", f"{n}", ("here",)) for n in range(40))
    watched = launches_that_are("hung", monkeypatch, cost_s=0.01, launches=many)
    now = 1000.0
    for _ in range(100):
        now += 0.5
        began = time.thread_time()
        watched.judge(now)
        assert time.thread_time() - began < AT_ONCE_S + 0.05
    assert len(watched.views) == 40 and all(now - view.verdict.t < 15.0 for view in watched.views)
    monkeypatch.setattr(watched._discovery, "launches", lambda: (*many, HERE))
    watched.judge(now + 0.25)
    assert watched.views[-1].launch is HERE


def test_what_is_not_listed_any_more_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = launches_that_are("hung", monkeypatch)
    watched.judge(1000.0)
    monkeypatch.setattr(watched._discovery, "launches", lambda: ())
    watched.judge(1000.1)
    assert watched.views == ()
