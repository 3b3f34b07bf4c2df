"""The themes as entries of a palette; the application wears the one under the cursor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from textual.app import App
from textual.command import DiscoveryHit, Hit, Hits, Provider


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
        app: App[Any] = self.app
        return [ThemeChoice(app, name) for name in sorted(app.available_themes)]

    async def discover(self) -> Hits:
        for choice in self._choices():
            yield DiscoveryHit(choice.name, choice)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for choice in self._choices():
            if (score := matcher.match(choice.name)) > 0:
                yield Hit(score, matcher.highlight(choice.name), choice)
