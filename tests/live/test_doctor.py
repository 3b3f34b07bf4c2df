"""``doctor`` over real ssh daemons, with real orphans, zombies, lock files and signal masks, and a stand-in driver."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests import nvml_standin
from tests.agent_client import AgentClient
from tests.conftest import missing
from tests.dead_mount import DeadMount
from tests.live.test_agent_boot import old_python
from tests.sshd import SshdFarm, free_port
from tui.collect import payload
from tui.headless import doctor
from tui.headless.checks.finding import Seen
from tui.model import LaunchView
from tui.session.plan import plan_hosts

MIB = 1 << 20
SLEEP = "import time; time.sleep(120)"


def run(
    home: Path, *hosts: str, columns: int = 80, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The command as a person would call it in a terminal of so many columns."""
    command = [sys.executable, "-m", "tui", "doctor", *hosts]
    whole = {**os.environ, "HOME": str(home), "COLUMNS": str(columns), **(env or {})}
    return subprocess.run(command, env=whole, capture_output=True, text=True, timeout=40, check=False)


def page_of(host: str, output: str) -> str:
    """The lines of one host, with wrapped sentences drawn together."""
    lines = output.splitlines()
    begin = next(n for n, line in enumerate(lines) if line.split("  ")[0] == host)
    end = next((n for n in range(begin + 1, len(lines)) if not lines[n].startswith(" ")), len(lines))
    return " ".join(" ".join(lines[begin:end]).split())


def use(farm: SshdFarm, home: Path) -> None:
    (home / ".ssh").mkdir(parents=True, exist_ok=True)
    (home / ".ssh" / "config").write_bytes(farm.config.read_bytes())


@pytest.fixture
def orphan() -> Iterator[psutil.Process]:
    """A worker by its title, whose parent has ended."""
    start = (
        "import os, subprocess, sys\n"
        "worker = subprocess.Popen(['sglang::scheduler_TP0', '-c', sys.argv[1]], executable=sys.executable,\n"
        "    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "print(worker.pid)\n"
    )
    said = subprocess.run([sys.executable, "-c", start, SLEEP], capture_output=True, text=True, check=True).stdout
    process = psutil.Process(int(said))
    try:
        yield process
    finally:
        with suppress(psutil.NoSuchProcess):
            process.kill()


@pytest.fixture
def zombie() -> Iterator[int]:
    """Killed, and not collected by its parent, which is this process."""
    child = subprocess.Popen([sys.executable, "-c", SLEEP])
    child.kill()
    until = time.monotonic() + 5
    while psutil.Process(child.pid).status() != psutil.STATUS_ZOMBIE and time.monotonic() < until:
        time.sleep(0.01)
    try:
        yield child.pid
    finally:
        child.wait()


def test_a_fine_a_sick_a_dead_and_a_hanging_host(
    farm: SshdFarm, tmp_path: Path, orphan: psutil.Process, zombie: int
) -> None:
    """Each gets its own page: what is wrong with the sick one, why the others were not reached; all within 10 s."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    held = 61_000 * MIB
    states: dict[str, dict[str, int | str]] = {
        "fine": {"count": 8, "driver": "570.86.15"},
        "sick": {
            "count": 8, "driver": "\x1b[31m570\x1b]0;x\x07",
            "0.pid": orphan.pid, "0.pid_used": held, "0.used": held,
            "1.pid": zombie, "1.pid_used": held, "1.used": held,
            "2.pid": ended.pid, "2.pid_used": held, "2.used": held,
            "3.used": 9_000 * MIB,
            "4.remap_pending": 1, "5.ecc": 3, "6.links": 0x1FFFF, "7.fabric": 2, "7.xid": 79, "7.throttle": 0x48,
        },
        "hanging": {"count": 1},
    }  # fmt: skip
    for name, numbers in states.items():
        config = tmp_path / f"{name}.gpus"
        nvml_standin.write(config, numbers)
        farm.add(name, env=nvml_standin.environment(config))
    farm.alias("dead", free_port())
    use(farm, tmp_path / "home")

    began = time.monotonic()
    with farm.hosts["hanging"].frozen():
        done = run(tmp_path / "home", *states, "dead")
    took = time.monotonic() - began

    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr and "\x1b" not in done.stdout
    assert took < 11.0, f"{took:.2f} s, interpreter and imports included"
    fine = page_of("fine", done.stdout)
    assert "8 GPUs NVIDIA H200; driver 570.86.15, CUDA up to 12.8" in fine
    assert "GPUs 0–7: no process, at most 1.0 MiB in use" in fine
    assert "GPUs 0–7: registered with the NVLink fabric" in fine and "GPUs 0–7: 18 NVLinks active each" in fine
    assert "problem GPU" not in fine
    sick = page_of("sick", done.stdout)
    for said in (
        "driver 570, CUDA",
        f"problem GPU 0: 59.6 GiB held by an orphan: pid {orphan.pid} (sglang::scheduler_TP0",
        f"$ kill {orphan.pid}",
        f"problem GPU 1: 59.6 GiB held by pid {zombie} (",
        f"Its parent must collect it: pid {os.getpid()}",
        f"problem GPU 2: 59.6 GiB still held for pid {ended.pid}, which has ended",
        "problem GPU 3: 8.8 GiB in use and no process to be seen",
        "problem GPU 4: a remap of a faulty memory row waits for a reset",
        "problem GPU 5: 3 uncorrectable memory errors",
        "problem GPU 6: 17 of 18 NVLinks active",
        "problem GPU 7: registration with the NVLink fabric is not done yet",
        "problem GPU 7: Xid 79 has just come",
        "problem GPU 7: it is too hot and slowed down by the hardware, and that without load",
    ):
        assert said in sick, sick
    assert "problem not reached" in page_of("hanging", done.stdout)
    assert "refuses connections" in page_of("dead", done.stdout)
    sentences = [line for line in done.stdout.splitlines() if not line.lstrip().startswith("$ ")]
    assert max(map(len, sentences)) <= 80
    assert {line.split()[1] for line in sentences if line[4:5] in ("✓", "·", "✗", "?")} <= {
        "ok", "note", "problem", "unknown",
    }  # fmt: skip


def test_no_host_reached_is_said_by_the_exit_code(farm: SshdFarm, tmp_path: Path) -> None:
    farm.alias("dead", free_port())
    use(farm, tmp_path)
    done = run(tmp_path, "dead")
    assert done.returncode == 13 and "refuses connections" in done.stdout
    assert run(tmp_path, "node[9-").returncode == 2


def test_stale_locks_small_disks_and_taken_ports_of_this_login(tmp_path: Path) -> None:
    """A FileBaton whose maker is gone, one with an open maker, a hostile name; the port's owner by pid."""
    extensions = tmp_path / ".cache" / "torch_extensions" / "py311_cu121"
    stale, hostile, living = (extensions / name / "lock" for name in ("gone", "a b\x1b[31m;rm -rf x", "alive"))
    for path in (stale, hostile, living):
        path.parent.mkdir(parents=True)
        path.touch()
        os.utime(path, (time.time() - 7300, time.time() - 7300))
    listener = socket.socket()
    port = next((port for port in (8000, 30000, 29500) if _binds(listener, port)), None)
    if port is None:
        missing("needs one of the usual ports to be free")
    with listener, living.open("rb"):
        listener.listen()
        moved = {"XDG_CACHE_HOME": "", "TORCH_EXTENSIONS_DIR": "", "TMPDIR": str(tmp_path)}
        done = run(tmp_path, columns=300, env=moved)
    assert done.returncode == 0, done.stderr
    page = "".join(done.stdout.split())  # a path that is longer than the page is broken wherever its end comes
    assert f"problemlockfilewithoutanowner,2hoursold:{stale}" in page
    assert f"$ rm {stale}" in done.stdout
    assert f"heldbypid{os.getpid()}" in page and f"{living}" in page
    assert "\x1b" not in done.stdout
    remove = next(line for line in done.stdout.splitlines() if "$ rm" in line and "a b" in line)
    assert "rm '" in remove, "a name that a shell would take apart is quoted"
    assert f"port{port}(defaultof" in page and f"istakenbypid{os.getpid()}(" in page


def _binds(listener: socket.socket, port: int) -> bool:
    try:
        listener.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True


def test_a_cache_folder_on_a_dead_mount_costs_its_own_lines(tmp_path: Path) -> None:
    """As where a home's server is gone: that is said, the rest of the page is there, and it ends in time."""
    config = tmp_path / "gpus"
    nvml_standin.write(config, {"count": 2})
    began = time.monotonic()
    with DeadMount(tmp_path / "hub"):
        done = run(tmp_path, env={"HF_HOME": str(tmp_path / "hub"), **nvml_standin.environment(config)})
    took = time.monotonic() - began
    page = " ".join(done.stdout.split())
    assert done.returncode == 0 and took < 11.0, f"{took:.2f} s, interpreter and imports included"
    assert "unknown the cache folders of this login: no answer within" in page
    assert "unknown lock files: no answer within" in page
    assert "ok GPUs 0, 1: registered with the NVLink fabric" in page
    assert "/dev/shm:" in page and "ok stacks:" in page and "usual ports" in page


EFFECTS = {
    "prints the Python stacks of all threads, then dies": "",
    "dies without printing anything": "faulthandler.disable()",
    "ignores it": "signal.signal(signal.SIGABRT, signal.SIG_IGN)",
    "keeps it pending": "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGABRT])",
    "runs a handler of its own": "faulthandler.disable(); signal.signal(signal.SIGABRT, lambda *_: None)",
}


STARTER = """
import json, os, subprocess, sys
bodies, told = json.loads(sys.argv[1]), sys.argv[2]
ranks = []
for rank, body in enumerate(bodies):
    env = {**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(len(bodies))}
    ranks.append(subprocess.Popen([sys.executable, "-c", body], env=env, stdin=subprocess.PIPE))
with open(told + ".new", "w") as out:
    json.dump([rank.pid for rank in ranks], out)
os.rename(told + ".new", told)
sys.stdin.read()
for rank in ranks:
    rank.kill()
"""


def examined(pids: set[int]) -> tuple[Seen, list[LaunchView]]:
    """This machine, and of its launches those that these processes belong to. On a machine that is overloaded by others
    the processes may not have been read when the look ends, so there are three."""
    for _ in range(3):
        plan = plan_hosts(argparse.Namespace(hosts=[]))
        (seen,) = asyncio.run(doctor.examine(plan, time.monotonic() + doctor.DEADLINE_S))
        views = [view for view in seen.launches if pids & {process.pid for process in view.processes}]
        if views:
            return seen, views
    raise AssertionError("the launch was not found")


def test_what_a_signal_would_do_to_each_rank_of_a_launch(tmp_path: Path) -> None:
    """Five real ranks, one a row of the table; their output goes nowhere, so that no log can be found."""
    bodies = [f"import faulthandler, signal, sys\n{code}\nsys.stdin.read()" for code in EFFECTS.values()]
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, json.dumps(bodies), str(tmp_path / "pids")],
        env={**os.environ, "PYTHONFAULTHANDLER": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + 10
        while not (tmp_path / "pids").exists() and time.monotonic() < until:
            time.sleep(0.05)
        pids: list[int] = json.loads((tmp_path / "pids").read_text())
        seen, views = examined({*pids, starter.pid})
    finally:
        starter.communicate()
    ranks = [replace(view, processes=tuple(p for p in view.processes if p.pid in pids)) for view in views]
    findings = dict(doctor.sections(replace(seen, launches=tuple(ranks))))["Diagnosis rights"]
    for effect, pid in zip(EFFECTS, pids, strict=True):
        told = [finding.text for finding in findings if effect in finding.text]
        assert len(told) == 1 and f"pid {pid})" in told[0], [finding.text for finding in findings]
    assert any("no log; its output goes to /dev/null" in finding.text for finding in findings)
    assert any(finding.text.startswith("core files:") for finding in findings)


def test_a_driver_that_hangs_on_a_health_call_costs_that_answer_alone(tmp_path: Path) -> None:
    """The agent says which GPU it was, every GPU keeps its row, readings go on, and the next one is asked anew."""
    config = tmp_path / "gpus"
    numbers: dict[str, int | str] = {"count": 4, "2.hang_health": 1, "3.util": 40}
    nvml_standin.write(config, numbers)
    with AgentClient(env=nvml_standin.environment(config), local=True) as client:
        client.until(lambda frame: bool(frame.get("gpus")))
        (answer,) = client.ask(do="look", what="gpu_health")
        assert answer["health"] is None and "does not answer for the health of GPU 2" in answer["why"]
        nvml_standin.write(config, {**numbers, "2.hang_health": 0, "3.util": 60})
        rows = client.until(lambda frame: bool(frame.get("gpus")) and frame["gpus"][3].get("util_pct") == 60)["gpus"]
        assert [row["error"] for row in rows] == [None] * 4
        (answer,) = client.ask(do="look", what="gpu_health")
    assert answer["why"] is None and sorted(answer["health"]["gpus"]) == ["0", "1", "2", "3"]
    assert answer["health"]["gpus"]["2"]["links"] == [1] * 18 and answer["health"]["gpus"]["2"]["fabric"] == [3, 0]


@pytest.mark.parametrize("version", ["3.6", "3.9", "3.13"])
def test_every_part_of_the_look_runs_under_old_pythons(version: str, tmp_path: Path) -> None:
    """No part answers with an error, and health is read by the carried ``pynvml``."""
    config = tmp_path / "gpus"
    nvml_standin.write(config, {"count": 1})
    command = [old_python(version), *payload.local_command()[1:]]
    with AgentClient(command, env=nvml_standin.environment(config)) as client:
        for part in ("rights", "host", "disks", "caches", "processes", "ports", "locks", "surroundings"):
            arguments = {"paths": ["/tmp"], "pids": [os.getpid()], "ports": [8000], "procs": []}
            (answer,) = client.ask(do="look", what="doctor", part=part, **arguments)
            assert "error" not in answer, (part, answer)
        for what in ("kernel_log", "infiniband"):
            assert "error" not in client.ask(do="look", what=what, since_s=60)[0]
        (answer,) = client.ask(do="look", what="gpu_health")
        assert answer["health"]["gpus"]["0"]["ecc_errors"] == 0
        (answer,) = client.ask(do="look", what="doctor", part="nonsense")
        assert answer["error"]


def test_without_a_driver_the_health_look_says_so_at_once(tmp_path: Path) -> None:
    config = tmp_path / "gpus"
    nvml_standin.write(config, {"init": 18})
    with AgentClient(env=nvml_standin.environment(config), local=True) as client:
        client.until(lambda frame: frame["type"] == "tick" and "different versions" in (frame["gpu_error"] or ""))
        (answer,) = client.ask(do="look", what="gpu_health", timeout_s=2.0)
    assert answer["gpus"] is None and "different versions" in answer["error"]
