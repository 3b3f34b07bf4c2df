"""Which command names are compilers: what kernel and extension builds run as children."""

from __future__ import annotations

import re

_COMPILER = re.compile(
    r"^(?:nvcc|cicc|ptxas|fatbinary|cudafe\+\+|nvlink|bin2c|ninja|make|cmake|cc1plus|cc1|c\+\+|g\+\+|gcc|cc|as|ld|lld|"
    r"ld\.lld|collect2|hipcc|clang(?:[+-].*)?|lto1|rustc|x86_64-.*-(?:g\+\+|gcc)|.*-ninja|cl\.exe)(?:[.-]?\d+)*$"
)


def is_compiler(comm: str) -> bool:
    """Whether ``comm`` (as the kernel cuts it, 15 characters) belongs to a build: its CPU is a build's progress."""
    return _COMPILER.match(comm) is not None
