"""The application: takes snapshots from its session, keeps what is chosen, and hands views to the screens."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import App, SystemCommand
from textual.command import CommandPalette
from textual.driver import Driver
from textual.filter import LineFilter, Monochrome, NoColor
from textual.screen import Screen
from textual.theme import BUILTIN_THEMES

from tui.config.choices import NOTHING_CHOSEN, Kept
from tui.config.settings import NO_NOTICES, Settings
from tui.errors import Exit, GputopError, UsageError
from tui.notices.notifier import Notifier
from tui.snapshot import Snapshot
from tui.ui import themes
from tui.ui.keys import BINDINGS, Keys, WrongKey
from tui.ui.moment import Moment
from tui.ui.palette import Colourless, make_palette
from tui.ui.quit import Deadline
from tui.ui.screens.main import BRIEF_S, MainScreen
from tui.ui.session_like import SessionLike
from tui.ui.theme_choice import ThemeChoice, ThemePalette
from tui.ui.title import WindowTitle
from tui.ui.view import View
from tui.ui.widgets.pane import Pane

if TYPE_CHECKING:
    from tui.model import Dump, LaunchView

DRAW_EVERY_S = 0.25
STOP_WITHIN_S = 0.25
"""How long quitting waits for the session to end in order."""

QUIT_WITHIN_S = 0.45
"""After this the process ends, whatever still runs in it."""


HINT_S = 15.0
"""How long the hint for the first time stays."""

NOTE_S = 15.0
"""How long a note of the session is shown in full."""

LOOKED_S = 1.5
"""A host is looked at for so long before nothing is said to be there: launches are found after the first readings."""

OF_MAIN = frozenset(
    {
        *("host", "launch", "next_launch", "pane", "leave_pane", "hide_pane", "move_pane", "open_focused"),
        *("scroll", "page", "edge", "order", "search", "search_step", "mark", "next_log", "wrap"),
        *("freeze", "step", "step_change", "zoom"),
    }
)
"""Actions that are seen on the main screen alone: another one lets those act that it names in ``ALSO``."""

SETTLED_S = 1.0
"""After this the program is loaded: its objects need no collecting any more."""


def _settle() -> None:
    """Leave what was loaded to itself, and collect garbage again where a caller switched that off to start faster."""
    gc.freeze()
    gc.enable()


class GputopApp(App[Exit]):
    """The live monitor.

    ``open_session`` is called when the first picture stands, so that what a session imports is not waited for.
    ``theme`` is the name of a theme, before that of ``settings``. ``hint`` greets a first-time user.
    ``kept`` holds what was chosen before, and keeps what is chosen now.
    ``open_demo`` opens the session of the demo, which is offered where there is nothing else to see.

    Raises: UsageError where there is no such theme, or a key of ``settings`` cannot be used.
    """

    TITLE = "gputop-hang"
    CSS_PATH = Path(__file__).with_name("app.tcss")
    BINDINGS: ClassVar[list[Any]] = list(BINDINGS)

    def __init__(
        self,
        open_session: Callable[[], SessionLike],
        *,
        theme: str | None = None,
        settings: Settings | None = None,
        hint: bool = False,
        open_demo: Callable[[], SessionLike] | None = None,
        kept: Kept | None = None,
    ) -> None:
        super().__init__()
        self._kept = kept
        self._before = kept.choices if kept is not None else NOTHING_CHOSEN
        settings = settings or Settings(notices=NO_NOTICES)
        self.keys = _keys(settings)
        self.set_keymap(self.keys.keymap)
        self.session: SessionLike | None = None
        self._open_session = open_session
        self._open_demo = open_demo
        self._hint = hint
        self._home: asyncio.AbstractEventLoop | None = None
        self._notifier = Notifier(settings.notices, write=self._to_terminal, say=self._say)
        self._title = WindowTitle(self._to_terminal) if settings.notices.title else None
        self._deadline = Deadline(QUIT_WITHIN_S, self._give_back)
        self.moment = Moment(Snapshot(t=0.0, wall=time.time()))
        self._arrived = self.clock()
        self._launch_id: str | None = None
        self._attended: str | None = None
        self._host: str | None = None
        self._log_at: tuple[str, str] | None = None
        self._told = ""
        self._dirty = False
        self._dumps: tuple[Dump, ...] = ()
        self._drawn_at = 0.0
        self._second: tuple[int, ...] = ()
        self._busy: set[str] = set()
        self._theme_before: str | None = None
        self._install_themes(theme, settings)

    def clock(self) -> float:
        """Seconds that only grow; timers run on by it between snapshots."""
        return time.monotonic()

    # ------------------------------------------------------------------------------------------------------- themes

    def _install_themes(self, wanted: str | None, settings: Settings) -> None:
        own = [settings.path.parent / "themes"] if settings.path else []
        loaded, self.theme_failures = themes.load_themes([themes.shipped(), *own])
        self.theme_names = [theme.name for theme in loaded]
        for theme in loaded:
            self.register_theme(theme)
        name = wanted or settings.theme
        if name is not None and name not in self.theme_names:
            words = f"There is no theme {name!r}; there are {', '.join(self.theme_names)}."
            raise UsageError(words) if wanted else settings.wrong(("theme",), words)
        few = self.console.color_system == "standard"
        self._fitting = themes.fitting(colours=not self.no_color, few=few)
        chosen = self._before.themes.get(self._fitting)
        self.theme = name or (chosen if chosen in self.theme_names else None) or self._fitting
        self._theme_first = self.theme
        for builtin in BUILTIN_THEMES:
            self.unregister_theme(builtin)
        self.palette = make_palette(self.get_css_variables())

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Textual's own, but no greys with NO_COLOR: who names another theme wants its colours (no-color.org)."""
        kept = [f for f in super().get_line_filters() if not isinstance(f, (Monochrome, NoColor))]
        return [*kept, Colourless()] if self.theme == themes.COLOURLESS else kept

    def watch_theme(self) -> None:
        """Give every role its colour in the new theme and draw everything again."""
        self.palette = make_palette(self.get_css_variables())
        for screen in self.screen_stack if self.is_running else ():
            for widget in screen.query("Drawing"):
                widget.refresh()
        if self.is_running:
            self.draw()

    def action_next_theme(self) -> None:
        index = self.theme_names.index(self.theme) if self.theme in self.theme_names else -1
        self.theme = self.theme_names[(index + 1) % len(self.theme_names)]
        self.notify(f"theme {self.theme}", timeout=1.5, markup=False)

    def search_themes(self) -> None:
        """The palette of themes: each is worn while it is under the cursor, and escape brings the first one back."""
        self._theme_before = self.theme
        self.push_screen(ThemePalette())

    def on_command_palette_option_highlighted(self, event: CommandPalette.OptionHighlighted) -> None:
        hit = getattr(event.highlighted_event.option, "hit", None)
        if self._theme_before is not None and isinstance(choice := getattr(hit, "command", None), ThemeChoice):
            choice()

    def on_command_palette_closed(self, event: CommandPalette.Closed) -> None:
        if self._theme_before is not None and not event.option_selected:
            self.theme = self._theme_before
        self._theme_before = None

    # ------------------------------------------------------------------------------------------------------- notices

    def notify(self, message: str, **how: Any) -> None:
        """Say something over the screen; what still stands there is not said again, however often a key is pressed."""
        if all(said.message != message or said.has_expired for said in self._notifications):
            super().notify(message, **how)

    def _to_terminal(self, text: str) -> None:
        """Write between two pictures, from whatever thread."""

        def write() -> None:
            if self._driver is not None and self.is_running and not self.is_headless:
                self._driver.write(text)

        self._at_home(write)

    def _say(self, sentence: str) -> None:
        self._at_home(lambda: self.notify(sentence, severity="warning", markup=False))

    def _at_home(self, call: Callable[[], None]) -> None:
        if self._home is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile: nobody looks any more
                self._home.call_soon_threadsafe(call)

    def _give_back(self) -> None:
        if self._title is not None:
            self._title.give_back()

    # ----------------------------------------------------------------------------------------------------- snapshots

    def get_default_screen(self) -> Screen[Any]:
        return MainScreen(self._before)

    @property
    def main(self) -> MainScreen:
        screen = self.screen_stack[0]
        assert isinstance(screen, MainScreen)
        return screen

    @property
    def front(self) -> Any:
        """The screen that is looked at: the one in front, or behind a palette."""
        return next((screen for screen in reversed(self.screen_stack) if hasattr(screen, "show")), self.main)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Nothing changes unseen behind another screen."""
        if action not in OF_MAIN or self.front is self.main:
            return True
        return action in getattr(self.front, "ALSO", ())

    def on_mount(self) -> None:
        self._home = asyncio.get_running_loop()
        if not self.is_headless:
            for ending in (signal.SIGTERM, signal.SIGHUP):
                self._home.add_signal_handler(ending, self.call_later, self.action_interrupt)
        self.call_after_refresh(self._start_session)
        self.set_interval(DRAW_EVERY_S, self._tick)
        self.set_timer(SETTLED_S, _settle)
        for sentence in self.theme_failures:
            self.notify(sentence, severity="warning", markup=False)
        if self._hint:
            self.notify(
                f"{self.keys['help']} explains keys and marks · {self.keys['palette']} finds every command · "
                f"{self.keys['stacks']} takes stacks and harms nothing · {self.keys['quit']} leaves",
                title="First time here?",
                timeout=HINT_S,
                markup=False,
            )

    @on(Driver.SignalResume)
    def _draw_all(self) -> None:
        """The shell had the terminal meanwhile: nothing of what was drawn is there any more."""
        self.refresh(layout=True)

    def _start_session(self) -> None:
        if self.session is None:
            self.session = self._open_session()
            self.session.start(self.post)

    def post(self, snapshot: Snapshot) -> None:
        """Take a snapshot; it is drawn at once after a pause, else with the next tick."""
        self.moment.take(snapshot)
        self._arrived = self.clock()
        self._dirty = True
        self._notifier.feed(snapshot)
        if snapshot.note != self._told:
            self._tell(snapshot.note)
        if self._title is not None:
            self._title.show(snapshot)
        if self._arrived - self._drawn_at > DRAW_EVERY_S and self.is_running:
            self.call_later(self._tick)

    def _tell(self, note: str) -> None:
        """The whole note once; the last line has room for its beginning only."""
        self._told = note
        if note:
            self.notify(note, severity="warning", timeout=NOTE_S, markup=False)

    @property
    def view(self) -> View:
        """What is to be seen now."""
        snapshot, held = self.moment.shown, self.moment.held
        chosen = next((v for v in snapshot.launches if v.launch.id == self._launch_id), None)
        if chosen is None and snapshot.launches:
            chosen = snapshot.launches[0]
        host = self._host if any(h.name == self._host for h in snapshot.hosts) else None
        elapsed = 0.0 if held else self.clock() - self._arrived
        offer = self._open_demo is not None and _nothing_here(snapshot)
        behind = self.moment.latest.t - snapshot.t
        return View(
            snapshot,
            chosen,
            host,
            frozen=held,
            elapsed_s=elapsed,
            behind_s=behind,
            log_at=self._log_at,
            keys=self.keys,
            offers_demo=offer,
        )

    def _keep(self) -> None:
        """Keep what is chosen now. A theme that is only passed in the palette is not, nor is that of the start."""
        if self._kept is None or self._theme_before is not None:
            return
        chosen = self.main.chosen(self._before)
        if self.theme != self._theme_first:
            chosen = replace(chosen, themes={**chosen.themes, self._fitting: self.theme})
        self._kept.keep(chosen)

    def _tick(self) -> None:
        self._keep()
        view = self.view
        if self._dirty and (not self.moment.held or self.moment.latest.dumps != self._dumps):
            self.draw()  # stacks that are being taken come in also while the rest stands still
        elif view.carried_s and self._seconds(view) != self._second:
            self._second = self._seconds(view)
            if self.screen is self.screen_stack[0]:
                self.main.tick(view)

    def draw(self) -> None:
        """Draw the present view on the screen in front, or behind a palette."""
        self._dirty = False
        self._drawn_at = self.clock()
        view = self.view
        self._dumps = view.snapshot.dumps
        self._second = self._seconds(view)
        self.front.show(view)
        self._attend()

    @property
    def subject(self) -> LaunchView | None:
        """The launch that keys are about: the one that is looked at, on the fleet screen that of the chosen host."""
        front = self.front
        return front.subject if hasattr(front, "subject") else self.view.launch

    def _attend(self) -> None:
        """Tell the session which launch is looked at."""
        subject = self.subject
        launch_id = subject.launch.id if subject is not None else None
        if self.session is not None and launch_id != self._attended:
            self._attended = launch_id
            self.session.attend(launch_id)

    def _take_up(self, launch: LaunchView) -> None:
        """Look at this launch from now on, where another one was."""
        if self.view.launch is None or self.view.launch.launch.id != launch.launch.id:
            self.choose_launch(launch.launch.id)

    def _seconds(self, view: View) -> tuple[int, ...]:
        """The whole seconds of everything that counts them."""
        times = [view.snapshot.wall + view.carried_s]
        if view.launch is not None:
            verdict = view.launch.verdict
            times.append(view.now - verdict.since)
            times += [t + view.since_judged_s for t in (verdict.silent_s, verdict.still_s) if t is not None]
        return tuple(map(int, times))

    # ------------------------------------------------------------------------------------------------ what is chosen

    def choose_launch(self, launch_id: str) -> None:
        self._launch_id = launch_id
        self._host = None
        self.draw()

    def choose_host(self, name: str | None) -> None:
        """Look at one host alone; choosing the chosen one again shows all."""
        self._host = None if name == self._host else name
        self.draw()

    def open_host(self, name: str, launch_id: str | None) -> None:
        """Look at one host, and at this launch on it."""
        if launch_id is not None:
            self._launch_id = launch_id
        self._host = name
        self.draw()

    def action_next_launch(self) -> None:
        """Step through all launches: those after the ninth have no key of their own."""
        ids = [v.launch.id for v in self.view.snapshot.launches]
        if self.view.launch is not None:
            self.choose_launch(ids[(ids.index(self.view.launch.launch.id) + 1) % len(ids)])

    def action_launch(self, number: int) -> None:
        launches = self.view.snapshot.launches
        if number <= len(launches):
            self.choose_launch(launches[number - 1].launch.id)

    def action_host(self, step: int) -> None:
        """Step through all hosts and each one: all, first, second …, all."""
        view = self.view
        names = [h.name for h in view.snapshot.hosts if not view.launch or h.name in view.launch.launch.hosts]
        ring = [None, *names]
        current = view.host if view.host in ring else None
        self.choose_host(ring[(ring.index(current) + step) % len(ring)])

    def action_fleet(self) -> None:
        from tui.ui.screens.fleet import FleetScreen

        if not isinstance(self.screen, FleetScreen):
            self.push_screen(FleetScreen())

    # ---------------------------------------------------------------------------------------------------------- time

    def action_freeze(self) -> None:
        self.moment.hold_or_go_on()
        self.draw()

    def action_step(self, cells: int) -> None:
        """Step by cells of the timeline."""
        before = self.view.snapshot.t
        self.moment.step(cells * self.main.timeline.cell_s)
        self._stepped(cells, before, "Nothing earlier is kept.")

    def action_step_change(self, direction: int) -> None:
        before = self.view.snapshot.t
        self.moment.step_change(direction, self.subject)
        self._stepped(direction, before, "No change before it is kept.")

    def _stepped(self, direction: int, before: float, words: str) -> None:
        """Draw what was stepped to; where that is no earlier moment than ``before``, say why."""
        self.draw()
        if direction < 0 and self.view.snapshot.t >= before:
            self.notify(words, timeout=BRIEF_S, markup=False)

    def action_zoom(self, steps: int) -> None:
        self.main.timeline.zoom_by(steps)
        self.main.timeline.redo()

    def look_at(self, t: float) -> None:
        """Show the moment ``t`` on the monitor's timeline."""
        self.moment.look_at(t)
        self.draw()

    # ---------------------------------------------------------------------------------------------------------- demo

    def action_demo(self) -> None:
        """Look at the demo instead of this machine, where that has nothing to show."""
        if self._open_demo is not None:
            self.run_worker(self._start_demo(self._open_demo), name="demo", group="session", exit_on_error=False)
            self._open_demo = None

    async def _start_demo(self, open_demo: Callable[[], SessionLike]) -> None:
        try:
            session = open_demo()
        except GputopError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        before, self.session, self._attended = self.session, session, None
        if before is not None:
            await asyncio.wait({asyncio.ensure_future(before.stop())}, timeout=STOP_WITHIN_S)
        session.start(self.post)

    # --------------------------------------------------------------------------------------------------------- panes

    def action_pane(self, step: int) -> None:
        self.main.step_focus(step)

    def action_open(self, name: str) -> None:
        """Open a pane in full, from whatever screen; on the main screen the same key closes it."""
        if self.front is self.main:
            self.main.open(name)
            return
        if (subject := self.subject) is not None:
            self._take_up(subject)
        while self.screen is not self.main:
            self.pop_screen()
        if self.main.full != name:
            self.main.open(name)

    def action_open_focused(self) -> None:
        pane = self.main.active_pane
        if self.view.offers_demo:
            self.action_demo()
        elif self.main.full is None and pane.id:
            self.main.open(pane.id)

    def action_leave_pane(self) -> None:
        self.main.log_pane.search("")
        self.main.close()

    def action_hide_pane(self) -> None:
        """Hide the pane that has the focus; without one, show all again."""
        focused = self.main.focused
        name = focused.id if isinstance(focused, Pane) and self.main.full is None else None
        for pane in [name] if name else list(self.main.hidden):
            self.main.toggle(pane)

    def action_move_pane(self, direction: int) -> None:
        focused = self.main.focused
        if self.screen is not self.main or self.main.full is not None:
            return
        if not isinstance(focused, Pane) or focused.id is None:
            self.notify(f"{self.keys['pane.next']} chooses the pane that is moved.", markup=False)
        elif not self.main.move(focused.id, direction):
            self.notify(f"No pane stands {'below' if direction > 0 else 'above'} it in its column.", markup=False)

    def action_scroll(self, rows: int) -> None:
        self.main.active_pane.scroll_rows(rows)

    def action_page(self, pages: float) -> None:
        self.main.active_pane.scroll_page(pages)

    def action_edge(self, end: int) -> None:
        pane = self.main.active_pane
        pane.scroll_bottom() if end > 0 else pane.scroll_top()

    def action_order(self) -> None:
        self.main.ranks.next_order()
        self.main.ranks.redo()
        self.notify(f"ranks {self.main.ranks.order_words}", timeout=1.5, markup=False)

    def action_next_log(self) -> None:
        """The log after the one that is shown. The one that was written last is not held: another may become it."""
        view = self.view
        if view.log is None:
            return
        log = view.logs[(view.logs.index(view.log) + 1) % len(view.logs)]
        self._log_at = None if log is view.log_written_last else (log.host, log.path)
        self.draw()

    def action_wrap(self) -> None:
        self.main.log_pane.wraps = not self.main.log_pane.wraps
        self.main.log_pane.redo()

    def action_mark(self, direction: int) -> None:
        self.main.step_mark(direction > 0)

    def action_search(self) -> None:
        self.main.ask_search()

    def action_search_step(self, direction: int) -> None:
        self.main.step_search(direction > 0)

    # ------------------------------------------------------------------------------------------------ stacks and abort

    def _asked(self, no_launch: str) -> tuple[SessionLike, LaunchView] | None:
        """Whom to ask, and the chosen launch as it is now, whatever moment is looked at; else it is said why not."""
        shown, session = self.subject, self.session
        if shown is None or session is None or session.why_no_stacks:
            nothing = no_launch if self.view.launch is None else "No launch runs on the chosen host."
            self.notify((session.why_no_stacks if session else "") or nothing, markup=False)
            return None
        now = next((v for v in self.moment.latest.launches if v.launch.id == shown.launch.id), None)
        if now is None:
            self.notify(f"{shown.launch.name} is gone: what is shown is past.", markup=False)
            return None
        return session, now

    def action_stacks(self) -> None:
        if (asked := self._asked("There is no launch to take stacks of yet.")) is not None:
            session, launch = asked
            self._run_once("stacks", session.take_stacks, launch.launch.id)
            self.action_dumps()

    def action_dumps(self) -> None:
        from tui.ui.screens.dumps import DumpScreen

        if (subject := self.subject) is not None:
            self._take_up(subject)
        if not isinstance(self.screen, DumpScreen):
            self.push_screen(DumpScreen())

    def action_abort(self) -> None:
        from tui.ui.screens.abort import AbortScreen

        if (asked := self._asked("There is no launch to abort.")) is None:
            return
        session, launch = asked

        def confirmed(yes: bool | None) -> None:
            if yes:
                self._run_once("abort", session.abort, launch.launch.id)
                self._take_up(launch)
                self.action_dumps()

        self.push_screen(AbortScreen(launch), confirmed)

    def _run_once(self, name: str, call: Callable[[str], Any], launch_id: str) -> None:
        """Run one of the session's calls beside the screen; a second of its kind waits until it has ended."""
        if name in self._busy:
            self.notify("Still at it: results come in as hosts answer.", markup=False)
            return

        async def work() -> None:
            try:
                await call(launch_id)
            except Exception as error:  # whatever a session raises must not end the monitor
                self.notify(str(error) or type(error).__name__, severity="error", markup=False)
            finally:
                self._busy.discard(name)

        self._busy.add(name)
        self.run_worker(work(), name=name, group="session", exit_on_error=False)

    # -------------------------------------------------------------------------------------------------- help and quit

    def action_help(self) -> None:
        from tui.ui.screens.help import HelpScreen

        self.push_screen(HelpScreen())

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """See :func:`tui.ui.commands.commands`."""
        from tui.ui.commands import commands

        return commands(self, screen)

    async def run_binding(self, id: str) -> None:
        """Do what the key of a binding does."""
        await self.run_action(next(binding.action for binding in BINDINGS if binding.id == id))

    async def action_quit(self) -> None:
        await self._leave(Exit.READY)

    async def action_interrupt(self) -> None:
        """ctrl+c, SIGTERM, and a terminal that is gone (SIGHUP) end as ``q`` does, and the caller is told."""
        await self._leave(Exit.INTERRUPTED)

    async def _leave(self, code: Exit) -> None:
        """Give the session a moment to end in order, and go whether or not it has."""
        self._keep()
        if not self.is_headless:
            self._deadline.start(self)
        if self.session is not None:
            stopping = asyncio.ensure_future(self.session.stop())
            with contextlib.suppress(Exception):
                await asyncio.wait({stopping}, timeout=STOP_WITHIN_S)
        self.exit(code)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Run until the reader leaves; see :meth:`textual.app.App.run` for the arguments."""
        try:
            return super().run(*args, **kwargs)
        finally:
            if self._kept is not None:
                self._kept.close()
            self._deadline.cancel()
            self._give_back()


def _keys(settings: Settings) -> Keys:
    try:
        return Keys(settings.keys)
    except WrongKey as wrong:
        raise settings.wrong_key(wrong.id, str(wrong)) from wrong


def _nothing_here(snapshot: Snapshot) -> bool:
    """One host, and it is known to have neither a launch nor a GPU."""
    if snapshot.launches or len(snapshot.hosts) != 1:
        return False
    host = snapshot.hosts[0]
    sample = host.sample
    if sample is None or snapshot.t - host.since < LOOKED_S:
        return False
    return not sample.gpus and (sample.gpus is not None or bool(sample.gpu_error))
