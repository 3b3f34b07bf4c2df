"""A file system that never answers, as a network mount whose server is gone: a FUSE mount without a daemon's replies.

Every process that looks at a path under it waits in the kernel until the mount is taken away. Where ``swallow`` is
set the requests are taken over, as by a daemon that died afterwards: then not even SIGKILL ends the wait.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import threading
from pathlib import Path
from types import TracebackType

from tests.conftest import missing

MNT_FORCE, MNT_DETACH = 1, 2
_IN_HEADER = struct.Struct("=IIQQIIII")
_INIT_OUT = struct.Struct("=IIII48x")
_OUT_HEADER = struct.Struct("=IiQ")


class DeadMount:
    def __init__(self, path: Path, *, swallow: bool = False) -> None:
        self.path = path
        self._swallow = swallow
        if os.getuid() != 0 or not Path("/dev/fuse").exists():
            missing("needs root and /dev/fuse")
        path.mkdir(exist_ok=True)

    def __enter__(self) -> DeadMount:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self._fd},rootmode=40000,user_id=0,group_id=0".encode()
        if libc.mount(b"dead", bytes(self.path), b"fuse", 0, options):
            os.close(self._fd)
            missing(f"cannot mount FUSE here: {os.strerror(ctypes.get_errno())}")
        if self._swallow:
            self._answer_init()
            threading.Thread(target=self._take_all, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take it away; requests that wait are aborted."""
        ctypes.CDLL(None).umount2(bytes(self.path), MNT_FORCE | MNT_DETACH)
        os.close(self._fd)

    def _answer_init(self) -> None:
        request = os.read(self._fd, 1 << 17)
        unique = _IN_HEADER.unpack_from(request)[2]
        body = _INIT_OUT.pack(7, 31, 1 << 16, 0)
        os.write(self._fd, _OUT_HEADER.pack(_OUT_HEADER.size + len(body), 0, unique) + body)

    def _take_all(self) -> None:
        with contextlib.suppress(OSError):
            while os.read(self._fd, 1 << 17):
                pass
