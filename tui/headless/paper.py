"""Standard output for people: as wide as the terminal, with styles where it is one, and no markup in what is said."""

from __future__ import annotations

import sys

from rich.console import Console


class Paper(Console):
    def __init__(self, width: int | None = None) -> None:
        """``width`` in columns; the terminal's where it is not given."""
        super().__init__(file=sys.stdout, highlight=False, markup=False, emoji=False, width=width)

    def on_broken_pipe(self) -> None:
        """A reader that has seen enough is no error, as the command line knows; rich would exit with 1."""
        raise BrokenPipeError
