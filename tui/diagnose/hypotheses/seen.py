"""What was seen, in words with numbers: the sentences that predictions, reasons and evidence share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tui.diagnose.compilers import is_compiler
from tui.diagnose.observe import Scene
from tui.diagnose.views import MB, GpuView, ProcView
from tui.numbers import mean


def ranks_text(ranks: Sequence[int]) -> str:
    """Rank numbers as ranges: ``0-3,7``."""
    parts: list[str] = []
    for rank in sorted(set(ranks)):
        if parts and rank == int(parts[-1].split("-")[-1]) + 1:
            parts[-1] = f"{parts[-1].split('-')[0]}-{rank}"
        else:
            parts.append(str(rank))
    return ",".join(parts)


def ranks(numbers: Sequence[int]) -> str:
    """``rank 0``, ``ranks 4-7``."""
    return f"rank{'s' if len(numbers) > 1 else ''} {ranks_text(numbers)}"


def who(views: Sequence[ProcView]) -> str:
    """``rank 0``, ``ranks 4-7``, or the roles."""
    numbers = [view.member.rank for view in views if view.member.rank is not None]
    return ranks(numbers) if numbers else ", ".join(dict.fromkeys(f"the {view.name}" for view in views)) or "none"


def waits_in(views: Sequence[ProcView]) -> str:
    """`` in futex_do_wait``, or `` (7 in wait_woken, 1 in futex_do_wait)``: who waits elsewhere is to be looked at.
    Empty where the kernel does not say."""
    places = Counter(view.wchan for view in views if view.wchan not in ("", "0"))
    if len(places) > 1:
        return f" ({where(views)})"
    place = next(iter(places), "")
    return f" in {place}{f' ({meaning})' if (meaning := _waits_for(place)) else ''}" if place else ""


def where(views: Sequence[ProcView]) -> str:
    """Where the kernel has them."""
    places = Counter(view.wchan for view in views if view.wchan not in ("", "0"))
    told = [(n, place, _waits_for(place)) for place, n in places.most_common(3)]
    return ", ".join(f"{n} in {place}{meaning and f': {meaning}'}" for n, place, meaning in told) or "not known"


_PLACES = (
    ("futex", "a lock or another thread"),
    ("ep_poll", "sockets"),
    ("do_poll", "sockets"),
    ("poll_schedule", "sockets"),
    ("do_select", "sockets"),
    ("wait_woken", "a socket"),
    ("sk_wait", "a socket"),
    ("hrtimer", "a timer"),
    ("do_wait", "a child"),
    ("rpc_", "NFS"),
    ("nfs", "NFS"),
    ("folio_", "pages from storage"),
    ("wait_on_page", "pages from storage"),
    ("balance_dirty", "writeback"),
    ("locks_lock", "a file lock"),
    ("flock", "a file lock"),
    ("fcntl_setlk", "a file lock"),
    ("nvidia", "the GPU driver"),
    ("uvm_", "the GPU driver"),
)
"""Functions of the kernel, by how they begin, and what a process waits for in them."""


def _waits_for(place: str) -> str:
    return next((meaning for start, meaning in _PLACES if place.startswith(start)), "")


def _every_thread(scene: Scene) -> str:
    """Said where the last sweep found no thread of theirs busy or blocked."""
    swept = [scene.sweeps.get((view.member.host, view.member.pid)) for view in scene.workers]
    looks = [look for look in swept if look is not None and look.asleep]
    return (
        f" (every one of {sum(look.threads for look in looks)} threads)" if looks and len(looks) == len(swept) else ""
    )


def cpu(scene: Scene, *, brief: bool = False) -> str:
    """What the ranks do; ``brief`` leaves out where sleepers wait, where that is not one place."""
    views = scene.workers
    if not scene.observed:
        return "CPU not known"
    stuck = [view for view in views if view.stuck_in_kernel]
    asleep = [view for view in views if view.asleep and view not in stuck]
    core = [view for view in views if view.one_core]
    together = sum(view.cpu or 0.0 for view in views)
    burned = f"{together:.1f} % CPU{' together' if len(views) > 1 else ''}"
    if len(asleep) == len(views):
        places = {view.wchan for view in asleep}
        waits = "" if brief and len(places) > 1 else waits_in(asleep) + _every_thread(scene)
        return f"{_everyone(scene)} asleep{waits}, {burned}"
    if len(stuck) == len(views):
        return f"{_everyone(scene)} blocked for good{waits_in(stuck)}, {burned}"
    if len(core) == len(views):
        return f"{_everyone(scene)} at one core{' each' if len(views) > 1 else ''}"
    parts = [
        f"{who(group)} {text}"
        for group, text in (
            (asleep, f"asleep{waits_in(asleep)}"),
            (core, "at one core"),
            ([view for view in views if view.many_cores], "at several cores"),
            ([view for view in views if view.busy and not view.one_core and not view.many_cores], "at part of a core"),
            (stuck, f"blocked for good{waits_in(stuck)}"),
            ([view for view in views if view.state in "Tt"], "stopped"),
        )
        if group
    ]
    return "; ".join(parts) + (f"; {together / 100.0:.1f} cores in all" if together >= 150.0 else "")


def _everyone(scene: Scene) -> str:
    """``all 8 ranks``, ``both ranks``, ``rank 0``, ``the api``."""
    views = scene.workers
    if len(views) == 1:
        return views[0].name if scene.ranks else f"the {views[0].name}"
    return f"{all_of(len(views))} {'ranks' if scene.ranks else 'processes'}"


def all_of(count: int) -> str:
    return "both" if count == 2 else f"all {count}"


def gpus(scene: Scene) -> str:
    if not scene.gpus:
        return "no GPU in use"
    parts: list[str] = []
    for kind, text in (
        ("works", "working"),
        ("spins", "at {util:.0f} % with the memory controller at {mem}"),
        ("idle", "at {util:.0f} %"),
        ("unknown", "of unknown load"),
    ):
        group = [gpu for gpu in scene.gpus if gpu.kind == kind]
        if not group:
            continue
        util = mean([gpu.util for gpu in group if gpu.util is not None] or [0.0])
        known = [gpu.mem_util for gpu in group if gpu.mem_util is not None]
        power = [gpu.power for gpu in group if gpu.power is not None]
        said = text.format(util=util, mem=f"{mean(known):.0f} %" if known else "an unknown level")
        parts.append(f"{_how_many(len(group), len(scene.gpus))} {said}{_watts(kind, power, group)}")
    return "; ".join(parts)


def _how_many(some: int, all_of_them: int) -> str:
    if all_of_them == 1:
        return "the GPU"
    return f"{all_of(some)} GPUs" if some == all_of_them else f"{some} of {all_of_them} GPUs"


def _watts(kind: str, power: list[float], group: list[GpuView]) -> str:
    """Power, where a GPU spins against what it drew at work: no fixed number of watts tells a spin."""
    if not power:
        return ""
    busy = [gpu.busy_w for gpu in group if gpu.busy_w is not None and gpu.power is not None]
    share = 100.0 * mean(power) / mean(busy) if busy and mean(busy) > 0 else 100.0
    whose = "they" if len(group) > 1 else "it"
    against = f" ({share:.0f} % of what {whose} drew at work)" if kind == "spins" and share <= 80.0 else ""
    return f", {mean(power):.0f} W each{against}" if len(power) > 1 else f", {power[0]:.0f} W{against}"


def byte_flow(scene: Scene) -> str:
    views = scene.living
    if not any(view.read is not None or view.received is not None for view in views):
        return "bytes not known"
    moving = flow(views)
    little = "hardly a byte moved: " if sum(_flows(views)) < 1e6 * len(views) / 4.0 and moving else ""
    return little + moving if moving else "no bytes read or received"


def builders(scene: Scene) -> str:
    at_work = [view for view in scene.living if view.builds]
    if not at_work:
        return "no compiler"
    names: Counter[str] = Counter()
    for view in at_work:
        host = scene.history.host(view.member.host)
        proc = host.procs.get((view.member.pid, view.member.start_ticks)) if host is not None else None
        for group in proc.last.children if proc is not None and proc.last is not None else ():
            if is_compiler(group.comm) and group.n:
                names[group.comm] += group.n
    burned = sum(view.compilers or 0.0 for view in at_work) / 100.0
    named = ", ".join(f"{n} {comm}" for comm, n in names.most_common(3)) or "compilers"
    return f"{named} under {who(at_work)}, {burned:.1f} cores"


def doing(views: Sequence[ProcView]) -> str:
    """What those do that are at work, with a figure each kind of work: ``rank 0 reads 3.0 MB/s``."""
    groups: dict[str, list[ProcView]] = {}
    for view in views:
        groups.setdefault(_kind_of_work(view), []).append(view)
    return "; ".join(f"{who(group)} {_work(kind, group)}" for kind, group in groups.items())


def _kind_of_work(view: ProcView) -> str:
    if view.builds or view.children_work:
        return "compilers" if view.builds else "children"
    if view.many_cores or view.moves_bytes:
        return "cores" if view.many_cores else "bytes"
    return "storage" if view.in_storage else "memory" if view.grows else "cores"


def _work(kind: str, views: Sequence[ProcView]) -> str:
    if kind in ("compilers", "children"):
        burned = sum((v.children or 0.0) + (v.compilers or 0.0) for v in views) / 100.0
        return f"with {'compilers' if kind == 'compilers' else 'children'} at {burned:.1f} cores"
    if kind == "bytes":
        return f"at {flow(views) or 'a cache folder that grows'}"
    if kind == "storage":
        share = 100.0 * max(view.blocked_share for view in views)
        return f"blocked in storage {share:.0f} % of the time and back"
    burned = sum(view.cpu or 0.0 for view in views) / 100.0
    return "with memory that grows" if kind == "memory" else f"at {burned:.1f} cores"


def flow(views: Sequence[ProcView]) -> str:
    """The bytes that move, by kind; empty where hardly one does."""
    read, got, wrote = _flows(views)
    said = ((read, "read"), (got, "received"), (wrote, "written"))
    return ", ".join(f"{value / MB:.1f} MB/s {name}" for value, name in said if value >= 5e4)


def _flows(views: Sequence[ProcView]) -> tuple[float, float, float]:
    return (
        sum(view.read or 0.0 for view in views),
        sum(view.received or 0.0 for view in views),
        sum(view.write or 0.0 for view in views),
    )


def children(scene: Scene) -> str:
    at_work = [view for view in scene.living if view.children_work]
    if not at_work:
        return "no busy child"
    burned = sum(view.children or 0.0 for view in at_work) / 100.0
    return f"children of {who(at_work)} burn {burned:.1f} cores"
