"""The main process's side of logs: which are followed, where each stands, and which one hangs."""

import json

from .helper import Helper
from .loop import clock

AGAIN_S = 60.0


class Followers:
    """Feeds the log helper once a tick and keeps its news, already encoded, until ``take``."""

    def __init__(self, loop: "Loop", answered: "Callable[[], None]"):
        self.helper = Helper(loop, _work, self._answered, self._lost)
        self._done = answered
        self._logs: "dict[str, dict[str, Any]]" = {}
        self._hung: "dict[str, float]" = {}
        self._patterns: "list[tuple[str, list[list[str]]]]" = []
        self._ask_follow: "list[dict[str, Any]]" = []
        self._ask_unfollow: "list[dict[str, Any]]" = []
        self._ask_patterns = False
        self._news: "list[bytes]" = []
        self._polled = clock()

    def follow(self, request: "dict[str, Any]") -> None:
        log = {name: request.get(name) for name in ("key", "path", "fd", "offset")}
        self._logs[request["key"]] = log
        self._hung.pop(request["key"], None)
        self._ask_follow.append(log)

    def unfollow(self, key: str) -> None:
        if self._logs.pop(key, None):
            self._ask_follow = [log for log in self._ask_follow if log["key"] != key]
            self._ask_unfollow.append({"key": key})

    def filter(self, patterns: "list[tuple[str, list[list[str]]]]") -> None:
        self._patterns, self._ask_patterns = patterns, True

    def poll(self) -> None:
        """Ask for news, unless nothing is followed or the last answer is still awaited."""
        if self.helper.busy or not (self._logs or self._ask_unfollow):
            return
        now = clock()
        for key in [key for key, since in self._hung.items() if now - since >= AGAIN_S]:
            del self._hung[key]
            self._ask_follow.append(self._logs[key])
        if not self.helper.pid:
            self._ask_follow = [log for key, log in self._logs.items() if key not in self._hung]
            self._ask_patterns = True
        request: "dict[str, Any]" = {
            "follow": self._ask_follow,
            "unfollow": self._ask_unfollow,
            "seconds": now - self._polled,
        }
        if self._ask_patterns:
            request["patterns"] = self._patterns
        self._polled = now
        self._ask_follow, self._ask_unfollow, self._ask_patterns = [], [], False
        if not self.helper.ask(request):
            for key in set(self._logs) - set(self._hung):
                self._refuse(key, "cannot be followed: too many readings of files hang on this host")

    def take(self) -> bytes:
        """The news since the last take, as a JSON list."""
        news, self._news = self._news, []
        return b"[%s]" % b",".join(news)

    def _answered(self, answer: bytes) -> None:
        at, _, news = answer.partition(b"\t")
        for key, offset, inode, lines in json.loads(at.decode()):
            if key in self._logs:
                self._logs[key].update(offset=offset, inode=inode, lines=lines)
        if news != b"[]":
            self._news.append(news[1:-1])
        self._done()

    def _lost(self, item: str, reason: str) -> None:
        if item in self._logs:
            self._refuse(item, "does not answer: its file system hangs; trying again in a minute")
        self._done()

    def _refuse(self, key: str, why: str) -> None:
        self._hung[key] = clock()
        log = self._logs[key]
        row: "dict[str, Any]" = dict.fromkeys(("size", "inode", "mtime", "lines_total"))
        row.update(key=key, path=log["path"], offset=log["offset"] or 0, data="", skipped_bytes=0, change="")
        row["error"] = "%s %s" % (log["path"], why)
        self._news.append(json.dumps(row).encode())


def _work(mark: "Mark") -> "Callable[[dict[str, Any]], bytes]":
    """In the child: only there the module is needed."""
    from .logs import work

    return work(mark)


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .helper import Mark
    from .loop import Loop
