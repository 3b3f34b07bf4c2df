"""Time-outs of the launch itself that will end a wait, from its arguments, environment and version where known.

Sources: torch 2.9.1 ``ProcessGroupNCCL`` (600 s a collective, 1800 s up to 2.1 and for gloo) and TCPStore; SGLang
0.5.23 ``model_runner_components/load_model_utils.py`` (480 s after rank 0 has loaded; 300 s before 0.5.6),
``distributed/bootstrap.py`` (``--dist-timeout``), ``managers`` (``SGLANG_WARMUP_TIMEOUT`` 600 s, ``--watchdog-timeout``
300 s); vLLM 0.33 ``config/parallel.py`` (``--distributed-timeout-seconds``), Ray placement ``PG_WAIT_TIMEOUT`` 1800 s,
``VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS`` 300 s; Megatron-LM ``--distributed-timeout-minutes`` 10; DeepSpeed
``DEEPSPEED_TIMEOUT`` 30 minutes before 0.10, 10 since; TGI's process group 120 s; LMDeploy's is a century.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tui.diagnose.observe import Scene
from tui.model import Deadline

_VERSION = re.compile(
    r"(?:vLLM API server version|Initializing an? (?:V\d+ )?LLM engine \(v|sglang(?:==|[ -]v?)|"
    r"DeepSpeed info: version=)\s*v?(\d+\.\d+(?:\.\d+)?)"
)


class Settings:
    """What a launch was started with, read from command lines, environments and the head of its logs."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        titles = [member.title for member in scene.launch.members[:64]]
        self._words = " ".join([scene.launch.command, *dict.fromkeys(titles)])

    def option(self, *names: str) -> float | None:
        """The number after one of the options, ``_`` for ``-``; Megatron prints its arguments into the log, too."""
        for name in names:
            wanted = re.escape(name).replace(r"\-", "[-_]")
            found = re.search(rf"--{wanted}[ =](\d+(?:\.\d+)?)", self._words)
            if found is None:
                printed = rf"^\s*{wanted} \.{{2,}} (\d+(?:\.\d+)?)$"
                head = (re.search(printed, line) for log in self._scene.logs for line in log.head)
                found = next((match for match in head if match is not None), None)
            if found is not None:
                return float(found[1])
        return None

    def env(self, name: str) -> float | None:
        """A variable of any of the launch's processes, as a number."""
        for member in self._scene.launch.members:
            host = self._scene.history.host(member.host)
            identity = host.identities.get((member.pid, member.start_ticks)) if host is not None else None
            value = identity.env.get(name) if identity is not None else None
            if value is not None and re.fullmatch(r"\d+(?:\.\d+)?", value):
                return float(value)
        return None

    @property
    def version(self) -> tuple[int, ...] | None:
        """The framework's version, as its own log gives it."""
        for log in self._scene.logs:
            for line in log.head:
                if (found := _VERSION.search(line)) is not None:
                    return tuple(int(part) for part in found[1].split("."))
        return None


@dataclass(frozen=True, slots=True)
class Limit:
    """A time-out: what it ends, in which phases, and how long it is as this launch was started (``None``: default)."""

    what: str
    phases: frozenset[str]
    frameworks: frozenset[str]
    default_s: Callable[[Settings], float]
    set_s: Callable[[Settings], float | None]
    begun: Callable[[Scene], bool] = lambda scene: True

    def concerns(self, scene: Scene) -> bool:
        return (scene.framework or "") in self.frameworks and scene.phase in self.phases and self.begun(scene)


def _rank_0_has_loaded(scene: Scene) -> bool:
    """SGLang's barrier is enforced by rank 0, from when it came."""
    roll = scene.run.behind()
    return roll is not None and 0 in roll[0].ranks


def _minutes(value: float | None) -> float | None:
    return None if value is None else 60.0 * value


_COLLECTIVE = frozenset({"dist_init", "data_index", "training_step", "checkpoint_save"})

LIMITS: tuple[Limit, ...] = (
    Limit(
        "torch's rendezvous and collectives give up",
        _COLLECTIVE,
        frozenset({"megatron"}),
        lambda s: 600.0,
        lambda s: _minutes(s.option("distributed-timeout-minutes")),
    ),
    Limit(
        "torch's rendezvous and collectives give up",
        _COLLECTIVE,
        frozenset({"deepspeed"}),
        lambda s: 600.0,
        lambda s: _minutes(s.env("DEEPSPEED_TIMEOUT")),
    ),
    Limit(
        "torch's rendezvous and group set-up give up",
        frozenset({"dist_init"}),
        frozenset({"sglang"}),
        lambda s: 600.0,
        lambda s: s.option("dist-timeout"),
    ),
    Limit(
        "torch's rendezvous and group set-up give up",
        frozenset({"dist_init"}),
        frozenset({"vllm"}),
        lambda s: 600.0,
        lambda s: s.option("distributed-timeout-seconds"),
    ),
    Limit(
        "torch's collectives give up",
        _COLLECTIVE,
        frozenset({"", "torchrun", "hf", "llamafactory"}),
        lambda s: 600.0,
        lambda s: s.option("ddp-timeout"),
    ),
    Limit(
        "the process group gives up",
        frozenset({"dist_init"}),
        frozenset({"tgi"}),
        lambda s: 120.0,
        lambda s: None,
    ),
    Limit(
        "SGLang's barrier after loading gives up, once rank 0 has loaded",
        frozenset({"post_load"}),
        frozenset({"sglang"}),
        lambda s: 300.0 if s.version is not None and s.version < (0, 5, 6) else 480.0,
        lambda s: None,
        _rank_0_has_loaded,
    ),
    Limit(
        "SGLang's warm-up request gives up",
        frozenset({"warmup"}),
        frozenset({"sglang"}),
        lambda s: 600.0,
        lambda s: s.env("SGLANG_WARMUP_TIMEOUT"),
    ),
    Limit(
        "SGLang's watchdog ends the server, at the latest",
        frozenset({"serving", "warmup"}),
        frozenset({"sglang"}),
        lambda s: 1.5 * 300.0,
        lambda s: None if (value := s.option("watchdog-timeout")) is None else 1.5 * value,
    ),
    Limit(
        "vLLM's step gives up",
        frozenset({"serving"}),
        frozenset({"vllm"}),
        lambda s: 300.0,
        lambda s: s.env("VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS"),
    ),
    Limit(
        "the wait for a placement group gives up",
        frozenset({"wait_resources"}),
        frozenset({"vllm", "lmdeploy", "ray"}),
        lambda s: 1800.0,
        lambda s: None,
    ),
)


_NOTHING_ELSE = frozenset({"sglang", "vllm", "tensorrt-llm", "lmdeploy", "llama.cpp"})


def endless(scene: Scene) -> bool:
    """Whether nothing built into the framework ends a start-up that hangs in this phase."""
    known = (scene.framework or "") in _NOTHING_ELSE and not scene.run.ready and scene.phase != "unknown"
    return known and not any(limit.concerns(scene) for limit in LIMITS)


def deadlines(scene: Scene, *, stuck: bool) -> tuple[Deadline, ...]:
    """The next built-in deadlines, soonest first; each counts from the log's last step.

    ``stuck``: whether a request of a ready server does not end; an idle one has no deadline.
    """
    since = scene.progress_t if scene.progress_t is not None else scene.news_t
    if since is None or (scene.run.ready and not stuck):
        return ()
    return tuple(sorted(_left(scene, scene.now - since), key=lambda deadline: deadline.in_s))


def _left(scene: Scene, passed: float) -> Iterator[Deadline]:
    settings: Settings | None = None
    for limit in LIMITS:
        if limit.concerns(scene):
            settings = settings or Settings(scene)
            own = limit.set_s(settings)
            after = own if own is not None else limit.default_s(settings)
            if after > passed:
                yield Deadline(limit.what, after - passed, default=own is None)
