"""One poll loop with timers. Everything in the agent's main process happens in callbacks of it."""

import heapq
import select
import time

clock = time.monotonic


class Loop:
    def __init__(self):
        self.stopped = False
        self._poll = select.poll()
        self._ready: "dict[int, Callable[[], None]]" = {}
        self._timers: "list[tuple[float, int, Callable[[], None]]]" = []
        self._count = 0

    def watch(self, fd: int, ready: "Callable[[], None]", writing: bool = False) -> None:
        """Call ``ready`` whenever ``fd`` can be read (or written), or is closed at the other end."""
        self._ready[fd] = ready
        self._poll.register(fd, select.POLLOUT if writing else select.POLLIN)

    def forget(self, fd: int) -> None:
        if self._ready.pop(fd, None):
            self._poll.unregister(fd)

    def after(self, seconds: float, due: "Callable[[], None]") -> None:
        self._count += 1
        heapq.heappush(self._timers, (clock() + seconds, self._count, due))

    def run(self) -> None:
        while not self.stopped:
            wait = max(0.0, self._timers[0][0] - clock()) if self._timers else 1.0
            for fd, _ in self._poll.poll(wait * 1000 + 0.5):
                ready = self._ready.get(fd)
                if ready:
                    ready()
            now = clock()
            while self._timers and self._timers[0][0] <= now and not self.stopped:
                heapq.heappop(self._timers)[2]()


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable
