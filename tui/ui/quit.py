"""The last resort of quitting: a driver call or a task that never ends must not keep the terminal."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import App


class Deadline:
    """Once started, ends the process after ``seconds`` unless it is cancelled; the terminal is given back first.

    ``and_then`` gives back what else was taken.
    """

    def __init__(self, seconds: float, and_then: Callable[[], None] = lambda: None) -> None:
        self._seconds = seconds
        self._and_then = and_then
        self._timer: threading.Timer | None = None

    def start(self, app: App[Any]) -> None:
        if self._timer is None:
            self._timer = threading.Timer(self._seconds, _leave, (app, self._and_then))
            self._timer.daemon = True
            self._timer.start()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _leave(app: App[Any], and_then: Callable[[], None]) -> None:
    """Restore the terminal if the application still holds it, then end without waiting for anything."""
    driver = app._driver  # pyright: ignore[reportPrivateUsage]  (there is no public way to the driver)
    if driver is not None and app.is_running:
        with contextlib.suppress(Exception):
            driver.stop_application_mode()
            driver.close()
    with contextlib.suppress(Exception):
        and_then()
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    os._exit(0)
