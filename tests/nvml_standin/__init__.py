"""Builds a stand-in ``libnvidia-ml.so.1``, so that the real ``pynvml`` can be driven where there is no GPU.

What it shows is read, at each call, from the text file that ``GPUTOP_STANDIN`` names: one ``key value`` a line,
``K.name`` for GPU K. See ``nvml.c`` for the keys.
"""

from __future__ import annotations

import functools
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.conftest import need_program

SOURCE = Path(__file__).with_name("nvml.c")


@functools.cache
def library() -> Path:
    """Compile it once a run; returns the folder for ``LD_LIBRARY_PATH``."""
    compiler = need_program("gcc")
    folder = Path(tempfile.mkdtemp(prefix="nvml-standin-"))
    target = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-Wall", "-o", target, SOURCE], check=True)
    return folder


def environment(config: Path) -> dict[str, str]:
    """What a process needs in its environment to find the stand-in and its numbers."""
    return {"LD_LIBRARY_PATH": str(library()), "GPUTOP_STANDIN": str(config)}


def write(config: Path, numbers: Mapping[str, int | str]) -> None:
    """Replace what the GPUs show, at once as a whole."""
    scratch = config.with_suffix(".new")
    scratch.write_text("".join(f"{key} {value}\n" for key, value in numbers.items()))
    scratch.replace(config)
