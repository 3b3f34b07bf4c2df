"""What makes two launches alike: the same model started by the same framework on the same host and kind of GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tui.diagnose.observe import Scene
from tui.history import History
from tui.model import Launch

_SCRIPT = re.compile(r"(?:^|[\s/])([\w.+-]+\.py)(?=\s|$)|\s-m\s+([\w.]+)")
_MOST = 400
"""Characters of a text that are kept."""


@dataclass(frozen=True, slots=True)
class Likeness:
    """Only what is equal in all of this is compared; what is not known (``None``) is a value of its own.

    ``model`` is the model's or script's short name, ``gpu`` the GPU types of all hosts, ``hosts`` their names as they
    are watched. A log tells its framework's ``version`` late or never.
    """

    framework: str | None
    version: str | None
    model: str | None
    world_size: int | None
    gpu: str | None
    hosts: str


def likeness(history: History, launch: Launch) -> Likeness:
    """By what is known of ``launch`` so far."""
    from tui.diagnose.deadlines import Settings  # 3 ms that the first picture need not wait for

    hosts = [kept for name in launch.hosts if (kept := history.host(name)) is not None]
    gpus = sorted({gpu.name for host in hosts for gpu in host.last_gpus if gpu.name})
    version = Settings(Scene(history, launch, 0.0)).version
    return Likeness(
        framework=launch.framework,
        version=".".join(map(str, version)) if version else None,
        model=_text(launch.name.removeprefix(launch.framework or "").strip() or _script(launch.command)),
        world_size=launch.world_size,
        gpu=_text(", ".join(gpus)),
        hosts=",".join(sorted(launch.hosts))[:_MOST],
    )


def key(history: History, launch: Launch) -> str | None:
    """One launch has one key, whoever watches it and how often: its first rank's process, else its oldest one.

    ``None`` where no process of it is known, or its host's boot is not.
    """
    ranks = sorted(launch.ranks(), key=lambda m: (m.rank or 0, m.start_ticks))
    first = next(iter(ranks or sorted(launch.members, key=lambda m: (m.start_ticks, m.pid))), None)
    seen = history.latest(first.host) if first is not None else None
    if first is None or seen is None or not seen.boot_id:
        return None
    return f"{seen.boot_id} {first.pid} {first.start_ticks}"


def _script(command: str) -> str:
    """What Python runs in ``command``: ranks that nobody but their environment tells of have no other name."""
    found = _SCRIPT.search(command)
    return (found[1] or found[2]) if found is not None else ""


def _text(text: str) -> str | None:
    return text[:_MOST] or None
