"""Diagnosis rights: what can be looked at when a launch hangs, and what a signal would do to it."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from tui.headless.checks.finding import Finding, Seen, counted, missing, plural, ranges
from tui.model import LaunchView, ProcView
from tui.session.pyspy_there import ours
from tui.stacks.sigabrt import SENTENCES
from tui.untyped import integer, listed, text

CAP_SYS_PTRACE = 1 << 19
"""capabilities(7)."""

PIDS_SHOWN = 80
"""Columns of the numbers of processes that share one fate."""


def rights(seen: Seen) -> Iterator[Finding]:
    answer = seen.answer("rights")
    yield from missing(seen, "rights", "stacks, core files and the kernel's log")
    if answer:
        yield from _ptrace(seen, answer)
        yield from _py_spy(answer)
    yield from _kernel_log(seen)
    mine = [view for view in seen.launches if seen.host.name in view.launch.hosts]
    for view in mine:
        yield from _log(seen, view)
    members = seen.members
    if not members:
        yield Finding("ok", "no launch is seen there; while one runs, this also says what a signal would do to it")
    by_effect: dict[str | None, list[ProcView]] = {}
    for process in members:
        by_effect.setdefault(process.sigabrt, []).append(process)
    for effect, those in sorted(by_effect.items(), key=lambda item: item[0] or ""):
        yield _sigabrt(effect, those, len(members))
    if answer and members:
        yield from _cores(seen, answer, members)


def _ptrace(seen: Seen, rights: Mapping[str, Any]) -> Iterator[Finding]:
    """The rights that py-spy needs (ptrace(2), PTRACE_MODE_ATTACH; Documentation/admin-guide/LSM/Yama.rst)."""
    try:
        capable = int(text(rights.get("cap_eff")) or "0", 16) & CAP_SYS_PTRACE
    except ValueError:
        capable = 0
    scope, uid = text(rights.get("ptrace_scope")) or "0", integer(rights.get("uid"))
    if capable:
        yield Finding("ok", "stacks: of any process (CAP_SYS_PTRACE)")
    elif scope == "0":
        yield Finding("ok", "stacks: of this user's own processes (kernel.yama.ptrace_scope is 0)")
    elif scope == "3":
        do = "Only a reboot without that setting changes it; SIGABRT still shows stacks where faulthandler is on."
        yield Finding("problem", "stacks: none, kernel.yama.ptrace_scope is 3", do)
    else:
        do = "Let this user's processes be looked at (until the next boot), or watch as root:"
        what = "only root's py-spy may look" if scope == "2" else "only children may be looked at"
        yield Finding("problem", f"stacks: none, kernel.yama.ptrace_scope is {scope} ({what})", do, _SCOPE)
    if not capable and seen.container and uid == 0:
        do = "Give the container the right, or watch its host instead:"
        yield Finding(
            "note", "stacks: root without CAP_SYS_PTRACE in a container", do, "docker run --cap-add SYS_PTRACE …"
        )
    others = [p for p in seen.members if not capable and _uid(seen, p.pid) not in (None, uid)]
    if others:
        pids = ", ".join(str(p.pid) for p in others[:4]) + (" …" if len(others) > 4 else "")
        do = "Watch as their owner or as root: name the host as root@HOST."
        yield Finding(
            "problem",
            f"stacks: not of {plural(len(others), 'process', 'processes')} of launches of another user (pid {pids})",
            do,
        )


_SCOPE = "sudo sysctl kernel.yama.ptrace_scope=0"


def _uid(seen: Seen, pid: int) -> int | None:
    return integer((seen.process(pid) or {}).get("uid"))


def _py_spy(rights: Mapping[str, Any]) -> Iterator[Finding]:
    found, there = text(rights.get("py_spy")), text(rights.get("machine")) or "unknown"
    refused = text(rights.get("memory_program"))
    if found:
        yield Finding("ok", f"py-spy: there, {found}")
    elif ours() is None:
        yield Finding("problem", "py-spy: neither there nor here", "Install it in either place:", "pip install py-spy")
    elif sys.platform != "linux" or platform.machine() != there:
        here = f"{platform.system()} {platform.machine()}"
        yield Finding(
            "problem",
            f"py-spy: not there, and ours is for {here}, not Linux {there}",
            "Install it there:",
            "pip install py-spy",
        )
    elif refused:
        yield Finding(
            "problem",
            f"py-spy: not there, and a program that is sent may not run ({refused}; noexec /tmp or vm.memfd_noexec)",
            "Install it there, on a file system that may execute:",
            "pip install py-spy",
        )
    else:
        tried = " (tried: it would run)" if refused is None else ""
        yield Finding("ok", f"py-spy: not there; ours is sent into memory when needed{tried}")


def _kernel_log(seen: Seen) -> Iterator[Finding]:
    yield from missing(seen, "kernel_log", "the kernel's log")
    answer = seen.answer("kernel_log")
    if answer.get("readable") is True:
        yield Finding("ok", "kernel log: readable, so Xids, OOM kills and dead disks are seen")
    elif answer:
        yield Finding(
            "note",
            f"kernel log: not readable ({text(answer.get('why')) or 'unknown why'}); Xids and OOM kills stay unseen",
            "Watch as root, or let all users read it (until the next boot):",
            "sudo sysctl kernel.dmesg_restrict=0",
        )


def _log(seen: Seen, view: LaunchView) -> Iterator[Finding]:
    here = [process for process in seen.members if process.launch == view.launch.id]
    ranks = sum(process.rank is not None for process in here)
    what = counted(ranks, "rank") if ranks else plural(len(here), "process", "processes")
    name = f"launch {view.launch.name} ({what} here)"
    logs = [log for log in view.logs if log.host == seen.host.name]
    for log in logs:
        if log.error:
            do = "Let this user read it, or name another:"
            yield Finding("problem", f"{name}: log {log.path}: {log.error}", do, _named(seen))
        else:
            yield Finding("ok", f"{name}: log {log.path}")
    if logs:
        yield from _lost_stderr(seen, name, here)
    if logs or not here:
        return
    first = seen.process(here[0].pid) or {}
    out, err = text(first.get("stdout")), text(first.get("stderr"))
    if out is None and err is None:
        yield Finding(
            "problem",
            f"{name}: no log; where its output goes is not to be seen by this user",
            "Its phases stay unknown. Log in as the user who started it or as root, or name the file that it writes:",
            _named(seen),
        )
        return
    leads = _leads(out) if out == err else f"{_leads(out)} and {_leads(err)}"
    yield Finding(
        "problem",
        f"{name}: no log; its output goes to {leads}, which cannot be read again",
        "Its phases stay unknown. Start it with its output in a file, or name the file that it writes:",
        _named(seen),
    )


def _lost_stderr(seen: Seen, name: str, here: list[ProcView]) -> Iterator[Finding]:
    """What SIGABRT has a process print goes to its stderr, which need not be the log."""
    by_place: dict[str, list[int]] = {}
    for process in here:
        target = text((seen.process(process.pid) or {}).get("stderr"))
        if target is not None and (target == "/dev/null" or _is_terminal(target) or target.startswith("socket:")):
            by_place.setdefault(_leads(target), []).append(process.pid)
    for place, pids in by_place.items():
        what = f"{name}: stderr of {plural(len(pids), 'process', 'processes')} goes to {place}"
        do = "What SIGABRT has them print cannot be read there; start the next launch with it in the log:"
        yield Finding("note", what, do, "… > LOG 2>&1")


def _named(seen: Seen) -> str:
    return f"gputop-hang --log {seen.host.name}:PATH {seen.host.name}"


def _is_terminal(target: str) -> bool:
    return "/dev/pts/" in target or "(device)" in target


def _leads(target: str | None) -> str:
    if target is None:
        return "an unknown place"
    if _is_terminal(target):
        return f"a terminal ({target.removesuffix(' (device)')})"
    if target.startswith("socket:"):
        return "a socket (a service or container manager: see journalctl, docker logs)"
    if target.startswith("pipe:"):
        return "a pipe whose reader writes no file"
    return target


def _sigabrt(effect: str | None, those: list[ProcView], of: int) -> Finding:
    pids = ranges(sorted(process.pid for process in those))
    pids = pids if len(pids) <= PIDS_SHOWN else pids[:PIDS_SHOWN].rpartition(", ")[0] + " …"
    of_them = "" if len(those) == of else f" of {of}"
    who = f"SIGABRT to {len(those)}{of_them} processes of launches (pid {pids})"
    if effect is None:
        return Finding("unknown", f"{who}: their signal masks were not read")
    if effect in ("python_dump_then_death", "native_dump_then_death", "single_stack_then_death", "ended"):
        return Finding("ok", f"{who}: each {SENTENCES[effect]}")
    do = "For stacks at the end of a hang start the next launch with:"
    return Finding("note", f"{who}: each {SENTENCES[effect]}", do, "export PYTHONFAULTHANDLER=1")


def _cores(seen: Seen, rights: Mapping[str, Any], members: tuple[ProcView, ...]) -> Iterator[Finding]:
    """Where core files of a process that dies by itself would go. An abort from here writes none: it forbids them."""
    pattern = text(rights.get("core_pattern"))
    limits = [next(iter(listed((seen.process(p.pid) or {}).get("core_limit"))), None) for p in members]
    writing = [process for process, soft in zip(members, limits, strict=True) if soft not in ("0", None)]
    if pattern is None or None in limits:
        yield Finding("unknown", "core files: limits or core_pattern could not be read")
    elif pattern.startswith("|"):
        program = next(iter(pattern[1:].split()), "a program")
        do = "That may take minutes for its memory. An abort from here avoids it."
        yield Finding("note", f"core files: a process that dies is piped into {program}", do)
    elif writing:
        where = pattern if pattern.startswith("/") else f"“{pattern}” in its folder"
        do = "That takes minutes and disk. An abort from here avoids it; else start the next launch with:"
        who = plural(len(writing), "process writes", "processes write")
        yield Finding("note", f"core files: {who} all memory to {where} when dying", do, "ulimit -c 0")
    else:
        yield Finding("ok", "core files: none are written (limit 0)")
