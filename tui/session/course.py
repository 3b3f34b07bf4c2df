"""What a launch showed over its whole life, a row at each judgement: the rows that the timelines draw."""

from __future__ import annotations

from collections.abc import Iterable

from tui.model import Course, Gpu, LaunchView, Sample
from tui.numbers import mean_known, share, total_known
from tui.session.book import gpu_key
from tui.track import Track

FIELDS = ("util_pct", "power_pct", "mem_pct", "cpu_cores", "log_bytes")
MOST_CHANGES = 500


class CourseRecorder:
    """Takes a launch's views in their order and gives what was seen so far, in the resolutions of :mod:`tui.track`."""

    def __init__(self) -> None:
        self._track = Track(FIELDS)
        self._verdicts: list[tuple[float, str]] = []

    def add(self, view: LaunchView, samples: Iterable[Sample]) -> None:
        """``samples``: the last one of each of the launch's hosts that are heard."""
        verdict = view.verdict
        gpus = _gpus_of(view, samples)
        self._track.add(
            verdict.t,
            (
                mean_known(gpu.util_pct for gpu in gpus),
                mean_known(_percent(gpu.power_w, gpu.power_limit_w) for gpu in gpus),
                mean_known(_percent(gpu.mem_used_mib, gpu.mem_total_mib) for gpu in gpus),
                _cores(view),
                total_known(log.size for log in view.logs),
            ),
        )
        if not self._verdicts or self._verdicts[-1][1] != verdict.id:
            self._verdicts.append((verdict.t, verdict.id))
            del self._verdicts[:-MOST_CHANGES]

    def course(self) -> Course:
        times, columns = self._track.everything()
        return Course(times, columns, tuple(self._verdicts))


def _gpus_of(view: LaunchView, samples: Iterable[Sample]) -> list[Gpu]:
    """The GPUs that its processes compute on; all of its hosts where none is known to, as in a container."""
    used = {(process.host, uuid) for process in view.processes for uuid in process.gpus}
    every = [(sample.host, gpu) for sample in samples for gpu in sample.gpus or () if gpu.error is None]
    mine = [gpu for host, gpu in every if (host, gpu_key(gpu)) in used]
    return mine or [gpu for _, gpu in every]


def _cores(view: LaunchView) -> float | None:
    """Cores that its processes keep busy, without their children."""
    shares = [process.cpu_pct for process in view.processes if process.cpu_pct is not None]
    return sum(shares) / 100.0 if shares else None


def _percent(value: float | None, whole: float | None) -> float | None:
    part = share(value, whole)
    return None if part is None else 100.0 * part
