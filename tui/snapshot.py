"""The snapshot by itself: the first picture shows an empty one, and waits for none of the model behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tui.model import Dump, HostView, LaunchView


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole state at one tick: what the interface draws and the headless commands print."""

    t: float
    wall: float
    hosts: tuple[HostView, ...] = ()
    launches: tuple[LaunchView, ...] = ()
    dumps: tuple[Dump, ...] = ()
    note: str = ""
    """One sentence for the status line: what was just done or what went wrong."""
