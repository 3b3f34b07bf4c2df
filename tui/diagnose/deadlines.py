"""Time-outs of the launch itself that will end a wait, from the frameworks' sources.

Sources: SGLang 0.5.23 model_runner_components/load_model_utils.py (480 s barrier after rank 0 has loaded; 300 s before
0.5.6), managers/server_args (warm-up 600 s); torch 2.9.1 (600 s for NCCL groups and the rendezvous); Ray's placement
group wait in vLLM (1800 s).
"""

from __future__ import annotations

from tui.diagnose.observe import Scene
from tui.model import Deadline

_NCCL_S = 600.0
_BARRIER_S = 480.0
_WARMUP_S = 600.0


def deadlines(scene: Scene) -> tuple[Deadline, ...]:
    """The next built-in deadlines, soonest first; each counts from what the log said last."""
    since = scene.progress_t if scene.progress_t is not None else scene.news_t
    if since is None or scene.run.ready:
        return ()
    found: list[tuple[str, float]] = []
    if scene.phase == "dist_init":
        found.append(("torch's rendezvous and NCCL group time-out", _NCCL_S))
    elif scene.phase == "post_load" and scene.framework == "sglang":
        found.append(("SGLang's barrier after loading, once rank 0 has loaded", _BARRIER_S))
    elif scene.phase == "warmup" and scene.framework == "sglang":
        found.append(("SGLang's warm-up request", _WARMUP_S))
    elif scene.phase in ("data_index", "training_step", "checkpoint_save"):
        found.append(("torch's collective time-out", _NCCL_S))
    left = [Deadline(what, after - (scene.now - since), True) for what, after in found]
    return tuple(sorted((d for d in left if d.in_s > 0), key=lambda d: d.in_s))
