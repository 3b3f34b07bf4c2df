"""Notices: each change once, none for what comes and goes, and programs that can neither hold nor harm the monitor."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.ui import fakes
from tui.config.settings import Notices
from tui.model import Snapshot
from tui.notices import programs, terminal
from tui.notices.changes import AGAIN_AFTER_S, Changes
from tui.notices.notifier import Notifier


def snapshot(verdict: str, t: float, attempt: int = 1, name: str = "sglang moe") -> Snapshot:
    base = fakes.snapshot("hung", 400.0)
    view = base.launches[0]
    launch = replace(view.launch, attempt=attempt, name=name)
    return replace(base, t=t, launches=(replace(view, launch=launch, verdict=replace(view.verdict, id=verdict)),))


def told(*verdicts: str, every_s: float = 10.0) -> list[str]:
    changes = Changes()
    return [n.view.verdict.id for i, v in enumerate(verdicts) for n in changes.feed(snapshot(v, 100 + i * every_s))]


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ("progressing progressing slow waiting ended", ""),
        ("progressing suspect suspect hung hung", "suspect hung"),
        ("progressing hung unknown hung unknown unknown hung", "hung"),
        ("progressing slow ready ready", "ready"),
        ("ready unknown ready", ""),  # it served already when the monitor came
        ("unknown hung", "hung"),  # hung by then: told
        ("progressing hung slow ready", "hung ready"),  # taken back, and it went well
        ("slow suspect slow suspect slow suspect", "suspect"),  # comes and goes
        ("ready crashed", "crashed"),
    ],
)
def test_each_change_is_told_once(verdicts: str, expected: str) -> None:
    assert told(*verdicts.split()) == expected.split()


def test_what_comes_again_after_a_while_is_told_again() -> None:
    assert told("suspect", "slow", "suspect", every_s=AGAIN_AFTER_S) == ["suspect", "suspect"]


def test_another_attempt_is_told_anew() -> None:
    changes = Changes()
    steps = [("progressing", 1), ("hung", 1), ("progressing", 2), ("hung", 2)]
    notices = [n for i, (v, attempt) in enumerate(steps) for n in changes.feed(snapshot(v, 10.0 * i, attempt))]
    assert [(n.view.launch.attempt, n.before) for n in notices] == [(1, "progressing"), (2, "progressing")]


def test_a_notice_says_what_where_and_why_in_clean_text() -> None:
    changes = Changes()
    notice = changes.feed(snapshot("hung", 1.0, name="a\x1b]52;c;eA==\x07b\nc"))[0]
    assert notice.headline == "HUNG: ab c on gpu-a17"
    assert notice.headline.isprintable() and notice.body.isprintable()
    assert notice.body == notice.view.verdict.reasons[0]


# ------------------------------------------------------------------------------------------------------------ terminals


@pytest.mark.parametrize(
    ("environ", "more", "way"),
    [
        ({"TERM_PROGRAM": "iTerm.app"}, (), "osc9"),
        ({"TERM_PROGRAM": "WezTerm"}, (), "osc777"),
        ({"TERM": "xterm-kitty"}, (), "osc777"),
        ({"TERM": "foot-extra"}, (), "osc777"),
        ({"TERM": "xterm-256color", "LC_TERMINAL": "iTerm2"}, (), "osc9"),
        ({"TERM": "tmux-256color", "TERM_PROGRAM": "tmux"}, ("WezTerm 20240203", "xterm-256color"), "osc777"),
        ({"TERM": "tmux-256color", "TERM_PROGRAM": "tmux", "KITTY_WINDOW_ID": "1"}, (), "osc777"),
        ({"TERM": "xterm-256color"}, (), None),
        ({"TERM_PROGRAM": "Apple_Terminal", "TERM": "xterm-256color"}, (), None),
        ({"TERM": "linux"}, (), None),
        ({}, (), None),
    ],
)
def test_only_known_terminals_are_sent_sequences(
    environ: dict[str, str], more: tuple[str, ...], way: str | None
) -> None:
    assert terminal.recognised(environ, *more) == way


def test_the_sequences_hold_nothing_that_a_terminal_would_obey() -> None:
    bad = "HUNG; x\x1b]52;c;eA==\x07\x9c"
    for way in ("osc9", "osc777"):
        sequence = terminal.notification(way, bad, bad)
        assert sequence.startswith("\x1b]") and sequence.endswith("\x07")
        assert sequence[2:-1].isprintable()
    assert terminal.notification("osc777", "a;b", "c;d") == "\x1b]777;notify;a,b;c;d\x07"
    assert terminal.through_tmux("\x1b]9;x\x07") == "\x1bPtmux;\x1b\x1b]9;x\x07\x1b\\"


def test_an_unknown_terminal_is_said_and_sent_nothing() -> None:
    way = terminal.TerminalWay(True, {"TERM": "xterm-256color"})
    assert way.sequence("a", "b") == "" and "osc777" in way.problem
    assert terminal.TerminalWay("osc9", {}).sequence("a", "") == "\x1b]9;a\x07"


# ------------------------------------------------------------------------------------------------------------- programs


def test_a_program_gets_its_input_and_says_why_it_failed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert programs.run(["sh", "-c", f"cat > {out}"], "hello") == ""
    assert out.read_text() == "hello"
    assert programs.run(["sh", "-c", "echo one >&2; echo 'no \x1b[2Jroute' >&2; exit 3"]) == "sh ended with 3: no route"
    assert programs.run(["/no/such"]) == "/no/such cannot be run: No such file or directory"
    assert programs.run([str(tmp_path)]) == f"{tmp_path} cannot be run: Permission denied"
    assert programs.run(["a\0b"]).endswith("cannot be run: embedded null byte")
    assert programs.run(["sh", "-c", "kill -9 $$"]) == "sh was ended by signal 9"


def test_a_program_that_reads_nothing_or_leaves_children_behind_holds_nobody(tmp_path: Path) -> None:
    began = time.monotonic()
    assert programs.run(["true"], "x" * 1_000_000) == ""
    assert (
        programs.run(["sh", "-c", f"sleep 5 & echo $! > {tmp_path / 'pid'}"]) == ""
    )  # its child holds all it inherits
    assert time.monotonic() - began < 3


def test_a_program_that_does_not_end_is_ended_with_its_children(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    said = programs.run(["sh", "-c", f"sleep 60 & echo $! > {pid}; wait"], within_s=0.5)
    assert said == "sh did not end within 0.5 s and was ended"
    child = int(pid.read_text())
    assert wait_until(lambda: not alive(child))


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(what: Callable[[], bool], timeout_s: float = 5.0) -> bool:
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.02)
    return False


def test_on_verdict_gets_the_verdict_as_json_without_a_shell(tmp_path: Path) -> None:
    out = tmp_path / "$(touch owned)"
    code = "import sys, pathlib; pathlib.Path(sys.argv[1]).write_text(sys.stdin.read())"
    said: list[str] = []
    settings = Notices(bell=False, on_verdict=(sys.executable, "-c", code, str(out)))
    notifier = Notifier(settings, write=said.append, say=said.append)
    notifier.feed(snapshot("slow", 1.0))
    notifier.feed(snapshot("hung", 2.0))
    assert wait_until(lambda: out.exists() and out.read_text().endswith("\n"))
    given = json.loads(out.read_text())
    assert (given["v"], given["verdict"], given["previous"]) == (1, "hung", "slow")
    assert given["launch"]["name"] == "sglang moe" and given["reasons"]
    assert said == []


def test_a_failing_program_is_said_once_and_delays_nothing() -> None:
    said: list[str] = []
    settings = Notices(bell=False, on_verdict=("sh", "-c", "sleep 0.3; exit 4"))
    notifier = Notifier(settings, write=said.append, say=said.append)
    began = time.monotonic()
    for i, verdict in enumerate(("suspect", "hung", "ready", "crashed")):
        notifier.feed(snapshot(verdict, float(i)))
    assert time.monotonic() - began < 0.25
    assert wait_until(lambda: said == ["on_verdict: sh ended with 4"])
    time.sleep(0.5)
    assert len(said) == 1


def test_the_bell_rings_for_alarms_alone() -> None:
    written: list[str] = []
    notifier = Notifier(Notices(), write=written.append, say=written.append)
    for i, verdict in enumerate(("progressing", "suspect", "hung", "slow", "ready")):
        notifier.feed(snapshot(verdict, float(i)))
    assert written == ["\a", "\a"]


def test_the_desktop_is_notified_by_its_own_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for notify-send notes what it is called with; where there is none, that is said."""
    said: list[str] = []
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    Notifier(Notices(bell=False, desktop=True), write=said.append, say=said.append).feed(snapshot("hung", 1.0))
    assert wait_until(lambda: bool(said)) and "notify-send" in said[0]
    stand_in = tmp_path / "notify-send"
    stand_in.write_text(
        f"#!{sys.executable}\nimport sys\nopen({str(tmp_path / 'called')!r}, 'w').write(repr(sys.argv[1:]))\n"
    )
    stand_in.chmod(0o755)
    Notifier(Notices(bell=False, desktop=True), write=said.append, say=said.append).feed(snapshot("hung", 1.0))
    called = tmp_path / "called"
    assert wait_until(lambda: called.exists() and called.read_text().endswith("]"))
    assert "'--urgency=critical', '--', 'HUNG: sglang moe on gpu-a17'" in called.read_text()
    assert len(said) == 1


def test_markup_in_a_desktop_notice_is_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "notify-send").touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(sys, "platform", "linux")
    assert programs.desktop_command("-x", "<b>&", alarm=False)[-3:] == ["--", "-x", "&lt;b&gt;&amp;"]
