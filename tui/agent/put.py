"""Programs sent by the monitor: held in memory files, without a name in any file system, gone with the agent."""

import base64
import ctypes
import hashlib
import os
import tempfile
import zlib

SYS_MEMFD_CREATE = {"x86_64": 319, "aarch64": 279, "ppc64le": 360, "riscv64": 279, "armv7l": 385}
MFD_CLOEXEC, MFD_EXEC = 1, 0x10
ST_NOEXEC = 8

FOLDERS = ("~/.cache", "/var/tmp", "/tmp", "/dev/shm", "~", "/run", ".")
"""Where an executable file may be put where the kernel allows none in memory (``vm.memfd_noexec`` 2): the first that
can be written and is not mounted ``noexec``."""


class Put:
    def __init__(self, size: int, sha256: str, packed: bool = False):
        """``size`` in bytes, as it is sent; ``packed``: that is zlib, the checksum is of what comes out."""
        self.size, self.sha256 = size, sha256
        self.received = 0
        self.fd = scratch()
        self._unpacked = zlib.decompressobj() if packed else None
        self._written = 0

    def add(self, offset: int, data: bytes) -> bool:
        """Take one piece; true with the last. Raises ValueError where a piece is missing or the whole is not right."""
        if offset != self.received:
            raise ValueError("piece at %d came, %d was due" % (offset, self.received))
        self.received += len(data)
        try:
            data = self._unpacked.decompress(data) if self._unpacked else data
        except zlib.error:
            raise ValueError("what arrived is not what was sent") from None
        self._written += os.pwrite(self.fd, data, self._written)
        if self.received < self.size:
            return False
        self._seal()
        return True

    def _seal(self) -> None:
        """Check the whole and keep it open for reading alone: what is open for writing cannot be executed."""
        readable = os.open("/proc/self/fd/%d" % self.fd, os.O_RDONLY | os.O_CLOEXEC)
        os.close(self.fd)
        self.fd = readable
        digest, at = hashlib.sha256(), 0
        while at < self._written:
            piece = os.pread(readable, 1 << 20, at)
            digest.update(piece)
            at += max(1, len(piece))
        if self.received != self.size or digest.hexdigest() != self.sha256:
            raise ValueError("what arrived is not what was sent")


class Puts:
    """By name; one that is sent again replaces the old one."""

    def __init__(self):
        self._puts: "dict[str, Put]" = {}

    def add(self, request: "dict[str, Any]") -> bool:
        name, offset = request["name"], int(request["offset"])
        if offset == 0:
            self.drop(name)
            self._puts[name] = Put(int(request["size"]), request["sha256"], bool(request.get("packed")))
        try:
            return self._puts[name].add(offset, base64.b64decode(request["data"]))
        except ValueError:
            self.drop(name)
            raise

    def fd(self, name: str) -> "int | None":
        """The descriptor of a complete one."""
        put = self._puts.get(name)
        return put.fd if put and put.received == put.size else None

    def drop(self, name: str) -> None:
        put = self._puts.pop(name, None)
        if put:
            os.close(put.fd)


def scratch() -> int:
    """An executable file without a name: in memory, or where the kernel refuses that, unlinked in a folder. Raises
    OSError with a sentence where neither can be had."""
    fd = _in_memory()
    if fd >= 0:
        return fd
    for folder in map(os.path.expanduser, FOLDERS):
        try:
            if os.statvfs(folder).f_flag & ST_NOEXEC:
                continue
            fd, path = tempfile.mkstemp(prefix="gputop-hang-", dir=folder)
        except OSError:
            continue
        os.unlink(path)
        os.fchmod(fd, 0o700)
        return fd
    raise OSError("nothing can be executed from memory here (vm.memfd_noexec), nor from any folder that can be written")


def _in_memory() -> int:
    """Below 0 where the kernel refuses. From Linux 6.3 on one must say that it shall be executable."""
    number = SYS_MEMFD_CREATE.get(os.uname().machine)
    if number is None:
        return -1
    libc = ctypes.CDLL(None)
    fd: int = libc.syscall(number, b"gputop-hang", MFD_CLOEXEC | MFD_EXEC)
    if fd >= 0:
        return fd
    if _noexec() == "2":
        return -1
    fd = libc.syscall(number, b"gputop-hang", MFD_CLOEXEC)
    return fd


def _noexec() -> str:
    try:
        with open("/proc/sys/vm/memfd_noexec") as setting:
            return setting.read().strip()
    except OSError:
        return "0"


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
