"""Every kind of dump that real processes wrote is read: py-spy's JSON and text, faulthandler of Python 3.6 to 3.14."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.stacks import faulthandler, kernel, pyspy
from tui.stacks.frames import bare, bounded, frame, label, ranges

SAMPLES = Path(__file__).parent.parent / "samples"
DUMPS = sorted((SAMPLES / "faulthandler").iterdir())
SILENT = {"3.11.7.int_default", "3.11.7.pyhandler", "3.11.7.register_abrt", "torch213.c10.SIGABRT"}
"""A traceback of SIGINT, a handler's own words, an error on registering, and c10's native stacks: no dumps."""


def text(path: Path) -> str:
    return path.read_text(errors="replace")


def dump(name: str) -> faulthandler.FaultDump:
    (only,) = faulthandler.parse(text(SAMPLES / "faulthandler" / name))
    return only


@pytest.mark.parametrize("path", DUMPS, ids=lambda p: p.name)
def test_every_sample_has_the_threads_it_shows(path: Path) -> None:
    lines = text(path).splitlines()
    shown = sum(line.endswith("(most recent call first):") and "C stack" not in line for line in lines)
    dumps = faulthandler.parse(text(path))
    assert sum(len(d.threads) for d in dumps) == shown
    assert bool(dumps) == (path.name.removesuffix(".stderr") not in SILENT)
    assert not dumps or sum(len(t.frames) for d in dumps for t in d.threads) == sum(
        line.startswith(("  File ", "  Garbage-coll", "  ...")) for line in lines
    )
    assert all(not d.torn for d in dumps)


@pytest.mark.parametrize("name", [p.name for p in DUMPS if ".many." in p.name])
def test_more_than_a_hundred_threads_lose_the_main_one(name: str) -> None:
    many = dump(name)
    assert len(many.threads) == 100
    assert many.cut
    assert not any(t.main for t in many.threads)


@pytest.mark.parametrize("name", [p.name for p in DUMPS if ".env." in p.name])
def test_the_main_thread_is_found_in_every_version(name: str) -> None:
    (main,) = [t for t in dump(name).threads if t.main]
    assert main.frames[-1].function == "<module>"
    assert main.thread_id is not None
    assert dump(name).reason == "Aborted"


def test_the_main_thread_is_not_the_one_that_took_the_signal() -> None:
    main = next(t for t in dump("dstate.stderr").threads if t.main)
    assert [f.function for f in main.frames] == ["save_checkpoint", "<module>"]


def test_names_of_threads_and_what_is_not_ascii() -> None:
    assert [t.name for t in dump("3.14.10.env.stderr").threads][:2] == ["lambda-é中-na", "worker-loop"]
    newest = dump("3.11.7.exec.stderr").threads[0].frames[0]
    assert (newest.function, newest.file) == ("état_attente", "<string 中文>")


def test_what_comes_after_the_threads() -> None:
    assert dump("3.11.7.torch.stderr").extension_modules[0] == "numpy._core._multiarray_umath"
    assert len(dump("3.11.7.torch.stderr").extension_modules) == 13
    native = dump("3.14.10.env.stderr").native
    assert native[0].function == "_Py_DumpStack" and native[0].file == "python3.14"


def test_a_timeout_and_a_registered_signal_leave_a_living_process() -> None:
    assert dump("3.11.7.later.stderr").reason == "Timeout (0:00:01)"
    assert dump("3.11.7.usr1_registered.stderr").reason == ""


def test_a_registered_signal_twice_is_two_dumps() -> None:
    once = text(SAMPLES / "faulthandler" / "3.11.7.usr1_registered.stderr")
    assert [len(d.threads) for d in faulthandler.parse(once + once)] == [7, 7]


def test_a_dump_in_a_log_with_prefixes_names_its_rank() -> None:
    """torchrun --tee, mpirun --tag-output and srun -l put the rank before every line; two ranks' lines alternate."""
    body = text(SAMPLES / "faulthandler" / "3.11.7.env.stderr").splitlines()
    for prefix in ("[default{}]:", "[1,{}]<stderr>:", "{}: "):
        mixed = "\n".join(prefix.format(rank) + line for line in body for rank in (3, 11))
        dumps = faulthandler.parse("loading...\n" + mixed)
        assert {d.rank: len(d.threads) for d in dumps} == {3: 7, 11: 7}
        assert [t.frames for t in dumps[0].threads] == [t.frames for t in dump("3.11.7.env.stderr").threads]


def test_two_lines_torn_into_one_are_parted() -> None:
    whole = text(SAMPLES / "faulthandler" / "3.11.7.env.stderr")
    torn = whole.replace("in wait_lock\n", "in wait_lock", 1).replace("call first):\n", "call first):", 1)
    assert faulthandler.parse(torn)[0].threads == faulthandler.parse(whole)[0].threads


def test_hostile_names_are_cleaned_after_unescaping() -> None:
    evil = (
        'Fatal Python error: Aborted\n\nCurrent thread 0x01 (most recent call first):\n  File "\\x1b[2J", line 1 in f\n'
    )
    assert "\x1b" not in faulthandler.parse(evil)[0].threads[0].frames[0].file


PIECES = st.sampled_from(
    [
        line + end
        for p in DUMPS
        if ".env." in p.name or ".gc." in p.name
        for line in text(p).splitlines()
        for end in ("\n", "")
    ]
    + ["...\n", "  ...\n", "Stack (most recent call first):\n", "  <no Python frame>\n", "\n", "Timeout (0:1)!\n", "\r"]
)


@settings(max_examples=150)
@given(st.lists(PIECES | st.text(max_size=30), max_size=60))
def test_no_mixture_of_lines_makes_the_parser_fail(pieces: list[str]) -> None:
    for found in faulthandler.parse("".join(pieces)):
        assert found.threads


# ------------------------------------------------------------------------------------------------------------- py-spy


def test_pyspy_json_marks_the_main_thread_and_puts_it_first() -> None:
    value = json.loads(text(SAMPLES / "gloo8" / "rank5.pyspy.json"))
    main, *rest = pyspy.from_json(value)
    assert main.main and main.os_thread_id == 4193 and main.thread_id == 0x7F47DEBCCB80
    assert main.frames[0].function == "BatchCache.refill"
    assert [t.name for t in rest] == ["cache-evictor", "heartbeat"]


def test_in_another_pid_namespace_the_program_tells_the_main_thread() -> None:
    value = json.loads(text(SAMPLES / "gloo8" / "rank5.pyspy.json"))
    assert pyspy.from_json(value, pid=99)[0].frames[-1].function == "<module>"


@pytest.mark.parametrize("rank", range(8))
def test_text_and_json_of_one_process_show_the_same_stacks(rank: int) -> None:
    threads = pyspy.from_json(json.loads(text(SAMPLES / "gloo8" / f"rank{rank}.pyspy.json")))
    (shown,) = pyspy.from_text(text(SAMPLES / "gloo8" / f"rank{rank}.pyspy.txt"))
    assert [(t.os_thread_id, t.name, t.main) for t in shown.threads] == [
        (t.os_thread_id, t.name, t.main) for t in threads
    ]
    assert [[(f.function, f.line) for f in t.frames] for t in shown.threads] == [
        [(f.function, f.line) for f in t.frames] for t in threads
    ]


def test_text_with_subprocesses_holds_all_nine_processes() -> None:
    dumps = pyspy.from_text(text(SAMPLES / "gloo8" / "agent.pyspy.subprocesses.txt"))
    assert len(dumps) == 9
    assert dumps[0].threads[0].frames[0].function == "SimpleElasticAgent._invoke_run"


@pytest.mark.parametrize("path", sorted((SAMPLES / "pyspy").iterdir()), ids=lambda p: p.name)
def test_text_of_every_python_version(path: Path) -> None:
    (shown,) = pyspy.from_text(text(path))
    assert len(shown.threads) == 7
    assert shown.threads[0].main and shown.threads[0].frames[-1].function == "<module>"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["pid", "thread_id", "os_thread_id", "thread_name", "active", "owns_gil", "frames", "name", "filename"]
            ),
            inner,
            max_size=9,
        )
    ),
    max_leaves=40,
)


@settings(max_examples=150)
@given(st.lists(JSON, max_size=5))
def test_no_json_makes_the_reader_fail(value: list[object]) -> None:
    threads = pyspy.from_json(value)
    assert sum(t.main for t in threads) == (1 if threads else 0)


def test_the_kernels_word_joins_the_main_thread_across_namespaces() -> None:
    rows = [
        {"tid": 900, "comm": "python", "state": "S", "wchan": "futex_do_wait", "syscall": "202 0x1"},
        {"tid": 901, "comm": "pt_gloo", "state": "S", "wchan": "0"},
    ]
    seen = kernel.from_look(rows, 900)
    inside = pyspy.from_json(
        [{"os_thread_id": 7, "frames": [{"name": "<module>", "filename": "a.py", "line": 1}]}], 900
    )
    assert kernel.joined(inside, seen)[0].wchan == "futex_do_wait"
    assert seen[1].wchan is None


# -------------------------------------------------------------------------------------------------------------- frames


def test_small_forms() -> None:
    assert ranges([7, 0, 1, 2, 3, 4, 6]) == "0-4,6-7"
    assert ranges([]) == ""
    assert bare("f.<locals>.g") == "g"
    assert bare("c10d::Work::wait") == "c10d::Work::wait"
    assert label(frame("get", "/a/b/cache.py", 31)) == "get (cache.py:31)"
    assert label(frame("poll", "libc.so.6", 0)) == "poll (libc.so.6)"
    assert len(bounded([frame("f", "x.py", 1)] * 5000)) == 1025


def test_a_module_run_with_m_or_while_it_is_imported_is_no_mixture() -> None:
    """Below ``<module>`` come runpy's frames, or those of the import that runs it."""
    whole = faulthandler.parse(
        "Fatal Python error: Aborted\n\nCurrent thread 0x01 (most recent call first):\n"
        '  File "/a/kernels.py", line 3 in <module>\n  File "<frozen importlib._bootstrap>", line 241 in _call\n'
        '  File "/a/rank.py", line 9 in <module>\n  File "<frozen runpy>", line 88 in _run_code\n'
        '  File "<frozen runpy>", line 198 in _run_module_as_main\n'
    )
    assert [len(t.frames) for d in whole for t in d.threads] == [5]
    assert not whole[0].torn and whole[0].threads[0].main
