"""Reading a small file that a person names: never without an end, whatever lies there."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

MOST_BYTES = 1 << 20
"""No file of settings is longer."""


def read_small(path: Path, most: int = MOST_BYTES) -> str:
    """The text of a regular file of at most ``most`` bytes.

    A pipe is opened without waiting for who writes into it, and a device is not read at all.

    Raises: OSError, also for what is no regular file or is longer; UnicodeDecodeError.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        content = stream.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it is longer than {most >> 10} KiB", str(path))
    return content.decode("utf-8")
