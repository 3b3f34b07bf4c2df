"""Programs sent by the monitor: held in memory files, without a name in any file system, gone with the agent."""

import base64
import ctypes
import hashlib
import os
import tempfile

SYS_MEMFD_CREATE = {"x86_64": 319, "aarch64": 279, "ppc64le": 360}
MFD_CLOEXEC = 1


class Put:
    def __init__(self, size: int, sha256: str):
        self.size, self.sha256 = size, sha256
        self.received = 0
        self.fd = _scratch()

    def add(self, offset: int, data: bytes) -> bool:
        """Take one piece; true with the last. Raises ValueError where a piece is missing or the whole is not right."""
        if offset != self.received:
            raise ValueError("piece at %d came, %d was due" % (offset, self.received))
        os.pwrite(self.fd, data, offset)
        self.received += len(data)
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
        while at < self.size:
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
            self._puts[name] = Put(int(request["size"]), request["sha256"])
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


def _scratch() -> int:
    """An executable file without a name: in memory, or where the kernel refuses that, unlinked in a folder."""
    number = SYS_MEMFD_CREATE.get(os.uname().machine)
    if hasattr(os, "memfd_create"):
        try:
            return os.memfd_create("gputop-hang", MFD_CLOEXEC)
        except OSError:
            pass
    elif number:
        fd = ctypes.CDLL(None).syscall(number, b"gputop-hang", MFD_CLOEXEC)
        if fd >= 0:
            return fd
    fd, path = tempfile.mkstemp(prefix="gputop-hang-")
    os.unlink(path)
    os.fchmod(fd, 0o700)
    return fd


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
