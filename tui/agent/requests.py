"""The fixed set of things that the monitor may ask for. Modules for the rare ones are imported when one comes."""

import json
import os
import time

from .helper import reaped

LOOK_DEADLINE_S = 10.0
LOOKS_AT_ONCE = 4


class Requests:
    """Turns requests into answers; a request that is malformed or fails gets an answer with ``error``."""

    def __init__(self, loop: "Loop", agent: "Agent"):
        self._loop, self._agent = loop, agent
        self._looks: "Jobs | None" = None
        self._puts: "Puts | None" = None
        self._stacks: "Stacks | None" = None
        self._probes: "Probes | None" = None

    def handle(self, request: "dict[str, Any]") -> None:
        try:
            getattr(self, "_do_%s" % request.get("do"), self._unknown)(request)
        except (KeyError, TypeError, ValueError, OSError) as failure:
            self.answer(request, error="%s: %s" % (type(failure).__name__, failure))

    def answer(self, request: "dict[str, Any]", last: bool = True, **fields: object) -> None:
        if "id" in request:
            answer: "dict[str, Any]" = {"type": "answer", "id": request["id"], "last": last}
            encoded = {name: value for name, value in fields.items() if isinstance(value, bytes)}
            answer.update((name, value) for name, value in fields.items() if name not in encoded)
            self._agent.send(answer, **encoded)

    def end(self) -> None:
        """Stop what still runs for a request."""
        for part in (self._looks, self._stacks, self._probes):
            if part:
                part.end()

    def _unknown(self, request: "dict[str, Any]") -> None:
        self.answer(request, error="this agent cannot do %r" % (request.get("do"),))

    def _do_watch(self, request: "dict[str, Any]") -> None:
        self._agent.focus.set(_procs(request["procs"]))
        self._agent.tick_soon()
        self.answer(request)

    def _do_follow(self, request: "dict[str, Any]") -> None:
        self._agent.followers.follow(request)
        self._agent.tick_soon()
        self.answer(request)

    def _do_unfollow(self, request: "dict[str, Any]") -> None:
        self._agent.followers.unfollow(request["key"])
        self.answer(request)

    def _do_filter(self, request: "dict[str, Any]") -> None:
        patterns = [str(pattern) for pattern in request["patterns"]]
        words: "list[list[list[str]]]" = request.get("words") or [[] for _ in patterns]
        self._agent.followers.filter([(p, [list(map(str, one_of)) for one_of in ws]) for p, ws in zip(patterns, words)])
        self.answer(request)

    def _do_interval(self, request: "dict[str, Any]") -> None:
        self._agent.set_interval(float(request["s"]))
        self.answer(request)

    def _do_ping(self, request: "dict[str, Any]") -> None:
        self.answer(request, mono=time.monotonic(), wall=time.time())

    def _do_stop(self, request: "dict[str, Any]") -> None:
        self.answer(request)
        self._loop.stopped = True

    def _do_look(self, request: "dict[str, Any]") -> None:
        from .jobs import Jobs

        if request.get("what") == "gpu_health":  # the driver is asked in its own helper alone
            self._agent.gpus.ask_health(lambda fields: self.answer(request, **fields))
            return
        if self._looks is None:
            self._looks = Jobs(self._loop, LOOKS_AT_ONCE)

        def ended(output: bytes, status: "int | None") -> None:
            if status is None:
                self.answer(request, error="no answer within %d s: what was looked at hangs" % LOOK_DEADLINE_S)
            else:
                self.answer(request, **json.loads(output.decode() or '{"error": "the look crashed"}'))

        self._looks.start(lambda out: _look(request, out), LOOK_DEADLINE_S, ended)

    def _do_put(self, request: "dict[str, Any]") -> None:
        from .put import Puts

        if self._puts is None:
            self._puts = Puts()
        if self._puts.add(request):
            self.answer(request)

    def _do_stacks(self, request: "dict[str, Any]") -> None:
        from .stacks import Stacks, find

        if self._stacks is None:
            self._stacks = Stacks(self._loop)
        stacks, name, procs = self._stacks, request.get("program"), _procs(request["procs"])
        sent = self._puts.fd(name) if self._puts and name else None
        program = sent if sent is not None else find(name)
        if program is None:
            self.answer(request, error="py-spy is not on this host")
            return
        if not procs:
            self.answer(request)

        def take() -> None:
            stacks.take(
                procs, program, bool(request.get("native")), lambda last, fields: self.answer(request, last, **fields)
            )

        def told(version: "tuple[int, ...]") -> None:
            if version >= tuple(request["at_least"]):
                take()
            else:
                words = ".".join(map(str, version)) or "of an unknown version"
                self.answer(request, error="py-spy on this host is too old (%s: %s)" % (program, words))

        if isinstance(program, str) and request.get("at_least"):
            stacks.version(program, told)
        else:
            take()

    def _do_ras(self, request: "dict[str, Any]") -> None:
        self._prober().ras(_procs(request["procs"]), lambda fields: self.answer(request, **fields))

    def _do_recorder(self, request: "dict[str, Any]") -> None:
        procs = [(int(pid), int(ticks), None if rank is None else int(rank)) for pid, ticks, rank in request["procs"]]
        if not procs:
            self.answer(request)
        self._prober().recorders(procs, lambda last, fields: self.answer(request, last, **fields))

    def _prober(self) -> "Probes":
        from .probes import Probes

        if self._probes is None:
            self._probes = Probes(self._loop)
        return self._probes

    def _do_signal(self, request: "dict[str, Any]") -> None:
        from .signals import Refused, Target

        procs = _procs(request["procs"])
        for number, (pid, start_ticks) in enumerate(procs, 1):
            result, why = "sent", None
            try:
                target = Target(pid, start_ticks)
                try:
                    target.send(int(request["signal"]))
                finally:
                    target.close()
            except Refused as refusal:
                result, why = refusal.result, str(refusal)
            self.answer(request, number == len(procs), pid=pid, result=result, why=why, wall=time.time())

    def _do_abort(self, request: "dict[str, Any]") -> None:
        from .abort import start
        from .signals import Refused, Target, watchers

        targets: "list[Target]" = []
        ours = watchers(os.getpid())
        holders: "list[Target]" = []
        refused: "list[dict[str, Any]]" = []
        for pid, start_ticks in _procs(request["procs"]):
            try:
                if pid in ours:
                    raise Refused("denied", "it is the monitor itself")
                targets.append(Target(pid, start_ticks))
            except Refused as refusal:
                refused.append({"pid": pid, "result": refusal.result, "why": str(refusal), "wall": time.time()})
        for pid, start_ticks in _procs(request.get("hold") or []):
            try:
                if pid not in ours:
                    holders.append(Target(pid, start_ticks))
            except Refused:
                continue
        for number, fields in enumerate(refused, 1):
            self.answer(request, not targets and number == len(refused), **fields)
        if not targets:
            if not refused:
                self.answer(request)
            return
        answers, theirs = os.pipe()
        switch = start(targets, holders, theirs)
        os.close(theirs)
        _Aborting(self, self._loop, request, targets, answers, switch)
        for target in targets + holders:
            target.close()


class _Aborting:
    """Passes on the answers of the abort's own processes; for those that it did not get to, says how they are."""

    def __init__(
        self, requests: Requests, loop: "Loop", request: "dict[str, Any]", targets: "list[Target]", fd: int, pid: int
    ):
        self._requests, self._loop, self._request, self._fd, self._pid = requests, loop, request, fd, pid
        self._left = {target.pid: target for target in targets}
        self._partial = b""
        loop.watch(fd, self._readable)

    def _readable(self) -> None:
        piece = os.read(self._fd, 1 << 20)
        if not piece:
            self._finish()
            return
        *lines, self._partial = (self._partial + piece).split(b"\n")
        for line in lines:
            fields = json.loads(line.decode())
            self._left.pop(fields["pid"], None)
            self._requests.answer(self._request, not self._left, **fields)

    def _finish(self) -> None:
        self._loop.forget(self._fd)
        os.close(self._fd)
        self._loop.after(1.0, self._reap)
        for number, target in enumerate(self._left.values(), 1):
            result = "alive" if target.alive() else "died"
            last = number == len(self._left)
            self._requests.answer(self._request, last, pid=target.pid, result=result, wall=time.time())

    def _reap(self) -> None:
        reaped(self._pid)


def _look(request: "dict[str, Any]", output: int) -> None:
    from .helper import write_all
    from .look import look
    from .wire import encode

    try:
        answer = look(request)
    except OSError as failure:
        answer = {"error": "%s: %s" % (failure.filename or "the look failed", failure.strerror)}
    except (KeyError, ValueError, TypeError) as failure:
        answer = {"error": "%s: %s" % (type(failure).__name__, failure)}
    write_all(output, encode(answer).encode())


def _procs(pairs: "list[list[int]]") -> "list[tuple[int, int]]":
    return [(int(pid), int(start_ticks)) for pid, start_ticks in pairs]


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .jobs import Jobs
    from .loop import Loop
    from .main import Agent
    from .probes import Probes
    from .put import Puts
    from .signals import Target
    from .stacks import Stacks
