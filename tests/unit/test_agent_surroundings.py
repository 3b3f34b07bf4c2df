"""Control groups of version 2, as the kernel writes its files (cgroup-v2.rst): this machine may have the other kind."""

from __future__ import annotations

from pathlib import Path

from tui.agent import surroundings


def tree(base: Path, **files: str) -> Path:
    base.mkdir(parents=True, exist_ok=True)
    for name, said in files.items():
        (base / name.replace("__", ".")).write_text(said)
    return base


def test_the_tightest_limit_of_all_above_counts_and_the_waiting_is_read_where_it_is_set(tmp_path: Path) -> None:
    tree(tmp_path, cpu__stat="nr_periods 9\nnr_throttled 0\nthrottled_usec 0\n")
    slice_ = tree(
        tmp_path / "slice", memory__max="68719476736\n", memory__current="5\n", cpu__max="50000 100000\n",
        cpu__stat="usage_usec 5\nnr_periods 100\nnr_throttled 91\nthrottled_usec 2500000\n",
    )  # fmt: skip
    job = tree(
        slice_ / "job", memory__max="max\n", memory__current="3\n", cpu__max="max 100000\n",
        memory__events="low 0\nhigh 7\nmax 12\noom 2\noom_kill 1\noom_group_kill 0\n",
        memory__stat="anon 4096\nworkingset_refault_anon 10\nworkingset_refault_file 990\nworkingset_activate_file 5\n",
        cpu__stat="usage_usec 5\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n",
        cpu__pressure="some avg10=93.41 avg60=1.00 avg300=0.10 total=99\nfull avg10=12.00 avg60=0.00 total=9\n",
    )  # fmt: skip
    row = surroundings._group({"": [str(job), str(slice_), str(tmp_path)]})
    assert row["folders"] == [str(job)]
    assert (row["oom_kills"], row["memory_events"]) == (1, {"high": 7, "max": 12, "oom": 2})
    assert (row["memory_max"], row["memory_used"], row["refaults"]) == (68719476736, 5, 1000)
    assert (row["quota_cores"], row["periods"], row["throttled"], row["throttled_s"]) == (0.5, 100, 91, 2.5)
    assert row["pressure"] == {"cpu": {"some": 93.41, "full": 12.0}}


def test_what_is_not_there_is_unknown(tmp_path: Path) -> None:
    row = surroundings._group({"": [str(tmp_path)]})
    assert {row[key] for key in ("oom_kills", "memory_max", "memory_used", "refaults", "quota_cores", "periods")} == {
        None
    }
    assert surroundings._group({})["folders"] == []


def test_a_path_of_the_host_is_found_in_a_containers_own_mount(tmp_path: Path) -> None:
    """``/proc/PID/cgroup`` tells the host's path, and the mount begins below it."""
    tree(tmp_path / "payload")
    paths = surroundings._paths(b"0::/kubepods/pod7/payload\n", {"": str(tmp_path)})
    assert paths == {"": [f"{tmp_path}/payload", str(tmp_path)]}
    assert surroundings._paths(b"0::/../other\n", {"": str(tmp_path)}) == {"": [str(tmp_path)]}
    assert surroundings._paths(b"4:cpu,cpuacct:/payload\n1:name=systemd:/x\n", {"cpu": str(tmp_path)}) == {
        "cpu": [f"{tmp_path}/payload", str(tmp_path)]
    }


def test_only_folders_of_control_groups_are_read_for_the_dead(tmp_path: Path) -> None:
    """The request names folders; one elsewhere, or with a way out, is not touched."""
    tree(tmp_path, memory__events="oom_kill 5\n")
    mount = next(iter(surroundings._mounts().values()), None)
    assert surroundings._of_the_dead([([str(tmp_path)], [1])]) == []
    if mount is not None:
        assert surroundings._of_the_dead([([f"{mount}/..{tmp_path}"], [1])]) == []
