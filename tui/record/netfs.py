"""Whether a folder lies on a network file system: by the type number that statfs(2) gives."""

from __future__ import annotations

import sys
from pathlib import Path

NETWORK_TYPES = {
    0x6969: "nfs",
    0xFF534D42: "cifs",
    0xFE534D42: "smb2",
    0x517B: "smb",
    0x0BD00BD0: "lustre",
    0x47504653: "gpfs",
    0x19830326: "beegfs",
    0x00C36400: "ceph",
    0xAAD7AAEA: "panfs",
    0x20030528: "orangefs",
    0x5346414F: "afs",
    0x6B414653: "kafs",
    0x73757245: "coda",
    0x01021997: "9p",
    0x7461636F: "ocfs2",
    0x01161970: "gfs2",
    0x65735546: "fuse",
}
"""Linux ``include/uapi/linux/magic.h``, and coreutils ``src/stat.c`` for those outside of the kernel. Behind FUSE may
be anything: sshfs, s3fs, a cluster's own."""


def on_network(folder: Path) -> bool:
    """May block for as long as the file system does. Where the type cannot be asked for, it counts as local.

    Raises: OSError where ``folder`` cannot be looked at.
    """
    return fs_type(folder) in NETWORK_TYPES


def fs_type(folder: Path) -> int | None:
    """The type number of the file system of ``folder``; ``None`` on other systems than Linux."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes
    import os

    libc = ctypes.CDLL(None, use_errno=True)
    buffer = (ctypes.c_long * 64)()  # struct statfs is 120 bytes; its first word is the type on every 64-bit Linux
    if libc.statfs(os.fsencode(folder), ctypes.byref(buffer)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(folder))
    return int(buffer[0]) & 0xFFFFFFFF
