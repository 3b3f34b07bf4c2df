"""Hung silences: where each explanation applies, how patient it is, and what would settle it. Of those that nothing
refutes, the first names the cause: the most particular ones stand first."""

from __future__ import annotations

from tui.diagnose.hypotheses import Hypothesis, blocked, ranks
from tui.diagnose.phases import BEFORE_GPU

_NO_WORK_OF_OURS = frozenset({"serving", "shutdown"})


HUNG_HYPOTHESES: tuple[Hypothesis, ...] = (
    Hypothesis("stopped", blocked.stopped, decides=lambda scene: True, probe="snapshot", wants=("holdups",)),
    Hypothesis(
        "gpu_fault",
        blocked.gpu_fault,
        decides=blocked.fresh_fault,
        probe="doctor",
        blinds=frozenset({"gpus"}),
        wants=("kernel_log",),
    ),
    Hypothesis(
        "stale_lock",
        blocked.stale_lock,
        not_phases=_NO_WORK_OF_OURS,
        decides=blocked.surely_polled,
        probe="doctor",
        wants=("locks",),
    ),
    Hypothesis("shm_full", blocked.shm_full, decides=lambda scene: True, probe="doctor", wants=("surroundings",)),
    Hypothesis(
        "p2p_iommu",
        ranks.p2p_iommu,
        not_phases=BEFORE_GPU - {"unknown"},
        patience=2.0,
        particular=True,
        wants=("kernel_log",),
    ),
    Hypothesis(
        "cuda_init_blocked",
        blocked.cuda_init,
        frozenset({"import", "spawn", "unknown", "dist_init"}),
        patience=2.2,
        particular=True,
        probe="doctor",
        blinds=frozenset({"gpus"}),
        wants=("kernel_log",),
    ),
    Hypothesis(
        "pipe_full",
        blocked.pipe_full,
        patience=1.5,
        particular=True,
        probe="snapshot",
        decides=blocked.reader_frozen,
        wants=("holdups",),
    ),
    Hypothesis(
        "resources_missing", ranks.resources_missing, frozenset({"wait_resources"}), patience=5.0, probe="doctor"
    ),
    Hypothesis(
        "rank_missing",
        ranks.rank_missing,
        frozenset({"import", "spawn", "dist_init", "wait_resources", "unknown"}),
        patience=8.0,
        probe="snapshot",
        wants=("sockets",),
    ),
    Hypothesis("io_stall", blocked.io_stall, patience=1.8, wants=("kernel_log",)),
    Hypothesis(
        "download_stall",
        blocked.download_stall,
        frozenset({"import", "spawn", "dist_init", "weight_download", "weight_load", "draft_load"}),
        patience=3.0,  # a client that gets nothing tries again by itself, after a minute or two
        particular=True,
        wants=("sockets",),
    ),
    Hypothesis(
        "lock_held",
        blocked.lock_held,
        not_phases=_NO_WORK_OF_OURS,
        patience=2.0,
        particular=True,
        probe="doctor",
        decides=blocked.lock_frozen,
        wants=("locks",),
    ),
    Hypothesis("comm_init", ranks.comm_init, frozenset({"dist_init"}), patience=3.0, wants=("sockets", "infiniband")),
    Hypothesis("collective_mismatch", ranks.collective_mismatch, not_phases=BEFORE_GPU | {"dist_init"}, patience=1.5),
    Hypothesis("graph_capture_deadlock", ranks.spin, frozenset({"graph_capture"}), patience=1.5),
    Hypothesis(
        "collective_spin",
        ranks.spin,
        not_phases=BEFORE_GPU - {"unknown"} | {"shutdown", "graph_capture", "dist_init"},
        patience=1.5,
        wants=("infiniband", "kernel_log"),
    ),
    Hypothesis("gil_deadlock", ranks.gil_deadlock, not_phases=_NO_WORK_OF_OURS, patience=1.5),
    Hypothesis(
        "rank_wait",
        ranks.rank_wait,
        not_phases=_NO_WORK_OF_OURS | {"dist_init", "weight_download", "wait_resources"},
    ),
    Hypothesis("rank_wait", ranks.request_waits, frozenset({"serving"})),
    Hypothesis(
        "rank_wait",
        ranks.cores_wait,
        not_phases=_NO_WORK_OF_OURS | {"dist_init"},
        patience=1.5,
        title="the ranks burn a core each in a wait for each other",
    ),
    Hypothesis(
        "thread_deadlock",
        ranks.thread_deadlock,
        not_phases=_NO_WORK_OF_OURS | {"wait_resources", "weight_download"},
        patience=1.5,
    ),
    Hypothesis(
        "thread_deadlock",
        ranks.core_waits,
        not_phases=_NO_WORK_OF_OURS | {"dist_init"},
        patience=1.5,
        title="a thread burns a core in a wait for another of its process",
    ),
)
