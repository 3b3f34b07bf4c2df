"""Discovery over hand-made process lists: every framework and version whose titles are known, and hostile ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.collect.payload import local_command
from tui.model import Gpu, GpuProcess, Identity, Launch, Sample
from tui.session.discover import Discovery

PYTHON = "/usr/bin/python3"


def proc(
    pid: int,
    ppid: int,
    command: str | Iterable[str],
    *,
    env: Mapping[str, str] | None = None,
    start: int | None = None,
    log: str = "",
    **more: object,
) -> Identity:
    words = tuple(command.split()) if isinstance(command, str) else tuple(command)
    exe = more.pop("exe", PYTHON if "python" in words[0] or "::" in words[0] else "")
    start = pid if start is None else start
    more = {"stdout": log, "stderr": log, **more}
    return Identity(pid, start, ppid, cmdline=words, exe=exe, env=env or {}, **more)  # type: ignore[arg-type]


class Host:
    """A host that sends samples to a discovery."""

    def __init__(self, discovery: Discovery | None = None, name: str = "node1") -> None:
        self.discovery = discovery or Discovery()
        self.name = name
        self.mono = 1000.0

    def see(
        self,
        *new: Identity,
        gone: Iterable[Identity] = (),
        gpu_pids: Iterable[int] | None = None,
        boot: str = "boot",
    ) -> bool:
        self.mono += 1.0
        gpus = None if gpu_pids is None else tuple(Gpu(n, processes=(GpuProcess(p),)) for n, p in enumerate(gpu_pids))
        keys = tuple((identity.pid, identity.start_ticks) for identity in gone)
        return self.discovery.feed(
            Sample(self.name, self.mono, self.mono, 1.7e9 + self.mono, boot, gpus=gpus, new=new, gone=keys)
        )

    def only(self) -> Launch:
        (launch,) = self.discovery.launches()
        return launch


def ranks(launch: Launch) -> dict[int | None, int]:
    """Rank to pid."""
    return {member.rank: member.pid for member in launch.ranks()}


def roles(launch: Launch) -> dict[int, str]:
    return {member.pid: member.role for member in launch.members}


def sglang(first: int = 100, tp: int = 8, arguments: str = "", parent: int = 1, log: str = "") -> list[Identity]:
    """A SGLang server of 0.4.6 and later: the main process, its schedulers, the detokenizer, the resource tracker."""
    command = f"python -m sglang.launch_server --model-path /models/DeepSeek-V3 --tp-size {tp} {arguments}"
    tracker = [PYTHON, "-c", "from multiprocessing.resource_tracker import main;main(7)"]
    return [
        proc(first, parent, command, log=log),
        proc(first + 90, first, tracker, log=log),
        *(proc(first + 1 + n, first, [f"sglang::scheduler_TP{n}", "", ""], log=log) for n in range(tp)),
        proc(first + 91, first, "sglang::detokenizer", log=log),
    ]


# --------------------------------------------------------------------------------------------------------------- SGLang


def test_sglang_server_is_one_launch_with_ranks_from_titles() -> None:
    host = Host()
    assert host.see(*sglang(log="/var/log/sglang.log", arguments="--port 31000"))
    launch = host.only()
    assert launch.framework == "sglang"
    assert launch.name == "sglang DeepSeek-V3"
    assert ranks(launch) == {n: 101 + n for n in range(8)}
    assert launch.world_size == 8
    assert launch.ports[0] == 31000
    assert [(log.path, log.found) for log in launch.logs] == [("/var/log/sglang.log", "stderr")]
    assert roles(launch)[100] == "driver"
    assert roles(launch)[191] == "detokenizer"
    assert 190 not in roles(launch), "the resource tracker is no part of the work"


@pytest.mark.parametrize(
    "command",
    [
        "python3 -u -m sglang.launch_server --model-path m --tp 2",
        "/opt/venv/bin/python3.12 /opt/venv/bin/sglang serve --model-path m --tp=2",
        "python3 /src/sglang/python/sglang/launch_server.py --model-path m --tensor-parallel-size 2",
        "python3 -X faulthandler -m sglang.launch_server --model m --tp_size 2",
    ],
)
def test_sglang_is_known_by_any_of_its_commands(command: str) -> None:
    host = Host()
    host.see(proc(10, 1, command))
    launch = host.only()
    assert (launch.framework, launch.world_size, launch.name) == ("sglang", 2, "sglang m")


def test_sglang_children_before_their_title_are_workers_and_become_ranks() -> None:
    """While a child imports torch it is ``python -c from multiprocessing.spawn ...``; then it is announced anew."""
    host = Host()
    spawn = [PYTHON, "-c", "from multiprocessing.spawn import spawn_main; spawn_main(3)", "--multiprocessing-fork"]
    host.see(sglang(tp=2)[0], proc(101, 100, spawn), proc(102, 100, spawn))
    assert roles(host.only()) == {100: "driver", 101: "worker", 102: "worker"}
    host.see(proc(101, 100, "sglang::scheduler_TP0"), proc(102, 100, "sglang::scheduler_TP1"))
    assert ranks(host.only()) == {0: 101, 1: 102}


def test_sglang_of_one_gpu_has_rank_0_without_a_number_in_its_title() -> None:
    host = Host()
    host.see(proc(1, 0, "python -m sglang.launch_server --model-path m"), proc(2, 1, "sglang::scheduler"))
    assert ranks(host.only()) == {0: 2}


def test_sglang_up_to_0_4_3_ranks_by_order_of_start() -> None:
    """All schedulers have the same title there; the order of their start is the order of their ranks."""
    host = Host()
    schedulers = [proc(50 - n, 5, "sglang::scheduler", start=1000 + n) for n in range(4)]
    host.see(proc(5, 1, "python -m sglang.launch_server --model-path m --tp 4"), *schedulers[:3])
    assert ranks(host.only()) == {}, "while one is missing, an order says nothing"
    host.see(schedulers[3])
    assert ranks(host.only()) == {0: 50, 1: 49, 2: 48, 3: 47}


def test_sglang_data_parallel_replicas_follow_each_other() -> None:
    host = Host()
    titles = [f"sglang::scheduler_DP{d}_PP{p}_TP{t}" for d in range(2) for p in range(2) for t in range(2)]
    host.see(
        proc(10, 1, "python -m sglang.launch_server --model-path m --tp 2 --pp-size 2 --dp-size 2"),
        proc(11, 10, "sglang::data_parallel_controller"),
        *(proc(20 + n, 11, title) for n, title in enumerate(titles)),
    )
    launch = host.only()
    assert ranks(launch) == {n: 20 + n for n in range(8)}
    assert launch.world_size == 8
    assert roles(launch)[11] == "data_parallel_controller"


def test_sglang_dp_attention_splits_the_tp_group() -> None:
    host = Host()
    host.see(
        proc(10, 1, "python -m sglang.launch_server --model-path m --tp 4 --dp 4 --enable-dp-attention"),
        *(proc(20 + n, 10, f"sglang::scheduler_DP{n}_ATTN_CP0_MOE_DP0_TP{n}_EP{n}") for n in range(4)),
    )
    assert ranks(host.only()) == {n: 20 + n for n in range(4)}
    assert host.only().world_size == 4


def test_sglang_engine_inside_a_script() -> None:
    """Offline engines have no server command: the Python that started the schedulers is the driver."""
    host = Host()
    host.see(
        proc(4, 1, "bash"),
        proc(5, 4, "python bench_offline.py --tp 2"),
        proc(6, 5, "sglang::scheduler_TP0"),
        proc(7, 5, "sglang::scheduler_TP1"),
    )
    launch = host.only()
    assert roles(launch) == {5: "driver", 6: "rank", 7: "rank"}
    assert launch.name == "sglang bench_offline.py"
    assert ranks(launch) == {0: 6, 1: 7}


def test_two_nodes_that_meet_at_one_address_are_one_launch() -> None:
    discovery = Discovery()
    for node in range(2):
        command = f"python -m sglang.launch_server --model-path m --tp 16 --nnodes 2 --node-rank {node}"
        main = proc(10, 1, f"{command} --dist-init-addr 10.0.0.1:5000")
        Host(discovery, f"node{node}").see(
            main, *(proc(20 + n, 10, f"sglang::scheduler_TP{8 * node + n}") for n in range(8))
        )
    (launch,) = discovery.launches()
    assert launch.hosts == ("node0", "node1")
    assert sorted(ranks(launch)) == list(range(16))
    assert launch.world_size == 16
    assert len(discovery.focus("node1")) == 9


def test_servers_of_one_node_on_two_hosts_are_two_launches() -> None:
    discovery = Discovery()
    Host(discovery, "a").see(*sglang())
    Host(discovery, "b").see(*sglang())
    assert sorted(launch.hosts for launch in discovery.launches()) == [("a",), ("b",)]
    assert len({launch.id for launch in discovery.launches()}) == 2


# ----------------------------------------------------------------------------------------------------------------- vLLM


def test_vllm_v1_with_workers() -> None:
    host = Host()
    host.see(
        proc(10, 1, "/usr/bin/python3 /usr/local/bin/vllm serve Qwen/Qwen3-32B -tp 4 --port 8001", log="/l"),
        proc(11, 10, "VLLM::EngineCore"),
        *(proc(20 + n, 11, f"VLLM::Worker_TP{n}") for n in range(4)),
    )
    launch = host.only()
    assert (launch.framework, launch.name, launch.world_size) == ("vllm", "vllm Qwen3-32B", 4)
    assert ranks(launch) == {n: 20 + n for n in range(4)}
    assert roles(launch)[11] == "engine_core"
    assert launch.ports == (8001,)


def test_vllm_of_one_gpu_the_engine_core_is_the_rank() -> None:
    host = Host()
    host.see(proc(10, 1, "python -m vllm.entrypoints.openai.api_server --model m"), proc(11, 10, "VLLM::EngineCore"))
    assert ranks(host.only()) == {0: 11}
    assert host.only().world_size == 1


def test_vllm_workers_that_wait_for_their_groups_get_ranks_by_order_of_start() -> None:
    """From 0.18 a worker is plain ``VLLM::Worker`` until its groups exist: the very phase in which it may hang."""
    host = Host()
    host.see(
        proc(10, 1, "vllm serve m --tensor-parallel-size 2 --pipeline-parallel-size 2", exe=PYTHON),
        proc(11, 10, "VLLM::EngineCore"),
        *(proc(20 + n, 11, "VLLM::Worker") for n in range(4)),
    )
    assert ranks(host.only()) == {n: 20 + n for n in range(4)}
    host.see(proc(22, 11, "VLLM::Worker_PP1_TP0"))
    assert ranks(host.only()) == {n: 20 + n for n in range(4)}, "the title says the same"


def test_vllm_data_parallel_engines() -> None:
    """Workers of a replica are counted from its engine core's number; API servers and the coordinator are no ranks."""
    host = Host()
    host.see(
        proc(10, 1, "vllm serve m -dp 2 -tp 2 --api-server-count 2"),
        proc(11, 10, "VLLM::DPCoordinator"),
        proc(12, 10, "VLLM::APIServer_0"),
        proc(13, 10, "VLLM::APIServer_1"),
        proc(14, 10, "VLLM::EngineCore_DP0"),
        proc(15, 10, "VLLM::EngineCore_DP1"),
        proc(20, 14, "VLLM::Worker_DP0_TP0_EP0"),
        proc(21, 14, "VLLM::Worker_DP0_TP1_EP1"),
        proc(22, 15, "VLLM::Worker_TP0"),
        proc(23, 15, "VLLM::Worker_TP1"),
    )
    launch = host.only()
    assert ranks(launch) == {0: 20, 1: 21, 2: 22, 3: 23}
    assert launch.world_size == 4
    assert roles(launch)[11] == "dp_coordinator"
    assert roles(launch)[12] == "api"


def test_vllm_with_a_name_prefix_of_its_own() -> None:
    """``VLLM_PROCESS_NAME_PREFIX`` replaces the first word of the title."""
    host = Host()
    host.see(proc(11, 1, "PROD::EngineCore_DP0"), proc(12, 11, "PROD::Worker_TP0"))
    assert host.only().framework == "vllm"


def test_vllm_before_titles_forked_workers_are_no_servers() -> None:
    """Up to 0.8.5 workers are forks with the server's own command line."""
    host = Host()
    command = "python -m vllm.entrypoints.openai.api_server --model m -tp 4"
    host.see(proc(10, 1, command), *(proc(20 + n, 10, command) for n in range(3)))
    assert roles(host.only()) == {10: "driver", 20: "worker", 21: "worker", 22: "worker"}
    assert host.only().world_size == 4


def test_sizes_in_a_configuration_file_are_unknown_not_one() -> None:
    host = Host()
    host.see(proc(10, 1, "vllm serve --config prod.yaml"))
    assert host.only().world_size is None


@pytest.mark.parametrize(
    "command",
    [
        "python /usr/local/bin/vllm bench serve --model m",
        "vim sglang/launch_server.py",
        "tail -f sglang.log vllm serve",
        "bash -c python -m sglang.launch_server --model-path m",
        "docker run image vllm serve m",
        "ssh node1 vllm serve m",
        "uv run vllm serve m",
        "grep VLLM::Worker_TP0",
        "python -m http.server",
        "-bash",
        "py-spy dump --pid 4",
        "/home/u/.venv/bin/python /home/u/.venv/bin/gputop-hang watch vllm serve",
        "python -m tui demo",
    ],
)
def test_what_only_names_a_launch_is_none(command: str) -> None:
    host = Host()
    host.see(proc(10, 1, command, env={"RANK": "0", "WORLD_SIZE": "8"} if "python" not in command else {}))
    assert host.discovery.launches() == ()


def test_our_own_agent_is_none_whatever_it_inherits() -> None:
    """The agent may be started from a shell that is a rank's."""
    host = Host()
    host.see(proc(10, 1, local_command(), env=torch_env(0)), proc(11, 10, local_command(), env=torch_env(0)))
    assert host.discovery.launches() == ()


def test_a_wrapper_is_passed_over() -> None:
    host = Host()
    host.see(proc(9, 1, "uv run vllm serve m"), proc(10, 9, "python /v/bin/vllm serve m"))
    assert roles(host.only()) == {10: "driver"}


# ------------------------------------------------------------------------------------------- torchrun, MPI, Slurm, RANK


def torch_env(rank: int, world: int = 8, port: int = 29500, address: str = "10.0.0.1") -> dict[str, str]:
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank % 8),
        "WORLD_SIZE": str(world),
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
    }


def torchrun(first: int = 100, port: int = 29500, ranks: int = 8) -> list[Identity]:
    return [
        proc(first, 1, "/usr/bin/python3 /usr/bin/torchrun --nproc-per-node 8 train.py"),
        *(proc(first + 1 + n, first, "python3 -u train.py", env=torch_env(n, port=port)) for n in range(ranks)),
    ]


def test_torchrun_ranks_from_the_environment_without_dataloader_workers() -> None:
    """DataLoader and compile workers carry their rank's RANK and command line; a rank's parent has none or another."""
    host = Host()
    workers = [proc(300 + n, 101 + n, "python3 -u train.py", env=torch_env(n)) for n in range(8)]
    grandchild = proc(400, 303, "python3 -c pass", env=torch_env(3))
    host.see(*torchrun(), *workers, grandchild)
    launch = host.only()
    assert ranks(launch) == {n: 101 + n for n in range(8)}
    assert (launch.framework, launch.name, launch.world_size) == ("torchrun", "torchrun train.py", 8)
    assert roles(launch)[100] == "launcher"
    assert len(launch.members) == 9


def test_a_torchrun_whose_ranks_are_not_there_yet_is_a_launch() -> None:
    host = Host()
    host.see(proc(100, 1, "python -m torch.distributed.run --nnodes=2 --nproc_per_node=8 train.py"))
    assert host.only().world_size == 16


def test_the_rank_behind_a_shell_is_the_python_process() -> None:
    host = Host()
    host.see(
        proc(1, 0, "torchrun --nproc-per-node 1 --no-python run.sh", exe=PYTHON),
        proc(2, 1, "bash run.sh", env=torch_env(0)),
        proc(3, 2, "python train.py", env=torch_env(0)),
    )
    assert ranks(host.only()) == {0: 3}


def test_a_pod_with_a_rank_of_its_own_is_no_rank() -> None:
    """Kubernetes training jobs set RANK and WORLD_SIZE on the pod; torchrun inside sets them anew for each process."""
    host = Host()
    pod = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "job-0", "MASTER_PORT": "23456"}
    host.see(
        proc(1, 0, "torchrun --nproc-per-node 2 train.py", exe=PYTHON, env=pod),
        *(proc(2 + n, 1, "python train.py", env=torch_env(n, 2)) for n in range(2)),
    )
    assert ranks(host.only()) == {0: 2, 1: 3}
    assert host.only().world_size == 2


def test_a_python_spawner_with_a_rank_of_its_own_is_the_launcher() -> None:
    host = Host()
    host.see(
        proc(1, 0, "python spawn.py", env={"SLURM_PROCID": "1", "SLURM_NTASKS": "2"}),
        *(proc(10 + n, 1, "python train.py", env=torch_env(8 + n, 16)) for n in range(8)),
    )
    launch = host.only()
    assert ranks(launch) == {8 + n: 10 + n for n in range(8)}
    assert roles(launch)[1] == "launcher"


def test_a_server_in_a_pod_with_rank_takes_its_ranks_from_titles() -> None:
    host = Host()
    pod = {"RANK": "1", "WORLD_SIZE": "2"}
    spawned = [PYTHON, "-c", "from multiprocessing.spawn import spawn_main"]
    host.see(proc(1, 0, "python -m sglang.launch_server --model-path m --tp 2", env=pod), proc(2, 1, spawned, env=pod))
    assert ranks(host.only()) == {}
    assert host.only().world_size == 2


def test_ranks_started_by_a_shell_loop_meet_at_their_master() -> None:
    host = Host()
    loop = [proc(10 + n, 5, "python train.py", env=torch_env(n, 4, address="127.0.0.1")) for n in range(4)]
    host.see(proc(5, 1, "bash loop.sh"), *loop)
    assert ranks(host.only()) == {n: 10 + n for n in range(4)}
    host.see(gone=[loop[2]])
    assert len(host.only().members) == 4, "a rank that ended stays listed beside its living peers"
    assert len(host.discovery.focus("node1")) == 3


def test_torchrun_on_two_hosts_is_one_launch() -> None:
    discovery = Discovery()
    for node in range(2):
        Host(discovery, f"n{node}").see(
            proc(1, 0, "torchrun --nnodes 2 --nproc-per-node 8 train.py", exe=PYTHON),
            *(proc(2 + n, 1, "python train.py", env=torch_env(8 * node + n, 16)) for n in range(8)),
        )
    (launch,) = discovery.launches()
    assert sorted(ranks(launch)) == list(range(16))
    assert launch.hosts == ("n0", "n1")


def test_local_masters_on_two_hosts_do_not_meet() -> None:
    discovery = Discovery()
    for name in ("a", "b"):
        Host(discovery, name).see(proc(2, 1, "python t.py", env=torch_env(0, 1, address="localhost")))
    assert len(discovery.launches()) == 2


def test_mpi_ranks_and_the_proxy_that_owns_them() -> None:
    """Spawned MPI workers differ in their environment alone (TensorRT-LLM); the Python above them is no rank."""
    host = Host()
    env = {"OMPI_COMM_WORLD_SIZE": "2", "PMIX_NAMESPACE": "prterun-n1-77@2"}
    host.see(
        proc(1, 0, "python /usr/local/bin/trtllm-serve m --tp_size 2"),
        *(
            proc(2 + n, 1, "python3 -m mpi4py.futures.server", env={**env, "OMPI_COMM_WORLD_RANK": str(n)})
            for n in range(2)
        ),
        gpu_pids=[1, 2, 3],
    )
    assert ranks(host.only()) == {0: 2, 1: 3}
    assert roles(host.only())[1] == "driver"


def test_mpirun_alone_is_no_launch() -> None:
    host = Host()
    host.see(proc(1, 0, "mpirun -n 4 ./solver"))
    assert host.discovery.launches() == ()


@pytest.mark.parametrize(
    ("env", "found"),
    [
        ({"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "9", "SLURM_STEP_ID": "0"}, {3: 7}),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, {}),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, {1: 7}),
        ({"PMIX_RANK": "5", "SLURM_NTASKS": "8"}, {5: 7}),
        ({"RANK": "2"}, {}),
        ({"RANK": "-1", "WORLD_SIZE": "8"}, {}),
        ({"RANK": "٣", "WORLD_SIZE": "8"}, {}),
        ({"RANK": "9" * 5000, "WORLD_SIZE": "8"}, {}),
        ({"RANK": "6", "WORLD_SIZE": "8", "SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, {6: 7}),
    ],
)
def test_rank_variables(env: dict[str, str], found: dict[int, int]) -> None:
    host = Host()
    host.see(proc(7, 1, "python train.py", env=env))
    launches = host.discovery.launches()
    assert (ranks(launches[0]) if launches else {}) == found


# --------------------------------------------------------------------------------------------------------- unknown ones


def test_an_unknown_program_on_gpus_is_a_launch_by_nvml_alone() -> None:
    host = Host()
    host.see(
        proc(4, 1, "bash"),
        proc(5, 4, "python jax_train.py"),
        *(proc(6 + n, 5, [PYTHON, "-c", "from multiprocessing.spawn import spawn_main"]) for n in range(4)),
        gpu_pids=[6, 7, 8, 9],
    )
    launch = host.only()
    assert launch.framework is None
    assert launch.name == "jax_train.py"
    assert roles(launch) == {5: "driver", 6: "worker", 7: "worker", 8: "worker", 9: "worker"}


def test_gpu_processes_that_come_later_or_are_not_ours_to_judge() -> None:
    host = Host()
    host.see(proc(5, 1, "./llama-server -m x"), proc(6, 1, "Xorg :0"), proc(7, 1, "nvidia-cuda-mps-server"))
    assert host.discovery.launches() == ()
    assert host.see(gpu_pids=[5, 6, 7, 99])
    assert host.only().name == "llama-server"
    assert not host.see(gpu_pids=[5, 6, 7, 99]), "nothing new, nothing changed"


# ---------------------------------------------------------------------------------------------------------- life of one


def test_a_launch_that_ended_stays_and_the_same_command_again_is_its_next_attempt() -> None:
    host = Host()
    first, second = sglang(100), sglang(1000)
    host.see(*first)
    before = host.only()
    assert before.attempt == 1
    assert host.see(gone=first) is False, "the members are the same; that they ended is in their samples"
    assert host.only() == before
    assert host.discovery.focus("node1") == []
    host.see(*second)
    after = host.only()
    assert (after.id, after.attempt) == (before.id, 2)
    assert min(member.pid for member in after.members) == 1000
    assert after.started_wall == pytest.approx(1.7e9 + 10.0)


def test_the_same_command_beside_a_running_one_is_another_launch() -> None:
    host = Host()
    host.see(*sglang(100))
    host.see(*sglang(1000))
    one, two = host.discovery.launches()
    assert one.id != two.id
    assert (one.attempt, two.attempt) == (1, 1)


def test_two_of_one_command_at_first_sight_are_two_launches() -> None:
    host = Host()
    host.see(*sglang(100), *sglang(1000))
    assert [len(launch.ranks()) for launch in host.discovery.launches()] == [8, 8]
    host.see(gone=sglang(100))
    host.see(*sglang(2000))
    assert sorted(launch.attempt for launch in host.discovery.launches()) == [1, 2]


def test_ranks_that_the_launcher_starts_anew_are_its_next_attempt() -> None:
    host = Host()
    first = torchrun()
    host.see(*first)
    host.see(gone=first[1:])
    assert len(host.only().ranks()) == 8, "ended ranks stay listed until others stand in their place"
    host.see(*(proc(201 + n, 100, "python3 -u train.py", env=torch_env(n)) for n in range(3)))
    launch = host.only()
    assert (launch.attempt, ranks(launch)) == (2, {0: 201, 1: 202, 2: 203})
    host.see(*(proc(201 + n, 100, "python3 -u train.py", env=torch_env(n)) for n in range(3, 8)))
    assert (host.only().attempt, len(host.only().ranks())) == (2, 8)


def test_ranks_stay_with_their_launch_when_the_driver_dies() -> None:
    host = Host()
    server = sglang()
    host.see(*server)
    before = host.only()
    host.see(gone=server[:1])
    assert host.only() == before
    assert len(host.discovery.focus("node1")) == 9


def test_a_zombie_stays_what_it_was() -> None:
    """A process that has ended but was not waited for reads as one without command line: nothing is renamed by it."""
    host = Host()
    host.see(*sglang(log="/data/serve.log"))
    before = host.only()
    host.see(Identity(100, 100, 1, comm="python"), Identity(103, 103, 100, comm="python"))
    assert host.only() == before


def _named(processes: list[Identity]) -> list[Identity]:
    return [replace(process, comm="sglang::schedul") for process in processes]


def test_a_rank_that_was_a_zombie_before_anybody_looked_is_the_one_that_is_missing() -> None:
    """Its number is known only where it is the only one missing, and where nothing else bears the ranks' name."""
    host = Host()
    server = _named(sglang(tp=4))
    zombie = Identity(103, 103, 100, comm="sglang::schedul")
    alive = [process for process in server if process.pid != 103]
    host.see(*alive, zombie, Identity(195, 195, 100, comm="nvidia-smi"))
    assert ranks(host.only()) == {0: 101, 1: 102, 2: 103, 3: 104}
    assert 195 not in roles(host.only())
    for others in ([Identity(194, 194, 100, comm="sglang::schedul")], [replace(zombie, comm="python")]):
        host = Host()
        host.see(*alive, *([zombie] if others[0].pid == 194 else []), *others)
        assert ranks(host.only()) == {0: 101, 1: 102, 3: 104}


def test_what_a_rank_forks_carries_its_title_and_is_no_rank() -> None:
    host = Host()
    host.see(*sglang(tp=2), proc(300, 102, ["sglang::scheduler_TP1", "", ""]))
    assert ranks(host.only()) == {0: 101, 1: 102}
    assert 300 not in roles(host.only())


def test_a_new_agent_announces_everything_and_what_is_missing_has_ended() -> None:
    host = Host()
    server = sglang()
    host.see(*server)
    host.see(*server[:-2])
    assert (108, 108) not in host.discovery.focus("node1")
    assert (107, 107) in host.discovery.focus("node1")


def test_a_reboot_ends_everything() -> None:
    host = Host()
    host.see(*sglang())
    host.see(proc(1, 0, "init"), boot="another")
    assert host.discovery.focus("node1") == []
    assert len(host.only().ranks()) == 8


def test_a_reused_pid_is_no_parent() -> None:
    """The shell that started a rank ended; its pid went to a server that started after the rank."""
    host = Host()
    host.see(proc(20, 10, "python t.py", env=torch_env(0), start=500))
    host.see(proc(10, 1, "python -m sglang.launch_server --model-path m", start=900))
    assert len(host.discovery.launches()) == 2


def test_ids_are_the_same_for_a_monitor_that_is_started_again() -> None:
    one, two = Host(), Host()
    one.see(*sglang(100), *torchrun(500))
    two.see(*torchrun(500), *sglang(100))
    assert {launch.id for launch in one.discovery.launches()} == {launch.id for launch in two.discovery.launches()}


def test_ended_launches_are_forgotten_in_the_end() -> None:
    host = Host()
    for n in range(40):
        launch = [proc(1000 + 10 * n, 1, f"python -m sglang.launch_server --model-path m{n}")]
        host.see(*launch)
        host.see(gone=launch)
    names = [launch.name for launch in host.discovery.launches()]
    assert len(names) == 32
    assert names[-1] == "sglang m39"


def test_compilers_that_come_and_go_change_nothing() -> None:
    host = Host()
    host.see(*torchrun())
    compiler = proc(900, 101, "/usr/lib/gcc/cc1plus -quiet k.cu", env=torch_env(0))
    assert host.see(compiler) is False
    assert host.see(gone=[compiler]) is False


# ----------------------------------------------------------------------------------------------------------------- logs


def test_the_best_log_is_what_most_ranks_have_as_standard_error() -> None:
    host = Host()
    host.see(
        proc(1, 0, "vllm serve m -tp 2", stdout="/o"),
        *(
            Identity(
                2 + n,
                9,
                1,
                cmdline=(f"VLLM::Worker_TP{n}",),
                stdout="/logs/out",
                stderr="/logs/err",
                pipe_files=("/t",),
            )
            for n in range(2)
        ),
    )
    found = [(log.path, log.found) for log in host.only().logs]
    assert found[0] == ("/logs/err", "stderr")
    assert ("/logs/out", "stdout") in found
    assert ("/t", "pipe reader") in found


def test_where_no_log_can_be_read_none_is_named() -> None:
    host = Host()
    for n, where in enumerate(["/dev/null", "/dev/pts/3", "pipe:[77]", "socket:[8]", "", "/proc/1/fd/2"]):
        host.see(proc(10 + n, 1, f"vllm serve m{n}", log=where))
    assert all(launch.logs == () for launch in host.discovery.launches())


def test_a_deleted_log_is_read_through_a_descriptor_that_holds_it() -> None:
    host = Host()
    host.see(proc(10, 1, "vllm serve m", log="/var/log/a b.log (deleted)"))
    assert (host.only().logs[0].path, host.only().logs[0].found) == (
        "/proc/10/fd/2",
        "stderr, deleted: /var/log/a b.log",
    )


# ------------------------------------------------------------------------------------------------------------ overrides


def test_pid_leaves_the_launch_that_it_belongs_to() -> None:
    host = Host(Discovery(pids=[(None, 103)]))
    host.see(*sglang(100), *torchrun(500))
    assert host.only().framework == "sglang"


def test_pid_makes_a_launch_of_what_nothing_else_tells() -> None:
    host = Host(Discovery(pids=[("node1", 40)]))
    host.see(proc(4, 1, "bash"), proc(40, 4, "./simulate --steps 9"))
    assert host.only().name == "simulate"
    other = Host(Discovery(pids=[("node2", 40)]))
    other.see(proc(40, 1, "./simulate"))
    assert other.discovery.launches() == ()


def test_port_leaves_the_launch_that_serves_there() -> None:
    host = Host(Discovery(ports=[9000]))
    host.see(*sglang(100, arguments="--port 9000"), proc(500, 1, "vllm serve m --port 9001"))
    assert host.only().framework == "sglang"
    listener = Host(Discovery(ports=[9000]))
    listener.see(proc(7, 1, "./server", listens=(9000,)))
    assert listener.only().name == "server"


def test_log_stands_in_for_what_was_found() -> None:
    host = Host(Discovery(logs=[(None, "/mine.log")]))
    host.see(*sglang(log="/found.log"))
    assert [(log.path, log.found) for log in host.only().logs] == [("/mine.log", "option")]


def test_a_log_without_any_process_is_a_launch_by_itself() -> None:
    host = Host(Discovery(logs=[("node1", "/runs/x/train.log"), ("node2", "/y")]))
    assert host.see(proc(1, 0, "init"))
    launch = host.only()
    assert (launch.name, launch.members, launch.hosts) == ("train.log", (), ("node1",))
    host.see(*sglang())
    assert host.only().framework == "sglang"
    assert host.only().logs[0].path == "/runs/x/train.log"


# -------------------------------------------------------------------------------------------------------------- hostile


COMMON = "python -m sglang.launch_server vllm serve torchrun --tp --nnodes -c :: / bash mpirun --config="
TITLES = ("VLLM::EngineCore_DP1", "VLLM::Worker_TP", "sglang::scheduler_TP99999999", "", "9" * 400, "\x1b[2J")
words = st.sampled_from((*COMMON.split(), *TITLES)) | st.text(max_size=12)


@settings(max_examples=300)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 12), st.integers(0, 12), st.integers(0, 3), st.lists(words, max_size=6), st.text(max_size=6)
        ),
        max_size=25,
    ),
    st.sets(st.integers(0, 12)),
)
def test_no_process_list_breaks_it(rows: list[tuple[int, int, int, list[str], str]], gpu_pids: set[int]) -> None:
    """Any command lines, parents in a circle, reused pids: nothing raises, and every member belongs to one launch."""
    host = Host()
    for at, (pid, ppid, start, command, rank) in enumerate(rows):
        env = {"RANK": rank, "WORLD_SIZE": "4", "SLURM_PROCID": rank}
        host.see(Identity(pid, start, ppid, cmdline=tuple(command), env=env, stderr=rank), gpu_pids=gpu_pids)
        if at % 3 == 2:
            host.see(gone=[Identity(pid, start)])
    members = [(m.pid, m.start_ticks) for launch in host.discovery.launches() for m in launch.members]
    assert len(members) == len(set(members))
    assert set(host.discovery.focus("node1")) <= set(members)
