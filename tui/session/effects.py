"""What SIGABRT would do to processes, as they are at this moment with all their threads: asked of the agents."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from tui.collect import decode
from tui.collect.host import Host
from tui.errors import HostError
from tui.model import Member

LOOK_S = 5.0


async def effects_on(hosts: Mapping[str, Host], members: Sequence[Member]) -> dict[Member, str]:
    """By process a key of :data:`tui.stacks.sigabrt.SENTENCES`; ``""`` where that cannot be told."""
    names = list(dict.fromkeys(m.host for m in members))
    answers = dict(zip(names, await asyncio.gather(*(_ask(hosts.get(n), n, members) for n in names)), strict=True))
    return {m: str(answers[m.host].get(str(m.pid)) or "") for m in members}


async def _ask(host: Host | None, name: str, members: Sequence[Member]) -> Mapping[str, object]:
    if host is None:
        return {}
    procs = [[m.pid, m.start_ticks] for m in members if m.host == name]
    try:
        answer = await host.request("look", what="sigabrt", procs=procs, timeout=LOOK_S)
    except HostError:
        return {}
    return decode.mapped(answer.get("effects"))
