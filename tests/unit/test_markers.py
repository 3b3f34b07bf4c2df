"""The marker files: complete, and each pattern right on its own example and silent on all others."""

from __future__ import annotations

from importlib.resources import files

import pytest

from tui.diagnose.markers import EDGES, TELLS, Marker, load, parse, required_words
from tui.diagnose.phase_tracker import Load, Run
from tui.diagnose.phases import CAUSES, PHASES
from tui.diagnose.reader import LogReader
from tui.model import LogLine

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
    assert marker.edge in EDGES or (not marker.edge and marker.tells)
    assert not marker.tells or marker.tells in TELLS
    assert marker.source and marker.example
    assert marker.edge in ("", "fatal", "heartbeat", "neutral") or marker.phase in PHASES
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


def read(*texts: str) -> Run:
    reader = LogReader()
    reader.read([LogLine(text, 10.0 * n) for n, text in enumerate(texts, 1)], None)
    return reader.run


def test_the_last_statistics_of_a_server_count() -> None:
    """Figures that are none are no statistics; where no start was seen, they say that it serves."""
    said = "Engine 000: Avg prompt throughput: {} tokens/s, Avg generation throughput: {} tokens/s, Running: {} reqs"
    assert read(said.format("12.5", "30.0", 3), said.format("0.0", "0.0", 2)).load == Load(2.0, 0.0)
    run = read(said.format("12.5", "30.0", 3))
    assert (run.load, run.phase, run.framework) == (Load(3.0, 42.5), "serving", "vllm")
    assert read(said.format("1.2.3", "0.0.0", 3)).load is None


@pytest.mark.parametrize(
    ("start", "said"),
    [
        ("Init torch distributed begin.", "Decode batch, #running-req: 2, #token: 1900, token usage: 0.02"),
        (
            "[gpu_model_runner.py:3259] Starting to load model /m/y...",
            "Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, Running: 1 reqs",
        ),
        ("load_tensors: loading model tensors, this can take a while...", "slot launch_slot_: id  0 | task 412 | x"),
    ],
)
def test_what_a_server_at_work_prints_says_that_it_serves_where_no_start_was_seen(start: str, said: str) -> None:
    """A start that is still on its way is not ready for it: warm-ups, and jobs that embed a server, print it too."""
    assert read(said).ready and read(said).phase == "serving"
    assert not read(start, said).ready


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("Killed", "oom_kill"),
        ("bash: line 1:    42 Killed                  python3 -m vllm.entrypoints.openai.api_server", "oom_kill"),
        ("./run.sh: line 7:  4711 Segmentation fault      (core dumped) python3 train.py", "dead_rank"),
        ("Bus error (core dumped)", "dead_rank"),
        ("Killed 3 stale helpers of the last run", None),
        ("the watchdog says: Killed", None),
        ("Aborted: 0, retried: 3", None),
    ],
)
def test_what_a_shell_says_of_its_child_is_an_end(said: str, cause: str | None) -> None:
    """Of this launch's, not of a predecessor's that the script ended first."""
    assert [line.marker.cause for line in read("Init torch distributed begin.", said).fatal] == (
        [cause] if cause else []
    )
    assert not read("up", said).fatal


def test_a_server_that_waits_for_its_workers_says_so_at_a_time() -> None:
    said = "INFO [shm_broadcast.py:466] No available shared memory broadcast block found in 60 seconds."
    assert read("up", said).worker_wait_t == 20.0 and read("up").worker_wait_t is None


@pytest.mark.parametrize(
    "said",
    ["{'train_runtime': '5023', 'train_loss': '1.93'}", "[exiting program at iteration 2000] datetime: 2026-06-21 "],
)
def test_a_job_is_done_until_another_step_comes(said: str) -> None:
    """Its evaluation is no step; a second training is."""
    bar = "100%|##########| 20/20 [00:05<00:00,  3.9it/s]"
    assert read("{'loss': 2.31, 'epoch': 0.02}", said, bar).done
    assert not read(said, "{'loss': 2.31, 'epoch': 0.02}").done


def test_a_launcher_names_the_process_that_failed() -> None:
    run = read("failed (exitcode: -6) local_rank: 1 (pid: 7760) of binary: /usr/bin/python")
    assert run.fatal[0].pid == 7760


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
        ("[[marker]]\nid = 'a'\npattern = 'x'", "needs edge"),
        ("[[marker]]\nid = 'a'\npattern = 'x'\ntells = 'tale'", "tells must be one of lock_wait, request"),
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


@pytest.mark.parametrize(
    ("frames", "uncaught"),
    [
        (['  File "/app/train.py", line 9, in <module>'], True),
        (['  File "/usr/local/bin/vllm", line 8, in <module>', '  File "/opt/v/main.py", line 73, in main'], True),
        (['  File "<frozen runpy>", line 198, in _run_module_as_main', '  File "/a.py", line 2, in <module>'], True),
        (['  File "/usr/lib/python3.12/multiprocessing/process.py", line 314, in _bootstrap'], True),
        (['  File "/v/lib/python3.12/site-packages/vllm/attention.py", line 3, in <module>'], False),
        (['  File "/app/train.py", line 80, in fall_back', '  File "/app/x.py", line 3, in <module>'], False),
    ],
)
def test_an_error_that_nobody_caught_begins_where_its_process_began(frames: list[str], uncaught: bool) -> None:
    run = read("up", "Traceback (most recent call last):", *frames, "ImportError: No module named 'x'")
    assert [trace.uncaught for trace in run.tracebacks] == [uncaught]
