"""Past launches: whether this monitor's own file of them can be used. Where it cannot, nobody else would say so."""

from __future__ import annotations

import os
import shlex
import threading
from pathlib import Path

from tui.files import state_folder
from tui.headless.checks.finding import Finding

WITHIN_S = 1.5
"""The file may lie on a file system that does not answer."""

WITHOUT = "what a phase usually takes is not known, and no launch is remembered"


def past(folder: Path | None = None) -> list[Finding]:
    """Nothing where all is in order. ``folder`` instead of the state directory."""
    answers: list[list[Finding]] = []
    asking = threading.Thread(target=lambda: answers.append(_look(folder)), name="past launches", daemon=True)
    asking.start()
    asking.join(WITHIN_S)
    return answers[0] if answers else [Finding("note", f"the file of past launches does not answer: {WITHOUT}")]


def _look(folder: Path | None) -> list[Finding]:
    from tui.record.store import Store

    folder = folder or state_folder()
    store = Store(folder)
    fault = store.fault()
    if fault is None:
        return []
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        do = f"Make {folder} a folder that this user may write into."
        return [Finding("note", f"past launches cannot be kept in {folder} ({fault}): {WITHOUT}", do)]
    path = str(store.path)
    said = f"the past launches in {path} cannot be used ({fault}): {WITHOUT}"
    move = f"mv {shlex.quote(path)} {shlex.quote(f'{path}.broken')}"
    return [Finding("note", said, "Move the file away; the next launch that becomes ready begins a new one:", move)]
