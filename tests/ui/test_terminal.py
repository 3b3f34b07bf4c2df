"""What the terminal itself is told: title, bell and notification, on a real pseudo-terminal and through a real tmux."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import time
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import need_program
from tests.tmux import Tmux
from tests.ui import fakes
from tests.ui.terminal import on_a_terminal, read_for, read_until
from tui.model import Snapshot
from tui.ui.title import WindowTitle, title_of

PLAYGROUND = ("-m", "tests.ui.playground", "--state", "hung")
TITLE = "✗ HUNG sglang orion-v3-fp8"
PUSHED, GIVEN_BACK = b"\x1b[22;2t", b"\x1b]2;\x07\x1b[23;2t"


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the terminal in which the tests are run."""
    for name in ("TMUX", "TERM_PROGRAM", "LC_TERMINAL", "ITERM_SESSION_ID", "KITTY_WINDOW_ID", "WEZTERM_PANE"):
        monkeypatch.delenv(name, raising=False)


def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, notices: str) -> None:
    (tmp_path / "gputop-hang").mkdir(exist_ok=True)
    (tmp_path / "gputop-hang" / "config.toml").write_text(f"[notices]\n{notices}\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def bells(written: bytes) -> int:
    """BEL characters that do not end a sequence (Textual sends OSC 22, the pointer's shape)."""
    return re.sub(rb"\x1b\][^\x07]*\x07", b"", written).count(b"\x07")


def test_title_bell_and_notification_come_once_and_the_title_goes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(tmp_path, monkeypatch, "terminal = true")
    monkeypatch.setenv("TERM_PROGRAM", "WezTerm")
    with on_a_terminal(*PLAYGROUND) as terminal:
        got = read_until(terminal, b"777;notify;", 20) + read_for(terminal, 2.5)
        os.write(terminal, b"q")
        after = read_until(terminal, None, 5)
    everything = got + after
    assert b"\x1b]777;notify;HUNG: sglang orion-v3-fp8 on gpu-a17;" in got
    assert everything.count(b"777;notify;") == 1
    assert everything.count(PUSHED) == 1 and f"\x1b]2;{TITLE}\x07".encode() in got
    assert bells(everything) == 1
    assert after.endswith(GIVEN_BACK) and after.index(b"\x1b[?1049l") < after.index(GIVEN_BACK)


def test_the_title_goes_back_when_quitting_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last resort of quitting gives back what was taken too."""
    configure(tmp_path, monkeypatch, "")
    code = (
        "import time; from tests.ui import playground as p\n"
        "async def stop(self): time.sleep(5)\n"
        "p.FakeSession.stop = stop\np.main()"
    )
    with on_a_terminal("-c", code) as terminal:
        read_until(terminal, TITLE.encode(), 20)
        os.write(terminal, b"q")
        assert read_until(terminal, None, 3).endswith(GIVEN_BACK)


def test_each_way_can_be_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(tmp_path, monkeypatch, "title = false\nbell = false")
    with on_a_terminal(*PLAYGROUND) as terminal:
        got = read_until(terminal, b"HUNG", 20) + read_for(terminal, 1.5)
    assert bells(got) == 0 and PUSHED not in got and b"\x1b]2;" not in got


def test_a_terminal_without_titles_gets_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(tmp_path, monkeypatch, "")
    code = "import os; os.environ['TERM'] = 'linux'; from tests.ui.playground import main; main()"
    with on_a_terminal("-c", code) as terminal:
        got = read_until(terminal, b"HUNG", 20) + read_for(terminal, 1)
    assert b"\x1b]2;" not in got and PUSHED not in got


class TmuxOnTerminal:
    """The playground in a tmux whose client stands on a pseudo-terminal of ours: what tmux lets out can be read."""

    def __init__(self, passthrough: str) -> None:
        self.tmux = [need_program("tmux"), "-L", f"gputop-{uuid.uuid4().hex[:12]}", "-f", "/dev/null"]
        words = ["set", "-g", "allow-passthrough", passthrough, ";", "set", "-g", "remain-on-exit", "on", ";"]
        words += ["new-session", sys.executable, *PLAYGROUND]
        self.args = ("-c", f"import os; os.execv({self.tmux[0]!r}, {[*self.tmux, *words]!r})")

    def ask(self, form: str) -> str:
        shown = subprocess.run([*self.tmux, "display-message", "-p", form], capture_output=True, text=True, check=False)
        return shown.stdout.strip()

    def until(self, form: str, value: str) -> bool:
        end = time.monotonic() + 20
        while time.monotonic() < end:
            if self.ask(form) == value:
                return True
            time.sleep(0.1)
        return False

    def end(self) -> None:
        subprocess.run([*self.tmux, "kill-server"], capture_output=True, check=False)


def test_through_tmux_and_the_panes_title_goes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(tmp_path, monkeypatch, 'terminal = "osc9"')
    inside = TmuxOnTerminal("on")
    try:
        with on_a_terminal(*inside.args) as terminal:
            got = read_until(terminal, b"\x1b]9;HUNG: sglang", 25)
            assert b"Ptmux" not in got  # tmux has taken its wrapping off
            assert inside.until("#{pane_title}", TITLE)
            os.write(terminal, b"q")
            assert inside.until("#{pane_dead}", "1")
            assert inside.ask("#{pane_title}") != TITLE
            assert inside.ask("#{pane_title}") == os.uname().nodename
    finally:
        inside.end()


def test_a_tmux_that_lets_nothing_through_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(tmp_path, monkeypatch, 'terminal = "osc9"')
    inside = TmuxOnTerminal("off")
    try:
        with on_a_terminal(*inside.args) as terminal:
            got = read_until(terminal, b"allow-passthrough", 25)
        assert b"\x1b]9;" not in got
    finally:
        inside.end()


# ------------------------------------------------------------------------------------------------------------ the title


def with_verdicts(*verdicts: str) -> Snapshot:
    base = fakes.snapshot("hung")
    view = base.launches[0]
    views = [
        replace(view, launch=replace(view.launch, id=str(n), name=f"job{n}"), verdict=replace(view.verdict, id=id))
        for n, id in enumerate(verdicts)
    ]
    return replace(base, launches=tuple(views))


def test_the_terminals_own_size_counts_and_not_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever starts us from a program that uses readline passes LINES and COLUMNS on, as they were there once."""
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("LINES", "20")
    scenario = str(Path(__file__).parents[1] / "scenarios" / "seed-silent-hang")
    with Tmux([sys.executable, "-m", "tui", "replay", scenario], columns=120, rows=40) as tmux:
        tmux.wait_for(r"(?m)^.{110,}$", 20)
        tmux.resize(80, 24)
        tmux.wait_for(r"\A(?:.*\n){23}.*q quit\s*\Z", 5)


def test_the_title_names_the_gravest_launch() -> None:
    assert title_of(fakes.snapshot("empty")) == "gputop-hang"
    assert title_of(with_verdicts("slow", "ready")) == "~ SLOW job0"
    assert title_of(with_verdicts("slow", "suspect", "hung", "crashed")) == "✗ HUNG job2 +2"
    assert title_of(with_verdicts("[/new]")) == "∙ [/NEW] job0"


def test_a_title_holds_no_control_and_is_written_when_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "__stderr__", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    written: list[str] = []
    title = WindowTitle(written.append)
    snapshot = with_verdicts("hung")
    view = snapshot.launches[0]
    snapshot = replace(snapshot, launches=(replace(view, launch=replace(view.launch, name="a\x1b]0;x\x07\x9cé")),))
    for _ in range(3):
        title.show(snapshot)
    assert written == ["\x1b[22;2t\x1b]2;HUNG a\x07"]  # nothing that a terminal without UTF-8 would show as a blot
