"""Which lock files a launch may wait for, who has them, and what of that could be seen.

Three kinds are told apart. A *baton* (``torch/utils/file_baton.py``, copied by others) is a mere file called ``lock``:
its maker keeps it open, so that nobody who has it open is nobody who will remove it. A *soft* lock (``filelock``)
names its maker in its text. A *flock* is the kernel's: ``/proc/locks`` names holder and waiters. Other ``.lock`` files
are left over from locks that are not held, and mean nothing.
"""

import os
import re
import stat as modes
import time

from . import caches, procfs
from .procfs import text

MOST_LOCKS = 32
MOST_ENTRIES = 4000
MOST_FDS = 200000
MOST_ENVIRONMENTS = 128

_BATON = re.compile(r"\A(lock|lock_[\w.-]+)\Z")
_MAKER = re.compile(r"\A\s*(\d{1,7})\s+(\S*)")  # filelock/_soft.py since 3.25: pid and host, a line each


def look(request: "dict[str, Any]") -> "dict[str, Any]":
    """``{"locks": [...], "whole_host", "launched_s", "looked": [pid, ...], "wall"}``; see the protocol."""
    pids = [int(pid) for pid, _ in request["procs"]]
    table = Table()
    kernel = KernelLocks()
    launched_s = max((table.age_s(pid) for pid in pids), default=0.0)
    family = set(pids).union(*[table.descendants(pid) for pid in pids])
    found = _waited_for(kernel, family)
    for place in _places(pids):
        _scan(place, kernel, found)
    _leave_out_strangers(found, family)
    candidates = sorted(found.values(), key=lambda file: (not file.waiters, not file.holders, file.mtime))[:MOST_LOCKS]
    _find_openers(candidates, table)
    mounts = Mounts()
    return {
        "locks": [_row(file, table, mounts) for file in candidates],
        "whole_host": procfs.all_processes_in_sight() is True,
        "launched_s": round(launched_s, 1),
        "looked": pids,
        "wall": round(time.time(), 3),
    }


class Table:
    """All processes of the host, read once."""

    def __init__(self):
        self.stats: "dict[int, procfs.Stat]" = {}
        self.children: "dict[int, list[int]]" = {}
        self._now = procfs.since_boot()
        for pid in procfs.pids():
            now = procfs.stat(pid)
            if now is not None and not now.kernel:
                self.stats[pid] = now
                self.children.setdefault(now.ppid, []).append(pid)

    def descendants(self, pid: int) -> "set[int]":
        found: "set[int]" = set()
        ends = self.children.get(pid, [])[:]
        while ends:
            child = ends.pop()
            if child not in found:
                found.add(child)
                ends += self.children.get(child, [])
        return found

    def age_s(self, pid: int) -> float:
        return self._now - self.stats[pid].start_ticks / procfs.CLK_TCK if pid in self.stats else 0.0

    def lives(self, pid: int) -> bool:
        return pid in self.stats and self.stats[pid].state not in "ZX"


class KernelLocks:
    """``/proc/locks`` (proc_locks(5)): who holds and who waits, by inode. Device numbers are kept to compare."""

    def __init__(self):
        self.holders: "dict[tuple[str, int], list[int]]" = {}
        self.waiters: "dict[tuple[str, int], list[int]]" = {}
        try:
            lines = procfs.read_all("/proc/locks").decode("ascii", "replace").split("\n")
        except OSError:
            return
        for line in lines:
            fields = line.split()
            into = self.holders
            if len(fields) > 1 and fields[1] == "->":
                into, fields = self.waiters, fields[1:]
            if len(fields) < 6 or fields[1] not in ("FLOCK", "POSIX", "OFDLCK"):
                continue
            try:
                device, _, inode = fields[5].rpartition(":")
                into.setdefault((device, int(inode)), []).append(int(fields[4]))
            except ValueError:
                continue


class File:
    """A candidate. ``path`` as its process sees it, ``reached`` as the agent does."""

    def __init__(self, path: str, reached: str, status: "os.stat_result", place: str):
        self.path, self.reached, self.place = path, reached, place
        self.device, self.inode = status.st_dev, status.st_ino
        self.uid, self.mtime, self.size = status.st_uid, status.st_mtime, status.st_size
        self.holders: "list[int]" = []
        self.waiters: "list[int]" = []
        self.open_by: "list[int]" = []
        self.all_asked = True
        self.soft: "Match[str] | None" = None
        self.concerns: "set[int]" = set()

    @property
    def baton(self) -> bool:
        return self.place in ("torch_extensions", "aiter") and bool(_BATON.match(os.path.basename(self.path)))

    def ask(self, kernel: KernelLocks) -> None:
        key = ("%02x:%02x" % (os.major(self.device), os.minor(self.device)), self.inode)
        self.holders, self.waiters = kernel.holders.get(key, []), kernel.waiters.get(key, [])


def _places(pids: "list[int]") -> "list[caches.Place]":
    """Ranks of a launch share their folders: each is looked into once."""
    found: "dict[tuple[int, int, str], caches.Place]" = {}
    for pid in pids[:MOST_ENVIRONMENTS]:
        for place in caches.places(pid):
            status = os.stat(place.reached)
            known = found.setdefault((status.st_dev, status.st_ino, place.name), place)
            if known is not place:
                known.pids.append(pid)
    return list(found.values())


def _leave_out_strangers(found: "dict[tuple[int, int], File]", family: "set[int]") -> None:
    """In a folder that everybody uses a lock concerns those who hold it and those who wait for it, and nobody else."""
    for key, file in list(found.items()):
        involved = family.intersection(file.holders + file.waiters)
        file.concerns |= involved
        if file.place == "temporary":
            file.concerns = involved
        if not file.concerns:
            del found[key]


def _waited_for(kernel: KernelLocks, family: "set[int]") -> "dict[tuple[int, int], File]":
    """Files that a process of the launch waits for in the kernel, wherever they lie: the waiter has them open."""
    found: "dict[tuple[int, int], File]" = {}
    for (_, inode), waiters in kernel.waiters.items():
        for pid in family.intersection(waiters):
            try:
                for path, link, status in _open_files(pid, lambda path: True):
                    if status.st_ino == inode:
                        file = File(path, link, status, "waited for")
                        file.ask(kernel)
                        if file.waiters:
                            found.setdefault((status.st_dev, status.st_ino), file).concerns.add(pid)
            except OSError:
                continue
    return found


def _open_files(pid: int, wanted: "Callable[[str], bool]") -> "Iterator[tuple[str, str, os.stat_result]]":
    """The regular files that a process has open whose path is wanted, with the link that leads to each; raises OSError
    where the process may not be asked."""
    folder = "/proc/%d/fd/" % pid
    for name in os.listdir(folder):
        try:
            path = os.readlink(folder + name)
            if path.startswith("/") and not path.startswith(("/dev/", "/proc/", "/sys/")) and wanted(path):
                status = os.stat(folder + name)
                if modes.S_ISREG(status.st_mode):
                    yield path, folder + name, status
        except OSError:
            continue


def _scan(place: "caches.Place", kernel: KernelLocks, found: "dict[tuple[int, int], File]") -> None:
    """Lock files below a folder, breadth first, within bounds."""
    level, left = [""], MOST_ENTRIES
    for depth in range(place.depth):
        below: "list[str]" = []
        for folder in level:
            try:
                entries = list(os.scandir(place.reached + folder))[:left]
            except OSError:
                continue
            left -= len(entries)
            for entry in entries:
                name = folder + "/" + text(os.fsencode(entry.name))
                try:
                    if entry.is_dir(follow_symlinks=False):
                        below.append(name)
                    elif entry.name.endswith(".lock") or _BATON.match(entry.name):
                        file = File(place.path + name, place.reached + name, os.stat(entry.path), place.name)
                        file.concerns.update(place.pids)
                        _enter(file, kernel, found)
                except OSError:
                    continue
            if left <= 0:
                return
        level = below if depth + 1 < place.depth else []


def _enter(file: File, kernel: KernelLocks, found: "dict[tuple[int, int], File]") -> None:
    """Keep what is a lock that somebody has, or may have had."""
    key = (file.device, file.inode)
    if key in found:
        found[key].concerns |= file.concerns
        return
    file.ask(kernel)
    if not file.baton and not file.holders and 0 < file.size <= 512:
        file.soft = _MAKER.match(_beginning(file.reached))
    if file.baton or file.holders or file.soft:
        found[key] = file


def _beginning(path: str) -> str:
    try:
        return text(procfs.read(path, 512)) + "\n"
    except OSError:
        return ""


def _find_openers(files: "list[File]", table: Table) -> None:
    """Which processes have the files open. A file for which not all that may have it can be asked is marked."""
    names: "dict[str, list[File]]" = {}
    for file in files:
        file.all_asked = os.geteuid() in (0, file.uid)  # others' processes may be hidden (proc(5), hidepid)
        names.setdefault(os.path.basename(file.path), []).append(file)
    if not names:
        return
    left = MOST_FDS
    for pid in table.stats:
        uid = _uid(pid)
        try:
            left -= len(os.listdir("/proc/%d/fd" % pid))
            for path, _, status in _open_files(pid, lambda path: os.path.basename(path) in names):
                for file in names[os.path.basename(path)]:
                    if (status.st_dev, status.st_ino) == (file.device, file.inode):
                        file.open_by.append(pid)
        except OSError:
            if uid is not None and table.lives(pid):
                _not_asked(files, uid)
        if left <= 0:
            _not_asked(files, None)
            return


def _uid(pid: int) -> "int | None":
    try:
        return os.stat("/proc/%d" % pid).st_uid
    except OSError:
        return None


def _not_asked(files: "list[File]", uid: "int | None") -> None:
    for file in files:
        if uid is None or uid in (file.uid, 0):
            file.all_asked = False


def _row(file: File, table: Table, mounts: "Mounts") -> "dict[str, Any]":
    kind = "flock" if file.holders else "baton" if file.baton else "soft"
    builders = _builders(file, table) if file.baton else []
    known = {"flock": file.holders, "baton": file.open_by + builders, "soft": _maker(file, table)}[kind]
    owners = [pid for pid in known if table.lives(pid)]
    owner = owners[0] if owners else next((pid for pid in known if pid > 0), None)
    row: "dict[str, Any]" = {
        "path": file.path,
        "kind": kind,
        "age_s": round(max(0.0, time.time() - file.mtime), 1),
        "size": file.size,
        "fs": mounts.kind(file.reached),
        "owner": owner,
        "owner_lives": bool(owners),
        "all_asked": file.all_asked,
        "made_here": _made_here(file) if kind == "soft" else None,
        "quiet_s": _quiet_s(file) if kind == "baton" and not owners else None,
        "waiters": file.waiters[:64],
        "open_by": file.open_by[:64],
        "concerns": sorted(file.concerns),
    }
    if owners:
        now = table.stats[owners[0]]
        cpu_s = now.cpu_s + sum(table.stats[pid].cpu_s for pid in table.descendants(owners[0]))
        row.update(owner_comm=text(now.comm), owner_state=now.state, owner_cpu_s=round(cpu_s, 2))
    return row


def _maker(file: File, table: Table) -> "list[int]":
    """The process that a soft lock names, if it is of this host: the pid counts in its maker's own namespace."""
    if not _made_here(file) or file.soft is None:
        return []
    pid = int(file.soft.group(1))
    alike = [other for other in table.stats if pid in namespaced(other)]
    return alike or [pid]


def _made_here(file: File) -> bool:
    """Containers have host names of their own."""
    return file.soft is not None and file.soft.group(2) in ("", os.uname().nodename)


def namespaced(pid: int) -> "list[int]":
    """The pids of a process in all its namespaces, the agent's first."""
    try:
        found = re.search(rb"^NSpid:([\d\t ]+)$", procfs.read("/proc/%d/status" % pid), re.M)
    except OSError:
        return []
    return [int(number) for number in found.group(1).split()] if found else [pid]


def _quiet_s(file: File) -> "float | None":
    """Seconds since the lock or anything beside it was written; None where its folder cannot be listed."""
    newest = file.mtime
    try:
        for entry in list(os.scandir(os.path.dirname(file.reached)))[:MOST_ENTRIES]:
            newest = max(newest, entry.stat(follow_symlinks=False).st_mtime)
    except OSError:
        return None
    return round(max(0.0, time.time() - newest), 1)


def _builders(file: File, table: Table) -> "list[int]":
    """Processes at work in the folder: ``ninja`` and its compilers run there."""
    folder = os.path.dirname(file.path)
    found: "list[int]" = []
    for pid in table.stats:
        try:
            if table.lives(pid) and os.readlink("/proc/%d/cwd" % pid) == folder:
                found.append(pid)
        except OSError:
            continue
    return found


class Mounts:
    """Which kind of file system a path lies on, by the agent's own mounts; empty where that is not known."""

    def __init__(self):
        self._kinds: "dict[str, str]" = {}
        try:
            lines = procfs.read_all("/proc/self/mountinfo").split(b"\n")
        except OSError:
            return
        for line in lines:
            before, _, after = line.partition(b" - ")
            fields = before.split()
            if len(fields) > 2 and after:
                self._kinds[fields[2].decode()] = after.split()[0].decode("ascii", "replace")

    def kind(self, path: str) -> str:
        try:
            device = os.stat(path).st_dev
        except OSError:
            return ""
        return self._kinds.get("%d:%d" % (os.major(device), os.minor(device)), "")


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator, Match
