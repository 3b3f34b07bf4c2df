"""The program's own folder, and reading a small file that a person named: never without an end, whatever lies there."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

MOST_BYTES = 1 << 20
"""No file that people write for this program is longer."""


def state_folder() -> Path:
    """Where the program keeps what it has learnt: ``~/.local/state/gputop-hang`` on Linux."""
    from platformdirs import user_state_path

    return user_state_path("gputop-hang")


def read_small(path: Path, most: int = MOST_BYTES) -> str:
    """The UTF-8 text of a regular file of at most ``most`` bytes.

    A pipe is opened without waiting for who writes into it, and no device is read.

    Raises: OSError, also for what is no regular file or is longer; UnicodeDecodeError.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            content = stream.read(most + 1)
    finally:
        os.close(descriptor)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it is longer than {most >> 10} KiB", str(path))
    return content.decode("utf-8")
