"""Py-spy on a watched host: this machine's own, the host's, or ours sent along.

The wheel's binary is static (x86_64 and aarch64, py-spy 0.4.x), so that it runs on any Linux of the same architecture.
It is sent into a memory file of the agent's and vanishes with it.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import platform
import shutil
import sys
import sysconfig
from functools import cache
from pathlib import Path
from typing import Any

from tui.collect.host import Host
from tui.errors import HostError

NAME = "py-spy"
PIECE_BYTES = 96 << 10
SEND_S = 120.0
"""8 MB over a slow line."""


@cache
def ours() -> Path | None:
    """The py-spy that was installed with this program, if it is here."""
    beside = [Path(sys.executable).parent / NAME, Path(sysconfig.get_path("scripts")) / NAME]
    found = next((path for path in beside if path.is_file()), None) or shutil.which(NAME)
    return Path(found).resolve() if found else None


@cache
def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def program_on(host: Host) -> str:
    """What the agent shall run: our binary itself where ``host`` is this machine, else by name, which is what was sent
    there before or what the host has."""
    here = host.hello is not None and bool(host.hello.boot_id) and host.hello.boot_id == _boot_id()
    return str(ours()) if here and ours() else NAME


async def send(host: Host) -> str:
    """Send our binary and return the name it has there. Raises: HostError with the sentence that helps."""
    binary = _fitting(host)
    data = await asyncio.to_thread(binary.read_bytes)
    digest = hashlib.sha256(data).hexdigest()
    body: dict[str, Any] = {"name": NAME, "size": len(data), "sha256": digest}
    # The pieces go out in order, one behind the other; only the last one is answered.
    pieces = [
        asyncio.ensure_future(host.request("put", timeout=SEND_S, **body, offset=at, data=_base64(data, at)))
        for at in range(0, len(data), PIECE_BYTES)
    ]
    try:
        await pieces[-1]
    finally:
        for piece in pieces:
            piece.cancel()
        await asyncio.gather(*pieces, return_exceptions=True)
    return NAME


def _base64(data: bytes, at: int) -> str:
    return base64.b64encode(data[at : at + PIECE_BYTES]).decode()


def _fitting(host: Host) -> Path:
    there = host.hello.machine if host.hello else ""
    remedy = f"install py-spy on {host.name} (pip install py-spy) and try again."
    binary = ours()
    if binary is None:
        raise HostError(f"py-spy is missing on {host.name} and here: {remedy}")
    if sys.platform != "linux" or platform.machine() != there:
        here = f"{platform.system()} {platform.machine()}"
        raise HostError(f"py-spy is missing on {host.name}, and ours is for {here}, not for Linux {there}: {remedy}")
    return binary
