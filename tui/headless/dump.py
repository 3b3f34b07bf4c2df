"""``dump``: stacks of the named processes, merged, for a person or as JSON."""

from __future__ import annotations

import argparse
import asyncio
import json as json_text
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tui.errors import Exit, UsageError
from tui.headless.dump_targets import Target, Watched, parse_target
from tui.model import Dump, Launch, Member, MergedStacks, ProcessStacks
from tui.stacks.merge import merge
from tui.stacks.sigabrt import MUTE, SENTENCES
from tui.stacks.tree import draw, tree

MOST_FILES = 4096
MOST_BYTES = 64 << 20
"""Of one file; a log may be long, its end has the dumps."""


def main(options: argparse.Namespace) -> Exit:
    """Raises: UsageError for words that name no process and files that hold no stacks."""
    targets = [parse_target(word) for word in options.targets]
    return asyncio.run(
        run(targets, json=options.json, abort=options.abort, from_paths=options.from_paths, sudo=options.sudo)
    )


async def run(
    targets: Sequence[Target],
    *,
    json: bool = False,
    abort: int = 0,
    from_paths: Sequence[Path] = (),
    sudo: bool = False,
) -> Exit:
    """Take or read stacks and print them; data to stdout, what happens meanwhile to stderr.

    ``abort`` counts how often it was said: once sends SIGABRT, unless a process would die of it without printing
    anything, twice sends it nevertheless.
    """
    if bool(targets) == bool(from_paths):
        raise UsageError("dump: name processes ([HOST:]PID …), or files with --from PATH …, one of both")
    if from_paths:
        if abort:
            raise UsageError("dump: --abort needs running processes, not --from")
        processes = read_files(from_paths)
        _print(processes, merge(processes), json)
        return Exit.READY
    async with Watched(targets, sudo) as watched:
        launch, failed = await watched.launch()
        if not launch.members:
            _print(failed, MergedStacks((), why=""), json)
            return Exit.NO_LAUNCH if watched.reached else Exit.NO_HOST
        dump = await _take(watched, launch, abort)
    processes = [*failed, *dump.processes]
    _print(processes, dump.merged or merge(processes), json)
    return Exit.READY if any(t.frames for p in processes for t in p.threads) else Exit.UNDECIDED


async def _take(watched: Watched, launch: Launch, abort: int) -> Dump:
    from tui.session.capture import Capture

    capture = Capture(watched.hosts, lambda dump: None)
    chosen = tuple(m for m in launch.members if (m.host, m.pid) in watched.chosen)
    if not abort:
        return _noted(await capture.stacks(replace(launch, members=chosen)))
    left_out = [m for m in launch.ranks() if m not in chosen]
    if left_out:
        raise UsageError(_lone(launch, chosen, left_out))
    if not launch.ranks():
        launch = replace(launch, members=chosen)  # nobody but those that were named
    effects = await watched.effects(launch.ranks() or launch.members)
    for member, effect in effects.items():
        does = SENTENCES.get(effect, "has an effect that cannot be told")
        _say(f"{_name(member.rank, member.pid, member.host)}: SIGABRT {does}")
    mute = [member for member, effect in effects.items() if effect in MUTE]
    if mute and abort < 2:
        raise UsageError(_mute(mute, len(effects)))
    return _noted(await capture.abort(launch, None))


def _lone(launch: Launch, chosen: Sequence[Member], left_out: Sequence[Member]) -> str:
    pids = " ".join(f"{m.host}:{m.pid}" for m in launch.ranks())
    return (
        f"dump --abort: {len(left_out)} ranks of the same launch are not named; they would die of the others' death "
        f"and leave no stack. Name all {len(launch.ranks())}: {pids}"
    )


def _mute(mute: Sequence[Member], n: int) -> str:
    who = f"all {n}" if len(mute) == n > 1 else ", ".join(_name(m.rank, m.pid, m.host) for m in mute[:8])
    return (
        f"dump --abort: {who} would die without printing anything (faulthandler is off there; PYTHONFAULTHANDLER=1 at "
        "the start turns it on). Nothing was sent. The stacks without harm are all there is: leave --abort out; or say "
        "--abort twice to end them all the same"
    )


def _noted(dump: Dump) -> Dump:
    for line in dump.log:
        _say(line)
    return dump


def _say(line: str) -> None:
    print(line, file=sys.stderr)


# --------------------------------------------------------------------------------------------------------------- files


def read_files(paths: Sequence[Path]) -> tuple[ProcessStacks, ...]:
    """The stacks in these files, and in the files of these folders. Raises: UsageError where there are none."""
    from tui.stacks.offline import read

    reading = read({str(file): _text(file) for path in paths for file in _files(path)})
    for path in reading.unread[:4]:
        _say(f"{path}: no py-spy output, no faulthandler dump and no output of dump --json in it")
    if len(reading.unread) > 4:
        _say(f"… and {len(reading.unread) - 4} more files without any")
    if not reading.processes:
        raise UsageError("dump --from: none of these files holds py-spy output, a faulthandler dump or dump --json's")
    return reading.processes


def _text(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - MOST_BYTES))
            return stream.read(MOST_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise UsageError(f"dump --from {path}: {error.strerror}") from error


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return [file for file in sorted(path.iterdir()) if file.is_file()][:MOST_FILES]
    return [path]


# -------------------------------------------------------------------------------------------------------------- output


def as_json(processes: Sequence[ProcessStacks], merged: MergedStacks) -> dict[str, Any]:
    """Version 1 of the dump's JSON: keys may be added, none renamed; null is unknown."""
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
    }


def _process_json(process: ProcessStacks) -> dict[str, Any]:
    shown: dict[str, Any] = {key: getattr(process, key) for key in ("host", "pid", "rank", "role", "method", "error")}
    return shown | {"threads": [asdict(thread) for thread in process.threads], "duration_s": process.duration_s}


def _print(processes: Sequence[ProcessStacks], merged: MergedStacks, json: bool) -> None:
    if json:
        print(json_text.dumps(as_json(processes, merged), ensure_ascii=False))
        return
    if merged.why:
        print(merged.why)
    if merged.groups:
        print("", *draw(tree(merged.groups)), sep="\n")
    failed = [p for p in processes if p.error]
    if failed:
        print("", *(f"{_name(p.rank, p.pid, p.host)}: {p.error}" for p in failed), sep="\n")


def _name(rank: int | None, pid: int | None, host: str) -> str:
    place = f"pid {pid} on {host}" if pid is not None else host
    return f"rank {rank} ({place})" if rank is not None else place
