"""What a tool said when it failed, as the one sentence that helps. Words as in py-spy 0.4.x and Linux."""

from __future__ import annotations

import re

_STOPPED = "it is stopped by a signal or a debugger (state T)"


def pyspy_error(said: str, ptrace_scope: int | None = None) -> str:
    """Why py-spy gave no stack, and what to do. ``ptrace_scope`` is that host's ``kernel.yama.ptrace_scope``."""
    if re.search(r"[Pp]ermission|not permitted|may not look|EPERM|EACCES|os error (1|13)\b", said):
        if ptrace_scope == 1:
            return (
                "py-spy may not read it: kernel.yama.ptrace_scope is 1 there; log in as root or give --sudo, or have "
                "root run “sysctl kernel.yama.ptrace_scope=0”."
            )
        if ptrace_scope == 2:
            return "py-spy may not read it: kernel.yama.ptrace_scope is 2 there; log in as root or give --sudo."
        if ptrace_scope == 3:
            return (
                "py-spy may not read it: kernel.yama.ptrace_scope is 3 there, which forbids it to root too until the "
                "next boot; SIGABRT (A) still brings stacks."
            )
        return (
            "py-spy may not read it: log in as the user who started it or as root, or give --sudo; a container needs "
            "the capability SYS_PTRACE."
        )
    if re.search(r"reused|another process", said):
        return "its pid belongs to another process by now: look again."
    if re.search(r"executable name|No such (process|file)|os error (2|3)\b|\bgone\b|\bended\b", said):
        return "it has ended, or is a zombie."
    if re.search(r"unexpected waitpid|Failed to suspend", said):
        return f"py-spy could not read it: {_STOPPED}."
    if re.search(r"Bad address|os error 14|[Ff]ailed to find (a )?[Pp]ython|python version|not a python", said):
        return "it is no Python process, or one of a version that this py-spy does not know."
    if re.search(r"tim(ed|e).?out|within \d|late", said):
        return "py-spy did not come to an end in time and was killed."
    return f"py-spy failed: {said.strip().rstrip('.')[:300]}."


def abort_result(result: str, stderr: str, found: bool) -> str | None:
    """What SIGABRT came to where it left no dump; ``None`` where nothing needs saying. ``stderr``: where its standard
    error leads."""
    if result == "died":
        if found:
            return None
        if not stderr.startswith("/") or stderr.startswith(("/dev/pts", "/dev/tty", "/dev/null")):
            return (
                f"it died, and what it printed cannot be read back: its standard error leads to {stderr or 'nowhere'}."
            )
        return "it died without a dump: faulthandler was off (start it with PYTHONFAULTHANDLER=1)."
    if result == "alive":
        return "it lives on: the signal is ignored, blocked, or handled by code that cannot run." if not found else None
    return {
        "gone": "it had ended before.",
        "reused": "its pid belongs to another process by now: nothing was sent.",
        "denied": "it may not be signalled: log in as the user who started it, or as root.",
    }.get(result, f"the signal came to nothing: {result or 'no answer'}.")
