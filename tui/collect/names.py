"""What a host calls its files. The monitor knows a path by its cleaned name, which the host may not find again: control
characters and bytes that are no UTF-8 belong to the path there."""

from __future__ import annotations

from typing import Any

from tui.safetext import LIMIT, clean
from tui.untyped import listed, mapped

MOST = 1024
"""Paths of one host that are kept; only those that cleaning changes need to be."""


class Names:
    """One host's, as long as it is watched. Of two paths with one name the later is meant."""

    def __init__(self) -> None:
        self._there: dict[str, str] = {}

    def learn(self, path: object) -> None:
        """Note a path as the host, or the command line, has it."""
        if isinstance(path, str) and len(path) <= LIMIT and (name := clean(path)) != path and len(self._there) < MOST:
            self._there[name] = path

    def learn_from(self, frame: dict[str, Any]) -> None:
        """Note the paths of new processes' outputs in a tick, and the one that an answer is about."""
        self.learn(frame.get("path"))
        for identity in map(mapped, listed(frame.get("new"))):
            for path in (identity.get("stdout"), identity.get("stderr"), *listed(identity.get("pipe_files"))):
                self.learn(path)

    def there(self, name: str) -> str:
        """The path of this name as the host has it."""
        return self._there.get(name, name)
