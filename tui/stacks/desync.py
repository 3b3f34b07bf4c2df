"""Flight recorders of many ranks against each other: who has not called what the others wait in.

In each process group the first collective that has not ended on some rank is the front. A member that has not called it
is whom the others wait for; a member that called something else at its number, or earlier, has left a call out or made
one too many. That it left one out its own past can tell: it called what used to come after the call that is missing. A
majority proves nothing; one rank against three or more that agree is named all the same where the past is silent, since
ranks of one group run one program. One alone in a collective that nobody else has called may be early or wrong.

A rank without a record is unknown, not absent: it is never blamed from here, and it is said where it may be the one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tui.stacks.called import BLAMES, Called, Finding
from tui.stacks.flight import Call, FlightRecord, Group
from tui.stacks.frames import ranges

SOURCE = "the flight recorder"

CONTEXT = 12
"""Calls before the one in question by which a rank's past is compared."""

PAST = 512

_SAME_SIZE = frozenset({"all_reduce", "allreduce", "broadcast", "reduce"})
"""Operations whose members must bring as many elements; the others allow uneven ones."""


@dataclass(slots=True)
class _Team:
    """A process group over the ranks whose records are there."""

    name: str
    title: str
    members: tuple[int, ...]
    told: bool
    """Whether some record names the members; else they are those that are known to have called something."""
    called: dict[int, int]
    done: dict[int, int]
    taken: dict[int, float | None]
    calls: dict[int, dict[int, tuple[Call, ...]]]

    @property
    def front(self) -> int:
        return min(self.done.values()) + 1

    @property
    def without(self) -> list[int]:
        return [r for r in self.members if r not in self.called]

    def at(self, rank: int, seq: int) -> tuple[Call, ...]:
        return self.calls[rank].get(seq, ())

    def op(self, rank: int, seq: int) -> str:
        return "+".join(dict.fromkeys(c.op for c in self.at(rank, seq)))


def called(records: Mapping[int, FlightRecord]) -> Called:
    """Compare the records; keys are global ranks. Ranks that are not among them are unknown."""
    teams = _teams(records)
    found = [finding for team in teams if (finding := _judge(team)) is not None]
    found += _pairs(records, teams)
    order = ["other_call", "other_size", "uncalled", "not_begun", "circle", "unfinished"]
    found = sorted(_roots(found, teams), key=lambda f: (not f.ranks, order.index(f.kind)))
    return Called(SOURCE, tuple(found), frozenset(records))


def _teams(records: Mapping[int, FlightRecord]) -> list[_Team]:
    own: dict[str, dict[int, Group]] = {}
    calls: dict[str, dict[int, dict[int, list[Call]]]] = {}
    for rank, record in records.items():
        for name, group in record.groups.items():
            own.setdefault(name, {})[rank] = group
        for call in record.calls:
            if not call.p2p:
                calls.setdefault(call.group, {}).setdefault(rank, {}).setdefault(call.seq, []).append(call)
    return [_team(name, groups, calls.get(name, {}), records) for name, groups in own.items()]


def _team(
    name: str,
    own: Mapping[int, Group],
    calls: Mapping[int, Mapping[int, Sequence[Call]]],
    records: Mapping[int, FlightRecord],
) -> _Team:
    titles = [group.title for group in own.values()]
    title = next((t for t in titles if t not in (name, f"group {name}")), titles[0])
    told = {m for group in own.values() for m in group.members}
    by_config = bool(told)
    if not told and (title == "default_pg" or name == "0"):
        told = set(records)
    members = tuple(sorted(told or own))
    called = {r: own[r].called if r in own else 0 for r in members if r in records}
    done = {r: own[r].done if r in own else 0 for r in called}
    mine = {r: {seq: tuple(some) for seq, some in calls.get(r, {}).items()} for r in called}
    taken = {r: records[r].taken_wall for r in called}
    return _Team(name, title, members, by_config, called, done, taken, mine)


def _judge(team: _Team) -> Finding | None:
    if not team.called:
        return None
    other = _other_call(team)
    if other is not None:
        return other
    front = team.front
    inside = [r for r, n in team.called.items() if n >= front and team.done[r] < front]
    if not inside:
        return None
    called_at = min([c.at for r in inside for c in team.at(r, front) if c.at is not None], default=None)
    late = [r for r, n in team.called.items() if n < front]
    if old := [r for r in late if called_at is not None and (team.taken[r] or called_at) < called_at]:
        says = f"the record of {_ranks(old)} is older than {_what(team, front, inside)}"
        return Finding("unfinished", team.title, (), f"{says}, which others wait in: it tells nothing of it")
    if late:
        says = _uncalled(team, front, late, inside)
        if len(inside) == 1 and len(late) > 1 and _usual(_past(team, inside[0], front)) != team.op(inside[0], front):
            says += "; either they never come, or it went in alone"
            return Finding("uncalled", team.title, (), says)
        return Finding("uncalled", team.title, tuple(late), says)
    return _other_size(team, front) or _not_begun(team, front) or _unfinished(team, front)


def _what(team: _Team, seq: int, ranks: Iterable[int]) -> str:
    """``collective 9 of default_pg (all_reduce, called in sync (train.py:49))``."""
    ranks = list(ranks)
    op = next((name for r in ranks if (name := team.op(r, seq))), "")
    places = {c.place for r in ranks for c in team.at(r, seq) if c.place}
    told = ", called in ".join(part for part in (op, places.pop() if len(places) == 1 else "") if part)
    return f"collective {seq} of {team.title}{f' ({told})' if told else ''}"


def _uncalled(team: _Team, front: int, late: Sequence[int], inside: Sequence[int]) -> str:
    last = sorted({team.called[r] for r in late})
    ended = all(team.done[r] >= team.called[r] for r in late)
    have = "has" if len(late) == 1 else "have"
    its = "its" if len(late) == 1 else "their"
    behind = f"{its} last was {last[0]}{', which has ended' if ended else ''}" if len(last) == 1 and last[0] else ""
    wait = "waits" if len(inside) == 1 else "wait"
    return (
        f"{_ranks(late)} {have} not called {_what(team, front, inside)}, in which {_ranks(inside, False)} {wait}"
        f"{f': {behind}' if behind else ''}"
    )


def _other_call(team: _Team) -> Finding | None:
    """The first number at which two members called different operations."""
    seqs = sorted({seq for calls in team.calls.values() for seq in calls if seq <= team.front})
    for seq in seqs:
        ops = {r: op for r in team.called if (op := team.op(r, seq))}
        if len(set(ops.values())) > 1:
            return _named_other(team, seq, ops)
    return None


def _named_other(team: _Team, seq: int, ops: Mapping[int, str]) -> Finding:
    sides: dict[str, list[int]] = {}
    for rank, op in ops.items():
        sides.setdefault(op, []).append(rank)
    told = "; ".join(
        f"{_ranks(some)} called {_at(op, team, seq, some)}"
        for op, some in sorted(sides.items(), key=lambda s: len(s[1]))
    )
    says = f"at collective {seq} of {team.title} {told}"
    if left_out := _left_out(team, seq, sides):
        odd, op = left_out
        return Finding(
            "other_call", team.title, odd, f"{says}: {_ranks(odd)} left out the {op}, after which that comes"
        )
    counts = Counter(ops.values()).most_common()
    if len(counts) == 2 and counts[1][1] == 1 and counts[0][1] >= 3:
        odd = sides[counts[1][0]]
        return Finding("other_call", team.title, tuple(odd), f"{says}: it left out a call or made one too many")
    return Finding("other_call", team.title, (), f"{says}: which side is wrong, the records do not tell")


def _at(op: str, team: _Team, seq: int, ranks: Sequence[int]) -> str:
    places = {c.place for r in ranks for c in team.at(r, seq)}
    return f"{op} in {places.pop()}" if len(places) == 1 and "" not in places else op


def _left_out(team: _Team, seq: int, sides: Mapping[str, Sequence[int]]) -> tuple[tuple[int, ...], str] | None:
    """The side that called what usually comes after the other side's call, and the call that it left out."""
    if len(sides) != 2:
        return None
    for ours, theirs in (tuple(sides), tuple(reversed(tuple(sides)))):
        pasts = [_past(team, rank, seq) for some in sides.values() for rank in some]
        if all(_usual(past) == theirs and _usual([*past, theirs]) == ours for past in pasts):
            return tuple(sorted(sides[ours])), theirs
    return None


def _past(team: _Team, rank: int, seq: int) -> list[str]:
    """The operations that this rank called before ``seq``, without a gap."""
    past: list[str] = []
    at = seq - 1
    while (op := team.op(rank, at)) and len(past) < PAST:
        past.append(op)
        at -= 1
    return past[::-1]


def _usual(past: Sequence[str]) -> str | None:
    """What has always come after calls like the last ones, by the longest stretch of them that occurred before."""
    for length in range(min(CONTEXT, len(past) - 1), 1, -1):
        tail = past[-length:]
        after = {past[n + length] for n in range(len(past) - length) if past[n : n + length] == tail}
        if after:
            return after.pop() if len(after) == 1 else None
    return None


def _other_size(team: _Team, front: int) -> Finding | None:
    sides: dict[object, list[int]] = {}
    for rank in team.called:
        calls = team.at(rank, front)
        if len(calls) != 1 or calls[0].op.strip("_") not in _SAME_SIZE:
            return None
        elements = sum(_product(shape) for shape in calls[0].sizes)
        sides.setdefault((elements, calls[0].dtypes), []).append(rank)
    if len(sides) < 2:
        return None
    fewest, *rest = sorted(sides.items(), key=lambda side: len(side[1]))
    told = "; ".join(
        f"{_ranks(some)} with {elements} elements of {'/'.join(dtypes) or '?'}"  # pyright: ignore
        for (elements, dtypes), some in (fewest, *rest[:3])  # pyright: ignore
    )
    odd = tuple(fewest[1]) if len(rest) == 1 and len(fewest[1]) == 1 and len(rest[0][1]) >= 3 else ()
    what = _what(team, front, team.called)
    return Finding("other_size", team.title, odd, f"{what} was called with different sizes: {told}")


def _product(shape: Sequence[int]) -> int:
    n = 1
    for size in shape:
        n *= size
    return n


def _not_begun(team: _Team, front: int) -> Finding | None:
    """NCCL alone: the kernel runs on some GPUs and has not begun on others, which do something else before."""
    calls = {r: team.at(r, front) for r in team.called}
    if not all(calls.values()):
        return None
    begun = [r for r, some in calls.items() if all(c.begun for c in some)]
    late = [r for r, some in calls.items() if not any(c.begun for c in some)]
    if not begun or not late or len(begun) + len(late) < len(calls):
        return None
    has = "has" if len(late) == 1 else "have"
    gpus = "its GPU has" if len(late) == 1 else "their GPUs have"
    return Finding(
        "not_begun",
        team.title,
        tuple(late),
        f"{_ranks(late)} {has} called {_what(team, front, late)}, but {gpus} not begun it, while "
        f"{_ranks(begun, False)} wait in it: something earlier holds the GPU",
    )


def _unfinished(team: _Team, front: int) -> Finding:
    inside = sorted(team.called)
    what = _what(team, front, inside)
    if team.without or not team.told:
        n = len(inside)
        who = "the one rank" if n == 1 else f"all {n} ranks"
        rest = f"of {_ranks(team.without)} there is no record" if team.without else "who else belongs to it is not told"
        says = f"{who} whose record is there called {what} and it does not end; {rest}"
        return Finding("unfinished", team.title, (), says)
    return Finding(
        "unfinished",
        team.title,
        (),
        f"all {len(inside)} ranks of {team.title} have called {what} and it does not end: no rank's program holds it "
        "up; look at the GPUs and the network",
    )


def _pairs(records: Mapping[int, FlightRecord], teams: Sequence[_Team]) -> list[Finding]:
    """Sends and receives that wait for a partner who has not called its side."""
    members = {team.name: team.members for team in teams}
    latest: dict[tuple[str, frozenset[int], int], int] = {}
    waiting: list[tuple[str, int, int, Call]] = []
    for rank, record in records.items():
        for call in record.calls:
            if not call.p2p or not call.seq or (peer := _peer(call.op, members.get(call.group, ()), rank)) is None:
                continue
            key = (call.group, frozenset({rank, peer}), rank)
            latest[key] = max(latest.get(key, 0), call.seq)
            if not call.done:
                waiting.append((call.group, rank, peer, call))
    found: dict[tuple[str, int], Finding] = {}
    for group, rank, peer, call in waiting:
        if peer in records and latest.get((group, frozenset({rank, peer}), peer), 0) < call.seq:
            title = next(t.title for t in teams if t.name == group)
            says = f"rank {peer} has not called its side of {call.op.split()[0]} {call.seq} with rank {rank} in {title}"
            found.setdefault((group, peer), Finding("uncalled", title, (peer,), f"{says}, which waits in it"))
    return list(found.values())


def _peer(op: str, members: Sequence[int], rank: int) -> int | None:
    """The other end of ``send 0->1`` or ``recv 1<-0``, which count within the group."""
    verb, _, ends = op.partition(" ")
    ours, arrow, theirs = ends.partition("->" if verb == "send" else "<-")
    if verb not in ("send", "recv") or not arrow or not (ours.isdecimal() and theirs.isdecimal()):
        return None
    if len(ours) > 6 or len(theirs) > 6 or max(int(ours), int(theirs)) >= len(members):
        return None
    return members[int(theirs)] if members[int(ours)] == rank else None


def _roots(found: Sequence[Finding], teams: Sequence[_Team]) -> list[Finding]:
    """A rank that is missed in one group because it waits in another is a victim there: the blame goes on to whom that
    group waits for. Where it only goes round, nobody can be named."""
    stuck: dict[int, set[str]] = {}
    for team in teams:
        for rank, number in team.called.items():
            if team.done[rank] < number:
                stuck.setdefault(rank, set()).add(team.title)
    blamed = {f.group: set(f.ranks) for f in found if f.kind in BLAMES and f.ranks}

    def is_victim(rank: int, group: str) -> bool:
        return any(other != group and other in blamed and rank not in blamed[other] for other in stuck.get(rank, ()))

    kept: list[Finding] = []
    victims: list[Finding] = []
    for finding in found:
        roots = tuple(r for r in finding.ranks if not is_victim(r, finding.group))
        if finding.kind != "uncalled" or not finding.ranks or roots:
            kept.append(replace(finding, ranks=roots) if finding.kind == "uncalled" else finding)
        else:
            victims.append(replace(finding, ranks=()))
    if victims and not any(f.ranks for f in kept):
        says = "the process groups wait for each other in a circle: " + "; ".join(f.says for f in victims[:3])
        return [Finding("circle", victims[0].group, (), says), *kept]
    return [*kept, *victims]


def _ranks(ranks: Sequence[int], spell: bool = True) -> str:
    if not spell and len(ranks) > 1:
        return f"the other {len(ranks)}"
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranges(ranks)}"
