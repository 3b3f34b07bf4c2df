"""Py-spy on a watched host: this machine's own, the host's, or one sent along.

The wheel's binary is static (x86_64, aarch64 and armv7l, py-spy 0.4.x), whatever the C library, so that it runs on any
Linux of the same architecture. It is sent into a memory file of the agent's and vanishes with it. For another
architecture than this machine's, or where this machine is no Linux, the right wheel is fetched once, with pip.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import platform
import shutil
import sys
import sysconfig
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from tui.collect.host import Host
from tui.errors import HostError

NAME = "py-spy"
OLDEST = (0, 4, 2)
"""The first that reads Python 3.14; an older one that a host has is left aside."""

PIECE_BYTES = 96 << 10
SEND_S = 120.0
"""3 MB over a slow line."""

FETCH_S = 120.0
TAGS = {
    "x86_64": "manylinux2014_x86_64",
    "aarch64": "manylinux2014_aarch64",
    "armv7l": "manylinux2014_armv7l",
    "i686": "manylinux2014_i686",
}
"""Of the wheels on PyPI, by ``uname -m``."""

Note = Callable[[str], None]


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


async def send(host: Host, note: Note) -> str:
    """Send a binary that fits and return the name it has there. Raises: HostError with the sentence that helps."""
    binary = await _fitting(host, note)
    data = await asyncio.to_thread(binary.read_bytes)
    note(f"py-spy: none that fits on {host.name}, sending ours")
    packed = await asyncio.to_thread(zlib.compress, data, 6)
    digest = hashlib.sha256(data).hexdigest()
    body: dict[str, Any] = {"name": NAME, "size": len(packed), "sha256": digest, "packed": True}
    # The pieces go out in order, one behind the other; only the last one is answered.
    pieces = [
        asyncio.ensure_future(host.request("put", timeout=SEND_S, **body, offset=at, data=_base64(packed, at)))
        for at in range(0, len(packed), PIECE_BYTES)
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


async def _fitting(host: Host, note: Note) -> Path:
    """Ours, or one for that host's architecture from the cache or from PyPI. Raises: HostError."""
    there = host.hello.machine if host.hello else ""
    binary = ours()
    if binary is not None and sys.platform == "linux" and platform.machine() == there:
        return binary
    remedy = f"install py-spy on {host.name} (pip install py-spy) and try again."
    if there not in TAGS:
        raise HostError(f"py-spy is missing on {host.name}, and there is none for Linux {there or '?'}: {remedy}")
    version = _version()
    from platformdirs import user_cache_path

    kept = user_cache_path("gputop-hang") / f"py-spy-{version}-{there}"
    if not kept.is_file():
        here = f"{platform.system()} {platform.machine()}"
        note(f"py-spy: ours is for {here}, fetching the one for Linux {there} with pip, once")
        try:
            await _fetch(version, TAGS[there], kept)
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            fetch = f"pip download --no-deps --platform {TAGS[there]} --only-binary=:all: py-spy=={version}"
            raise HostError(
                f"py-spy is missing on {host.name}, and the one for Linux {there} could not be fetched ({error}): "
                f"{remedy} Or run “{fetch}” where there is a network and put the wheel's py-spy at {kept}."
            ) from error
    return kept


def _version() -> str:
    """Of the py-spy that belongs to this program."""
    try:
        return metadata.version(NAME)
    except metadata.PackageNotFoundError:
        return "0.4.3"


async def _fetch(version: str, tag: str, to: Path) -> None:
    """Download the wheel and keep its program. Raises: OSError, ValueError, BadZipFile."""
    with tempfile.TemporaryDirectory(prefix="gputop-hang-") as folder:
        wanted = ["--no-deps", "--only-binary=:all:", "--platform", tag, "--dest", folder, f"py-spy=={version}"]
        pip = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--quiet", *wanted),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            said = (await asyncio.wait_for(pip.communicate(), FETCH_S))[1]
        except asyncio.TimeoutError:
            raise OSError(f"pip took longer than {FETCH_S:.0f} s") from None
        finally:
            if pip.returncode is None:
                pip.kill()
                await pip.wait()
        wheel = next(iter(Path(folder).glob("*.whl")), None)
        if wheel is None:
            lines = [line for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
            raise ValueError((lines[-1] if lines else "pip said nothing").removeprefix("ERROR: ").rstrip(".")[:200])
        with zipfile.ZipFile(wheel) as archive:
            inside = next((n for n in archive.namelist() if n.endswith(f".data/scripts/{NAME}")), None)
            if inside is None:
                raise ValueError(f"{wheel.name} holds no program")
            to.parent.mkdir(parents=True, exist_ok=True)
            part = to.with_suffix(".part")
            part.write_bytes(archive.read(inside))
            part.chmod(0o755)
            part.replace(to)
