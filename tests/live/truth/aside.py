"""The cases run beside other tests that mostly sleep: in a process of their own, begun early and asked late."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.live.truth.__main__ import SECONDS

ROOT = Path(__file__).parents[3]
LONGEST_S = SECONDS + 240.0


class Aside:
    """All cases and gaps in a process of their own; ``result`` waits for what was told."""

    def __init__(self, folder: Path) -> None:
        self._told = folder / "told.json"
        self._said = folder / "said.txt"
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.live.truth", "--json", str(self._told)],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
            )

    def result(self) -> dict[str, Any]:
        """See :func:`tests.live.truth.report.as_plain`."""
        self._process.wait(LONGEST_S)
        assert self._told.exists(), self._said.read_text(errors="replace")[-4000:]
        told: dict[str, Any] = json.loads(self._told.read_text())
        return told

    def stop(self) -> None:
        """It ends what it started when it is interrupted."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(20.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
