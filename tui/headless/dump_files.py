"""``dump --from``: the files and folders that someone sent."""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tui.errors import UsageError
from tui.safetext import clean
from tui.stacks.offline import MOST_BYTES, Reading, read

MOST_FILES = 4096
MOST_TOLD = 8
"""Files of which it is said why nothing of them could be used."""


def read_files(paths: Sequence[Path]) -> Reading:
    """What these files hold, and the files of these folders, however deep; of those that hold nothing it is said on
    stderr why. Raises: UsageError where there is nothing in any of them."""
    unread: dict[str, str] = {}
    reading = read(_contents(paths, unread))
    unread |= reading.unread
    for path, why in list(unread.items())[:MOST_TOLD]:
        _say(f"{clean(path)}: {why}")
    if len(unread) > MOST_TOLD:
        _say(f"… and {len(unread) - MOST_TOLD} more files of which nothing could be used")
    if not reading.processes and not reading.called:
        raise UsageError(
            "dump --from: none of these files holds stacks (py-spy, faulthandler, c10, gdb, pystack, dump --json), a "
            "flight recorder or an answer of NCCL RAS"
        )
    return reading


def _contents(paths: Sequence[Path], unread: dict[str, str]) -> Iterator[tuple[str, bytes]]:
    """One file after the other, so that not all need be held at once; of a long log its end."""
    for path in paths:
        if not _is_there(path):
            raise UsageError(f"dump --from {clean(str(path), 200)}: there is no such file")
        files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
        if len(files) > MOST_FILES:
            _say(f"{path}: {len(files)} files; the first {MOST_FILES} are read")
        for file in files[:MOST_FILES]:
            content = _content(file)
            if isinstance(content, bytes):
                yield str(file), content
            else:
                unread[str(file)] = content.strerror or "it cannot be read"


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # longer than any name, or below a folder that may not be entered
        return False


def _content(path: Path) -> bytes | OSError:
    if not path.is_file():
        return OSError(errno.EINVAL, "it is no file")  # a pipe without a writer would be waited for without an end
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - MOST_BYTES))
            return stream.read(MOST_BYTES)
    except OSError as error:
        return error


def _say(line: str) -> None:
    print(line, file=sys.stderr)
