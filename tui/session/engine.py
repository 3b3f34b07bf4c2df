"""History, launches and verdicts in one place: samples go in, launch views and wanted facts come out.

Live, replayed and headless sessions all judge through this, so they cannot differ. No I/O, no clock of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tui.diagnose import diagnose, phase_spans
from tui.diagnose.markers import Markers, load
from tui.diagnose.spans import phases_ahead
from tui.history import History
from tui.model import HostView, Launch, LaunchView, LogView, PhaseId, Sample, Usual, Verdict, Wanted
from tui.session.book import HostBook
from tui.session.course import CourseRecorder
from tui.thresholds import RULES_ALONE, Thresholds


@dataclass(slots=True)
class _Judged:
    seen_since: float
    verdict: Verdict | None = None
    recorder: CourseRecorder = field(default_factory=CourseRecorder)


def nothing_usual(launch: Launch) -> Mapping[PhaseId, tuple[Usual, ...]]:
    """A recording is judged by what it holds: nothing is known of other launches."""
    return {}


class Engine:
    def __init__(
        self,
        books: Iterable[HostBook],
        markers: Callable[[], Markers] = load,
        usual: Callable[[Launch], Mapping[PhaseId, tuple[Usual, ...]]] = nothing_usual,
        least: Thresholds = RULES_ALONE,
    ) -> None:
        """``books``: of the hosts that samples come from. ``markers`` gives what logs are read by; it is asked when the
        first line comes. ``usual`` gives what past launches like one took; it is asked at every verdict.
        ``least``: no launch is called suspect or hung sooner."""
        self.history = History(markers)
        self._markers = markers
        self._usual = usual
        self._least = least
        self.books = {book.name: book for book in books}
        self._judged: dict[str, _Judged] = {}

    def add(self, sample: Sample) -> None:
        """Take a sample in; samples of one host come in their order."""
        self.history.add(sample)
        self.books[sample.host].feed(sample)

    def judge(self, launch: Launch, now: float) -> tuple[LaunchView, Sequence[Wanted]]:
        """Judge a launch at ``now`` on the monitor's timeline."""
        judged = self._judged.setdefault(launch.id, _Judged(seen_since=now))
        usual = self._usual(launch)
        diagnosis = diagnose(self.history, launch, now, judged.verdict, usual, self._least)
        judged.verdict = diagnosis.verdict
        return replace(self._view(launch, judged, diagnosis.verdict, now), usual=usual), diagnosis.wanted

    def host_views(self, now: float) -> tuple[HostView, ...]:
        return tuple(book.view(now) for book in self.books.values())

    def _view(self, launch: Launch, judged: _Judged, verdict: Verdict, now: float) -> LaunchView:
        books = self.books
        spans = phase_spans(self.history, launch, now)
        view = LaunchView(
            launch=launch,
            verdict=verdict,
            spans=spans,
            ahead=phases_ahead(self._markers().usual.get(verdict.framework or "", ()), verdict.phase) if spans else (),
            processes=tuple(books[m.host].row(m, launch.id) for m in launch.members if m.host in books),
            logs=tuple(self._log_view(log.host, log.path, now) for log in launch.logs),
            seen_since=judged.seen_since,
        )
        live = [books[host] for host in launch.hosts if host in books and books[host].state == "live"]
        judged.recorder.add(view, [book.sample for book in live if book.sample is not None])
        return replace(view, course=judged.recorder.course())

    def _log_view(self, host: str, path: str, now: float) -> LogView:
        log = self.history.log(host, path)
        if log is None:
            return LogView(host, path)
        return LogView(
            host=host,
            path=path,
            size=log.size,
            lines_total=log.lines_total,
            silent_s=log.silent_s(now),
            tail=tuple(log.tail),
            skipped_bytes=log.skipped_bytes,
            error=log.error,
            marks=(*log.reader.run.opened, *(("fatal", line.text) for line in log.reader.run.fatal)),
        )
