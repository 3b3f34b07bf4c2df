"""Python stacks of other processes through py-spy: several at once, each with a deadline.

Without ``native`` nothing is paused. With it py-spy stops each process for 1 to 2.5 s; one in an uninterruptible wait
or already stopped is left alone, and none is left stopped.
"""

import os
import re
import sys
import time

from . import procfs
from .dumper import let_go, read, run, write
from .jobs import Jobs
from .signals import watchers

DEADLINE_S = 10.0
NATIVE_DEADLINE_S = 20.0
AT_ONCE = 8
AGAIN_S = (0.0, 0.3, 1.5)
"""After a dumper has ended: the kernel lets go of what it held a moment later."""

PLACES = ("/usr/local/bin", "/usr/bin", "~/.local/bin", os.path.dirname(sys.executable))


class Stacks:
    def __init__(self, loop: "Loop"):
        self._loop = loop
        self._jobs = Jobs(loop, AT_ONCE)
        # Reading native stacks keeps a core busy, and the process stopped: more at once than cores are longer pauses.
        self._native = Jobs(loop, max(1, min(AT_ONCE, (os.cpu_count() or 1) // 2)))
        self._versions: "dict[str, tuple[int, ...]]" = {}

    def end(self) -> None:
        """Helpers that pause nothing are killed; those that do see their agent end and clean up behind them."""
        self._jobs.end()

    def version(self, program: str, told: "Callable[[tuple[int, ...]], None]") -> None:
        """``told`` what ``program --version`` says: ``(0, 4, 3)``, or nothing where it says nothing; asked once."""
        if program in self._versions:
            told(self._versions[program])
            return

        def ended(output: bytes, status: "int | None") -> None:
            found = re.search(r"(\d+)\.(\d+)\.(\d+)", procfs.text(output))
            self._versions[program] = tuple(int(part) for part in found.groups()) if found else ()
            told(self._versions[program])

        self._jobs.start(lambda out: _say_version(program, out), 3.0, ended)

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
        deadline_s = NATIVE_DEADLINE_S if native else DEADLINE_S

        def body(output: int) -> None:
            # It may have had to wait for its turn.
            refusal = _refusal(pid, start_ticks, native)
            run(pid, start_ticks, program, native, output) if not refusal else write(output, 0.0, error=refusal)

        def ended(output: bytes, status: "int | None") -> None:
            taken = read(output)
            if native:
                for seconds in (0.0,) if "stacks" in taken else AGAIN_S:
                    self._loop.after(seconds, lambda: let_go(pid, start_ticks))
            if status is None:
                late = "py-spy gave no answer within %d s" % deadline_s
                taken = {"error": late, "duration_s": deadline_s}
            tell(pid=pid, ok="stacks" in taken, **taken)

        keep = (program,) if isinstance(program, int) else ()
        (self._native if native else self._jobs).start(body, deadline_s, ended, keep=keep)


def find(program: "str | None") -> "str | None":
    """A path as given, or py-spy where a login's PATH or the usual places have it."""
    if program and "/" in program:
        return program
    for folder in os.environ.get("PATH", "").split(":") + list(PLACES):
        path = os.path.join(os.path.expanduser(folder), program or "py-spy")
        if os.access(path, os.X_OK):
            return path
    return None


def _say_version(program: str, output: int) -> None:
    os.dup2(output, 1)
    os.execve(program, [program, "--version"], {"PATH": os.environ.get("PATH", os.defpath)})


def _refusal(pid: int, start_ticks: int, native: bool) -> "str | None":
    now = procfs.stat(pid)
    if now is None or now.state in "ZX":
        return "has ended"
    if now.start_ticks != start_ticks:
        return "has ended; its pid belongs to another process now"
    if native and pid in watchers(os.getpid()):
        return "native stacks need the process to stop, and it is the monitor itself"
    if native and now.state in "DTt":
        return "native stacks need the process to stop, and it is in state %s" % now.state
    return None


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .loop import Loop

    Answer = Callable[[bool, "dict[str, Any]"], None]
    Tell = Callable[..., None]
