"""``config``: which file is read, whether all of it can be used, and what is in force; or a commented example."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.resources import files
from typing import TYPE_CHECKING

from tui.config.choices import Kept
from tui.config.settings import Settings, load
from tui.errors import Exit
from tui.thresholds import Thresholds

if TYPE_CHECKING:
    from tui.ui.app import GputopApp
    from tui.ui.session_like import SessionLike

LEAD = 12


def run(*, example: bool) -> Exit:
    """Print to standard output. Raises: UsageError where the file cannot be used."""
    if example:
        sys.stdout.write(example_text())
        return Exit.READY
    settings = load()
    app = _as_the_screen_would(settings)
    for row in _rows(settings, app):
        print(row)
    for problem in (*app.theme_failures, *_marker_failures(settings)):
        print(f"gputop-hang: {problem}", file=sys.stderr)
    return Exit.READY


def example_text() -> str:
    """A configuration with comments that can be used as it is."""
    return files("tui.config").joinpath("example.toml").read_text(encoding="utf-8")


def _as_the_screen_would(settings: Settings) -> GputopApp:
    """The application, opened and not run: only it knows which themes and keys there are.

    Raises: UsageError where a theme or a key cannot be used.
    """
    from tui.ui.app import GputopApp

    def no_session() -> SessionLike:
        raise AssertionError("the application is not run")

    return GputopApp(no_session, settings=settings, kept=Kept())


def _marker_failures(settings: Settings) -> list[str]:
    from tui.session.own_markers import OwnMarkers

    markers = OwnMarkers(settings.path.parent / "markers" if settings.path else None)
    markers()
    return markers.problems


def _rows(settings: Settings, app: GputopApp) -> Iterable[str]:
    from tui.ui.themes import shipped

    path = settings.path
    if settings.text is None:
        yield _row("file", [f"{path} is not there: what follows are the defaults"])
        yield _row("", [f"mkdir -p '{path and path.parent}' && gputop-hang config --example > '{path}'"])
    else:
        yield _row("file", [str(path)])
    yield _row("hosts", settings.hosts or ["this machine"])
    for name, hosts in settings.groups.items():
        yield _row("group", [f"@{name}", *hosts])
    for host, paths in settings.logs.items():
        yield _row("log", [host, *paths])
    why = "chosen in the monitor" if app.theme in Kept().choices.themes.values() else "suits this terminal"
    yield _row("theme", [app.theme + ("" if settings.theme else f" ({why})")])
    yield _row("", [f"there are {', '.join(app.theme_names)}"])
    yield _row("", [f"yours go into {path.parent / 'themes' if path else 'themes'}, from a copy of one in {shipped()}"])
    keys = [f"{id} = {app.keys[id]!r}" for id in app.keys.remapped]
    yield _row("keys", keys or ["as the help in the monitor shows them"])
    yield _row("thresholds", _thresholds(settings.thresholds))
    notices = settings.notices
    on = [name for name in ("title", "bell", "terminal", "desktop") if getattr(notices, name)]
    yield _row("notices", on or ["none"])
    if notices.on_verdict:
        yield _row("", ["on_verdict:", *notices.on_verdict])


def _thresholds(least: Thresholds) -> list[str]:
    asked = {"suspect": least.suspect_s, "hung": max(least.suspect_s, least.hung_s)}
    said = [f"{word} no sooner than after {s:g} s without movement" for word, s in asked.items() if s]
    return said or ["the rules' own"]


def _row(label: str, words: Iterable[str]) -> str:
    return f"{label:<{LEAD}}{'  '.join(words)}"
