"""The main process's side of identities: who has to be read when, and what came of it."""

import json

from . import procfs
from .helper import Helper
from .loop import clock
from .procs import Census

AT_ONCE = 200
AGAIN_AT_S = (0.5, 2.0, 6.0, 15.0)
"""Ages at which a young process is read again: it execs, sets its title, redirects its output."""
FOCUS_EVERY_S = 20.0
"""How often processes in focus are read again: a server opens its port late."""


class Identities:
    """Feeds the helper with pids and keeps what is new until ``take``. ``first_done`` is called when all processes
    that were there at the start have been read."""

    def __init__(self, loop: "Loop", census: Census, first_done: "Callable[[], None]"):
        self._loop, self._census, self._first_done = loop, census, first_done
        self._helper = Helper(loop, _work, self._answered, self._lost)
        self._wanted: "dict[int, bool]" = {}
        self._reading: "list[int]" = []
        self._told: "dict[int, dict[str, object]]" = {}
        self._fresh: "dict[int, dict[str, object]]" = {}
        self._announced: "dict[int, object]" = {}
        self._young: "list[tuple[float, int]]" = []
        self._focus_due = clock() + FOCUS_EVERY_S

    @property
    def helper(self) -> Helper:
        return self._helper

    def update(self, focus: "list[tuple[int, int]]") -> "list[tuple[int, int]]":
        """Ask for everything that has become due: newcomers, renamed ones, the young, and now and then the focus.
        Returns the announced processes that have ended."""
        now = clock()
        self._want(self._census.new)
        self._want(self._census.renamed)
        if self._census.new:
            self._watch_grow_up(self._census.new, now)
        self._want([pid for due, pid in self._young if due <= now])
        self._young = [entry for entry in self._young if entry[0] > now]
        if now >= self._focus_due:
            self._focus_due = now + FOCUS_EVERY_S
            self._want([pid for pid, _ in focus])
        ended = [key for key in self._census.gone if self._forget(key)]
        self._census.new, self._census.renamed, self._census.gone = [], [], []
        self._ask()
        return ended

    def take(self) -> "list[dict[str, object]]":
        """Identities to announce, each once."""
        fresh, self._fresh = self._fresh, {}
        self._announced.update((pid, row["start_ticks"]) for pid, row in fresh.items())
        return list(fresh.values())

    def _forget(self, key: "tuple[int, int]") -> bool:
        """Whether an ended process had been announced; if not, it never will be."""
        pid, start_ticks = key
        for known in (self._told, self._fresh):
            if known.get(pid, {}).get("start_ticks") == start_ticks:
                del known[pid]
        if self._announced.get(pid) != start_ticks:
            return False
        del self._announced[pid]
        return True

    def _watch_grow_up(self, newcomers: "list[int]", now: float) -> None:
        since_boot = procfs.since_boot()
        for pid in newcomers:
            if pid in self._census.table:
                age = since_boot - self._census.table[pid].start_ticks / procfs.CLK_TCK
                self._young.extend((now + again - age, pid) for again in AGAIN_AT_S if again > age)

    def _want(self, pids: "list[int]") -> None:
        self._wanted.update((pid, True) for pid in pids if pid in self._census.table)

    def _ask(self) -> None:
        if self._helper.busy or not self._wanted:
            return
        self._reading = list(self._wanted)[:AT_ONCE]
        for pid in self._reading:
            del self._wanted[pid]
        if not self._helper.ask(self._reading):
            for pid in self._reading:
                self._unreadable(pid, "not read: too many such readings hang on this host")
            self._reading = []

    def _answered(self, answer: bytes) -> None:
        for row in json.loads(answer.decode()):
            pid = row["pid"]
            if pid in self._census.table and self._told.get(pid) != row:
                self._told[pid] = self._fresh[pid] = row
        self._reading = []
        self._ask()
        if not self._reading and self._first_done:
            self._first_done, done = None, self._first_done
            done()

    def _lost(self, item: str, reason: str) -> None:
        """The helper ended over one process: announce that one as unreadable and go on with the others."""
        culprits = [int(item)] if item.isdigit() else self._reading
        for pid in culprits:
            self._unreadable(pid, "its command line and environment cannot be read: the reading does not return")
        self._want([pid for pid in self._reading if pid not in culprits])
        self._reading = []
        self._ask()

    def _unreadable(self, pid: int, why: str) -> None:
        entry = self._census.table.get(pid)
        if entry and pid not in self._told:
            comm = entry.comm.decode("utf-8", "surrogateescape")
            row: "dict[str, object]" = {
                "pid": pid,
                "start_ticks": entry.start_ticks,
                "ppid": entry.ppid,
                "comm": comm,
                "error": why,
            }
            self._told[pid] = self._fresh[pid] = row


def _work(mark: "Mark") -> "Callable[[list[int]], bytes]":
    """In the child: only there the module is needed."""
    from .identity import work

    return work(mark)


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from .helper import Mark
    from .loop import Loop
