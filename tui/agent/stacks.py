"""Python stacks of other processes through py-spy, without pausing them: several at once, each with a deadline."""

import json
import os
import signal
import sys
import time

from . import procfs
from .jobs import Jobs
from .loop import clock
from .signals import Refused, Target

DEADLINE_S = 10.0
AT_ONCE = 8
PLACES = ("/usr/local/bin", "/usr/bin", "~/.local/bin", os.path.dirname(sys.executable))


class Stacks:
    def __init__(self, loop: "Loop"):
        self._jobs = Jobs(loop, AT_ONCE)

    def end(self) -> None:
        self._jobs.end()

    def take(self, procs: "list[tuple[int, int]]", program: "str | int", native: bool, answer: "Answer") -> None:
        """Dump every process; ``program`` is a path or a descriptor. ``answer(last, fields)`` once a process."""
        left = [len(procs)]

        def tell(**fields: object) -> None:
            left[0] -= 1
            answer(left[0] == 0, dict(fields, wall=round(time.time(), 3)))

        for pid, start_ticks in procs:
            refusal = _refusal(pid, start_ticks, native)
            if refusal:
                tell(pid=pid, ok=False, error=refusal, duration_s=0.0)
            else:
                self._dump(pid, start_ticks, program, native, tell)

    def _dump(self, pid: int, start_ticks: int, program: "str | int", native: bool, tell: "Tell") -> None:
        started = clock()
        before = procfs.stat(pid)

        def ended(output: bytes, status: "int | None") -> None:
            if native and before and before.state not in "Tt":
                _let_go(pid, start_ticks)
            if status is None:
                late = "py-spy gave no answer within %d s" % DEADLINE_S
                tell(pid=pid, ok=False, error=late, duration_s=DEADLINE_S)
                return
            try:
                stacks = json.loads(output[output.index(b"[") :].decode()) if status == 0 else None
            except ValueError:
                stacks = None
            if stacks is None:
                tell(pid=pid, ok=False, error=_sentence(output), duration_s=round(clock() - started, 4))
            else:
                tell(pid=pid, ok=True, json=stacks, duration_s=round(clock() - started, 4))

        keep = (program,) if isinstance(program, int) else ()
        arguments = ["py-spy", "dump", "--json", "--native" if native else "--nonblocking", "--pid", str(pid)]
        self._jobs.start(lambda out: _exec(program, arguments, out), DEADLINE_S, ended, keep=keep)


def find(program: "str | None") -> "str | None":
    """A path as given, or py-spy where a login's PATH or the usual places have it."""
    if program and "/" in program:
        return program
    for folder in os.environ.get("PATH", "").split(":") + list(PLACES):
        path = os.path.join(os.path.expanduser(folder), program or "py-spy")
        if os.access(path, os.X_OK):
            return path
    return None


def _exec(program: "str | int", arguments: "list[str]", output: int) -> None:
    os.dup2(output, 1)
    os.dup2(output, 2)
    path = program if isinstance(program, str) else "/proc/self/fd/%d" % program
    try:
        os.execve(path, arguments, {"PATH": os.environ.get("PATH", os.defpath), "NO_COLOR": "1"})
    except OSError as failure:
        os.write(1, ("py-spy cannot be run: %s" % failure).encode())
        os._exit(126)


def _refusal(pid: int, start_ticks: int, native: bool) -> "str | None":
    now = procfs.stat(pid)
    if now is None or now.state in "ZX":
        return "has ended"
    if now.start_ticks != start_ticks:
        return "has ended; its pid belongs to another process now"
    if native and now.state in "DTt":
        return "native stacks need the process to stop, and it is in state %s" % now.state
    return None


def _let_go(pid: int, start_ticks: int) -> None:
    """A dumper that was killed while it held the process may leave a stop behind."""
    now = procfs.stat(pid)
    if now and now.start_ticks == start_ticks and now.state == "T":
        try:
            target = Target(pid, start_ticks)
            target.send(signal.SIGCONT)
            target.close()
        except Refused:
            pass


def _sentence(output: bytes) -> str:
    text = procfs.text(output).strip()
    if "ermission" in text:
        return "py-spy may not look into this process: run as root or as its owner (kernel.yama.ptrace_scope)"
    return text.split("\n")[0][:500] or "py-spy failed without a word"


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .loop import Loop

    Answer = Callable[[bool, "dict[str, Any]"], None]
    Tell = Callable[..., None]
