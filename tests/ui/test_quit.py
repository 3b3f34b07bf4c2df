"""``q`` leaves at once, whatever the session does: a real process on a real pseudo-terminal, timed."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest

from tests.tmux import Tmux
from tests.ui.terminal import on_a_terminal, read_for, read_until

PROGRAM = """
import asyncio, time
from tests.ui.driving import ToldSession
from tui.ui.app import GputopApp

class Stubborn(ToldSession):
    async def stop(self):
        {stop}

GputopApp(lambda: Stubborn("hung"), theme="dusk").run()
"""

ENDS = {
    "at once": "pass",
    "never, and swallows its cancellation": """
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                pass""",
    "never, and blocks the loop": "time.sleep(3600)",
    "with an error": "raise RuntimeError('broken')",
}


@pytest.mark.parametrize("stop", ENDS.values(), ids=ENDS.keys())
def test_q_gives_the_terminal_back_however_the_session_stops(stop: str) -> None:
    with on_a_terminal("-c", PROGRAM.format(stop=stop)) as terminal:
        read_until(terminal, b"HUNG", 20.0)
        read_for(terminal, 0.3)
        begun = time.monotonic()
        os.write(terminal, b"q")
        rest = read_until(terminal, None, 10.0)
        took = time.monotonic() - begun
    assert b"\x1b[?1049l" in rest, "the alternate screen was not left"
    # The aim is half a second, half of which an empty Textual application takes; the rest is for a loaded machine.
    assert took < 1.0


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGHUP], ids=lambda ending: ending.name)
def test_a_signal_that_ends_it_gives_the_terminal_back(ending: signal.Signals) -> None:
    """As the first process of a container it would even outlive a signal that it has no handler for."""
    with on_a_terminal("-c", PROGRAM.format(stop="pass")) as terminal:
        read_until(terminal, b"HUNG", 20.0)
        read_for(terminal, 0.3)
        os.kill(os.tcgetpgrp(terminal), ending)
        assert b"\x1b[?1049l" in read_until(terminal, None, 10.0)


def test_ctrl_z_goes_to_the_shell_and_fg_comes_back() -> None:
    with Tmux(("bash", "--norc", "-i"), columns=100, rows=30) as shell:
        shell.press(f"{sys.executable} -m tests.ui.playground", "Enter")
        shell.wait_for(r"✗ HUNG", 20.0)
        shell.press("C-z")
        shell.wait_for(r"Stopped", 5.0)
        assert "HUNG" not in shell.screen()
        shell.press("fg", "Enter")
        shell.wait_for(r"✗ HUNG(?s:.)*q quit", 10.0)
        shell.press("q")
        shell.wait_for(r"[#$]\s*$", 5.0)
