"""Every case in one session, side by side: the right verdict with the right cause, and never the wrong one.

The table of all that was said stands in the output of this test (``pytest -rA``), and ``python -m tests.live.truth``
prints it with each step.
"""

from __future__ import annotations

import asyncio
import importlib.util
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import missing, need_program
from tests.live.truth import gaps
from tests.live.truth.__main__ import SECONDS, everything
from tests.live.truth.cases import CASES
from tests.live.truth.launching import Stage
from tests.live.truth.report import course_text, table
from tests.live.truth.watching import Course, faults

Told = tuple[dict[str, Course], dict[str, gaps.Gap]]

HOWS = [(case.name, how) for case in CASES for how in ("", "late", *(("gpus",) if case.gpus else ()))]
NAMES = [name + (f" ({how})" if how else "") for name, how in HOWS]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """What live monitors said of all cases, and through all gaps."""
    if not sys.platform.startswith("linux"):
        pytest.skip("watched hosts are Linux")
    if importlib.util.find_spec("torch") is None:
        missing("needs torch (the extra 'torch', see CONTRIBUTING)")
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        missing("needs the headers of Python, to build an extension")
    for program in ("c++", "ninja", "tee", "sshd"):
        need_program(program, str(Path(sys.executable).parent))
    stage = Stage(tmp_path_factory.mktemp("truth"))
    try:
        courses, gone_through = asyncio.run(everything(stage, [], SECONDS))
    finally:
        stage.stop()
    print(table(courses))
    yield {course.name: course for course in courses}, {gap.name: gap for gap in gone_through}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_said_is_true(told: Told, name: str) -> None:
    course = told[0][name]
    if course.skipped:
        pytest.skip(course.skipped)
    assert not faults(course), course_text(course)


@pytest.mark.parametrize("name", ["sshd-killed", "monitor-suspended"])
def test_a_gap_in_observation_alarms_nobody_and_does_not_count(told: Told, name: str) -> None:
    assert not gaps.faults(told[1][name]), gaps.text(told[1][name])
