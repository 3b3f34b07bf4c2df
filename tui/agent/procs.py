"""Processes, each tick: who is new, who is gone, and how those in focus fare. Reads nothing that asks a process's
memory for an answer (``cmdline``, ``environ``, ``maps``): that can block for ever and is left to a helper.
"""

import os
import re
import resource

from .loop import clock
from .procfs import CLK_TCK, Stat, as_word, pids, read, since_boot, stat, text

SWEEP_TICKS = 10
LIST_EVERY_S = 5.0
MOST_OPEN = min(600, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
OWN = os.getpid()
MOST_GROUPS = 24
EXEC_S = 5.0

_SIGNALS = re.compile(rb"\nSigPnd:\t(\w+)\nShdPnd:\t(\w+)\nSigBlk:\t(\w+)\nSigIgn:\t(\w+)\nSigCgt:\t(\w+)\n", re.ASCII)
_SWITCHES = re.compile(rb"\nvoluntary_ctxt_switches:\t(\d+)\nnonvoluntary_ctxt_switches:\t(\d+)", re.ASCII)
_IO = re.compile(rb"rchar: (\d+)\n.*?\nread_bytes: (\d+)\nwrite_bytes: (\d+)", re.DOTALL)


class Entry:
    """What is known of any process of the host. Kernel threads and the agent's own processes are ``hidden``."""

    __slots__ = ("comm", "hidden", "ppid", "start_ticks")

    def __init__(self, pid: int, now: Stat):
        self.start_ticks, self.ppid, self.comm = now.start_ticks, now.ppid, now.comm
        self.hidden = now.kernel or OWN in (now.ppid, pid)


class Census:
    """The host's processes. Lists ``/proc`` only when the kernel has handed out a pid since, or after 5 s; looks at a
    tenth of the known ones each tick for new parents, new names and reused pids.

    ``new``, ``renamed`` and ``gone`` collect what the caller takes away; hidden ones are left out of them.
    """

    def __init__(self):
        self.table: "dict[int, Entry]" = {}
        self.new: "list[int]" = []
        self.renamed: "list[int]" = []
        self.gone: "list[tuple[int, int]]" = []
        self._last_pid = b""
        self._listed = -LIST_EVERY_S
        self._turn = 0
        self._children: "dict[int, list[int]] | None" = None

    def update(self, last_pid: bytes) -> None:
        now = clock()
        if last_pid != self._last_pid or now - self._listed >= LIST_EVERY_S:
            self._last_pid, self._listed = last_pid, now
            there = set(pids())
            self.remove(set(self.table) - there)
            for pid in there - set(self.table):
                self.look(pid)
        self._turn = (self._turn + 1) % SWEEP_TICKS
        for pid in [pid for pid, entry in self.table.items() if pid % SWEEP_TICKS == self._turn and not entry.hidden]:
            self.look(pid)

    def look(self, pid: int) -> "Stat | None":
        """Read one process and enter what is new about it."""
        now, known = stat(pid), self.table.get(pid)
        if known and (now is None or now.start_ticks != known.start_ticks):
            self.remove({pid})
            known = None
        if now is None:
            return None
        self.enter(pid, now, known)
        return now

    def enter(self, pid: int, now: Stat, known: "Entry | None") -> None:
        if known is None:
            known = self.table[pid] = Entry(pid, now)
            self._children = None
            if not known.hidden:
                self.new.append(pid)
        if known.ppid != now.ppid:
            known.ppid = now.ppid
            self._children = None
        if known.comm != now.comm:
            known.comm = now.comm
            if not known.hidden:
                self.renamed.append(pid)

    def remove(self, ended: "set[int]") -> None:
        for pid in ended:
            entry = self.table.pop(pid)
            if not entry.hidden:
                self.gone.append((pid, entry.start_ticks))
        if ended:
            self._children = None
            for orphan in [child for child, entry in self.table.items() if entry.ppid in ended]:
                self.look(orphan)

    def children(self, pid: int) -> "list[int]":
        if self._children is None:
            self._children = {}
            for child, entry in self.table.items():
                self._children.setdefault(entry.ppid, []).append(child)
        return self._children.get(pid, [])


class Watched:
    """One process in focus. Its files are kept open where descriptors allow: cheaper, and immune to pid reuse."""

    def __init__(self, pid: int, keep_open: bool):
        self.pid = pid
        self._keep_open = keep_open
        self._fds: "dict[str, int | None]" = {}

    def read(self, name: str) -> "bytes | None":
        try:
            if not self._keep_open:
                return read("/proc/%d/%s" % (self.pid, name), 8192)
            fd = self._fds.get(name, -1)
            if fd == -1:
                fd = self._fds[name] = self._open(name)
            return None if fd is None else os.pread(fd, 8192, 0)
        except OSError:
            return None

    def _open(self, name: str) -> "int | None":
        try:
            return os.open("/proc/%d/%s" % (self.pid, name), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None

    def close(self) -> None:
        for fd in self._fds.values():
            if fd is not None:
                os.close(fd)
        self._fds.clear()


class Kin:
    """The descendants of one process in focus, grouped by command name, with CPU counters that never shrink.

    A descendant that ends, changes its name or its ancestor leaves what it had burned with the group.
    """

    def __init__(self):
        self._past: "dict[bytes, float]" = {}
        self._live: "dict[tuple[int, int], tuple[bytes, float, float]]" = {}

    def update(self, members: "list[tuple[int, Stat]]") -> "list[list[object]]":
        """Take this tick's descendants; returns ``[[comm, how many live, cpu seconds of all], ...]``."""
        before, self._live = self._live, {}
        for pid, now in members:
            key = (pid, now.start_ticks)
            comm, since, _ = before.get(key, (now.comm, 0.0, 0.0))
            if comm == now.comm:
                before.pop(key, None)
                self._live[key] = (now.comm, since, now.cpu_s)
            else:
                self._live[key] = (now.comm, now.cpu_s, now.cpu_s)
                before[key] = (comm, since, now.cpu_s)
        for comm, since, last in before.values():
            self._past[comm] = self._past.get(comm, 0.0) + last - since
        groups = {comm: [0, cpu_s] for comm, cpu_s in self._past.items()}
        for comm, since, last in self._live.values():
            group = groups.setdefault(comm, [0, 0.0])
            group[0] += 1
            group[1] += last - since
        first = sorted(groups.items(), key=lambda item: (-item[1][0], -item[1][1]))[:MOST_GROUPS]
        return [[text(comm), n, round(cpu_s, 2)] for comm, (n, cpu_s) in first]


class Focus:
    """The processes that the monitor watches; ``sample`` reads them all."""

    def __init__(self, census: Census):
        self._census = census
        self._watched: "dict[tuple[int, int], Watched]" = {}
        self._kin: "dict[tuple[int, int], Kin]" = {}

    @property
    def members(self) -> "list[tuple[int, int]]":
        return list(self._watched)

    def set(self, procs: "list[tuple[int, int]]") -> None:
        for key in set(self._watched) - set(procs):
            self._watched.pop(key).close()
            self._kin.pop(key)
        for key in procs:
            if key not in self._watched:
                self._watched[key] = Watched(key[0], len(self._watched) * 5 < MOST_OPEN)
                self._kin[key] = Kin()

    def sample(self) -> "list[dict[str, object]]":
        rows: "list[dict[str, object]]" = []
        for key in list(self._watched):
            row = self._row(key)
            if row is None:
                self._watched.pop(key).close()
                self._kin.pop(key)
                if key[0] in self._census.table:
                    self._census.look(key[0])
            else:
                rows.append(row)
        return rows

    def _row(self, key: "tuple[int, int]") -> "dict[str, object] | None":
        pid, start_ticks = key
        watched = self._watched[key]
        raw = watched.read("stat")
        try:
            now = Stat(raw or b"")
        except (ValueError, IndexError):
            return None
        if now.start_ticks != start_ticks:
            return None
        entry = self._census.table.get(pid)
        if entry and entry.start_ticks == start_ticks:
            self._census.enter(pid, now, entry)
        row: "dict[str, object]" = {
            "pid": pid,
            "start_ticks": start_ticks,
            "ppid": now.ppid,
            "comm": text(now.comm),
            "state": now.state,
            "threads": now.threads,
            "cpu_s": round(now.cpu_s, 3),
            "rss_mib": round(now.rss_mib, 2),
            "minor_faults": now.minor_faults,
            "major_faults": now.major_faults,
        }
        _add_status(row, watched.read("status") or b"")
        row["wchan"] = as_word(watched.read("wchan"))
        if not _may_be_in_exec(now):
            _add_io(row, watched.read("io") or b"")
            row["syscall"] = as_word(watched.read("syscall"))
        row["children"] = self._kin[key].update(self._descendants(pid))
        return row

    def _descendants(self, pid: int) -> "list[tuple[int, Stat]]":
        """Live descendants, not through other processes in focus: those have groups of their own."""
        found: "list[tuple[int, Stat]]" = []
        open_ends = self._census.children(pid)[:]
        while open_ends:
            child = open_ends.pop()
            entry = self._census.table.get(child)
            if entry is None or (child, entry.start_ticks) in self._watched:
                continue
            now = self._census.look(child)
            if now is not None:
                found.append((child, now))
                open_ends.extend(self._census.children(child))
        return found


def _may_be_in_exec(now: Stat) -> bool:
    """In an exec that waits for a dead file system the kernel holds the lock that ``io`` and ``syscall`` need."""
    if now.state != "D":
        return False
    return since_boot() - now.start_ticks / CLK_TCK < EXEC_S


def _add_status(row: "dict[str, object]", raw: bytes) -> None:
    masks = _SIGNALS.search(raw)
    if masks:
        own, shared, blocked, ignored, caught = [int(mask, 16) for mask in masks.groups()]
        row.update(sig_pending=own | shared, sig_blocked=blocked, sig_ignored=ignored, sig_caught=caught)
    switches = _SWITCHES.search(raw)
    if switches:
        row.update(voluntary_switches=int(switches.group(1)), involuntary_switches=int(switches.group(2)))


def _add_io(row: "dict[str, object]", raw: bytes) -> None:
    counters = _IO.search(raw)
    if counters:
        chars, read_bytes, write_bytes = [int(counter) for counter in counters.groups()]
        row.update(read_chars=chars, read_bytes=read_bytes, write_bytes=write_bytes)
