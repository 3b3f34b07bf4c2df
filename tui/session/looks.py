"""Fetches the facts that the diagnosis asks for, at a bounded rate, and hands them out with the hosts' samples."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from tui.diagnose.answers import Answers
from tui.errors import HostError
from tui.model import Fact, Wanted

LOOK_EVERY_S = 8.0
"""A look of one kind is asked of one host at most this often, whatever is wanted."""

MOST_PROCS = 256

Ask = Callable[[str, str, Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""``ask(host, what, arguments)``: one look. Raises: HostError."""


class Looks:
    """``facts`` that have come wait, host by host, until the host's next sample takes them along."""

    def __init__(self, ask: Ask, spawn: Callable[[Any, str], None]) -> None:
        self._ask, self._spawn = ask, spawn
        self._answers: dict[str, Answers] = {}
        self._asked: dict[tuple[str, str], float] = {}
        self._facts: dict[str, list[Fact]] = {}

    def want(self, wanted: Iterable[Wanted], now: float) -> None:
        """Ask for what is due; what several launches of a host want is asked for once."""
        for want in _merged(wanted):
            key = (want.host, want.what)
            if now - self._asked.get(key, -1e9) >= LOOK_EVERY_S:
                self._asked[key] = now
                self._spawn(self._fetch(want), f"look {want.what}")

    def note(self, host: str, fact: Fact) -> None:
        """Add a fact that nobody had to look for."""
        self._facts.setdefault(host, []).append(fact)

    def take(self, host: str) -> tuple[Fact, ...]:
        return tuple(self._facts.pop(host, ()))

    async def _fetch(self, want: Wanted) -> None:
        pids = [pid for pid, *_ in want.args.get("procs", ())]
        try:
            answer = {"looked": pids, **await self._ask(want.host, want.what, want.args)}
        except HostError as error:
            answer = {"error": str(error), "looked": pids}  # unknown stays unknown, and is not asked again at once
        facts = self._answers.setdefault(want.host, Answers()).facts(want.what, answer, time.monotonic())
        for fact in facts:
            self.note(want.host, fact)


def _merged(wanted: Iterable[Wanted]) -> list[Wanted]:
    """One look a host and kind: the processes of all who want it."""
    found: dict[tuple[str, str], Wanted] = {}
    for want in wanted:
        before = found.get((want.host, want.what))
        if before is None:
            found[want.host, want.what] = want
            continue
        args = {**want.args, **before.args}
        procs = [list(proc) for proc in {tuple(p) for w in (before, want) for p in w.args.get("procs", ())}]
        since_s = [float(w.args["since_s"]) for w in (before, want) if "since_s" in w.args]
        args["procs"] = procs[:MOST_PROCS]
        if since_s:
            args["since_s"] = max(since_s)
        found[want.host, want.what] = Wanted(want.host, want.what, args)
    return list(found.values())
