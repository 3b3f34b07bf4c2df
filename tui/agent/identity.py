"""What a process is: read once, and again when its title changes. Runs in a helper, since ``cmdline`` and ``environ``
wait for the process's memory lock, which an owner in an uninterruptible wait may hold for ever.
"""

import os
import re
import stat as modes

from . import procfs
from .loop import clock
from .ports import listeners
from .procfs import text

MAY_TAKE_S = 2.0
PIPES_EVERY_S = 5.0
LONGEST_CMDLINE = 8192
LONGEST_VALUE = 1024
HIDDEN = "(hidden)"

_ALLOWED = re.compile(
    r"(RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|GROUP_RANK|NODE_RANK|CUDA_VISIBLE_DEVICES|PYTHONFAULTHANDLER"
    r"|DEEPSPEED_TIMEOUT|TORCH_EXTENSIONS_DIR|TORCHINDUCTOR_CACHE_DIR|(XDG|TRITON|DG_JIT)_CACHE_(HOME|DIR)|HF_HOME"
    r"|(HF|HUGGINGFACE)_HUB_CACHE|FLASHINFER_WORKSPACE_BASE|TRITON_HOME"
    r"|(SLURM|OMPI|PMI|PMIX|MASTER|NCCL|TORCH_NCCL|TORCHELASTIC|VLLM|SGLANG|GLOO)_\w+|TORCH_\w*FR\w*)\Z"
)
_SECRET_NAME = re.compile(r"(^|_)(API_?KEYS?|KEYS?|TOKEN|SECRETS?|PASSW(OR)?D|CREDENTIALS?|AUTH|JWT)(_|$)|PASSW|SECRET")
_SECRET_VALUE = re.compile(r"\A(sk-|hf_|gh[pousr]_|xox[a-z]-|AKIA|eyJ)")
_SECRET_OPTION = re.compile(r"(?i)\A-.*(api[-_]?key|secret|passw|credential|(auth|hf|access|bearer|admin)[-_]?token)")


def environment(raw: bytes) -> "dict[str, str]":
    """The allowed variables of ``/proc/PID/environ``; nothing whose name or value looks like a secret. After
    ``setproctitle`` the kernel shows zeros, which gives an empty mapping."""
    found: "dict[str, str]" = {}
    for part in raw.split(b"\0"):
        name, equals, value = text(part).partition("=")
        if equals and _ALLOWED.match(name) and not _SECRET_NAME.search(name) and not _SECRET_VALUE.match(value):
            found[name] = value[:LONGEST_VALUE]
    return found


def command_line(raw: bytes) -> "list[str]":
    """The arguments, bounded, with the values of options that carry secrets hidden."""
    arguments: "list[str]" = []
    hide_next = False
    for argument in text(raw[:LONGEST_CMDLINE]).rstrip("\0").split("\0"):
        name, equals, _ = argument.partition("=")
        secret = _SECRET_OPTION.match(name) or (equals and _SECRET_NAME.search(name))
        if hide_next or _SECRET_VALUE.match(argument):
            argument, hide_next = HIDDEN, False
        elif secret and equals:
            argument = "%s=%s" % (name, HIDDEN)
        elif secret:
            hide_next = True
        arguments.append(argument)
    return arguments if arguments != [""] else []


class Fds:
    """Where the descriptors of one process lead: sockets and read ends of pipes by inode, and the regular files that
    it has open for writing."""

    def __init__(self, pid: int):
        self.sockets: "set[str]" = set()
        self.reads: "set[str]" = set()
        self.writes: "set[str]" = set()
        folder = "/proc/%d/fd/" % pid
        try:
            names = os.listdir(folder)
        except OSError:
            return
        for name in names:
            try:
                self._enter(folder + name, os.readlink(folder + name))
            except OSError:
                continue

    def _enter(self, path: str, target: str) -> None:
        if target.startswith("socket:"):
            self.sockets.add(target[8:-1])
        elif target.startswith("pipe:"):
            if os.lstat(path).st_mode & modes.S_IRUSR:
                self.reads.add(target)
        elif (
            target.startswith("/")
            and not target.startswith(("/dev/", "/proc/", "/sys/", "/memfd:"))
            and os.lstat(path).st_mode & modes.S_IWUSR
            and modes.S_ISREG(os.stat(path).st_mode)
        ):
            self.writes.add(target)


def files_behind_pipes() -> "dict[str, set[str]]":
    """For each pipe of the host, the regular files that its readers write."""
    behind: "dict[str, set[str]]" = {}
    for pid in procfs.pids():
        fds = Fds(pid)
        for pipe in fds.reads:
            behind.setdefault(pipe, set()).update(fds.writes)
    return behind


class Reader:
    """Reads identities in batches. Ports are looked up once a batch; who reads which pipe, at most every 5 s, since
    that asks every process of the host."""

    def __init__(self, mark: "Mark"):
        self._mark = mark
        self._pipes: "dict[str, set[str]]" = {}
        self._pipes_read = -PIPES_EVERY_S

    def batch(self, procs: "list[int]") -> "list[dict[str, object]]":
        self._ports: "dict[str, dict[str, int]]" = {}
        self._fds: "dict[int, Fds]" = {}
        rows: "list[dict[str, object]]" = []
        for pid in procs:
            self._mark(str(pid), MAY_TAKE_S)
            row = self._row(pid)
            if row:
                rows.append(row)
        return rows

    def _row(self, pid: int) -> "dict[str, object] | None":
        now = procfs.stat(pid)
        if now is None:
            return None
        folder = "/proc/%d/" % pid
        row: "dict[str, object]" = {
            "pid": pid,
            "start_ticks": now.start_ticks,
            "ppid": now.ppid,
            "comm": text(now.comm),
        }
        row["uid"] = _or_none(lambda: os.stat(folder).st_uid)
        row["cmdline"] = command_line(_or_none(lambda: procfs.read_all(folder + "cmdline", LONGEST_CMDLINE)) or b"")
        environ = _or_none(lambda: procfs.read_all(folder + "environ", 1 << 18))
        row["env"] = environment(environ or b"")
        for key, name in (("exe", "exe"), ("cwd", "cwd"), ("stdout", "fd/1"), ("stderr", "fd/2"), ("pid_ns", "ns/pid")):
            row[key] = _or_none(lambda name=name: os.readlink(folder + name)) or ""
        if environ is None and now.state not in "ZX":
            row["error"] = "belongs to another user: run as root or as its owner to see all of it"
        row["pipe_files"] = sorted(self._behind(str(row["stdout"])) | self._behind(str(row["stderr"])))
        row["listens"] = self._listens(pid)
        return row

    def _fds_of(self, pid: int) -> Fds:
        if pid not in self._fds:
            self._fds[pid] = Fds(pid)
        return self._fds[pid]

    def _behind(self, target: str) -> "set[str]":
        """The regular files that readers of this pipe write: where the output of ``launch | tee log`` ends up."""
        if not target.startswith("pipe:"):
            return set()
        if target not in self._pipes and clock() - self._pipes_read >= PIPES_EVERY_S:
            self._pipes, self._pipes_read = files_behind_pipes(), clock()
        return self._pipes.get(target, set())

    def _listens(self, pid: int) -> "list[int]":
        sockets = self._fds_of(pid).sockets
        if not sockets:
            return []
        namespace = _or_none(lambda: os.readlink("/proc/%d/ns/net" % pid)) or "?"
        if namespace not in self._ports:
            self._ports[namespace] = listeners(pid)
        ports = self._ports[namespace]
        return sorted({ports[inode] for inode in sockets if inode in ports})


def work(mark: "Mark") -> "Callable[[list[int]], bytes]":
    """The helper's side: a request is a list of pids, the answer a JSON list of identities."""
    from .wire import encode

    reader = Reader(mark)
    return lambda procs: encode(reader.batch(procs)).encode()


def _or_none(reading: "Callable[[], T]") -> "T | None":
    try:
        return reading()
    except OSError:
        return None


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, TypeVar

    from .helper import Mark

    T = TypeVar("T")
