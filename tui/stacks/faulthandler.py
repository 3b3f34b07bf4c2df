"""What CPython's ``faulthandler`` writes, from 3.6 to 3.15, wherever it ended up.

Sources: ``Modules/faulthandler.c`` and ``Python/traceback.c`` of CPython. A dump has no pid, no rank, no time; threads
come newest first and at most 100 are written, so that a process with more loses its main thread. It is written line by
line, unbuffered: processes that share a file mix their blocks, and sometimes tear their lines. ``pthread_self()``, the
hexadecimal number of each block, is the same number that py-spy calls ``thread_id``; :mod:`tui.stacks.attribute` uses
it to say whose a block is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime

from tui.model import Frame, ThreadStack
from tui.safetext import clean
from tui.stacks.frames import bare, bounded, frame, is_program


@dataclass(frozen=True, slots=True)
class FaultDump:
    """One dump. ``reason`` is ``Aborted``, ``Segmentation fault`` ..., ``Timeout (0:01:00)`` for
    ``dump_traceback_later`` and empty for a registered signal, whose process lives on.

    ``cut`` says that only the newest 100 threads were written and the main thread is missing. ``mixed`` says that
    blocks of several processes are interleaved here, ``torn`` that even their lines are, so that a frame may be
    another's; ``loose`` are then frames that no thread's header wanted. ``rank`` is set where the lines carry a prefix
    that names it (``[default5]:`` of torchrun, ``[1,5]<stderr>:`` of mpirun, ``5:`` of srun), ``pid`` where it names
    that (``(RayWorker pid=4711, ip=...)`` of Ray, ``(Worker_TP3 pid=4711)`` of vLLM). ``taken_wall``: seconds since
    1970 on that host's clock, read as UTC, where vLLM's watchdog wrote when it was (``VLLM_STACK_DUMP_for_...log``).
    """

    reason: str
    threads: tuple[ThreadStack, ...]
    cut: bool = False
    mixed: bool = False
    torn: bool = False
    rank: int | None = None
    pid: int | None = None
    taken_wall: float | None = None
    extension_modules: tuple[str, ...] = ()
    native: tuple[Frame, ...] = ()
    loose: tuple[Frame, ...] = ()


MOST_BLOCKS = 4096
"""Of one dump, or of a mix of as many processes as write into one file."""

MOST_WAITING = 64
"""Threads that may still get frames; beyond that it is no mixture of dumps."""

_LONGEST = 1 << 16
"""Characters of a line that are looked at; only the list of extension modules comes near it."""

# Two lines torn into one are parted where a new one must begin; a line's prefix ends otherwise.
_TORN = re.compile(
    r"(?<=[^\s:>\])])(?=Fatal Python error: |Thread 0x[0-9a-f]{8,16} |Current thread 0x[0-9a-f]{8,16} |  File \"/)"
    r"|(?<=call first\):)(?=.)"
)
_LINE = re.compile(
    r"(?P<prefix>.{0,256}?)(?:"
    r">>> Call stack dump #\d{1,9} at (?P<at>.{1,60}?) due to (?P<due>.{1,60})"
    r"|Fatal Python error: (?P<fatal>.*)"
    r"|Timeout \((?P<timeout>[\d:.]+)\)!"
    r"|(?P<thread>Thread|Current thread) 0x(?P<id>[0-9a-f]{1,16})(?: \[(?P<name>.*)\])? \(most recent call first\):"
    r"|(?P<one>Stack) \(most recent call first\):"
    r"|(?P<native>Current thread's C stack trace) \(most recent call first\):"
    r"|Extension modules: (?P<modules>.*?)(?: \(total: \d+\))?$"
    r"|  File (?P<file>\".*\"|\?\?\?), line (?P<line>\d{1,9}|\?\?\?) in (?P<function>.*)"
    r"|  Binary file \"(?P<binary>.*?)\"(?:, at (?P<symbol>.*?)(?:\+0x[0-9a-f]+)?)? \[0x[0-9a-f]+\]"
    r"|  (?P<none><no Python frame>|<[a-z ]+ thread state>|Garbage-collecting)"
    r"|(?P<more>  )?\.\.\.$"
    r")"
)
_MAY_MATTER = re.compile(r"0x|File |Fatal |Stack |Timeout |modules: |<|Garbage|>>> |\.\.\.$")
_TAG = re.compile(
    r"^(?:\[(?:default|rank)(?P<torchrun>\d{1,6})\]:? ?|\[\d{1,9},(?P<mpirun>\d{1,6})\]<std(?:err|out)>: ?"
    r"|(?P<srun>\d{1,6}): ?"
    r"|\((?:[\w:.<>-]{1,80} )?pid=(?P<pid>\d{1,10})(?:, ip=[\w.:]{1,60})?\)(?:\x1b\[\d{0,3}m)? ?)$"
)
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)")
_ESCAPED = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")


def parse(text: str) -> list[FaultDump]:
    """All dumps in ``text``, in order; lines of anything else are passed over. Never raises."""
    streams: dict[tuple[int | None, int | None], _Stream] = {}
    for line in _TORN.sub("\n", text).split("\n"):
        line = line[:_LONGEST].rstrip("\r")
        if not _MAY_MATTER.search(line) or (match := _LINE.match(line)) is None:
            continue
        tag = _TAG.match(match["prefix"])
        if match["prefix"] and not tag and line.endswith("..."):
            continue
        rank = tag["torchrun"] or tag["mpirun"] or tag["srun"] if tag else None
        writer = (int(rank) if rank else None, int(tag["pid"]) if tag and tag["pid"] else None)
        streams.setdefault(writer, _Stream(*writer)).feed(match)
    return [dump for stream in streams.values() for dump in stream.dumps()]


def unescape(text: str) -> str:
    """Turn ``\\xe9 \\u4e2d \\U0001f600``, as faulthandler writes what is not ASCII, into characters; hostile ones are
    cleaned away like everywhere."""

    def character(match: re.Match[str]) -> str:
        code = int(match[1] or match[2] or match[3], 16)
        return chr(code) if code <= 0x10FFFF else "\ufffd"

    return clean(_ESCAPED.sub(character, text), 512)


@dataclass(slots=True)
class _Block:
    """A thread's lines while they are read. ``closed`` once its outermost frame was seen."""

    thread_id: int | None
    name: str
    current: bool
    frames: list[Frame] = field(default_factory=list[Frame])
    closed: bool = False


@dataclass(slots=True)
class _Open:
    """A dump while it is read."""

    reason: str
    blocks: list[_Block] = field(default_factory=list[_Block])
    ids: set[int | None] = field(default_factory=set[int | None])
    taken_wall: float | None = None
    cut: bool = False
    mixed: bool = False
    torn: bool = False
    modules: tuple[str, ...] = ()
    native: list[Frame] = field(default_factory=list[Frame])
    loose: list[Frame] = field(default_factory=list[Frame])

    @property
    def whole(self) -> bool:
        """Its oldest thread has come, or the one that took the signal: a new first line belongs to a new dump."""
        return (
            self.cut
            or any(b.current for b in self.blocks)
            or (bool(self.blocks) and is_program(self.blocks[-1].frames))
        )


class _Stream:
    """The lines that one writer, or several behind one descriptor, put into a file."""

    def __init__(self, rank: int | None, pid: int | None) -> None:
        self._rank, self._pid = rank, pid
        self._dumps: list[_Open] = []
        self._waiting: list[_Block] = []
        """Blocks that may still get frames, the newest last."""

    def dumps(self) -> list[FaultDump]:
        torn = any(d.torn for d in self._dumps)
        return [_close(d, self._rank, self._pid, torn) for d in self._dumps if d.blocks]

    def feed(self, match: re.Match[str]) -> None:
        if match["at"]:
            self._begin(clean(match["due"], 60), _seconds(match["at"]))
        elif match["fatal"] is not None:
            self._begin(clean(match["fatal"], 200))
        elif match["timeout"]:
            self._begin(f"Timeout ({match['timeout']})")
        elif match["thread"] or match["one"]:
            self._header(match)
        elif match["file"] is not None:
            line = int(match["line"]) if match["line"].isdigit() else 0
            self._frame(frame(unescape(match["function"]), unescape(match["file"].strip('"')), line))
        elif match["none"]:
            self._frame(Frame(match["none"].strip("<>")), last=match["none"] != "Garbage-collecting")
        elif match["more"]:
            self._frame(Frame("..."), last=True)
        elif self._dumps:
            self._tail(match, self._dumps[-1])

    def _begin(self, reason: str, taken_wall: float | None = None) -> None:
        mixed = bool(self._dumps) and not self._dumps[-1].whole
        if mixed:
            self._dumps[-1].mixed = True
        else:
            self._waiting.clear()
        self._dumps.append(_Open(reason, mixed=mixed, taken_wall=taken_wall))

    def _header(self, match: re.Match[str]) -> None:
        block = _Block(
            int(match["id"], 16) if match["id"] else None, clean(match["name"] or "", 64), match["thread"] != "Thread"
        )
        if not self._dumps or block.thread_id in self._dumps[-1].ids or len(self._dumps[-1].blocks) >= MOST_BLOCKS:
            self._dumps.append(_Open(""))  # a registered signal's dump has no first line: a thread comes again
        dump = self._dumps[-1]
        dump.ids.add(block.thread_id)
        dump.torn |= any(not b.frames for b in self._waiting)
        dump.mixed |= block.current and any(b.current for b in dump.blocks)
        dump.blocks.append(block)
        self._waiting = [*(b for b in self._waiting if not b.closed), block][-MOST_WAITING:]

    def _frame(self, new: Frame, last: bool = False) -> None:
        """Give a frame to the newest thread that still wants one: in a mix, an older header's frames come later.

        A ``<module>`` may be the end or have more below it (``python -m``, an import): it gets what nobody else wants.
        """
        wanting = [b for b in self._waiting if not b.closed]
        block = next((b for b in reversed(wanting) if not is_program(b.frames)), wanting[-1] if wanting else None)
        if block is not None:
            self._dumps[-1].torn |= block is not self._waiting[-1]
            block.frames.append(new)
            block.closed = last or bare(new.function) in ("_bootstrap", "_run_module_as_main")
        elif self._dumps:
            self._dumps[-1].torn = True
            self._dumps[-1].loose.append(new)

    def _tail(self, match: re.Match[str], dump: _Open) -> None:
        """What may come after the threads: the mark of a cut list, extension modules, the C stack (3.14)."""
        if match["modules"] is not None:
            dump.modules = tuple(clean(m.strip(), 200) for m in match["modules"].split(",")[:2000])
        elif match["binary"] is not None:
            dump.native.append(frame(match["symbol"] or "?", match["binary"], 0))
        elif match["native"] is None and not dump.whole:
            dump.cut = True


def _seconds(stamp: str) -> float | None:
    """Since 1970, of a stamp as Python prints it; the zone is not told."""
    found = _STAMP.search(stamp)
    try:
        return datetime.fromisoformat(f"{found[1]}T{found[2]}+00:00").timestamp() if found else None
    except ValueError:
        return None


def _close(dump: _Open, rank: int | None, pid: int | None, torn: bool) -> FaultDump:
    main = _main(dump)
    threads = [
        ThreadStack(None, b.name, bounded(b.frames), active=None, main=b is main, thread_id=b.thread_id)
        for b in dump.blocks
    ]
    return FaultDump(
        reason=dump.reason,
        threads=tuple(threads),
        cut=dump.cut,
        mixed=dump.mixed or torn,
        torn=torn,
        rank=rank,
        pid=pid,
        taken_wall=dump.taken_wall,
        extension_modules=dump.modules,
        native=bounded(dump.native),
        loose=tuple(dump.loose),
    )


def _main(dump: _Open) -> _Block | None:
    """The main thread is the oldest, thus the last; of a cut or mixed list only one that begins in a program is."""
    programs = [b for b in dump.blocks if is_program(b.frames)]
    if programs:
        return programs[-1]
    return None if dump.cut or dump.mixed or dump.blocks[-1].thread_id is None else dump.blocks[-1]
