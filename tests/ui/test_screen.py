"""What stands on the main screen, for every state and size."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ui import fakes
from tests.ui.driving import SIZES, StillApp, rows, still_app, text, told
from tui.model import Odd
from tui.ui.widgets.verdict import odd_words
from tui.ui.words import VERDICT_GLYPHS

WORDS = [verdict.upper() for verdict in VERDICT_GLYPHS]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("state", fakes.STATES)
async def test_every_state_is_drawn_at_every_size(state: str, size: tuple[int, int]) -> None:
    app = still_app(state)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        assert "cannot be drawn" not in text(app)
        assert len(rows(app)) == size[1]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("state", ["hung", "slow", "ready", "progressing", "multi", "lost"])
async def test_the_verdict_word_stands_once_and_no_other_stands_anywhere(state: str, size: tuple[int, int]) -> None:
    app = still_app(state)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        verdict = fakes.snapshot(state).launches[0].verdict.id
        screen = text(app)
        assert {word: screen.count(word) for word in WORDS if word in screen} == {verdict.upper(): 1}
        assert f"{VERDICT_GLYPHS[verdict]} {verdict.upper()}" in screen


@pytest.mark.parametrize("size", SIZES)
async def test_a_hang_shows_phase_silence_reason_odd_rank_and_the_key(size: tuple[int, int]) -> None:
    """What somebody must find within five seconds."""
    app = still_app("hung")
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        screen = text(app)
        for words in ("post load", "log silent", "4m 04s", "nothing moved", "3m 58s", "all 8 GPUs at 0 %", "rank 5"):
            assert words in screen, words
        assert "no rank has a child process" in " ".join(screen.replace("▌", " ").split())
        assert " d  take the stacks" in screen


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("empty", "waiting for SGLang, vLLM or torchrun processes, or one that --pid or --port names"),
        ("connecting", "connecting to gpu-a17, gpu-a18"),
        ("nohost", "no host yet"),
        ("nogpu", "GPUs cannot be read: no NVIDIA driver here"),
    ],
)
async def test_a_screen_without_a_launch_says_one_helpful_sentence(state: str, words: str) -> None:
    app = still_app(state)
    async with app.run_test(size=(200, 50)) as pilot:
        await pilot.pause()
        assert words in text(app)
        assert not any(word in text(app) for word in WORDS)


async def test_a_note_that_the_last_line_has_no_room_for_is_said_once_in_full() -> None:
    note = "/home/me/.config/gputop-hang/markers/mine.toml: Invalid value; this marker file is left out until corrected"
    noted = replace(fakes.snapshot("hung"), note=note)
    app = still_app(first=noted)
    async with app.run_test(size=(100, 30), notifications=True) as pilot:
        await pilot.pause()
        told(app).post(noted)
        await pilot.pause()
        assert [shown.message for shown in app._notifications] == [note]


def test_the_odd_rank_is_said_once_where_its_reason_is_a_sentence_of_the_stacks() -> None:
    odd = Odd("gpu1", 47, 1, "rank", "rank 1 waits for a lock in refill (cache.py:26); the other 7 wait in all_reduce.")
    assert odd_words(odd).startswith("rank 1 on gpu1 (pid 47): waits for a lock in refill")
    assert odd_words(replace(odd, why="rank 11 waits")).endswith(": rank 11 waits")


async def test_why_a_start_was_slow_is_not_said_as_what_it_is_ready_of() -> None:
    ready = fakes.snapshot("ready")
    view = ready.launches[0]
    slow = replace(view, verdict=replace(view.verdict, cause="kernel_build"))
    app = still_app(first=replace(ready, launches=(slow,)))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        assert "✓ READY" in text(app) and "kernel build" not in text(app)


async def test_a_lost_host_is_visibly_old_and_its_timers_stand() -> None:
    app = still_app("lost")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        assert "gpu-a17 lost for 35s: the connection broke" in text(app)
        for _ in range(2):
            assert "log silent     3m 29s held" in text(app), "what it was when the host was heard last, 35 s ago"
            assert "nothing moved  3m 23s held" in text(app)
            assert "silent for 3m 29s when last heard" in text(app)
            assert "8 of 8 alive when last heard" in text(app)
            StillApp.now += 60
            told(app).post(fakes.snapshot("lost", 460.0))  # the session counts on: it judges what it knows
            app._tick()
            await pilot.pause()


async def test_a_log_that_is_heard_is_silent_also_while_another_host_is_not_heard() -> None:
    app = still_app("multi")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        silent, moved = (next(row for row in rows(app) if words in row) for words in ("log silent", "nothing moved"))
        assert silent.rstrip().endswith("2m 51s")
        assert moved.rstrip().endswith("2m 10s held"), "gpu-b03 has not been heard for 41 s"


async def test_timers_run_on_between_snapshots_but_not_beyond_the_next_one() -> None:
    app = still_app("hung")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        assert "4m 04s" in text(app)
        StillApp.now += 1.2
        app._tick()
        await pilot.pause()
        assert "4m 05s" in text(app)
        StillApp.now += 600
        app._tick()
        await pilot.pause()
        assert "4m 06s" in text(app)


async def test_simulated_readings_are_marked_where_they_stand() -> None:
    for state, marked in (("hung", True), ("progressing", False)):
        app = still_app(state)
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.pause()
            line = next(row for row in rows(app) if "g GPUs" in row)
            assert ("SIMULATED" in line) is marked


async def test_a_pane_that_cannot_be_drawn_says_so_and_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    app = still_app("hung")
    async with app.run_test(size=(200, 50)) as pilot:
        monkeypatch.setattr(app.main.log_pane, "paint", lambda *args: 1 / 0)
        told(app).post(fakes.snapshot("hung", 500.0))
        await pilot.pause(0.5)
        assert "cannot be drawn: ZeroDivisionError" in text(app)
        assert "5m 44s" in text(app)


async def test_redraws_of_one_line_are_shown_as_one() -> None:
    app = still_app("hung")
    async with app.run_test(size=(200, 50)) as pilot:
        await pilot.pause()
        assert text(app).count("Loading safetensors") == 1


async def test_gaps_in_the_log_stand_in_the_margin() -> None:
    app = still_app("ready")
    async with app.run_test(size=(200, 50)) as pilot:
        await pilot.pause()
        fired = next(row for row in rows(app) if "fired up and" in row)
        assert fired.strip().startswith("+2m24s")
