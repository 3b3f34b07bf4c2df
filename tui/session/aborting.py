"""SIGABRT to all ranks of a launch, and finding again what each of them prints.

Never a lone rank: its siblings die within 0.2 s of its death and take their evidence along. So all hosts are asked at
once, and on each the agent stops the supervisors, which would kill the rest, and lets one rank go after another. What
they print comes with the agent's answer; what arrives later, through a pipe, is read from the launch's logs and from
where their standard error leads, from the size that the file had before.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import glob
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tui.collect import decode
from tui.collect.host import Host
from tui.errors import HostError
from tui.model import Dump, Launch, Member, ProcessStacks, ThreadStack
from tui.session.taking import Rung, Taking
from tui.stacks.attribute import attribute
from tui.stacks.explain import abort_result
from tui.stacks.faulthandler import FaultDump, parse
from tui.stacks.sigabrt import HOLD_ROLES, SENTENCES

ABORT_S = 40.0
"""For all ranks of a host; the agent lets its supervisors go after 15 s, whatever happens."""

READ_BYTES = 1 << 20
MOST_BYTES = 64 << 20
LATE_S = 3.0
"""A dump through a pipe (tee, a container's log) arrives a little after its process has died."""

Owner = tuple[str, int]
"""Host and pid."""


@dataclass(slots=True)
class _Tail:
    """A file that may get dumps, from ``offset`` on."""

    host: Host
    path: str
    offset: int
    data: bytearray = field(default_factory=bytearray)

    async def read(self) -> None:
        """Take in what has been added. Raises: HostError."""
        while len(self.data) < MOST_BYTES:
            at = self.offset + len(self.data)
            answer = await self.host.request(
                "look", what="read", path=self.host.names.there(self.path), offset=at, limit=READ_BYTES
            )
            piece = _decoded(answer.get("data"))
            self.data += piece
            if len(piece) < READ_BYTES:
                return


class Aborting:
    """One abort; ``known`` are stacks taken before."""

    def __init__(
        self, hosts: Mapping[str, Host], taking: Taking, launch: Launch, ranks: Sequence[Member], known: Dump
    ) -> None:
        self._hosts, self._taking, self._launch, self._ranks = hosts, taking, launch, ranks
        self._known: dict[Owner, tuple[ThreadStack, ...]] = {
            (p.host, p.pid): p.threads for p in known.processes if p.pid is not None
        }
        self._tails: dict[tuple[str, str], _Tail] = {}
        self._stderr: dict[Owner, str] = {}
        self._result: dict[Owner, str] = {}
        self._found: dict[Owner, FaultDump] = {}

    async def run(self) -> None:
        names = list(dict.fromkeys(m.host for m in self._ranks))
        await asyncio.gather(*(self._mark_logs(name) for name in names))
        await asyncio.gather(*(self._signal(name) for name in names))
        deadline = time.monotonic() + LATE_S
        while self._awaited() and time.monotonic() < deadline:
            await asyncio.gather(*(self._read(tail) for tail in self._tails.values()))
            self._sort_out()
            await asyncio.sleep(0.25)
        for member in self._ranks:
            self._close(member)

    # --------------------------------------------------------------------------------------------------------- sending

    async def _mark_logs(self, name: str) -> None:
        """Remember how long the launch's logs are: a pipe's reader may write the dumps there."""
        paths = sorted({log.path for log in self._launch.logs if log.host == name})
        host = self._hosts.get(name)
        if host is None or not paths:
            return
        try:
            answer = await host.request("look", what="files", paths=[glob.escape(host.names.there(p)) for p in paths])
        except HostError as error:
            self._taking.note(f"logs of {name}: {error}")
            return
        for row in map(decode.mapped, decode.listed(answer.get("files"))):
            path, size = row.get("path"), decode.integer(row.get("size"))
            if isinstance(path, str) and size is not None:
                self._watch(host, path, size)

    async def _signal(self, name: str) -> None:
        host = self._hosts.get(name)
        targets = {m.pid: m for m in self._ranks if m.host == name}
        hold = [m for m in self._launch.members if m.host == name and m.role in HOLD_ROLES and m not in self._ranks]
        held = f", {', '.join(f'{m.role} {m.pid}' for m in hold)} held" if hold else ""
        self._taking.note(f"SIGABRT to {len(targets)} ranks on {name}{held}")
        try:
            with self._taking.step(name, "SIGABRT", len(targets)) as rung:
                if host is None:
                    raise HostError(f"{name} is not watched.")
                procs = [[m.pid, m.start_ticks] for m in targets.values()]
                holders = [[m.pid, m.start_ticks] for m in hold]
                async for answer in host.answers("abort", timeout=ABORT_S, procs=procs, hold=holders):
                    member = targets.get(decode.integer(answer.get("pid")) or 0)
                    if member is not None:
                        self._answered(rung, host, member, answer)
        except HostError as error:
            self._taking.note(str(error))
            return
        if hold:
            self._taking.note(f"let go again on {name}: {', '.join(f'{m.role} {m.pid}' for m in hold)}")

    def _answered(self, rung: Rung, host: Host, member: Member, answer: Mapping[str, Any]) -> None:
        owner = (member.host, member.pid)
        self._result[owner] = str(answer.get("result") or answer.get("error") or "")
        self._stderr[owner] = path = str(answer.get("stderr") or "")
        offset = decode.integer(answer.get("offset"))
        name = member.role if member.rank is None else f"rank {member.rank}"
        data = _decoded(answer.get("data"))
        does = SENTENCES.get(str(answer.get("effect") or ""), "does what cannot be told")
        came = f"{len(data)} bytes in {path}" if data else "nothing came yet" if path else "nothing came"
        who = f"{name} (pid {member.pid} on {member.host})"
        self._taking.note(f"{who}: SIGABRT, of which it {does}; {self._result[owner]}, {came}")
        if path.startswith("/") and offset is not None:
            self._watch(host, path, offset)
        rung.answered()
        if dumps := parse(data.decode("utf-8", "replace")):
            # The agent read it between this process's waking and its death: nobody else wrote meanwhile.
            named = attribute(dumps, {owner: self._known.get(owner, ())}).owned.get(owner)
            self._keep(member, named or dumps[-1])

    def _watch(self, host: Host, path: str, offset: int) -> None:
        tail = self._tails.setdefault((host.name, path), _Tail(host, path, offset))
        tail.offset = min(tail.offset, offset)

    # --------------------------------------------------------------------------------------------------------- reading

    async def _read(self, tail: _Tail) -> None:
        try:
            await tail.read()
        except HostError as error:
            self._taking.note(f"{tail.path} on {tail.host.name}: {error}")

    def _awaited(self) -> bool:
        return any(result == "died" and owner not in self._found for owner, result in self._result.items())

    def _sort_out(self) -> None:
        """Give every dump that was read to its process: by thread ids, by the rank in its line's prefix, or because
        only one process writes to that file."""
        targets = {(m.host, m.pid): m for m in self._ranks}
        known = {owner: self._known.get(owner, ()) for owner in targets}
        texts = {key: tail.data.decode("utf-8", "replace") for key, tail in self._tails.items()}
        dumps = {key: parse(text) for key, text in texts.items()}
        sorted_out = attribute([d for some in dumps.values() for d in some], known)
        found = dict(sorted_out.owned)
        for key, some in dumps.items():
            for dump in some:
                owner = self._by_place(key, dump, targets)
                if dump in sorted_out.strays and owner is not None:
                    found.setdefault(owner, dump)
        for owner, dump in found.items():
            if owner not in self._found or len(dump.threads) > len(self._found[owner].threads):
                self._keep(targets[owner], dump)

    def _keep(self, member: Member, dump: FaultDump) -> None:
        self._found[member.host, member.pid] = dump
        self._taking.put(self._stacks(member, dump))

    def _by_place(self, key: tuple[str, str], dump: FaultDump, targets: Mapping[Owner, Member]) -> Owner | None:
        if dump.rank is not None:
            return next((o for o, m in targets.items() if m.rank == dump.rank), None)
        writers = [o for o, path in self._stderr.items() if (o[0], path) == key]
        return writers[0] if len(writers) == 1 else None

    # --------------------------------------------------------------------------------------------------------- results

    def _stacks(self, member: Member, dump: FaultDump) -> ProcessStacks:
        remarks = [
            "only the newest 100 threads were written, the main thread is not among them." if dump.cut else "",
            "lines of several processes are mixed: a frame may be another's." if dump.torn else "",
        ]
        return ProcessStacks(
            host=member.host,
            pid=member.pid,
            rank=member.rank,
            method="faulthandler",
            threads=dump.threads,
            error=" ".join(r for r in remarks if r) or None,
            role=member.role,
            taken_wall=time.time(),
        )

    def _close(self, member: Member) -> None:
        """Say what came of a rank that left no dump; the stacks that were taken before stand in for it."""
        owner = (member.host, member.pid)
        error = abort_result(self._result.get(owner, ""), self._stderr.get(owner, ""), owner in self._found)
        if owner in self._found and error is None:
            return
        before = self._taking.get(*owner)
        if before is None:
            threads = self._known.get(owner, ())
            before = ProcessStacks(member.host, member.pid, member.rank, "py-spy", threads, role=member.role)
        self._taking.put(replace(before, error=" ".join(filter(None, (before.error, error)))))


def _decoded(data: object) -> bytes:
    try:
        return base64.b64decode(data) if isinstance(data, str) else b""
    except binascii.Error:
        return b""
