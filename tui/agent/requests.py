"""The fixed set of things that the monitor may ask for. Modules for the rare ones are imported when one comes."""

import time


class Requests:
    """Turns requests into answers; a request that is malformed or fails gets an answer with ``error``."""

    def __init__(self, loop: "Loop", agent: "Agent"):
        self._loop, self._agent = loop, agent
        self._endings: "list[Callable[[], None]]" = []
        self._puts: "Puts | None" = None

    def handle(self, request: "dict[str, Any]") -> None:
        do = "_do_%s" % request.get("do")
        try:
            getattr(self, do, self._unknown)(request)
        except (KeyError, TypeError, ValueError, OSError) as failure:
            self.answer(request, error="%s: %s" % (type(failure).__name__, failure))

    def answer(self, request: "dict[str, Any]", last: bool = True, **fields: object) -> None:
        if "id" in request:
            answer: "dict[str, Any]" = {"type": "answer", "id": request["id"], "last": last}
            answer.update(fields)
            self._agent.send(answer)

    def end(self) -> None:
        """Stop what still runs for a request, and give back what was put here."""
        for ending in self._endings:
            ending()

    def _unknown(self, request: "dict[str, Any]") -> None:
        self.answer(request, error="this agent cannot do %r" % (request.get("do"),))

    def _do_watch(self, request: "dict[str, Any]") -> None:
        self._agent.focus.set([(int(pid), int(ticks)) for pid, ticks in request["procs"]])
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
        self._agent.followers.filter([str(pattern) for pattern in request["patterns"]])
        self.answer(request)

    def _do_interval(self, request: "dict[str, Any]") -> None:
        self._agent.interval = min(10.0, max(0.1, float(request["s"])))
        self.answer(request)

    def _do_ping(self, request: "dict[str, Any]") -> None:
        self.answer(request, mono=time.monotonic(), wall=time.time())

    def _do_stop(self, request: "dict[str, Any]") -> None:
        self.answer(request)
        self._loop.stopped = True


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .loop import Loop
    from .main import Agent
    from .put import Puts
