"""Stacks as ``dump`` prints them, for a person or as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tui.model import MergedStacks, ProcessStacks, Step
from tui.stacks.called import Called
from tui.stacks.tree import draw, tree

MOST_FINDINGS = 8


def as_json(
    processes: Sequence[ProcessStacks],
    merged: MergedStacks,
    called: Sequence[Called] = (),
    steps: Sequence[Step] = (),
) -> dict[str, Any]:
    """Version 1 of the dump's JSON: keys may be added, none renamed; null is unknown. ``called`` is what flight
    recorders and NCCL RAS say, ``steps`` how what was found was taken."""
    return {
        "v": 1,
        "processes": [_process_json(p) for p in processes],
        "groups": [
            {"ranks": list(g.ranks), "members": list(g.members), "frames": list(g.frames), "odd": g.odd}
            for g in merged.groups
        ],
        "odd_ranks": list(merged.odd_ranks),
        "odd": [asdict(odd) for odd in merged.odd],
        "why": merged.why,
        "called": [asdict(one) | {"known": sorted(one.known)} for one in called],
        "steps": [asdict(step) for step in steps],
    }


def _process_json(process: ProcessStacks) -> dict[str, Any]:
    shown: dict[str, Any] = {key: getattr(process, key) for key in ("host", "pid", "rank", "role", "method", "error")}
    return shown | {"threads": [asdict(thread) for thread in process.threads], "duration_s": process.duration_s}


def show(
    processes: Sequence[ProcessStacks],
    merged: MergedStacks,
    as_text: bool,
    called: Sequence[Called] = (),
    steps: Sequence[Step] = (),
) -> None:
    """Print all of it to stdout; the verdict's sentence comes first."""
    if as_text:
        print(*text_lines(processes, merged, called), sep="\n")
    else:
        print(json.dumps(as_json(processes, merged, called, steps), ensure_ascii=False))


def text_lines(processes: Sequence[ProcessStacks], merged: MergedStacks, called: Sequence[Called] = ()) -> list[str]:
    """What a person reads: the verdict's sentence, the tree, what was called, and who gave no stack."""
    parts = [[merged.why] if merged.why else [], draw(tree(merged.groups, processes)) if merged.groups else []]
    findings = [(one.source, f.says) for one in called for f in one.findings[:MOST_FINDINGS]]
    told = [
        f"{source[:1].upper()}{source[1:]}: {says}."
        for source, says in findings
        if says.lower() not in merged.why.lower()
    ]
    parts += [told, [f"{name(p.rank, p.pid, p.host)}: {p.error}" for p in processes if p.error]]
    return "\n\n".join("\n".join(part) for part in parts if part).split("\n")


def name(rank: int | None, pid: int | None, host: str) -> str:
    place = f"pid {pid} on {host}" if pid is not None else host
    return f"rank {rank} ({place})" if rank is not None else place
