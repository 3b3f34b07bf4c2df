"""The demo's main process: it starts eight ranks, waits for them as SGLang's does, and serves once all are ready.

Its standard input is a pipe that only the monitor can write to: its end is the monitor's end, however that came.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import resource
import select
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tui.demo.log import say
from tui.demo.shards import write_model

_JANITOR = 'trap "" TERM HUP INT; read -r _; kill -CONT 0; kill -TERM 0; sleep 0.1; rm -rf -- "$1"; kill -KILL 0'
"""Waits for the end of the pipe, then ends the whole process group and removes the demo's directory. A shell, because
it must outlive everything else here and should weigh nothing."""


@dataclass(slots=True)
class Rank:
    number: int
    process: subprocess.Popen[bytes]
    ready_fd: int


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Answer the health check and the model's name."""
        body = json.dumps({"model_path": "demo", "is_generation": True}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        host, port = self.client_address[:2]
        say(f'INFO:     {host}:{port} - "{self.requestline}" {args[1]} OK')


def start_ranks(count: int, model: Path, build_s: float | None) -> list[Rank]:
    """Start the ranks. Either rank 0 builds kernels for so many seconds, or one of them, by chance, meets the
    deadlock."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    chosen = random.randrange(count)
    ranks: list[Rank] = []
    for number, listener in enumerate(listeners):
        ready, done = os.pipe()
        plan = {
            "parent": os.getpid(),
            "model": str(model),
            "ports": ports,
            "listener_fd": listener.fileno(),
            "ready_fd": done,
            "refill_first": build_s is None and number == chosen,
            "build_s": build_s if number == 0 else None,
        }
        process = _start_rank(number, count, ports[0], (listener.fileno(), done))
        os.close(done)
        assert process.stdin is not None
        process.stdin.write(json.dumps(plan).encode() + b"\n")
        process.stdin.flush()
        ranks.append(Rank(number, process, ready))
    for listener in listeners:
        listener.close()
    return ranks


def _start_rank(number: int, count: int, master_port: int, fds: tuple[int, int]) -> subprocess.Popen[bytes]:
    env = os.environ | {
        "RANK": str(number),
        "LOCAL_RANK": str(number),
        "WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(master_port),
    }
    command = [sys.executable, "-m", "tui.demo.rank"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, env=env, pass_fds=fds)


def wait_until_ready(ranks: list[Rank]) -> bool:
    """Wait for the word or the end of every rank; true where all are ready. While one lives, it may still tell
    something: the server does not end it because another died."""
    waiting = {rank.ready_fd: rank for rank in ranks}
    ready = 0
    while waiting:
        for fd in select.select(list(waiting), [], [])[0]:
            rank = waiting.pop(fd)
            if os.read(fd, 16):
                ready += 1
                continue
            say(f"Rank {rank.number} scheduler is dead. Please check if there are relevant logs.")
            say(f"Exit code: {rank.process.wait()}")
    return ready == len(ranks)


def serve(port: int) -> None:
    """Open the port, ask ourselves one question as SGLang's warm-up does, and say that we are ready."""
    say(f"INFO:     Started server process [{os.getpid()}]")
    say("INFO:     Waiting for application startup.")
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), _Handler)
    except OSError:  # somebody took the port meanwhile
        server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    port = server.server_address[1]
    say("INFO:     Application startup complete.")
    say(f"INFO:     Uvicorn running on http://127.0.0.1:{port} (Press CTRL+C to quit)")
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 60.0}, name="http", daemon=True).start()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/model_info")
    connection.getresponse().read()
    connection.close()
    say("The server is fired up and ready to roll!")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model-path", type=Path, required=True)
    parser.add_argument("--tp-size", type=int, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--build-seconds", type=float)
    options = parser.parse_args()
    subprocess.Popen(["/bin/sh", "-c", _JANITOR, "sh", str(options.model_path.parent)])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    write_model(options.model_path)
    time.sleep(0.3)
    say(
        f"server_args=ServerArgs(model_path='{options.model_path}', load_format='auto', host='127.0.0.1', "
        f"port={options.port}, device='cuda', tp_size={options.tp_size}, pp_size=1, dp_size=1, nnodes=1, node_rank=0, "
        "watchdog_timeout=300, dist_timeout=None, disable_cuda_graph=False)"
    )
    ranks = start_ranks(options.tp_size, options.model_path, options.build_seconds)
    if not wait_until_ready(ranks):
        return 1
    serve(options.port)
    for rank in ranks:
        rank.process.wait()
    return 1


if __name__ == "__main__":
    sys.exit(main())
