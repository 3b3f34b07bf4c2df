"""Two clocks of a watched host against the monitor's: its monotonic one for timers, its wall clock for display."""

from __future__ import annotations

from collections import deque

SPAN_S = 30.0
"""An offset is the smallest of the last one to two spans: long enough to see past jitter and stalls of the network,
short enough to follow clocks that drift apart and a host that was paused."""


class Timeline:
    """Puts a host's monotonic times on the monitor's timeline.

    The smallest (received - mono) is the quickest delivery, so a late frame does not look like a late event. When
    either machine slept the offset follows; what is given back never runs backwards.
    """

    def __init__(self) -> None:
        self._span = -1
        self._smallest: float | None = None
        self._before: float | None = None
        self._last = float("-inf")

    def at(self, mono: float, received: float) -> float:
        """The time of an event at ``mono`` whose frame was ``received`` (both in seconds)."""
        delay = received - mono
        if (span := int(received // SPAN_S)) != self._span:
            self._span, self._before, self._smallest = span, self._smallest, delay
        elif self._smallest is None or delay < self._smallest:
            self._smallest = delay
        offset = self._smallest if self._before is None else min(self._smallest, self._before)
        self._last = max(self._last, mono + offset)
        return self._last


class WallOffset:
    """How far a host's wall clock is ahead of the monitor's, from round trips: the quickest of the last ones."""

    def __init__(self) -> None:
        self._trips: deque[tuple[float, float]] = deque(maxlen=8)

    def add(self, sent_wall: float, round_trip_s: float, host_wall: float) -> None:
        self._trips.append((round_trip_s, host_wall - (sent_wall + round_trip_s / 2)))

    @property
    def seconds(self) -> float | None:
        return min(self._trips)[1] if self._trips else None

    @property
    def uncertain_s(self) -> float | None:
        """By how much that may be off either way: the way there and back need not take equally long."""
        return min(self._trips)[0] / 2 if self._trips else None
