"""What one host holds of each launch: which of its processes belong together, which rank each one is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tui.model import Identity, Member
from tui.session.frameworks import (
    PARENTS,
    SERVERS,
    Sizes,
    Trait,
    global_rank,
    is_python,
    is_spawned_worker,
    passes_on,
    subject,
    world_size,
)
from tui.session.tree import Process, ProcessTree, ProcKey

Traits = dict[ProcKey, Trait]


@dataclass(slots=True)
class Part:
    """What one host holds of a launch: its root process, its members, and what the root's arguments say."""

    host: str
    root: Process
    framework: str | None
    members: dict[ProcKey, Member] = field(default_factory=dict[ProcKey, Member])
    identities: dict[ProcKey, Identity] = field(default_factory=dict[ProcKey, Identity])
    join: str | None = None
    world: int | None = None
    port: int | None = None
    subject: str = ""


def make_parts(host: str, tree: ProcessTree, gpu_pids: Iterable[int], asked_for: frozenset[int]) -> list[Part]:
    """The parts of launches among the processes of ``tree``.

    ``gpu_pids`` hold a GPU by NVML's word, ``asked_for`` by a person's: they count even where nothing else tells.
    """
    traits = _traits_in_place(tree)
    traits |= _unknown(tree, gpu_pids, asked_for, traits)
    roots: dict[ProcKey, tuple[Process, Traits]] = {}
    for key, trait in traits.items():
        root = _root(tree, tree.table[key], traits)
        roots.setdefault(root.key, (root, {}))[1][key] = trait
    for root, below in roots.values():
        if root.key not in below:
            framework = next(iter(below.values())).framework
            below[root.key] = Trait(framework, "driver", subject=subject(root.identity))
    parts = [_part(host, tree, root, below) for root, below in roots.values()]
    return [part for part in parts if _is_launch(part)]


# ------------------------------------------------------------------------------------------------------------ belonging


def _traits_in_place(tree: ProcessTree) -> Traits:
    """Each process's own trait, corrected by where it stands in the tree."""
    own = {key: process.trait for key, process in tree.table.items() if process.trait is not None}
    traits = {key: trait for key, trait in own.items() if not _is_env_rank(trait)}
    traits |= _env_ranks(tree, {key: trait for key, trait in own.items() if _is_env_rank(trait)}, traits)
    owners = {key[0] for key, trait in traits.items() if trait.framework in SERVERS and trait.role in PARENTS}
    below = [process for process in tree.table.values() if process.identity.ppid in owners]
    for process in sorted(below, key=lambda process: (process.identity.start_ticks, process.identity.pid)):
        parent = tree.parent(process)
        above = traits.get(parent.key) if parent else None
        if parent is None or above is None or above.framework not in SERVERS or above.role not in PARENTS:
            continue
        trait = traits.get(process.key)
        forked = trait is not None and trait.role == "driver" and parent.identity.cmdline == process.identity.cmdline
        if forked or (trait is None and is_spawned_worker(process.identity)):
            traits[process.key] = Trait(above.framework, "worker")
    return {key: trait for key, trait in traits.items() if not _is_fork(tree, key, traits)}


def _is_fork(tree: ProcessTree, key: ProcKey, traits: Traits) -> bool:
    """Whether a rank by its title is the child of that rank: what it forks carries the title on, and is no rank."""
    process = tree.table[key]
    parent = tree.parent(process) if traits[key].role == "rank" else None
    if parent is None or parent.key not in traits or traits[parent.key].role != "rank":
        return False
    return parent.identity.title == process.identity.title


def _is_env_rank(trait: Trait) -> bool:
    return trait.role == "rank" and trait.rank is not None


def _env_ranks(tree: ProcessTree, ranks: Traits, others: Traits) -> Traits:
    """Ranks by environment. What a rank starts inherits its variables and is none (DataLoader and compile workers); a
    process with *other* ranks below it is what started them (the number was a pod's or a task's)."""
    above: dict[ProcKey, list[ProcKey]] = {}
    for key in ranks:
        chain = [process.key for process in tree.ancestors(tree.table[key])]
        if not any(up in others and others[up].framework in SERVERS for up in chain):
            above[key] = [up for up in chain if up in ranks]
    starters = {up for key, chain in above.items() for up in chain if ranks[up].rank != ranks[key].rank}
    found: Traits = {}
    for key, chain in above.items():
        if key in starters:
            found[key] = replace(ranks[key], role="launcher", rank=None)
        elif all(up in starters for up in chain):
            found[key] = ranks[key]
    return found


def _unknown(tree: ProcessTree, gpu_pids: Iterable[int], asked_for: frozenset[int], known: Traits) -> Traits:
    """Processes that belong to nothing known; a Python that only started others of them is left to be their driver."""
    found: Traits = {}
    for pid in asked_for.union(gpu_pids):
        process = tree.with_pid(pid)
        if process is None or process.key in known or (passes_on(process.identity) and pid not in asked_for):
            continue
        if not any(above.key in known for above in tree.ancestors(process)):
            found[process.key] = Trait(None, "worker", subject=subject(process.identity))
    parents = {parent.key for key in (*known, *found) if (parent := tree.parent(tree.table[key])) is not None}
    return {key: t for key, t in found.items() if key not in parents or not is_python(tree.table[key].identity)}


def _root(tree: ProcessTree, process: Process, traits: Traits) -> Process:
    """The topmost process that the launch of ``process`` came from; a script around an engine is one too."""
    trait = traits[process.key]
    top = process
    for above in tree.ancestors(process):
        other = traits.get(above.key)
        if other is not None and _owns(other, trait):
            top = above
    if traits[top.key].role in ("driver", "launcher"):
        return top
    parent = tree.parent(top)
    if parent is None or parent.key in traits or not is_python(parent.identity) or passes_on(parent.identity):
        return top
    return parent


def _owns(above: Trait, trait: Trait) -> bool:
    if trait.framework in SERVERS:
        return above.framework == trait.framework and above.role in PARENTS
    return above.role == "launcher" or (trait.framework is None and above.framework is None)


# ------------------------------------------------------------------------------------------------------------- one part


def _part(host: str, tree: ProcessTree, root: Process, traits: Traits) -> Part:
    owners_first = sorted(traits.values(), key=lambda trait: (trait.role != "driver", trait.role != "launcher"))
    server = next((trait.framework for trait in owners_first if trait.framework in SERVERS), None)
    stated = next((trait for trait in owners_first if trait.sizes is not None), None)
    sizes = stated.sizes if stated and stated.sizes else _observed(traits.values())
    part = Part(host, root, server or next((trait.framework for trait in owners_first if trait.framework), None))
    part.subject = next((trait.subject for trait in owners_first if trait.subject), "")
    part.port = next((trait.port for trait in owners_first if trait.port), None)
    part.world = _world(part.framework, traits.values(), sizes if stated else None)
    if stated is None or sizes.nnodes > 1:
        part.join = next((trait.join for trait in owners_first if trait.join), None)
    for key, trait in traits.items():
        process = tree.table[key]
        rank = _rank(tree, process, traits, sizes, stated is not None)
        part.identities[key] = process.identity
        part.members[key] = Member(host, *key, rank, trait.role, process.identity.title)
    _rank_by_start(part, traits, sizes)
    _add_zombies(part, tree)
    return part


def _is_launch(part: Part) -> bool:
    """``mpirun`` starts any program and is a launch only once ranks are there; ``torchrun`` starts nothing else."""
    return part.framework == "torchrun" or any(member.role != "launcher" for member in part.members.values())


def _world(framework: str | None, traits: Iterable[Trait], stated: Sizes | None) -> int | None:
    worlds = [trait.world for trait in traits if trait.world is not None]
    return max(worlds) if worlds else world_size(framework, stated) if stated else None


def _observed(traits: Iterable[Trait]) -> Sizes:
    """Sizes as titles show them, where no arguments do (an engine inside a script)."""
    highest: dict[str, int] = {}
    for trait in traits:
        for name, value in trait.coords.items():
            highest[name] = max(highest.get(name, 0), value)
    tp, pp, dp, pcp = (highest.get(name, 0) + 1 for name in ("TP", "PP", "DP", "PCP"))
    return Sizes(tp=tp, pp=pp, dp=dp, pcp=pcp)


def _rank(tree: ProcessTree, process: Process, traits: Traits, sizes: Sizes, stated: bool) -> int | None:
    trait = traits[process.key]
    if trait.rank is not None or trait.framework not in SERVERS:
        return trait.rank
    alone = sizes.tp * sizes.pp * sizes.pcp == 1
    if trait.role == "engine_core":  # with one GPU a replica vLLM has no workers: the engine core is the rank
        workers = any(
            _is_child(tree, key, process) for key, other in traits.items() if other.role in ("rank", "worker")
        )
        return trait.coords.get("DP", 0) if alone and stated and not workers else None
    if trait.role != "rank" or (not trait.coords and not alone):
        return None
    parent = tree.parent(process)
    engine = traits.get(parent.key) if parent else None
    coords = {**engine.coords, **trait.coords} if engine and engine.role == "engine_core" else trait.coords
    return global_rank(trait.framework, coords, sizes)


def _add_zombies(part: Part, tree: ProcessTree) -> None:
    """Ranks that had died when they were first seen and were not waited for: a zombie has nothing but its name and its
    parent. They count where exactly as many ranks are missing as zombies of the ranks' name stand beside them."""
    ranks = {key: member.rank for key, member in part.members.items() if member.rank is not None}
    missing = sorted(set(range(part.world or 0)) - set(ranks.values()))
    if not ranks or not missing:
        return
    beside = {(part.identities[key].ppid, part.identities[key].comm) for key in ranks}
    zombies = [
        process
        for key, process in tree.table.items()
        if key not in ranks and _is_zombie(process.identity)
        if (process.identity.ppid, process.identity.comm) in beside
    ]
    if len(zombies) != len(missing):
        return
    for rank, process in zip(missing, sorted(zombies, key=lambda process: process.key[::-1]), strict=True):
        part.identities[process.key] = process.identity
        part.members[process.key] = Member(part.host, *process.key, rank, "rank", process.identity.title)


def _is_zombie(identity: Identity) -> bool:
    """A zombie has no command line, no program and no open file any more (proc(5))."""
    return not (identity.cmdline or identity.exe or identity.stdout or identity.cwd or identity.error)


def _is_child(tree: ProcessTree, key: ProcKey, process: Process) -> bool:
    parent = tree.parent(tree.table[key])
    return parent is not None and parent.key == process.key


def _rank_by_start(part: Part, traits: Traits, sizes: Sizes) -> None:
    """Ranks without coordinates in their title, where all of the node's are there: SGLang up to 0.4.3, and vLLM before
    its groups exist, start them in the order of their ranks (``launch_server``, ``MultiprocExecutor``)."""
    local = sizes.tp * sizes.pp * sizes.pcp // max(1, sizes.nnodes)
    ranks = sorted((key for key, trait in traits.items() if trait.role == "rank"), key=lambda key: (key[1], key[0]))
    if part.framework not in SERVERS or sizes.dp > 1 or len(ranks) != local:
        return
    for index, key in enumerate(ranks):
        if not traits[key].coords and traits[key].rank is None:
            part.members[key] = replace(part.members[key], rank=sizes.node_rank * local + index)
