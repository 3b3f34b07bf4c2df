"""The real agent and the real ``pynvml`` over a stand-in driver library."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests import nvml_standin
from tests.agent_client import AgentClient

MIB = 1 << 20


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "gpus"


def agent(config: Path, numbers: dict[str, int | str], **options: Any) -> AgentClient:
    nvml_standin.write(config, numbers)
    return AgentClient(env=nvml_standin.environment(config), local=True, **options)


def with_gpus(frame: dict[str, Any]) -> bool:
    return bool(frame.get("gpus"))


def test_eight_gpus_right_to_the_digit(config: Path) -> None:
    """Every number that the driver gives arrives in the right unit at the right GPU."""
    numbers: dict[str, int | str] = {"count": 8}
    for k in range(8):
        numbers.update(
            {
                f"{k}.util": 90 + k,
                f"{k}.mem_util": 10 + k,
                f"{k}.used": (1000 + k) * MIB,
                f"{k}.total": 143771 * MIB,
                f"{k}.power": 700000 - 1234 * k,
                f"{k}.limit": 700000,
                f"{k}.temp": 60 + k,
                f"{k}.clock": 1980 - 15 * k,
                f"{k}.throttle": 0x4 if k == 3 else 0x1,
                f"{k}.pid": 4000 + k,
                f"{k}.pid_used": (900 + k) * MIB,
            }
        )
    with agent(config, numbers) as client:
        rows = client.until(with_gpus)["gpus"]
    assert [row["index"] for row in rows] == list(range(8))
    for k, row in enumerate(rows):
        assert row["uuid"] == f"GPU-57a4d100-0000-4000-8000-{k:012x}"
        assert row["name"] == "NVIDIA H200"
        assert (row["util_pct"], row["mem_util_pct"]) == (90 + k, 10 + k)
        assert (row["mem_used_mib"], row["mem_total_mib"]) == (1000 + k, 143771)
        assert (row["power_w"], row["power_limit_w"]) == (pytest.approx(700 - 1.234 * k), 700)
        assert (row["temp_c"], row["sm_clock_mhz"]) == (60 + k, 1980 - 15 * k)
        assert row["throttle"] == (["sw_power_cap"] if k == 3 else [])
        assert row["processes"] == [[4000 + k, 900 + k]]
        assert row["error"] is None


def test_rates_come_from_counters(config: Path) -> None:
    """NVLink and PCIe in MiB/s over the counter's own interval; unknown at the first reading, never 0."""
    numbers: dict[str, int | str] = {"count": 1, "0.nvlink_tx": 0, "0.nvlink_rx": 0, "0.pcie_tx": 0, "0.pcie_rx": 0}
    with agent(config, numbers) as client:
        first = client.until(with_gpus)["gpus"][0]
        assert (first["nvlink_mib_s"], first["pcie_rx_mib_s"]) == (None, None)
        numbers.update({"0.nvlink_tx": 1024 * 100, "0.nvlink_rx": 1024 * 300, "0.pcie_rx": 50 * MIB})
        nvml_standin.write(config, numbers)
        row = client.until(lambda frame: with_gpus(frame) and bool(frame["gpus"][0]["nvlink_mib_s"]))["gpus"][0]
    assert row["nvlink_mib_s"] / row["pcie_rx_mib_s"] == pytest.approx(8.0, rel=0.01)
    assert row["pcie_tx_mib_s"] == 0
    assert 20 < row["pcie_rx_mib_s"] <= 600


def test_a_call_that_never_returns_costs_its_row_only(config: Path) -> None:
    """GPU 5 hangs: it gets a sentence and keeps its uuid, the others go on, ticks stay on time, quitting is quick."""
    numbers: dict[str, int | str] = {"count": 8, **{f"{k}.util": 50 for k in range(8)}}
    client = agent(config, numbers)
    client.until(with_gpus)
    nvml_standin.write(config, {**numbers, "5.hang": 1, "6.util": 60})
    rows = client.until(lambda frame: with_gpus(frame) and bool(frame["gpus"][5]["error"]), 10.0)["gpus"]
    assert rows[5]["uuid"].endswith("5")
    assert "do not return" in rows[5]["error"]
    rows = client.until(lambda frame: with_gpus(frame) and frame["gpus"][6].get("util_pct") == 60)["gpus"]
    assert [row["error"] is None for row in rows] == [k != 5 for k in range(8)]
    assert rows[5]["uuid"].endswith("5"), "readings that leave it out must not forget who it is"
    assert rows[7]["util_pct"] == 50
    walls = [frame["mono"] for frame in client.frames if frame["type"] == "tick"][2:]
    assert max(after - before for before, after in itertools.pairwise(walls)) < 1.6
    started = time.monotonic()
    assert client.close() == 0
    assert time.monotonic() - started < 0.5


def test_a_gpu_that_hangs_from_the_start_does_not_hold_up_the_others(config: Path) -> None:
    """The very first reading already meets it."""
    with agent(config, {"count": 4, "0.hang": 1, "3.util": 33}) as client:
        rows = client.until(lambda frame: with_gpus(frame) and len(frame["gpus"]) == 4, 10.0)["gpus"]
    assert "do not return" in rows[0]["error"]
    assert rows[3]["util_pct"] == 33


def test_a_lost_gpu_is_named_and_the_rest_stays(config: Path) -> None:
    """GPU_IS_LOST in mid-run: one sentence, the uuid is kept, the others' numbers are right."""
    numbers: dict[str, int | str] = {"count": 4, "3.util": 77}
    with agent(config, numbers) as client:
        client.until(with_gpus)
        nvml_standin.write(config, {**numbers, "2.lost": 1})
        client.until(lambda frame: with_gpus(frame) and bool(frame["gpus"][2]["error"]))
        rows = client.tick()["gpus"]
    assert "lost" in rows[2]["error"]
    assert rows[2]["uuid"].endswith("2")
    assert "util_pct" not in rows[2]
    assert rows[3]["util_pct"] == 77


def test_what_drivers_say_for_unknown_is_unknown(config: Path) -> None:
    """2^64-1, -1, absurd sums, a total of 0 and NOT_SUPPORTED become null; one GPU's gap is not another's."""
    numbers: dict[str, int | str] = {
        "count": 4,
        "0.util": -1,
        "0.power": 3700000000,
        "0.temp": -1,
        "0.clock": -1,
        "0.pid": 4711,
        "1.total": 0,
        "1.ret.power": 3,
        "1.ret.limit": 3,
        "1.ret.util": 3,
        "1.ret.temp": 3,
        "1.ret.pid": 3,
        "1.ret.throttle": 3,
        "2.ret.used_v2": 13,
        "2.used": 2000 * MIB,
        "2.pid": -1,
        "2.pid2": 12,
        "2.pid2_used": 7 * MIB,
        "3.util": 2147483632,
    }
    with agent(config, numbers) as client:
        rows = client.until(with_gpus)["gpus"]
    assert [rows[0][key] for key in ("util_pct", "power_w", "temp_c", "sm_clock_mhz")] == [None] * 4
    assert rows[0]["processes"] == [[4711, None]]
    assert [rows[1][key] for key in ("mem_total_mib", "mem_used_mib", "power_w", "power_limit_w")] == [None] * 4
    assert [rows[1][key] for key in ("util_pct", "temp_c", "processes")] == [None] * 3
    assert rows[2]["mem_used_mib"] == 2560  # version 1 of the call, which counts the reserved part
    assert rows[2]["processes"] == [[12, 7]]
    assert rows[3]["util_pct"] is None
    assert rows[3]["power_w"] == 76
    assert all(row["error"] is None for row in rows)


def test_the_slow_pcie_call_does_not_stretch_the_tick(config: Path) -> None:
    """Two calls of 20 ms for each of 8 GPUs would be 320 ms: one GPU is asked a tick, and every GPU gets its turn."""
    numbers: dict[str, int | str] = {"count": 8, **{f"{k}.pcie_slow_rx": 1024 * (k + 1) for k in range(8)}}
    with agent(config, numbers) as client:
        client.until(with_gpus)
        client.send(do="interval", s=0.2)
        client.until(lambda frame: with_gpus(frame) and all(row.get("pcie_rx_mib_s") for row in frame["gpus"]), 10.0)
        ticks = [frame for frame in client.frames if with_gpus(frame)]
    assert [row["pcie_rx_mib_s"] for row in ticks[-1]["gpus"]] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert all(frame["gpus_age_s"] < 0.1 for frame in ticks)


def test_mig_and_xids(config: Path) -> None:
    """MIG instances by uuid; an Xid event once, on its GPU, and it stays listed."""
    with agent(config, {"count": 3, "1.mig": 2, "2.xid": 79}) as client:
        client.until(lambda frame: with_gpus(frame) and frame["gpus"][2]["xids"] == [79])
        rows = client.tick()["gpus"]
    assert [len(row["mig"]) for row in rows] == [0, 2, 0]
    assert all(uuid.startswith("MIG-") for uuid in rows[1]["mig"])
    assert [row["xids"] for row in rows] == [[], [], [79]]


@pytest.mark.parametrize(("code", "words"), [(18, "different versions"), (9, "not loaded"), (999, "Unknown Error")])
def test_a_driver_that_cannot_start_gives_one_sentence(config: Path, code: int, words: str) -> None:
    """nvmlInit fails: gpus is null, the sentence says what to do, everything else goes on."""
    with agent(config, {"init": code}) as client:
        tick = client.until(lambda frame: words in (frame.get("gpu_error") or ""))
        assert tick["gpus"] is None
        client.tick()


def test_no_driver_at_all() -> None:
    """No library: null and a sentence, within the first frames."""
    with AgentClient(local=True, env={"LD_LIBRARY_PATH": ""}) as client:
        if Path("/dev/nvidiactl").exists():
            pytest.skip("this machine has a driver")
        tick = client.until(lambda frame: "no NVIDIA driver" in (frame.get("gpu_error") or ""))
        assert tick["gpus"] is None


def test_a_real_driver_is_never_replaced_by_a_simulation(config: Path) -> None:
    """The simulation was asked for, but a driver answers: its numbers are shown, and nothing says simulated."""
    with agent(config, {"count": 2, "0.util": 42}, simulate={"parent": os.getpid(), "gpus": 8}) as client:
        assert client.hello()["simulated"] is False
        rows = client.until(with_gpus)["gpus"]
    assert [row["util_pct"] for row in rows] == [42, 0]


def test_gpm_counters_on_request(config: Path) -> None:
    """Two samples of each GPU that has them; what a metric does not show is unknown; a GPU without says why."""
    numbers: dict[str, int | str] = {"count": 3, "0.gpm": 1, "2.gpm": 1, "2.ret.gpm_sample": 999}
    numbers.update({"0.gpm_2": "97.25", "0.gpm_3": "6.5", "0.gpm_10": 0, "0.gpm_60": "123.5", "0.gpm_5": "4000000000"})
    with agent(config, numbers) as client:
        (answer,) = client.ask(do="look", what="gpm")
    assert answer["gpm"]["0"] == {
        "sm_util_pct": 97.25, "sm_occupancy_pct": 6.5, "tensor_pct": None, "dram_pct": 0.0, "pcie_tx_mib_s": None,
        "pcie_rx_mib_s": None, "nvlink_rx_mib_s": 123.5, "nvlink_tx_mib_s": None,
    }  # fmt: skip
    assert "Hopper" in answer["why"]["1"] and "1" not in answer["gpm"]
    assert answer["why"]["2"] == "Unknown Error"
    assert answer["over_s"] == 0.5


def test_gpm_without_a_driver_is_a_sentence() -> None:
    with AgentClient(local=True) as client:
        (answer,) = client.ask(do="look", what="gpm")
    assert "no NVIDIA driver" in answer["error"]
