"""Themes are data: the shipped ones are readable by calculation, and a bad file is one sentence, never a crash."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.color import Color
from textual.theme import Theme

from tests.ui.driving import ToldSession
from tui.errors import UsageError
from tui.ui.app import GputopApp
from tui.ui.palette import COLOURS, make_palette
from tui.ui.themes import DEFAULT, SIXTEEN, load_themes, shipped

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
    assert {DEFAULT, SIXTEEN, "paper", "contrast"} <= {theme.name for theme in loaded}


@pytest.mark.parametrize("theme", [t for t in THEMES.values() if not t.ansi], ids=lambda theme: theme.name)
def test_every_text_has_a_contrast_of_4_5_on_every_background(theme: Theme) -> None:
    variables = theme.to_color_system().generate() | theme.variables
    backgrounds = [Color.parse(variables[name]) for name in ("background", "surface", "panel")]
    bands = [band for band in make_palette(variables).bands.values() if band is not None]
    for role, variable in COLOURS.items():
        colour = Color.parse(variables[variable])
        least = 3.0 if role in DECORATION - {"track", "rule"} else 1.3 if role in ("track", "rule") else 4.5
        assert contrast(colour, backgrounds[0]) >= least, role
        if role in ("text", "dim", "accent", "warn", "bad", "info"):
            assert min(contrast(colour, b) for b in backgrounds + bands) >= 4.5, role


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("name = 'x'\nprimary = '#zzz'", "the colour 'secondary' is missing"),
        ("name = [", "cannot be read"),
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
