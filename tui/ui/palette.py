"""The roles that text plays, and the style each gets from the colours of a theme.

A role names a meaning (``dim``, ``warn``, ``verdict-hung``); only this module turns it into a colour. Contrast against
the background is a property of the themes and is tested there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from rich.segment import Segment
from rich.style import Style
from textual.color import Color, ColorParseError
from textual.filter import LineFilter

from tui.ui.words import VERDICT_GLYPHS

COLOURS: dict[str, str] = {
    "text": "foreground",
    "dim": "text-dim",
    "faint": "text-faint",
    "track": "track",
    "rule": "track",
    "accent": "accent",
    "good": "success",
    "info": "primary",
    "warn": "warning",
    "bad": "error",
    "bar": "bar",
    "bar-mem": "bar-memory",
    "history": "bar",
    "match": "warning",
    "verdict-progressing": "success",
    "verdict-slow": "primary",
    "verdict-waiting": "secondary",
    "verdict-suspect": "warning",
    "verdict-hung": "error",
    "verdict-crashed": "error",
    "verdict-ended": "text-dim",
    "verdict-ready": "success",
    "verdict-unknown": "text-dim",
}
"""Role → theme variable. ``text-dim``, ``text-faint``, ``track``, ``bar`` and ``bar-memory`` are this program's own."""

BOLD = {
    "strong": "text",
    "title": "text",
    "title-focus": "accent",
    "key": "accent",
    "odd": "error",
    "bad-strong": "bad",
}
"""Role → the role whose colour it has, in bold."""

OWN_VARIABLES = ("text-dim", "text-faint", "track", "bar", "bar-memory")


@dataclass(frozen=True, slots=True)
class Palette:
    """Styles by role, and the tinted background of the verdict band by verdict (``None``: not tinted)."""

    styles: Mapping[str, Style]
    bands: Mapping[str, Color | None]

    def style(self, role: str) -> Style:
        return self.styles.get(role) or self.styles["text"]


def make_palette(variables: Mapping[str, str]) -> Palette:
    """The palette of a theme, from the variables that Textual resolves for it."""
    colours = {role: _colour(variables, name) for role, name in COLOURS.items()}
    background = _colour(variables, "background")
    styles = {role: Style(color=colour.rich_color) for role, colour in colours.items()}
    styles |= {role: styles[base] + Style(bold=True) for role, base in BOLD.items() if base in styles}
    styles["odd"] = styles["bad"] + Style(bold=True)
    if colours["accent"] == colours["text"]:  # a theme without colours: the focus is still seen
        styles["title-focus"] += Style(underline=True)
    styles["struck"] = styles["dim"] + Style(strike=True)
    styles["match"] = _badge(colours["warn"], background)
    styles["badge-sim"] = _badge(colours["warn"], background)
    styles["badge-frozen"] = _badge(colours["info"], background)
    styles["badge-key"] = _badge(colours["accent"], background)
    bands: dict[str, Color | None] = {}
    for verdict in VERDICT_GLYPHS:
        colour = colours[f"verdict-{verdict}"]
        styles[f"verdict-{verdict}"] += Style(bold=True)
        styles[f"badge-{verdict}"] = _badge(colour, background)
        bands[verdict] = None if background.ansi is not None else background.blend(colour, 0.10, alpha=1.0)
    return Palette(styles, bands)


def _colour(variables: Mapping[str, str], name: str) -> Color:
    try:
        return Color.parse(variables[name])
    except (KeyError, ColorParseError):
        return Color.parse(variables["foreground"])


def _badge(colour: Color, background: Color) -> Style:
    """Text cut out of a block of colour; where the background's colour is the terminal's own, by reversing."""
    if background.ansi is not None or colour.ansi is not None:
        return Style(color=colour.rich_color, reverse=True, bold=True)
    return Style(color=background.rich_color, bgcolor=colour.rich_color, bold=True)


class Colourless(LineFilter):
    """Takes all colours away. What stood on a background of its own is reversed: a cursor, a chosen row."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(text, style and _without_colours(style), control) for text, style, control in segments]


@lru_cache(512)
def _without_colours(style: Style) -> Style:
    own = style.bgcolor is not None and not style.bgcolor.is_default
    plain = style.without_color
    return plain + Style(reverse=True) if own else plain
