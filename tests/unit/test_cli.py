"""The command line: bad words give one sentence and exit code 2, and a command that is none is a host."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tui.cli import COMMANDS, main


def run(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tui", *words]
    return subprocess.run(
        command,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("gpu01",), "needs a terminal"),
        (("snpshot",), "is 'snapshot' meant"),
        (("demo1",), "needs a terminal"),
        (("watch", "snpshot"), "needs a terminal"),
        (("snapshot", "n[1"), "'n[1' is no host name"),
        (("snapshot", "--pid", "abc"), "--pid abc: a process number"),
        (("snapshot", "--pid", "0"), "--pid 0: a process number"),
        (("snapshot", "--pid", "²"), "--pid ²: a process number"),
        (("snapshot", "--pid", "9" * 20), ": a process number"),
        (("snapshot", "--port", "²"), "'²' is no port"),
        (("snapshot", "--log", ""), "--log '': the path of a log"),
        (("watch", "--interval", "11"), "0.2 to 10 seconds"),
        (("snapshot", "--port", "99999999"), "1 to 65535"),
        (("replay", "/nowhere", "--json"), "/nowhere is no scenario"),
        (("replay", "/nowhere", "--speed", "-1"), "a number above 0, or max"),
        (("score", "/nowhere"), "/nowhere"),
        (("dump",), "name processes"),
        (("dump", "abc"), "PID or HOST:PID"),
        (("dump", "²"), "PID or HOST:PID"),
        (("dump", "--from", "x" * 5000), "there is no such file"),
        (("snapshot", "--bogus"), "--bogus"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_sentence(words: tuple[str, ...], said: str) -> None:
    done = run(*words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_help_is_a_command_too() -> None:
    assert run("help").stdout == run("--help").stdout
    assert run("help", "dump").stdout == run("dump", "--help").stdout


def test_help_begins_with_examples() -> None:
    done = run("--help")
    assert done.returncode == 0
    assert done.stdout.startswith("examples:\n  gputop-hang ")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_begins_with_its_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    said = capsys.readouterr().out
    assert said.startswith("examples:\n  gputop-hang")
    assert command == "watch" or f"\n  gputop-hang {command}" in said


def test_every_command_has_an_example_in_the_help_of_all() -> None:
    said = run("--help").stdout.split("\n\n")[0]
    assert all(f"gputop-hang {command}" in said for command in COMMANDS if command != "watch")


def test_a_group_that_is_none_is_said() -> None:
    done = run("snapshot", "@train")
    assert done.returncode == 2
    assert "@train is no group of " in done.stderr and "there is none" in done.stderr


@pytest.mark.parametrize(
    "words", ["replay tests/scenarios/seed-silent-hang --json", "snapshot --pid $$", "doctor", "config"]
)
def test_a_reader_that_leaves_early_is_no_error(words: str) -> None:
    """``gputop-hang … | head -1`` ends quietly: the table of rich, too, that would exit with 1 then."""
    pipe = f"({sys.executable} -m tui {words}; echo $? >&2) | head -1"
    done = subprocess.run(["sh", "-c", pipe], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.count("\n") == 1
    assert done.stderr == "0\n"


def test_a_process_that_is_not_there_is_said_by_the_exit_code() -> None:
    done = run("snapshot", "--pid", "4194305")
    assert done.returncode == 14
    assert "none that --pid or --port names" in done.stdout


def test_a_pipe_is_not_waited_for_where_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    done = run("dump", "--from", str(tmp_path / "pipe"))
    assert done.returncode == 2
    assert "it is no file" in done.stderr


def test_a_host_named_like_a_command_is_watched_in_the_long_form() -> None:
    done = run("watch", "demo")
    assert "needs a terminal" in done.stderr


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_descriptors_are_no_error(closed: str) -> None:
    """The exit code may be all that a caller wants; and no sentence for people gets into the data."""
    command = f"{sys.executable} -m tui replay tests/scenarios/seed-silent-hang --json --speed max {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (10, "")
    wrong = f"{sys.executable} -m tui replay /nowhere --json {closed}"
    done = subprocess.run(["sh", "-c", wrong], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize("size", ["0", "²", "99999999999"])
def test_a_size_that_no_terminal_has_is_no_size(size: str) -> None:
    done = run("snapshot", "--pid", str(os.getpid()), COLUMNS=size, LINES=size)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_a_full_disk_is_said() -> None:
    command = f"{sys.executable} -m tui replay tests/scenarios/seed-silent-hang --json > /dev/full"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr == "gputop-hang: the output cannot be written: No space left on device\n"


@pytest.mark.parametrize(
    "env",
    [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}],
    ids=["output", "locale"],
)
def test_an_encoding_without_our_characters_is_no_error(env: dict[str, str]) -> None:
    done = run("snapshot", "--pid", str(os.getpid()), **env)
    assert done.returncode == 0, done.stderr
