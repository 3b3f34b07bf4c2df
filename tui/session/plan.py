"""From the words of the command line to what shall be watched, and how it is reached."""

from __future__ import annotations

import argparse
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tui.collect.local import LocalChannel
from tui.errors import UsageError
from tui.thresholds import RULES_ALONE, Thresholds

if TYPE_CHECKING:
    from tui.collect.channel import Channel
    from tui.demo.launch import DemoLaunch

LOCAL_NAMES = ("localhost", ".")
"""Hosts that are this machine; anything else goes over ssh, ``127.0.0.1`` too."""

MANY_HOSTS = 16
"""More are looked at every two seconds: it halves what a fleet costs the monitor, and what the monitor costs them."""


@dataclass(frozen=True, slots=True)
class Plan:
    """``pids`` and ``logs`` are (host or None for any host, value). ``least`` is the user's own patience."""

    channels: tuple[tuple[str, Channel], ...]
    interval_s: float = 1.0
    pids: tuple[tuple[str | None, int], ...] = ()
    logs: tuple[tuple[str | None, str], ...] = ()
    ports: tuple[int, ...] = ()
    least: Thresholds = RULES_ALONE

    def start_local(self) -> None:
        """Start the agent on this machine now, before slower imports; elsewhere it starts with the connection."""
        for _, channel in self.channels:
            if isinstance(channel, LocalChannel):
                channel.start()


def plan_hosts(options: argparse.Namespace) -> Plan:
    """Raises: UsageError with a sentence on the word that cannot be used."""
    words: list[str] = options.hosts
    sudo = bool(getattr(options, "sudo", False))
    channels = _channels(words, sudo) if words else [(_here(), LocalChannel(sudo=sudo))]
    names = frozenset(name for name, _ in channels)
    return Plan(
        channels=tuple(channels),
        interval_s=_interval_s(options, len(channels)),
        pids=tuple(_pid(word, names) for word in getattr(options, "pid", ())),
        logs=tuple(_log(word, names) for word in getattr(options, "log", ())),
        ports=tuple(getattr(options, "port", ())),
    )


def _interval_s(options: argparse.Namespace, hosts: int) -> float:
    """A command without an interval of its own looks for a few seconds only: two looks of many hosts give no rate."""
    if not hasattr(options, "interval"):
        return 1.0
    return options.interval or usual_interval_s(hosts)


def usual_interval_s(hosts: int) -> float:
    """Seconds between looks where none are asked for."""
    return 2.0 if hosts > MANY_HOSTS else 1.0


def plan_demo(launch: DemoLaunch) -> Plan:
    """Watch the demo's launch here; GPU readings are simulated from its processes where there is no driver."""
    channel = LocalChannel(simulate=launch.simulation())
    return Plan(channels=((_here(), channel),), pids=((None, launch.parent_pid),))


def split_host(word: str, names: Iterable[str]) -> tuple[str | None, str]:
    """``HOST:REST`` where HOST is one of ``names`` (they may hold colons themselves), else ``(None, word)``."""
    for name in sorted(names, key=len, reverse=True):
        if word.startswith(f"{name}:"):
            return name, word[len(name) + 1 :]
    return None, word


def _channels(words: list[str], sudo: bool) -> list[tuple[str, Channel]]:
    from tui.collect.hosts import expand
    from tui.collect.ssh import SshChannel, SshPool

    pool = SshPool()
    channels: dict[str, Channel] = {}
    for name in (name for word in words for name in expand(word)):
        channels[name] = LocalChannel(sudo=sudo) if name in LOCAL_NAMES else SshChannel(name, pool, sudo=sudo)
    return list(channels.items())


def _log(word: str, names: Iterable[str]) -> tuple[str | None, str]:
    host, path = split_host(word, names)
    if not path or "\0" in path:
        raise UsageError(f"--log {word!r}: the path of a log, or HOST:PATH where HOST is one of the hosts given")
    return host, path


def _pid(word: str, names: Iterable[str]) -> tuple[str | None, int]:
    host, number = split_host(word, names)
    if not number.isdecimal() or not 0 < int(number) < 1 << 31:
        raise UsageError(f"--pid {word}: a process number, or HOST:NUMBER where HOST is one of the hosts given")
    return host, int(number)


def _here() -> str:
    return socket.gethostname() or "localhost"
