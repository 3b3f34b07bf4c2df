"""Taking the stacks of a launch, over all of its hosts at once: without harm, or by SIGABRT when nothing else is left.

What is taken without harm, and in which order, is in :mod:`tui.session.climb`. Results are shown as they come.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence

from tui.collect.host import Host
from tui.model import Dump, Launch, Member
from tui.session.aborting import HOLD_ROLES, Aborting
from tui.session.climb import PAUSES, Climb, no_stacks
from tui.session.probing import RasPolls, Records
from tui.session.taking import OnDump, Taking
from tui.stacks.evidence import speaks_for


class Capture:
    """Takes dumps of launches. ``on_dump`` gets each one again and again while it fills; ids count from 1."""

    def __init__(self, hosts: Mapping[str, Host], on_dump: OnDump) -> None:
        self._hosts = hosts
        self._on_dump = on_dump
        self._numbers = itertools.count(1)

    async def stacks(self, launch: Launch, native: bool = False) -> Dump:
        """Stacks of every member that is Python, ranks first, and what RAS and flight recorder know. Only ``native``
        pauses a target, at the very end; never raises for a host."""
        members = [*launch.ranks(), *(m for m in launch.members if m.rank is None)]
        taking = Taking(next(self._numbers), launch, "stacks", members, self._on_dump)
        polls, records = RasPolls(taking), Records(taking)
        climbs: list[Climb] = []
        if native:
            taking.note(f"native stacks will be taken last: {PAUSES}")
        try:
            steps = [self._host(taking, name, of, polls, records, climbs, native) for name, of in _by_host(members)]
            await asyncio.gather(*steps)
            seats = [seat for climb in climbs for seat in climb.seats]
            found = (records.called(), polls.called(seats))
            taking.called = tuple(called for called in found if called is not None)
            said = speaks_for(taking.peers(), called=taking.called, before=taking.before)
            return taking.finish(said.as_fact(launch.id))
        finally:
            taking.abandon()

    async def _host(
        self,
        taking: Taking,
        name: str,
        members: Sequence[Member],
        polls: RasPolls,
        records: Records,
        climbs: list[Climb],
        native: bool,
    ) -> None:
        host = self._hosts.get(name)
        if host is None:
            for member in members:
                taking.put(no_stacks(member, f"{name} is not watched."))
            return
        climb = Climb(taking, host, members, polls, records)
        climbs.append(climb)
        await climb.up(native)

    async def abort(self, launch: Launch, known: Dump | None) -> Dump:
        """SIGABRT to all ranks on all hosts at once, and what they print. Stacks are taken without harm first unless
        ``known`` has them: they tell whose a printed stack is, and remain where nothing is printed."""
        if known is None or not any(t.thread_id for p in known.processes for t in p.threads):
            known = await self.stacks(launch)
        ranks = launch.ranks() or [m for m in launch.members if m.role not in HOLD_ROLES] or launch.members
        taking = Taking(next(self._numbers), launch, "abort", ranks, self._on_dump)
        try:
            await Aborting(self._hosts, taking, launch, ranks, known).run()
            return taking.finish()
        finally:
            taking.abandon()


def _by_host(members: Sequence[Member]) -> list[tuple[str, list[Member]]]:
    hosts: dict[str, list[Member]] = {}
    for member in members:
        hosts.setdefault(member.host, []).append(member)
    return list(hosts.items())
