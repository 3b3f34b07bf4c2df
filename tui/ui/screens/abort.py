"""The question before SIGABRT: what the signal would do to every process, and a word to type."""

from __future__ import annotations

import time

from textual.app import ComposeResult
from textual.events import Key, Paste, Resize
from textual.screen import ModalScreen

from tui.model import LaunchView, ProcView
from tui.stacks.sigabrt import HOLD_ROLES, MUTE
from tui.ui.format import rank_words
from tui.ui.lines import Line, wrap_spans
from tui.ui.ranks import by_rank
from tui.ui.view import View
from tui.ui.widgets.pane import Painting, Pane, app_of
from tui.ui.words import sigabrt_words

WORD, NEVERTHELESS = "abort", "nevertheless"
"""What is typed, and what is typed after it where a process would die without printing anything."""

DEAF_S = 0.5
"""Keys are ignored for this long: whoever typed ahead did not see the question."""


def _words(process: ProcView, ranked: bool) -> str:
    """What happens to a process when the ranks are aborted; where there are no ranks, all processes are."""
    if process.rank is not None or not ranked:
        return sigabrt_words(process.sigabrt)
    if process.role in HOLD_ROLES:
        return "is not sent it; it is stopped while the ranks print, so that it does not end them, and then let go"
    return "is not sent it"


def paint_abort(launch: LaunchView, width: int) -> list[Line]:
    """Rank by rank, what SIGABRT would do."""
    rows = [
        *wrap_spans(
            [], "SIGABRT goes to every rank of this launch at once. The launch will not survive it.", "bad", width
        ),
        [],
    ]
    ranked = any(p.rank is not None for p in launch.processes)
    several = len({p.host for p in launch.processes}) > 1
    for process in sorted(launch.processes, key=by_rank):
        name = process.role if process.rank is None else f"rank {process.rank}"
        place = f"{process.host} {process.pid}" if several else str(process.pid)
        what = _words(process, ranked)
        role = "dim" if process.rank is None else "text" if process.sigabrt else "warn"
        rows += wrap_spans(
            [(f"{name:<12} ", "strong"), (f"{place:<{18 if several else 8}} ", "dim")], what, role, width
        )
    if not launch.processes:
        rows.append([("No process of this launch is known.", "warn")])
    return rows


class AbortPane(Pane):
    def __init__(self, launch: LaunchView) -> None:
        super().__init__(id="abort")
        self._launch = launch
        self.word = WORD
        self.typed = ""
        self.remark = ""

    def paint(self, view: View, width: int, height: int) -> Painting:
        title: Line = [(f" ABORT {self._launch.launch.name} ", "badge-hung")]
        head: list[Line] = [
            [
                ("type ", "text"),
                (self.word, "key"),
                (" and press enter: ", "text"),
                (self.typed, "strong"),
                ("▏", "accent"),
            ],
            [(self.remark or "esc leaves everything as it is", "warn" if self.remark else "dim")],
            [],
        ]
        return Painting(paint_abort(self._launch, width), title=title, head=head)


class AbortScreen(ModalScreen[bool]):
    """Answers true only where ``abort`` was typed, key by key, after the first half second, and entered; and a second
    word, where a process would die without printing anything."""

    def __init__(self, launch: LaunchView) -> None:
        super().__init__()
        self._pane = AbortPane(launch)
        self._launch = launch
        self._deaf_until = time.monotonic() + DEAF_S

    def compose(self) -> ComposeResult:
        yield self._pane

    def on_mount(self) -> None:
        self._deaf_until = time.monotonic() + DEAF_S
        self.on_resize()
        self._pane.focus()

    def on_resize(self, event: Resize | None = None) -> None:
        width, height = app_of(self).size
        self._pane.styles.width = min(88, width)
        rows = len(paint_abort(self._launch, min(88, width) - 4))
        self._pane.styles.height = min(height, rows + 6)
        self.call_after_refresh(self.show, app_of(self).view)

    def show(self, view: View) -> None:
        self._pane.draw(view)

    def _mute(self) -> str:
        """Who would die of it and leave nothing, in words."""
        processes = self._launch.processes
        ranked = any(p.rank is not None for p in processes)
        mute = [p for p in processes if p.sigabrt in MUTE and (p.rank is not None or not ranked)]
        ranks = [p.rank for p in mute if p.rank is not None]
        return rank_words(ranks) if ranks else ", ".join(f"{p.role} {p.pid}" for p in mute)

    def _say(self, remark: str) -> None:
        self._pane.remark = remark
        self.show(app_of(self).view)

    def on_paste(self, event: Paste) -> None:
        event.stop()
        self._say("pasted text is ignored: type the word")

    def on_key(self, event: Key) -> None:
        if event.key in ("up", "down", "pageup", "pagedown"):
            self._pane.scroll_rows({"up": -1, "down": 1, "pageup": -10, "pagedown": 10}[event.key])
            return
        event.stop()
        event.prevent_default()
        if event.key in ("escape", "ctrl+c"):
            self.dismiss(False)
        elif time.monotonic() >= self._deaf_until:
            self._typed(event)

    def _typed(self, event: Key) -> None:
        pane = self._pane
        remark = ""
        if event.key == "enter":
            if pane.typed == pane.word and (pane.word == NEVERTHELESS or not self._mute()):
                self.dismiss(True)
                return
            if pane.typed == pane.word:
                pane.word, pane.typed = NEVERTHELESS, ""
                self._say(f"not sent yet: {self._mute()} would die without printing anything")
                return
            remark = f"not sent: “{pane.typed}” is not the word" if pane.typed else "not sent: type the word first"
            pane.typed = ""
        elif event.key in ("backspace", "ctrl+h"):
            pane.typed = pane.typed[:-1]
        elif event.is_printable and event.character:
            pane.typed = (pane.typed + event.character)[:20]
        self._say(remark)
