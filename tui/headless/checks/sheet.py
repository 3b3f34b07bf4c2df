"""Findings on paper: one host after the other, in sections, wrapped for a terminal; commands stay in one piece."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from tui.headless.checks.finding import Finding, Mark
from tui.headless.paper import Paper

GLYPHS: Final[dict[Mark, str]] = {"ok": "✓", "note": "·", "problem": "✗", "unknown": "?"}
STYLES: Final[dict[Mark, str]] = {"ok": "green", "note": "yellow", "problem": "bold red", "unknown": "magenta"}
WORD = 8
"""Columns of the longest mark's word, and a blank."""

WIDEST = 120

Section = tuple[str, Sequence[Finding]]


class Sheet:
    def __init__(self, width: int | None = None) -> None:
        """``width`` in columns; the terminal's, up to :data:`WIDEST`, where it is not given."""
        self._console = Paper(width)
        self._width = min(WIDEST, self._console.width)

    def host(self, name: str, sections: Sequence[Section]) -> None:
        every = [finding for _, findings in sections for finding in findings]
        self._print(Text.assemble((name, "bold"), f"  {_summary(every)}"))
        for title, findings in sections:
            if findings:
                self._print(Text(f"  {title}", style="bold"))
            for finding in findings:
                self._finding(finding)

    def _finding(self, finding: Finding) -> None:
        mark = f"    {GLYPHS[finding.mark]} {finding.mark:<{WORD}}"
        style = STYLES[finding.mark]
        self._wrapped(Text(mark, style=style), finding.text)
        indent = Text(" " * len(mark))
        if finding.do:
            self._wrapped(indent, finding.do, style="" if finding.mark == "problem" else "dim")
        if finding.command:
            # In one piece, however long: a line that the terminal wraps is copied as one, a wrapped one is not.
            self._print(Text.assemble(indent, "$ ", (finding.command, "cyan")))

    def _wrapped(self, head: Text, body: str, style: str = "") -> None:
        room = max(20, self._width - len(head))
        lines = Text(body, style=style).wrap(self._console, room)
        for number, line in enumerate(lines):
            line.rstrip()
            self._print(Text.assemble(head if number == 0 else " " * len(head), line))

    def _print(self, text: Text) -> None:
        self._console.print(text, soft_wrap=True)


def _summary(findings: Sequence[Finding]) -> str:
    """``2 problems, 1 note``; what is in order is not counted."""
    counts = {mark: sum(finding.mark == mark for finding in findings) for mark in GLYPHS}
    said = [
        f"{counts[mark]} {mark}{'' if counts[mark] == 1 or mark == 'unknown' else 's'}"
        for mark in ("problem", "note", "unknown")
        if counts[mark]
    ]
    return ", ".join(said) or "all in order"
