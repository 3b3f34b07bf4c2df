"""Command lines, read for the few words that tell what a process runs and how large its job is."""

from __future__ import annotations

import re
from collections.abc import Sequence

PYTHON = re.compile(r"(?:python|pypy)[\d.]*(?:-\w+)?$|pt_main_thread$")
"""A Python interpreter by its file name; torch.compile renames its main thread."""


class Options:
    """Arguments read as argparse would, for the few that matter here: ``--name value``, ``--name=value``, ``_`` for
    ``-``; the last one counts."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = [word for word in words if word][:500]
        self._values: dict[str, str] = {}
        for at, word in enumerate(self._words):
            if word.startswith("-"):
                name, equals, value = word.partition("=")
                following = self._words[at + 1] if at + 1 < len(self._words) else ""
                self._values[name.replace("_", "-")] = value if equals else following

    def has(self, name: str) -> bool:
        return name in self._values

    def text(self, *names: str) -> str:
        return next((self._values[name] for name in names if name in self._values), "")

    def number(self, *names: str, default: int) -> int:
        """The first of ``names`` that is there and a plain number (torchrun's ``1:4`` and ``gpu`` are none)."""
        return next((n for name in names if (n := plain_number(self._values.get(name, ""))) is not None), default)

    def first(self, after: str = "") -> str:
        """The first word, or the one right ``after`` another, where it is no option."""
        words = self._words[1:] if after and self._words[:1] == [after] else [] if after else self._words
        return words[0] if words and not words[0].startswith("-") else ""


def program(words: Sequence[str]) -> tuple[str, str, list[str]]:
    """What a command line runs: (``module`` | ``script`` | ``code`` | ``program``, its name, its arguments)."""
    words = [word for word in words[:1000] if word]
    if not words:
        return "program", "", []
    if not PYTHON.match(base(words[0])):
        return "program", words[0], words[1:]
    at = 1
    while at < len(words) and words[at].startswith("-"):
        word = words[at]
        if word == "-m" and at + 1 < len(words):
            return "module", words[at + 1], words[at + 2 :]
        if word.startswith("-c"):
            return "code", "", []
        at += 2 if word in ("-X", "-W", "--check-hash-based-pycs") else 1
    return ("script", words[at], words[at + 1 :]) if at < len(words) else ("program", words[0], [])


def script(words: Sequence[str]) -> str:
    kind, name, _ = program(words)
    return name if kind == "script" else ""


def carries_agent(words: Sequence[str]) -> bool:
    """Our agent, by the code that boots it: see :data:`tui.collect.payload.BOOT`."""
    return len(words) == 4 and words[2] == "-c" and "zlib.decompress" in words[3] and "os.read(0" in words[3]


def base(path: str) -> str:
    """The last part of a path. (``pathlib`` would take half of the time that a host's first frame costs.)"""
    return path[:4096].rstrip("/").rpartition("/")[2]


def plain_number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 7 else None
