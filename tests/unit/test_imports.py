"""Who may import what: each claim is proved in a fresh interpreter, since imports leave traces in this one."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tui
from tui.collect.payload import _PACKAGE

ROOT = Path(tui.__file__).parent
HEAVY = ("textual", "asyncssh", "rich", "psutil", "pynvml", "hypothesis")


def modules_after(statement: str) -> set[str]:
    """The names of all modules that are imported once ``statement`` has run."""
    code = f"{statement}\nimport sys; print(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def loaded_after(statement: str) -> set[str]:
    """The top-level names of them."""
    return {name.split(".")[0] for name in modules_after(statement)}


def within(modules: set[str], *packages: str) -> set[str]:
    return {name for name in modules for package in packages if name == package or name.startswith(f"{package}.")}


def modules_below(*packages: str) -> list[str]:
    names: list[str] = []
    for package in packages:
        base = ROOT / package
        files = base.rglob("*.py") if base.is_dir() else [base.with_suffix(".py")]
        names += [".".join(file.relative_to(ROOT.parent).with_suffix("").parts) for file in files]
    return sorted(name.removesuffix(".__init__") for name in names)


def test_the_core_needs_the_standard_library_alone() -> None:
    """Model, history, cleaning, diagnosis, stacks, past launches: used, tested and replayed with nothing installed."""
    core = modules_below("model", "history", "safetext", "errors", "diagnose", "stacks", "record")
    assert len(core) > 10
    loaded = loaded_after(f"import {', '.join(core)}")
    assert not loaded & set(HEAVY)


@pytest.mark.parametrize("package", ["session", "headless", "collect", "demo", "cli", "config", "notices"])
def test_only_the_interface_imports_textual(package: str) -> None:
    loaded = loaded_after(f"import {', '.join(modules_below(package))}")
    assert "textual" not in loaded


def test_asyncssh_waits_until_a_host_needs_it() -> None:
    """Its 250 ms must not stand before the first picture."""
    everything = modules_below("session", "collect", "headless", "cli", "ui")
    assert "asyncssh" not in loaded_after(f"import {', '.join(everything)}")


FIRST_PICTURE = """
from tui.config import settings
from tui.session.plan import plan_hosts
from tui.ui.app import GputopApp

def open_session():
    import os, sys
    print(*sys.modules, file=sys.__stdout__, flush=True)
    os._exit(0)

GputopApp(open_session).run(headless=True, size=(200, 50))
"""


def test_the_first_picture_waits_for_nothing_that_it_does_not_show() -> None:
    loaded = modules_after(FIRST_PICTURE)
    assert "tui.ui.screens.main" in loaded
    judging = within(loaded, "tui.model", "tui.history", "tui.diagnose", "tui.record", "tui.stacks", "tui.demo")
    assert not judging
    assert not within(
        loaded, "tui.session.live", "tui.ui.screens.dumps", "tui.ui.screens.fleet", "sqlite3", *HEAVY[1:2]
    )


def test_the_first_readings_wait_for_nothing_that_judges() -> None:
    loaded = modules_after("import tui.session.live")
    assert not within(loaded, "tui.diagnose", "tui.history", "tui.record", "tui.session.launches", "sqlite3")


def test_the_agent_stands_alone() -> None:
    """Nothing on a watched host has our package: the agent may import its own modules and the standard library."""
    for file in (ROOT / "agent").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            for name in names:
                assert name.split(".")[0] in sys.stdlib_module_names | {"pynvml", _PACKAGE}, f"{file.name}: {name}"


def test_every_module_imports() -> None:
    names = [name for name in modules_below("") if not name.endswith("__main__") and ".agent" not in name]
    subprocess.run([sys.executable, "-c", f"import {', '.join(names)}"], check=True)
