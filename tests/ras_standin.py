"""A process that answers as NCCL's RAS does: the protocol of NCCL 2.24 to 2.30 over a real socket, from a thread named
``NCCL RAS``, on a port shared by SO_REUSEPORT. It stands for the NCCL that needs a GPU.

``python -m tests.ras_standin PORT MODE BODY``: BODY is a file with the answer to ``STATUS``, read anew each time, so
that counts can move between two polls. Modes: ``json`` (2.28.7 and later), ``text`` (earlier, without SET FORMAT),
``silent`` (accepts and says nothing, as a stopped process), ``slow`` (3 s for the body), ``stalls`` (falls silent after
the handshake), ``breaks`` (closes in the middle), ``stranger`` (another protocol), ``long`` (a line without end).
"""

from __future__ import annotations

import ctypes
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

PR_SET_NAME, PR_SET_PDEATHSIG = 15, 1


def serve(port: int, mode: str, body: Path) -> None:
    ctypes.CDLL(None).prctl(PR_SET_NAME, b"NCCL RAS", 0, 0, 0)
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(16384)
        print(listener.getsockname()[1], flush=True)
        kept: list[socket.socket] = []
        while True:
            connection, _ = listener.accept()
            if mode == "silent":
                kept.append(connection)
                continue
            with suppress(OSError):
                converse(connection, mode, body)
            connection.close()


def converse(connection: socket.socket, mode: str, body: Path) -> None:
    if mode == "stranger":
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        return
    with connection.makefile("rb") as lines:
        for raw in lines:
            line = raw.decode().strip().upper()
            if mode == "long":
                connection.sendall(b"x" * 100_000)
            elif line.startswith("CLIENT PROTOCOL"):
                connection.sendall(b"SERVER PROTOCOL 2\n")
            elif mode == "stalls":
                time.sleep(60)
            elif mode == "breaks":
                connection.sendall(b"O")
                return
            elif line.startswith("TIMEOUT "):
                connection.sendall(b"OK\n")
            elif line.startswith("SET FORMAT") and mode == "text":
                connection.sendall(f"ERROR: Unknown command {line}\n".encode())
            elif line.startswith("SET FORMAT"):
                connection.sendall(b"OK\n")
            elif line in ("STATUS", "VERBOSE STATUS"):
                time.sleep(3 if mode == "slow" else 0)
                connection.sendall(body.read_bytes())
                return
            else:
                connection.sendall(b"ERROR: Unknown command\n")


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, 9, 0, 0, 0)
    threading.Thread(target=serve, args=(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])), daemon=True).start()
    while True:
        time.sleep(60)
