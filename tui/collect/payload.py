"""What is sent to a host to make an agent of a bare Python there: one command line and some bytes for its input.

Nothing is installed. The command line finds a Python 3.6 or later, which reads :mod:`tui.agent.stage` from its
standard input and that in turn the agent's modules; ``pynvml`` travels along as source and is compiled only where it
is imported. Requests may follow immediately behind the payload in the same pipe.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import re
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SYNC = b"\0\0GPUTOP-HANG-1\n"
"""Ends the chatter of rc files on the agent's output; one zlib stream follows."""

NO_PYTHON = 97
"""Exit code: no python3 of version 3.6 or later on the host."""

FELL_THROUGH = 98
"""Exit code: the payload did not arrive whole."""

NOT_LINUX = 96
"""Exit code: the host does not run Linux."""

_AGENT = Path(__file__).resolve().parent.parent / "agent"
_PACKAGE = "gputop_hang_agent"
_BEHIND_CODE = re.compile(r"(?m)(?<=[^'\"#\n])[ \t]+#[^'\"\n]*$")
"""A comment behind code; one with a quote in it may be part of a string and stays."""

_FOR_READERS = re.compile(r'(?m)^( *)"""(?:[^"]|"(?!""))*"""$|^ *#.*$')
_STAGE = zlib.compress((_AGENT / "stage.py").read_bytes(), 9)

# One line that survives every login shell: no single quote, backslash, dollar sign, backquote or exclamation mark.
# Reads exactly the stage's bytes, unbuffered: the comprehension is a loop that also ends when the input ends early.
_PYTHON_LINE = (
    "import os,sys,zlib;"
    f"sys.version_info<(3,6)and os._exit({NO_PYTHON});"
    f"n={len(_STAGE)};b=bytearray();"
    "[b.extend(os.read(0,n-len(b)))for _ in range(n)if len(b)<n];"
    f"len(b)<n and os._exit({FELL_THROUGH});"
    "exec(zlib.decompress(bytes(b)))"
)

# -I -S -B: no environment, no site-packages (10 ms faster), no .pyc left behind. Each candidate that turns out not to
# be a usable Python (a version manager's broken shim: 127) has read nothing, so the next one may try.
BOOT = (
    "exec sh -c 'for p in python3 /usr/libexec/platform-python /usr/bin/python3; do "
    "command -v $p >/dev/null 2>&1 || continue; "
    f'$p -ISB -c "{_PYTHON_LINE}"; r=$?; '
    f"case $r in {NO_PYTHON}|126|127) ;; *) exit $r;; esac; done; exit {NO_PYTHON}'"
)
"""The command for the host's login shell (bash, sh, dash, zsh, fish, tcsh); :func:`payload` goes to its input."""

SUDO_BOOT = BOOT.replace("exec sh", "exec sudo -n sh", 1)
"""The same as root, where sudo asks for no password; only when a person asked for it."""


def local_command(sudo: bool = False) -> list[str]:
    """The same boot for this machine, under the monitor's own interpreter and without a shell."""
    return [*(("sudo", "-n") if sudo else ()), sys.executable, "-ISB", "-c", _PYTHON_LINE]


def payload(
    *,
    local: bool = False,
    simulate: Mapping[str, Any] | None = None,
    silence_s: float = 30.0,
) -> bytes:
    """The bytes for the boot's standard input, ready for requests behind them.

    ``local`` lets the agent use this interpreter's compiled ``pynvml`` (70 ms faster than compiling a carried one), and
    packs in haste: the first picture waits for it, and nothing travels.
    ``simulate`` (``{"parent": pid, "gpus": n, "mib_per_byte": x}``) asks for simulated GPUs where no driver answers:
    see :mod:`tui.agent.simulated`. ``silence_s``: without a byte from the monitor for so long, the agent ends.
    """
    options: dict[str, Any] = {"silence_s": silence_s, "simulate": None if simulate is None else dict(simulate)}
    if local:
        options["python_path"] = [str(Path(_pynvml()).parent)]
    carried = b"" if local else _carried_pynvml()
    return _STAGE + _modules(local) + carried + _record("options", json.dumps(options).encode()) + b"00000000"


@functools.cache
def _carried_pynvml() -> bytes:
    return _record("pynvml", _lean(Path(_pynvml()).read_text(encoding="utf-8")).encode())


@functools.cache
def _modules(in_haste: bool) -> bytes:
    """The agent's modules as one record: together they compress a fifth better. ``in_haste``: 3 ms instead of 18."""
    lean = str if in_haste else _lean
    sources = {
        f"{_PACKAGE}.{path.stem}": lean(path.read_text(encoding="utf-8")) for path in sorted(_AGENT.glob("*.py"))
    }
    sources[_PACKAGE] = ""
    for name in ("stage", "__init__"):
        del sources[f"{_PACKAGE}.{name}"]
    return _record("modules", json.dumps(sources, ensure_ascii=False).encode(), level=1 if in_haste else 9)


def _lean(source: str) -> str:
    """Without docstrings and lines of comment, a fifth of what would travel. Line numbers stay, for tracebacks."""

    def left(found: re.Match[str]) -> str:
        return ("" if found[1] is None else found[1] + '""') + "\n" * found[0].count("\n")

    return _BEHIND_CODE.sub("", _FOR_READERS.sub(left, source))


def _record(name: str, body: bytes, level: int = 9) -> bytes:
    record = name.encode() + b"\n" + zlib.compress(body, level)
    return b"%08d" % len(record) + record


def _pynvml() -> str:
    spec = importlib.util.find_spec("pynvml")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("pynvml is missing: install nvidia-ml-py")
    return spec.origin
