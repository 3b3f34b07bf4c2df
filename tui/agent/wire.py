"""The two directions of the channel: frames out through one zlib stream, requests in as lines."""

import base64
import json
import os
import zlib

SYNC = b"\0\0GPUTOP-HANG-1\n"
LONGEST_REQUEST = 4 << 20

encode = json.JSONEncoder(separators=(",", ":")).encode


def spliced(value: "dict[str, Any]", **fragments: bytes) -> bytes:
    """Encode ``value`` and add keys whose values are JSON already: what helpers wrote is not parsed once more."""
    text = encode(value).encode()
    for name, fragment in fragments.items():
        text = text[:-1] + b"%s%s:%s}" % (b"," if len(text) > 2 else b"", encode(name).encode(), fragment)
    return text


def packed(data: bytes) -> str:
    """Bytes of any length for a JSON string: base64 of zlib."""
    return base64.b64encode(zlib.compress(data, 6)).decode()


class Output:
    """Writes frames without ever blocking; ``full`` while the other side does not keep up."""

    def __init__(self, fd: int):
        os.set_blocking(fd, False)
        self.fd = fd
        self._zlib = zlib.compressobj(6)
        self._waiting = bytearray(SYNC)

    @property
    def full(self) -> bool:
        return bool(self._waiting)

    def frame(self, text: bytes) -> None:
        """Queue one frame; raises OSError when the reader is gone."""
        self._waiting += self._zlib.compress(text + b"\n") + self._zlib.flush(zlib.Z_SYNC_FLUSH)
        self.flush()

    def flush(self) -> None:
        try:
            while self._waiting:
                del self._waiting[: os.write(self.fd, self._waiting)]
        except BlockingIOError:
            pass


class Input:
    """Cuts the monitor's bytes into requests. ``ended`` once the channel is closed."""

    def __init__(self, fd: int):
        os.set_blocking(fd, False)
        self.fd = fd
        self.ended = False
        self._partial = bytearray()

    def requests(self) -> "list[dict[str, Any]]":
        """Everything that can be read now; what is no JSON object is left out."""
        try:
            piece = os.read(self.fd, 1 << 20)
        except BlockingIOError:
            return []
        except OSError:
            piece = b""
        if not piece or len(self._partial) > LONGEST_REQUEST:
            self.ended = True
        self._partial += piece
        lines = self._partial.split(b"\n")
        self._partial = lines.pop()
        return [request for request in map(_request, lines) if request is not None]


def _request(line: "bytes | bytearray") -> "dict[str, Any] | None":
    try:
        request: "Any" = json.loads(line.decode())
        return dict(request)
    except (ValueError, TypeError):
        return None


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
