"""What is known of one host's processes, kept up with its samples, and the parts of launches among them.

Pure and incremental: only what is new is looked at, and parts are made again only where something about them changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tui.model import Identity, Sample
from tui.session.frameworks import is_python, recognise
from tui.session.parts import Part, make_parts
from tui.session.tree import Process, ProcessTree, ProcKey


class HostProcesses:
    """One host's processes. Ended ones are kept as long as they are members of a launch.

    ``pids`` and ``ports`` are asked for by name: such a process is part of a launch whatever it looks like.
    """

    def __init__(self, host: str, pids: Iterable[int] = (), ports: Iterable[int] = ()) -> None:
        self.host = host
        self.parts: list[Part] = []
        self.booted_wall = 0.0
        """Unix time at which ``start_ticks`` is zero, by the first sample of this boot."""
        self._boot_id: str | None = None
        self._tree = ProcessTree()
        self._gpu_pids: frozenset[int] = frozenset()
        self._pids = frozenset(pids)
        self._ports = frozenset(ports)
        self._members: set[ProcKey] = set()

    def feed(self, sample: Sample) -> bool:
        """Take in what is new and gone; true where the parts were made again."""
        changed = self._note_boot(sample)
        if self._is_full_list(sample.new):
            changed |= self._end(set(self._tree.table) - {(i.pid, i.start_ticks) for i in sample.new})
        fresh = [Process(identity, recognise(identity)) for identity in map(self._as_known, sample.new)]
        for process in fresh:
            self._tree.put(process)
        changed |= any(self._matters(process) for process in fresh)
        changed |= self._end(sample.gone)
        changed |= self._take_gpu_pids(sample)
        if changed:
            self._make_parts()
        return changed

    def alive(self, key: ProcKey) -> bool:
        process = self._tree.table.get(key)
        return process is not None and not process.ended

    def forget(self, keys: Iterable[ProcKey]) -> None:
        """Drop ended members: an earlier attempt, or a launch of long ago."""
        for key in keys:
            process = self._tree.table.get(key)
            if process is not None and process.ended:
                self._tree.drop(key)
        self._make_parts()

    def nearest_member(self, pid: int) -> ProcKey | None:
        """The member that is ``pid`` or the closest one above it."""
        process = self._tree.with_pid(pid)
        if process is None:
            return None
        chain = (process, *self._tree.ancestors(process))
        return next((above.key for above in chain if above.key in self._members), None)

    def _as_known(self, identity: Identity) -> Identity:
        """A zombie reads as a process without command line, files or parent's environment: it stays what it was."""
        known = self._tree.table.get((identity.pid, identity.start_ticks))
        return known.identity if known is not None and known.identity.cmdline and not identity.cmdline else identity

    def _note_boot(self, sample: Sample) -> bool:
        """After a reboot nothing of before runs any more."""
        if self._boot_id == sample.boot_id:
            return False
        rebooted = self._boot_id is not None and self._end(self._tree.table)
        self._boot_id, self.booted_wall = sample.boot_id, sample.wall - sample.mono
        return rebooted

    def _is_full_list(self, new: Sequence[Identity]) -> bool:
        """A new agent announces everything again; one that goes on announces a process again only for a new title."""
        again = 0
        for identity in new:
            known = self._tree.table.get((identity.pid, identity.start_ticks))
            again += known is not None and not known.ended and known.identity.cmdline == identity.cmdline
        return again > 0 and 2 * again >= sum(1 for process in self._tree.table.values() if not process.ended)

    def _matters(self, process: Process) -> bool:
        identity = process.identity
        if process.trait is not None or process.key in self._members:
            return True
        if identity.pid in self._gpu_pids | self._pids or self._ports.intersection(identity.listens):
            return True
        parent = self._tree.parent(process)
        return parent is not None and parent.key in self._members and is_python(identity)

    def _end(self, keys: Iterable[ProcKey]) -> bool:
        """Ended members stay, marked; others are forgotten. True where a member ended."""
        changed = False
        for key in list(keys):
            process = self._tree.table.get((key[0], key[1]))
            if process is None or process.ended:
                continue
            if process.key in self._members:
                process.ended = changed = True
            else:
                self._tree.drop(process.key)
        return changed

    def _take_gpu_pids(self, sample: Sample) -> bool:
        """What NVML lists; true where it lists a process that belongs to nothing yet."""
        if sample.gpus is None:
            return False
        pids = frozenset(process.pid for gpu in sample.gpus for process in gpu.processes or ())
        added, self._gpu_pids = pids - self._gpu_pids, pids
        found = [process for pid in added if (process := self._tree.with_pid(pid)) is not None]
        return any(process.key not in self._members for process in found)

    def _make_parts(self) -> None:
        listening = (
            process.identity.pid
            for process in self._tree.table.values()
            if self._ports.intersection(process.identity.listens)
        )
        asked_for = self._pids.union(listening) if self._ports else self._pids
        self.parts = make_parts(self.host, self._tree, self._gpu_pids, asked_for)
        self._members = {key for part in self.parts for key in part.members}
