"""Who teaches what: only good starts, only what was measured; and what was learned only ever delays."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulated_launch import ASLEEP, LOADING, SPIN, SPINNING, Doing, SimulatedLaunch, sglang_until_loaded
from tui.model import LaunchView, LogLine, LogUpdate, PhaseSpan, Sample, Usual
from tui.record.baselines import Baselines
from tui.record.likeness import likeness
from tui.record.measured import by_place
from tui.record.store import Store
from tui.session.book import HostBook
from tui.session.engine import Engine

SCENARIO = Path(__file__).parent.parent / "scenarios" / "seed-slow-capture"


class Session:
    """What the live session does, on a simulated launch's clock."""

    def __init__(self, folder: Path, boot: str = "boot") -> None:
        self.sim = SimulatedLaunch(2)
        self.boot = boot
        self.baselines = Baselines(folder)
        self.engine = Engine([HostBook(self.sim.host)], usual=self.baselines.usual)
        self.view: LaunchView | None = None
        self.said: list[str] = []
        self.watches = True
        self._unread: list[str] = []

    def tick(self) -> None:
        """A second passes. What the log says while nobody watches is read when somebody does."""
        if not self.watches:
            self._unread += self.sim.lines
            self.sim.lines = []
        sample = replace(self.sim.tick(), boot_id=self.boot)
        if self.watches:
            self.see(sample)

    def return_to_it(self) -> None:
        """Watch again, or for the first time: then the lines lie there, and nobody knows when they came."""
        self.watches = True
        if self.view is not None:
            self.sim.lines = self._unread
            self.tick()
            return
        sample = replace(self.sim.tick(), boot_id=self.boot)
        lines = tuple(LogLine(text) for text in self._unread)
        self.see(replace(sample, logs=(LogUpdate(self.sim.log or "", 9.0, mtime=sample.wall - 1.0, lines=lines),)))

    def see(self, sample: Sample) -> None:
        self.engine.add(sample)
        self.view, _ = self.engine.judge(self.sim.launch, self.sim.t)
        self.baselines.note(self.engine.history, [self.view])
        self.said.append(self.view.verdict.id)

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.tick()

    def settle(self) -> None:
        """Until the file's thread has done what it was asked."""
        done = threading.Event()
        self.baselines._file.do(lambda store: done.set())
        assert done.wait(10)

    def load(self) -> None:
        sglang_until_loaded(self.sim, self.tick)

    def repack(self, seconds: int, doing: Doing = LOADING) -> None:
        """After the last shard: ``seconds`` until the weights are said to be there."""
        self.sim.doing = dict.fromkeys(range(self.sim.n), doing)
        self.run(seconds)
        self.sim.doing = dict.fromkeys(range(self.sim.n), LOADING)
        end = "Load weight end. elapsed=30.00 s, type=M, dtype=torch.bfloat16, avail mem=60.00 GB, mem usage=76.00 GB."
        self.sim.lines = [f"[2026-02-22 11:43:30 TP{rank}] {end}" for rank in range(self.sim.n)]
        self.tick()
        begin = "Capture cuda graph begin. This can take up to several minutes. avail mem=20.00 GB"
        self.sim.lines = [f"[2026-02-22 11:43:31 TP{rank}] {begin}" for rank in range(self.sim.n)]
        self.run(3)

    def serve(self) -> None:
        self.sim.lines = ["[2026-02-22 11:44:00] The server is fired up and ready to roll!"]
        self.run(2)
        self.settle()

    @property
    def now(self) -> LaunchView:
        assert self.view is not None
        return self.view


def healthy(folder: Path, boot: str, seconds: int = 20, doing: Doing = LOADING) -> Session:
    session = Session(folder, boot)
    session.load()
    session.repack(seconds, doing)
    session.serve()
    assert session.now.verdict.id == "ready"
    return session


def learned(session: Session) -> dict[str, list[float]]:
    past = Store(session.baselines._file._folder or Path()).past(likeness(session.engine.history, session.sim.launch))
    return {phase: sorted(took.seconds for took in rows) for (phase, _), rows in past.items()}


def test_a_launch_that_became_ready_teaches_what_its_phases_took(tmp_path: Path) -> None:
    for n in range(3):
        known = learned(healthy(tmp_path, f"boot{n}", seconds=20 + n))
    assert known["post_load"] == pytest.approx([22, 23, 24], abs=1.1)  # the two seconds in which they say so
    assert known["weight_load"] == pytest.approx([10, 10, 10], abs=1.1)
    assert not {"serving", "unknown"} & known.keys()


def test_the_next_launch_is_told_what_is_usual(tmp_path: Path) -> None:
    for n in range(3):
        healthy(tmp_path, f"boot{n}", seconds=20 + n)
    session = Session(tmp_path, "boot9")
    session.tick()
    session.settle()
    session.load()
    (known,) = session.now.usual["post_load"]
    assert session.now.verdict.phase == "post_load"
    assert session.now.usual_at(session.sim.t) is known
    assert (known.launches, round(known.low_s), round(known.high_s)) == (3, 22, 24)


def hung(session: Session) -> None:
    session.load()
    session.sim.doing = dict.fromkeys(range(session.sim.n), ASLEEP)
    session.run(200)
    assert session.now.verdict.id == "hung"


def crashed(session: Session) -> None:
    session.load()
    session.sim.doing = dict.fromkeys(range(session.sim.n - 1), LOADING)
    session.run(40)
    assert session.now.verdict.id in ("crashed", "hung"), session.now.verdict


def still_starting(session: Session) -> None:
    session.load()
    session.repack(20)


def ended(session: Session) -> None:
    session.load()
    session.repack(20)
    session.sim.doing = {}
    session.run(20)


def seen_when_ready(session: Session) -> None:
    session.watches = False
    session.load()
    session.repack(20)
    session.sim.lines = ["[2026-02-22 11:44:00] The server is fired up and ready to roll!"]
    session.tick()
    session.return_to_it()
    session.run(5)
    assert session.now.verdict.id == "ready"


@pytest.mark.parametrize("course", [hung, crashed, still_starting, ended, seen_when_ready])
def test_other_launches_teach_nothing(tmp_path: Path, course: Callable[[Session], None]) -> None:
    session = Session(tmp_path)
    course(session)
    session.settle()
    assert learned(session) == {}
    assert not list(tmp_path.iterdir())


def test_of_a_launch_seen_on_its_way_only_what_began_and_ended_since_counts(tmp_path: Path) -> None:
    """Its earlier phases are told by stamps of its log: shown, but not measured."""
    session = Session(tmp_path)
    session.watches = False
    session.load()
    session.return_to_it()
    session.run(5)
    assert [span.phase for span in session.now.spans][-2:] == ["weight_load", "post_load"]
    session.repack(20)
    session.serve()
    assert session.now.verdict.id == "ready"
    assert learned(session).keys() == {"graph_capture"}


def test_a_phase_in_which_it_was_called_hung_teaches_nothing(tmp_path: Path) -> None:
    """It went on: somebody may have freed it. The other phases count."""
    session = healthy(tmp_path, "boot", seconds=200, doing=ASLEEP)
    assert "hung" in session.said
    assert "post_load" not in learned(session)
    assert "weight_load" in learned(session)


def test_what_ended_while_nobody_heard_it_is_not_measured(tmp_path: Path) -> None:
    """The host was away when the weights were there: when that was, nobody knows."""
    session = Session(tmp_path)
    session.load()
    session.run(5)
    session.watches = False
    session.run(20)
    session.repack(5)
    session.return_to_it()
    session.serve()
    assert "post_load" not in learned(session)
    assert "weight_load" in learned(session)


def test_two_monitors_of_one_launch_count_it_once(tmp_path: Path) -> None:
    first, second = Session(tmp_path), Session(tmp_path)
    second.sim = first.sim
    second_sees = second.see
    first_sees = first.see
    first.see = lambda sample: (first_sees(sample), second_sees(sample))[0]  # type: ignore[method-assign]
    first.load()
    first.repack(20)
    first.serve()
    second.settle()
    assert [len(rows) for rows in learned(first).values()] == [1] * len(learned(first))


def test_lines_of_several_ranks_in_any_order_make_no_phases() -> None:
    """Ranks reach the next phase within one look: what they say back and forth meanwhile is no third capture."""
    spans = (
        PhaseSpan("weight_load", 0.0, 10.0),
        PhaseSpan("kv_alloc", 10.0, 10.0),
        PhaseSpan("graph_capture", 10.0, 10.0),
        PhaseSpan("kv_alloc", 10.0, 10.2),
        PhaseSpan("graph_capture", 10.2, 14.0),
        PhaseSpan("kv_alloc", 14.0, 14.1),
        PhaseSpan("graph_capture", 14.1, None),
    )
    assert {place: (span.start, span.end) for place, span in by_place(spans).items()} == {
        ("weight_load", 1): (0.0, 10.0),
        ("graph_capture", 1): (10.2, None),
    }


# ----------------------------------------------------------------------------------------------------------- patience


def verdicts(
    usual: dict[str, tuple[Usual, ...]], course: Callable[[SimulatedLaunch, Callable[[], None]], None]
) -> list:
    """(seconds since the last shard, verdict) of a course, judged with these past launches."""
    sim = SimulatedLaunch(2)
    engine = Engine([HostBook(sim.host)], usual=lambda launch: usual)
    said: list[tuple[float, str]] = []
    loaded_at = [0.0]

    def tick() -> None:
        engine.add(sim.tick(2.0))
        view, _ = engine.judge(sim.launch, sim.t)
        said.append((sim.t - loaded_at[0], view.verdict.id))

    sglang_until_loaded(sim, tick)
    loaded_at[0] = sim.t
    said.clear()
    course(sim, tick)
    return said


def first(said: list[tuple[float, str]], *wanted: str) -> float:
    return next((t for t, verdict in said if verdict in wanted), float("inf"))


def silent(sim: SimulatedLaunch, tick: Callable[[], None]) -> None:
    sim.doing = dict.fromkeys(range(sim.n), ASLEEP)
    for _ in range(90):
        tick()


def rank_dies(sim: SimulatedLaunch, tick: Callable[[], None]) -> None:
    sim.doing = dict.fromkeys(range(sim.n - 1), ASLEEP)
    for _ in range(20):
        tick()


def spins(sim: SimulatedLaunch, tick: Callable[[], None]) -> None:
    sim.doing = dict.fromkeys(range(sim.n), SPINNING)
    sim.gpus = dict.fromkeys(range(sim.n), SPIN)
    for _ in range(60):
        tick()


def test_a_silence_that_is_usual_is_no_suspicion() -> None:
    """Seven launches sat still for up to 90 s here, and went on. Without them, this one is hung by then."""
    suspect, hung = first(_plain(silent), "suspect"), first(_plain(silent), "hung")
    assert suspect < 60 and hung < 110
    known = {"post_load": (Usual(80, 250, 90, 7),)}
    said = verdicts(known, silent)
    assert 110 <= first(said, "suspect") <= 125
    assert first(said, "hung") - first(said, "suspect") == pytest.approx(hung - suspect, abs=12), "both as much later"


def test_the_patience_ends_where_the_usual_time_ends() -> None:
    said = verdicts({"post_load": (Usual(40, 60, 55, 7),)}, silent)
    assert 60 <= first(said, "suspect") <= 66


@pytest.mark.parametrize(
    ("known", "why"),
    [
        ((Usual(80, 150, 90, 2),), "two launches are too few"),
        ((Usual(80, 150, 5, 7),), "a long phase in which somebody always worked excuses no silence"),
        ((Usual(20, 25, 20, 7, "warm"),), "longer than usual already"),
        ((Usual(80, 0, 90, 7),), "no time is usual"),
    ],
)
def test_what_excuses_nothing(known: tuple[Usual, ...], why: str) -> None:
    assert verdicts({"post_load": known}, silent) == _plain(silent), why


def test_past_launches_of_another_phase_excuse_nothing() -> None:
    assert verdicts({"graph_capture": (Usual(80, 150, 90, 7),)}, silent) == _plain(silent)


def test_evidence_that_speaks_for_itself_does_not_wait() -> None:
    known = {"post_load": (Usual(500, 900, 800, 40),)}
    grave = ("suspect", "hung", "crashed")
    assert first(_plain(rank_dies), *grave) < 20
    assert verdicts(known, rank_dies) == _plain(rank_dies)


_USUAL = st.builds(
    Usual,
    low_s=st.just(0.0),
    high_s=st.floats(0, 400),
    quiet_s=st.floats(0, 400),
    launches=st.integers(1, 50),
)


@pytest.mark.parametrize("course", [silent, spins, rank_dies])
@settings(max_examples=4)
@given(known=st.lists(_USUAL, max_size=2))
def test_a_baseline_only_ever_delays(
    course: Callable[[SimulatedLaunch, Callable[[], None]], None], known: list[Usual]
) -> None:
    """Whatever past launches took, no alarm comes earlier and none comes that would not have come."""
    plain, patient = _plain(course), verdicts({"post_load": tuple(known)}, course)
    for grave in ("suspect", "hung", "crashed"):
        assert first(patient, grave, "hung", "crashed") >= first(plain, grave, "hung", "crashed")


_cache: dict[object, list] = {}


def _plain(course: Callable[[SimulatedLaunch, Callable[[], None]], None]) -> list:
    if course not in _cache:
        _cache[course] = verdicts({}, course)
    return _cache[course]


# ------------------------------------------------------------------------------------------------------------- replays


def test_a_replay_neither_reads_nor_writes_past_launches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording is judged by what it holds, on every machine alike."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    command = [sys.executable, "-m", "tui", "replay", str(SCENARIO), "--json", "--speed", "max"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert '"usual": null' in said and '"ready"' in said
    assert not list(tmp_path.iterdir())


async def test_the_end_of_a_session_waits_for_a_launch_that_is_just_being_kept(tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.load()
    session.repack(5)
    session.sim.lines = ["[2026-02-22 11:44:00] The server is fired up and ready to roll!"]
    session.run(2)
    await session.baselines.close()
    assert learned(session)["post_load"]


async def test_the_end_of_a_session_waits_for_no_dead_file_system(tmp_path: Path) -> None:
    baselines = Baselines(tmp_path)
    never = threading.Event()
    baselines._file.do(lambda store: never.wait(20) and None)
    began = time.monotonic()
    await asyncio.wait_for(baselines.close(), 5)
    assert time.monotonic() - began < 0.5
    never.set()
