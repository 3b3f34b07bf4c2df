"""Bytes of a log to lines: a lone carriage return redraws, and bytes may be cut anywhere.

Progress bars end each frame in ``\\r`` alone; a reader of whole lines sees such a bar only when it is over, so every
stretch between carriage returns becomes an event of its own. ``\\r\\n`` is a newline (vLLM joins the lines of one
message with it). Frames of one bar that arrive together differ in figures only; the last one stands for all of them.
"""

from __future__ import annotations

import codecs
import re

from tui.model import LogLine
from tui.safetext import LIMIT, clean

KEPT = 4 * LIMIT
"""Bytes of one line that are kept; UTF-8 needs up to four for a character."""

_END = re.compile(rb"(\r\n|\n|\r)")
# What changes from frame to frame of one bar: figures, punctuation, and the blocks U+2580 to U+259F that fill it.
_FIGURES = b"0123456789 .,:?<>%|#=-/[]\xe2\x96" + bytes(range(0x80, 0xA0))


class LogSplitter:
    """The unfinished end of one log between two reads."""

    def __init__(self) -> None:
        self._open = bytearray()
        self._open_size = 0
        self._held_cr = False
        self._told_size = 0

    def feed(self, data: bytes, t: float | None = None) -> list[LogLine]:
        """Lines and redraws that ``data`` completes, then the open rest if it changed; ``t`` is when it arrived."""
        data = data.replace(b"\0", b"")  # holes of a log that was truncated under a writer without O_APPEND
        if not data:
            return []
        if self._held_cr:
            data = b"\r" + data
        self._held_cr = data.endswith(b"\r")  # the next read says whether it is half of a newline
        if self._held_cr:
            data = data[:-1]
        parts = _END.split(data)
        lines: list[LogLine] = []
        shape = None
        for text, end in zip(parts[::2], parts[1::2], strict=False):
            shape = self._end_segment(lines, text, end == b"\r", shape, t)
        self._extend(parts[-1])
        if self._open_size != self._told_size:
            self._told_size = self._open_size
            lines.append(LogLine(self._text(complete=False), t, open=True))
        return lines

    def flush(self, t: float | None = None) -> list[LogLine]:
        """The open rest as a line of its own, where the log does not go on as it was: replaced, cut, or a gap."""
        rest = [LogLine(self._text(), t)] if self._open else []
        self._reset()
        self._held_cr = False
        return rest

    def _end_segment(
        self, lines: list[LogLine], text: bytes, redraw: bool, shape: bytes | None, t: float | None
    ) -> bytes | None:
        """Append what ends here; gives back the shape of the bar that was drawn last, ``None`` after a line."""
        self._extend(text)
        if not redraw:
            lines.append(LogLine(self._text(), t))
            self._reset()
            return None
        if not self._open:
            return shape
        was, shape = shape, bytes(self._open).translate(None, _FIGURES)
        if shape == was:
            lines.pop()
        lines.append(LogLine(self._text(), t, redraw=True))
        self._reset()
        return shape

    def _extend(self, data: bytes) -> None:
        self._open_size += len(data)
        room = KEPT - len(self._open)
        if room > 0:
            self._open += data[:room]

    def _reset(self) -> None:
        self._open.clear()
        self._open_size = 0
        self._told_size = 0

    def _text(self, *, complete: bool = True) -> str:
        text, _ = codecs.utf_8_decode(self._open, "replace", complete and self._open_size <= KEPT)
        if self._open_size <= KEPT:
            return clean(text)
        return f"{clean(text[:LIMIT])}…[a line of {self._open_size} bytes]"
