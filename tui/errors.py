"""Failures that a person can act on. Each carries one sentence that says what to do; only the edges print it."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes, the same for all subcommands."""

    READY = 0
    BUG = 1
    USAGE = 2
    HUNG = 10
    CRASHED = 11
    UNDECIDED = 12
    NO_HOST = 13
    NO_LAUNCH = 14
    ENDED = 15
    INTERRUPTED = 130


class GputopError(Exception):
    """A failure with a sentence for people: ``str(error)`` is what they read."""

    exit_code: Exit = Exit.BUG


class UsageError(GputopError):
    """The call's words are off, or a file that it names cannot be used."""

    exit_code = Exit.USAGE


class HostError(GputopError):
    """A host could not be reached or used.

    ``permanent`` means that trying again cannot help (authentication, changed key, unknown name, no Python): such a
    host is not tried again.
    """

    exit_code = Exit.NO_HOST

    def __init__(self, sentence: str, *, permanent: bool = False) -> None:
        super().__init__(sentence)
        self.permanent = permanent
