"""TOML by whichever module this Python has: ``tomllib`` from 3.11 on, ``tomli`` (the same code) before."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


def loads(text: str) -> dict[str, Any]:
    """The tables of ``text``.

    Raises: ValueError with the line and column where it is not TOML.
    """
    return import_module("tomllib" if sys.version_info >= (3, 11) else "tomli").loads(text)
