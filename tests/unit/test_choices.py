"""What was chosen is there at the next start; whatever is wrong with its file, nobody fails, waits or is told."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

import pytest

from tui.config import choices
from tui.config.choices import NOTHING_CHOSEN, Choices, Kept

CHOSEN = Choices({"dusk": "paper"}, ("log",), ("log", "gpus"), ("cpu", "rss"), "most CPU")


def keep(folder: Path, chosen: Choices) -> None:
    kept = Kept(folder)
    kept.keep(chosen)
    kept.close()


def test_what_is_kept_is_read_back_and_nothing_else_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there yet"
    assert Kept(folder).choices == NOTHING_CHOSEN
    keep(folder, CHOSEN)
    assert Kept(folder).choices == CHOSEN
    assert [file.name for file in folder.iterdir()] == ["choices.json"]


def test_where_nothing_is_chosen_nothing_is_written(tmp_path: Path) -> None:
    keep(tmp_path, NOTHING_CHOSEN)
    assert not list(tmp_path.iterdir())


def test_of_several_monitors_the_last_choice_counts(tmp_path: Path) -> None:
    first, second = Kept(tmp_path), Kept(tmp_path)
    for kept, pane in ((first, "log"), (second, "gpus"), (first, "evidence")):
        kept.keep(Choices(hidden_panes=(pane,)))
        kept.close()
        kept._thread = None
    assert Kept(tmp_path).choices.hidden_panes == ("evidence",)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "[" * 100_000,
        "\udcff",
        json.dumps({"themes": [1], "hidden_panes": "log", "ranks_order": 3}),
    ],
)
def test_a_broken_file_chooses_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "choices.json").write_text(text, errors="surrogateescape")
    assert Kept(tmp_path).choices == NOTHING_CHOSEN
    keep(tmp_path, CHOSEN)
    assert Kept(tmp_path).choices == CHOSEN


def test_what_can_be_used_of_it_is_used(tmp_path: Path) -> None:
    made = {"themes": {"dusk": 4, "ansi": "mono"}, "hidden_panes": ["log", None], "later": True}
    (tmp_path / "choices.json").write_text(json.dumps(made))
    assert Kept(tmp_path).choices == Choices({"ansi": "mono"}, ("log",))


def test_a_pipe_or_a_file_without_end_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    os.mkfifo(tmp_path / "a" / "choices.json")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "choices.json").symlink_to("/dev/zero")
    assert Kept(tmp_path / "a").choices == Kept(tmp_path / "b").choices == NOTHING_CHOSEN


def test_a_folder_that_cannot_be_made_is_nobodys_business(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    keep(tmp_path / "file" / "below", CHOSEN)
    assert Kept(tmp_path / "file" / "below").choices == NOTHING_CHOSEN


def test_a_dead_file_system_holds_up_neither_the_screen_nor_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = threading.Event()
    monkeypatch.setattr(choices, "_write", lambda path, chosen: never.wait(10))
    kept = Kept(tmp_path)
    began = time.monotonic()
    kept.keep(CHOSEN)
    assert time.monotonic() - began < 0.1
    kept.close()
    assert time.monotonic() - began < 0.4
    never.set()
