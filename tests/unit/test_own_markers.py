"""A user's own marker files add a framework, replace a marker, and do no harm where they are wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tui.diagnose.markers import load
from tui.diagnose.phase_tracker import Load
from tui.diagnose.reader import LogReader
from tui.model import LogLine
from tui.session.own_markers import OwnMarkers

MINE = r"""
framework = "cedar"
prefix = '^<(?P<rank>\d+)> '

[[marker]]
id = "load"
pattern = '^pouring (?P<n>\d+) of (?P<total>\d+) barrels'
phase = "weight_load"
edge = "progress"
unit = "barrels"

[[marker]]
id = "spill"
pattern = 'barrel burst'
edge = "fatal"
cause = "exception"
remedy = "Mop up."
"""


def read(markers: OwnMarkers, *texts: str) -> LogReader:
    reader = LogReader(markers)
    reader.read([LogLine(text, 1.0) for text in texts], None)
    return reader


def test_a_file_adds_a_framework_with_its_prefix_counters_and_fatal_lines(tmp_path: Path) -> None:
    (tmp_path / "cedar.toml").write_text(MINE)
    own = OwnMarkers(tmp_path)
    run = read(own, "<3> pouring 12 of 64 barrels", "<3> barrel burst").run
    assert (run.framework, run.phase, run.phase_of(3)) == ("cedar", "weight_load", "weight_load")
    assert run.counter is not None and run.counter.progress().unit == "barrels"
    assert run.fatal[0].marker.remedy == "Mop up." and not own.problems
    assert len(own().all) == len(load().all) + 2, "those of the package are still there"


def test_a_marker_of_the_same_name_is_replaced(tmp_path: Path) -> None:
    """A wording that changed can be mended without a new release."""
    (tmp_path / "sglang.toml").write_text(
        'framework = "sglang"\n'
        '[[marker]]\nid = "load.begin"\npattern = "Weights now"\nphase = "weight_load"\nedge = "begin"\n'
    )
    assert read(OwnMarkers(tmp_path), "Weights now").run.phase == "weight_load"
    assert read(OwnMarkers(tmp_path), "Load weight begin. avail mem=1 GB").run.phase == "unknown"


def test_a_file_says_what_a_line_tells_beside_a_phase(tmp_path: Path) -> None:
    (tmp_path / "cedar.toml").write_text(
        'framework = "cedar"\n'
        "[[marker]]\nid = 'stats'\npattern = 'taps open: (?P<running>\\d+), (?P<generated>\\d+) a second'\n"
        "tells = 'load'\n"
    )
    assert read(OwnMarkers(tmp_path), "taps open: 3, 0 a second").run.load == Load(3.0, 0.0)


def test_a_wrong_file_is_left_out_with_a_sentence_and_the_others_count(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("[[marker]]\nid = 'x'\npattern = '('\nedge = 'fatal'")
    (tmp_path / "b.toml").write_text(MINE)
    own = OwnMarkers(tmp_path)
    assert read(own, "<3> pouring 1 of 2 barrels").run.phase == "weight_load"
    (said,) = own.problems
    assert said.startswith(f"{tmp_path}/a.toml: marker x: missing )") and "left out" in said


def test_they_are_found_in_the_configuration_directory(tmp_path: Path) -> None:
    folder = tmp_path / "gputop-hang" / "markers"
    folder.mkdir(parents=True)
    (folder / "cedar.toml").write_text(MINE)
    code = (
        "from tui.session.own_markers import OwnMarkers; print(any(m.framework == 'cedar' for m in OwnMarkers()().all))"
    )
    env = os.environ | {"XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    if sys.platform == "linux":
        assert done.stdout.strip() == "True"
