"""The processes of a launch as a tree, in a chosen order, and what each of them does in a few words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from tui.ui import format as fmt
from tui.ui.words import STATES

if TYPE_CHECKING:
    from tui.model import ProcView

Key: TypeAlias = "Callable[[ProcView], tuple[object, ...]]"


def by_rank(p: ProcView) -> tuple[object, ...]:
    return p.rank is None, p.rank or 0, p.host, p.pid


def _most(value: Callable[[ProcView], float | None]) -> Key:
    return lambda p: (value(p) is None, -(value(p) or 0.0), *by_rank(p))


ORDERS: tuple[tuple[str, Key], ...] = (
    ("by rank", by_rank),
    ("most CPU", _most(lambda p: p.cpu_pct)),
    ("least CPU", lambda p: (p.cpu_pct is None, p.cpu_pct or 0.0, *by_rank(p))),
    ("most read", _most(lambda p: p.read_mib_s)),
    ("most memory", _most(lambda p: p.rss_mib)),
    ("by where they wait", lambda p: (p.wchan or "~", *by_rank(p))),
)
"""The first is the usual one."""


@dataclass(frozen=True, slots=True)
class Node:
    """A row of the tree: a process, or one group of its children (``child``: its place among them); ``guide`` is the
    line work before it."""

    process: ProcView
    guide: str = ""
    child: int | None = None


def tree(processes: Sequence[ProcView], order: Key) -> list[Node]:
    """Hosts below each other, in each the processes below their parents, siblings in ``order``."""
    known = {(p.host, p.pid) for p in processes}
    below: dict[tuple[str, int], list[ProcView]] = {}
    roots: dict[str, list[ProcView]] = {}
    for p in sorted(processes, key=order):
        parent = (p.host, p.ppid or 0)
        if parent in known and p.ppid != p.pid:
            below.setdefault(parent, []).append(p)
        else:
            roots.setdefault(p.host, []).append(p)
    nodes: list[Node] = []
    for _, tops in sorted(roots.items()):
        for top in tops:
            _grow(top, below, "", "", nodes, set())
    return nodes


def _grow(
    p: ProcView,
    below: dict[tuple[str, int], list[ProcView]],
    guide: str,
    indent: str,
    nodes: list[Node],
    seen: set[tuple[str, int]],
) -> None:
    if (p.host, p.pid) in seen:
        return
    seen.add((p.host, p.pid))
    nodes.append(Node(p, guide))
    members = below.get((p.host, p.pid), [])
    last = len(p.children) + len(members) - 1
    nodes += [Node(p, indent + ("└ " if i == last else "├ "), i) for i in range(len(p.children))]
    for i, member in enumerate(members, len(p.children)):
        end = i == last
        _grow(member, below, indent + ("└ " if end else "├ "), indent + ("  " if end else "│ "), nodes, seen)


def doing(p: ProcView) -> str:
    """What it visibly does, the most telling first: its children, its reads, its CPU, or where it waits."""
    if p.state in ("Z", "X", "gone"):
        return "has ended" if p.state == "gone" else "has ended, not yet reaped"
    if p.state in ("T", "t"):
        return STATES[p.state]
    parts: list[str] = []
    busy = [
        (group, pct)
        for group, pct in zip(p.children, p.children_cpu_pct, strict=False)
        if pct is not None and pct >= 20.0
    ]
    if busy:
        group, pct = max(busy, key=lambda item: item[1])
        parts.append(f"{group.n}× {group.comm} at {pct / 100:.1f} cores")
    if p.read_mib_s is not None and p.read_mib_s >= 1.0:
        parts.append(f"reads {fmt.rate(p.read_mib_s)}/s")
    if p.cpu_pct is not None and p.cpu_pct >= 20.0:
        parts.append(f"{p.cpu_pct / 100:.1f} cores")
    if parts:
        return ", ".join(parts)
    if p.state == "D":
        return f"blocked in {p.wchan or 'the kernel'}"
    if p.state == "S":
        return f"sleeps in {p.wchan}" if p.wchan and p.wchan != "0" else "sleeps"
    return STATES.get(p.state, "")
