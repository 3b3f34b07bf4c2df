"""What was chosen in the monitor with keys, kept for the next start: ``choices.json`` in the state directory.

It is the program's own file: whatever is wrong with it, the usual is chosen and nobody is told. Of several monitors,
the one in which something was chosen last has the word.
"""

from __future__ import annotations

import json
import os
import queue
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

from tui.files import read_small, state_folder

MOST_BYTES = 1 << 16
CLOSE_S = 0.15
"""So long the end of the monitor waits for what is still to be written."""


@dataclass(frozen=True, slots=True)
class Choices:
    """Names as the interface has them; it passes over those that it does not know (any more)."""

    themes: Mapping[str, str] = field(default_factory=dict[str, str])
    """By the theme that suits the terminal, the one that was chosen there: sixteen colours are another choice."""

    hidden_panes: tuple[str, ...] = ()
    pane_order: tuple[str, ...] = ()
    hidden_columns: tuple[str, ...] = ()
    """Columns of the ranks."""

    ranks_order: str = ""


NOTHING_CHOSEN = Choices()


class Kept:
    """The choices of past monitors, and a thread that writes those of this one: a dead file system holds up nobody."""

    def __init__(self, folder: Path | None = None) -> None:
        """``folder`` instead of the state directory, ``~/.local/state/gputop-hang`` on Linux."""
        self._path = (folder or state_folder()) / "choices.json"
        self.choices = _read(self._path)
        self._work: queue.SimpleQueue[Choices | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def keep(self, choices: Choices) -> None:
        """Write them if they are others than before; returns at once."""
        if choices == self.choices:
            return
        self.choices = choices
        self._work.put(choices)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="choices", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Let what was chosen last be written, if that does not take long."""
        if self._thread is not None:
            self._work.put(None)
            self._thread.join(CLOSE_S)

    def _run(self) -> None:
        while (choices := self._work.get()) is not None:
            with suppress(OSError):  # full, not writable, gone: then it is not kept
                _write(self._path, choices)


def _read(path: Path) -> Choices:
    try:
        told: Any = json.loads(read_small(path, MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return NOTHING_CHOSEN
    if not isinstance(told, dict):
        return NOTHING_CHOSEN
    table = cast("dict[str, Any]", told)
    themes, order = table.get("themes"), table.get("ranks_order")
    return Choices(
        themes={k: v for k, v in cast("dict[str, Any]", themes).items() if isinstance(v, str)}
        if isinstance(themes, dict)
        else {},
        hidden_panes=_words(table.get("hidden_panes")),
        pane_order=_words(table.get("pane_order")),
        hidden_columns=_words(table.get("hidden_columns")),
        ranks_order=order if isinstance(order, str) else "",
    )


def _words(value: Any) -> tuple[str, ...]:
    return tuple(word for word in cast("list[Any]", value) if isinstance(word, str)) if isinstance(value, list) else ()


def _write(path: Path, choices: Choices) -> None:
    """In one step, so that another monitor reads the old or the new. Raises: OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        new.write_text(json.dumps(asdict(choices)) + "\n", encoding="utf-8")
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
