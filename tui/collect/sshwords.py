"""Failures of ssh in words: what went wrong, what to do, and whether trying again can help. Pure."""

from __future__ import annotations

import asyncio
import errno
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tui.errors import HostError
from tui.safetext import clean

# Disconnect reasons of RFC 4253, section 11.1, as asyncssh's errors carry them in ``code``.
_KEX_FAILED, _HOST_KEY, _LOST, _NO_MORE_AUTH = 3, 9, 10, 14


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What the ssh config made of a destination, as far as its failures concern.

    ``name`` as the person wrote it; ``host_key_name`` what known_hosts files call it (``[host]:port`` off port 22);
    ``keys`` the key files that are there, ``locked`` those of them that need a passphrase; ``agent`` whether an ssh
    agent is asked; ``known_in`` the known_hosts file that holds another key of this host; ``known_hosts`` all that
    were looked at.
    """

    name: str
    host: str
    port: int
    user: str
    host_key_name: str
    keys: Sequence[Path] = ()
    locked: Sequence[Path] = ()
    agent: bool = False
    known_in: Path | None = None
    known_hosts: Sequence[Path] = ()
    jump: str | None = None


def explain(error: BaseException, end: Endpoint, timeout_s: float) -> HostError:
    """The sentence for a failed connection to ``end``; those that cannot heal by themselves are permanent."""
    if isinstance(error, HostError):
        return error
    if isinstance(error, (asyncio.TimeoutError, TimeoutError)):
        return HostError(
            f"{end.name} did not answer within {timeout_s:g} s; is it up, and can {end.host} port {end.port} be "
            "reached from here?"
        )
    if isinstance(error, socket.gaierror):
        return _unresolved(error, end)
    code = getattr(error, "code", None)
    if code == _NO_MORE_AUTH:
        return HostError(_refused_user(end), permanent=True)
    if code == _HOST_KEY:
        return HostError(_untrusted_key(error, end), permanent=True)
    if type(error).__name__ == "ChannelOpenError":
        by = (
            f"The jump host {end.jump} cannot reach {end.host} port {end.port}" if end.jump else f"{end.name} gave none"
        )
        return HostError(f"{by}: {clean(str(error), 200)}.")
    if isinstance(error, ValueError) or (isinstance(error, OSError) and error.filename):
        return unusable(error, end.name)
    if isinstance(error, OSError):
        return HostError(_network(error, end))
    if code == _KEX_FAILED:
        return HostError(f"{end.name} and this machine share no way to talk: {clean(str(error), 200)}.")
    return lost(error, end.name)


def unusable(error: Exception, name: str) -> HostError:
    """The sentence for ssh config, key or known_hosts files that cannot be used: asyncssh raises ValueErrors."""
    said = clean(str(error), 300).rstrip(".")
    return HostError(f"The ssh files of this account cannot be used for {name}: {said}.", permanent=True)


def lost(error: BaseException, name: str) -> HostError:
    """The sentence for a connection that broke after it stood."""
    if "keepalive" in str(error):
        return HostError(f"{name} stopped answering; the connection was given up after 6 s without a sign of life.")
    said = clean(str(error), 200).rstrip(".")
    return HostError(f"The connection to {name} broke{f': {said}' if said else ''}.")


def _unresolved(error: socket.gaierror, end: Endpoint) -> HostError:
    if error.errno == socket.EAI_AGAIN:
        return HostError(f"The name server does not answer for {end.host}.")
    return HostError(
        f"There is no host named {end.host}; check the spelling, or add it to the ssh config with its HostName.",
        permanent=True,
    )


def _network(error: OSError, end: Endpoint) -> str:
    # Where a name has several addresses asyncio joins their errors into one text without an errno.
    numbers = {int(n) for n in re.findall(r"\[Errno (\d+)\]", str(error))} or {error.errno}
    if numbers == {errno.ECONNREFUSED}:
        return f"{end.name} refuses connections on port {end.port}; is sshd running there, and on that port?"
    if numbers & {errno.EHOSTUNREACH, errno.ENETUNREACH}:
        return f"There is no route to {end.name} ({end.host}); is it up and on this network?"
    return f"{end.name} cannot be reached: {clean(error.strerror or str(error), 200)}."


def _refused_user(end: Endpoint) -> str:
    offered = [_short(path) for path in end.keys if path not in end.locked]
    if end.agent:
        offered.append("the keys of the ssh agent")
    what = f"with {_listed(offered)}" if offered else "without any key, as none was found"
    # An alias leads there by itself, through its jump hosts too; ssh-copy-id does not take ssh:// everywhere.
    target = f"-p {end.port} {end.user}@{end.host}" if end.name.startswith("ssh://") else end.name
    do = f"`ssh-copy-id {target}` puts your key there"
    if end.locked:
        do = f"{_listed([_short(p) for p in end.locked])} needs its passphrase: run `ssh-add` first; or else {do}"
    return f"{end.name} did not let {end.user} in {what}; {do}."


def _untrusted_key(error: BaseException, end: Endpoint) -> str:
    if end.known_in is not None:
        return (
            f"The host key of {end.name} is not the one in {_short(end.known_in)}; if the host was set up anew, run "
            f"`ssh-keygen -R '{end.host_key_name}' -f {_short(end.known_in)}` and `ssh {end.name}` once; "
            "if not, somebody may sit in between."
        )
    if "not trusted" not in str(error):
        return f"The host key of {end.name} was refused: {clean(str(error), 200)}."
    if end.known_hosts and all(path == Path("/dev/null") for path in end.known_hosts):
        return (
            f"The ssh config keeps no host keys for {end.name} (UserKnownHostsFile /dev/null); name a real file there "
            f"and run `ssh {end.name}` once."
        )
    return (
        f"The host key of {end.name} is not known yet; "
        f"run `ssh {end.name}` once, compare the fingerprint and accept it."
    )


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _short(path: Path) -> str:
    try:
        return f"~/{path.relative_to(Path.home())}"
    except (ValueError, RuntimeError):
        return str(path)
