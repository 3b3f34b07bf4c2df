"""The same start-up seen otherwise: variants of a scenario folder under which the same truth must hold."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
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


def stamps_shifted(source: Path, target: Path, hours: int = 7) -> Path:
    """The log's clock is of another zone: every ISO stamp runs ``hours`` ahead."""
    folder = _copy(source, target)
    iso = re.compile(rb"(\d{4}-\d\d-\d\d[ T])(\d\d)(:\d\d:\d\d)")

    def later(found: re.Match[bytes]) -> bytes:
        day = datetime.strptime(found[1].decode()[:10], "%Y-%m-%d") + timedelta(hours=int(found[2]) + hours)
        return day.strftime("%Y-%m-%d").encode() + found[1][10:] + b"%02d" % day.hour + found[3]

    _map_logs(folder, lambda lines, times: ([iso.sub(later, line) for line in lines], times))
    return folder


def renamed(source: Path, target: Path) -> Path:
    """Other hosts, other files, other folders: no name in it is what it was."""
    folder = _copy(source, target)
    text = (folder / "scenario.toml").read_text()
    for k, host in enumerate(_hosts(source)):
        for key in ("log", "timing", "signals"):
            if key in host:
                new = f"zz{k}.{key}"
                (folder / host[key]).rename(folder / new)
                text = text.replace(f'{key} = "{host[key]}"', f'{key} = "{new}"')
        text = text.replace(f'name = "{host["name"]}"', f'name = "zz{k}.example"')
    (folder / "scenario.toml").write_text(text)
    places = re.compile(rb"/(?:root|home/\w+|m|data|lustre|fsx|share|nfs|models?|mnt|opt)/")
    _map_logs(folder, lambda lines, times: ([places.sub(b"/somewhere/else/", line) for line in lines], times))

    def moved(_: int, row: Row) -> Row:
        facts = json.loads(places.sub(b"/somewhere/else/", json.dumps(row.get("facts", [])).encode()))
        return {**row, "facts": facts} if facts else row

    _map_rows(folder, moved)
    return folder


def cards_relabelled(source: Path, target: Path) -> Path:
    """Ranks use other GPUs: every index is turned around."""
    folder = _copy(source, target)

    def turn(_: int, row: Row) -> Row:
        last = max((gpu["index"] for gpu in row["gpus"]), default=0)
        return {**row, "gpus": [{**gpu, "index": last - gpu["index"]} for gpu in row["gpus"]]}

    _map_rows(folder, turn)
    return folder


def with_gaps(source: Path, target: Path, every: float = 240.0, length: float = 60.0) -> Path:
    """The monitor's view is cut for ``length`` seconds now and then, though not at the end: that is a host lost."""
    folder = _copy(source, target)
    end = float(toml.loads((folder / "scenario.toml").read_text())["duration_s"]) - 90.0
    _map_rows(folder, lambda i, row: None if every - length <= row["t"] % every and row["t"] < end else row)
    return folder


def without_keys(source: Path, target: Path, *, gpus: tuple[str, ...] = (), procs: tuple[str, ...] = ()) -> Path:
    """A host that does not tell all: some readings are missing everywhere."""
    folder = _copy(source, target)

    def less(_: int, row: Row) -> Row:
        cards = [{k: v for k, v in gpu.items() if k not in gpus} for gpu in row["gpus"]]
        views = [{k: v for k, v in proc.items() if k not in procs} for proc in row["procs"]]
        return {**row, "gpus": cards, "procs": views}

    _map_rows(folder, less)
    return folder


def noisier(source: Path, target: Path, seed: int = 11) -> Path:
    """Other software on the hosts: polls, page-ins, small network traffic, memory that wobbles, unsteady power."""
    folder, chance = _copy(source, target), random.Random(seed)

    def noise(_: int, row: Row) -> Row:
        procs: list[Row] = []
        for old in row["procs"]:
            proc = dict(old)
            if proc.get("cpu_pct") is not None:
                proc["cpu_pct"] = round(proc["cpu_pct"] + abs(chance.gauss(0, 1.2)), 1)
            if proc.get("rss_mib") is not None:
                proc["rss_mib"] = round(proc["rss_mib"] + chance.gauss(0, 1.5))
            if proc.get("read_mbps") is not None and chance.random() < 0.02:
                proc["read_mbps"] += round(chance.uniform(0.05, 0.5), 2)
            if proc.get("net_rx_mbps") is not None:
                proc["net_rx_mbps"] = round(proc["net_rx_mbps"] + abs(chance.gauss(0, 0.05)), 2)
            procs.append(proc)
        gpus = [{**gpu, "power_w": gpu["power_w"] + chance.gauss(0, 2.0)} if gpu.get("power_w") else gpu
                for gpu in row["gpus"]]  # fmt: skip
        return {**row, "procs": procs, "gpus": gpus}

    _map_rows(folder, noise)
    return folder


def without_gpus(source: Path, target: Path) -> Path:
    """NVML never answered."""
    folder = _copy(source, target)
    _map_rows(folder, lambda i, row: {**row, "gpus": []})
    return folder


def without_processes(source: Path, target: Path) -> Path:
    """No process of it could be seen, nor anything that a look at the host would tell."""
    folder = _copy(source, target)
    _map_rows(folder, lambda i, row: {"t": row["t"], "gpus": row["gpus"], "procs": []})
    return folder


def without_log(source: Path, target: Path) -> Path:
    """No log was found."""
    folder = _copy(source, target)
    text = (folder / "scenario.toml").read_text()
    (folder / "scenario.toml").write_text(re.sub(r"(?m)^(?:log|timing) = .*\n", "", text))
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


def attached_at_share(source: Path, target: Path, share: float) -> Path:
    """The monitor is started when ``share`` of the recording is over, or later where it was late already."""
    table = toml.loads((source / "scenario.toml").read_text())
    return attached_late(source, target, max(round(table["duration_s"] * share, 1), table.get("attach_at", 0.0)))


Variant = Callable[[Path, Path], Path]

SAME_TRUTH: dict[str, Variant] = {
    "thinned to every 2nd": thinned,
    "thinned to every 3rd": partial(thinned, every=3),
    "jittered": jittered,
    "order reversed": permuted,
    "GPUs relabelled": cards_relabelled,
    "names changed": renamed,
    "power x 0.4": power_scaled,
    "power x 2.5": partial(power_scaled, factor=2.5),
    "stamps 7 h ahead": stamps_shifted,
    "stamps removed": unstamped,
    "heartbeats mixed in": with_heartbeats,
    "heartbeats of 75 s": partial(with_heartbeats, period=75.0),
    "gaps": with_gaps,
    "noisier": noisier,
    "no NVLink counter": partial(without_keys, gpus=("nvlink_mbps",)),
    "no wchan": partial(without_keys, procs=("wchan",)),
    "no network counter": partial(without_keys, procs=("net_rx_mbps",)),
    "no memory of processes": partial(without_keys, procs=("rss_mib",)),
}
"""The same start-up seen otherwise: what was true of it holds on."""

ATTACHED: dict[str, Variant] = {
    f"attached at {p} %": partial(attached_at_share, share=p / 100) for p in (20, 40, 60, 80)
}

ABLATIONS: dict[str, Variant] = {
    "without GPU signals": without_gpus,
    "without process signals": without_processes,
    "without the log": without_log,
}

ALL: dict[str, Variant] = SAME_TRUTH | ATTACHED
