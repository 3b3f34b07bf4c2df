"""``dump``: stacks of the named processes, merged, for a person or as JSON."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tui.errors import Exit, UsageError
from tui.headless.dump_files import read_files
from tui.headless.dump_output import name, show
from tui.headless.dump_targets import Target, Watched, parse_target
from tui.model import Dump, Launch, Member, MergedStacks
from tui.stacks.merge import merge
from tui.stacks.sigabrt import MUTE, SENTENCES


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
        reading = read_files(from_paths)
        merged = merge(reading.processes, reading.called, reading.before)
        show(reading.processes, merged, not json, reading.called)
        return Exit.READY
    async with Watched(targets, sudo) as watched:
        launch, failed = await watched.launch(with_started=not abort)
        if not launch.members:
            show(failed, MergedStacks((), why=""), not json)
            return Exit.NO_LAUNCH if watched.reached else Exit.NO_HOST
        dump = await _take(watched, launch, abort)
    processes = [*failed, *dump.processes]
    show(processes, dump.merged or merge(processes), not json, dump.called, dump.steps)
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
        _say(f"{name(member.rank, member.pid, member.host)}: SIGABRT {does}")
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
    who = f"all {n}" if len(mute) == n > 1 else ", ".join(name(m.rank, m.pid, m.host) for m in mute[:8])
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
