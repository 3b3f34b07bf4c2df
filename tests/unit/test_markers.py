"""The marker files: complete, and each pattern right on its own example and silent on all others."""

from __future__ import annotations

from importlib.resources import files

import pytest

from tui.diagnose.markers import EDGES, Marker, load, parse, required_words
from tui.diagnose.phases import CAUSES, PHASES

MARKERS = load().all


def _name(marker: Marker) -> str:
    return f"{marker.framework or 'common'}:{marker.id}"


def test_every_file_of_the_folder_is_loaded() -> None:
    folder = files("tui.diagnose").joinpath("markers")
    names = {file.name for file in folder.iterdir() if file.name.endswith(".toml")}
    assert {"common.toml", "sglang.toml", "vllm.toml", "megatron.toml", "trtllm.toml"} <= names
    assert len(MARKERS) == sum(folder.joinpath(name).read_text(encoding="utf-8").count("[[marker]]") for name in names)


@pytest.mark.parametrize("marker", MARKERS, ids=_name)
def test_marker_is_complete(marker: Marker) -> None:
    assert marker.edge in EDGES and marker.source and marker.example
    assert marker.edge in ("fatal", "heartbeat", "neutral") or marker.phase in PHASES
    assert {marker.phase, marker.then, marker.again, *marker.inside} - {""} <= PHASES.keys()
    assert marker.who in ("all", "rank0", "main", "one", "some")
    if marker.edge == "fatal":
        assert marker.cause in CAUSES and marker.remedy.endswith(".")


@pytest.mark.parametrize("marker", MARKERS, ids=_name)
def test_pattern_matches_its_own_example_and_is_found_by_a_word_of_it(marker: Marker) -> None:
    assert marker.match(marker.example)
    found = load().of(marker.example)
    assert marker in found, f"none of {marker.words} is a word of the example"


@pytest.mark.parametrize("marker", MARKERS, ids=_name)
def test_no_other_pattern_claims_the_example(marker: Marker) -> None:
    """Two fatal patterns may name one line: the more particular cause counts."""
    others = [m for m in MARKERS if m is not marker and m.match(marker.example)]
    assert all(m.edge == "fatal" and marker.edge == "fatal" for m in others), [_name(m) for m in others]


def test_ids_are_unique_in_a_framework() -> None:
    names = [_name(marker) for marker in MARKERS]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"Load weight begin\. avail mem=", "Load weight begin avail mem"),
        (r"Init (?:torch distributed|parallel) begin\.", "Init begin distributed|parallel"),
        (r"(?:Alpha done|Beta done)", "Alpha|Beta"),
        (r"optional(?:ly)? word", "word"),
        (r"nccl(?:System|Internal)Error", ""),
        (r"(?i)any case", ""),
        (r"^\.+$", ""),
        (r"iteration +(?P<n>\d+)/ *(?P<total>\d+) \|", "iteration"),
        (r"colou?r bars", "bars"),
        (r"\b(?:alpha|beta) \d+ of\b", "alpha|beta"),
    ],
)
def test_required_words_are_sure(pattern: str, words: str) -> None:
    """Each word that is asked for must stand in every line that matches, whole; of alternatives one."""
    assert [set(one_of) for one_of in required_words(pattern)] == [set(one.split("|")) for one in words.split()]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[[marker]]\nid = 'a'\npattern = '('\nedge = 'fatal'", "unterminated"),
        ("[[marker]]\nid = 'a'\npattern = 'x'\nedge = 'start'", "edge must be one of"),
        ("[[marker]]\nid = 'a'\nedge = 'begin'", "needs pattern"),
        ("[[marker]]\nid = 'a'\npattern = 'x'\nedge = 'fatal'\nphasse = 'y'", "unknown keys phasse"),
        ("[[marker]]\nid = 'a'\npattern = 'x'\nedge = 'begin'", "needs phase"),
        ("[[marker]]\nid = 'a'\npattern = 1\nedge = 'fatal'", "pattern must be a text"),
        ("[[marker]]\nid = 'a'\npattern = 'x'\nedge = 'fatal'\ninside = 'y'", "inside must be a list"),
        ("marker = 3", "must be"),
        ("frame = 'x'", "unknown keys frame"),
        ("prefix = '('", "prefix: missing"),
        ("[[marker", "Expected"),
    ],
)
def test_a_bad_file_is_refused_in_one_sentence(text: str, what: str) -> None:
    with pytest.raises(ValueError, match=what) as error:
        parse(text, "mine.toml")
    assert str(error.value).startswith("mine.toml")
