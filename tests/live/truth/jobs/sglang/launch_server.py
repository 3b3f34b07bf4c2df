"""A server of several ranks in the words of SGLang 0.5: light processes, one of which meets what ``--fault`` names.

``sglang/launch_server.py --model-path M --tp-size N --port P --fault NAME [--cgroup FOLDER]``
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tui.demo.log import say

SCHEDULER = Path(__file__).resolve().parent.parent / "scheduler.py"


class Handler(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model-path", required=True)
    parser.add_argument("--tp-size", type=int, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--fault", required=True)
    parser.add_argument("--cgroup", default="")
    options = parser.parse_args()
    say(
        f"server_args=ServerArgs(model_path='{options.model_path}', host='127.0.0.1', port={options.port}, "
        f"tp_size={options.tp_size}, pp_size=1, dp_size=1, nnodes=1, node_rank=0, watchdog_timeout=300)"
    )
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(options.tp_size)]
    ports = [listener.getsockname()[1] for listener in listeners]
    ready: list[int] = []
    ranks: list[subprocess.Popen[bytes]] = []
    for number, listener in enumerate(listeners):
        reading, writing = os.pipe()
        plan = {"listener": listener.fileno(), "ports": ports, "ready": writing}
        plan |= {"fault": options.fault, "cgroup": options.cgroup}
        env = os.environ | {"RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": str(options.tp_size)}
        env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(ports[0])}
        rank = subprocess.Popen(
            [sys.executable, str(SCHEDULER), json.dumps(plan)],
            env=env,
            stdin=subprocess.PIPE,
            pass_fds=(listener.fileno(), writing),
        )
        os.close(writing)
        ranks.append(rank)
        ready.append(reading)
    for listener in listeners:
        listener.close()
    if not all(os.read(end, 1) for end in ready):  # a rank that has died: SGLang's server waits for the others, too
        for rank in ranks:
            rank.wait()
        sys.exit(1)
    server = ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    say(f"INFO:     Uvicorn running on http://127.0.0.1:{options.port} (Press CTRL+C to quit)")
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 60.0}, daemon=True).start()
    say("The server is fired up and ready to roll!")
    for rank in ranks:
        rank.wait()


if __name__ == "__main__":
    main()
