"""What the interface costs a terminal, measured on a real one."""

from __future__ import annotations

import pytest

from tests.ui.terminal import on_a_terminal, read_for, read_until

BYTES_A_MINUTE = 300_000


@pytest.mark.parametrize("state", ["hung", "progressing"])
def test_eight_gpus_write_at_most_300_kb_a_minute(state: str) -> None:
    """``progressing`` changes every number of every GPU at every tick, which no real launch does."""
    args = ("-m", "tests.ui.playground", "--state", state, "--theme", "dusk")
    with on_a_terminal(*args, size=(200, 50)) as terminal:
        read_until(terminal, b"GPUs", 20.0)
        read_for(terminal, 1.5)
        seconds = 6.0
        written = len(read_for(terminal, seconds))
    assert written * 60 / seconds <= BYTES_A_MINUTE
