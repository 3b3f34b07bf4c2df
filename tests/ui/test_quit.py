"""``q`` leaves at once, whatever the session does: a real process on a real pseudo-terminal, timed."""

from __future__ import annotations

import os
import pty
import select
import signal
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PROGRAM = """
import asyncio, time
from tests.ui.driving import ToldSession
from tui.ui.app import GputopApp

class Stubborn(ToldSession):
    async def stop(self):
        {stop}

GputopApp(Stubborn("hung"), theme="dusk").run()
print("left in order")
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
def test_q_gives_the_terminal_back_within_half_a_second_of_a_loaded_machine(stop: str) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        os.environ.update(TERM="xterm-256color", COLUMNS="120", LINES="40")
        os.execv(sys.executable, [sys.executable, "-c", PROGRAM.format(stop=stop)])
    try:
        read_until(terminal, b"HUNG", 20.0)
        time.sleep(0.3)
        begun = time.monotonic()
        os.write(terminal, b"q")
        rest = read_until(terminal, None, 10.0)
        took = time.monotonic() - begun
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
    assert b"\x1b[?1049l" in rest, "the alternate screen was not left"
    # Textual and the interpreter need a quarter of a second to end by themselves; the rest is for a loaded machine.
    assert took < 1.0


def read_until(terminal: int, needle: bytes | None, seconds: float) -> bytes:
    """What the program writes, up to a text or (``None``) to its end."""
    got = b""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not select.select([terminal], [], [], 0.05)[0]:
            continue
        try:
            data = os.read(terminal, 65536)
        except OSError:
            return got
        got += data
        if not data or (needle is not None and needle in got):
            return got
    raise AssertionError(f"{needle!r} did not come within {seconds} s: {got[-300:]!r}")
