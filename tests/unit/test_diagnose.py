"""The verdict on its merits, at the ticks and clocks of the live monitor."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from tests.simulated_launch import (
    ASLEEP,
    IDLE,
    LOADING,
    SPIN,
    SPINNING,
    WALL,
    WORK,
    Doing,
    GpuDoing,
    SimulatedLaunch,
    sglang_until_loaded,
)
from tui.diagnose import diagnose, phase_spans
from tui.diagnose.deadlines import Settings
from tui.diagnose.kernel_log import xid
from tui.diagnose.observe import Scene
from tui.diagnose.phases import CAUSES, PHASES
from tui.history import History
from tui.model import Diagnosis, Verdict


class Watch:
    """A monitor that looks at a simulated launch."""

    def __init__(self, sim: SimulatedLaunch) -> None:
        self.sim = sim
        self.history = History()
        self.verdict: Verdict | None = None
        self.last: Diagnosis | None = None
        self.seen: list[tuple[float, str]] = []

    def tick(self, dt: float = 1.0) -> None:
        self.history.add(self.sim.tick(dt))
        self.judge()

    def judge(self) -> None:
        self.last = diagnose(self.history, self.sim.launch, self.sim.t, self.verdict)
        self.verdict = self.last.verdict
        self.seen.append((self.sim.t, self.verdict.id))

    def run(self, seconds: float, dt: float = 1.0) -> None:
        for _ in range(int(seconds / dt)):
            self.tick(dt)

    def first(self, verdict: str, after: float = 0.0) -> float | None:
        return next((t for t, said in self.seen if said == verdict and t > after), None)

    @property
    def now(self) -> Verdict:
        assert self.verdict is not None
        return self.verdict


def loaded(n: int = 8, dt: float = 1.0) -> Watch:
    watch = Watch(SimulatedLaunch(n))
    sglang_until_loaded(watch.sim, lambda: watch.tick(dt))
    return watch


@pytest.mark.parametrize("dt", [1.0, 2.0, 5.0])
def test_eight_sleeping_ranks_are_suspect_in_40_s_and_hung_in_90_s(dt: float) -> None:
    """The silent hang, at several rates of ticks: the clocks are in seconds, not in samples."""
    watch = loaded(dt=dt)
    silent_at = watch.sim.t
    watch.sim.doing = dict.fromkeys(range(8), ASLEEP)
    watch.run(120, dt)
    suspect, hung = watch.first("suspect"), watch.first("hung")
    assert suspect is not None and 20 <= suspect - silent_at <= 40
    assert hung is not None and hung - silent_at <= 90
    assert (watch.now.id, watch.now.cause, watch.now.strength) == ("hung", "rank_wait", "firm")
    assert watch.now.phase == "post_load"
    said = "; ".join(watch.now.reasons)
    assert "all 8 ranks asleep in futex_do_wait" in said and "no compiler" in said and "8 GPUs at 0 %" in said
    refuted = {e.cause for e in watch.now.explanations if e.healthy and not e.alive}
    assert {"kernel_build", "slow_storage", "repacking"} <= refuted, "the healthy rivals are refuted in the open"
    assert watch.now.reasons[0].startswith("all 8 ranks asleep"), "what was seen comes first"
    (ruled_out,) = [reason for reason in watch.now.reasons if reason.startswith("ruled out: ")]
    assert "graph capture" in ruled_out, "the belief that the silence is a capture is refuted in so many words"


def test_the_healthy_twin_is_never_suspect() -> None:
    """One rank's compilers burn CPU, the seven others sleep; the compilers pause for twenty seconds now and then."""
    watch = loaded()
    watch.sim.doing = dict.fromkeys(range(1, 8), ASLEEP)
    for _ in range(6):
        watch.sim.doing[0] = Doing(wchan="do_wait", children={"ptxas": 310.0, "cicc": 95.0})
        watch.run(45)
        watch.sim.doing[0] = Doing(wchan="do_wait", children={"ptxas": 0.0, "cicc": 0.0})
        watch.run(20)
    assert not {said for _, said in watch.seen} & {"suspect", "hung", "crashed"}


def test_idle_compile_workers_are_no_compilation() -> None:
    """A pool of sleeping children exists in healthy and hung launches alike: existence is no evidence."""
    watch = loaded()
    watch.sim.doing = {r: Doing(children={"python3": 0.1, "ptxas": 0.0}) for r in range(8)}
    watch.run(110)
    assert watch.now.id == "hung"


def test_seven_spin_while_one_builds_is_slow_and_all_spin_is_hung() -> None:
    watch = loaded()
    watch.sim.lines = [f"[2026-02-22 11:43:45 TP{r}] Capture cuda graph begin. This can take" for r in range(8)]
    watch.sim.doing = dict.fromkeys(range(1, 8), SPINNING)
    watch.sim.gpus = {0: IDLE, **dict.fromkeys(range(1, 8), SPIN)}
    watch.sim.doing[0] = Doing(wchan="do_wait", children={"ptxas": 600.0})
    watch.run(400)
    assert (watch.now.id, watch.now.cause) == ("slow", "kernel_build")
    watch.sim.doing, watch.sim.gpus = dict.fromkeys(range(8), SPINNING), dict.fromkeys(range(8), SPIN)
    watch.run(400)
    assert (watch.now.id, watch.now.cause) == ("hung", "graph_capture_deadlock")


def test_the_odd_rank_is_the_one_that_sleeps_while_the_others_spin() -> None:
    watch = loaded()
    watch.sim.doing = {**dict.fromkeys(range(8), SPINNING), 5: ASLEEP}
    watch.sim.gpus = {**dict.fromkeys(range(8), SPIN), 5: IDLE}
    watch.run(200)
    assert watch.now.id == "hung" and [odd.rank for odd in watch.now.odd] == [5]


def test_a_verdict_is_taken_back_openly_when_progress_returns() -> None:
    watch = loaded()
    watch.sim.doing = dict.fromkeys(range(8), ASLEEP)
    watch.run(100)
    assert watch.now.id == "hung"
    watch.sim.lines = [f"[2026-02-22 11:45:00 TP{r}] Load weight end. elapsed=114.20 s" for r in range(8)]
    watch.tick()
    assert watch.now.id == "progressing" and "HUNG was taken back" in (watch.now.taken_back or "")


def test_one_page_in_does_not_undo_a_hang() -> None:
    watch = loaded()
    watch.sim.doing = dict.fromkeys(range(8), ASLEEP)
    watch.run(100)
    watch.sim.doing[3] = Doing(read_bps=4e6)
    watch.run(2)
    watch.sim.doing[3] = ASLEEP
    watch.run(20)
    assert {said for t, said in watch.seen if t > watch.sim.t - 21} == {"hung"}


def test_no_data_is_not_no_progress() -> None:
    """A host that is not heard is unknown, and the silence of the channel does not count as the launch's."""
    watch = loaded()
    watch.sim.doing = dict.fromkeys(range(8), LOADING)
    watch.run(30)
    for _ in range(180):
        watch.sim.t += 1.0
        watch.judge()
    assert watch.now.id == "unknown"
    watch.run(20)
    assert not {said for _, said in watch.seen} & {"suspect", "hung", "crashed"}


@pytest.mark.parametrize("unheard_s", [60, 90])
def test_a_hang_through_a_gap_is_suspect_after_as_much_observed_quiet(unheard_s: int) -> None:
    """What was not observed counts neither as quiet, nor against the quiet that is observed afterwards."""
    watch = loaded()
    watch.sim.doing = dict.fromkeys(range(8), ASLEEP)
    watch.run(8)
    for _ in range(unheard_s):
        watch.sim.t += 1.0
        watch.judge()
    back_at = watch.sim.t
    watch.run(60)
    assert watch.first("suspect") is not None
    assert 20 <= (watch.first("suspect") or 0.0) - back_at <= 45
    said = next(found for text in watch.now.reasons if (found := re.search(r"nothing has moved in the (\d+) s", text)))
    assert "s that were watched" in said.string and watch.now.still_s is not None
    assert watch.now.still_s - int(said[1]) == pytest.approx(unheard_s, abs=12), "the timer counts the gap, too"


def test_without_a_gap_nothing_is_said_of_watching() -> None:
    watch = loaded()
    watch.sim.doing = dict.fromkeys(range(8), ASLEEP)
    watch.run(68)
    assert any("nothing has moved for" in text for text in watch.now.reasons)
    assert not any("were watched" in text for text in watch.now.reasons)


def test_without_gpu_readings_a_stall_is_suspect_for_long() -> None:
    """NVML does not answer: sleeping ranks may wait for GPUs that work, but not for five minutes."""
    watch = loaded()
    watch.sim.doing, watch.sim.nvml = dict.fromkeys(range(8), ASLEEP), False
    watch.run(300)
    assert watch.now.id == "suspect" and "gpus" in "; ".join(watch.now.reasons)
    watch.run(100)
    assert (watch.now.id, watch.now.strength) == ("hung", "weak")


def test_a_dead_rank_is_told_within_twenty_seconds() -> None:
    watch = loaded()
    watch.sim.doing = dict.fromkeys(range(8), ASLEEP)
    died = watch.sim.t
    del watch.sim.doing[3]
    watch.run(20)
    crashed = watch.first("crashed")
    assert crashed is not None and crashed - died <= 20
    assert (watch.now.cause, [odd.rank for odd in watch.now.odd]) == ("dead_rank", [3])
    assert (watch.now.alive, watch.now.expected) == (7, 8)


def test_a_job_that_has_ended_has_not_crashed() -> None:
    """A job of no server ends when its work is done: without a failure in its log that is no crash."""
    watch = Watch(SimulatedLaunch(2))
    for step in range(20):
        watch.sim.lines = [f"step {step}/20 loss {1 / (step + 1):.3f}"]
        watch.tick()
    watch.sim.lines = ["Training finished, model saved to out/"]
    watch.sim.doing = {}
    watch.run(20)
    assert watch.now.id == "ended"
    assert not {said for _, said in watch.seen} & {"suspect", "hung", "crashed"}


@pytest.mark.parametrize(("before", "after", "said"), [(0, 2, "crashed"), (2, 2, "ended")])
def test_a_job_that_was_killed_for_memory_as_a_whole_has_crashed(before: int, after: int, said: str) -> None:
    """Kills that the control group had counted before were of others."""
    watch = Watch(SimulatedLaunch(2))
    for step in range(60):
        watch.sim.lines = [f"step {step}/2000 loss {1 / (step + 1):.3f}"]
        watch.sim.facts = [("cgroup_oom_kill", before)]
        watch.tick()
    watch.sim.doing = {}
    for _ in range(20):
        watch.sim.facts = [("cgroup_oom_kill", after)]
        watch.tick()
    assert (watch.now.id, watch.now.cause == "oom_kill") == (said, said == "crashed")


def test_a_server_that_ends_before_it_was_ready_has_crashed() -> None:
    watch = loaded()
    watch.sim.doing = {}
    watch.run(20)
    assert (watch.now.id, watch.now.remedy != "", watch.now.deadlines) == ("crashed", True, ())


def test_what_the_monitor_ended_itself_is_said_so() -> None:
    """After SIGABRT from here nobody is sent to look for an OOM kill."""
    watch = loaded()
    watch.sim.doing = dict.fromkeys(range(8), ASLEEP)
    watch.run(5)
    watch.sim.facts = [("sigabrt_sent", "another launch")]
    watch.tick()
    watch.sim.facts = [("sigabrt_sent", watch.sim.launch.id)]
    watch.sim.doing = {}
    watch.run(10)
    assert (watch.now.id, watch.now.cause, watch.now.next_probe) == ("crashed", None, "dumps")
    assert watch.now.reasons[0].startswith("SIGABRT was sent to its ranks from here")
    assert "OOM" not in watch.now.remedy


def test_what_was_not_seen_is_open_and_not_refuted() -> None:
    """An explanation falls by an observation; where none was made it neither stands nor falls."""
    watch = loaded()
    watch.sim.doing = dict.fromkeys(range(8), ASLEEP)
    watch.run(60)
    by_cause = {explanation.cause: explanation for explanation in watch.now.explanations}
    unseen = by_cause["stale_lock"]
    assert not unseen.alive and not unseen.refuted
    assert by_cause["kernel_build"].refuted


def test_ranks_that_were_there_before_the_monitor_have_not_started_just_now() -> None:
    """A log that cannot be read says nothing of their age; the kernel does."""
    watch = Watch(SimulatedLaunch(8, log=None))
    old = replace(watch.sim.launch, started_wall=WALL - 600.0)
    for _ in range(8):
        watch.history.add(watch.sim.tick())
        verdict = diagnose(watch.history, old, watch.sim.t).verdict
        assert not any("started just now" in reason for reason in verdict.reasons), verdict.reasons


def test_a_stopped_rank_is_named() -> None:
    watch = loaded()
    watch.sim.doing = {**dict.fromkeys(range(8), SPINNING), 2: Doing(0.0, "T", "do_signal_stop")}
    watch.sim.gpus = {**dict.fromkeys(range(8), SPIN), 2: IDLE}
    watch.run(60)
    assert (watch.now.id, watch.now.cause, [o.rank for o in watch.now.odd]) == ("hung", "stopped", [2])


def test_ranks_that_are_not_known_as_such_yet_have_not_vanished() -> None:
    """Titles are read one after the other: who wrote into the log may be the process whose title comes next."""
    watch = Watch(SimulatedLaunch(4))
    members = watch.sim.launch.members
    untitled = tuple(replace(m, rank=None, role="worker") if (m.rank or 0) > 1 else m for m in members)
    for known, crashes in ((untitled, False), (members[:2], True)):
        watch = Watch(SimulatedLaunch(4))
        launch = replace(watch.sim.launch, members=known)
        watch.sim.lines = [f"[2026-02-22 11:42:34 TP{rank}] Init torch distributed begin." for rank in range(4)]
        said: list[tuple[float, str]] = []
        for _ in range(30):
            watch.history.add(watch.sim.tick())
            watch.verdict = diagnose(watch.history, launch, watch.sim.t, watch.verdict).verdict
            said.append((watch.sim.t, watch.now.id))
        first = next((t for t, word in said if word == "crashed"), None)
        assert (first is not None) == crashes
        assert first is None or 10.0 <= first <= 20.0


def test_a_launcher_that_looks_after_its_ranks_by_a_timer_waits_for_no_lock() -> None:
    """torchrun's agent wakes ten times a second, as a file baton does; an old lock in its cache is no evidence."""
    lock = {"lock_file": "/c/lock", "lock_age_s": 90000, "lock_owner_pid_alive": False}
    watch = Watch(SimulatedLaunch(1))
    launch = replace(
        watch.sim.launch, members=(replace(watch.sim.launch.members[0], rank=None, role="launcher"),), world_size=2
    )
    watch.sim.doing = {0: Doing(1.0, wchan="hrtimer_nanosleep", wakes=10.0)}
    for _ in range(90):
        watch.sim.facts = [("lock_file", lock)]
        watch.history.add(watch.sim.tick())
        watch.verdict = diagnose(watch.history, launch, watch.sim.t, watch.verdict).verdict
        assert watch.now.id not in ("suspect", "hung"), watch.now.reasons


def test_a_stale_lock_alone_is_nothing_and_with_sleeping_ranks_decides() -> None:
    """A lock that outlived its owner lies there during a healthy load too."""
    lock = {"lock_file": "/c/lock", "lock_age_s": 90000, "lock_owner_pid_alive": False}
    watch = Watch(SimulatedLaunch(4))
    watch.sim.facts = [("lock_file", lock)]
    sglang_until_loaded(watch.sim, watch.tick)
    watch.sim.doing = dict.fromkeys(range(4), LOADING)
    watch.sim.facts = [("lock_file", lock)]
    watch.run(60)
    assert watch.now.id not in ("suspect", "hung")
    watch.sim.doing = dict.fromkeys(range(4), Doing(1.0, wchan="hrtimer_nanosleep", wakes=10.0))
    watch.sim.facts = [("lock_file", lock)]
    began = watch.sim.t
    watch.run(40)
    hung = watch.first("hung")
    assert hung is not None and hung - began <= 30 and watch.now.cause == "stale_lock"


def test_an_idle_ready_server_is_ready_for_ever_and_a_stuck_request_is_not() -> None:
    watch = loaded()
    watch.sim.lines = ["[2026-02-22 11:46:00] The server is fired up and ready to roll!"]
    watch.sim.doing = dict.fromkeys(range(8), SPINNING)  # SGLang's schedulers poll at one core when idle
    watch.run(900)
    assert {said for t, said in watch.seen if t > 40} == {"ready"}
    watch.sim.gpus = dict.fromkeys(range(8), SPIN)
    watch.run(300)
    assert (watch.now.id, watch.now.cause) == ("hung", "collective_spin")


def test_gpus_that_work_are_never_suspect_without_any_log() -> None:
    """An unknown framework whose log nobody found: signals speak, the phase is unknown."""
    watch = Watch(SimulatedLaunch(8, log=None))
    watch.sim.doing, watch.sim.gpus = dict.fromkeys(range(8), SPINNING), dict.fromkeys(range(8), WORK)
    watch.run(300)
    assert (watch.now.id, watch.now.phase) == ("slow", "unknown")
    watch.sim.gpus = dict.fromkeys(range(8), SPIN)
    watch.run(200)
    assert (watch.now.id, watch.now.cause, watch.now.phase) == ("hung", "collective_spin", "unknown")


def test_without_any_log_a_sleeping_launch_is_never_called_hung() -> None:
    """An idle server or a notebook looks the same: one process, a listener, ranks that hold GPU memory are unknown.
    Ranks that never came as far as a GPU are suspect."""
    empty = GpuDoing(mem_mib=4.0)
    for n, ports, gpu, said in (
        (8, (), empty, "suspect"), (8, (), IDLE, "unknown"), (1, (), empty, "unknown"), (8, (30000,), empty, "unknown"),
    ):  # fmt: skip
        watch = Watch(SimulatedLaunch(n, log=None, ports=ports))
        watch.sim.gpus = dict.fromkeys(range(n), gpu)
        watch.run(600, 2.0)
        assert watch.now.id == said and not {v for _, v in watch.seen} & {"hung", "crashed"}


def test_a_busy_gpu_of_somebody_else_is_not_ours() -> None:
    """Before a context of ours exists, load on the host's GPUs says nothing about the launch."""
    watch = Watch(SimulatedLaunch(2, log=None))
    watch.sim.gpus = dict.fromkeys(range(2), GpuDoing(util=100.0, mem_util=40.0, mem_mib=0.0))
    watch.run(400)
    assert watch.now.id in ("suspect", "hung")


def test_a_fatal_line_crashes_and_progress_after_it_does_not() -> None:
    watch = loaded()
    watch.sim.lines = ["RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. x=0.7"]
    watch.tick()
    assert (watch.now.id, watch.now.cause, watch.now.strength) == ("crashed", "no_kv_memory", "proven")
    assert "mem-fraction-static" in watch.now.remedy
    watch.run(10)
    watch.sim.lines = [f"[2026-02-22 11:46:00 TP{r}] Load weight end. elapsed=1 s" for r in range(8)]
    watch.tick()
    assert watch.now.id == "progressing"


def test_a_helper_that_its_shell_says_was_killed_is_no_crash_while_the_ranks_work() -> None:
    watch = loaded()
    watch.sim.lines = ["/opt/run.sh: line 9:    77 Killed                  nvidia-smi dmon -o T"]
    watch.sim.doing = dict.fromkeys(range(8), LOADING)
    watch.run(30)
    assert watch.now.id in ("progressing", "slow")
    assert watch.first("crashed") is None


def test_a_fatal_line_comes_with_the_first_traceback_and_the_attempt_is_counted() -> None:
    """The line that ends it quotes nobody; the exception under it does. A restart in the same log is attempt 2."""
    watch = loaded()
    watch.sim.lines = [
        "[2026-02-22 11:46:00 TP5] Scheduler hit an exception: Traceback (most recent call last):",
        '  File "/app/loader.py", line 9, in load',
        "ValueError: bad shape",
    ]
    watch.sim.doing = {}
    watch.tick()
    assert watch.now.id == "crashed" and watch.now.attempt == 1
    assert "first traceback of rank 5: ValueError: bad shape (load loader.py:9)" in watch.now.reasons
    watch.sim.lines = ["[2026-02-22 11:47:00] server_args=ServerArgs(tp_size=8)"]
    watch.tick()
    assert watch.now.attempt == 2


def test_a_stall_asks_for_a_sweep_of_the_threads() -> None:
    watch = loaded()
    watch.sim.doing = dict.fromkeys(range(8), ASLEEP)
    watch.run(30)
    assert watch.last is not None
    (wanted,) = [want for want in watch.last.wanted if want.what == "threads"]
    assert wanted.host == "node1"
    assert wanted.args["procs"] == [[4000 + r, 77] for r in range(8)]
    watch.sim.facts = [("threads", {"threads": {}})]
    watch.tick()
    assert "threads" not in [want.what for want in watch.last.wanted]


def _sweep(state: str = "S", cpu_s: float = 3.0) -> dict[str, object]:
    """The agent's answer to a look at every thread of eight ranks, three threads each; one of rank 2's differs."""

    def rows(pid: int) -> list[dict[str, object]]:
        calm = [
            {"tid": pid + k, "comm": "python3", "state": "S", "cpu_s": 9.0, "wchan": "futex_do_wait"} for k in (0, 1)
        ]
        odd = {"tid": pid + 2, "comm": "loader", "state": state, "cpu_s": cpu_s, "wchan": "folio_wait_bit_common"}
        return [*calm, odd if pid == 4002 else {**calm[0], "tid": pid + 2}]

    return {"threads": {str(4000 + r): rows(4000 + r) for r in range(8)}}


def test_threads_that_all_sleep_are_said_to_and_one_that_is_blocked_asks_for_patience() -> None:
    """A process whose main thread sleeps may have another thread in storage: two sweeps tell."""
    called: dict[str, float] = {}
    for name, state in (("asleep", "S"), ("blocked", "D")):
        watch = loaded()
        began = watch.sim.t
        watch.sim.doing = dict.fromkeys(range(8), ASLEEP)
        for _ in range(16):
            watch.sim.facts = [("threads", _sweep(state))]
            watch.run(10)
        hung = watch.first("hung")
        called[name] = (hung or 999.0) - began
        said = "; ".join(watch.now.reasons)
        assert ("every one of 24 threads" in said) == (state == "S"), said
    assert called["asleep"] <= 90 and called["blocked"] >= 150


def test_still_counts_from_the_last_movement_itself() -> None:
    """Not from the end of the window in which it was averaged; and no more than the log's silence."""
    watch = loaded()
    stopped = watch.sim.t
    watch.sim.doing = dict.fromkeys(range(8), ASLEEP)
    for _ in range(60):
        watch.tick()
        if watch.sim.t - stopped >= 15:
            assert abs((watch.now.still_s or 0.0) - (watch.sim.t - stopped)) <= 2.0


def test_a_thread_that_wakes_each_5_ms_waits_for_the_interpreter_lock() -> None:
    watch = Watch(SimulatedLaunch(1))
    watch.sim.lines = ["building the model"]
    watch.sim.doing = {0: LOADING}
    watch.run(20)
    watch.sim.doing = {0: Doing(0.9, wakes=199.0)}
    watch.run(200)
    assert (watch.now.id, watch.now.cause) == ("hung", "gil_deadlock")


def test_deadlines_come_from_arguments_and_environment_and_defaults_are_marked() -> None:
    """SGLang's group set-up gives up after 600 s, or as ``--dist-timeout`` says; its warm-up as a variable says."""
    for command, in_s, default in (
        ("sglang serve --tp 8", 600, True),
        ("sglang serve --dist-timeout 1200", 1200, False),
    ):
        watch = Watch(SimulatedLaunch(8))
        watch.sim.command = command
        watch.sim.lines = ["[2026-02-22 11:42:14] server_args=ServerArgs(model_path='/m', tp_size=8)"]
        watch.run(5)
        watch.sim.lines = [f"[2026-02-22 11:42:34 TP{r}] Init torch distributed begin." for r in range(8)]
        watch.run(61)
        (deadline,) = watch.now.deadlines
        assert abs(deadline.in_s - (in_s - 60)) <= 2 and deadline.default is default
    watch = Watch(SimulatedLaunch(2))
    watch.sim.env = {"SGLANG_WARMUP_TIMEOUT": "90"}
    watch.tick()
    assert Settings(Scene(watch.history, watch.sim.launch, watch.sim.t)).env("SGLANG_WARMUP_TIMEOUT") == 90.0


def test_versions_are_read_from_the_logs_head() -> None:
    watch = Watch(SimulatedLaunch(1))
    watch.sim.lines = ["INFO 02-03 02:15:09 [api_server.py:1977] vLLM API server version 0.11.2"]
    watch.tick()
    assert Settings(Scene(watch.history, watch.sim.launch, watch.sim.t)).version == (0, 11, 2)


@pytest.mark.parametrize(
    ("line", "number", "grave", "for_good"),
    [
        (
            "NVRM: Xid (PCI:0000:41:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            79,
            True,
            True,
        ),
        ("NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, name=python, Ch 00000008", 31, True, False),
        ("NVRM: Xid (PCI:0000:3b:00 GPU-I:03): 45, pid=4711, name=python", 45, False, False),
        ("NVRM: Xid (PCI:0000:3b:00): 69, pid=4711, name=python, Class Error: ChId 003b", 69, True, False),
        ("NVRM: Xid (PCI:0000:3b:00): 94, pid=4711, name=python, Contained: SM (0x1). RST: No", 94, True, False),
        ("NVRM: Xid (PCI:0000:3b:00): 150, pid=4711, name=python", 150, True, True),
        (
            "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Reboot Required)",
            154,
            True,
            False,
        ),
        (
            "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x2 (Reboot Required) to 0x0 (None)",
            154,
            False,
            False,
        ),
        ("NVRM: Xid (PCI:0000:3b:00): 87, telemetry", 87, False, False),
        ("Xid 74 on GPU 3", 74, True, True),
        ("NVRM: Xid (PCI:0000:3b:00): 63, pid='<unknown>', Row Remapper: New row marked", 63, False, False),
    ],
)
def test_xids_are_told_apart(line: str, number: int, grave: bool, for_good: bool) -> None:
    """Of the driver's lines, warnings and consequences convict nobody."""
    found = xid(line, 3.0, True)
    assert found is not None and (found.number, found.grave, found.ends_the_gpu) == (number, grave, for_good)


def test_heartbeats_do_not_count_as_progress() -> None:
    """Of a known kind and of an unknown one: the silence is measured without them."""
    watch = loaded()
    watch.sim.doing = dict.fromkeys(range(8), ASLEEP)
    for k in range(14):
        watch.sim.lines = [f"sidecar alive, tick {k}"]
        watch.run(10)
    assert watch.now.id == "hung" and (watch.now.silent_s or 0) > 100


def test_the_verdict_is_pure_and_does_not_depend_on_the_order_of_calls() -> None:
    watch = loaded()
    watch.run(10)
    again = diagnose(watch.history, watch.sim.launch, watch.sim.t, watch.verdict).verdict
    assert again == diagnose(watch.history, watch.sim.launch, watch.sim.t, watch.verdict).verdict


def test_the_phase_bar_names_known_phases_in_order() -> None:
    watch = loaded()
    spans = phase_spans(watch.history, watch.sim.launch, watch.sim.t)
    assert [s.phase for s in spans] == ["import", "spawn", "dist_init", "weight_load", "post_load"][-len(spans) :]
    assert all(s.phase in PHASES for s in spans) and spans[-1].end is None


def test_the_phases_of_a_launch_stay_when_its_processes_are_gone() -> None:
    watch = loaded()
    watch.sim.doing = dict.fromkeys(range(8), ASLEEP)
    watch.run(10)
    launch = replace(watch.sim.launch, started_wall=WALL - 20.0)
    before = [(s.phase, s.start) for s in phase_spans(watch.history, launch, watch.sim.t)]
    assert before[0][0] == "import"
    for state in ("Z", None):  # first they are dead, then they are not there any more
        watch.sim.doing = {} if state is None else dict.fromkeys(range(8), Doing(0.0, state))
        watch.run(10)
        after = [(s.phase, s.start) for s in phase_spans(watch.history, launch, watch.sim.t)]
        assert after[: len(before)] == before
    ends = [phase_spans(watch.history, launch, t)[-1].end for t in (watch.sim.t, watch.sim.t + 60.0)]
    assert ends[0] is not None and ends[0] == ends[1], "a phase that nobody is in any more does not go on"


def test_the_silence_is_told_with_its_unit() -> None:
    watch = loaded()
    watch.sim.doing = dict.fromkeys(range(8), ASLEEP)
    watch.run(30)
    told = {entry.signal: entry.text for entry in watch.now.evidence}
    assert told["log_silence"].endswith(" s")


def test_every_cause_has_a_title_and_every_sick_one_a_remedy_with_its_source() -> None:
    for name, cause in CAUSES.items():
        assert cause.title, name
        assert cause.healthy or (cause.remedy and cause.source), name


def test_importing_the_diagnosis_reads_no_markers_and_no_toolkit() -> None:
    """First paint waits for this import."""
    code = (
        "import sys, tui.diagnose, tui.history; "
        "assert not {'tomllib', 'tomli', 'textual', 'asyncssh', 'psutil'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_tick_of_eight_ranks_costs_less_than_four_milliseconds() -> None:
    """Median of sixty ticks in a stall, after ten minutes of one-second samples: the dearest case."""
    watch = loaded()
    watch.sim.doing = dict.fromkeys(range(8), ASLEEP)
    for _ in range(600):
        watch.history.add(watch.sim.tick())
    spent: list[float] = []
    for _ in range(60):
        watch.history.add(watch.sim.tick())
        began = time.process_time()
        watch.judge()
        spent.append(time.process_time() - began)
    assert sorted(spent)[30] <= 0.004


def test_memory_that_goes_up_and_down_is_no_growth() -> None:
    """After a load, resident memory wobbles by 15 MiB and more; no wait is taken for an import or a reader for it."""
    chance = random.Random(5)
    for wobble in (5.0, 15.0, 60.0):
        watch = loaded()
        watch.sim.doing = {rank: replace(ASLEEP) for rank in range(8)}
        for _ in range(120):
            for doing in watch.sim.doing.values():
                doing.rss_mib = 9000.0 + chance.gauss(0.0, wobble)
            watch.tick()
        assert watch.now.id == "hung", wobble
        assert watch.first("slow", after=watch.sim.t - 100.0) is None, wobble


def test_growth_is_seen_through_the_wobble() -> None:
    """An import that reads pages which nobody counts: two MiB a second, with a wobble of five."""
    chance = random.Random(5)
    watch = Watch(SimulatedLaunch(2))
    held = 0.0
    watch.sim.doing = {rank: replace(ASLEEP) for rank in range(2)}
    for _ in range(400):
        held += 2.0
        for doing in watch.sim.doing.values():
            doing.rss_mib = 500.0 + held + chance.gauss(0.0, 5.0)
        watch.tick()
    assert not {said for _, said in watch.seen} & {"suspect", "hung", "crashed"}


def test_who_is_ready_to_run_and_not_let_does_not_wait() -> None:
    """Two ranks compute under a quota of a tenth of a core: runnable in most samples, five percent of a core each."""
    watch = Watch(SimulatedLaunch(2))
    sglang_until_loaded(watch.sim, watch.tick)
    starved = Doing(cpu_pct=5.0, state="R", wchan="0")
    watch.sim.doing = dict.fromkeys(range(2), starved)
    watch.run(300)
    assert (watch.now.id, watch.now.cause) == ("slow", "cpu_starved")
    assert not {said for _, said in watch.seen} & {"suspect", "hung"}


@pytest.mark.parametrize("dt", [1.0, 5.0, 10.0])
def test_a_stopped_rank_is_called_in_two_looks_and_a_profilers_pause_is_not(dt: float) -> None:
    watch = loaded(dt=dt)
    spins = dict.fromkeys(range(8), SPINNING)
    watch.sim.doing = spins | {3: Doing(cpu_pct=0.0, state="T", wchan="do_signal_stop")}
    watch.run(5.0 if dt < 10.0 else 10.0, dt)
    assert watch.now.id not in ("hung", "crashed")
    watch.run(15.0, dt if dt < 10.0 else 5.0)
    assert (watch.now.id, watch.now.cause, [odd.rank for odd in watch.now.odd]) == ("hung", "stopped", [3])


def test_the_process_that_a_launcher_names_is_the_odd_one() -> None:
    watch = loaded()
    watch.sim.lines = ["E1021 api.py:874] failed (exitcode: -6) local_rank: 3 (pid: 4003) of binary: /usr/bin/python3"]
    del watch.sim.doing[3]
    watch.run(30)
    assert watch.now.id == "crashed"
    assert [(odd.rank, odd.why) for odd in watch.now.odd] == [(3, "the launcher says that it ended first")]
