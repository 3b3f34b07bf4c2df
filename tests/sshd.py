"""Several real OpenSSH daemons on loopback, each a host of its own: port, host key, environment, way to run commands.

Everything lives in one temporary folder; no file of the account is read or changed.
"""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from tests.conftest import need_program


class Sshd:
    """One daemon. ``name`` is its alias in the farm's ssh config."""

    def __init__(self, name: str, folder: Path, port: int, program: str) -> None:
        self.name = name
        self.folder = folder
        self.port = port
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        log = (self.folder / "log").open("ab")
        with log:
            self._process = subprocess.Popen(
                [self._program, "-D", "-e", "-f", str(self.folder / "sshd_config")], stdout=log, stderr=log
            )
        until = time.monotonic() + 10
        while time.monotonic() < until:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.02)
        raise AssertionError(f"sshd did not start: {self.log()}")

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def sessions(self) -> list[psutil.Process]:
        """The sshd processes of open connections."""
        return [p for p in self.descendants() if "sshd" in p.name()]

    def descendants(self) -> list[psutil.Process]:
        if self._process is None:
            return []
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self._process.pid).children(recursive=True)
        return []

    def kill_sessions(self) -> None:
        for session in self.sessions():
            with suppress(psutil.NoSuchProcess):
                session.kill()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Hold the daemon and its connections still, as a host that hangs; they always go on afterwards."""
        assert self._process is not None
        held = [psutil.Process(self._process.pid), *self.sessions()]
        try:
            for process in held:
                process.suspend()
            yield
        finally:
            for process in held:
                with suppress(psutil.NoSuchProcess):
                    process.resume()

    def stop(self) -> None:
        if self._process is None:
            return
        left = self.descendants()
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(10)
        self._process = None
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()


class SshdFarm:
    """Daemons that share one client key, one known_hosts file and one ssh config (:attr:`config`)."""

    def __init__(self, folder: Path) -> None:
        self._program = need_program("sshd")
        need_program("ssh-keygen")
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd run by root insists on it
        self._folder = folder
        self.user = getpass.getuser()
        self.config = folder / "ssh_config"
        self.known_hosts = folder / "known_hosts"
        self.key = folder / "id_ed25519"
        self._keygen(self.key)
        self.known_hosts.touch()
        self.config.touch()
        self.hosts: dict[str, Sshd] = {}

    def add(
        self,
        name: str,
        *,
        env: Mapping[str, str] | None = None,
        force_command: str | None = None,
        jump: str | None = None,
        options: str = "",
    ) -> Sshd:
        """Start a daemon. ``env`` is set for its sessions, ``force_command`` stands in for the login shell (the command
        is in ``$SSH_ORIGINAL_COMMAND``), ``jump`` names another one to go through, ``options`` are client options."""
        folder = self._folder / name
        folder.mkdir()
        host_key = folder / "host_key"
        self._keygen(host_key)
        shutil.copy(self.key.with_suffix(".pub"), folder / "authorized_keys")
        port = free_port()
        (folder / "sshd_config").write_text(_sshd_config(folder, port, env or {}, force_command))
        kind, key, *_ = host_key.with_suffix(".pub").read_text().split()
        with self.known_hosts.open("a") as known:
            known.write(f"[127.0.0.1]:{port} {kind} {key}\n")
        self.alias(name, port, jump=jump, options=options)
        self.hosts[name] = host = Sshd(name, folder, port, self._program)
        host.start()
        return host

    def alias(
        self, name: str, port: int, *, jump: str | None = None, options: str = "", key: Path | None = None
    ) -> None:
        """A host of the ssh config; with no daemon behind the port it is one that refuses."""
        jumps = f"  ProxyJump {jump}\n" if jump else ""
        with self.config.open("a") as config:
            config.write(
                f"Host {name}\n{options}{jumps}  HostName 127.0.0.1\n  Port {port}\n  User {self.user}\n"
                f"  IdentityFile {key or self.key}\n  IdentitiesOnly yes\n"
                f"  UserKnownHostsFile {self.known_hosts}\n  GlobalKnownHostsFile /dev/null\n"
            )

    def stop(self) -> None:
        for host in self.hosts.values():
            host.stop()

    def new_key(self, name: str, passphrase: str = "") -> Path:
        self._keygen(self._folder / name, passphrase)
        return self._folder / name

    def renew_host_key(self, name: str) -> None:
        """Give a daemon another host key than the one that known_hosts holds, as after a reinstallation."""
        host = self.hosts[name]
        host.stop()
        for path in (host.folder / "host_key", host.folder / "host_key.pub"):
            path.unlink()
        self._keygen(host.folder / "host_key")
        host.start()

    @staticmethod
    def _keygen(path: Path, passphrase: str = "") -> None:
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", "test", "-f", str(path)],
            check=True,
            stdin=subprocess.DEVNULL,
        )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _sshd_config(folder: Path, port: int, env: Mapping[str, str], force_command: str | None) -> str:
    # Sessions find this interpreter's python3 first: the account's own start-up files may put a slow shim there.
    variables = {"PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin", **env}
    lines = [
        f"Port {port}",
        "ListenAddress 127.0.0.1",
        f"HostKey {folder / 'host_key'}",
        f"PidFile {folder / 'pid'}",
        f"AuthorizedKeysFile {folder / 'authorized_keys'}",
        "StrictModes no",
        "UsePAM no",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "PermitRootLogin prohibit-password",
        "MaxStartups 100",
        "SetEnv " + " ".join(f'"{name}={value}"' for name, value in variables.items()),
    ]
    if force_command is not None:
        lines.append(f"ForceCommand {force_command}")
    return "\n".join(lines) + "\n"
