"""The one cleaning function for text that comes from a watched host.

Log lines, command lines, process names, exception texts and stack frames are hostile input: a terminal obeys escape
sequences, markup kills widgets, bidirectional overrides reverse what is read, and one line may be a megabyte. What
leaves :func:`clean` is printable, single-line, bounded text without any of it.
"""

from __future__ import annotations

import re
from typing import Any, cast

LIMIT = 4096
"""Most characters that one string keeps; the rest is counted in its place."""

# CSI, OSC (ended by BEL, ST or nothing), DCS/SOS/PM/APC, their one-byte C1 forms, charset selection, any other escape.
_SEQUENCES = re.compile(
    "\x1b\\[[0-?]*[ -/]*[@-~]?"
    "|\x1b\\][^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c)?"
    "|\x1b[PX^_][^\x1b\x9c]*(?:\x1b\\\\|\x9c)?"
    "|\x9b[0-?]*[ -/]*[@-~]?"
    "|\x9d[^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c)?"
    "|[\x90\x98\x9e\x9f][^\x1b\x9c]*(?:\x1b\\\\|\x9c)?"
    "|\x1b[ -/]*[0-~]?"
)

# Printable for Python, yet invisible or of a width that terminals disagree on: fillers, joiners, variation selectors.
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")

REPLACEMENT = "\ufffd"


def clean(text: str | bytes, limit: int = LIMIT) -> str:
    """Make one printable line of anything a host sent; never raises, and takes time linear in ``limit``.

    Bytes are decoded as UTF-8 with replacement. Escape sequences vanish, tabs become spaces, other controls become
    U+FFFD, and what exceeds ``limit`` characters is replaced by its length.
    """
    if isinstance(text, bytes):
        text = (
            text[: 8 * limit].decode("utf-8", "replace") if len(text) > 8 * limit else text.decode("utf-8", "replace")
        )
    if len(text) <= limit and text.isascii() and text.isprintable():
        return text
    over = max(0, len(text) - limit)
    text = _SEQUENCES.sub("", text[:limit])
    if not text.isprintable():
        text = text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ").expandtabs(8)
        text = "".join(char if char.isprintable() else _stand_in(char) for char in text)
    text = _INVISIBLE.sub(REPLACEMENT, text)
    return f"{text[:limit]}…[+{over} chars]" if over else text


def _stand_in(char: str) -> str:
    """What is shown for a character that Python does not call printable (controls, formats, surrogates, separators)."""
    return " " if char.isspace() and char > "\x9f" else REPLACEMENT


def clean_tree(value: Any, limit: int = LIMIT, depth: int = 32) -> Any:
    """Clean every string in a tree of plain JSON, keys too; what lies deeper than ``depth`` becomes ``None``."""
    if isinstance(value, str):
        return clean(value, limit)
    if not isinstance(value, (dict, list)):
        return value
    if depth == 0:
        return None
    if isinstance(value, dict):
        items = cast(dict[Any, Any], value).items()
        return {clean(str(key), limit): clean_tree(item, limit, depth - 1) for key, item in items}
    return [clean_tree(item, limit, depth - 1) for item in cast(list[Any], value)]
