"""The themes as entries of a palette; the application wears the one under the cursor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from textual.app import App
from textual.command import CommandList, CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.theme import Theme


@dataclass(frozen=True, slots=True)
class ThemeChoice:
    """Calling it puts the theme on: to see it, and to keep it."""

    app: App[Any]
    name: str

    def __call__(self) -> None:
        self.app.theme = self.name


class ThemeChoices(Provider):
    """All themes by name."""

    def _choices(self) -> list[ThemeChoice]:
        """The one that is worn stands first, under the cursor: opening the palette changes nothing."""
        app: App[Any] = self.app
        names = sorted(app.available_themes, key=lambda name: (name != app.theme, name))
        return [ThemeChoice(app, name) for name in names]

    async def discover(self) -> Hits:
        for choice in self._choices():
            yield DiscoveryHit(choice.name, choice)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for choice in self._choices():
            if (score := matcher.match(choice.name)) > 0:
                yield Hit(score, matcher.highlight(choice.name), choice)


class ThemePalette(CommandPalette):
    """Asks for one of them."""

    def __init__(self) -> None:
        super().__init__(providers=[ThemeChoices], placeholder="Choose a theme…")

    def on_mount(self) -> None:
        self.app.theme_changed_signal.subscribe(self, self._wear)  # pyright: ignore[reportUnknownMemberType]

    def _wear(self, theme: Theme) -> None:
        """Wear it here too: Textual 8.2 leaves out a palette in front, and its list keeps the looks of its rows."""
        self.app.stylesheet.update(self)  # pyright: ignore[reportUnknownMemberType]
        self.query_one(CommandList).notify_style_update()
