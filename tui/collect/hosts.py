"""Words of the command line to destinations: ``node[01-16,20]``, ``user@host``, ``ssh://user@host:port``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote

from tui.errors import UsageError

MOST_HOSTS = 4096
"""A range that names more is a typing error."""

_RANGES = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_NAME = re.compile(r"[A-Za-z0-9._:%~+\-]+")
_USER = re.compile(r"[^\s@:/\x00-\x1f\x7f]+(?:@[^\s@:/\x00-\x1f\x7f]+)?")
_URL = re.compile(r"ssh://(?:(?P<user>[^@/]*)@)?(?P<host>\[[0-9A-Fa-f:.%\w]*\]|[^:/@\[\]]*)(?::(?P<port>\d*))?/?")


@dataclass(frozen=True, slots=True)
class Destination:
    """Where ssh shall go; what is ``None`` is left to the ssh config."""

    host: str
    user: str | None = None
    port: int | None = None


def expand(*words: str) -> list[str]:
    """The hosts that ``words`` name, in order and each once, ranges written out as Slurm writes them.

    Raises: UsageError with a sentence on the word that cannot be one.
    """
    hosts: dict[str, None] = {}
    for word in words:
        for host in _expand(word):
            parse(host)
            hosts[host] = None
            if len(hosts) > MOST_HOSTS:
                raise UsageError(f"{word!r} names more than {MOST_HOSTS} hosts; is that range right?")
    return list(hosts)


def parse(destination: str) -> Destination:
    """Split one destination. Raises: UsageError where it is none."""
    if destination.startswith("ssh://"):
        return _parse_url(destination)
    user, _, host = destination.rpartition("@")
    if "@" in destination and not _USER.fullmatch(user):
        raise UsageError(f"{destination!r}: before the @ stands no user name.")
    return Destination(_name(host, destination), user or None)


def _parse_url(url: str) -> Destination:
    match = _URL.fullmatch(url)
    if match is None:
        raise UsageError(f"{url!r} is no ssh address; write ssh://USER@HOST:PORT.")
    user, port = match["user"], match["port"]
    if port is not None and not 0 < int(port or 0) < 65536:
        raise UsageError(f"{url!r}: the port is a number from 1 to 65535.")
    if user is not None and not _USER.fullmatch(unquote(user)):
        raise UsageError(f"{url!r}: before the @ stands no user name.")
    return Destination(
        _name(match["host"].strip("[]"), url), unquote(user) if user else None, int(port) if port else None
    )


def _name(host: str, word: str) -> str:
    if not host:
        raise UsageError(f"{word!r} names no host.")
    if host.startswith("-"):
        raise UsageError(f"{word!r}: a host name cannot begin with a dash.")
    if not _NAME.fullmatch(host):
        raise UsageError(f"{word!r} is no host name; write it as ssh takes it, ranges as node[01-16].")
    return host


def _expand(word: str) -> Iterator[str]:
    match = next((m for m in _RANGES.finditer(word) if ":" not in m[1]), None)  # [::1] is an address
    if match is None:
        yield word
        return
    for number in _numbers(match[1], word):
        yield from _expand(word[: match.start()] + number + word[match.end() :])


def _numbers(ranges: str, word: str) -> Iterator[str]:
    for part in ranges.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise UsageError(
                f"{word!r}: {part.strip() or 'nothing'!r} in brackets is no number or range such as 01-16."
            )
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first):
            raise UsageError(f"{word!r}: the range {first}-{last} runs backwards.")
        if int(last) - int(first) >= MOST_HOSTS:
            raise UsageError(f"{word!r} names more than {MOST_HOSTS} hosts; is that range right?")
        yield from (str(n).zfill(len(first)) for n in range(int(first), int(last) + 1))
