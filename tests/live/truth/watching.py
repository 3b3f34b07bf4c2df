"""Running all cases side by side under live sessions, and keeping what was said of each at which second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.live.truth.cases import GRAVE, Case
from tests.live.truth.launching import Job, Stage
from tui.collect.local import LocalChannel
from tui.model import Dump, LaunchView, Snapshot, Verdict
from tui.session.live import LiveSession
from tui.session.plan import Plan

START_APART_S = 0.7
"""Jobs start one after the other: importing torch costs a second of a core for each rank."""

LATE_S = 40.0
"""So long after the last job was started another monitor comes."""


@dataclass
class Said:
    """What was said, from ``t`` on."""

    t: float
    verdict: Verdict

    @property
    def word(self) -> tuple[str, str | None]:
        return self.verdict.id, self.verdict.cause


@dataclass
class Course:
    """What one monitor said of one case over time. ``how`` it watched: from the start and without a GPU where empty,
    ``gpus`` with simulated ones, ``late`` where all had been silent for a while. ``skipped``: why it did not run."""

    case: Case
    job: Job | None = None
    how: str = ""
    skipped: str = ""
    said: list[Said] = field(default_factory=list[Said])
    last: LaunchView | None = None
    launches: set[str] = field(default_factory=set[str])
    came: float = 0.0
    left: float = 0.0
    """When its monitor came, and when it left."""
    probed: bool = False
    dump: Dump | None = None
    """The stacks, once they were offered as the next probe and taken."""
    host: str = "not heard of"
    """The last state of its host, and why."""

    @property
    def name(self) -> str:
        return self.case.name + (f" ({self.how})" if self.how else "")

    @property
    def fault_t(self) -> float | None:
        return self.job.fault_t() if self.job is not None else None

    @property
    def begun_t(self) -> float | None:
        """When both the fault and the monitor were there: from then on it can be told."""
        return None if self.fault_t is None else max(self.fault_t, self.came)

    def feed(self, snapshot: Snapshot) -> None:
        if self.job is None:
            return
        self.host = "; ".join(f"{host.state} {host.reason}" for host in snapshot.hosts)
        for view in snapshot.launches:
            if any(member.pid == self.job.pid for member in view.launch.members):
                self.launches.add(view.launch.id)
                self.last = view
                self.dump = next((d for d in snapshot.dumps if d.launch == view.launch.id and d.done), self.dump)
                verdict = view.verdict
                if not self.said or self.said[-1].word != (verdict.id, verdict.cause):
                    self.said.append(Said(verdict.t, verdict))

    def after_s(self, *ids: str) -> float | None:
        """Seconds until one of these was said, from the time on that the fault and the monitor were there."""
        begun = self.begun_t
        said = next((s for s in self.said if s.verdict.id in ids and begun is not None and s.t >= begun), None)
        return None if said is None or begun is None else said.t - begun

    @property
    def offers_stacks(self) -> bool:
        """Whether the stacks are offered where it was called what it must be called, and were not taken yet."""
        last = self.last.verdict if self.last is not None else None
        asked_for = self.case.stacks is not None and not self.probed
        return asked_for and last is not None and last.next_probe == "stacks" and last.id in self.case.says

    @property
    def settled(self) -> bool:
        """Whether a hang was called what it must be called, at its gravest, or had its time."""
        if self.skipped or not self.case.sick:
            return True
        begun = self.begun_t
        if begun is not None and time.monotonic() - begun > self.case.within_s + 5.0:
            return True
        gravest = next(word for word in ("crashed", "hung", "suspect") if word in self.case.says)
        last = self.last.verdict if self.last is not None else None
        return begun is not None and last is not None and last.id == gravest and last.cause in self.case.causes


async def run(cases: Sequence[Case], stage: Stage, seconds: float, *, late: bool = True) -> list[Course]:
    """Start the jobs under a monitor that runs already, watch those that ask for it with simulated GPUs in monitors of
    their own, and all of them by one that comes late; until every hang was called, or ``seconds`` are over."""
    courses = [Course(case, how=how) for case in cases for how in _ways(case, late)]
    sessions = [_begin([course for course in courses if not course.how])]
    probing = asyncio.ensure_future(asyncio.sleep(0.0))
    until = time.monotonic() + seconds
    try:
        await asyncio.sleep(2.0)
        for case in cases:
            started = case.start(stage)
            for course in courses:
                if course.case is case:
                    course.job, course.skipped = (None, started) if isinstance(started, str) else (started, "")
            if case.gpus and not isinstance(started, str):
                sessions.append(_begin([c for c in courses if c.case is case and c.how == "gpus"], started.pid))
            await asyncio.sleep(START_APART_S)
        come = time.monotonic() + LATE_S
        while time.monotonic() < until and not (time.monotonic() > come and all(course.settled for course in courses)):
            await asyncio.sleep(0.5)
            if probing.done():
                ripe = [course for course in courses if not course.how and course.offers_stacks]
                probing = asyncio.ensure_future(_probe(sessions[0], ripe[:1]))
            if late and time.monotonic() >= come:
                late = False
                sessions.append(_begin([course for course in courses if course.how == "late"]))
                come += 30.0
    finally:
        probing.cancel()
        for course in courses:
            course.left = time.monotonic()
        await asyncio.gather(*(session.stop() for session in sessions))
    return courses


async def _probe(session: LiveSession, courses: list[Course]) -> None:
    """Press the key that is offered: the stacks."""
    for course in courses:
        course.probed = True
        if course.last is not None:
            await session.take_stacks(course.last.launch.id)


def _ways(case: Case, late: bool) -> tuple[str, ...]:
    return ("", *(("gpus",) if case.gpus else ()), *(("late",) if late else ()))


def _begin(courses: list[Course], pid: int | None = None) -> LiveSession:
    """A monitor of this machine; where ``pid`` is given, of that job only, with simulated GPUs."""
    simulate = None if pid is None else {"parent": pid, "gpus": courses[0].case.gpus}
    pids = () if pid is None else ((None, pid),)
    session = LiveSession(Plan(channels=(("here", LocalChannel(simulate=simulate)),), pids=pids))
    for course in courses:
        course.came = time.monotonic()
    session.start(post_to(courses))
    return session


def post_to(courses: Sequence[Course]) -> Callable[[Snapshot], None]:
    def post(snapshot: Snapshot) -> None:
        for course in courses:
            course.feed(snapshot)
            if snapshot.note.startswith("a bug"):
                course.host = snapshot.note

    return post


def faults(course: Course) -> list[str]:
    """What is wrong with what was said, in sentences; empty where all is right."""
    case, begun = course.case, course.fault_t
    if course.last is None and course.how == "late" and case.ends:
        return []
    if course.last is None:
        return [f"it was never shown as a launch; the host was {course.host}"]
    wrong = [course.host] if course.host.startswith("a bug") else []
    if begun is None:
        wrong.append("its fault never came")
    last = course.last.verdict
    for said in course.said:
        early = begun is None or said.t < begun
        text = f"{' '.join(map(str, said.word))} at {_after(said.t, begun)}: {' | '.join(said.verdict.reasons[:2])}"
        if said.verdict.id in GRAVE and (early or not case.sick):
            wrong.append(text)
        elif said.verdict.id in GRAVE and said.verdict.cause not in case.causes | case.also | {None}:
            wrong.append(f"wrong cause: {text}")
    in_time = not case.sick or begun is None or course.left - max(begun, course.came) > case.within_s
    if last.id not in case.says and (in_time or last.id not in ("waiting", "suspect")):
        wrong.append(f"at the end it was {last.id} ({last.cause}): {' | '.join(last.reasons)}")
    elif last.id in case.says and case.causes and last.cause not in case.causes:
        wrong.append(f"at the end the cause was {last.cause}: {' | '.join(last.reasons)}")
    if case.meanwhile and case.meanwhile not in {said.verdict.cause for said in course.said}:
        wrong.append(f"it was never put down to {case.meanwhile}")
    took = course.after_s(*case.says)
    if case.sick and took is not None and took > case.within_s:
        wrong.append(f"said only after {took:.0f} s")
    if last.expected != case.ranks:
        wrong.append(f"expected {last.expected} ranks instead of {case.ranks}")
    if case.stacks is not None and course.probed:
        merged = course.dump.merged if course.dump is not None else None
        if merged is None or merged.odd_ranks != case.stacks:
            wrong.append(f"the stacks name {merged.odd_ranks if merged else None}: {merged.why if merged else ''}")
    if case.odd is not None and last.id in case.says and tuple(odd.rank for odd in last.odd) != case.odd:
        wrong.append(f"named {[(odd.rank, odd.why) for odd in last.odd]} instead of {case.odd}")
    if len(course.launches) != 1:
        wrong.append(f"shown as {len(course.launches)} launches: {sorted(course.launches)}")
    return wrong


def _after(t: float, begun: float | None) -> str:
    return "a time before its fault" if begun is None or t < begun else f"{t - begun:.0f} s"
