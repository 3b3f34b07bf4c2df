"""How the ranks of a launch stand to the address where they meet, as looks at their sockets found it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from tui.diagnose.facts import newest
from tui.diagnose.observe import Scene
from tui.diagnose.views import ProcView
from tui.untyped import mapped, number, text

SOCKETS_S = 180.0


@dataclass(frozen=True, slots=True)
class Meeting:
    """How ranks stand to the address where they meet. ``listening``: whether anybody accepts there, where that is a
    watched host. ``calls_in_vain``: (process, address) whose connection is asked for and not answered. ``absent``:
    living ranks that are not connected to it while others are."""

    address: str
    listening: bool | None
    calls_in_vain: tuple[tuple[int, str], ...]
    absent: tuple[ProcView, ...]

    @property
    def absent_text(self) -> str:
        names = ", ".join(view.name for view in self.absent[:8])
        return f"{names} {'is' if len(self.absent) == 1 else 'are'} not connected"

    @property
    def trouble(self) -> str:
        """What is wrong, in words; empty where nothing is."""
        parts: list[str] = []
        if self.calls_in_vain:
            whom = ", ".join(dict.fromkeys(address for _, address in self.calls_in_vain))[:120]
            parts.append(f"process {self.calls_in_vain[0][0]} calls {whom} and gets no answer")
        if self.listening is False:
            parts.append(f"nobody listens at {self.address}, where the ranks are to meet")
        if self.absent:
            parts.append(f"{self.absent_text} at {self.address}, where the others are")
        return "; ".join(parts)


def meeting(scene: Scene) -> Meeting | None:
    """By the last look at sockets; ``None`` where nobody has looked."""
    looks = newest(scene, "sockets", SOCKETS_S)
    if not looks:
        return None
    vain: list[tuple[int, str]] = []
    meets: dict[tuple[str, int], bool] = {}
    address, listening = "", None
    for host, fact in looks.items():
        answer = mapped(fact.value)
        for pid, row in mapped(answer.get("sockets")).items():
            tcp: object = mapped(row).get("tcp")
            if isinstance(mapped(row).get("meets"), bool) and pid.isdigit():
                meets[host, int(pid)] = mapped(row)["meets"]
            for item in cast("list[object]", tcp) if isinstance(tcp, list) else []:
                told = mapped(item)
                if told.get("state") == "syn_sent" and (number(told.get("tries")) or 0) >= 1:
                    vain.append((int(pid) if pid.isdigit() else 0, text(told.get("peer")) or ""))
        master = mapped(answer.get("master"))
        address = f"{text(master.get('name')) or ''}:{master.get('port')}" if master else address
        if master.get("here") is True and isinstance(master.get("listening"), bool):
            listening = master["listening"]
    absent = [view for view in scene.ranks if meets.get((view.member.host, view.member.pid)) is False]
    return Meeting(address, listening, tuple(vain), tuple(absent) if any(meets.values()) else ())
