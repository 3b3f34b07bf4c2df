"""Lines of one log to what they mean: markers, bars, tracebacks and heartbeats, folded into the run that wrote them.

Each line's words select the few markers that can match it, so that a log of unknown text costs one scan a line.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tui.diagnose import markers as catalogue
from tui.diagnose.carriers import BY_TORCH, Piece, Unwrapper
from tui.diagnose.heartbeat import Recurrence
from tui.diagnose.markers import Marker, Markers
from tui.diagnose.phase_tracker import Run
from tui.diagnose.progress import Frame, frame
from tui.diagnose.ranknames import RankNames, Said
from tui.diagnose.stamps import BarClock, Stamps, spread_back
from tui.diagnose.tracebacks import Place, Tracebacks
from tui.model import LogLine

_REPEATED = "x across cluster]"
_EVENTS = 8192
_RESTART_S = 600.0
"""A run that begins this long after the last line of one that failed is taken for its next attempt where nobody knows
when the launch began."""


class _Told(NamedTuple):
    """A line that meant something; ``marker`` is ``None`` for a bar that no marker knows. ``groups``: its marker's, of
    the kinds whose figures are read."""

    t: float | None
    marker: Marker | None
    rank: int | None
    frame: Frame | None
    text: str
    groups: Mapping[str, str | None] = {}


class _Meaning(NamedTuple):
    """``quoted``: part of a traceback; ``known``: a marker or a bar knows it; ``progressed``: it counts as progress;
    ``beat``: it comes on a clock or means nothing."""

    quoted: bool = False
    known: bool = False
    progressed: bool = False
    beat: bool = False


class LogReader:
    """What a log has said so far. ``run`` is the run it speaks of now; earlier runs are only counted."""

    def __init__(self, load: Callable[[], Markers] = catalogue.load) -> None:
        self.run = Run()
        self.news_t: float | None = None
        """When a line came last that says something new: a marker, a bar that moved, a kind of line not seen before."""
        self.spoke_t: float | None = None
        """When a line came last that does not come on a clock."""
        self.heard = False
        """Whether a line came while somebody watched; what lay there before may be of an earlier run."""
        self._load = load
        self._markers: Markers | None = None
        self._unwrapper = Unwrapper()
        self._stamps = Stamps()
        self._recurrence = Recurrence()
        self._tracebacks = Tracebacks()
        self._ranks = RankNames()
        self._told: deque[_Told] = deque(maxlen=_EVENTS)
        self._starts: deque[float | None] = deque([None], maxlen=256)
        self._cut: tuple[float, Run] | None = None

    def read(self, lines: Sequence[LogLine], lay_until: float | None, first_rank: int | None = 0) -> None:
        """Take lines in. ``lay_until``: when the file was last written, for lines that lay there before.
        ``first_rank``: the rank in the whole job of the host's local rank 0, ``None`` where that is not sure."""
        self._ranks.first = first_rank
        self.heard = self.heard or any(line.t is not None for line in lines)
        pieces = [piece for line in lines for piece in self._unwrapper.pieces(line)]
        lump = [piece for piece in pieces if piece.t is None]
        for piece, when in zip(lump, self._times_of(lump, lay_until), strict=True):
            self._piece(piece, when)
        for piece in pieces:
            if piece.t is not None:
                self._piece(piece, piece.t)

    def run_since(self, started: float | None) -> Run:
        """What was said from ``started`` on: before that, another launch wrote into the file. ``None``: all counts."""
        run = self.run
        if started is None or run.first_t is None or run.first_t >= started:
            return run
        if self._cut is None or self._cut[0] != started:
            self._cut = (started, self._refolded(started))
        return self._cut[1]

    def _refolded(self, started: float) -> Run:
        run, cut = self.run, Run(self.run.attempt)
        for told in self._told:
            if told.t is not None and told.t >= started:
                _fold(cut, told)
        cut.tracebacks = [trace for trace in run.tracebacks if trace.t is not None and trace.t >= started]
        cut.world, cut.deduplicated = run.world, run.deduplicated
        if run.last_t is not None and run.last_t >= started:
            cut.note_line(run.last_t)
        return cut

    def attempt_since(self, started: float | None) -> int:
        """The how-manieth run of a launch that began at ``started`` this is, 1 for its first."""
        if started is None:
            return self.run.attempt
        return max(1, sum(1 for t in self._starts if t is not None and t >= started))

    # --------------------------------------------------------------------------------------------------- one line

    def _times_of(self, lump: Sequence[Piece], lay_until: float | None) -> list[float | None]:
        """When lines that lay there were written, by their own stamps; the last of them is the file's last write."""
        if lay_until is None:
            return [None for _ in lump]
        bars = BarClock()
        stamps: list[float | None] = []
        for piece in lump:
            said = self._stamps.read(piece.head.stamp or piece.text)
            if said is not None:
                bars.stamped(said)
            elif (bar := frame(piece.text)) is not None:
                said = bars.drawn(bar.elapsed_s)
            stamps.append(said)
        return spread_back(stamps, lay_until)

    def _piece(self, piece: Piece, t: float | None) -> None:
        text = piece.text
        if not text or text.isspace():
            return
        bar = frame(text, whole=not piece.open)
        said = self._recognise(piece, bar, t) if not piece.open or bar or text.startswith("...") else _Meaning()
        self._note(t)
        known = said.known or said.quoted or bar is not None or piece.open
        kind = "again" if known else self._recurrence.note(text, piece.t, piece.head.source)
        if t is None:
            return
        if said.progressed or kind == "work" or (kind == "new" and not said.known):
            self.news_t = t
        if kind != "clock" and not said.beat:
            self.spoke_t = t

    def _note(self, t: float | None) -> None:
        self.run.note_line(t)
        if self._cut is not None and t is not None and t >= self._cut[0]:
            self._cut[1].note_line(t)
        if self._starts[-1] is None:
            self._starts[-1] = t

    def _recognise(self, piece: Piece, bar: Frame | None, t: float | None) -> _Meaning:
        markers = self._markers = self._markers or self._load()
        candidates = markers.of(piece.text)
        traced = not piece.open and self._tracebacks.concern(piece.text)
        if not (candidates or traced or bar):
            return _Meaning()
        said = self._ranks.split(piece.text, markers.prefixes)
        place = self._trace(piece, said, t) if traced else ""
        if place == "inside":
            return _Meaning(quoted=True)
        meaning = self._take_markers(piece, said, candidates, bar, t, only_fatal=place == "end")
        if place == "end" and not meaning.known and BY_TORCH in piece.head.source:
            piece = piece._replace(text=f"[rank{piece.head.rank}]: {piece.text}")
            meaning = self._take_markers(piece, said, markers.of(piece.text), bar, t, only_fatal=True)
        if bar is not None and not meaning.known and not place:
            rank = self._ranks.rank(piece.head, said, piece.text)
            return _Meaning(known=True, progressed=self._take(_Told(t, None, rank, bar, "")))
        return meaning._replace(quoted=bool(place))

    def _trace(self, piece: Piece, said: Said, t: float | None) -> Place:
        rank = self._ranks.rank(piece.head, said, piece.text)
        place, trace = self._tracebacks.feed(said.rest, piece.head.source, said.source, rank, t)
        if place == "end" and trace is not None:
            for run in self._runs():
                run.note_traceback(trace)
        return place

    def _take_markers(
        self,
        piece: Piece,
        said: Said,
        candidates: Sequence[Marker],
        bar: Frame | None,
        t: float | None,
        *,
        only_fatal: bool,
    ) -> _Meaning:
        text = piece.text
        if _REPEATED in text:
            for run in self._runs():
                run.deduplicated = True
        found: list[Marker] = []
        progressed = False
        for marker in candidates:
            if (piece.open and marker.edge != "progress") or (only_fatal and marker.edge != "fatal"):
                continue
            match = marker.match(said.rest) or (marker.match(text) if said.rest is not text else None)
            if match is None:
                continue
            groups = match.groupdict()
            rank = self._ranks.rank(piece.head, said, text, groups)
            if marker.edge:
                found.append(marker)
            figures = groups if marker.tells or marker.edge == "fatal" else {}
            progressed |= self._take(_Told(t, marker, rank, _drawn(marker, bar, groups, text), text, figures))
            if rank is not None and groups.get("rank") and groups.get("total"):
                self._count_ranks(rank)
        edges = {marker.edge for marker in found}
        beat = bool(found) and not progressed and bar is None and "fatal" not in edges
        return _Meaning(known=bool(found), progressed=progressed and "fatal" not in edges, beat=beat)

    def _count_ranks(self, rank: int) -> None:
        for run in self._runs():
            run.world = max(run.world, self._ranks.world, rank + 1)

    # --------------------------------------------------------------------------------------------------------- runs

    def _runs(self) -> tuple[Run, ...]:
        return (self.run,) if self._cut is None else (self.run, self._cut[1])

    def _take(self, told: _Told) -> bool:
        if told.marker is not None and self.run.is_followed_by(told.marker, told.rank, told.t):
            self._begin_anew(told.t)
        self._told.append(told)
        if self._cut is not None and told.t is not None and told.t >= self._cut[0]:
            _fold(self._cut[1], told)
        return _fold(self.run, told)

    def _begin_anew(self, t: float | None) -> None:
        old, self._cut = self.run, None
        soon = t is None or old.last_t is None or t - old.last_t <= _RESTART_S
        self.run = Run(old.attempt + 1 if soon and not old.over else 1)
        self._starts.append(t)


def _fold(run: Run, told: _Told) -> bool:
    if told.marker is not None:
        return run.take(told.marker, told.rank, told.frame, told.t, told.text, told.groups)
    return told.frame is not None and run.take_bar(told.frame, told.rank, told.t)


def _drawn(marker: Marker, bar: Frame | None, groups: dict[str, str | None], text: str) -> Frame | None:
    """The counter that a line carries: its bar, its ``n`` and ``total``, or llama.cpp's dots, one for each percent."""
    if marker.unit == "dots":
        return Frame(marker.id, float(min(100, text.count("."))), 100.0)
    if bar is None and (done := (groups.get("n") or "").replace(",", "")) and done.isdecimal() and len(done) < 16:
        total = groups.get("total") or ""
        return Frame(marker.id, float(done), float(total) if total.isdecimal() and len(total) < 16 else 0.0)
    return bar
