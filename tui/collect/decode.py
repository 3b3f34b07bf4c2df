"""Frames to the model's shapes: every string cleaned, every number checked, what is missing or wrong becomes unknown.

Which keys a shape has is read off the dataclass itself, so the wire follows the model. Frames are described in
:mod:`tui.agent`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar, cast

from tui.model import ChildGroup, Gpu, GpuProcess, Identity, LogUpdate, Proc, Sample
from tui.safetext import clean, clean_tree
from tui.untyped import integer, listed, mapped, number, text

ANSWER_LIMIT = 16 << 20
"""Characters of one string in an answer: file contents and stack dumps travel in one piece."""

GPU_AGE_LIMIT_S = 5.0
"""A reading of the GPUs older than this says nothing about the tick that repeats it."""

Decode = Callable[[Any], Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Hello:
    """What an agent says of its host before the first sample. ``mem_mib`` in MiB; ``clk_tck`` kernel ticks a second;
    ``ptrace_scope`` as in ``/proc/sys/kernel/yama``; ``simulated`` where GPU readings are made up."""

    boot_id: str = ""
    hostname: str = ""
    python: str = ""
    machine: str = ""
    system: str = ""
    pid: int | None = None
    uid: int | None = None
    ncpu: int | None = None
    mem_mib: float | None = None
    clk_tck: int | None = None
    ptrace_scope: int | None = None
    simulated: bool = False
    mono: float | None = None
    wall: float | None = None


def hello(frame: dict[str, Any]) -> Hello:
    return _HELLO(frame) or Hello()


def answer(frame: dict[str, Any]) -> dict[str, Any]:
    """An answer with every string cleaned; strings that hold a document (stacks, files) keep their length."""
    return cast("dict[str, Any]", clean_tree(frame, ANSWER_LIMIT))


def sample(frame: dict[str, Any], host: str, said: Hello, t: float, logs: tuple[LogUpdate, ...]) -> Sample:
    """The sample that a tick holds; ``t`` is its time on the monitor's timeline, ``logs`` are read beforehand."""
    gpus, gpu_error = _gpus(frame)
    net, cost = mapped(frame.get("net")), mapped(frame.get("self"))
    return Sample(
        host=host,
        t=t,
        mono=number(frame.get("mono")) or 0.0,
        wall=number(frame.get("wall")) or 0.0,
        boot_id=said.boot_id,
        gpus=gpus,
        gpu_error=gpu_error,
        simulated=said.simulated,
        procs=_each(_PROC, frame.get("procs")),
        new=_each(_IDENTITY, frame.get("new")),
        gone=tuple(pair for item in listed(frame.get("gone")) if (pair := _pid_start(item)) is not None),
        logs=logs,
        net_rx_bytes=number(net.get("rx_bytes")),
        net_tx_bytes=number(net.get("tx_bytes")),
        load1=number(frame.get("load1")),
        agent_cpu_s=number(cost.get("cpu_s")),
        agent_rss_mib=number(cost.get("rss_mib")),
        notes=_texts(frame.get("notes")),
    )


def _gpus(frame: dict[str, Any]) -> tuple[tuple[Gpu, ...] | None, str | None]:
    error = text(frame.get("gpu_error"))
    if not isinstance(frame.get("gpus"), list):
        return None, error or "The agent sent no reading of the GPUs."
    age = number(frame.get("gpus_age_s"))
    if age is not None and age > GPU_AGE_LIMIT_S:
        return None, error or f"NVML last answered {age:.0f} s ago."
    return _each(_GPU, frame["gpus"]), error


def _pid_start(value: object) -> tuple[int, int] | None:
    match listed(value):
        case [int() as pid, int() as start]:
            return pid, start
        case _:
            return None


def _texts(value: object) -> tuple[str, ...]:
    return tuple(clean(item) for item in listed(value) if isinstance(item, str))


def _integers(value: object) -> tuple[int, ...]:
    return tuple(item for item in map(integer, listed(value)) if item is not None)


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _percent(value: object) -> float | None:
    """A percentage; drivers give blank sentinels such as 2147483632 or 4294967295 for "no reading"."""
    share = number(value)
    return share if share is not None and 0 <= share <= 100 else None


def _env(value: object) -> Mapping[str, str]:
    return {clean(name): clean(item) for name, item in mapped(value).items() if isinstance(item, str)}


def _gpu_processes(value: object) -> tuple[GpuProcess, ...] | None:
    if not isinstance(value, list):
        return None
    pairs = ([*listed(item), None, None] for item in listed(cast("list[Any]", value)))
    return tuple(GpuProcess(pid, number(used)) for pid, used, *_ in pairs if isinstance(pid, int))


def _children(value: object) -> tuple[ChildGroup, ...]:
    triples = ([*listed(item), None, None, None] for item in listed(value))
    return tuple(
        ChildGroup(clean(comm), n, number(cpu_s))
        for comm, n, cpu_s, *_ in triples
        if isinstance(comm, str) and isinstance(n, int)
    )


_BY_TYPE: dict[str, Decode] = {
    "int": integer,
    "int | None": integer,
    "float | None": number,
    "str": text,
    "str | None": text,
    "bool": _flag,
    "tuple[str, ...]": _texts,
    "tuple[int, ...]": _integers,
    "tuple[GpuProcess, ...] | None": _gpu_processes,
    "tuple[ChildGroup, ...]": _children,
    "Mapping[str, str]": _env,
}


class _Shape:
    """Decodes mappings to one dataclass by the types of its fields; a key that is missing or wrong takes the field's
    default, and a mapping without a required key is no such thing at all."""

    def __init__(self, kind: type[Any], **special: Decode) -> None:
        self._kind = kind
        self._fields = [(f.name, special.get(f.name) or _BY_TYPE[str(f.type)]) for f in fields(kind)]
        self._required = [f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]

    def __call__(self, value: object) -> Any:
        source = mapped(value)
        known = {
            name: item
            for name, decode in self._fields
            if (raw := source.get(name)) is not None and (item := decode(raw)) is not None
        }
        return self._kind(**known) if all(name in known for name in self._required) else None


def _each(shape: _Shape, value: object) -> tuple[Any, ...]:
    return tuple(item for entry in listed(value) if (item := shape(entry)) is not None)


_GPU = _Shape(Gpu, util_pct=_percent, mem_util_pct=_percent)
_PROC = _Shape(Proc)
_IDENTITY = _Shape(Identity)
_HELLO = _Shape(Hello)
