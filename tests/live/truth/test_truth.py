"""Every case in one session, side by side: the right verdict with the right cause, and never the wrong one.

The table of all that was said stands in the output of this test (``pytest -rA``), and ``python -m tests.live.truth``
prints it with each step.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import missing, need_program, need_torch
from tests.live.truth.cases import CASES

HOWS = [(case.name, how) for case in CASES for how in ("", "late", *(("gpus",) if case.gpus else ()))]
NAMES = [name + (f" ({how})" if how else "") for name, how in HOWS]


@pytest.fixture(scope="module")
def told(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What live monitors said of all cases, and through all gaps."""
    if not sys.platform.startswith("linux"):
        pytest.skip("watched hosts are Linux")
    need_torch()
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        missing("needs the headers of Python, to build an extension")
    for program in ("c++", "ninja", "tee", "sshd"):
        need_program(program, str(Path(sys.executable).parent))
    result: dict[str, Any] = request.getfixturevalue("truth").result()
    print(result["table"])
    return result


@pytest.mark.parametrize("name", NAMES)
def test_what_is_said_is_true(told: dict[str, Any], name: str) -> None:
    course = told["courses"][name]
    if course["skipped"]:
        pytest.skip(course["skipped"])
    assert not course["wrong"], course["text"]


@pytest.mark.parametrize("name", ["sshd-killed", "monitor-suspended"])
def test_a_gap_in_observation_alarms_nobody_and_does_not_count(told: dict[str, Any], name: str) -> None:
    assert not told["gaps"][name]["wrong"], told["gaps"][name]["text"]
