"""What the history keeps, what it forgets, and what it does not know."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.simulated_launch import ASLEEP, LOADING, SimulatedLaunch
from tui.diagnose.heartbeat import Recurrence
from tui.diagnose.progress import Counter, frame
from tui.diagnose.reader import LogReader
from tui.diagnose.stamps import stamp
from tui.history import History
from tui.model import Identity, LogLine, LogUpdate, Sample
from tui.track import Track


def _track(times: list[float], values: list[float | None]) -> Track:
    track = Track(("x",))
    for t, value in zip(times, values, strict=True):
        track.add(t, (value,))
    return track


def test_a_rate_is_taken_over_the_window_by_the_rows_that_enclose_it() -> None:
    track = _track([float(t) for t in range(100)], [2.0 * t for t in range(100)])
    reading = track.rate("x", 50.0, 60.0, 3.0)
    assert reading.value == pytest.approx(2.0) and reading.coverage == 1.0


def test_a_window_that_is_covered_below_eighty_percent_is_unknown() -> None:
    track = _track([0.0, 1.0, 2.0, 3.0, 4.0], [0.0] * 5)
    assert track.mean("x", 0.0, 5.0, 3.0).value == 0.0
    assert track.mean("x", 0.0, 20.0, 3.0).value is None
    assert track.rate("x", 0.0, 20.0, 3.0).value is None


def test_missing_readings_are_none_and_never_zero() -> None:
    track = _track([0.0, 1.0, 2.0], [None, None, None])
    assert track.mean("x", 0.0, 2.0, 3.0).value is None and track.last("x") is None
    assert track.values("x", 0.0, 2.0) == []


def test_a_counter_that_begins_anew_is_not_negative() -> None:
    track = _track([0.0, 1.0, 2.0, 3.0], [100.0, 110.0, 5.0, 15.0])
    assert track.rate("x", 0.0, 3.0, 3.0).value == pytest.approx(20.0 / 3.0)


def test_memory_is_bounded_and_a_day_is_kept_in_minutes() -> None:
    track = Track(("x",))
    for t in range(100_000):
        track.add(float(t), (float(t),))
    times, _ = track.window("x", 0.0, 100_000.0)
    assert 1_300 <= len(times) <= 1_900 and times[0] >= 100_000 - 1.3 * 86_400
    assert len(track.window("x", 99_900.0, 100_000.0)[0]) >= 99
    assert track.rate("x", 10_000.0, 90_000.0, 3.0).value == pytest.approx(1.0)


@given(st.lists(st.floats(0.01, 30.0), min_size=1, max_size=60), st.floats(1.0, 50.0))
def test_coverage_is_a_share(gaps: list[float], window: float) -> None:
    times = [sum(gaps[: i + 1]) for i in range(len(gaps))]
    track = _track(times, [1.0] * len(times))
    coverage = track.coverage(times[-1] - window, times[-1], 3.0)
    assert 0.0 <= coverage <= 1.0 and not math.isnan(coverage)


def test_samples_that_were_held_up_on_the_way_keep_their_distance() -> None:
    """Three samples arrive at once after a stutter of the network: the rate is by the host's clock."""
    history = History()
    sim = SimulatedLaunch(1)
    sim.doing = {0: LOADING}
    for _ in range(20):
        sample = sim.tick()
        late = sample if sim.t < 15 else Sample(**{**_fields(sample), "t": 15.0 + 0.01 * (sim.t - 15)})
        history.add(late if abs(late.t - sample.t) < 2.0 else sample)
    reading = history.rate("node1", 4000, 77, "cpu_s", 10.0, 20.0)
    assert reading.value == pytest.approx(0.9, abs=0.05)


def _fields(sample: Sample) -> dict[str, object]:
    return {name: getattr(sample, name) for name in Sample.__dataclass_fields__}


def test_what_children_burned_is_counted_after_they_ended() -> None:
    history = History()
    sim = SimulatedLaunch(1)
    from tests.simulated_launch import Doing

    sim.doing = {0: Doing(children={"ptxas": 100.0, "python3": 50.0})}
    for _ in range(10):
        history.add(sim.tick())
    sim.doing = {0: ASLEEP}
    history.add(sim.tick())
    proc = history.host("node1").procs[(4000, 77)]  # type: ignore[union-attr]
    assert proc.track.last("children_cpu_s") == pytest.approx(13.5, abs=0.1)
    assert proc.track.last("compilers_cpu_s") == pytest.approx(9.0, abs=0.1)


def _log(*lines: LogLine, mtime: float | None = None) -> Sample:
    return Sample("h", 100.0, 100.0, 1_000_100.0, logs=(LogUpdate("/l", 10.0, mtime=mtime, lines=lines),))


def _said_by(*ranks: tuple[int, int], gone: bool = False) -> History:
    """Local rank 3 says that it failed, on a host whose processes are these ranks, by rank and local rank."""
    history = History()
    new = tuple(
        Identity(4000 + n, 77, env={"RANK": str(rank), "LOCAL_RANK": str(local)})
        for n, (rank, local) in enumerate(ranks)
    )
    history.add(Sample("h", 99.0, 99.0, 1_000_099.0, new=new))
    line = LogLine("[default3]:torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", 100.0)
    ended = tuple((each.pid, each.start_ticks) for each in new) if gone else ()
    history.add(Sample("h", 100.0, 100.0, 1_000_100.0, logs=(LogUpdate("/l", 10.0, lines=(line,)),), gone=ended))
    return history


@pytest.mark.parametrize(
    ("ranks", "rank"),
    [
        ([], 3),
        ([(0, 0), (3, 3)], 3),
        ([(8, 0), (11, 3)], 11),
        ([(10, 2)], 11),
        ([(0, 0), (4, 0)], None),
    ],
)
def test_torchruns_prefix_counts_from_the_first_rank_of_its_host(
    ranks: list[tuple[int, int]], rank: int | None
) -> None:
    """A log alone is of one node; where two nodes run on one host, nobody is named. The dying are still known."""
    for gone in (False, True):
        log = _said_by(*ranks, gone=gone).log("h", "/l")
        assert log is not None and [line.rank for line in log.reader.run.fatal] == [rank]


def test_what_lay_there_has_been_silent_since_its_mtime() -> None:
    history = History()
    history.add(_log(LogLine("[2026-01-01 10:00:00] a"), mtime=1_000_050.0))
    log = history.log("h", "/l")
    assert log is not None and log.silent_s(100.0) == pytest.approx(50.0)


def test_the_tail_keeps_the_last_frame_of_a_bar_and_the_finished_form_of_an_open_line() -> None:
    history = History()
    history.add(
        _log(LogLine("10%", 1.0, redraw=True), LogLine("20%", 2.0, redraw=True), LogLine("par", 3.0, open=True))
    )
    history.add(_log(LogLine("partial", 4.0)))
    log = history.log("h", "/l")
    assert log is not None and [line.text for line in log.tail] == ["partial"]


# ------------------------------------------------------------------------------------------------------- reading logs


@pytest.mark.parametrize(
    ("text", "done", "total"),
    [
        ("Loading safetensors checkpoint shards:  33% Completed | 1/3 [00:01<00:02,  1.1s/it]", 1, 3),
        ("  0%|          | 0/39 [00:00<?, ?it/s]", 0, 39),
        ("Capturing batches (bs=160 avail_mem=21.40 GB): 100%|██████████| 39/39 [07:17<00:00,  1.04it/s]", 39, 39),
        ("model-00097-of-00136.safetensors:  21%|██▏  | 1.05G/4.97G [00:04<00:15, 248MB/s]", 1.05e9, 4.97e9),
        ("Running tokenizer:   9%|▉         | 41030/433643 [03:12<30:37, 213.70 examples/s]", 41030, 433643),
        ("Rank 6: prefetching checkpoint files: 25% (16/64)", 16, 64),
    ],
)
def test_bars_of_any_shape_give_their_count(text: str, done: float, total: float) -> None:
    drawn = frame(text)
    assert drawn is not None and (drawn.done, drawn.total) == (done, total)


@pytest.mark.parametrize("text", ["", "100 % of /dev/sda1", "GPU 99%/100%", "a/b 5%", "1/2"])
def test_what_is_no_bar_gives_none(text: str) -> None:
    assert frame(text) is None


def test_a_counter_knows_its_pace_and_its_rest() -> None:
    counter = Counter("shards")
    for k in range(11):
        assert counter.note(2.0 * k, float(k), 64.0)
    assert not counter.note(30.0, 10.0, 64.0)
    progress = counter.progress()
    assert (progress.rate, progress.eta_s) == (pytest.approx(0.5), pytest.approx(108.0))
    assert counter.interval_s() == pytest.approx(2.0)


@given(st.text(max_size=300))
def test_no_text_breaks_the_reader(text: str) -> None:
    reader = LogReader()
    reader.read(
        [LogLine(text, 1.0), LogLine(text, 2.0, redraw=True), LogLine(text, 3.0, open=True), LogLine(text)], 0.5
    )
    frame(text)
    stamp(text)


def test_recurrences_on_a_clock_are_told_from_news() -> None:
    recurrence = Recurrence()
    assert [recurrence.note(f"alive {k}", 60.0 * k) for k in range(4)] == ["new", "again", "clock", "clock"]
    doubling = Recurrence()
    assert [doubling.note(f"retry {k}", float(10 * 2**k)) for k in range(4)][-1] == "clock"
    burst = Recurrence()
    assert {burst.note(f"rank {k} is up", 1.0 + 0.1 * k) for k in range(8)} == {"new"}


@pytest.mark.parametrize(
    ("first", "second", "apart"),
    [
        ("[2026-02-22 11:42:14] x", "[2026-02-22 11:43:15 TP3] y", 61.0),
        ("INFO 05-13 23:59:59 [a.py:1] x", "INFO 05-14 00:00:01 [a.py:1] y", 2.0),
        ("[11/03/2026-08:12:08] [TRT-LLM] x", "[11/03/2026-08:12:18] y", 10.0),
        ("W0804 09:00:01.412000 7711 x", "E0804 09:30:35.998000 7711 y", 1834.586),
        ("2026-03-13 21:06:59,041 - INFO", "2026-03-13T21:07:00.041Z", 1.0),
    ],
)
def test_stamps_of_any_kind_give_distances(first: str, second: str, apart: float) -> None:
    a, b = stamp(first), stamp(second)
    assert a is not None and b is not None and b - a == pytest.approx(apart)


@pytest.mark.parametrize("text", ["no date", "2026-13-45 99:99:99", "INFO 02-30 00:00:00 x"])
def test_what_is_no_date_gives_none(text: str) -> None:
    assert stamp(text) is None


def _read(*lines: str) -> LogReader:
    reader = LogReader()
    for k, text in enumerate(lines):
        reader.read([LogLine(text, 10.0 * k)], None)
    return reader


def test_the_second_run_in_one_file_counts_and_the_first_does_not() -> None:
    reader = _read(
        "[2026-01-27 17:02:29] server_args=ServerArgs(model_path='/m')",
        "[2026-01-27 17:03:45] The server is fired up and ready to roll!",
        "[2026-01-28 08:40:23] server_args=ServerArgs(model_path='/m')",
    )
    assert (reader.run.attempt, reader.run.ready, reader.run.phase) == (2, False, "spawn")


def test_the_draft_model_is_no_restart() -> None:
    """SGLang up to 0.5.12 prints the same lines again for the draft model, after the target's graphs."""
    reader = _read(
        *[f"[2026-02-21 03:10:45 TP{r}] Load weight begin. avail mem=1 GB" for r in (0, 1)],
        "Loading safetensors checkpoint shards: 100% Completed | 2/2 [00:01<00:00,  1.0it/s]",
        *[f"[2026-02-21 03:10:45 TP{r}] Capture cuda graph begin. avail mem=1 GB" for r in (0, 1)],
        *[f"[2026-02-21 03:10:45 TP{r}] Load weight begin. avail mem=1 GB" for r in (0, 1)],
        "Loading safetensors checkpoint shards: 100% Completed | 1/1 [00:01<00:00,  1.0it/s]",
    )
    assert [phase for phase, _ in reader.run.spans] == ["weight_load", "post_load", "graph_capture", "draft_load"]


def test_an_open_port_is_ready_for_vllm_and_not_for_sglang() -> None:
    up = ["INFO:     Application startup complete.", "INFO:     Uvicorn running on http://0.0.0.0:8000"]
    sglang = _read("[2026-02-21 03:10:45] server_args=ServerArgs(x)", *up)
    vllm = _read("INFO 05-13 09:00:06 [api_server.py:1839] vLLM API server version 0.11.2", *up)
    assert (sglang.run.ready, vllm.run.ready) == (False, True)


def test_the_rank_that_has_not_printed_what_all_print_is_behind() -> None:
    reader = _read(
        *[f"[2026-02-21 03:10:45 TP{r}] Load weight begin. avail mem=1 GB" for r in range(4)],
        *[f"[2026-02-21 03:11:45 TP{r}] Load weight end. elapsed=1 s" for r in (0, 1, 3)],
    )
    behind = reader.run.behind()
    assert behind is not None and behind[1] == {2}
    assert reader.run.phase_of(2) == "weight_load" and reader.run.phase_of(3) == "post_load"


def test_vllm_workers_are_known_by_the_pid_that_their_prefix_named_once() -> None:
    reader = _read(
        "(Worker pid=520) INFO 05-13 09:00:34 [p.py:1] world_size=8 rank=6 local_rank=6 distributed_init_method=tcp://h:1",
        "(Worker pid=520) ERROR 05-13 09:00:36 [multiproc_executor.py:700] WorkerProc failed to start.",
    )
    assert reader.run.ranks.keys() == {6} and reader.run.fatal[0].rank == 6


def test_a_lump_is_dated_by_its_own_stamps_back_from_the_last_write() -> None:
    reader = LogReader()
    reader.read(
        [
            LogLine("[2026-02-22 11:42:00] server_args=ServerArgs(x)"),
            LogLine("[2026-02-22 11:42:30 TP0] Init torch distributed begin."),
            LogLine("[2026-02-22 11:43:00 TP0] Load weight begin. avail mem=1 GB"),
        ],
        1000.0,
    )
    assert list(reader.run.spans) == [("spawn", 940.0), ("dist_init", 970.0), ("weight_load", 1000.0)]
