"""A user's own marker files: ``markers/*.toml`` in the configuration directory, read when the first log line comes.

They are data for the diagnosis, which reads no files itself. A file that cannot be used is left out and told once.
"""

from __future__ import annotations

from pathlib import Path

from tui.diagnose import markers
from tui.files import read_small


class OwnMarkers:
    """Gives all markers, the package's and the user's; ``problems`` holds a sentence for each file left out."""

    def __init__(self, folder: Path | None = None) -> None:
        """``folder`` instead of the configuration directory's own, ``~/.config/gputop-hang/markers`` on Linux."""
        self.problems: list[str] = []
        self._folder = folder
        self._all: markers.Markers | None = None

    def __call__(self) -> markers.Markers:
        if self._all is None:
            self._all = markers.load(tuple(self._read()))
        return self._all

    def _read(self) -> list[markers.MarkerFile]:
        paths = sorted((self._folder or _configured()).glob("*.toml"))
        return [file for path in paths if (file := self._parsed(path)) is not None]

    def _parsed(self, path: Path) -> markers.MarkerFile | None:
        try:
            return markers.parse(read_small(path), str(path))
        except (OSError, ValueError) as error:
            self.problems.append(f"{error}; this marker file is left out until it is corrected")
            return None


def _configured() -> Path:
    from platformdirs import user_config_path  # 14 ms, and not before a log is there

    return user_config_path("gputop-hang") / "markers"
