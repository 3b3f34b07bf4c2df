"""The one cleaning function for text that comes from a watched host.

Log lines, command lines, process names, exception texts and stack frames are hostile input: a terminal obeys escape
sequences, markup kills widgets, bidirectional overrides reverse what is read, and one line may be a megabyte. What
leaves :func:`clean` is printable, single-line, bounded text without any of it.
"""

from __future__ import annotations

import re

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

# C0 and C1 controls, DEL, zero-width and joining characters, line separators, bidirectional marks, variation
# selectors, surrogates, non-characters and tags: invisible, or wider or narrower than a terminal believes.
_UNSHOWABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff\ud800-\udfff\U000e0000-\U000e0fff]"
)

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
        text = text.expandtabs(8) if "\t" in text else text
        text = text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ")
    text = _UNSHOWABLE.sub(REPLACEMENT, text)
    return f"{text[:limit]}…[+{over} chars]" if over else text


def clean_tree(value: object, limit: int = LIMIT) -> object:
    """Clean every string in a tree of plain JSON: keys and values of mappings, items of lists. Depth is bounded."""
    return _clean_tree(value, limit, 32)


def _clean_tree(value: object, limit: int, depth: int) -> object:
    if isinstance(value, str):
        return clean(value, limit)
    if depth == 0:
        return None
    if isinstance(value, dict):
        return {
            clean(str(key), limit): _clean_tree(item, limit, depth - 1)  # pyright: ignore[reportUnknownArgumentType]
            for key, item in value.items()  # pyright: ignore[reportUnknownVariableType]
        }
    if isinstance(value, list):
        return [_clean_tree(item, limit, depth - 1) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return value
