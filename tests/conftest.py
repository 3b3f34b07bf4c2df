"""What all tests share: finding programs, and failing instead of skipping where everything must be there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("beside_live_jobs", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("beside_live_jobs")  # real jobs run on the other core: no speed is a fault here

REQUIRE_ALL = os.environ.get("GPUTOP_HANG_REQUIRE_ALL") == "1"


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Under ``-n``: the live tests stay together, in their order, and never run beside each other; another process runs
    the other files meanwhile."""
    live = Path(__file__).parent / "live"
    for item in items:
        item.add_marker(pytest.mark.xdist_group("live" if live in item.path.parents else item.path.name))


def need_program(name: str, *more_places: str) -> str:
    """The path of a program; where it is missing the test is skipped, or fails under ``GPUTOP_HANG_REQUIRE_ALL=1``."""
    path = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin", *more_places]))
    if path is None:
        missing(f"needs the program {name}")
    return path


def need_torch() -> None:
    """Skips, or fails, where PyTorch is not installed beside the tests; it is started in processes, never imported."""
    if find_spec("torch") is None:
        missing("needs PyTorch: pip install -e '.[torch]'")


def missing(reason: str) -> NoReturn:
    """Skip for want of something, or fail where nothing may be missing."""
    if REQUIRE_ALL:
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session", autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test learns from the launches of whoever runs the tests, nor teaches their monitor."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session", autouse=True)
def own_config(own_state: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test is run under the configuration of whoever runs the tests, nor greeted as a person who is new here."""
    state = Path(os.environ["XDG_STATE_HOME"], "gputop-hang")
    state.mkdir(exist_ok=True)
    (state / "greeted").touch()
    before = os.environ.get("XDG_CONFIG_HOME")
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("config"))
    yield
    os.environ.pop("XDG_CONFIG_HOME")
    if before is not None:
        os.environ["XDG_CONFIG_HOME"] = before
