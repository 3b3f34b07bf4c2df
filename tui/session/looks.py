"""Fetches the facts that the diagnosis asks for, at a bounded rate, and hands them out with the hosts' samples."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tui.diagnose.answers import Answers
from tui.errors import HostError
from tui.model import Fact, Wanted

LOOK_EVERY_S = 8.0
"""A look of one kind is asked of one host at most this often, whatever is wanted."""

MOST_PROCS = 256

Ask = Callable[[str, str, Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""``ask(host, what, arguments)``: one look. Raises: HostError."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """The last look of a kind at a host, and at which processes, in words."""

    t: float
    procs: frozenset[str]

    def unanswered(self, want: Wanted, now: float) -> Wanted | None:
        """What this look, while it is fresh, does not answer."""
        if now - self.t >= LOOK_EVERY_S:
            return want
        procs = [proc for proc in want.args.get("procs", ()) if str(proc) not in self.procs]
        return Wanted(want.host, want.what, {**want.args, "procs": procs}) if procs else None


NEVER = _Asked(-1e9, frozenset())


class Looks:
    """``facts`` that have come wait, host by host, until the host's next sample takes them along."""

    def __init__(self, ask: Ask, spawn: Callable[[Any, str], None]) -> None:
        self._ask, self._spawn = ask, spawn
        self._answers: dict[str, Answers] = {}
        self._asked: dict[tuple[str, str], _Asked] = {}
        self._open: dict[tuple[str, str], Wanted] = {}
        """What is wanted and not asked for yet, by host and kind."""
        self._facts: dict[str, list[Fact]] = {}

    def want(self, wanted: Iterable[Wanted], now: float) -> None:
        """Ask for what is due; what several launches of a host want is asked for once. Launches are judged in turns:
        what is not due yet waits, so that none is passed over for coming between two looks."""
        for want in wanted:
            key = (want.host, want.what)
            want = self._asked.get(key, NEVER).unanswered(want, now)
            if want is not None:
                before = self._open.get(key)
                self._open[key] = want if before is None else _merged(before, want)
        for key, want in list(self._open.items()):
            if now - self._asked.get(key, NEVER).t >= LOOK_EVERY_S:
                del self._open[key]
                first, left = _split(want)
                if left is not None:
                    self._open[key] = left
                self._asked[key] = _Asked(now, frozenset(map(str, first.args.get("procs", ()))))
                self._spawn(self._fetch(first), f"look {want.what}")

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


def _merged(before: Wanted, want: Wanted) -> Wanted:
    """One look for both: the processes and groups of both, as far back as either asks."""
    args = {**want.args, **before.args}
    for key in ("procs", "left"):
        both = [*before.args.get(key, ()), *want.args.get(key, ())]
        if both:
            args[key] = list({str(item): item for item in both}.values())
    since_s = [float(w.args["since_s"]) for w in (before, want) if "since_s" in w.args]
    if since_s:
        args["since_s"] = max(since_s)
    return Wanted(want.host, want.what, args)


def _split(want: Wanted) -> tuple[Wanted, Wanted | None]:
    """What one look may ask for, and the processes that are left for the next."""
    procs = want.args.get("procs", ())
    if len(procs) <= MOST_PROCS:
        return want, None
    first, rest = ({**want.args, "procs": part} for part in (procs[:MOST_PROCS], procs[MOST_PROCS:]))
    return Wanted(want.host, want.what, first), Wanted(want.host, want.what, rest)
