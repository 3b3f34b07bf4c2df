"""All keys, in the sections of the help screen. Every binding has an id, to be remapped by, and a tooltip."""

from __future__ import annotations

from textual.binding import Binding


def _bind(keys: str, action: str, id: str, words: str, display: str | None = None) -> Binding:
    return Binding(keys, action, words, id=id, tooltip=words, show=False, key_display=display)


SECTIONS: tuple[tuple[str, tuple[Binding, ...]], ...] = (
    (
        "what to look at",
        (
            *(_bind(str(n), f"launch({n})", f"launch.{n}", f"launch {n}") for n in range(1, 10)),
            _bind("left_square_bracket", "host(-1)", "host.previous", "the host before", "["),
            _bind("right_square_bracket", "host(1)", "host.next", "the next host", "]"),
            _bind("tab", "pane(1)", "pane.next", "the next pane"),
            _bind("shift+tab", "pane(-1)", "pane.previous", "the pane before"),
            _bind("enter", "open_focused", "pane.open", "open the pane in full"),
            _bind("escape", "leave_pane", "pane.back", "back to the whole screen", "esc"),
            _bind("l", "open('log')", "open.log", "log in full"),
            _bind("p", "open('processes')", "open.processes", "ranks and processes in full"),
            _bind("e", "open('evidence')", "open.evidence", "evidence: rival explanations and what refutes them"),
            _bind("g", "open('gpus')", "open.gpus", "GPUs in full"),
            _bind("space", "freeze", "freeze", "freeze what is shown, or go on"),
        ),
    ),
    (
        "take evidence",
        (
            _bind("d", "stacks", "stacks", "take the stacks of all ranks; never pauses a target"),
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
            _bind("slash", "search", "search", "search in the log", "/"),
            _bind("n", "search_step(1)", "search.next", "the next hit"),
            _bind("N", "search_step(-1)", "search.previous", "the hit before"),
        ),
    ),
    (
        "the program",
        (
            _bind("t", "next_theme", "theme.next", "the next theme"),
            _bind("question_mark", "help", "help", "this help", "?"),
            _bind("q", "quit", "quit", "quit at once"),
            _bind("ctrl+c", "interrupt", "interrupt", "quit, and say so by the exit code"),
        ),
    ),
)

BINDINGS: list[Binding] = [binding for _, bindings in SECTIONS for binding in bindings]


def key_words(binding: Binding) -> str:
    """The key as it is shown to people."""
    return binding.key_display or binding.key.split(",")[0]
