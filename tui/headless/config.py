"""``config``: which file is read, whether all of it can be used, and what is in force; or a commented example."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from importlib.resources import files

from tui.config.settings import Settings, load
from tui.errors import Exit

LEAD = 10


def run(*, example: bool) -> Exit:
    """Print to standard output. Raises: UsageError where the file cannot be used."""
    if example:
        sys.stdout.write(example_text())
        return Exit.READY
    settings = load()
    theme, keys, problems = _as_the_screen_would(settings)
    for row in _rows(settings, theme, keys):
        print(row)
    for problem in problems:
        print(f"gputop-hang: {problem}", file=sys.stderr)
    return Exit.READY


def example_text() -> str:
    """A configuration with comments that can be used as it is."""
    return files("tui.config").joinpath("example.toml").read_text(encoding="utf-8")


def _as_the_screen_would(settings: Settings) -> tuple[str, Mapping[str, str], list[str]]:
    """The theme that is worn, the keys that differ, and what was left out; opens the application without running it.

    Raises: UsageError where a theme or a key cannot be used.
    """
    from tui.ui.app import GputopApp

    def no_session() -> object:
        raise AssertionError("the application is not run")

    app = GputopApp(no_session, settings=settings)  # pyright: ignore[reportArgumentType]
    return app.theme, {id: app.keys[id] for id in app.keys.remapped}, app.theme_failures


def _rows(settings: Settings, theme: str, keys: Mapping[str, str]) -> Iterable[str]:
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
    yield _row("theme", [theme + ("" if settings.theme else " (suits this terminal)")])
    yield _row("keys", [f"{id} = {key!r}" for id, key in keys.items()] or ["as the help in the monitor shows them"])
    notices = settings.notices
    on = [name for name in ("title", "bell", "terminal", "desktop") if getattr(notices, name)]
    yield _row("notices", on or ["none"])
    if notices.on_verdict:
        yield _row("", ["on_verdict:", *notices.on_verdict])


def _row(label: str, words: Iterable[str]) -> str:
    return f"{label:<{LEAD}}{'  '.join(words)}"
