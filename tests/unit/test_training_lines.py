"""Training launches whose log advances: steps on a steady clock are work, and lines that only beat are none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulated_launch import ASLEEP, SimulatedLaunch
from tests.unit.test_diagnose import Watch
from tui.diagnose.heartbeat import Recurrence
from tui.diagnose.reader import LogReader
from tui.model import LogLine

Say = Callable[[int], str]

STEPS: dict[str, Say] = {
    "step": lambda k: f"step {k} loss {1 / (k + 1):.4f}",
    "epoch and step": lambda k: f"epoch 1 step {k} loss {1 / (k + 1):.5f}",
    "iteration of": lambda k: f"iteration {k}/1000 loss=0.1",
    "torchtitan": lambda k: (
        f"[titan] 2026-02-21 03:12:{k % 60:02d},100 - root - INFO - step: {k}  loss:  7.{k:04d}  "
        f"grad_norm: 1.2{k % 7}  memory: 30.1GiB(38%)  tps: 3,4{k % 10}2  tflops: 10.1  mfu: 20.1%"
    ),
    "nanoGPT": lambda k: f"iter {k}: loss {3 - k / 1000:.4f}, time {100 + k % 7}.00ms, mfu 30.{k % 9}%",
    "HF Trainer": lambda k: (
        f"{{'loss': {3 - k / 1000:.4f}, 'grad_norm': 1.{k % 9}, 'learning_rate': 1.9e-05, 'epoch': {k / 5000:.2f}}}"
    ),
    "json": lambda k: f'{{"step": {k}, "loss": {3 - k / 1000:.4f}}}',
    "loss first": lambda k: f"loss: {3 - k / 1000:.4f} lr: 1e-05 global_step: {k}",
    "imagenet": lambda k: f"Epoch: [0][{k:5d}/5005]\tTime  0.3{k % 9} ( 0.34)\tLoss 6.9{k % 9}e+00 (6.9e+00)",
    "epoch and loss": lambda k: f"epoch 1 loss {3 - k / 1000:.4f}",
    "tokens": lambda k: f"step={k} tokens={k * 4096} 1.2 s",
    "Lightning": lambda k: f"Epoch 0: {k // 10:3d}%|█         | {k}/1000 [00:0{k % 9}<10:10,  6.5it/s, v_num=0]",
    "Keras": lambda k: f"{k}/1875 ━━━━━━━━━━━━━━━━━━━━ 25s {13 + k % 3}ms/step - accuracy: 0.12 - loss: 2.3{k % 9}",
    "nobody's words": lambda k: f"digested {37 * k + k % 5} documents, {400 + k % 7}.{k % 3} a second",
}
BEATS: dict[str, Say] = {
    "counter": lambda k: f"keepalive {k}: sidecar is fine",
    "bare": lambda k: f"beacon {k}",
    "elapsed": lambda k: f"[{30 * k} s] nothing came yet, {30.0 * k:.1f} s in all",
    "retry": lambda k: f"retry {k}, next in {2 ** (k % 7)} s",
    "wanders": lambda k: f"[monitor] cpu {(7 * k) % 13}% memory {(5 * k) % 11}.{k % 3} GiB",
    "constant": lambda k: "still here",
}


def trained(say: Say, period: int, seconds: int) -> Watch:
    """Four ranks that sleep at every look, as they do between short steps, and a log with a step each ``period``."""
    watch = Watch(SimulatedLaunch(4))
    watch.sim.doing = dict.fromkeys(range(4), ASLEEP)
    for second in range(seconds):
        watch.sim.lines = [say(second // period)] if second % period == 0 else []
        watch.tick()
    return watch


@pytest.mark.parametrize("period", [1, 5, 30])
@pytest.mark.parametrize("name", STEPS)
def test_never_suspect_while_steps_come_and_hung_once_they_stop(name: str, period: int) -> None:
    watch = trained(STEPS[name], period, 300 if period < 30 else 600)
    assert not {"suspect", "hung", "crashed"} & {said for _, said in watch.seen}, watch.now.reasons
    if name != "nobody's words":
        assert watch.now.phase == "training_step"
    stopped = watch.sim.t
    watch.run(600)
    suspect, hung = watch.first("suspect", stopped), watch.first("hung", stopped)
    assert suspect is not None and hung is not None and suspect < hung <= stopped + 600


@pytest.mark.parametrize("name", BEATS)
@pytest.mark.parametrize("period", [5, 30])
def test_a_launch_that_only_beats_is_found_as_soon_as_one_that_says_nothing(name: str, period: int) -> None:
    beating, still = trained(BEATS[name], period, 300), trained(lambda k: "" if k else "begun", 10_000, 300)
    first, bare = beating.first("suspect"), still.first("suspect")
    assert first is not None and bare is not None and first <= bare + max(2 * period, 10)


@pytest.mark.parametrize("name", BEATS)
@pytest.mark.parametrize("period", [10.0, 30.0])
def test_beats_of_unknown_kinds_are_no_news(name: str, period: float) -> None:
    recurrence = Recurrence()
    said = [recurrence.note(BEATS[name](k), 100.0 + period * k) for k in range(30)]
    assert said[3:].count("work") == 0 and said[8:].count("clock") == 22


@pytest.mark.parametrize("period", [1.0, 5.0, 30.0])
def test_a_count_beside_other_measurements_is_work(period: float) -> None:
    recurrence = Recurrence()
    said = [recurrence.note(STEPS["nobody's words"](k), 100.0 + period * k) for k in range(20)]
    assert set(said[8:]) == {"work"} and set(said[2:]) <= {"work", "new"}


def test_a_step_that_is_said_again_and_again_is_no_step() -> None:
    reader = LogReader()
    for k in range(40):
        reader.read([LogLine("step 40 loss 0.0250", 100.0 + 5 * k)], None)
    assert reader.run.progress_t == 100.0 and reader.spoke_t == 100.0
