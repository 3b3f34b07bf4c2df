"""Following logs by byte offset. Runs in a helper: a file on a dead network mount answers never.

Each poll compares what the path names with what is open: another inode is a rotation (the old file is read to its end
first), fewer bytes or other bytes before the offset a truncation, no file a deletion (what is open can still be read).
"""

import base64
import os
import stat as modes

from .flood import TAIL, Filter, sift, sift_back
from .wire import encode

MAY_TAKE_S = 3.0
HEAD = 256 << 10
FIRST_TAIL = 1 << 20
MIDDLE_S = 0.4
FLOOD_BYTES_S = 256 << 10
PROBE = 64


class Followed:
    """One log. ``poll`` returns its news as objects for the frame's ``logs``."""

    def __init__(self, request: "dict[str, Any]"):
        self.key = request["key"]
        self.path = request["path"]
        self._process = request.get("fd")
        self.offset: "int | None" = request.get("offset")
        self.inode: "int | None" = request.get("inode")
        self.lines: "int | None" = request.get("lines", 0 if not self.offset else None)
        self._fd = -1
        self._probe = b""
        self._error: "str | None" = None
        self._change = ""
        self._skipped = 0
        self._gone = False
        self._said = False

    def poll(self, keep: Filter, seconds: float) -> "list[dict[str, Any]]":
        news: "list[dict[str, Any]]" = []
        before, self._error = self._error, None
        try:
            if self._fd < 0:
                self._open(missing=before is not None)
            elif not self._process:
                news += self._follow_name(keep, seconds)
            news += self._grown(keep, seconds)
        except OSError as failure:
            self._error = _sentence(failure, self.path)
        if self._error != before:
            self._said = False
        if not self._said and not news:
            news = [self._news(self.offset or 0, b"")]
        self._said = True
        return news

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def _open(self, missing: bool = False) -> None:
        path = "/proc/%d/fd/%d" % tuple(self._process) if self._process else self.path
        if not modes.S_ISREG(os.stat(path).st_mode):
            raise OSError(0, "is not a regular file, so it cannot be read twice")
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        inode = os.fstat(self._fd).st_ino
        if self.inode not in (None, inode):
            self._restart("rotated")
        elif missing and self.offset is None:
            self._restart("appeared")
        self.inode = inode

    def _follow_name(self, keep: Filter, seconds: float) -> "list[dict[str, Any]]":
        """Notice that the path names another file, or none."""
        try:
            there = os.stat(self.path)
        except FileNotFoundError:
            if not self._gone:
                self._gone, self._said, self._change = True, False, "deleted"
            return []
        self._gone = False
        if there.st_ino == self.inode:
            return []
        rest = self._grown(keep, seconds)
        self.close()
        self._restart("rotated")
        self.inode = None
        self._open()
        return rest

    def _restart(self, change: str) -> None:
        self.offset, self.lines, self._probe = 0, 0, b""
        self._change, self._said = change, False

    def _grown(self, keep: Filter, seconds: float) -> "list[dict[str, Any]]":
        status = os.fstat(self._fd)
        size = status.st_size
        if self.offset is None:
            return self._first(size, keep)
        if size < self.offset or (size > self.offset and not self._continues()):
            self._restart("truncated")
            self.offset = _first_data(self._fd)
        if size == self.offset:
            return []
        if size - self.offset <= FLOOD_BYTES_S * max(1.0, seconds):
            return [self._read(size)]
        return self._flood(size, keep)

    def _continues(self) -> bool:
        """Whether the bytes before the offset are still those that were read: a copied and truncated file may have
        grown past the offset again between two polls."""
        assert self.offset is not None
        return os.pread(self._fd, len(self._probe), self.offset - len(self._probe)) == self._probe

    def _first(self, size: int, keep: Filter) -> "list[dict[str, Any]]":
        """What lies there: all of it, or the head, what matches in the middle as far back as time allows, the tail."""
        self.offset, self.lines = 0, 0
        if size <= HEAD + FIRST_TAIL:
            return [self._read(size)]
        news = [self._read(HEAD)]
        self.lines = None
        for offset, text in sift_back(self._fd, HEAD, size - FIRST_TAIL, keep, MIDDLE_S):
            self._jump(offset)
            news.append(self._took(text))
        self._jump(size - FIRST_TAIL)
        return [*news, self._read(size)]

    def _flood(self, size: int, keep: Filter) -> "list[dict[str, Any]]":
        assert self.offset is not None
        tail = size - TAIL
        start = os.pread(self._fd, TAIL, tail)
        tail += start.find(b"\n") + 1 or start.find(b"\r") + 1
        pieces, lines = sift(self._fd, self.offset, tail, keep)
        total = None if self.lines is None else self.lines + lines
        news: "list[dict[str, Any]]" = []
        for offset, text in pieces:
            self._jump(offset)
            news.append(self._took(text))
        self._jump(tail)
        self.lines = total
        return news + [self._read(size)]

    def _jump(self, offset: int) -> None:
        assert self.offset is not None
        if offset != self.offset:
            self._skipped += offset - self.offset
            self.offset, self._probe = offset, b""  # what was read before a gap does not stand before the offset

    def _read(self, end: int) -> "dict[str, Any]":
        assert self.offset is not None
        return self._took(os.pread(self._fd, end - self.offset, self.offset))

    def _took(self, text: bytes) -> "dict[str, Any]":
        assert self.offset is not None
        offset, self.offset = self.offset, self.offset + len(text)
        self._probe = (self._probe + text)[-PROBE:] if len(text) < PROBE else text[-PROBE:]
        if self.lines is not None:
            self.lines += text.count(b"\n")
        return self._news(offset, text)

    def _news(self, offset: int, text: bytes) -> "dict[str, Any]":
        status = os.fstat(self._fd) if self._fd >= 0 else None
        change, self._change = self._change, ""
        skipped, self._skipped = self._skipped, 0
        return {
            "key": self.key,
            "path": self.path,
            "size": status and status.st_size,
            "inode": status and status.st_ino,
            "mtime": status and status.st_mtime,
            "offset": offset,
            "data": base64.b64encode(text).decode(),
            "lines_total": self.lines,
            "skipped_bytes": skipped,
            "change": change,
            "error": self._error,
        }


def _first_data(fd: int) -> int:
    """Where a truncated file begins to hold bytes: a writer without O_APPEND goes on at its old offset, over a hole."""
    try:
        return os.lseek(fd, 0, os.SEEK_DATA)
    except OSError:
        return 0


def _sentence(failure: OSError, path: str) -> str:
    if isinstance(failure, FileNotFoundError):
        return "%s does not exist" % path
    if isinstance(failure, PermissionError):
        return "%s cannot be read: permission refused; watch as its owner or as root" % path
    if not failure.errno:
        return "%s %s" % (path, failure.strerror)
    return "%s cannot be read: %s" % (path, failure.strerror)


def work(mark: "Mark") -> "Callable[[dict[str, Any]], bytes]":
    """The helper's side. A request may follow, unfollow, set patterns, and always polls; the answer is where each log
    stands (for a successor of this helper), a tab, and the news as JSON."""
    followed: "dict[str, Followed]" = {}
    state = {"keep": Filter([])}

    def handle(request: "dict[str, Any]") -> bytes:
        if "patterns" in request:
            state["keep"] = Filter(request["patterns"])
        for wanted in request["unfollow"] + request["follow"]:
            old = followed.pop(wanted["key"], None)
            if old:
                old.close()
        for wanted in request["follow"]:
            followed[wanted["key"]] = Followed(wanted)
        news: "list[dict[str, Any]]" = []
        for log in followed.values():
            mark(log.key, MAY_TAKE_S)
            news += log.poll(state["keep"], request["seconds"])
        at = [[log.key, log.offset, log.inode, log.lines] for log in followed.values()]
        return (encode(at) + "\t" + encode(news)).encode()

    return handle


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .helper import Mark
