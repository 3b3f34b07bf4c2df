"""What SIGABRT would do to a process, in words, and whom it goes to.

The table itself is :mod:`tui.agent.sigabrt`: the agent applies it to all threads of a process before anything is sent;
here it is applied to what each tick shows.
"""

from __future__ import annotations

from typing import Final

from tui.agent import sigabrt as table
from tui.model import Proc

HOLD_ROLES: Final = frozenset({"driver", "launcher", "api", "engine_core", "data_parallel_controller"})
"""Parents of ranks that end the launch when one dies (torchrun's agent, the watchdogs of vLLM and SGLang): they are
held with SIGSTOP while the ranks print, and then let go."""

SENTENCES: Final = {
    "python_dump_then_death": "prints the Python stacks of all threads, then dies",
    "native_dump_then_death": "prints the native stacks of all threads, then dies",
    "single_stack_then_death": "prints the stack of one thread, then dies",
    "death_no_dump": "dies without printing anything",
    "ignored": "ignores it: nothing is printed, nothing dies",
    "blocked": "keeps it pending: nothing happens until the signal is unblocked",
    "handler": "runs a handler of its own, which cannot run while the main thread is stuck in C",
    "python_dump_and_life": "prints the Python stacks of all threads and lives on (the first process of a container)",
    "dump_blocked": "cannot print: its standard error is a full pipe that nobody reads; it lives on",
    "uninterruptible": "keeps it pending: every thread waits in the kernel without being interruptible",
    "worker_death": "dies without printing anything, and its rank with it",
    "ended": "has ended already",
}

MUTE: Final = frozenset({"death_no_dump", "worker_death"})
"""Effects that cost a process its life and give nothing."""


def sigabrt_effect(proc: Proc) -> str | None:
    """One of the keys of :data:`SENTENCES`, or ``None`` where the masks are not known."""
    if proc.state in ("Z", "X"):
        return "ended"
    if proc.sig_ignored is None or proc.sig_blocked is None or proc.sig_caught is None:
        return None
    return table.effect(proc.state, proc.sig_blocked, proc.sig_ignored, proc.sig_caught)
