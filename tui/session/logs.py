"""Where a launch writes its log: the files behind descriptors 1 and 2 of its processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tui.model import Identity, LogRef
from tui.session.parts import Part

MAX_LOGS = 64
"""Logs of one launch on one host that are followed; a job with a file per rank stays below."""

_DELETED = " (deleted)"
_NO_LOG = ("/dev/", "/proc/", "/sys/", "/memfd:")


def find_logs(parts: Sequence[Part]) -> list[LogRef]:
    """The logs of a launch, per host the best first: what most of its processes have as standard error.

    Standard error counts twice: SGLang logs there, and tracebacks, faulthandler's dumps and vLLM's bars go there too.
    """
    refs: list[LogRef] = []
    for host in dict.fromkeys(part.host for part in parts):
        weights: dict[tuple[str, str], int] = {}
        for identity, is_rank in _writers(part for part in parts if part.host == host):
            for weight, path, found in _files(identity):
                weights[path, found] = weights.get((path, found), 0) + weight * (2 if is_rank else 1)
        best: dict[str, str] = {}
        for path, found in sorted(weights, key=lambda entry: -weights[entry]):
            best.setdefault(path, found)
        refs += [LogRef(host, path, found) for path, found in list(best.items())[:MAX_LOGS]]
    return refs


def _writers(parts: Iterable[Part]) -> Iterator[tuple[Identity, bool]]:
    for part in parts:
        ranks = {key for key, member in part.members.items() if member.role == "rank"}
        for key in sorted(part.identities, key=lambda key: (key not in ranks, part.members[key].rank or 0, key)):
            yield part.identities[key], key in ranks


def _files(identity: Identity) -> Iterator[tuple[int, str, str]]:
    """(weight, path, how it was found). A deleted file is read through the descriptor of a process that has it open."""
    for weight, number, where, name in ((2, 2, identity.stderr, "stderr"), (1, 1, identity.stdout, "stdout")):
        if where.endswith(_DELETED) and where.startswith("/"):
            yield weight, f"/proc/{identity.pid}/fd/{number}", f"{name}, deleted: {where.removesuffix(_DELETED)}"
        elif where.startswith("/") and not where.startswith(_NO_LOG):
            yield weight, where, name
    for path in identity.pipe_files:
        if path.startswith("/") and not path.startswith(_NO_LOG):
            yield 1, path, "pipe reader"
