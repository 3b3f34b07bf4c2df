"""The configuration file ``config.toml``: what it says, and one sentence with line and column for what it may not."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tui.errors import UsageError
from tui.files import read_small
from tui.safetext import clean
from tui.thresholds import RULES_ALONE, Thresholds


def folder() -> Path:
    """The directory of everything that a person sets: ``~/.config/gputop-hang`` on Linux."""
    from platformdirs import user_config_path

    return user_config_path("gputop-hang")


@dataclass(frozen=True, slots=True)
class Notices:
    """How a change to ``suspect``, ``hung``, ``crashed`` or ``ready`` is told beside the screen.

    The defaults are what disturbs nobody: the window's title, and the bell for the first three. ``terminal`` may name
    the sequence, ``osc9`` or ``osc777``, where the terminal is not recognised. ``on_verdict`` is a program with its
    arguments; no shell reads it.
    """

    title: bool = True
    bell: bool = True
    terminal: bool | str = False
    desktop: bool = False
    on_verdict: tuple[str, ...] = ()


NO_NOTICES = Notices(title=False, bell=False)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the file says, with defaults for the rest. ``text`` is its content, ``None`` where there is no file."""

    path: Path | None = None
    text: str | None = None
    hosts: tuple[str, ...] = ()
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    logs: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    theme: str | None = None
    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    """Key by the id of the binding; the interface knows which ids there are."""

    thresholds: Thresholds = RULES_ALONE
    notices: Notices = Notices()

    def wrong(self, keys: Sequence[str], words: str) -> UsageError:
        """The error for a value whose fault only its user can see: ``words``, with the place of ``keys`` before it."""
        from tui.config.where import place_of

        place = place_of(self.text or "", keys)
        at = f", line {place[0]}, column {place[1]}" if place else ""
        return UsageError(f"{self.path}{at}: {clean(words, 400)}")

    def wrong_key(self, id: str, words: str) -> UsageError:
        """The same for the key of a binding, whose id may be written with its dots as tables."""
        from tui.config.where import place_of

        quoted = place_of(self.text or "", ("keys", id)) is not None
        return self.wrong(("keys", id) if quoted else ("keys", *id.split(".")), words)

    def host_words(self, words: Sequence[str]) -> list[str]:
        """The hosts that a command line means: groups (``@train``) written out; without any word, the file's hosts.

        Raises: UsageError where there is no group of that name.
        """
        found: list[str] = []
        for word in words or self.hosts:
            if word.startswith("@"):
                found += self._group(word)
            else:
                found.append(word)
        return found

    def _group(self, word: str) -> tuple[str, ...]:
        if word[1:] in self.groups:
            return self.groups[word[1:]]
        there = ", ".join(f"@{name}" for name in self.groups)
        raise UsageError(f"{word} is no group of {self.path}; there {f'are {there}' if there else 'is none'}.")

    def log_words(self, hosts: Sequence[str]) -> list[str]:
        """The logs of these hosts as the command line would give them, ``HOST:PATH``; of this machine where none."""
        from tui.collect.hosts import expand

        here = ("localhost", ".", socket.gethostname())
        wanted = set(expand(*hosts)) if hosts else set(here)
        return [
            path if not hosts else f"{host}:{path}"
            for word, paths in self.logs.items()
            for host in expand(*self.host_words([word]))
            if host in wanted
            for path in paths
        ]


def load(path: Path | None = None) -> Settings:
    """The configuration at ``path``, or where it lies by default. A missing file is no fault.

    Raises: UsageError with place, fault and remedy in one sentence.
    """
    path = path or folder() / "config.toml"
    try:
        text = read_small(path)
    except FileNotFoundError:
        return Settings(path)
    except (OSError, UnicodeDecodeError) as error:
        what = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise UsageError(f"{path} cannot be read: {what}; correct it, or move it away to go on without it.") from error
    from tui.config.reading import read  # not before there is something to read: the first picture waits for it

    return read(path, text)
