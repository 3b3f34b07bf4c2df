"""All keys, in the sections of the help screen. Every binding has an id, to be remapped by, and a tooltip.

What runs an action by default stands in the bindings; what runs it now, after ``[keys]`` of the configuration, is asked
of :class:`Keys`, so that footer, help and hints never name a key that does something else.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence

from textual.binding import Binding
from textual.keys import KEY_NAME_REPLACEMENTS, REPLACED_KEYS, key_to_character
from textual.keys import Keys as KnownKeys


def _bind(
    keys: str, action: str, id: str, words: str, display: str | None = None, *, priority: bool = False
) -> Binding:
    return Binding(keys, action, words, id=id, tooltip=words, show=False, key_display=display, priority=priority)


SECTIONS: tuple[tuple[str, tuple[Binding, ...]], ...] = (
    (
        "what to look at",
        (
            *(_bind(str(n), f"launch({n})", f"launch.{n}", f"launch {n}") for n in range(1, 10)),
            _bind("0", "next_launch", "launches.next", "the next launch, of more than nine too"),
            _bind("left_square_bracket", "host(-1)", "host.previous", "the host before", "["),
            _bind("right_square_bracket", "host(1)", "host.next", "the next host", "]"),
            _bind("f", "fleet", "open.fleet", "fleet: every host and GPU at once"),
            _bind("tab", "pane(1)", "pane.next", "the next pane"),
            _bind("shift+tab", "pane(-1)", "pane.previous", "the pane before"),
            _bind("enter", "open_focused", "pane.open", "open the pane in full"),
            _bind("escape", "leave_pane", "pane.back", "back to the whole screen", "esc"),
            _bind("x", "hide_pane", "pane.hide", "hide the pane that has the focus; without one, show all"),
            _bind("K", "move_pane(-1)", "pane.up", "move the pane that has the focus up"),
            _bind("J", "move_pane(1)", "pane.down", "move it down"),
            _bind("l", "open('log')", "open.log", "log in full"),
            _bind("p", "open('processes')", "open.processes", "ranks and processes in full"),
            _bind("e", "open('evidence')", "open.evidence", "evidence: rival explanations and what refutes them"),
            _bind("g", "open('gpus')", "open.gpus", "GPUs in full"),
            _bind("m", "open('timeline')", "open.timeline", "timeline in full: what moved since the start"),
        ),
    ),
    (
        "back and forth in time",
        (
            _bind("space", "freeze", "freeze", "freeze what is shown, or go on"),
            _bind("comma", "step(-1)", "time.back", "back by one cell of the timeline", ","),
            _bind("full_stop", "step(1)", "time.forth", "forth by one cell", "."),
            _bind("less_than_sign", "step_change(-1)", "time.change_before", "to the last change before", "<"),
            _bind("greater_than_sign", "step_change(1)", "time.change_after", "to the next change", ">"),
            _bind("plus,equals_sign", "zoom(1)", "time.finer", "a shorter stretch, finer", "+"),
            _bind("minus", "zoom(-1)", "time.coarser", "a longer stretch, coarser", "-"),
        ),
    ),
    (
        "take evidence",
        (
            _bind(
                "d",
                "stacks",
                "stacks",
                "take the stacks of all ranks, stopping none; again, or when suspect or hung: C frames too, "
                "for which each rank stops 1 to 2.5 s",
            ),
            _bind("v", "dumps", "dumps", "stacks taken so far, merged and by rank"),
            _bind("A", "abort", "abort", "SIGABRT to all ranks, after you typed abort"),
        ),
    ),
    (
        "move and search",
        (
            _bind("j,down", "scroll(1)", "scroll.down", "down one line", "j ↓"),
            _bind("k,up", "scroll(-1)", "scroll.up", "up one line", "k ↑"),
            _bind("ctrl+d,pagedown", "page(0.5)", "scroll.page_down", "down half a page", "ctrl+d"),
            _bind("ctrl+u,pageup", "page(-0.5)", "scroll.page_up", "up half a page", "ctrl+u"),
            _bind("home", "edge(-1)", "scroll.top", "to the beginning"),
            _bind("end", "edge(1)", "scroll.bottom", "to the end; a log follows again"),
            _bind("o", "order", "processes.order", "another order of the ranks: CPU, reads, memory, where they wait"),
        ),
    ),
    (
        "the log",
        (
            _bind("slash", "search", "search", "search in the log", "/"),
            _bind("n", "search_step(1)", "search.next", "the next hit"),
            _bind("N", "search_step(-1)", "search.previous", "the hit before"),
            _bind("right_curly_bracket", "mark(1)", "log.mark_next", "the next line that began a phase", "}"),
            _bind("left_curly_bracket", "mark(-1)", "log.mark_before", "the line before that began a phase", "{"),
            _bind("L", "next_log", "log.next", "the next log of this launch"),
            _bind("w", "wrap", "log.wrap", "wrap long lines, or cut them"),
        ),
    ),
    (
        "the program",
        (
            _bind("t", "next_theme", "theme.next", "the next theme"),
            _bind("T", "change_theme", "theme.choose", "choose a theme"),
            _bind("ctrl+p", "command_palette", "palette", "every command by name", priority=True),
            _bind("question_mark", "help", "help", "this help", "?"),
            _bind("q", "quit", "quit", "quit at once"),
            _bind("ctrl+z", "suspend_process", "suspend", "to the shell; fg comes back here"),
            _bind("ctrl+c", "interrupt", "interrupt", "quit, and say so by the exit code"),
        ),
    ),
)

BINDINGS: list[Binding] = [binding for _, bindings in SECTIONS for binding in bindings]

# The screens before the main one move by the same ids, so that a key put elsewhere is elsewhere on all of them.

DUMPS: list[Binding] = [
    _bind("escape", "leave", "pane.back", "back to the main screen", "esc"),
    _bind("enter", "open_row", "dumps.open", "open or close a branch, a thread, the source of a frame"),
    _bind("right", "deeper(1)", "dumps.unfold", "open further"),
    _bind("left", "deeper(-1)", "dumps.fold", "close, or go to what it lies below"),
    _bind("left_square_bracket", "process(-1)", "dumps.previous", "the rank before", "["),
    _bind("right_square_bracket", "process(1)", "dumps.next", "the next rank", "]"),
    _bind("comma", "dump(-1)", "dumps.earlier", "the stacks taken before", ","),
    _bind("full_stop", "dump(1)", "dumps.later", "the stacks taken after", "."),
    _bind("tab", "side", "dumps.side", "merged stacks, or one process"),
    _bind("slash", "filter", "search", "filter: rank:0-3, thread:Main*, host:gpu1*, or a function or file", "/"),
    _bind("a", "all_threads", "dumps.all", "threads at rest and of libraries too, or not"),
    _bind("c", "compare", "dumps.compare", "what moved since the look before, and since the stacks before"),
    _bind("r", "text", "dumps.text", "plain text, or rows that open"),
    _bind("y", "copy", "dumps.copy", "copy the merged stacks, or those of the rank, as text"),
    _bind("w", "save", "dumps.save", "write all of it into files, as text and as JSON"),
    _bind("j,down", "move(1)", "scroll.down", "down one line", "j ↓"),
    _bind("k,up", "move(-1)", "scroll.up", "up one line", "k ↑"),
    _bind("ctrl+d,pagedown", "leaf(0.5)", "scroll.page_down", "down half a page", "ctrl+d"),
    _bind("ctrl+u,pageup", "leaf(-0.5)", "scroll.page_up", "up half a page", "ctrl+u"),
    _bind("home", "move(-100000)", "scroll.top", "to the beginning"),
    _bind("end", "move(100000)", "scroll.bottom", "to the end"),
]

FLEET: list[Binding] = [
    _bind("escape,f", "leave", "pane.back", "back to the main screen", "esc"),
    _bind("enter", "open_host", "fleet.open", "look at the chosen host"),
    _bind("slash", "filter", "search", "filter: verdict:hung, host:gpu1*, or a part of a name", "/"),
    _bind("o", "order", "fleet.order", "another order: gravest, by name, idle, silent longest"),
    _bind("b", "blocks", "fleet.blocks", "blocks show utilisation, power, memory or temperature"),
    _bind("c", "colour", "fleet.colour", "colour by verdict, or by what the blocks show"),
    _bind("j,down", "move(1)", "scroll.down", "down one host", "j ↓"),
    _bind("k,up", "move(-1)", "scroll.up", "up one host", "k ↑"),
    _bind("ctrl+d,pagedown,right", "column(1)", "scroll.page_down", "a column on", "ctrl+d"),
    _bind("ctrl+u,pageup,left", "column(-1)", "scroll.page_up", "a column back", "ctrl+u"),
    _bind("home", "move(-100000)", "scroll.top", "to the first host"),
    _bind("end", "move(100000)", "scroll.bottom", "to the last host"),
]

HELP: list[Binding] = [
    _bind("escape,q,question_mark,enter", "close", "help.close", "close the help", "esc"),
    _bind("j,down", "move(1)", "scroll.down", "down one line"),
    _bind("k,up", "move(-1)", "scroll.up", "up one line"),
    _bind("ctrl+d,pagedown", "move(10)", "scroll.page_down", "down half a page"),
    _bind("ctrl+u,pageup", "move(-10)", "scroll.page_up", "up half a page"),
    _bind("home", "move(-100000)", "scroll.top", "to the beginning"),
    _bind("end", "move(100000)", "scroll.bottom", "to the end"),
]

SCREENS: tuple[Sequence[Binding], ...] = (BINDINGS, DUMPS, FLEET, HELP)
"""Bindings that answer at the same time, the application's first; within each, a key does one thing."""

_DISPLAYS = {"escape": "esc", "down": "↓", "up": "↑", "left": "←", "right": "→"}
_MODIFIERS = {"ctrl", "alt", "shift", "super", "meta", "hyper"}
_NAMES = {key.value for key in KnownKeys} | {"space", "enter", "tab", "escape", "backspace", "delete"}


class WrongKey(ValueError):
    """A key cannot be given to the binding ``id``; the text says why."""

    def __init__(self, id: str, words: str) -> None:
        super().__init__(words)
        self.id = id


class Keys:
    """Which key runs which action now."""

    def __init__(self, remapped: Mapping[str, str] | None = None) -> None:
        """``remapped``: keys by id of a binding, one or several with commas. Raises: WrongKey."""
        self.remapped = {id: _keys(id, text) for id, text in (remapped or {}).items()}
        self._shown = {b.id or "": key_words(b) for bindings in reversed(SCREENS) for b in bindings}
        for id, keys in self.remapped.items():
            if id not in self._shown:
                from tui.config.reading import nearest

                rest = nearest(id, self._shown, "'?' in the monitor shows all.")
                raise WrongKey(id, f"there is no action {id!r}; {rest}")
            self._shown[id] = " ".join(display(key) for key in keys)
        for bindings in SCREENS:
            self._check(bindings)

    def __getitem__(self, id: str) -> str:
        """The key of a binding as people read it; empty for an id that is none."""
        return self._shown.get(id, "")

    @property
    def keymap(self) -> dict[str, str]:
        """For :meth:`textual.app.App.set_keymap`."""
        return {id: ",".join(keys) for id, keys in self.remapped.items()}

    def _check(self, bindings: Sequence[Binding]) -> None:
        owners: dict[str, str] = {}
        for binding in bindings:
            id = binding.id or ""
            for key in self.remapped.get(id) or _keys(id, binding.key):
                other = owners.setdefault(key, id)
                if other != id:
                    new, old = (id, other) if id in self.remapped else (other, id)
                    raise WrongKey(
                        new,
                        f"{display(key)!r} cannot be the key of {new!r}: it is that of {old!r}. Give that another too.",
                    )


def key_words(binding: Binding) -> str:
    """The default key as it is shown to people."""
    return binding.key_display or display(binding.key.split(",")[0])


def display(key: str) -> str:
    """``[`` for ``left_square_bracket``, ``ctrl+d`` as it is."""
    *modifiers, name = key.split("+") if key != "+" else [key]
    character = _character(name)
    shown = _DISPLAYS.get(name) or (character if character and character.isprintable() and name != "space" else name)
    return "+".join([*modifiers, shown])


def _character(name: str) -> str | None:
    """What a key of this name types, or ``None``."""
    return key_to_character(REPLACED_KEYS.get(name, name))


def _keys(id: str, text: str) -> tuple[str, ...]:
    """The keys of ``text`` by Textual's names. Raises: WrongKey."""
    return tuple(_key(id, part.strip()) for part in ([text] if text == "," else text.split(",")))


def _key(id: str, word: str) -> str:
    *modifiers, name = [word] if len(word) == 1 else word.split("+")
    if len(name) == 1 and name.isprintable() and not name.isspace():
        name = name if name.isalnum() else re.sub("[ -]", "_", unicodedata.name(name, "").lower())
        name = KEY_NAME_REPLACEMENTS.get(name, name)
    elif name not in _NAMES and _character(name) is None:
        raise WrongKey(id, f"{word!r} is no key; write a character, or a name such as ctrl+x, space, comma or f2.")
    if not name or not _MODIFIERS.issuperset(modifiers):
        raise WrongKey(id, f"{word!r} is no key; modifiers are written as ctrl+x, alt+x or shift+tab.")
    return "+".join([*modifiers, name])
