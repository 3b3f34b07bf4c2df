"""Asking what a launch keeps about itself, NCCL's RAS and PyTorch's flight recorder, in helpers with a deadline."""

import json

from . import procfs
from .helper import write_all
from .jobs import Jobs

RAS_DEADLINE_S = 25.0
RECORDER_DEADLINE_S = 16.0
AT_ONCE = 16
"""They mostly wait."""


class Probes:
    def __init__(self, loop: "Loop"):
        self._jobs = Jobs(loop, AT_ONCE)

    def end(self) -> None:
        self._jobs.end()

    def ras(self, procs: "list[tuple[int, int]]", answer: "Callable[[dict[str, Any]], None]") -> None:
        """One poll through these processes: see :func:`.ras.work`."""
        from .ras import work

        self._run(lambda: work(procs), RAS_DEADLINE_S, answer)

    def recorders(self, procs: "list[tuple[int, int, int | None]]", answer: "Answer") -> None:
        """The flight record of each process (the third number is its rank, where its environment does not tell):
        ``answer(last, fields)`` once a process, with what :func:`.recorder.work` gives."""
        from .recorder import work

        left = [len(procs)]

        def tell(pid: int, fields: "dict[str, Any]") -> None:
            left[0] -= 1
            answer(left[0] == 0, dict(fields, pid=pid))

        for pid, start_ticks, rank in procs:
            if procfs.alive(pid, start_ticks):
                self._run(
                    lambda pid=pid, rank=rank: work(pid, rank),
                    RECORDER_DEADLINE_S,
                    lambda fields, pid=pid: tell(pid, fields),
                )
            else:
                tell(pid, {"error": "has ended"})

    def _run(
        self, work: "Callable[[], dict[str, Any]]", deadline_s: float, answer: "Callable[[dict[str, Any]], None]"
    ) -> None:
        from .wire import encode

        def ended(output: bytes, status: "int | None") -> None:
            if status is None:
                answer({"error": "no answer within %d s" % deadline_s})
                return
            try:
                fields: "dict[str, Any]" = json.loads(output.decode())
            except ValueError:
                fields = {"error": "the probe crashed"}
            answer(fields)

        self._jobs.start(lambda out: write_all(out, encode(work()).encode()), deadline_s, ended)


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .loop import Loop

    Answer = Callable[[bool, "dict[str, Any]"], None]
