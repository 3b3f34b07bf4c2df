"""Fixtures of the live tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sshd import SshdFarm


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[SshdFarm]:
    """Real ssh daemons for one test; they end with it."""
    daemons = SshdFarm(tmp_path)
    try:
        yield daemons
    finally:
        daemons.stop()
