"""One run of py-spy on one process, in a helper of its own: it reads what py-spy prints, folds it, and says how it was.

py-spy's JSON names every frame of every thread in full, 0.8 MB for 200 threads; folded it is a table of frames and
lists of numbers. ``--locals`` is never given: values of variables are nobody's business.
"""

import ctypes
import json
import os
import signal
import time

from . import namespaces, procfs
from .helper import PR_SET_PDEATHSIG, write_all
from .loop import clock
from .sigabrt import status
from .signals import Refused, Target

MOST_BYTES = 64 << 20
TRIES = 3
"""Without stopping it, a process that runs may change under the reader's eyes; the next look is a new one."""

_CHILDREN: "list[int]" = []

SIGSTOP_PENDING = 1 << (signal.SIGSTOP - 1)


def run(pid: int, start_ticks: int, program: "str | int", native: bool, output: int) -> None:
    """Dump and :func:`write` how it went."""
    began = clock()
    if native:
        _outlive_the_agent(Target(pid, start_ticks))
    fields = _dump(pid, program, native)
    write(output, clock() - began, **fields)


def write(output: int, duration_s: float, **fields: object) -> None:
    """For :func:`read` in the main process: ``stacks`` or ``error``; stacks stay JSON there, nothing reads them."""
    from .wire import encode

    name = "stacks" if "stacks" in fields else "error"
    write_all(output, ("%s %.4f %s" % (name, duration_s, encode(fields[name]))).encode())


def read(output: bytes) -> "dict[str, Any]":
    """``stacks`` as encoded JSON or ``error`` as a sentence, and ``duration_s``."""
    name, _, rest = output.partition(b" ")
    took, _, value = rest.partition(b" ")
    try:
        if name == b"stacks":
            return {"stacks": value, "duration_s": float(took)}
        return {"error": str(json.loads(value.decode())), "duration_s": float(took)}
    except ValueError:
        return {"error": "py-spy failed without a word", "duration_s": 0.0}


def _dump(pid: int, program: "str | int", native: bool) -> "dict[str, Any]":
    inside = namespaces.differs(pid, "pid")
    named = pid
    try:
        outer = _outer_ids(pid) if inside else None
        if isinstance(program, str):
            program = os.open(program, os.O_RDONLY)
        if native and inside:
            named = int(status("/proc/%d/status" % pid)["NSpid"])
            namespaces.enter(pid, "mnt", "pid")
    except (OSError, ValueError) as failure:
        return {"error": "its container cannot be entered: %s (only root may)" % failure}
    arguments = ["--native" if native else "--nonblocking", "--pid", str(named)]
    said, code = _spawn(program, arguments)
    for _ in range(TRIES - 1):
        if native or b"stack traces" not in said:
            break
        time.sleep(0.05)
        said, code = _spawn(program, arguments)
    if code == 0:
        try:
            threads = json.loads(said[said.index(b"[") :].decode())
            return {"stacks": fold(threads, outer, from_outside=inside and not native)}
        except (ValueError, KeyError, TypeError):
            pass
    return {"error": _sentence(said)}


def fold(
    threads: "list[dict[str, Any]]", outer: "dict[int, int] | None" = None, *, from_outside: bool = False
) -> "dict[str, Any]":
    """``{"frames": [[function, file, line], ...], "threads": [[os_thread_id, thread_id, name, active, owns_gil,
    [numbers of frames, newest first]], ...]}``. ``outer``: this host's ids for those inside a PID namespace; looked at
    ``from_outside`` of it, py-spy takes every thread for active, so that is left open then."""
    numbers: "dict[tuple[str, str, int], int]" = {}
    rows: "list[list[Any]]" = []
    for thread in threads:
        frames = [(f["name"], f.get("filename") or f.get("module") or "", f.get("line") or 0) for f in thread["frames"]]
        stack = [numbers.setdefault(frame, len(numbers)) for frame in frames]
        tid: "int | None" = thread.get("os_thread_id")
        active = thread.get("active")
        if outer is not None:
            tid = outer.get(tid or 0)
        if from_outside:
            active = None
        rows.append([tid, thread.get("thread_id"), thread.get("thread_name"), active, thread.get("owns_gil"), stack])
    return {"frames": list(numbers), "threads": rows}


def _outlive_the_agent(target: Target) -> None:
    """A helper dies with its agent, and a dumper with its helper; one that pauses a process must not leave it stopped
    then. The process was running before, and is told to go on whatever became of the dumper."""

    def ended(*_: object) -> None:
        for child in _CHILDREN:
            os.kill(child, signal.SIGKILL)
        for seconds in (0.1, 0.4):
            time.sleep(seconds)
            try:
                target.send(signal.SIGCONT)
            except Refused:
                break
        os._exit(0)

    signal.signal(signal.SIGTERM, ended)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def let_go(pid: int, start_ticks: int) -> None:
    """A dumper that was killed while it held a process may leave a stop behind, or one pending that works when the
    process returns from the kernel. Takes it away; for processes that were running before."""
    now = procfs.stat(pid)
    if now is None or now.start_ticks != start_ticks or not (now.state == "T" or _stop_pends(pid)):
        return
    try:
        target = Target(pid, start_ticks)
        target.send(signal.SIGCONT)
        target.close()
    except Refused:
        return


def _stop_pends(pid: int) -> bool:
    try:
        paths = ["/proc/%d/task/%s/status" % (pid, name) for name in os.listdir("/proc/%d/task" % pid)]
        return any((now["SigPnd"] | now["ShdPnd"]) & SIGSTOP_PENDING for now in map(status, paths))
    except (OSError, ValueError):
        return False


def _spawn(program: int, arguments: "list[str]") -> "tuple[bytes, int]":
    """What it printed, and its exit code. It dies with this helper, which is killed when it takes too long."""
    said, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            os.dup2(theirs, 1)
            os.dup2(theirs, 2)
            _exec(program, ["py-spy", "dump", "--json"] + arguments)
        finally:
            os._exit(126)
    _CHILDREN.append(pid)
    os.close(theirs)
    output = bytearray()
    with open(said, "rb", 0) as stream:
        piece = stream.read(1 << 20)
        while piece and len(output) < MOST_BYTES:
            output += piece
            piece = stream.read(1 << 20)
    code = os.waitpid(pid, 0)[1]
    _CHILDREN.remove(pid)
    return bytes(output), os.WEXITSTATUS(code) if os.WIFEXITED(code) else -1


def _exec(program: int, arguments: "list[str]") -> None:
    """From the descriptor: in a container there is no path to it. A script needs its path, which is ours then."""
    env = {"PATH": os.environ.get("PATH", os.defpath), "NO_COLOR": "1"}
    try:
        if os.pread(program, 2, 0) == b"#!":
            os.execve(os.readlink("/proc/self/fd/%d" % program), arguments, env)
        os.execve(program, arguments, env)
    except OSError as failure:
        os.write(1, ("py-spy cannot be run: %s" % failure).encode())


def _outer_ids(pid: int) -> "dict[int, int]":
    outer: "dict[int, int]" = {}
    for name in os.listdir("/proc/%d/task" % pid):
        try:
            outer[int(status("/proc/%d/task/%s/status" % (pid, name))["NSpid"])] = int(name)
        except (OSError, ValueError):
            continue
    return outer


def _sentence(output: bytes) -> str:
    text = procfs.text(output).strip()
    if "ermission" in text:
        return "py-spy may not look into this process: run as root or as its owner (kernel.yama.ptrace_scope)"
    return text.split("\n")[0][:500] or "py-spy failed without a word"


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
