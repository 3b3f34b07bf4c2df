"""Finding launches: which processes on which hosts belong to one job, its ranks, its logs and ports, its attempts.

Pure and incremental: it is fed samples, asks nothing and keeps no clock. What a process is by itself stands in
:mod:`tui.session.frameworks`, what belongs together on one host in :mod:`tui.session.processes`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tui.model import Launch, LogRef, Member, Sample
from tui.session.logs import find_logs
from tui.session.parts import Part
from tui.session.processes import HostProcesses
from tui.session.tree import ProcKey

MAX_ENDED = 32
"""Launches that stay listed after all of their processes ended."""

GLOB = frozenset("*?[")

USER_HZ = 100
"""Clock ticks a second of ``start_ticks``: 100 on every Linux architecture that carries these GPUs."""

HostKey = tuple[str, int, int]
"""``(host, pid, start_ticks)``: a process among all hosts."""


@dataclass(slots=True)
class _Record:
    """A launch as it is remembered: ``parts`` are what its hosts hold of it now, ``members`` what they held last."""

    id: str
    key: str
    parts: list[Part] = field(default_factory=list[Part])
    members: set[HostKey] = field(default_factory=set[HostKey])
    attempt: int = 1


class Discovery:
    """The launches among the processes of all hosts.

    ``pids`` and ``ports`` (from the command line; host ``None`` is every host) leave only the launches that they
    belong to, and make one of a process that nothing else would tell. ``logs`` stand in for what was found on their
    host; where no process tells of a launch there, the log is one by itself.
    """

    def __init__(
        self,
        *,
        pids: Sequence[tuple[str | None, int]] = (),
        logs: Sequence[tuple[str | None, str]] = (),
        ports: Sequence[int] = (),
    ) -> None:
        self._pids = tuple(pids)
        self._logs = tuple(logs)
        self._newest: dict[tuple[str, str], str] = {}
        self._ports = frozenset(ports)
        self._hosts: dict[str, HostProcesses] = {}
        self._records: list[_Record] = []
        self._launches: tuple[Launch, ...] = ()

    def feed(self, sample: Sample) -> bool:
        """Take a sample in; true where the launches changed. Samples of one host come in their order."""
        host = self._hosts.get(sample.host)
        first = host is None
        if host is None:
            forced = [pid for name, pid in self._pids if name in (None, sample.host)]
            host = self._hosts[sample.host] = HostProcesses(sample.host, forced, self._ports)
        if not host.feed(sample) and not first:
            return False
        self._regroup()
        before, self._launches = self._launches, self._listed()
        return before != self._launches

    def patterns(self, host: str) -> tuple[str, ...]:
        """The logs asked for on a host that are patterns: which file is the newest must be looked up there."""
        return tuple(p for name, p in self._logs if name in (None, host) and not GLOB.isdisjoint(p))

    def use_newest(self, host: str, pattern: str, path: str) -> None:
        """On this host, ``path`` is now the newest file that matches the pattern."""
        self._newest[host, pattern] = path
        self._launches = self._listed()

    def launches(self) -> tuple[Launch, ...]:
        """All launches in the order they were found; those whose processes all ended stay listed."""
        return self._launches

    def focus(self, host: str) -> list[ProcKey]:
        """The running processes (pid, start_ticks) of the listed launches on a host: what its agent reads each tick."""
        table = self._hosts.get(host)
        if table is None:
            return []
        members = {(m.pid, m.start_ticks) for launch in self._launches for m in launch.members if m.host == host}
        return sorted(key for key in members if table.alive(key))

    # --------------------------------------------------------------------------------------------------- remembering

    def _regroup(self) -> None:
        """Match the parts that stand on the hosts now with the launches that are remembered."""
        for _ in range(len(self._records) + 2):
            self._assign()
            if not self._drop_earlier_attempts():
                break
        for record in self._records:
            record.members = {key for part in record.parts for key in _keys(part)}
        self._forget_oldest()

    def _assign(self) -> None:
        for record in self._records:
            record.parts = []
        for group in _groups(part for host in self._hosts.values() for part in host.parts):
            record = self._same(group) or self._ended_before(group) or self._new(group)
            record.parts += group
        self._records = [record for record in self._records if record.parts]

    def _same(self, group: list[Part]) -> _Record | None:
        """The launch that some of these processes are known to belong to. Two may turn out to be one."""
        keys = {key for part in group for key in _keys(part)}
        found = [record for record in self._records if not keys.isdisjoint(record.members)]
        for other in found[1:]:
            found[0].parts += other.parts
            found[0].members |= other.members
            self._records.remove(other)
        return found[0] if found else None

    def _ended_before(self, group: list[Part]) -> _Record | None:
        """A launch with the same command of which nothing runs any more: this is its next attempt."""
        key = _key(group)
        return next((record for record in self._records if record.key == key and not self._runs(record)), None)

    def _new(self, group: list[Part]) -> _Record:
        """Ids come from what is started and where, so that a monitor that is started again finds the same."""
        key = _key(group)
        stem = f"{group[0].framework or 'gpu'}-{hashlib.sha1(key.encode('utf-8', 'replace')).hexdigest()[:8]}"
        taken = {record.id for record in self._records}
        names = (stem, *(f"{stem}-{n}" for n in range(2, len(taken) + 3)))
        record = _Record(next(name for name in names if name not in taken), key)
        self._records.append(record)
        return record

    def _drop_earlier_attempts(self) -> bool:
        """Where a running process stands in an ended one's place, all that ended was an earlier attempt."""
        dropped = False
        for record in self._records:
            members = [member for part in record.parts for member in part.members.values()]
            ended = [member for member in members if not self._alive(_host_key(member))]
            running = {_place(member) for member in members if self._alive(_host_key(member))} - {None}
            if any(_place(member) in running for member in ended):
                record.attempt += 1
                record.members = {_host_key(member) for member in members}
                self._forget(map(_host_key, ended))
                dropped = True
        return dropped

    def _forget(self, keys: Iterable[HostKey]) -> None:
        by_host: dict[str, list[ProcKey]] = {}
        for host, pid, ticks in keys:
            by_host.setdefault(host, []).append((pid, ticks))
        for host, gone in by_host.items():
            self._hosts[host].forget(gone)

    def _forget_oldest(self) -> None:
        ended = [record for record in self._records if not self._runs(record)]
        for record in ended[: max(0, len(ended) - MAX_ENDED)]:
            self._records.remove(record)
            self._forget(record.members)

    def _runs(self, record: _Record) -> bool:
        keys = (key for part in record.parts for key in _keys(part))
        return any(map(self._alive, record.members)) or any(map(self._alive, keys))

    def _alive(self, key: HostKey) -> bool:
        return self._hosts[key[0]].alive(key[1:])

    # -------------------------------------------------------------------------------------------------------- listing

    def _listed(self) -> tuple[Launch, ...]:
        chosen = [record for record in self._records if self._is_chosen(record)]
        launches = [self._launch(record) for record in chosen]
        for host, path in self._logs:
            for name in self._hosts if host is None else [host] if host in self._hosts else []:
                _put_log(launches, name, self._newest.get((name, path), path))
        return tuple(launches)

    def _is_chosen(self, record: _Record) -> bool:
        if not self._pids and not self._ports:
            return True
        if any(self._ports.intersection(_ports(part)) for part in record.parts):
            return True
        for name, pid in self._pids:
            for host in self._hosts.values() if name is None else [self._hosts[name]] if name in self._hosts else []:
                key = host.nearest_member(pid)
                if key is not None and (host.host, *key) in record.members:
                    return True
        return False

    def _launch(self, record: _Record) -> Launch:
        parts = record.parts
        first = min(parts, key=lambda part: (part.framework is None, part.root.identity.start_ticks))
        members = [member for part in parts for member in part.members.values()]
        return Launch(
            id=record.id,
            name=" ".join(dict.fromkeys(word for word in (first.framework or "", first.subject) if word)) or "gpu",
            hosts=tuple(dict.fromkeys(part.host for part in parts)),
            framework=first.framework,
            command=first.root.identity.title,
            members=tuple(sorted(members, key=_member_order)),
            logs=tuple(find_logs(parts)),
            ports=tuple(dict.fromkeys(port for part in parts for port in _ports(part))),
            world_size=_world_size(parts, members),
            attempt=record.attempt,
            started_wall=min(self._started(host, ticks) for host, _, ticks in record.members),
        )

    def _started(self, host: str, start_ticks: int) -> float:
        return self._hosts[host].booted_wall + start_ticks / USER_HZ


# ------------------------------------------------------------------------------------------------------------- helpers


def _keys(part: Part) -> Iterator[HostKey]:
    return ((part.host, *key) for key in part.members)


def _host_key(member: Member) -> HostKey:
    return (member.host, member.pid, member.start_ticks)


def _join(part: Part) -> tuple[str, ...] | None:
    """Where the processes of a job meet; loopback is another place on each host."""
    if part.join is None:
        return None
    local = part.join.startswith(("127.", "localhost", "::1", "[::1]", "0.0.0.0"))
    return (part.framework or "", part.join, part.host if local else "")


def _groups(parts: Iterable[Part]) -> list[list[Part]]:
    """Parts that meet at one place are of one launch; every other part is one by itself."""
    joined: dict[object, list[Part]] = {}
    for part in parts:
        joined.setdefault(_join(part) or (part.host, part.root.key), []).append(part)
    return list(joined.values())


def _key(group: list[Part]) -> str:
    """What is started and where: the same for the next attempt."""
    part = group[0]
    identity = part.root.identity
    where = _join(part) or (part.host, identity.cwd, identity.title)
    return "\0".join((part.framework or "", part.subject, *where))


def _place(member: Member) -> object:
    """What only one running process of a launch can be; ``None`` for a process among many."""
    if member.rank is not None:
        return member.rank
    return (member.host, member.role, member.title) if member.role in ("driver", "launcher") else None


def _world_size(parts: Iterable[Part], members: Iterable[Member]) -> int | None:
    """What arguments and environment say, and never less than the ranks that are there."""
    stated = [part.world for part in parts if part.world is not None]
    seen = [member.rank + 1 for member in members if member.rank is not None]
    return max(stated + seen) if stated else None


def _member_order(member: Member) -> tuple[bool, int, str, int]:
    return (member.rank is None, member.rank or 0, member.host, member.pid)


def _ports(part: Part) -> list[int]:
    """The port that the arguments name, then those on which the processes that own the launch listen."""
    owners = [k for k, member in part.members.items() if member.role in ("driver", "api") or k == part.root.key]
    listens = (port for key in owners for port in part.identities[key].listens)
    return [*([part.port] if part.port else []), *listens]


def _put_log(launches: list[Launch], host: str, path: str) -> None:
    """Follow this log in place of what was found: for the launch that writes it, else the newest one on its host."""
    ref = LogRef(host, path, "option")
    here = [n for n, launch in enumerate(launches) if host in launch.hosts]
    if not here:
        digest = hashlib.sha1(f"{host}\0{path}".encode("utf-8", "replace")).hexdigest()[:8]
        launches.append(Launch(f"log-{digest}", path.rsplit("/", 1)[-1], (host,), logs=(ref,)))
        return
    writes = [n for n in here if any((r.host, r.path) == (host, path) for r in launches[n].logs)]
    at = (writes or [max(here, key=lambda n: launches[n].started_wall or 0.0)])[0]
    others = tuple(r for r in launches[at].logs if r.host != host or r.found == "option")
    launches[at] = replace(launches[at], logs=(ref, *others))
