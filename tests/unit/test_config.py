"""The configuration file: what it may say takes effect, and what it may not is one sentence at the right place."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tui.cli import main
from tui.config.settings import Notices, load
from tui.config.where import place_of
from tui.errors import UsageError
from tui.headless.config import example_text
from tui.thresholds import Thresholds

FULL = """\
hosts = ["@train", "gpu09"]
theme = "paper"

[groups]
train = ["gpu[01-02]", "alice@gpu03"]

[logs]
localhost = "/var/log/a.log"
gpu09 = ["/data/*.log", "/data/router.log"]
"@train" = "/scratch/run.log"

[keys]
stacks = "D"
scroll.down = "s,down"
"search.next" = "f6"

[thresholds]
suspect_s = 90

[notices]
bell = false
terminal = "osc9"
on_verdict = ["notify", "--now"]
"""

Capture = pytest.CaptureFixture[str]


def config(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return path


def test_a_missing_file_is_no_fault(tmp_path: Path) -> None:
    settings = load(tmp_path / "config.toml")
    assert settings.text is None
    assert settings.host_words([]) == []
    assert settings.notices == Notices()


def test_all_that_it_may_say_is_read(tmp_path: Path) -> None:
    settings = load(config(tmp_path, FULL))
    assert settings.theme == "paper"
    assert settings.keys == {"stacks": "D", "scroll.down": "s,down", "search.next": "f6"}
    assert settings.thresholds == Thresholds(suspect_s=90.0)
    assert settings.notices == Notices(bell=False, terminal="osc9", on_verdict=("notify", "--now"))


def test_hosts_and_groups_stand_for_words_of_the_command_line(tmp_path: Path) -> None:
    settings = load(config(tmp_path, FULL))
    assert settings.host_words([]) == ["gpu[01-02]", "alice@gpu03", "gpu09"]
    assert settings.host_words(["@train", "x"]) == ["gpu[01-02]", "alice@gpu03", "x"]
    assert settings.host_words(["train"]) == ["train"]  # a host may be called as a group is
    with pytest.raises(UsageError, match=r"@serve is no group of .*; there are @train\."):
        settings.host_words(["@serve"])


def test_logs_belong_to_the_hosts_that_are_watched(tmp_path: Path) -> None:
    settings = load(config(tmp_path, FULL))
    assert settings.log_words([]) == ["/var/log/a.log"]
    assert settings.log_words(["gpu09"]) == ["gpu09:/data/*.log", "gpu09:/data/router.log"]
    assert settings.log_words(["gpu[01-02]"]) == ["gpu01:/scratch/run.log", "gpu02:/scratch/run.log"]
    assert settings.log_words(["elsewhere"]) == []


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("hosts = [", None, "this is not TOML"),
        ("\nhosts = = 1\n", "line 2, column 9", "this is not TOML (Invalid value); correct it there"),
        ("[groups\n", "line 1, column 8", "this is not TOML"),
        ('theme = "dusk"\nthem = "x"', "line 2, column 1", "there is no 'them'; did you mean 'theme'?"),
        (
            "zzz = 1",
            "line 1, column 1",
            "there is no 'zzz'; known are hosts, groups, logs, theme, keys, thresholds, notices",
        ),
        ("[thresholds]\nhung = 60", "line 2, column 1", "there is no 'hung' in [thresholds]; did you mean 'hung_s'?"),
        ("[thresholds]\nhung_s = true", "line 2, column 1", "must be a number of seconds from 0 to 86400"),
        ("[thresholds]\nsuspect_s = -1", "line 2, column 1", "must be a number of seconds"),
        ("[thresholds]\nsuspect_s = nan", "line 2, column 1", "must be a number of seconds"),
        ('[thresholds]\nsuspect_s = "1m"', "line 2, column 1", "must be a number of seconds"),
        ("[thresholds]\nhung_s = 60\nsuspect_s = 90", "line 2, column 1", "suspicion comes first"),
        ("thresholds = 60", "line 1, column 1", "'thresholds' is a table"),
        ('hosts = "gpu01"', "line 1, column 1", "must be a list of texts"),
        ("hosts = [1]", "line 1, column 1", "must be a list of texts"),
        ('hosts = [\n  "a",\n  "-x"]', "line 1, column 1", "cannot begin with a dash"),
        ('hosts = ["@a"]', "line 1, column 1", "'@a' is no group"),
        ('hosts = ["@trian"]\n[groups]\ntrain = ["a"]', "line 1, column 1", "did you mean 'train'?"),
        ('[groups]\n# [groups]\n  a = ["n[9-1]"]', "line 3, column 3", "runs backwards"),
        ('[groups]\na = ["x"]\nb = ["@a"]', "line 3, column 1", "a group holds hosts, not groups"),
        ('groups = ["a"]', "line 1, column 1", "'groups' is a table"),
        ('[logs]\n"a b" = "x"', "line 2, column 1", "'a b' is no host name"),
        ("[logs]\ngpu01 = 3", "line 2, column 1", "must be a list of texts"),
        ("theme = 3", "line 1, column 1", "must be a text in quotes"),
        ("[keys]\nstacks = 3", "line 2, column 1", "must be a text in quotes"),
        ("[notices]\nbel = true", "line 2, column 1", "there is no 'bel' in [notices]; did you mean 'bell'?"),
        ('x = """\ntheme = 1\n"""\n[notices]\nbell = 1', "line 1, column 1", "there is no 'x'"),
        ('[notices]\nbell = "on"', "line 2, column 1", "'bell' is 'on' but must be true or false."),
        ('[notices]\nterminal = "osc5"', "line 2, column 1", 'true or false, "osc9" or "osc777"'),
        ('[notices]\ndesktop = "osc9"', "line 2, column 1", "true or false."),
        ('[notices]\non_verdict = "mail me"', "line 2, column 1", "no shell reads it"),
        ("[notices]\non_verdict = []\nbell = 1", "line 3, column 1", "'bell' is 1"),
        ("notices = { bell = 1 }", "line 1, column 13", "'bell' is 1"),
        ("notices.bell = 1", "line 1, column 9", "'bell' is 1"),
        ('"\\u001b[2J" = 1', "line 1, column 1", "there is no"),
    ],
)
def test_a_fault_is_one_sentence_with_its_place(tmp_path: Path, text: str, place: str | None, words: str) -> None:
    path = config(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        load(path)
    said = str(caught.value)
    assert said.startswith(str(path))
    assert words in said
    assert place is None or f", {place}: " in said
    assert said.isprintable()


def test_what_cannot_be_read_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot be read: Is a directory; correct it"):
        load(tmp_path)
    (tmp_path / "latin").write_bytes(b"theme = '\xe9'")
    with pytest.raises(UsageError, match="it is not UTF-8 text"):
        load(tmp_path / "latin")
    (tmp_path / "deep").write_text("x = " + "[" * 100_000)
    with pytest.raises(UsageError, match="this is not TOML"):
        load(tmp_path / "deep")


def test_what_has_no_end_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zeros").symlink_to("/dev/zero")
    for name in ("pipe", "zeros"):
        with pytest.raises(UsageError, match="cannot be read: it is no regular file; correct it"):
            load(tmp_path / name)
    with (tmp_path / "long").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UsageError, match="cannot be read: it is longer than 1024 KiB"):
        load(tmp_path / "long")


def test_themes_and_markers_without_an_end_are_left_out(home: Path, capsys: Capture) -> None:
    for folder in ("themes", "markers"):
        (home / folder).mkdir()
        os.mkfifo(home / folder / "pipe.toml")
    assert main(["config"]) == 0
    said = capsys.readouterr().err
    assert said.count("it is no regular file") == 2 and said.count("pipe.toml") >= 2


def test_a_place_is_where_the_statement_begins() -> None:
    """Names in comments, strings and other tables do not mislead it."""
    text = '# bell = 1\n[groups]\nbell = ["""\nbell = 2\n"""]\n\n[notices]\n# bell\ntitle = true\nbell = [\n 1,\n]\n'
    assert place_of(text, ("notices", "bell")) == (10, 1)
    assert place_of(text, ("groups", "bell")) == (3, 1)
    assert place_of(text, ("nothing",)) is None


def test_the_example_can_be_used_as_it_is_and_with_all_of_it_taken_in(tmp_path: Path) -> None:
    assert load(config(tmp_path, example_text())).notices == Notices()
    taken_in = re.sub(r"(?m)^#(?=\S)", "", example_text())
    assert taken_in.count("\n") == example_text().count("\n") and taken_in != example_text()
    settings = load(config(tmp_path, taken_in))
    assert settings.hosts and settings.groups and settings.logs and settings.theme and settings.keys
    assert settings.notices.on_verdict
    assert settings.thresholds.suspect_s < settings.thresholds.hung_s


def test_the_example_names_every_setting() -> None:
    named = set(re.findall(r"(?m)^#?\[?([a-z_]+)\]?(?: =|$)", example_text()))
    tables = {"hosts", "groups", "logs", "theme", "keys", "thresholds", "notices"}
    assert {*tables, *Notices.__dataclass_fields__, *Thresholds.__dataclass_fields__} <= named


def test_the_example_names_every_shipped_theme() -> None:
    shipped = {path.stem for path in (Path(__file__).parents[2] / "themes").glob("*.toml")}
    assert shipped and all(f" {name}," in example_text().replace("# ", " ") for name in shipped)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program's own configuration directory, empty."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "gputop-hang").mkdir()
    return tmp_path / "gputop-hang"


def test_config_says_which_file_is_read_and_what_is_in_force(home: Path, capsys: Capture) -> None:
    assert main(["config"]) == 0
    assert "is not there: what follows are the defaults" in capsys.readouterr().out
    config(home, FULL)
    (home / "themes").mkdir()
    (home / "themes" / "bad.toml").write_text("name = 1")
    (home / "markers").mkdir()
    (home / "markers" / "mine.toml").write_text("marker = [")
    assert main(["config"]) == 0
    said = capsys.readouterr()
    assert "bad.toml is left out" in said.err
    assert "mine.toml" in said.err and "this marker file is left out" in said.err
    for words in (str(home / "config.toml"), "@train  gpu[01-02]", "paper", "stacks = 'D'", "title  terminal", "--now"):
        assert words in said.out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('\ntheme = "dark"', "line 2, column 1: There is no theme 'dark'; there are "),
        ('[keys]\nstack = "x"', "line 2, column 1: there is no action 'stack'; did you mean 'stacks'?"),
        ('[keys]\nstacks = "v"', "line 2, column 1: 'v' cannot be the key of 'stacks': it is that of 'dumps'"),
        ('[keys]\nscroll.down = "bogus"', "line 2, column 8: 'bogus' is no key"),
        ('[keys]\n"scroll.down" = "ctl+x"', "line 2, column 1: 'ctl+x' is no key"),
    ],
)
def test_what_only_the_screen_knows_is_checked_too(home: Path, capsys: Capture, text: str, words: str) -> None:
    config(home, text)
    assert main(["config"]) == 2
    said = capsys.readouterr()
    assert words in said.err and said.err.count("\n") == 1
    assert said.out == ""


@pytest.mark.parametrize("command", ["snapshot", "doctor", "config"])
def test_every_command_stops_at_a_wrong_file(home: Path, capsys: Capture, command: str) -> None:
    config(home, "hots = 1")
    assert main([command]) == 2
    assert "there is no 'hots'; did you mean 'hosts'?" in capsys.readouterr().err


def test_the_file_and_its_parts_are_not_loaded_where_there_is_none(tmp_path: Path) -> None:
    """The first picture waits for nothing that is not needed."""
    code = f"""
import sys
from pathlib import Path
from tui.config.settings import load

load(Path({str(tmp_path / "none")!r}))
print(sorted({{"tomllib", "tomli", "difflib", "textual"}} & set(sys.modules)))
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
