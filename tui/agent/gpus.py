"""The main process's side of GPU readings: the last reading with its age, and which GPU's driver calls hang."""

import json

from .helper import Helper
from .loop import clock

AGAIN_S = 60.0
"""Doubled with each further hang of the same GPU, up to 16 times: each one holds up the others' readings for 3 s."""

INIT_AGAIN_S = 30.0
FRESH_S = 0.05
HANGS = "driver calls for this GPU do not return; trying again now and then"
STOPPED = "driver calls hang on this host: no further ones are made"


class Gpus:
    """Asks the helper once a tick; ``answered`` is called after each reading. ``simulated`` is None until known."""

    def __init__(self, loop: "Loop", simulate: "dict[str, Any] | None", answered: "Callable[[], None]"):
        self._simulate = simulate
        self.helper = Helper(loop, self._work, self._answered, self._lost)
        self.rows: "list[dict[str, Any]] | None" = None
        self.error: "str | None" = "the NVIDIA driver has not answered yet"
        self.simulated: "bool | None" = None
        self.read_at = clock()
        self._done = answered
        self._hung: "dict[int, float]" = {}
        self._hangs: "dict[int, int]" = {}
        self._known: "dict[int, dict[str, Any]]" = {}
        self._turn = 0
        self._not_before = 0.0
        self._health: "list[Callable[[dict[str, Any]], None]]" = []

    def _work(self, mark: "Mark") -> "Callable[[dict[str, Any]], bytes]":
        """In the child: only there the module is needed."""
        from .nvml import work

        return work(mark, self._simulate)

    def poll(self) -> None:
        """Ask for a reading, unless the last is still awaited or fresh, or it is too early to try a failing driver."""
        now = clock()
        fresh = self.rows and now - self.read_at < FRESH_S and not self._health
        if self.helper.busy or now < self._not_before or fresh:
            return
        self._hung = {index: until for index, until in self._hung.items() if now < until}
        self._turn += 1
        pcie = self._turn % len(self._known) if self._known else None
        if not self.helper.ask({"leave_out": sorted(self._hung), "pcie": pcie, "health": bool(self._health)}):
            self._fail(STOPPED)

    def ask_health(self, tell: "Callable[[dict[str, Any]], None]") -> None:
        """Read with the next reading what would spoil a launch (:mod:`.gpuhealth`). ``tell`` is called once, with
        ``gpus`` (the rows), ``error``, ``health``, and ``why`` it is None; not before the driver has answered."""
        self._health.append(tell)
        if clock() < self._not_before:
            self._tell_health(None)
        else:
            self.poll()

    def fields(self) -> "dict[str, Any]":
        """What the frame says of GPUs."""
        return {"gpus": self.rows, "gpu_error": self.error, "gpus_age_s": round(clock() - self.read_at, 3)}

    def _answered(self, answer: bytes) -> None:
        reading = json.loads(answer.decode())
        self.read_at = clock()
        self.simulated = reading["simulated"]
        if reading["gpus"] is None:
            self._fail(reading["error"])
            return
        left_out = {index: row for index, row in self._known.items() if index in self._hung}
        self._known = {**left_out, **{row["index"]: row for row in reading["gpus"]}}
        self._show()
        if "health" in reading:
            self._tell_health(reading["health"])

    def _lost(self, item: str, reason: str) -> None:
        """A reading did not return, or took its helper down: that GPU costs its row, the others go on."""
        what = "does not answer" if reason == "late" else "crashes when it is asked"
        if item.startswith("health"):
            self._tell_health(None, "the NVIDIA driver %s for the %s" % (what, item))
            self.poll()
            return
        if not item.isdigit():
            self._fail("the NVIDIA driver " + what)
            return
        index = int(item)
        self._hangs[index] = self._hangs.get(index, 0) + 1
        self._hung[index] = clock() + AGAIN_S * 2 ** min(4, self._hangs[index] - 1)
        if self._known:
            self._show()
        self.poll()

    def _show(self) -> None:
        for index in self._hung:
            known = self._known.get(index, {})
            self._known[index] = {"index": index, "uuid": known.get("uuid", ""), "name": known.get("name", "")}
            self._known[index]["error"] = HANGS
        self.rows, self.error = [self._known[index] for index in sorted(self._known)], None
        self._done()

    def _fail(self, sentence: str) -> None:
        self.rows, self.error = None, sentence
        self._not_before = clock() + INIT_AGAIN_S
        self._done()
        self._tell_health(None)

    def _tell_health(self, health: "dict[str, Any] | None", why: "str | None" = None) -> None:
        waiting, self._health = self._health, []
        for tell in waiting:
            tell({"gpus": self.rows, "error": self.error, "health": health, "why": why})


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .helper import Mark
    from .loop import Loop
