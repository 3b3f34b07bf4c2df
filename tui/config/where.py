"""Where in a TOML text something stands, so that an error can point at it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from tui import toml

LONGEST = 1000
"""Lines up to which a place is looked for: each line costs a parse of all before it, and only an error asks."""


def place_of(text: str, keys: Sequence[str]) -> tuple[int, int] | None:
    """Line and column, both from 1, of the statement that first sets ``keys`` (table, key …); ``None`` if not found.

    The parser itself tells where statements end: a beginning of the text is valid exactly where none is cut in two.
    """
    lines = text.split("\n")
    begin = 0
    for end in range(1, min(len(lines), LONGEST) + 1):
        try:
            data = toml.loads("\n".join(lines[:end]) + "\n")
        except ValueError:
            continue
        if _holds(data, keys):
            return begin + 1, _column(lines[begin], keys[-1])
        begin = end
    return None


def place_in_error(error: ValueError) -> tuple[str, int, int] | None:
    """What the parser says, and the line and column where: ``Invalid value``, 3, 7."""
    match = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", str(error), re.DOTALL)
    return (match[1], int(match[2]), int(match[3])) if match else None


def _holds(data: Mapping[str, Any], keys: Sequence[str]) -> bool:
    for key in keys:
        if not isinstance(data, dict) or key not in data:
            return False
        data = cast("Mapping[str, Any]", data)[key]
    return True


def _column(line: str, key: str) -> int:
    match = re.search(rf"(?<![\w-])[\"']?{re.escape(key)}(?![\w-])", line)
    return 1 + (match.start() if match else len(line) - len(line.lstrip()))
