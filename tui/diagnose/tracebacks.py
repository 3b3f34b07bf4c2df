"""A traceback as one event: who raised what, where. Its lines quote source code and must not pass for messages.

Python prints the frames indented and the exception at the left margin (CPython ``Lib/traceback.py``); torch 2.3 and
later put ``[rankN]:`` before each line, vLLM its own log head. faulthandler's dumps (``Modules/faulthandler.c``) are
of the same kind, newest frame first and without an exception at the end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

_BEGIN = "Traceback (most recent call last):"
_LOG_HEAD = re.compile(r"^(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[?[\w./]+:\d+\] ?")
_FRAME = re.compile(r'^\s+File "(?P<file>[^"]+)", line (?P<line>\d+)(?:,)? in (?P<function>.+)')
_CHAIN = ("During handling of the above exception", "The above exception was the direct cause")
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(?:: .*)?$")
_DUMP = re.compile(r"^(?:Fatal Python error: |(?:Current t|T)hread 0x[0-9a-f]+ )")
_IN_DUMP = re.compile(
    r'^(?:\s+File "|\s+\.\.\.|\s+<no Python|(?:Current t|T)hread 0x|Extension modules: |Python runtime state)'
)
_LONGEST = 2000

Place = Literal["begin", "inside", "end", ""]


@dataclass(slots=True)
class Traceback:
    """``exception`` is its last line, empty while it is not complete; ``where`` the innermost frame seen."""

    t: float | None
    rank: int | None
    exception: str = ""
    where: str = ""
    lines: int = 1
    dump: bool = False
    line: int = 0
    """How many lines its run had when it was complete."""
    outermost: str = ""
    """The file and function of its first frame."""

    @property
    def uncaught(self) -> bool:
        """Whether it begins where a process does: a handler prints the frames below itself, and of an import that
        failed and was done without, those of the module that tried it."""
        file, _, function = self.outermost.rpartition(" ")
        starts = function in ("_run_module_as_main", "_bootstrap")
        return bool(self.exception) and (starts or (function == "<module>" and _is_script(file)))

    @property
    def text(self) -> str:
        """One line for people."""
        return f"{self.exception} ({self.where})" if self.where else self.exception


def _is_script(file: str) -> bool:
    """Whether a file is run, and not imported from where packages lie."""
    return "/bin/" in file or not ("-packages/" in file or "/lib/python" in file)


class Tracebacks:
    """The tracebacks that are being printed, by writer: several ranks print at once."""

    def __init__(self) -> None:
        self._open: dict[str, Traceback] = {}

    def concern(self, text: str) -> bool:
        """Whether a line may belong to a traceback at all."""
        return bool(self._open) or "Traceback" in text or "Fatal Python" in text or "hread 0x" in text

    def feed(
        self, text: str, carrier: str, prefix: str, rank: int | None, t: float | None
    ) -> tuple[Place, Traceback | None]:
        """What a line is. ``carrier`` and ``prefix`` tell writers apart: a line without a prefix goes on with what was
        begun last under its carrier, since some frameworks put theirs only before the first line."""
        body = _LOG_HEAD.sub("", text)
        own = f"{carrier}\0{prefix}"
        found = self._open.get(own)
        if _BEGIN in body[-len(_BEGIN) - 8 :] or body.startswith(_BEGIN):
            if found is None or found.dump:
                found = Traceback(t, rank)
                self._remember(own, carrier, found)
                return "begin", found
            found.lines += 1
            return "inside", found
        if _DUMP.match(body):
            if found is None:
                found = Traceback(t, rank, dump=True, exception=body if body.startswith("Fatal") else "")
                self._remember(own, carrier, found)
            return "inside" if not body.startswith("Fatal") else "begin", found
        if found is None:
            return "", None
        return self._goes_on(body, carrier, found)

    def _goes_on(self, body: str, carrier: str, found: Traceback) -> tuple[Place, Traceback | None]:
        found.lines += 1
        if found.dump:
            if _IN_DUMP.match(body) or not body.strip():
                return "inside", found
            self._forget(found)
            return "", None
        if not body.strip() or body[0] in " \t|+" or body.startswith(_CHAIN):
            frame = _FRAME.match(body)
            if frame is not None:
                found.outermost = found.outermost or f"{frame['file']} {frame['function']}"
                found.where = f"{frame['function']} {frame['file'].rpartition('/')[2]}:{frame['line']}"
            if found.lines > _LONGEST:
                self._forget(found)
            return "inside", found
        self._forget(found)
        if not _EXCEPTION.match(body):
            return "", None
        found.exception = body
        return "end", found

    def _remember(self, own: str, carrier: str, found: Traceback) -> None:
        if len(self._open) > 512:
            self._open.clear()
        self._open[own] = self._open[f"{carrier}\0"] = found

    def _forget(self, found: Traceback) -> None:
        self._open = {key: other for key, other in self._open.items() if other is not found}
