"""Frames and ranks in one form, whatever took them, so that sources compare."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from tui.model import Frame
from tui.safetext import clean

KEEP = 512
"""Most frames kept at either end of a stack; a runaway recursion has a thousand alike."""

_TEXT = 512


def frame(function: object, file: object, line: object) -> Frame:
    """A cleaned frame of whatever a parser found; unknown parts become ``?``, an empty file and line 0."""
    number = line if isinstance(line, int) and not isinstance(line, bool) and 0 < line < 1 << 31 else 0
    return _frame(
        function if isinstance(function, str) and function else "?", file if isinstance(file, str) else "", number
    )


@lru_cache(maxsize=1 << 16)
def _frame(function: str, file: str, line: int) -> Frame:
    """Ranks stand mostly in the same frames: one object for all of them, cleaned once."""
    return Frame(clean(function, _TEXT), clean(file, _TEXT), line)


def bounded(frames: list[Frame]) -> tuple[Frame, ...]:
    """Both ends of a stack; the middle of one deeper than twice :data:`KEEP` becomes a single ``...``."""
    if len(frames) <= 2 * KEEP:
        return tuple(frames)
    return (*frames[:KEEP], Frame("..."), *frames[-KEEP:])


def bare(function: str) -> str:
    """The name as in ``co_name``: py-spy gives ``BatchCache.get`` from Python 3.11 on, faulthandler ``get``."""
    return function if "::" in function else function.rpartition(".")[2] or function


def basename(path: str) -> str:
    return path.rpartition("/")[2]


def label(frame: Frame, line: str | None = None) -> str:
    """``function (file.py:line)``; native frames have no line, and some no file."""
    where = basename(frame.file)
    number = line if line is not None else str(frame.line or "")
    return f"{frame.function} ({where}{':' if number else ''}{number})" if where else frame.function


def is_program(frames: Sequence[Frame]) -> bool:
    """True where a stack (newest first) begins in a script or module, as only a main thread's does."""
    return bool(frames) and bare(frames[-1].function) in ("<module>", "_run_module_as_main")


def ranges(numbers: Iterable[int]) -> str:
    """``0-4,6-7`` for ranks 0 to 4, 6 and 7."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def is_place(frame: Frame) -> bool:
    """False for what names no place: an address without a symbol, the glue of pybind11, faulthandler's remarks."""
    return not frame.function.startswith(("0x", "pybind11::")) and (
        bool(frame.file) or frame.function not in ("no Python frame", "Garbage-collecting", "...", "?")
    )
