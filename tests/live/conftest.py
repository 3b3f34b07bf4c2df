"""Fixtures of the live tests."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.live.truth.aside import Aside
from tests.sshd import SshdFarm


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[SshdFarm]:
    """Real ssh daemons for one test; they end with it."""
    daemons = SshdFarm(tmp_path)
    try:
        yield daemons
    finally:
        daemons.stop()


@pytest.fixture(scope="session")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aside]:
    """The cases of tests/live/truth, running beside the tests that follow."""
    aside = Aside(tmp_path_factory.mktemp("truth"))
    try:
        yield aside
    finally:
        aside.stop()


@pytest.fixture
def beside_truth(request: pytest.FixtureRequest) -> None:
    """For a long test that sleeps: where the cases of truth are to come as well, they begin now."""
    if find_spec("torch") and any("truth/test_truth.py" in item.nodeid for item in request.session.items):
        request.getfixturevalue("truth")
