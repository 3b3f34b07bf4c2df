"""Lines of one log to what they mean: markers, bars and heartbeats, folded into the run that wrote them.

Each line's words select the few markers that can match it, so that a log of unknown text costs one scan a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from tui.diagnose import markers as catalogue
from tui.diagnose.heartbeat import Recurrence
from tui.diagnose.phase_tracker import Run
from tui.diagnose.progress import Frame, frame
from tui.diagnose.stamps import stamp
from tui.model import LogLine

_RANK = re.compile(r"\[[Rr]ank ?(\d+)\]|\[Gloo\] Rank (\d+)|\[RANK (\d+)\]|\bRank (\d+)[:\]]")


class LogReader:
    """What a log has said so far. ``run`` is the run it speaks of now; earlier runs are only counted."""

    def __init__(self) -> None:
        self.run = Run()
        self.news_t: float | None = None
        """When a line came last that says something new: a marker, a bar that moved, a kind of line not seen before."""
        self.spoke_t: float | None = None
        """When a line came last that does not come on a clock."""
        self.heard = False
        """Whether a line came while somebody watched; what lay there before may be of an earlier run."""
        self._recurrence = Recurrence()
        self._rank_of_pid: dict[str, int] = {}
        self._tp_size = 0

    def read(self, lines: Sequence[LogLine], lay_until: float | None) -> None:
        """Take lines in. ``lay_until``: when the file was last written, for lines that lay there before."""
        lump = [line for line in lines if line.t is None]
        times = _times_of(lump, lay_until)
        for line, when in zip(lump, times, strict=True):
            self._line(line, when)
        for line in lines:
            if line.t is not None:
                self.heard = True
                self._line(line, line.t)

    def _line(self, line: LogLine, t: float | None) -> None:
        text = line.text
        if not text.strip():
            return
        bar = frame(text)
        progressed = recognised = False
        if not line.open or bar is not None or text.startswith("..."):
            recognised, progressed = self._recognise(text, bar, t, line.open)
        self.run.note_line(t)
        kind = "again" if recognised or bar is not None or line.open else self._recurrence.note(text, line.t)
        if t is None:
            return
        if progressed or (kind == "new" and not recognised):
            self.news_t = t
        if kind != "clock" and not (recognised and not progressed and bar is None):
            self.spoke_t = t

    def _recognise(self, text: str, bar: Frame | None, t: float | None, is_open: bool) -> tuple[bool, bool]:
        """(whether a marker or a bar knows the line, whether it counts as progress)"""
        found = progressed = False
        for marker in catalogue.load().candidates(catalogue.WORD.findall(text)):
            if is_open and marker.edge != "progress":
                continue
            match = marker.match(text)
            if match is None:
                continue
            if marker.run == "start" and self.run.advanced:
                self.run = Run(self.run.attempt + 1)
            groups = match.groupdict()
            drawn = bar
            if bar is None and groups.get("n"):
                drawn = Frame(marker.id, float(groups["n"] or 0), float(groups["total"] or 0))
            if marker.id == "load.dots":
                drawn = Frame(marker.id, float(len(text)), 100.0)
            found = True
            progressed |= self.run.take(marker, self._rank(text, groups), drawn, t, text)
            if marker.edge == "fatal":
                progressed = False
        if bar is not None and not found:
            return True, self.run.take_bar(bar, self._rank(text, {}), t)
        return found, progressed

    def _rank(self, text: str, groups: dict[str, str | None]) -> int | None:
        """The rank that printed the line: said by the line itself, its prefix, or its process id earlier."""
        said_rank = groups.get("rank")
        rank = int(said_rank) if said_rank else None
        for prefix in _prefixes():
            if found := prefix.search(text):
                said = found.groupdict()
                rank = rank if rank is not None else self._rank_of(said)
                pid = said.get("pid")
                if pid and rank is not None and (said.get("who") or "").startswith(("Worker", "VllmWorker")):
                    self._rank_of_pid[pid] = rank
                elif pid and rank is None:
                    rank = self._rank_of_pid.get(pid)
                break
        if rank is None and (found := _RANK.search(text)):
            rank = int(next(group for group in found.groups() if group))
        return rank

    def _rank_of(self, said: dict[str, str | None]) -> int | None:
        for name in ("rank", "mpi", "local"):
            if said.get(name):
                return int(said[name] or 0)
        tp, pp = said.get("tp"), said.get("pp")
        if tp is None:
            return int(pp) if pp is not None else None
        self._tp_size = max(self._tp_size, int(tp) + 1)
        return int(pp or 0) * self._tp_size + int(tp)


@lru_cache(maxsize=1)
def _prefixes() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern) for _, pattern in catalogue.load().prefixes)


def _times_of(lump: Iterable[LogLine], lay_until: float | None) -> list[float | None]:
    """When lines that lay there were written: by their own stamps, the last of which is the file's last write.

    Lines without a stamp take that of the line before; without any, or with stamps that run backwards, all lay there at
    ``lay_until`` as far as can be told.
    """
    stamps: list[float | None] = []
    last: float | None = None
    for line in lump:
        said = stamp(line.text)
        last = said if said is not None else last
        stamps.append(last)
    if lay_until is None or last is None:
        return [lay_until for _ in stamps]
    end = last
    return [lay_until - max(0.0, end - said) if said is not None else None for said in stamps]
