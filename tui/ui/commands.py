"""The commands of the palette: every action that has a key, panes and columns to show or hide, and the demo."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from textual.app import SystemCommand
from textual.dom import DOMNode
from textual.screen import Screen

from tui.ui.keys import DUMPS, FLEET, SECTIONS
from tui.ui.screens.dumps import DumpScreen
from tui.ui.screens.fleet import FleetScreen
from tui.ui.screens.main import MainScreen
from tui.ui.widgets.processes import CHOOSABLE, column_words
from tui.ui.words import PANE_WORDS

if TYPE_CHECKING:
    from tui.ui.app import GputopApp

MOST_KEYS = 9
"""So many launches have a key of their own."""


def commands(app: GputopApp, screen: Screen[Any]) -> Iterable[SystemCommand]:
    """What can be done while ``screen`` is looked at, each with its key; the screen's own first."""
    if app.view.offers_demo:
        yield SystemCommand("Start the demo", "a real launch here that goes silent", app.action_demo)
    yield from _with_keys(app, screen)
    if isinstance(screen, MainScreen):
        yield from _launches_without_a_key(app)
        yield from _panes(screen)
        yield from _columns(screen)


def _with_keys(app: GputopApp, screen: Screen[Any]) -> Iterable[SystemCommand]:
    own = DUMPS if isinstance(screen, DumpScreen) else FLEET if isinstance(screen, FleetScreen) else ()
    ids = {binding.id for binding in own}
    count = len(app.view.snapshot.launches)
    for section, bindings in (("this screen", own), *SECTIONS):
        for binding in bindings:
            id = binding.id or ""
            if id == "palette" or (id.startswith("launch.") and int(id[7:]) > count):
                continue
            if bindings is not own and (id in ids or not app.check_action(binding.action.partition("(")[0], ())):
                continue
            runner = _runner(app, binding.action, screen if bindings is own else app)
            words, _, more = binding.description.partition("; ")
            yield SystemCommand(words[:1].upper() + words[1:], f"{app.keys[id]}  {more or section}", runner)


def _launches_without_a_key(app: GputopApp) -> Iterable[SystemCommand]:
    for number, view in enumerate(app.view.snapshot.launches, 1):
        if number > MOST_KEYS:
            yield SystemCommand(f"Launch {number}", view.launch.name, partial(app.choose_launch, view.launch.id))


def _runner(app: GputopApp, action: str, where: DOMNode) -> Callable[[], Any]:
    async def run() -> None:
        await app.run_action(action, where)

    return run


def _panes(screen: MainScreen) -> Iterable[SystemCommand]:
    for name in screen.panes:
        verb = "Show" if name in screen.hidden else "Hide"
        words = f"{verb} the pane {PANE_WORDS.get(name, name)}"
        yield SystemCommand(words, "panes keep their order", partial(screen.toggle, name))


def _columns(screen: MainScreen) -> Iterable[SystemCommand]:
    ranks = screen.ranks

    def toggle(key: str) -> None:
        ranks.toggle(key)
        ranks.redo()

    for key in CHOOSABLE:
        verb = "Show" if key in ranks.hidden else "Hide"
        yield SystemCommand(f"{verb} the column {column_words(key)}", "ranks", partial(toggle, key))
