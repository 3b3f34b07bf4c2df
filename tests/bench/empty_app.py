"""The floor: the least that Textual can put on a screen."""

from textual.app import App, ComposeResult
from textual.widgets import Label


class EmptyApp(App[None]):
    def compose(self) -> ComposeResult:
        yield Label("the-first-paint")


if __name__ == "__main__":
    EmptyApp().run()
