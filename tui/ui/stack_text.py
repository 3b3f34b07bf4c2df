"""Stacks as text, to be looked at, copied and saved. No widget, no terminal.

A process is written as py-spy writes it, which ``gputop-hang dump --from`` reads back.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from tui.headless.dump_output import as_json, text_lines
from tui.model import Dump, MergedStacks, ProcessStacks, Step, ThreadStack

MOST_TRIES = 100


def merged_lines(dump: Dump) -> list[str]:
    """What ``gputop-hang dump`` prints of the same stacks."""
    return text_lines(dump.processes, dump.merged or MergedStacks(()), dump.called)


def process_lines(process: ProcessStacks) -> list[str]:
    """One process as ``py-spy dump`` prints it, whole paths included."""
    rank = f" (rank {process.rank})" if process.rank is not None else ""
    lines = [f"Process {process.pid or 0}: {process.role}{rank} on {process.host}, {process.method}"]
    lines += [process.error] if process.error else []
    for thread in process.threads:
        lines += ["", *_thread(thread)]
    return lines


def _thread(thread: ThreadStack) -> list[str]:
    """Without an id of the system the interpreter's stands there, as in py-spy's own text. Of which nobody said whether
    it runs is no thread of py-spy's, and not written so that it could be taken for one."""
    ident = str(thread.os_thread_id) if thread.os_thread_id is not None else f"0x{thread.thread_id or 0:X}"
    known = thread.active is not None
    state = ("active" if thread.active else "idle") if known else "state unknown"
    lines = [f'Thread {ident} ({state}{"+gil" if thread.owns_gil and thread.active else ""}): "{thread.name}"']
    words = [*(["holds the GIL"] if thread.owns_gil else []), *([f"state {thread.state}"] if thread.state else [])]
    words += [f"in {thread.wchan}"] if thread.wchan else []
    lines += [f"  ({', '.join(words)})"] if words else []
    indent = " " * (4 if known else 6)
    return lines + [f"{indent}{f.function} ({f.file}{f':{f.line}' if f.line else ''})" for f in thread.frames]


def dump_lines(dump: Dump) -> Iterator[str]:
    """All of a dump: the merged stacks, how they were taken, what was done, every process."""
    taken = time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(dump.started_wall))
    yield f"# {dump.method} of {dump.launch}, taken {taken}"
    yield ""
    yield from merged_lines(dump)
    yield ""
    yield from (f"# {_step(step)}" for step in dump.steps)
    yield from (f"# {line}" for line in dump.log)
    for process in dump.processes:
        yield ""
        yield from process_lines(process)


def _step(step: Step) -> str:
    took = "lasts" if step.duration_s is None else f"{step.duration_s:.2f} s"
    words = f"{step.host} {step.method}: {step.answered} of {step.asked}, {took}"
    errors = [*([step.error] if step.error else []), *(f"pid {pid}: {sentence}" for pid, sentence in step.errors)]
    return "; ".join([words, *errors])


def save(dump: Dump, folders: Sequence[Path]) -> tuple[Path, Path]:
    """Write text and JSON into the first of these folders that takes them; nothing is ever written over.

    Raises: OSError where none does.
    """
    *others, last = folders
    for folder in others:
        with suppress(OSError):
            return _write(dump, folder)
    return _write(dump, last)


def _write(dump: Dump, folder: Path) -> tuple[Path, Path]:
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"stacks-{_plain(dump.launch)}-{time.strftime('%Y%m%d-%H%M%S', time.localtime(dump.started_wall))}"
    for n in range(1, MOST_TRIES):
        text = folder / f"{stem}{f'-{n}' if n > 1 else ''}.txt"
        data = text.with_suffix(".json")
        if text.exists() or data.exists():
            continue
        with text.open("x", encoding="utf-8") as stream:
            stream.writelines(f"{line}\n" for line in dump_lines(dump))
        with data.open("x", encoding="utf-8") as stream:
            stream.writelines(dump_json(dump))
        return text, data
    raise FileExistsError(f"{folder} holds {MOST_TRIES} files of these stacks already")


def dump_json(dump: Dump) -> Iterator[str]:
    """The JSON of ``gputop-hang dump``, with what was done, in pieces: of 512 ranks it is some 100 MB."""
    merged = dump.merged or MergedStacks(())
    whole = as_json((), merged, dump.called, dump.steps)
    del whole["processes"]
    whole |= {"launch": dump.launch, "method": dump.method, "started_wall": dump.started_wall, "log": list(dump.log)}
    yield json.dumps(whole, ensure_ascii=False)[:-1] + ', "processes": ['
    yield from _pieces(dump.processes)
    yield '], "before": ['
    yield from _pieces(dump.before)
    yield "]}\n"


def _pieces(processes: Sequence[ProcessStacks]) -> Iterator[str]:
    for n, process in enumerate(processes):
        (one,) = as_json([process], MergedStacks(()))["processes"]
        yield (", " if n else "") + json.dumps(one, ensure_ascii=False)


def _plain(text: str) -> str:
    """A name that is a file's on every system; launches are called host:pid."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:80].strip("-.") or "launch"
