"""A server of large files that sends them slowly, or stops in the middle of one and keeps the connection."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FIRST_FILE = 4_000_000
OTHER_FILES = 2_000_000_000


class Trickle:
    """``bytes_s`` of each file after the first, which comes at once; after ``stalls_after`` bytes nothing comes."""

    def __init__(self, *, bytes_s: float, stalls_after: int | None = None) -> None:
        self.note: Path | None = None
        """Where the time is put when it stalls, or when it begins to be slow."""
        trickle = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                first = self.path.endswith("-00001.safetensors")
                size = FIRST_FILE if first else OTHER_FILES
                self.send_response(200)
                self.send_header("Content-Length", str(size))
                self.end_headers()
                trickle._send(self, size, first, bytes_s, stalls_after)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.5}, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _send(
        self, handler: BaseHTTPRequestHandler, size: int, first: bool, bytes_s: float, stalls_after: int | None
    ) -> None:
        piece = bytes(int(bytes_s / 10))
        sent = 0
        if not first and stalls_after is None:
            self._begins()
        try:
            while sent < size:
                if not first and stalls_after is not None and sent >= stalls_after:
                    self._begins()
                    threading.Event().wait()
                part = piece[: size - sent]
                handler.wfile.write(part)
                sent += len(part)
                if not first:
                    time.sleep(0.1)
        except OSError:
            return  # the client is gone

    def _begins(self) -> None:
        if self.note is not None:
            self.note.write_text(repr(time.monotonic()))
