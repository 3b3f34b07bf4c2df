"""Bytes from an agent to frames: skip what a login shell prints, inflate, split, parse; bounded at every step.

The stream is described in :mod:`tui.agent`. Nothing of it is trusted: a host may send noise for ever, a zip bomb, a
frame without an end, or JSON nested beyond reason.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from typing import Any, cast

from tui.collect.payload import SYNC
from tui.errors import HostError
from tui.safetext import clean

NOISE_LIMIT = 1 << 20
"""Most bytes that a login may print before the agent speaks."""

FRAME_LIMIT = 64 << 20
"""Most bytes of one frame after inflation."""

FRAMES_PER_READ = 4096
"""Most frames that one read may hold: an agent sends a few a second, so even a minute's backlog stays far below."""

_STEP = 1 << 20


class FrameReader:
    """Turns what a channel reads into frames. One for each connection."""

    def __init__(self) -> None:
        self._noise = bytearray()
        self._noise_bytes = 0
        self._inflater = zlib.decompressobj()
        self._pending = bytearray()
        self.synced = False

    def noise_tail(self) -> str:
        """The last line that came before the agent spoke, for people; empty if there was none."""
        lines = [line for line in bytes(self._noise).splitlines() if line.strip(b"\0 \t")]
        return clean(lines[-1].strip(), 200) if lines else ""

    def feed(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Yield the frames that ``data`` completes; raises :class:`HostError` where the stream cannot be an agent's."""
        if not self.synced:
            data = self._skip_noise(data)
        frames = 0
        while data:
            try:
                self._pending += self._inflater.decompress(data, _STEP)
            except zlib.error:
                raise HostError(_DAMAGED) from None
            data = self._inflater.unconsumed_tail
            for line in self._lines():
                frames += 1
                if frames > FRAMES_PER_READ:
                    raise HostError("floods the connection with frames; this is no agent of ours.")
                yield _parse(line)

    def _skip_noise(self, data: bytes) -> bytes:
        searched = max(0, len(self._noise) - len(SYNC) + 1)
        self._noise += data
        found = self._noise.find(SYNC, searched)
        if found >= 0:
            self.synced = True
            rest = bytes(self._noise[found + len(SYNC) :])
            del self._noise[found:]
            return rest
        self._noise_bytes += len(data)
        if self._noise_bytes > NOISE_LIMIT:
            raise HostError(
                "printed over 1 MiB before the agent could speak; make its shell start-up files silent for "
                "non-interactive logins."
            )
        del self._noise[:-4096]
        return b""

    def _lines(self) -> Iterator[bytes]:
        """Take the whole lines out of the buffer; what stays has no LF in it, so it is searched once only."""
        end = self._pending.rfind(b"\n", max(0, len(self._pending) - _STEP))
        if end >= 0:
            whole = bytes(self._pending[:end])
            del self._pending[: end + 1]
            yield from whole.split(b"\n")
        if len(self._pending) > FRAME_LIMIT:
            raise HostError("sent a frame without an end (over 64 MiB); this is no agent of ours.")


_DAMAGED = "sent bytes that are no agent's frames; something on the way changes the stream."


def _parse(line: bytes) -> dict[str, Any]:
    try:
        frame: object = json.loads(line)
    except (ValueError, RecursionError):
        raise HostError(_DAMAGED) from None
    if not isinstance(frame, dict):
        raise HostError(_DAMAGED)
    return cast("dict[str, Any]", frame)
