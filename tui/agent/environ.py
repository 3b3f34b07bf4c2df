"""A process's environment as it was when it started; what a program sets later is not seen there."""

from . import procfs


def variables(pid: int, *beginnings: str) -> "dict[str, str]":
    """Those whose names begin so; none where it may not be read."""
    try:
        parts = procfs.text(procfs.read_all("/proc/%d/environ" % pid)).split("\0")
    except OSError:
        return {}
    found: "dict[str, str]" = {}
    for part in parts:
        name, equals, value = part.partition("=")
        if equals and name.startswith(beginnings):
            found[name] = value
    return found
