"""Themes are data: the shipped ones are readable by calculation, and a bad file is one sentence, never a crash."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from rich.cells import cell_len
from textual.color import Color
from textual.theme import Theme

from tests.ui.driving import ToldSession
from tui.errors import UsageError
from tui.ui.app import GputopApp
from tui.ui.palette import COLOURS, OWN_VARIABLES, make_palette
from tui.ui.themes import COLOURLESS, DEFAULT, SIXTEEN, load_themes, shipped
from tui.ui.themes import COLOURS as THEME_COLOURS
from tui.ui.words import VERDICT_GLYPHS

THEMES = {theme.name: theme for theme in load_themes([shipped()])[0]}
DECORATION = {"track", "rule", "bar", "bar-mem", "history", "match"}
"""Lines and fills: no text to read. Fills are held to the 3:1 that WCAG 2.1 asks of graphics."""


def contrast(a: Color, b: Color) -> float:
    """The contrast ratio of WCAG 2.1."""

    def luminance(colour: Color) -> float:
        channels = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in colour.normalized]
        return 0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2]

    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_all_shipped_themes_load() -> None:
    loaded, failed = load_themes([shipped()])
    assert not failed
    assert {DEFAULT, SIXTEEN, COLOURLESS, "paper", "contrast", "colorblind"} <= {theme.name for theme in loaded}


COLOURED = [theme for theme in THEMES.values() if not theme.ansi]


def variables_of(theme: Theme) -> dict[str, str]:
    return theme.to_color_system().generate() | theme.variables


@pytest.mark.parametrize("theme", COLOURED, ids=lambda theme: theme.name)
def test_every_text_has_a_contrast_of_4_5_on_every_background(theme: Theme) -> None:
    """Every role of the palette, on all that it can stand on: the screen, panels, and the band of every verdict."""
    variables = variables_of(theme)
    palette = make_palette(variables)
    backgrounds = {name: Color.parse(variables[name]) for name in ("background", "surface", "panel")}
    backgrounds |= {f"band of {verdict}": band for verdict, band in palette.bands.items() if band is not None}
    assert len(backgrounds) == 3 + len(VERDICT_GLYPHS)
    for role, style in palette.styles.items():
        assert style.color is not None
        colour = Color.from_rich_color(style.color)
        under = {"its own": Color.from_rich_color(style.bgcolor)} if style.bgcolor else backgrounds
        for name, background in under.items():
            if role not in DECORATION or style.bgcolor:
                assert contrast(colour, background) >= 4.5, (role, name)
            elif name == "background":
                assert contrast(colour, background) >= (1.3 if role in ("track", "rule") else 3.0), role


VERDICT_COLOURS = ("success", "primary", "secondary", "warning", "error")

# What is left of linear RGB for eyes without one kind of cone (Machado, Oliveira and Fernandes 2009, severity 1.0).
EYES = {
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
}


def lab(colour: Color, eyes: str) -> tuple[float, float, float]:
    """A colour in CIE L*a*b* (D65) as these eyes see it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour.normalized]
    r, g, b = (min(1.0, max(0.0, sum(k * v for k, v in zip(row, linear, strict=True)))) for row in EYES[eyes])
    xyz = (
        (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047,
        0.2126 * r + 0.7152 * g + 0.0722 * b,
        (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883,
    )
    x, y, z = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("eyes", EYES)
def test_the_verdicts_colours_differ_for_colour_blind_eyes(eyes: str) -> None:
    """A distance of 30 is far beyond doubt: 2.3 is just seen, and the default theme's least is 2."""
    assert least_distance(THEMES["colorblind"], eyes) >= 30


def least_distance(theme: Theme, eyes: str) -> float:
    colours = [lab(Color.parse(variables_of(theme)[name]), eyes) for name in VERDICT_COLOURS]
    return min(math.dist(a, b) for i, a in enumerate(colours) for b in colours[i + 1 :])


def test_verdicts_never_differ_by_colour_alone() -> None:
    assert len(set(VERDICT_GLYPHS.values())) == len(VERDICT_GLYPHS)
    assert all(cell_len(glyph) == 1 for glyph in VERDICT_GLYPHS.values())


def test_the_theme_without_colours_has_none() -> None:
    theme = THEMES[COLOURLESS]
    values = {getattr(theme, name) for name in THEME_COLOURS} | {theme.variables[name] for name in OWN_VARIABLES}
    assert values == {"ansi_default"}
    styles = make_palette(variables_of(theme)).styles
    assert styles["title-focus"] != styles["title"]
    assert styles["badge-hung"].reverse and styles["verdict-hung"].bold


# xterm's own sixteen colours, as most terminals have them; bright blue is the one that is hard to read on black.
XTERM = {
    "default": "#e5e5e5",
    "white": "#e5e5e5",
    "blue": "#5c5cff",
    "bright_blue": "#5c5cff",
    "magenta": "#cd00cd",
    "bright_black": "#7f7f7f",
    "bright_red": "#ff0000",
    "bright_green": "#00ff00",
    "bright_yellow": "#ffff00",
    "bright_magenta": "#ff00ff",
    "bright_cyan": "#00ffff",
}


def test_the_theme_of_sixteen_colours_is_readable_on_black() -> None:
    variables = variables_of(THEMES[SIXTEEN])
    for role, variable in COLOURS.items():
        if role not in DECORATION:
            colour = Color.parse(XTERM[variables[variable].removeprefix("ansi_")])
            assert contrast(colour, Color(0, 0, 0)) >= 4.4, role


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("name = 'x'\nprimary = '#zzz'", "the colour 'secondary' is missing"),
        ("name = [", "cannot be read"),
        ("name = " + "[" * 5000, "cannot be read"),
        ("nmae = 'x'", "unknown key 'nmae'"),
    ],
)
def test_a_bad_theme_is_left_out_with_a_sentence_that_names_it(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "broken.toml").write_text(content)
    loaded, failed = load_themes([shipped(), tmp_path])
    assert len(loaded) == len(THEMES)
    assert len(failed) == 1
    assert "broken.toml" in failed[0] and words in failed[0]


def test_a_colour_that_is_none_is_named(tmp_path: Path) -> None:
    good = (shipped() / f"{DEFAULT}.toml").read_text()
    (tmp_path / "mine.toml").write_text(good.replace('success = "', 'success = "not-'))
    assert "success = 'not-" in load_themes([tmp_path])[1][0]


def test_an_unknown_theme_on_the_command_line_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match=f"no theme 'dark'.*{DEFAULT}"):
        GputopApp(ToldSession, theme="dark")


@pytest.mark.parametrize("name", sorted(THEMES))
async def test_every_theme_can_be_worn_and_cycled(name: str) -> None:
    app = GputopApp(ToldSession, theme=name)
    async with app.run_test(size=(120, 40)) as pilot:
        for _ in THEMES:
            await pilot.press("t")
        assert app.theme == name
