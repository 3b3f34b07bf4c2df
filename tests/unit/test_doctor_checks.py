"""What ``doctor`` makes of readings that no machine of the tests has: links, Xids, limits, holders of GPU memory."""

from __future__ import annotations

import io
import platform
import sys
from collections.abc import Iterable
from contextlib import redirect_stdout
from typing import Any

import pytest

from tests.conftest import missing
from tui.headless import doctor
from tui.headless.checks.finding import Finding, Seen, gib, gpus_named
from tui.headless.checks.sheet import Sheet
from tui.model import HostView, Launch, LaunchView, LogView, ProcView, Sample, Verdict
from tui.session.pyspy_there import ours

MIB = 1 << 20
HEALTHY: dict[str, Any] = {
    "bus": "00000000:10:00.0", "remapped": 0, "remap_pending": 0, "remap_failed": 0, "pages_pending": 0,
    "ecc_errors": 0, "persistence": 1, "compute_mode": 0, "mig_mode": 0, "mig_pending": 0, "recovery": 0,
    "fabric": [3, 0], "links": [1] * 18,
}  # fmt: skip


def row(index: int, **more: Any) -> dict[str, Any]:
    known = {"index": index, "name": "NVIDIA H200", "util_pct": 0, "mem_used_mib": 500.0, "mem_total_mib": 143771.0}
    return {**known, "throttle": [], "xids": [], "mig": [], "processes": [], "error": None, **more}


def seen(
    gpus: Iterable[dict[str, Any]] = (),
    health: dict[int, dict[str, Any]] | None = None,
    launches: tuple[LaunchView, ...] = (),
    **answers: dict[str, Any],
) -> Seen:
    rows = list(gpus)
    told = {str(r["index"]): {**HEALTHY, **(health or {}).get(r["index"], {})} for r in rows}
    driver = {"gpus": rows, "health": {"driver": "570.86.15", "cuda": 12080, "gpus": told}}
    view = HostView("gpu1", "live", sample=Sample("gpu1", 0.0, 0.0, 0.0), clock_offset_s=0.0, clock_uncertain_s=0.001)
    return Seen(view, launches, {"gpu_health": driver, **answers}, {})


def found(one: Seen, word: str) -> Finding:
    """The one finding whose text holds ``word``."""
    findings = [f for _, of_section in doctor.sections(one) for f in of_section if word in f.text]
    assert len(findings) == 1, [f.text for _, of_section in doctor.sections(one) for f in of_section]
    return findings[0]


def every(one: Seen) -> list[Finding]:
    return [finding for _, findings in doctor.sections(one) for finding in findings]


def test_eight_healthy_gpus_are_in_order() -> None:
    """Nothing is made up: no problem, no note, nothing unknown."""
    one = seen([row(k) for k in range(8)])
    assert {finding.mark for finding in every(one)} == {"ok"}
    assert found(one, "NVLinks active").text == "GPUs 0–7: 18 NVLinks active each"


@pytest.mark.parametrize(
    ("health", "word", "command"),
    [
        ({"remap_pending": 1}, "waits for a reset", "sudo nvidia-smi --gpu-reset -i 1"),
        ({"pages_pending": 1}, "waits for a reset", "sudo nvidia-smi --gpu-reset -i 1"),
        ({"remap_failed": 1}, "could not be remapped", "nvidia-smi -q -d ROW_REMAPPER,ECC -i 1"),
        ({"ecc_errors": 2}, "2 uncorrectable memory errors", "sudo nvidia-smi --gpu-reset -i 1"),
        ({"recovery": 1}, "needs a reset", "sudo nvidia-smi --gpu-reset -i 1"),
        ({"recovery": 2}, "needs a reboot", ""),
        ({"recovery": 99}, "recovery action 99", ""),
        ({"fabric": [1, 0]}, "not registered with the NVLink fabric", "nvidia-fabricmanager"),
        ({"fabric": [3, 999]}, "refused it (NVML error 999)", "nvidia-fabricmanager"),
        ({"links": [1] * 17 + [0]}, "17 of 18 NVLinks", "nvidia-smi nvlink --status -i 1"),
        ({"compute_mode": 2}, "forbids all work", "sudo nvidia-smi -c DEFAULT -i 1"),
        ({"mig_mode": 0, "mig_pending": 1}, "change of MIG mode", "sudo nvidia-smi --gpu-reset -i 1"),
    ],
)
def test_what_is_wrong_with_one_gpu_is_a_problem_of_that_gpu(health: dict[str, Any], word: str, command: str) -> None:
    finding = found(seen([row(0), row(1)], {1: health}), word)
    assert finding.mark == "problem" and finding.text.startswith("GPU 1")
    assert command in finding.command and bool(finding.command) == bool(command)


def test_what_a_gpu_does_not_tell_is_unknown_and_not_fine() -> None:
    """A card without ECC and remapping: neither a problem nor in order."""
    one = seen([row(0)], {0: dict.fromkeys(HEALTHY)})
    assert found(one, "row remap").mark == found(one, "uncorrectable").mark == "unknown"


def test_slow_without_load_is_told_by_its_most_particular_reason() -> None:
    """A GPU that computes may be slowed down: that says nothing. At 0 % it does."""
    hot = ["hw_slowdown", "hw_thermal"]
    one = seen([row(0, throttle=hot), row(1, throttle=hot, util_pct=97), row(2, throttle=["sw_power_cap"])])
    assert found(one, "without load").text.startswith("GPU 0: it is too hot")


ORPHAN = {"state": "S", "ppid": 1, "parent": "systemd", "uid": 0, "title": "sglang::scheduler_TP0", "age_s": 7300.0}


@pytest.mark.parametrize(
    ("process", "mark", "word"),
    [
        (ORPHAN, "problem", "orphan: pid 42 (sglang::scheduler_TP0), started 2 hours ago"),
        ({**ORPHAN, "ppid": 900, "parent": "systemd"}, "problem", "orphan"),
        ({**ORPHAN, "parent": "python3"}, "note", "in use by 1 process"),  # process 1 of the container is the server
        ({**ORPHAN, "ppid": 41, "parent": "python3"}, "note", "in use by 1 process"),
        ({**ORPHAN, "title": "python3 train.py"}, "note", "in use by 1 process"),  # started with nohup, and left behind
        ({**ORPHAN, "state": "Z", "ppid": 41, "parent": "bash"}, "problem", "was killed and is not gone"),
        (None, "problem", "held for pid 42, which has ended"),
        ({"hidden": True}, "note", "of another user"),
    ],
)
def test_who_holds_the_memory(process: dict[str, Any] | None, mark: str, word: str) -> None:
    holder = row(0, processes=[[42, 61000.0]], mem_used_mib=61500.0)
    finding = found(seen([holder], processes={"processes": {"42": process}, "container": False}), word)
    assert finding.mark == mark


def test_in_a_container_a_foreign_pid_proves_nothing() -> None:
    """NVML may name the host's numbers there: a note, never 'has ended'."""
    holder = row(0, processes=[[42, 61000.0]], mem_used_mib=61500.0)
    for process in (None, {**ORPHAN, "has_gpu": False}):
        finding = found(seen([holder], processes={"processes": {"42": process}, "container": True}), "pid 42")
        assert finding.mark == "note" and "not in this container" in finding.text
        assert "kill" not in finding.command
    own = seen([holder], processes={"processes": {"42": {**ORPHAN, "has_gpu": True}}, "container": True})
    assert found(own, "orphan").mark == "problem"


def test_a_holder_that_was_not_looked_at_is_unknown() -> None:
    holder = row(0, processes=[[42, 61000.0]], mem_used_mib=61500.0)
    assert found(seen([holder]), "could not be looked at").mark == "unknown"


def test_memory_without_a_process() -> None:
    one = seen([row(0, mem_used_mib=9000.0), row(1)], processes={"processes": {}, "container": False})
    assert found(one, "no process to be seen").text == "GPU 0: 8.8 GiB in use and no process to be seen"
    unread = seen([row(0, mem_used_mib=9000.0, processes=None)])
    assert not [finding for finding in every(unread) if "no process" in finding.text]


def test_xids_of_the_kernel_log_reach_the_gpu_that_has_the_address() -> None:
    lines = [
        {"age_s": 7300.0, "text": "NVRM: Xid (PCI:0000:10:00): 79, pid='<unknown>', GPU has fallen off the bus."},
        {"age_s": 60.0, "text": "NVRM: Xid (PCI:0000:10:00): 79, pid='<unknown>', GPU has fallen off the bus."},
        {"age_s": 60.0, "text": "NVRM: Xid (PCI:0000:99:00): 31, pid=12, name=python, MMU fault"},
        {"age_s": 1e6, "text": "NVRM: Xid (PCI:0000:10:00): 48, long ago"},
    ]
    one = seen([row(0)], kernel_log={"lines": lines, "readable": True})
    fatal, other = found(one, "Xid 79"), found(one, "Xid 31")
    assert fatal.mark == "problem" and fatal.text.startswith("GPU 0: Xid 79, 2 times, last 60 s ago")
    assert other.mark == "note" and other.text.startswith("the GPU at 0000:99:00: Xid 31")
    assert not [finding for finding in every(one) if "Xid 48" in finding.text]
    assert found(seen([row(0, xids=[48])]), "has just come").mark == "problem"


def test_infiniband_ports_are_compared_with_their_peers() -> None:
    def port(number: int, **more: Any) -> dict[str, Any]:
        usual = {"state": "ACTIVE", "physical": "LinkUp", "rate": "400 Gb/sec (4X NDR)", "errors": {}}
        return {"device": f"mlx5_{number}", "port": "1", **usual, **more}

    ports = [port(0), port(1), port(2, state="DOWN", physical="Polling"), port(3, rate="100 Gb/sec (4X EDR)")]
    ports.append(port(4, errors={"link_downed": 3}))
    one = seen([row(0)], infiniband={"ports": ports}, host={"limits": {"Max locked memory": ["8388608", "8388608"]}})
    assert found(one, "mlx5_2").text == "mlx5_2 port 1: DOWN, physically Polling"
    assert found(one, "mlx5_3").mark == "problem" and found(one, "mlx5_4").mark == "note"
    assert found(one, "locked memory").text.startswith("locked memory is limited to 8.0 MiB")
    none_up = seen([row(0)], infiniband={"ports": [port(0, state="DOWN", physical="Disabled")]})
    assert found(none_up, "mlx5_0").mark == "note", "a card that nobody has ever cabled spoils nothing"


def test_limits_that_starve_a_start() -> None:
    groups = [{"pids": [7], "memory_max": 64 << 30, "memory_used": 3 << 30, "quota_cores": 4.0, "oom_kills": 2}]
    one = seen([row(k) for k in range(8)], surroundings={"groups": groups, "shm": [], "own": 7})
    assert "64.0 GiB, the GPUs hold 1.1 TiB; 3.0 GiB are in use" in found(one, "memory of this login is limited").text
    assert found(one, "limited to 4 cores").mark == "problem"
    assert found(one, "for want of memory").mark == "note"


@pytest.mark.parametrize(
    ("free", "total", "mark"), [(2 << 30, 2 << 30, "ok"), (60 * MIB, 64 * MIB, "problem"), (0, 8 << 30, "problem")]
)
def test_shared_memory(free: int, total: int, mark: str) -> None:
    one = seen(disks={"disks": {"/dev/shm": {"free": free, "total": total}}})
    assert found(one, "/dev/shm").mark == mark


def test_folders_by_the_file_system_that_they_lie_on() -> None:
    """One line for each file system; what is full, of another user or noexec is a problem."""
    plenty = {"free": 80 << 30, "total": 99 << 30, "free_inodes": 10**6, "writable": True, "noexec": False, "device": 1}
    folders = {
        "/tmp": {**plenty, "device": 2, "noexec": True},
        "/home/u": plenty,
        "/home/u/.cache/vllm": {**plenty, "writable": False},
        "/hub": {**plenty, "device": 3, "free": 200 * MIB},
        "/few": {**plenty, "device": 4, "free_inodes": 12},
        "/gone": None,
    }
    one = seen(caches={"disks": folders})
    assert found(one, "/home/u, ").text == "/home/u, /home/u/.cache/vllm: 80.0 GiB free"
    assert found(one, "not writable").text.startswith("/home/u/.cache/vllm")
    assert found(one, "noexec").text.startswith("/tmp: mounted noexec")
    assert found(one, "/hub").mark == found(one, "/few").mark == "problem"


def test_locks_by_what_is_known_of_their_owner() -> None:
    left = {"kind": "baton", "age_s": 7300.0, "owner_lives": False, "all_asked": True, "quiet_s": 60.0}
    locks = [
        {**left, "path": "/home/u/.cache/torch_extensions/a b/lock", "fs": "ext4", "owner": None},
        {**left, "path": "/shared/lock", "fs": "nfs4", "owner": None},
        {**left, "path": "/tmp/y.lock", "owner_lives": True, "owner": 3, "owner_comm": "python"},
    ]
    one = seen(locks={"locks": locks, "whole_host": True, "launched_s": 1.0})
    stale = found(one, "without an owner")
    assert (stale.mark, stale.command) == ("problem", "rm '/home/u/.cache/torch_extensions/a b/lock'")
    assert found(one, "out of sight").mark == "unknown" and found(one, "held by pid 3 (python)").mark == "note"


@pytest.mark.parametrize(
    ("scope", "capabilities", "mark"),
    [("0", "0", "ok"), ("1", "0", "problem"), ("3", "0", "problem"), ("1", "80000", "ok"), (None, "zz", "ok")],
)
def test_rights_to_take_stacks(scope: str | None, capabilities: str, mark: str) -> None:
    one = seen(rights={"ptrace_scope": scope, "cap_eff": capabilities, "uid": 1000, "machine": "x86_64"})
    assert found(one, "stacks:").mark == mark


@pytest.mark.parametrize(
    ("known", "mark", "word"),
    [
        ({"py_spy": "/usr/bin/py-spy"}, "ok", "there, /usr/bin/py-spy"),
        ({"machine": "riscv64"}, "problem", "not Linux riscv64"),
        ({"memory_program": "Operation not permitted"}, "problem", "may not run (Operation not permitted;"),
        ({}, "ok", "tried: it would run"),
        ({"memory_program": ""}, "ok", "when needed"),
    ],
)
def test_py_spy_there_sent_or_refused(known: dict[str, Any], mark: str, word: str) -> None:
    if ours() is None or sys.platform != "linux":
        missing("needs a py-spy of this program's own, on Linux")
    usual = {"py_spy": None, "machine": platform.machine(), "memory_program": None}
    finding = found(seen(rights={**usual, **known}), "py-spy:")
    assert finding.mark == mark and word in finding.text


def test_ranks_of_another_user_are_named() -> None:
    process = ProcView("gpu1", 42, 7, 0, "rank", "train.py", "S", launch="l", sigabrt="death_no_dump")
    view = LaunchView(Launch("l", "torchrun train.py", ("gpu1",)), Verdict(0.0), processes=(process,))
    one = seen(
        launches=(view,),
        rights={"ptrace_scope": "0", "cap_eff": "0", "uid": 1000, "core_pattern": "|/usr/share/apport/apport %p"},
        processes={"processes": {"42": {"uid": 0, "stdout": "/dev/pts/3 (device)", "stderr": "/dev/pts/3 (device)",
                                        "core_limit": ["0", "0"]}}},
    )  # fmt: skip
    assert found(one, "another user").mark == "problem"
    assert "goes to a terminal (/dev/pts/3), which cannot be read again" in found(one, "no log").text
    assert "piped into /usr/share/apport/apport" in found(one, "core files").text
    assert found(one, "SIGABRT").command == "export PYTHONFAULTHANDLER=1"


def test_output_that_this_user_may_not_see_is_not_said_to_be_lost() -> None:
    """Another user's descriptors are closed to us; the launch may well write a file."""
    process = ProcView("gpu1", 42, 7, 0, "rank", "train.py", "S", launch="l")
    view = LaunchView(Launch("l", "torchrun train.py", ("gpu1",)), Verdict(0.0), processes=(process,))
    said = found(seen(launches=(view,), processes={"processes": {"42": {"uid": 0}}}), "no log").text
    assert "not to be seen by this user" in said and "read again" not in said


def test_a_log_without_the_stderr_of_a_rank_is_told() -> None:
    """The stacks that SIGABRT prints would go to the terminal, though a log was found."""
    process = ProcView("gpu1", 42, 7, 0, "rank", "train.py", "S", launch="l", sigabrt="python_dump_then_death")
    log = LogView("gpu1", "/logs/run.log")
    view = LaunchView(Launch("l", "torchrun train.py", ("gpu1",)), Verdict(0.0), processes=(process,), logs=(log,))
    for stderr, told in (("/dev/pts/3 (device)", True), ("/dev/null", True), ("/logs/run.log", False)):
        one = seen(launches=(view,), processes={"processes": {"42": {"stderr": stderr}}})
        assert found(one, "log /logs/run.log").mark == "ok"
        assert bool([finding for finding in every(one) if "stderr of 1 process" in finding.text]) is told


def test_a_rank_without_its_launcher_may_be_meant_so() -> None:
    """Started by hand from a login that is over: said, and left to the reader."""
    rank = ProcView("gpu1", 42, 7, 0, "rank", "python3 train.py", "S", launch="l")
    launch = Launch("l", "torchrun train.py", ("gpu1",), world_size=2)
    holder = row(0, processes=[[42, 61000.0]], mem_used_mib=61500.0)
    table = {"processes": {"42": {**ORPHAN, "title": "python3 train.py"}}, "container": False}
    assert found(seen([holder], None, (LaunchView(launch, Verdict(0.0), processes=(rank,)),), processes=table),
                 "what started it is gone").mark == "note"  # fmt: skip
    starter = ProcView("gpu1", 41, 7, None, "launcher", "torchrun", "S", launch="l")
    whole = LaunchView(launch, Verdict(0.0), processes=(rank, starter))
    assert found(seen([holder], None, (whole,), processes=table), "in use by 1 process").mark == "note"


def test_nonsense_from_a_host_is_survived() -> None:
    """Any answer may hold anything: nothing raises, nothing wrong is claimed."""
    nonsense: list[Any] = [None, 7, "x", [], {}, [[1]], {"1": None}, [{"pids": "x"}], {"ports": [3]}, {"GPU": [None]}]
    for value in nonsense:
        answers: dict[str, dict[str, Any]] = {
            part: dict.fromkeys(("processes", "disks", "ports", "locks", "groups", "shm", "limits", "lines"), value)
            | {"fabric_manager": value, "iommu": value, "memory_mib": value, "core_pattern": value, "cap_eff": value}
            for part in ("rights", "host", "disks", "caches", "processes", "ports", "locks", "surroundings",
                         "kernel_log", "infiniband")
        }  # fmt: skip
        health = {0: dict.fromkeys(HEALTHY, value)}
        one = seen([row(0, processes=value, mem_used_mib=value, throttle=value, xids=value)], health, (), **answers)
        assert every(one)


def test_a_page_of_80_columns() -> None:
    """Sentences are wrapped under themselves, commands stay in one piece, however long."""
    one = seen([row(k) for k in range(8)], {k: {"fabric": [2, 0]} for k in range(8)})
    for width in (80, 120):
        out = io.StringIO()
        with redirect_stdout(out):
            Sheet(width).host("gpu1", doctor.sections(one))
        lines = out.getvalue().splitlines()
        assert lines[0].startswith("gpu1  1 problem")
        commands = [line for line in lines if line.lstrip().startswith("$ ")]
        assert any("nvidia-fabricmanager; systemctl status nvidia-fabricmanager" in line for line in commands)
        assert all(len(line) <= width for line in lines if line not in commands)
        assert not [line for line in lines if line != line.rstrip()]


def test_words() -> None:
    assert gpus_named([3]) == "GPU 3" and gpus_named([0, 1, 2, 5, 7, 8]) == "GPUs 0–2, 5, 7, 8"
    assert [gib(size) for size in (0, 2048, 64 << 20, 3 << 29, 200 << 30)] == [
        "0 bytes", "2 KiB", "64.0 MiB", "1.5 GiB", "200 GiB",
    ]  # fmt: skip
