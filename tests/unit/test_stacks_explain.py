"""What a tool said becomes one sentence that says what to do."""

from __future__ import annotations

import pytest

from tui.stacks.explain import abort_result, pyspy_error

SAID = {
    "Permission Denied: Try running again with elevated permissions by going 'sudo env …'": "SYS_PTRACE",
    "py-spy may not look into this process: run as root or as its owner (kernel.yama.ptrace_scope)": "SYS_PTRACE",
    "Error: Failed to get process executable name. Check that the process is running.": "it has ended, or is a zombie.",
    "Error: Bad address (os error 14)": "it is no Python process",
    "Error: Failed to suspend process 12: unexpected waitpid result": "stopped by a signal or a debugger",
    "py-spy gave no answer within 10 s": "was killed",
    "has ended": "it has ended",
    "has ended; its pid belongs to another process now": "another process by now",
    "something quite new": "py-spy failed: something quite new.",
}


@pytest.mark.parametrize("said", SAID)
def test_what_py_spy_said_is_explained(said: str) -> None:
    sentence = pyspy_error(said)
    assert SAID[said] in sentence
    assert sentence.endswith(".") and "\n" not in sentence


def test_yama_names_its_own_remedy() -> None:
    said = "Permission denied (os error 13)"
    assert "sysctl kernel.yama.ptrace_scope=0" in pyspy_error(said, 1)
    assert "ptrace_scope is 3" in pyspy_error(said, 3)
    assert "yama" not in pyspy_error(said, 0)


@pytest.mark.parametrize(
    ("result", "stderr", "found", "sentence"),
    [
        ("died", "/logs/rank0.log", True, None),
        ("died", "/logs/rank0.log", False, "faulthandler was off"),
        ("died", "/dev/pts/3", False, "leads to /dev/pts/3"),
        ("died", "pipe:[4711]", False, "cannot be read back"),
        ("died", "", False, "leads to nowhere"),
        ("alive", "/logs/rank0.log", False, "it lives on"),
        ("alive", "/logs/rank0.log", True, None),
        ("reused", "", False, "nothing was sent"),
        ("denied", "", False, "may not be signalled"),
        ("gone", "", False, "had ended before"),
        ("", "", False, "no answer"),
    ],
)
def test_what_the_signal_came_to_is_explained(result: str, stderr: str, found: bool, sentence: str | None) -> None:
    said = abort_result(result, stderr, found)
    assert (said is None) if sentence is None else sentence in (said or "")
