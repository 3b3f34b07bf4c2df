"""Whether somebody is here for the first time: a file in the state directory tells."""

from __future__ import annotations

from pathlib import Path

from tui.files import state_folder


def is_first_run(folder: Path | None = None) -> bool:
    """True once for each user; also false where that cannot be noted, for a hint at every start is a nuisance."""
    folder = folder or state_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "greeted").touch(exist_ok=False)
    except OSError:
        return False
    return True
