"""The same start-up seen otherwise: variants of a scenario folder under which the same truth must hold."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tui import toml

Row = dict[str, Any]


def _hosts(folder: Path) -> list[dict[str, Any]]:
    return toml.loads((folder / "scenario.toml").read_text())["host"]


def _copy(source: Path, target: Path) -> Path:
    shutil.copytree(source, target, dirs_exist_ok=True)
    for path in target.iterdir():
        path.chmod(0o644)
    return target


def _map_rows(folder: Path, change: Callable[[int, Row], Row | None]) -> None:
    for host in _hosts(folder):
        if "signals" in host:
            path = folder / host["signals"]
            rows = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
            kept = [row for i, old in enumerate(rows) if (row := change(i, old)) is not None]
            path.write_text("".join(json.dumps(row) + "\n" for row in kept))


def _map_logs(folder: Path, change: Callable[[list[bytes], list[float]], tuple[list[bytes], list[float]]]) -> None:
    for host in _hosts(folder):
        if "log" not in host:
            continue
        data = (folder / host["log"]).read_bytes().split(b"\n")
        times = [float(part) for part in (folder / host["timing"]).read_text().split()]
        lines, rest = data[:-1], data[-1]
        lines, times = change(lines, times[: len(lines)])
        (folder / host["log"]).write_bytes(b"".join(line + b"\n" for line in lines) + rest)
        (folder / host["timing"]).write_text("".join(f"{t:.3f}\n" for t in times))


def thinned(source: Path, target: Path, every: int = 2) -> Path:
    """Only each ``every``-th sample was taken."""
    folder = _copy(source, target)
    _map_rows(folder, lambda i, row: row if i % every == 0 else None)
    return folder


def jittered(source: Path, target: Path, share: float = 0.2, seed: int = 7) -> Path:
    """Samples come early or late by up to ``share`` of a step."""
    folder, chance = _copy(source, target), random.Random(seed)
    step = toml.loads((folder / "scenario.toml").read_text())["step_s"]
    _map_rows(folder, lambda i, row: {**row, "t": max(0.0, row["t"] + chance.uniform(-share, share) * step)})
    return folder


def permuted(source: Path, target: Path) -> Path:
    """Ranks and GPUs stand in reverse order in every sample."""
    folder = _copy(source, target)
    _map_rows(folder, lambda i, row: {**row, "gpus": row["gpus"][::-1], "procs": row["procs"][::-1]})
    return folder


def power_scaled(source: Path, target: Path, factor: float = 0.4) -> Path:
    """Another kind of GPU: all powers scaled."""
    folder = _copy(source, target)

    def scale(_: int, row: Row) -> Row:
        gpus = [{**g, "power_w": g["power_w"] * factor} if g.get("power_w") is not None else g for g in row["gpus"]]
        return {**row, "gpus": gpus}

    _map_rows(folder, scale)
    return folder


_STAMP = re.compile(
    rb"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?|\d\d-\d\d \d\d:\d\d:\d\d|\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d"
)


def unstamped(source: Path, target: Path) -> Path:
    """A log without dates: each is replaced by one and the same text that is no date."""
    folder = _copy(source, target)
    _map_logs(folder, lambda lines, times: ([_STAMP.sub(b"00-00-00", line) for line in lines], times))
    return folder


def with_heartbeats(source: Path, target: Path, period: float = 30.0) -> Path:
    """A side thread of an unknown kind writes a line on a clock into every log."""
    folder = _copy(source, target)
    end = float(toml.loads((folder / "scenario.toml").read_text())["duration_s"])

    def mix(lines: list[bytes], times: list[float]) -> tuple[list[bytes], list[float]]:
        beats = [(k * period + 3.0, b"keepalive %d: sidecar is fine" % k) for k in range(int(end / period))]
        both = sorted([*zip(times, lines, strict=True), *beats], key=lambda item: item[0])
        return [line for _, line in both], [t for t, _ in both]

    _map_logs(folder, mix)
    return folder


def attached_late(source: Path, target: Path, at: float) -> Path:
    """The monitor is started at ``at``."""
    folder = _copy(source, target)
    path = folder / "scenario.toml"
    text = re.sub(r"(?m)^attach_at.*\n", "", path.read_text())
    path.write_text(f"attach_at = {at}\n" + text)
    return folder


def truncated(source: Path, target: Path, at: float) -> Path:
    """The recording as it was at ``at``: nothing later is in any file."""
    folder = _copy(source, target)
    _map_rows(folder, lambda i, row: row if row["t"] <= at else None)
    for host in _hosts(folder):
        if "log" in host:
            data = (folder / host["log"]).read_bytes()
            times = [float(part) for part in (folder / host["timing"]).read_text().split()]
            kept = sum(1 for t in times if t <= at)
            lines = data.split(b"\n")
            (folder / host["log"]).write_bytes(b"".join(line + b"\n" for line in lines[:kept]))
            (folder / host["timing"]).write_text("".join(f"{t}\n" for t in times[:kept]))
    return folder
