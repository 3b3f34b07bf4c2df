"""Themes are data: TOML files with a name and colours, checked when they are read.

The shipped ones lie in ``tui/themes`` of an installed package and in ``themes`` of a source tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from textual.color import Color, ColorParseError
from textual.theme import BUILTIN_THEMES, Theme

from tui import toml
from tui.errors import UsageError
from tui.files import read_small
from tui.ui.palette import OWN_VARIABLES

DEFAULT = "dusk"
SIXTEEN = "ansi"
"""The theme for terminals with sixteen colours or fewer."""

COLOURLESS = "mono"
"""The theme for NO_COLOR: bold, reverse and the terminal's own two colours."""

COLOURS = (
    "primary",
    "secondary",
    "warning",
    "error",
    "success",
    "accent",
    "foreground",
    "background",
    "surface",
    "panel",
)
KEYS = {"name", "dark", "ansi", "variables", *COLOURS}


def shipped() -> Path:
    """The folder of the themes that come with the program."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "themes"
    return inside if inside.is_dir() else package.parent / "themes"


def fitting(*, colours: bool, few: bool) -> str:
    """The theme for a person who has named none. ``few``: the terminal has sixteen colours."""
    return COLOURLESS if not colours else SIXTEEN if few else DEFAULT


def load_themes(folders: Iterable[Path]) -> tuple[list[Theme], list[str]]:
    """All themes of these folders, and one sentence for each file that is not one. A later name replaces an earlier."""
    loaded: dict[str, Theme] = {}
    failed: list[str] = []
    for path in (path for folder in folders for path in sorted(folder.glob("*.toml"))):
        try:
            theme = read_theme(path)
        except UsageError as error:  # noqa: PERF203  (one bad file must not take the others along)
            failed.append(str(error))
        else:
            loaded[theme.name] = theme
    return list(loaded.values()), failed


def read_theme(path: Path) -> Theme:
    """One theme file. Raises UsageError with a sentence that names the file and what is wrong with it."""
    try:
        data = toml.loads(read_small(path))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"Theme {path} cannot be read: {error}.") from error
    try:
        return _theme(data, path.stem)
    except ValueError as error:
        raise UsageError(f"Theme {path} is left out: {error}.") from error


def _theme(data: Mapping[str, Any], stem: str) -> Theme:
    if unknown := sorted(set(data) - KEYS):
        raise ValueError(f"unknown key {unknown[0]!r}; known are {', '.join(sorted(KEYS))}")
    if missing := [key for key in COLOURS if key not in data]:
        raise ValueError(f"the colour {missing[0]!r} is missing")
    own = data.get("variables", {})
    if not isinstance(own, dict):
        raise ValueError("'variables' must be a table")
    colours = {key: _checked(key, data[key]) for key in COLOURS}
    variables = {str(key): _checked(str(key), value) for key, value in own.items()}  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if missing := [key for key in OWN_VARIABLES if key not in variables]:
        raise ValueError(f"the colour {missing[0]!r} is missing from [variables]")
    ansi = bool(data.get("ansi", False))
    dark = bool(data.get("dark", True))
    if ansi:
        # Textual's own style sheets need these of any theme in the terminal's own colours.
        variables = {**BUILTIN_THEMES["ansi-dark" if dark else "ansi-light"].variables, **variables}
    return Theme(
        name=str(data.get("name", stem)),
        dark=dark,
        ansi=ansi,
        variables=variables,
        primary=colours["primary"],
        secondary=colours["secondary"],
        warning=colours["warning"],
        error=colours["error"],
        success=colours["success"],
        accent=colours["accent"],
        foreground=colours["foreground"],
        background=colours["background"],
        surface=colours["surface"],
        panel=colours["panel"],
    )


def _checked(key: str, value: object) -> str:
    try:
        Color.parse(str(value))
    except ColorParseError:
        raise ValueError(f"{key} = {value!r} is no colour; write it as '#a0b1c2'") from None
    return str(value)
