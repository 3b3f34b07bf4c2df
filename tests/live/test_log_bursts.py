"""What a log says is shown once, whatever burst lies between: through the real agent and the monitor's own log book."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agent_client import AgentClient, Frame
from tui.collect.logbook import LogBook

MIB = 1 << 20


@pytest.mark.parametrize("opened", [b"", b"step 8"], ids=["after a newline", "in mid-line"])
@pytest.mark.parametrize("bursts", [1, 3])
def test_no_line_comes_twice_after_megabytes_without_a_newline(tmp_path: Path, bursts: int, opened: bytes) -> None:
    """A gap is no truncation: the file is not begun anew, and what follows the burst is not shipped again."""
    log = tmp_path / "train.log"
    log.write_bytes(b"first line\nshort 0\nshort 1\n" + opened)
    book, told, changes = LogBook(), list[str](), set[str]()

    def has(wanted: str) -> Callable[[Frame], bool]:
        def take(frame: Frame) -> bool:
            updates = book.read(frame, 1.0)
            changes.update(update.change for update in updates)
            told.extend(line.text for update in updates for line in update.lines if not line.open)
            return any(wanted in line.text for update in updates for line in update.lines)

        return take

    with AgentClient(local=True) as client:
        client.hello()
        client.send(do="interval", s=0.2)
        client.send(do="follow", key="log", path=str(log))
        client.until(has("short 1"))
        for written, wanted in (
            *[(b"x" * MIB, "xxx")] * bursts,
            (b"\nbehind it\nlast 0\n", "last 0"),
            (b"last 1\nlast 2\n", "last 2"),
        ):
            with log.open("ab") as file:
                file.write(written)
            client.until(has(wanted))
    for line in ("first line", "short 0", "short 1", "behind it", "last 0", "last 1", "last 2"):
        assert told.count(line) == 1, (line, [text[:40] for text in told])
    assert changes == {""}
