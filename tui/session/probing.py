"""What a launch keeps about itself: NCCL's RAS, polled twice, and PyTorch's flight recorder. Neither pauses it."""

from __future__ import annotations

import asyncio
import base64
import binascii
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tui.collect import decode
from tui.collect.host import Host
from tui.errors import HostError
from tui.model import Member, Raw
from tui.session.taking import Rung, Taking
from tui.stacks import desync, flight, ras
from tui.stacks.called import Called

RAS_S = 28.0
RECORDER_S = 40.0
POLLS_APART_S = 2.0
"""A running launch is uneven at any moment; what has not moved after two seconds stands."""

MOST_BYTES = 128 << 20


class RasPolls:
    """Two polls of NCCL's RAS for a launch over any number of hosts. It tells of the whole job wherever it is asked, so
    the first host that answers is enough; the others wait for it."""

    def __init__(self, taking: Taking) -> None:
        self._taking = taking
        self._turn = asyncio.Lock()
        self.answers: list[tuple[ras.Answer, float]] = []
        """With the monitor's wall time at which each came."""

    async def poll(self, host: Host, members: Sequence[Member]) -> None:
        """Ask through the processes of one host, unless another has answered already. Never raises for a host."""
        async with self._turn:
            if self.answers or not members:
                return
            try:
                first = await self._ask(host, members, "NCCL RAS")
                if first:
                    await asyncio.sleep(POLLS_APART_S)
                    await self._ask(host, members, "NCCL RAS again")
            except HostError as error:
                self._taking.note(f"NCCL RAS: {error}")

    async def _ask(self, host: Host, members: Sequence[Member], method: str) -> bool:
        procs = [[m.pid, m.start_ticks] for m in members]
        began = time.monotonic()
        answer = await host.request("ras", timeout=RAS_S, procs=procs)
        rows = [decode.mapped(row) for row in decode.listed(answer.get("asked"))]
        if not rows:
            return False  # no process of it has a RAS: no step was taken
        with self._taking.step(host.name, method, len(rows), began) as rung:
            for row in rows:
                self._read(rung, host, members, row)
        return bool(self.answers)

    def _read(self, rung: Rung, host: Host, members: Sequence[Member], row: Mapping[str, Any]) -> None:
        address = str(row.get("address") or "")
        pid = next(iter(map(decode.integer, decode.listed(row.get("pids")))), None) or 0
        said = row.get("error")
        try:
            if said:
                raise ras.BadAnswer(str(said))
            data = unpacked(row.get("data"))
            parsed = ras.parse(data.decode("utf-8", "replace"))
        except (ras.BadAnswer, ValueError) as error:
            rung.failed(pid, str(error))
            self._taking.note(f"NCCL RAS on {host.name}: {error}")
            return
        rung.answered()
        self.answers.append((parsed, time.time()))
        self._taking.raw.append(Raw("nccl_ras", host.name, pid, None, address, time.time(), data))
        self._taking.note(
            f"NCCL RAS on {host.name} at {address}: NCCL {parsed.version}, {len(parsed.comms)} communicators"
        )

    def called(self, seats: Sequence[ras.Seat]) -> Called | None:
        """What the ranks have launched; ``None`` where no RAS answered."""
        if not self.answers:
            return None
        (first, at), (second, then) = self.answers[0], self.answers[-1]
        return ras.called(first, second, seats, then - at) if then > at else ras.called(first, None, seats)


class Records:
    """The flight records of a launch's ranks."""

    def __init__(self, taking: Taking) -> None:
        self._taking = taking
        self._records: dict[int, flight.FlightRecord] = {}

    async def take(self, host: Host, members: Sequence[Member]) -> None:
        """Ask the ranks of one host, where their environment names a pipe. Never raises for a host."""
        ranks = {m.pid: m for m in members if m.rank is not None}
        if not ranks:
            return
        said: list[Mapping[str, Any]] = []
        began = time.monotonic()
        try:
            procs = [[m.pid, m.start_ticks, m.rank] for m in ranks.values()]
            async for answer in host.answers("recorder", timeout=RECORDER_S, procs=procs):
                said.append(answer)  # noqa: PERF401 (what came before a failure counts)
        except HostError as error:
            self._taking.note(f"flight recorder: {error}")
        answers = [answer for answer in said if answer.get("data") or answer.get("error")]
        if not answers:
            return  # none of them has one: no step was taken
        with self._taking.step(host.name, "flight recorder", len(ranks), began) as rung:
            for answer in answers:
                member = ranks.get(decode.integer(answer.get("pid")) or 0)
                if member is not None:
                    await self._read(rung, member, answer)

    async def _read(self, rung: Rung, member: Member, answer: Mapping[str, Any]) -> None:
        path = str(answer.get("path") or "")
        try:
            if answer.get("error"):
                raise flight.BadRecord(str(answer["error"]))
            data = unpacked(answer.get("data"))
            record = await asyncio.to_thread(flight.load, data)
        except (flight.BadRecord, ValueError) as error:
            rung.failed(member.pid, str(error))
            self._taking.note(f"flight recorder: rank {member.rank} (pid {member.pid} on {member.host}): {error}")
            return
        rung.answered()
        assert member.rank is not None
        mtime = decode.number(answer.get("mtime")) or time.time()
        self._records[member.rank] = replace(record, taken_wall=mtime)
        self._taking.raw.append(Raw("flight_record", member.host, member.pid, member.rank, path, mtime, data))
        self._taking.note(f"flight recorder: rank {member.rank} (pid {member.pid} on {member.host}): {path}")

    def called(self) -> Called | None:
        """What the ranks have enqueued; ``None`` where there is no record."""
        return desync.called(self._records) if self._records else None


def unpacked(value: object) -> bytes:
    """What the agent packed (base64 of zlib). Raises: ValueError."""
    try:
        stream = zlib.decompressobj()
        data = stream.decompress(base64.b64decode(value if isinstance(value, str) else ""), MOST_BYTES)
    except (binascii.Error, zlib.error) as error:
        raise ValueError("what came was garbled on the way") from error
    if not stream.eof:
        raise ValueError("what came was too long, or cut on the way")
    return data
