"""The followed logs of one host: what was read of each, and the lines that a tick adds.

Lives as long as the host is watched, so that after a reconnect a log goes on in mid-line where it was left.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, Literal, cast

from tui.collect.logtext import LogSplitter
from tui.model import LogLine, LogUpdate
from tui.untyped import integer, listed, mapped, number, text

MOST_LOGS = 1024
"""Logs of one host that are kept apart; a host that names more of its own accord is not heard on them."""

Change = Literal["", "rotated", "truncated", "deleted", "appeared"]
_CHANGES = ("rotated", "truncated", "deleted", "appeared")


class LogBook:
    """All followed logs of one host, by the key they were followed under."""

    def __init__(self) -> None:
        self._logs: dict[str, _Log] = {}

    def read(self, frame: dict[str, Any], t: float) -> tuple[LogUpdate, ...]:
        """The updates of a tick at ``t``; an entry without key or path is skipped."""
        return tuple(update for entry in listed(frame.get("logs")) if (update := self._update(mapped(entry), t)))

    def _update(self, entry: dict[str, Any], t: float) -> LogUpdate | None:
        key, path = entry.get("key"), text(entry.get("path"))
        if not isinstance(key, str) or path is None or (key not in self._logs and len(self._logs) >= MOST_LOGS):
            return None
        return self._logs.setdefault(key, _Log()).update(entry, path, t)


class _Log:
    """One log: the splitter's unfinished line, the offset that comes next, and what of it is older than the watch."""

    def __init__(self) -> None:
        self._splitter = LogSplitter()
        self._inode: int | None = None
        self._next: int | None = None
        self._old_until: float | None = None

    def update(self, entry: dict[str, Any], path: str, t: float) -> LogUpdate:
        size, inode = number(entry.get("size")), integer(entry.get("inode"))
        if self._old_until is None:
            self._old_until = size or 0.0  # what the file held when it was first looked at is older than the watch
        change = self._change(entry.get("change"), size, inode)
        lines: list[LogLine] = []
        if change:
            lines += self._splitter.flush(t)
            self._next, self._old_until = None, 0.0
        lines += self._add(_data(entry.get("data")), integer(entry.get("offset")), t)
        return LogUpdate(
            path=path,
            size=size,
            read_to=self._next,
            inode=inode,
            mtime=number(entry.get("mtime")),
            lines=tuple(lines),
            lines_total=integer(entry.get("lines_total")),
            skipped_bytes=integer(entry.get("skipped_bytes")) or 0,
            change=change,
            error=text(entry.get("error")),
        )

    def _change(self, said: object, size: float | None, inode: int | None) -> Change:
        """The agent's word, or what happened between two connections, when no agent was there to see it."""
        was, self._inode = self._inode, inode if inode is not None else self._inode
        if said in _CHANGES:
            return cast("Change", said)
        if was is not None and inode is not None and inode != was:
            return "rotated"
        if size is not None and self._next is not None and size < self._next:
            return "truncated"
        return ""

    def _add(self, data: bytes, offset: int | None, t: float) -> list[LogLine]:
        """Lines of ``data`` at ``offset``: what was read before is left out, and over a gap no line is joined."""
        lines: list[LogLine] = []
        expected, start = self._next, offset if offset is not None else self._next or 0
        if expected is not None and start < expected:
            data, start = data[expected - start :], expected
        elif expected is not None and start > expected:
            lines += self._splitter.flush(t)
        if not data and expected is not None:
            return lines
        self._next = start + len(data)
        arrived = t if start >= (self._old_until or 0.0) else None
        return lines + self._splitter.feed(data, arrived)


def _data(value: object) -> bytes:
    if not isinstance(value, str):
        return b""
    try:
        return base64.b64decode(value, validate=False)
    except (binascii.Error, ValueError):
        return b""
