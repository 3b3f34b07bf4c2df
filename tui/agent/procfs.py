"""Reading ``/proc`` as cheaply as Python can: raw descriptors, bytes, one read."""

import os

CLK_TCK = os.sysconf("SC_CLK_TCK")
PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 1048576.0
KERNEL_THREAD = 0x00200000  # PF_KTHREAD, include/linux/sched.h


def read(path: str, limit: int = 65536) -> bytes:
    """What one ``read`` gives of a file; raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, limit)
    finally:
        os.close(fd)


def read_all(path: str, limit: int = 1 << 20) -> bytes:
    """A file of several pages, up to ``limit``; raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        whole = b""
        while len(whole) < limit:
            piece = os.read(fd, 65536)
            if not piece:
                break
            whole += piece
        return whole[:limit]
    finally:
        os.close(fd)


def all_processes_in_sight() -> "bool | None":
    """Whether the processes of all containers are seen, by the numbers that the kernel uses: false within a container,
    None where it cannot be read. The number is PROC_PID_INIT_INO, include/linux/proc_ns.h."""
    try:
        return os.readlink("/proc/self/ns/pid") == "pid:[4026531836]"
    except OSError:
        return None


def text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def word(path: str) -> "str | None":
    """Contents of ``wchan`` or ``syscall``; None where they may not be read, or say nothing (``0``: it runs)."""
    try:
        return as_word(read(path))
    except OSError:
        return None


def as_word(raw: "bytes | None") -> "str | None":
    return None if raw in (None, b"", b"0") else raw.decode("ascii", "replace").strip()


class Stat:
    """``/proc/PID/stat`` (proc_pid_stat(5)). The command may hold blanks and parentheses, so count from its last one.

    ``cpu_s`` counts all threads of the process, ended ones included, but not its children.
    """

    __slots__ = ("comm", "cpu_s", "fields", "ppid", "start_ticks", "state")

    def __init__(self, raw: bytes):
        close = raw.rindex(b")")
        fields = raw[close + 2 :].split()
        self.fields = fields
        self.comm = raw[raw.index(b"(") + 1 : close]
        self.state = fields[0].decode()
        self.ppid = int(fields[1])
        self.cpu_s = (int(fields[11]) + int(fields[12])) / CLK_TCK
        self.start_ticks = int(fields[19])

    @property
    def kernel(self) -> bool:
        return bool(int(self.fields[6]) & KERNEL_THREAD)

    @property
    def minor_faults(self) -> int:
        return int(self.fields[7])

    @property
    def major_faults(self) -> int:
        return int(self.fields[9])

    @property
    def threads(self) -> int:
        return int(self.fields[17])

    @property
    def rss_mib(self) -> float:
        return int(self.fields[21]) * PAGE_MIB


def stat(pid: int, task: int = 0) -> "Stat | None":
    """The process's (or one thread's) state, or None where there is no such process any more."""
    try:
        return Stat(read("/proc/%d/task/%d/stat" % (pid, task) if task else "/proc/%d/stat" % pid))
    except (OSError, ValueError, IndexError):
        return None


def alive(pid: int, start_ticks: int) -> bool:
    """Whether this very process still runs: same start time, neither zombie nor dead."""
    now = stat(pid)
    return now is not None and now.start_ticks == start_ticks and now.state not in "ZX"


def since_boot() -> float:
    """Seconds on the clock that start times count on."""
    return float(read("/proc/uptime").split()[0])


def pids() -> "list[int]":
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def tcp_rows(pid: int) -> "Iterator[list[bytes]]":
    """The columns of every TCP socket in the process's network namespace: ``/proc/PID/net/tcp`` and ``tcp6``."""
    for name in ("tcp", "tcp6"):
        try:
            lines = read_all("/proc/%d/net/%s" % (pid, name), 8 << 20).split(b"\n")[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split(None, 10)
            if len(fields) > 9:
                yield fields


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator
