"""Boots a real agent over real pipes and speaks the wire protocol with it, for tests."""

from __future__ import annotations

import json
import os
import subprocess
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from tui.collect import payload

Frame = dict[str, Any]


class AgentClient:
    """One agent process with its channel. Frames are kept in ``frames`` in the order they came."""

    def __init__(
        self,
        command: Sequence[str] | None = None,
        *,
        env: Mapping[str, str] | None = None,
        data: bytes | None = None,
        **options: Any,
    ) -> None:
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            list(command or payload.local_command()),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=None if env is None else {**os.environ, **env},
            bufsize=0,
        )
        assert self.process.stdin and self.process.stdout
        os.set_blocking(self.process.stdout.fileno(), False)
        self.frames: list[Frame] = []
        self.raw_bytes = 0
        self._zlib = zlib.decompressobj()
        self._before = bytearray()
        self._synced = False
        self._text = bytearray()
        self._ids = 0
        self.process.stdin.write(payload.payload(**options) if data is None else data)

    def __enter__(self) -> AgentClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> int:
        """End the channel and wait for the agent; returns its exit code."""
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe:
                pipe.close()
        try:
            return self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    def send(self, **request: Any) -> int:
        """Send a request with a fresh id, and return the id."""
        self._ids += 1
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"id": self._ids, **request}).encode() + b"\n")
        return self._ids

    def ask(self, timeout_s: float = 10.0, **request: Any) -> list[Frame]:
        """Send a request and wait for all its answers."""
        number = self.send(**request)
        self.until(lambda frame: frame["type"] == "answer" and frame["id"] == number and frame["last"], timeout_s)
        return [frame for frame in self.frames if frame["type"] == "answer" and frame["id"] == number]

    def until(self, wanted: Callable[[Frame], bool], timeout_s: float = 10.0) -> Frame:
        """Read frames until one is wanted; only frames that come from now on count."""
        seen = len(self.frames)
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            self.pump(0.02)
            for frame in self.frames[seen:]:
                seen += 1
                if wanted(frame):
                    return frame
            if self.process.poll() is not None:
                break
        last = self.frames[-1] if self.frames else None
        raise AssertionError(f"no such frame within {timeout_s} s; exit code {self.process.poll()}; last: {last}")

    def tick(self, timeout_s: float = 5.0) -> Frame:
        return self.until(lambda frame: frame["type"] == "tick", timeout_s)

    def hello(self, timeout_s: float = 5.0) -> Frame:
        return self.until(lambda frame: frame["type"] == "hello", timeout_s)

    def pump(self, seconds: float) -> None:
        """Take in what comes within this time."""
        import select

        assert self.process.stdout
        end = time.monotonic() + seconds
        while True:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                return
            piece = self.process.stdout.read(1 << 20)
            if not piece:
                return
            self._feed(piece)

    def _feed(self, piece: bytes) -> None:
        if not self._synced:
            self._before += piece
            head, found, piece = self._before.partition(payload.SYNC)
            if not found:
                return
            self._synced, self.noise = True, bytes(head)
        self.raw_bytes += len(piece)
        self._text += self._zlib.decompress(piece)
        *lines, rest = self._text.split(b"\n")
        self._text = bytearray(rest)
        for line in lines:
            frame = json.loads(line)
            frame["_at"] = time.monotonic() - self.started
            self.frames.append(frame)


def identity_of(pid: int) -> tuple[int, int]:
    """``(pid, start_ticks)`` of a process that runs here."""
    return pid, int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
