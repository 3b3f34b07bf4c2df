"""The agent's main process: ties the parts to one loop, makes a frame of each tick.

Nothing here may block: what can is in helpers, and the first of them asks the driver while the rest still starts.
"""

import json
import os
import signal
import sys
import time

from . import gpus, host
from .loop import Loop, clock

NOT_LINUX = 96
GRACE_S = 0.15
"""How long a tick's frame waits for this tick's GPU readings and logs; what comes later goes into the next one."""

SOON_S = 0.01
GREET_WITHIN_S = 0.5
SHORTEST_S, LONGEST_S = 0.1, 10.0


class Agent:
    """One channel's agent. ``options``: ``silence_s`` and ``simulate``, see :func:`tui.collect.payload.payload`."""

    def __init__(self, loop: Loop, options: "dict[str, Any]"):
        self._interval = 1.0
        self._loop = loop
        self._silence_s = options["silence_s"]
        self._parent = os.getppid()
        self._greeted = self._started = self._gpus_seen = False
        self._gpus = gpus.Gpus(loop, options["simulate"], self._gpus_answered)
        self._gpus.poll()
        from . import wire

        self._wire = wire
        self._output, self._input = wire.Output(1), wire.Input(0)
        if options["simulate"] is None:
            self._greet()
        from . import followers, identities, procs, requests

        self._census = procs.Census()
        self._focus = procs.Focus(self._census)
        self._identities = identities.Identities(loop, self._census, self.tick_soon)
        self._followers = followers.Followers(loop, self._logs_answered)
        self._requests = requests.Requests(loop, self)
        self._helpers = [self._gpus.helper, self._identities.helper, self._followers.helper]
        self._timer = 0
        self._frame: "dict[str, Any] | None" = None
        self._begun = 0.0
        self._awaited: "list[Helper]" = []
        self._gone: "list[tuple[int, int]]" = []
        self._ticks = 0
        self._soon = False
        self._heard = clock()
        loop.watch(0, self._readable)
        loop.after(0.0 if self._greeted else GREET_WITHIN_S, self._start)

    @property
    def focus(self) -> "Focus":
        return self._focus

    @property
    def gpus(self) -> "gpus.Gpus":
        return self._gpus

    @property
    def followers(self) -> "Followers":
        return self._followers

    def set_interval(self, seconds: float) -> None:
        self._interval = min(LONGEST_S, max(SHORTEST_S, seconds))

    def tick_soon(self) -> None:
        """Bring the next tick forward: something that the monitor waits for has come."""
        self._soon = True
        if self._started and self._frame is None:
            self._arm(SOON_S)

    def send(self, value: "dict[str, Any]", **fragments: bytes) -> None:
        """Queue one frame; the end of the channel ends the agent."""
        try:
            self._output.frame(self._wire.spliced(value, **fragments))
        except OSError:
            self._loop.stopped = True
        if self._output.full:
            self._loop.watch(1, self._writable, writing=True)

    def end(self) -> None:
        for helper in self._helpers:
            helper.end()
        self._requests.end()

    def _greet(self) -> None:
        """At once, unless it must first be known whether a driver answers or GPUs are simulated."""
        self._greeted = True
        self.send(host.hello(simulated=bool(self._gpus.simulated)))

    def _start(self) -> None:
        if self._started:
            return
        self._started = True
        if not self._greeted:
            self._greet()
        self._begin()

    def _arm(self, seconds: float) -> None:
        self._timer += 1
        armed = self._timer
        self._loop.after(seconds, lambda: self._begin() if armed == self._timer else None)

    def _begin(self) -> None:
        """A tick: measure what cannot block, ask the helpers for the rest."""
        if clock() - self._heard > self._silence_s or os.getppid() != self._parent:
            self._loop.stopped = True
            return
        if self._output.full:
            self._arm(self._interval)
            return
        self._begun = clock()
        self._soon = False
        frame: "dict[str, Any]" = {"type": "tick", "mono": round(time.monotonic(), 6), "wall": round(time.time(), 6)}
        load1, last_pid = host.load()
        self._census.update(last_pid)
        frame["procs"] = self._focus.sample()
        frame["load1"], frame["net"] = load1, host.network()
        self._frame = frame
        self._awaited = [part.helper for part in (self._gpus, self._followers) if not part.helper.busy]
        self._gone += self._identities.update(self._focus.members)
        self._gpus.poll()
        self._followers.poll()
        begun = self._begun
        if not self._ticks:
            self._finish()
        elif not self._maybe_finish():
            self._loop.after(GRACE_S, lambda: self._finish() if begun == self._begun else None)

    def _maybe_finish(self) -> bool:
        """Send the frame as soon as everything asked for in this tick has come."""
        if self._frame is None or any(helper.busy for helper in self._awaited):
            return False
        self._finish()
        return True

    def _finish(self) -> None:
        if self._frame is None:
            return
        frame, self._frame = self._frame, None
        frame.update(self._gpus.fields())
        frame["new"], frame["gone"], self._gone = self._identities.take(), self._gone, []
        frame["self"] = host.own_cost([helper.pid for helper in self._helpers if helper.pid])
        frame["notes"] = self._notes()
        self.send(frame, logs=self._followers.take())
        self._ticks += 1
        self._arm(SOON_S if self._soon else max(0.0, self._begun + self._interval - clock()))

    def _notes(self) -> "list[str]":
        kinds = ("GPUs", "processes", "files")
        return [
            "readings of %s hang on this host; no further ones are started" % kind
            for kind, helper in zip(kinds, self._helpers)
            if helper.stuck
        ]

    def _logs_answered(self) -> None:
        self._maybe_finish()

    def _gpus_answered(self) -> None:
        if not self._started:
            self._loop.after(0.0, self._start)
        elif not self._maybe_finish() and not self._gpus_seen:
            self.tick_soon()
        self._gpus_seen = True

    def _readable(self) -> None:
        requests = self._input.requests()
        self._heard = clock()
        for request in requests:
            self._requests.handle(request)
        if self._input.ended:
            self._loop.stopped = True

    def _writable(self) -> None:
        try:
            self._output.flush()
        except OSError:
            self._loop.stopped = True
        if not self._output.full:
            self._loop.forget(1)


def main(options: bytes) -> None:
    """Run until the monitor is gone; called by the boot."""
    if not sys.platform.startswith("linux"):
        sys.stderr.write("only Linux hosts can be watched; this one runs %s\n" % os.uname().sysname)
        os._exit(NOT_LINUX)
    host.stand_back()
    loop = Loop()

    def stop(*_: object) -> None:
        loop.stopped = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGHUP, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settings = json.loads(options.decode())
    sys.path.extend(settings.get("python_path", ()))
    agent = Agent(loop, settings)
    try:
        loop.run()
    finally:
        agent.end()
    os._exit(0)


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .followers import Followers
    from .helper import Helper
    from .procs import Focus
