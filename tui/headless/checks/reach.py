"""Reach: whether the host, its clock and its driver answer."""

from __future__ import annotations

from collections.abc import Iterator

from tui.headless.checks.finding import Finding, Seen, counted, gpus_named
from tui.untyped import integer, listed, mapped, text

OFFSET_SHOWN_S = 1.0


def reach(seen: Seen) -> Iterator[Finding]:
    if seen.host.sample is None:
        yield Finding("problem", f"not reached: {seen.host.reason or 'no answer yet'}", *_way_in(seen))
        return
    rights = seen.answer("rights")
    python = text(rights.get("python"))
    where = f" ({text(rights.get('executable'))})" if rights.get("executable") else ""
    yield Finding("ok", f"reached; the agent runs under Python {python or 'of an unknown version'}{where}")
    yield _clock(seen)
    yield from _driver(seen)


def _way_in(seen: Seen) -> tuple[str, str]:
    if seen.host.state == "failed":
        return "The sentence names the cause; see what ssh itself says of it:", f"ssh -v {seen.host.name} true"
    return "See whether this returns, and what it waits for:", f"ssh {seen.host.name} true"


def _clock(seen: Seen) -> Finding:
    offset, uncertain = seen.host.clock_offset_s, seen.host.clock_uncertain_s
    if offset is None:
        return Finding("unknown", "its clock: no ping was answered yet")
    by = f"{offset:+.3f} s from this machine's" + ("" if uncertain is None else f" (± {uncertain:.3f} s)")
    if abs(offset) - (uncertain or 0.0) <= OFFSET_SHOWN_S:
        return Finding("ok", f"its clock is {by}")
    return Finding(
        "note",
        f"its clock is {by}: times in its logs are off by that against other hosts'",
        "Set it; timers here do not depend on it:",
        "sudo chronyc makestep",
    )


def _driver(seen: Seen) -> Iterator[Finding]:
    """That NVML answers, with the driver's version, and for which GPUs it does not."""
    sample, answer = seen.host.sample, seen.answer("gpu_health")
    rows = [mapped(row) for row in listed(answer.get("gpus"))]
    if "gpu_health" in seen.failures:
        said = (sample.gpu_error if sample is not None else None) or seen.failures["gpu_health"]
        yield Finding("note" if "no NVIDIA driver" in said else "problem", f"GPUs: {said}", *_no_driver(said))
        return
    health = mapped(answer.get("health"))
    cuda = integer(health.get("cuda"))
    version = text(health.get("driver"))
    driver = f"driver {version}" if version else "driver of an unknown version"
    if cuda:
        driver += f", CUDA up to {cuda // 1000}.{cuda % 1000 // 10}"
    models = sorted({name for row in rows if (name := text(row.get("name")))})
    simulated = " (SIMULATED)" if seen.host.simulated else ""
    yield Finding(
        "ok" if rows else "problem",
        f"NVML answers: {counted(len(rows), 'GPU')} {', '.join(models)}{simulated}; {driver}",
    )
    failing: dict[str, list[int]] = {}
    for row in rows:
        if row.get("error"):
            failing.setdefault(text(row["error"]) or "", []).append(integer(row.get("index")) or 0)
    for error, indices in failing.items():
        yield Finding("problem", f"{gpus_named(indices)}: {error}", *_of_gpu(error))
    files = integer(seen.answer("host").get("nvidia_devices"))
    if files is not None and files > len(rows):
        yield Finding(
            "problem",
            f"{files} GPUs have a device file and NVML counts {len(rows)}: one may have fallen off the bus",
            "Look for it in the kernel's log:",
            "sudo dmesg | grep -iE 'xid|fallen off'",
        )


def _no_driver(said: str) -> tuple[str, str]:
    if "permission" in said:
        return "Add this user to the group of the device files:", "ls -l /dev/nvidia*"
    if "no NVIDIA driver" in said:
        return "Without it a launch is judged by its log and processes alone.", ""
    return "See whether the driver's own tool answers:", "timeout 20 nvidia-smi"


def _of_gpu(said: str) -> tuple[str, str]:
    if "do not return" in said:
        return "Calls into the driver hang; look for the cause in the kernel's log:", "sudo dmesg | grep -i xid"
    return "", ""
