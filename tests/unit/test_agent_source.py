"""The agent's source runs on old hosts and depends on nothing that is not there; the boot line survives any shell."""

from __future__ import annotations

import ast
import json
import sys
import zlib
from pathlib import Path

import pytest

from tui.collect import payload

AGENT = Path(payload.__file__).resolve().parent.parent / "agent"
FILES = sorted(AGENT.glob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_parses_as_python_3_6(path: Path) -> None:
    """No syntax that a watched host's Python 3.6 does not know."""
    ast.parse(path.read_text(), feature_version=(3, 6))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_imports_only_the_standard_library_and_what_travels_along(path: Path) -> None:
    """Relative imports stay inside the agent; nothing of ``tui``, nothing to be installed."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            assert node.level == 1
            names = [node.module] if node.module else [alias.name for alias in node.names]
            assert all((AGENT / f"{name}.py").exists() for name in names)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            roots = {module.split(".")[0] for module in modules}
            assert roots <= sys.stdlib_module_names | {"pynvml", "gputop_hang_agent"}


def test_the_boot_line_has_nothing_that_a_shell_would_touch() -> None:
    """Between its single quotes: no quote, backslash, newline, and none of csh's history; no dollar in the Python."""
    inner = payload.BOOT.removeprefix("exec sh -c '").removesuffix("'")
    assert not set("'\\\n!`") & set(inner)
    python = payload.local_command()[-1]
    assert python in inner
    assert "$" not in python
    assert len(payload.BOOT) < 1000


def test_the_payload_is_whole_and_small() -> None:
    """Every module of the agent travels, and pynvml; built once; under 125 kB."""
    whole = payload.payload()
    assert whole == payload.payload()
    assert len(whole) < 125_000
    modules: dict[str, str] = json.loads(zlib.decompress(record(whole, b"modules")))
    assert modules.pop("gputop_hang_agent") == ""
    assert set(modules) == {f"gputop_hang_agent.{path.stem}" for path in FILES} - {
        "gputop_hang_agent.stage", "gputop_hang_agent.__init__",
    }  # fmt: skip
    for name, carried in modules.items():
        assert meaning(carried) == meaning((AGENT / f"{name.partition('.')[2]}.py").read_text()), name
    pynvml = zlib.decompress(record(whole, b"pynvml")).decode()
    assert meaning(pynvml) == meaning(Path(payload._pynvml()).read_text())
    assert whole.endswith(b"00000000")


def record(whole: bytes, name: bytes) -> bytes:
    """What a record of the payload holds, compressed."""
    at = whole.index(name + b"\n")
    return whole[at + len(name) + 1 : at + int(whole[at - 8 : at])]


def meaning(source: str) -> str:
    """All that a program does and in which line, but not what is said in docstrings and comments."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            node.value = ast.Constant("")
    lines = [getattr(node, "lineno", 0) for node in ast.walk(tree) if isinstance(node, (ast.Call, ast.FunctionDef))]
    return ast.dump(tree) + str(lines)
