"""What SIGABRT would do to a process, read from its signal masks before anything is sent.

The masks are those of ``/proc/PID/status`` (bit = signal number - 1; proc(5)). The handler sets were read off running
processes: CPython's ``faulthandler.enable`` (3.6 to 3.15) takes ILL, ABRT, BUS, FPE and SEGV; PyTorch 2.13's
``_set_print_stack_traces_on_fatal_signal`` takes USR2 as well; Ray 2.60's absl handler takes TRAP and TERM.
"""

from __future__ import annotations

from typing import Final

from tui.model import Proc

ABRT: Final = 0x20
_FAULTHANDLER: Final = 0x4E8
_TORCH: Final = _FAULTHANDLER | 0x800
_RAY: Final = _FAULTHANDLER | 0x10 | 0x4000

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
    "ended": "has ended already",
}


def sigabrt_effect(proc: Proc) -> str | None:
    """One of the keys of :data:`SENTENCES`, or ``None`` where the masks are not known."""
    if proc.state in ("Z", "X"):
        return "ended"
    if proc.sig_ignored is None or proc.sig_blocked is None or proc.sig_caught is None:
        return None
    if proc.sig_ignored & ABRT:
        return "ignored"
    if proc.sig_blocked & ABRT:
        return "blocked"
    caught = proc.sig_caught
    if not caught & ABRT:
        return "death_no_dump"
    if caught & _RAY == _RAY:
        return "single_stack_then_death"
    if caught & _TORCH == _TORCH:
        return "native_dump_then_death"
    return "python_dump_then_death" if caught & _FAULTHANDLER == _FAULTHANDLER else "handler"
