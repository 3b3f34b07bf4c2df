"""Hosts over real OpenSSH daemons: all of them at once, through a jump host, lost and found, and every way to fail.

The agent is the real one; each daemon is a host with its own key, port and environment.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import psutil
import pytest

from tests.conftest import need_program
from tests.sshd import SshdFarm, free_port
from tests.watching import Watcher, watched
from tui.collect.host import Host
from tui.collect.ssh import SshChannel, SshPool
from tui.errors import HostError


def channels(farm: SshdFarm, *names: str) -> dict[str, SshChannel]:
    pool = SshPool([farm.config])
    return {name: SshChannel(name, pool) for name in names}


def agents(farm: SshdFarm) -> list[psutil.Process]:
    """All processes below the farm's daemons that are not sshd's own."""
    return [p for host in farm.hosts.values() for p in host.descendants() if "sshd" not in p.name()]


async def test_four_hosts_give_a_sample_within_two_seconds_and_a_dead_one_delays_none(farm: SshdFarm):
    for name in ("n1", "n2", "n3", "n4"):
        farm.add(name)
    farm.alias("dead", free_port())
    watcher = Watcher()
    async with watched(watcher, **channels(farm, "dead", "n1", "n2", "n3", "n4")) as hosts:
        await watcher.until(lambda: all(watcher.of(f"n{i}") for i in range(1, 5)), 2.0)
        assert "refuses connections on port" in watcher.reason("dead")
        assert watcher.state("dead") == "lost"
        assert all(watcher.state(f"n{i}") == "live" for i in range(1, 5))
        await watcher.until(lambda: hosts["n1"].clock_offset_s is not None)
        assert abs(hosts["n1"].clock_offset_s or 9) < 0.1  # the same clock
        with pytest.raises(HostError, match="dead is not connected"):
            await hosts["dead"].request("ping")


async def test_nothing_is_left_behind_on_any_host(farm: SshdFarm):
    for name in ("n1", "n2"):
        farm.add(name)
    watcher = Watcher()
    before = set(Path("/tmp").iterdir()) | set(Path("/dev/shm").iterdir())
    async with watched(watcher, **channels(farm, "n1", "n2")):
        await watcher.until(lambda: watcher.of("n1") and watcher.of("n2"))
        assert len(agents(farm)) >= 2
        began = time.monotonic()
    assert time.monotonic() - began < 1.0
    await watcher.until(lambda: not agents(farm) and not farm.hosts["n1"].sessions(), 3.0)
    left = {path for path in set(Path("/tmp").iterdir()) | set(Path("/dev/shm").iterdir()) if "gputop" in path.name}
    assert left <= before


# ---------------------------------------------------------------------------------------------------------- jump hosts


async def test_hosts_behind_one_jump_host_share_one_connection_to_it(farm: SshdFarm):
    jump = farm.add("jump")
    for name in ("n1", "n2", "n3"):
        farm.add(name, jump="jump")
    watcher = Watcher()
    async with watched(watcher, **channels(farm, "n1", "n2", "n3")):
        await watcher.until(lambda: all(watcher.of(f"n{i}") for i in (1, 2, 3)))
        assert jump.log().count("Accepted publickey") == 1
    await watcher.until(lambda: not jump.sessions(), 6.0)


async def test_a_jump_host_that_restarts_takes_its_hosts_along_and_brings_them_back(farm: SshdFarm):
    jump = farm.add("jump")
    for name in ("n1", "n2"):
        farm.add(name, jump="jump")
    watcher = Watcher()
    async with watched(watcher, **channels(farm, "n1", "n2")):
        await watcher.until(lambda: watcher.of("n1") and watcher.of("n2"))
        jump.kill_sessions()
        await watcher.until(lambda: watcher.state("n1") == watcher.state("n2") == "lost", 3.0)
        await watcher.until(lambda: watcher.state("n1") == watcher.state("n2") == "live", 5.0)
        assert jump.log().count("Accepted publickey") == 2


async def test_two_jumps_in_a_row(farm: SshdFarm):
    farm.add("j1")
    farm.add("j2")
    farm.add("n1", jump="j1,j2")
    watcher = Watcher()
    async with watched(watcher, **channels(farm, "n1")):
        await watcher.until(lambda: watcher.of("n1"))
        assert farm.hosts["j2"].log().count("Accepted publickey") == 1
    await watcher.until(lambda: not any(host.sessions() for host in farm.hosts.values()), 2.0)


async def test_a_proxy_command_is_run(farm: SshdFarm):
    ssh = need_program("ssh")
    jump = farm.add("jump")
    farm.add("n1", options=f"  ProxyCommand {ssh} -F {farm.config} -W %h:%p jump\n")
    watcher = Watcher()
    async with watched(watcher, **channels(farm, "n1")):
        await watcher.until(lambda: watcher.of("n1"))
        assert jump.sessions()
    await watcher.until(lambda: not jump.sessions(), 2.0)


async def test_an_address_with_user_and_port_needs_no_ssh_config(farm: SshdFarm):
    host = farm.add("n1")
    farm.alias("127.0.0.1", free_port())  # lends its key and known_hosts; the address's own port wins
    name = f"ssh://{farm.user}@127.0.0.1:{host.port}"
    watcher = Watcher()
    async with watched(watcher, **channels(farm, name)):
        await watcher.until(lambda: watcher.of(name))


async def test_a_jump_host_that_refuses_and_one_that_cannot_reach_the_host_are_told_apart(farm: SshdFarm):
    farm.add("jump")
    farm.alias("deadjump", free_port())
    farm.alias("n1", free_port(), jump="deadjump")
    farm.alias("n2", free_port(), jump="jump")
    farm.alias("loop", free_port(), jump="loop")
    watcher = Watcher()
    async with watched(watcher, **channels(farm, "n1", "n2", "loop")):
        await watcher.until_state("n1", "lost")
        await watcher.until_state("n2", "lost")
        await watcher.until_state("loop", "failed")
    assert watcher.reason("n1").startswith("By way of deadjump: deadjump refuses connections on port")
    assert watcher.reason("n2").startswith("The jump host jump cannot reach 127.0.0.1 port")
    assert "leads back to itself" in watcher.reason("loop")


# ------------------------------------------------------------------------------------------------------ lost and found


async def test_a_killed_session_is_lost_at_once_and_found_again_and_its_log_goes_on(farm: SshdFarm, tmp_path: Path):
    host = farm.add("n1")
    log = tmp_path / "train.log"
    log.write_text("before\nhal")
    watcher = Watcher()

    def lines() -> list[tuple[str, bool]]:
        return [(line.text, line.t is None) for s in watcher.of("n1") for update in s.logs for line in update.lines]

    async with watched(watcher, **channels(farm, "n1")) as hosts:
        await watcher.until(lambda: watcher.hellos)
        await hosts["n1"].request("follow", key="k", path=str(log), fd=None, offset=None)
        await watcher.until(lambda: ("before", True) in lines())
        read_to = next(update.read_to for s in watcher.of("n1") for update in s.logs)
        host.kill_sessions()
        assert await watcher.until_state("n1", "lost", 1.0) < 0.5
        assert "The connection to n1 broke" in watcher.reason("n1")
        assert "Trying again in 1 s." in watcher.reason("n1")
        with pytest.raises(HostError, match="n1 is not connected"):
            await hosts["n1"].request("ping")
        with log.open("a") as more:
            more.write("f\nmeanwhile\n")
        await watcher.until(lambda: len(watcher.hellos) == 2, 5.0)
        await hosts["n1"].request("follow", key="k", path=str(log), fd=None, offset=read_to)
        await watcher.until(lambda: ("meanwhile", False) in lines(), 3.0)
    assert lines() == [("before", True), ("hal", True), ("half", False), ("meanwhile", False)]
    times = [sample.t for sample in watcher.of("n1")]
    assert times == sorted(times)


async def test_a_host_that_hangs_is_stale_then_lost_and_live_when_it_goes_on(farm: SshdFarm):
    host = farm.add("n1")
    watcher = Watcher()
    async with watched(watcher, **channels(farm, "n1")):
        await watcher.until(lambda: len(watcher.of("n1")) > 2)
        with host.frozen():
            assert 1.2 < await watcher.until_state("n1", "stale", 4.0) < 3.0
            assert 2.0 < await watcher.until_state("n1", "lost", 7.0) < 5.5
            assert "stopped answering" in watcher.reason("n1")
        await watcher.until_state("n1", "live", 8.0)
    assert [state for _, state, _, _ in watcher.states] == ["connecting", "live", "stale", "lost", "live"]


async def test_a_killed_agent_is_lost_with_its_signal_and_started_anew(farm: SshdFarm):
    farm.add("n1")
    watcher = Watcher()
    async with watched(watcher, **channels(farm, "n1")):
        await watcher.until(lambda: watcher.of("n1"))
        (agent,) = [p for p in agents(farm) if p.pid == watcher.hellos[0][1].pid]
        agent.kill()
        await watcher.until_state("n1", "lost", 2.0)
        assert "The agent on n1 ended with exit status 137" in watcher.reason("n1")  # 128 + SIGKILL, as sh says it
        await watcher.until_state("n1", "live", 5.0)


async def test_requests_that_wait_are_told_when_the_connection_ends(farm: SshdFarm):
    host = farm.add("n1")
    watcher = Watcher()
    async with watched(watcher, **channels(farm, "n1")) as hosts:
        await watcher.until(lambda: watcher.of("n1"))
        asked = [asyncio.ensure_future(hosts["n1"].request("ping")) for _ in range(3)]
        host.kill_sessions()
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(answer, (dict, HostError)) for answer in answers)


async def test_a_host_given_up_at_the_moment_its_connection_ends_is_given_up(farm: SshdFarm):
    """:func:`tests.watching.watched` fails where a host outlives its cancellation."""
    host = farm.add("n1")
    for pause in range(8):
        watcher = Watcher()
        async with watched(watcher, **channels(farm, "n1")):
            await watcher.until(lambda told=watcher: told.of("n1"))
            host.kill_sessions()
            await asyncio.sleep(pause * 0.002)


async def test_a_host_given_up_while_it_connects_leaves_nothing(farm: SshdFarm):
    farm.add("jump")
    farm.add("n1", jump="jump")
    for pause in (0.05, 0.15, 0.25, 0.35):
        task = asyncio.ensure_future(Host("n1", channels(farm, "n1")["n1"], Watcher()).run())
        await asyncio.sleep(pause)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await Watcher().until(lambda: not any(host.sessions() for host in farm.hosts.values()), 4.0)
    assert not agents(farm)


# ------------------------------------------------------------------------------------------------- ways in that differ


async def test_start_up_files_that_print_do_no_harm(farm: SshdFarm):
    farm.add(
        "n1", force_command='echo "Welcome to n1"; printf "\\\\0\\\\0GPUTOP no newline"; eval "$SSH_ORIGINAL_COMMAND"'
    )
    watcher = Watcher()
    async with watched(watcher, **channels(farm, "n1")):
        await watcher.until(lambda: watcher.of("n1"))


@pytest.mark.parametrize("shell", ["bash", "sh", "fish", "tcsh"])
async def test_any_login_shell_will_do(farm: SshdFarm, shell: str):
    farm.add("n1", force_command=f'{need_program(shell)} -c "$SSH_ORIGINAL_COMMAND"')
    watcher = Watcher()
    async with watched(watcher, **channels(farm, "n1")):
        await watcher.until(lambda: watcher.of("n1"))


async def test_hosts_keep_their_own_environment(farm: SshdFarm):
    farm.add("n1", env={"RANK": "41"})
    farm.add("n2", env={"RANK": "42"})
    watcher = Watcher()

    def ranks(name: str) -> set[str]:
        below = {p.pid for p in farm.hosts[name].descendants()}
        return {i.env["RANK"] for s in watcher.of(name) for i in s.new if i.pid in below and "RANK" in i.env}

    async with watched(watcher, **channels(farm, "n1", "n2")):
        await watcher.until(lambda: (ranks("n1"), ranks("n2")) == ({"41"}, {"42"}))


# -------------------------------------------------------------------------------------------------------- ways to fail


async def failure(farm: SshdFarm, name: str, state: str = "failed") -> str:
    """The reason with which a host that cannot be watched ends, or is lost."""
    watcher = Watcher()
    async with watched(watcher, **channels(farm, name)):
        await watcher.until_state(name, state)  # pyright: ignore[reportArgumentType]
    reason = watcher.reason(name)
    assert "\n" not in reason and reason.endswith(".")
    return reason


async def test_a_key_that_is_not_let_in_is_never_tried_again(farm: SshdFarm, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    host = farm.add("n1")
    key = farm.new_key("other")
    farm.alias("n1other", host.port, key=key)
    watcher = Watcher()
    async with watched(watcher, **channels(farm, "n1other")):
        await watcher.until_state("n1other", "failed")
        await asyncio.sleep(1.5)
    reason = watcher.reason("n1other")
    assert f"did not let {farm.user} in with {key}; `ssh-copy-id n1other` puts" in reason
    assert host.log().count("Connection from") + host.log().count("Connection closed by authenticating") <= 2


async def test_a_key_behind_a_passphrase_is_named(farm: SshdFarm, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    host = farm.add("n1")
    key = farm.new_key("locked", passphrase="secret")
    farm.alias("n1locked", host.port, key=key)
    assert f"{key} needs its passphrase: run `ssh-add` first" in await failure(farm, "n1locked")


async def test_a_changed_host_key_names_the_file_and_the_way_out(farm: SshdFarm):
    host = farm.add("n1")
    farm.renew_host_key("n1")
    reason = await failure(farm, "n1")
    assert f"is not the one in {farm.known_hosts}" in reason
    assert f"`ssh-keygen -R '[127.0.0.1]:{host.port}' -f {farm.known_hosts}`" in reason


async def test_an_unknown_host_key_is_never_accepted(farm: SshdFarm):
    farm.add("n1")
    farm.known_hosts.write_text("")
    assert "is not known yet; run `ssh n1` once" in await failure(farm, "n1")


@pytest.mark.parametrize("file", ["none", "/dev/null"])
async def test_a_config_that_keeps_no_host_keys_does_not_open_the_door(farm: SshdFarm, file: str):
    host = farm.add("n1", options=f"  UserKnownHostsFile {file}\n")
    await failure(farm, "n1")
    assert "Accepted" not in host.log()


async def test_a_name_that_does_not_exist(farm: SshdFarm):
    assert "There is no host named nowhere.invalid" in await failure(farm, "nowhere.invalid")


async def test_a_host_that_does_not_answer_in_time(farm: SshdFarm):
    host = farm.add("n1", options="  ConnectTimeout 1\n")
    with host.frozen():
        assert "n1 did not answer within 1 s" in await failure(farm, "n1", "lost")


async def test_an_ssh_config_that_cannot_be_read(farm: SshdFarm):
    farm.config.write_text("Host n1\n  Port many\n")
    assert "The ssh files of this account cannot be used for n1: " in await failure(farm, "n1")


async def test_a_key_file_that_is_named_but_missing_is_left_out_as_ssh_does(farm: SshdFarm, tmp_path: Path):
    farm.add("n1", options=f"  IdentityFile {tmp_path / 'missing'}\n  IdentityFile {farm.key}.pub\n")
    watcher = Watcher()
    async with watched(watcher, **channels(farm, "n1")):
        await watcher.until(lambda: watcher.of("n1"))


async def test_a_payload_that_does_not_arrive_whole(farm: SshdFarm):
    farm.add("n1", force_command='head -c 5000 | eval "$SSH_ORIGINAL_COMMAND"')
    assert "The agent did not arrive whole on n1" in await failure(farm, "n1")


async def test_a_host_without_python(farm: SshdFarm):
    if os.geteuid() != 0:
        pytest.skip("only root can hide the host's Python for a session")
    need_program("unshare")
    hide = "for p in /usr/bin/python3 /usr/libexec/platform-python; do mount --bind /dev/null $p 2>/dev/null; done"
    farm.add(
        "n1",
        force_command=f"PATH=/usr/bin:/bin unshare -m sh -c '{hide}; eval \"$SSH_ORIGINAL_COMMAND\"'",
    )
    assert "n1 has no python3 that works" in await failure(farm, "n1")


async def test_a_login_that_ends_by_itself_is_quoted(farm: SshdFarm):
    farm.add("n1", force_command="echo This account is currently not available.; exit 1")
    reason = await failure(farm, "n1", "lost")
    assert "ended with exit status 1; it said: This account is currently not available. Trying again" in reason


async def test_a_login_that_prints_without_end(farm: SshdFarm):
    farm.add("n1", force_command="yes")
    assert "n1 printed over 1 MiB before the agent could speak" in await failure(farm, "n1", "lost")


async def test_a_login_that_waits_for_something(farm: SshdFarm, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tui.collect.link.HELLO_S", 1.0)
    farm.add("n1", force_command="echo Press any key; sleep 30")
    assert "did not speak within 1 s; it said: Press any key" in await failure(farm, "n1", "lost")
