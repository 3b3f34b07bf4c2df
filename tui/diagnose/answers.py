"""What hosts answer to looks, as facts of the names and shapes that recordings hold: rules and replays know one form.

Each answer also leaves a fact of the look's own name, with the ``pids`` that were looked at: what was looked at and not
found is known not to be there. Counters become rates between two looks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, cast

from tui.diagnose.lock_owner import owner_alive
from tui.model import Fact
from tui.safetext import clean
from tui.untyped import mapped, number

MOST_LOCKS = 8
RATE_WINDOW_S = (2.0, 150.0)
"""Two looks this far apart give a rate, in seconds: over a longer time it says nothing of now."""

PAGE_MB = 4096 / 1e6
LINES_KEPT = 512

Earlier: TypeAlias = tuple[float, Mapping[str, Any]]
"""When a row was seen before, and that row."""


class Answers:
    """One host's answers in their order. ``facts`` never raises: what is missing or wrong in an answer is left out."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, str], Earlier] = {}
        self._first_kills: dict[str, float] = {}
        self._said: dict[tuple[str, int], None] = {}

    def facts(self, what: str, answer: Mapping[str, Any], t: float) -> list[Fact]:
        """The facts that ``answer`` to the look ``what`` holds; ``t`` is when it came, on the monitor's timeline."""
        if what == "threads":
            return [Fact(t, what, dict(answer))]
        read = {"locks": self._locks, "surroundings": self._surroundings, "kernel_log": self._kernel_log}.get(what)
        found = list(read(answer, t)) if read is not None and not answer.get("error") else []
        kept = dict(answer) if what in ("holdups", "sockets", "infiniband") else {}
        if what == "surroundings":
            kept["groups"] = [[_folders(row), _pids(row.get("pids"))] for row in _rows(answer.get("groups"))]
        if what == "sockets":
            kept["rates"] = self._received(answer, t)
        if what == "infiniband":
            kept["rates"] = self._link_rates(answer, t)
        said = {key: answer[key] for key in ("error", "readable", "why", "pressure") if key in answer}
        return [*found, Fact(t, what, {**kept, **said, "pids": _pids(answer.get("looked"))})]

    # ---------------------------------------------------------------------------------------------------------- locks

    def _locks(self, answer: Mapping[str, Any], t: float) -> Iterator[Fact]:
        for row in _rows(answer.get("locks"))[:MOST_LOCKS]:
            path = clean(str(row.get("path", "")), 512)
            value: dict[str, Any] = {
                "lock_file": path,
                "lock_age_s": number(row.get("age_s")),
                "lock_owner_pid_alive": owner_alive(row, answer),
                "lock_kind": _word(row.get("kind")),
                "lock_owner_pid": _pid(row.get("owner")),
                "lock_owner_comm": _word(row.get("owner_comm")),
                "lock_owner_state": _word(row.get("owner_state")),
                "lock_owner_cpu_pct": self._burns(path, row, t),
                "lock_waiters": _pids(row.get("waiters")),
                "pids": _pids(row.get("concerns")),
            }
            yield Fact(t, "lock_file", value)

    def _burns(self, path: str, row: Mapping[str, Any], t: float) -> float | None:
        """Of a core, by the lock's owner and its descendants; an owner that is another one now starts anew."""
        before = self._exchange("owner", f"{path}:{row.get('owner')}", row, t)
        return None if before is None else _rate(row, before, "owner_cpu_s", t, 100.0)

    # --------------------------------------------------------------------------------------------------- surroundings

    def _surroundings(self, answer: Mapping[str, Any], t: float) -> Iterator[Fact]:
        for row in _rows(answer.get("shm")):
            free, total = number(row.get("free")), number(row.get("total"))
            if free is not None and total:
                mib = {"shm_free_mib": round(free / 2**20, 1), "shm_total_mib": round(total / 2**20, 1)}
                yield Fact(t, "shm_free_mib", {**mib, "pids": _pids(row.get("pids"))})
        for row in _rows(answer.get("groups")):
            yield from self._group(row, t)

    def _group(self, row: Mapping[str, Any], t: float) -> Iterator[Fact]:
        pids, path = _pids(row.get("pids")), " ".join(_folders(row))
        kills = number(row.get("oom_kills"))
        if kills is not None:
            fresh = kills - self._first_kills.setdefault(path, kills)
            yield Fact(t, "cgroup_oom_kill", {"cgroup_oom_kill": max(0.0, fresh), "pids": pids})
        before = self._exchange("group", path, row, t)
        if before is None:
            return
        periods, throttled = _gained(row, before[1], "periods"), _gained(row, before[1], "throttled")
        if number(row.get("quota_cores")) is not None and periods is not None and throttled is not None:
            share = round(100.0 * throttled / periods, 1) if periods > 0 else 0.0
            quota = {"cgroup_cpu_quota_cores": number(row.get("quota_cores"))}
            yield Fact(t, "cgroup_throttled_pct", {"cgroup_throttled_pct": share, **quota, "pids": pids})
        back = _rate(row, before, "refaults", t, PAGE_MB)
        limit, used = number(row.get("memory_max")), number(row.get("memory_used"))
        if back is not None:
            memory = {"cgroup_memory_limit_gib": None if limit is None else round(limit / 2**30, 2),
                      "cgroup_memory_used_gib": None if used is None else round(used / 2**30, 2)}  # fmt: skip
            yield Fact(t, "cgroup_refault_mbps", {"cgroup_refault_mbps": float(int(back)), **memory, "pids": pids})

    # ----------------------------------------------------------------------------------------------------- kernel log

    def _kernel_log(self, answer: Mapping[str, Any], t: float) -> Iterator[Fact]:
        """Each line once, at the time at which the kernel said it."""
        for row in _rows(answer.get("lines")):
            age_s, said = number(row.get("age_s")), clean(str(row.get("text", "")), 400)
            if age_s is None or not said:
                continue
            at = t - age_s
            if any((said, int(at) + near) in self._said for near in (-2, -1, 0, 1, 2)):
                continue
            self._said[said, int(at)] = None
            if len(self._said) > LINES_KEPT:
                del self._said[next(iter(self._said))]
            yield Fact(at, "kernel_line", said)

    # ----------------------------------------------------------------------------------------------------- infiniband

    def _link_rates(self, answer: Mapping[str, Any], t: float) -> dict[str, float]:
        """MB/s through each port in both directions, by ``device:port``."""
        found: dict[str, float] = {}
        for row in _rows(answer.get("ports")):
            name = clean(f"{row.get('device')}:{row.get('port')}", 64)
            before = self._exchange("port", name, row, t)
            rates = [_rate(row, before, key, t, 1e-6) for key in ("rx_bytes", "tx_bytes")] if before is not None else []
            known = [rate for rate in rates if rate is not None]
            if known:
                found[name] = round(sum(known), 1)
        return found

    def _received(self, answer: Mapping[str, Any], t: float) -> dict[str, float]:
        """Bytes a second that each process received over TCP between two looks, by pid; a connection that is new since
        then counts with all that it brought."""
        found: dict[str, float] = {}
        for pid, row in mapped(answer.get("sockets")).items():
            counts = {inode: number(count) or 0.0 for inode, count in mapped(mapped(row).get("received")).items()}
            before = self._exchange("received", pid, counts, t)
            if before is not None:
                gained = sum(max(0.0, count - (number(before[1].get(inode)) or 0.0)) for inode, count in counts.items())
                found[pid] = round(gained / (t - before[0]), 1)
        return found

    def _exchange(
        self, kind: str, name: str, row: Mapping[str, Any], t: float
    ) -> tuple[float, Mapping[str, Any]] | None:
        """What the look before showed, if it was not too long ago; this one is kept for the next."""
        before = self._before.get((kind, name))
        low, high = RATE_WINDOW_S
        if before is not None and t - before[0] < low:
            return None
        self._before[kind, name] = (t, row)
        if len(self._before) > LINES_KEPT:
            del self._before[next(iter(self._before))]
        return before if before is not None and t - before[0] <= high else None


def _gained(row: Mapping[str, Any], before: Mapping[str, Any], key: str) -> float | None:
    now, then = number(row.get(key)), number(before.get(key))
    return now - then if now is not None and then is not None and now >= then else None


def _rate(
    row: Mapping[str, Any], before: tuple[float, Mapping[str, Any]], key: str, t: float, unit: float
) -> float | None:
    gained = _gained(row, before[1], key)
    return None if gained is None else round(unit * gained / (t - before[0]), 2)


def _rows(value: object) -> list[Mapping[str, Any]]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("Mapping[str, Any]", item) for item in items[:256] if isinstance(item, dict)]


def _pids(value: object) -> list[int]:
    return [item for item in cast("list[object]", value) if type(item) is int] if isinstance(value, list) else []


def _folders(row: Mapping[str, Any]) -> list[str]:
    """A group by its folders, of memory first: on a host of version 1 each controller has its own."""
    folders: object = row.get("folders")
    items = cast("list[object]", folders) if isinstance(folders, list) else []
    return [clean(item, 512) for item in items[:4] if isinstance(item, str)]


def _pid(value: object) -> int | None:
    return value if type(value) is int and value > 0 else None


def _word(value: object) -> str | None:
    return clean(value, 64) if isinstance(value, str) and value else None
