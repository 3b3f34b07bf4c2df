"""Whatever a line travelled through comes off, and says who wrote it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.collect.logtext import LogSplitter
from tui.diagnose.carriers import Head, Piece, Unwrapper, strip
from tui.diagnose.markers import MarkerFile, gather, parse
from tui.diagnose.reader import LogReader
from tui.model import LogLine

TEXT = "> initializing torch distributed ..."


@pytest.mark.parametrize(
    ("mark", "rank", "local"),
    [
        ("[1,3]<stderr>:", 3, None),
        ("[prterun-n1-4711@1,3]<stdout>: ", 3, None),
        ("Mon Jun 22 11:42:09 2026[1,12]<stdout>:", 12, None),
        ("3: ", 3, None),
        (" 12: ", 12, None),
        ("[rank3]: ", 3, None),
        ("[default3]:", None, 3),
        ("[default3]:[rank11]:", 11, 3),
        ("2026-02-22T11:42:09.1Z stdout F ", None, None),
        ("2026-02-22T11:42:09.1+01:00 stderr F 7: ", 7, None),
        ("2026-02-22T11:42:09.123456789Z ", None, None),
        ("[pod/cedar-0/server] ", None, None),
        ("[pod/cedar-0/server] 2026-02-22T11:42:09Z [1,5]<stdout>:", 5, None),
        ("Nov 29 17:00:01 n1 torchrun[4711]: ", None, None),
        ("2026-11-29T17:00:01+0100 n1 train.service[4711]: ", None, None),
        ("server-1  | ", None, None),
        ("cedar-0 server › ", None, None),
    ],
)
def test_carriers_come_off_in_layers(mark: str, rank: int | None, local: int | None) -> None:
    head, text = strip(mark + TEXT)
    assert (text, head.rank, head.local) == (TEXT, rank, local)


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        "[2026-02-22 11:42:09 TP3] Load weight begin. avail mem=1 GB",
        "[rank 3] text",
        "[node07]: text",
        "iteration      561/   24000 | consumed samples: 1",
        "E0513 09:00:03.123456 1 x.cc:277] a",
        "10.0.0.1 - GET / 200",
        "| Model | Version |",
        "",
    ],
)
def test_a_processs_own_text_is_left_alone(text: str) -> None:
    assert strip(text) == (Head(), text)


def pieces(*lines: LogLine) -> list[Piece]:
    unwrapper = Unwrapper()
    return [piece for line in lines for piece in unwrapper.pieces(line)]


def test_redraws_belong_to_the_writer_that_their_physical_line_names() -> None:
    got = pieces(
        LogLine("[1,3]<stderr>:", redraw=True),
        LogLine("Loading: 1% | 1/99", redraw=True),
        LogLine("Loading: 2% | 2/99"),
        LogLine("another line"),
    )
    assert [piece.head.rank for piece in got] == [3, 3, 3, None]


def test_parts_are_joined_stream_by_stream_and_bounded() -> None:
    got = pieces(
        LogLine("2026-01-01T00:00:00Z stdout P one "),
        LogLine("2026-01-01T00:00:00Z stderr P three "),
        LogLine("2026-01-01T00:00:00Z stdout F two"),
        LogLine("2026-01-01T00:00:00Z stderr F four"),
        *[LogLine("2026-01-01T00:00:00Z stdout P " + "x" * 4000) for _ in range(9)],
        LogLine("2026-01-01T00:00:00Z stdout F end"),
    )
    assert [piece.text for piece in got[:2]] == ["one two", "three four"]
    assert len(got[2].text) < 5000


@given(st.lists(st.builds(LogLine, st.text(max_size=80), st.just(1.0), st.booleans(), st.booleans()), max_size=10))
def test_nothing_is_made_up(lines: list[LogLine]) -> None:
    """Without JSON and parts, every line gives one piece, and that is the line's own end."""
    plain = [line for line in lines if not line.text.lstrip().startswith("{") and " P " not in line.text]
    got = pieces(*plain)
    assert len(got) == len(plain)
    assert all(line.text.endswith(piece.text) for line, piece in zip(plain, got, strict=True))


def test_the_example_for_contributors_is_true() -> None:
    """The file that CONTRIBUTING.md shows is read as it says."""
    page = (Path(__file__).parent.parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    shown = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    assert shown is not None
    file: MarkerFile = parse(shown[1], "CONTRIBUTING.md")
    reader = LogReader(lambda: gather([file]))
    reader.read([LogLine(file.markers[0].example, 1.0)], None)
    assert (reader.run.framework, reader.run.phase) == ("cedar", "weight_load")
    reader.read([LogLine("3: <0> pouring 64 of 64 barrels", 2.0)], None)
    assert reader.run.phase == "post_load"


def _cri(line: bytes) -> bytes:
    return b"2026-01-01T00:00:00.000000001Z stderr F " + line


def _cri_in_parts(line: bytes) -> bytes:
    """As a runtime cuts long lines, here after forty bytes."""
    head, rest = line[:40], line[40:]
    part = b"2026-01-01T00:00:00.000000001Z stderr P " + head + b"\n" if rest else b""
    return part + _cri(rest or head)


def _docker(line: bytes) -> bytes:
    return json.dumps({"log": line.decode("utf-8", "replace") + "\n", "stream": "stderr", "time": "x"}).encode()


CARRIERS: dict[str, Callable[[bytes], bytes]] = {
    "CRI": _cri,
    "CRI in parts": _cri_in_parts,
    "docker json-file": _docker,
    "JSON logger": lambda line: json.dumps({"message": line.decode("utf-8", "replace")}).encode(),
    "kubectl --prefix": lambda line: b"[pod/cedar-0/server] " + line,
    "journalctl": lambda line: b"Nov 29 17:00:01 n1 serve.sh[4711]: " + line,
    "docker compose": lambda line: b"server-1  | " + line,
    "torchrun --tee": lambda line: b"[default0]:" + line,
    "mpirun --tag-output": lambda line: b"[1,0]<stderr>:" + line,
    "srun --label in CRI": lambda line: _cri(b"0: " + line),
}


def _spans(data: bytes) -> tuple[list[str], list[str], object]:
    splitter, reader = LogSplitter(), LogReader()
    for i, line in enumerate(data.splitlines(keepends=True)):
        reader.read(splitter.feed(line, float(i)), None)
    run = reader.run
    counted = run.counter and (run.counter.done, run.counter.total)
    return [phase for phase, _ in run.spans], [line.marker.name for line in run.fatal], counted


LOGS = sorted((Path(__file__).parent.parent / "scenarios").glob("*/*.log"))


@pytest.mark.parametrize("carrier", CARRIERS)
@pytest.mark.parametrize("path", LOGS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_carried_log_tells_what_the_log_tells(path: Path, carrier: str) -> None:
    """Every recorded log, carried line by line: the same phases in the same order, fatal lines and counters."""
    lines = path.read_bytes().split(b"\n")
    carried = b"".join(CARRIERS[carrier](line) + b"\n" for line in lines[:-1])
    assert _spans(carried) == _spans(b"\n".join(lines[:-1]) + b"\n")
