"""What the person's ssh files say about one destination: where it is, through which hops, which keys, which host keys.

asyncssh reads the ssh config. Where it would do less than ``ssh`` does, this fills in: the system's config and known
hosts, key files that are named but missing or unreadable, and ``UserKnownHostsFile none``, which must not mean that any
host key will do.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from tui.collect.hosts import Destination
from tui.collect.sshwords import Endpoint

if TYPE_CHECKING:
    import types

CONNECT_S = 10.0
"""Time for TCP and login together, unless the ssh config has a ``ConnectTimeout``."""

CIPHER = "^aes128-gcm@openssh.com"
"""Tried first: a quarter less CPU at 64 hosts than asyncssh's first choice, chacha20."""

_CONFIGS = ("~/.ssh/config", "/etc/ssh/ssh_config")
_KNOWN_HOSTS = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
_ALL_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
_KEYS = ("id_ed25519_sk", "id_ecdsa_sk", "id_ed448", "id_ed25519", "id_ecdsa", "id_rsa")

KeyState = Literal["ready", "locked", "no key"]


@dataclass(frozen=True, slots=True)
class Way:
    """How to connect to one destination: ``arguments`` for :func:`asyncssh.connect`; ``hops`` as ProxyJump has them."""

    name: str
    options: Any
    arguments: dict[str, Any]
    hops: str
    keys: tuple[Path, ...]
    known_hosts: tuple[Path, ...]
    timeout_s: float


class SshSetup:
    """``asyncssh`` is the module; ``config`` names the config files to read, ``None`` the usual ones."""

    def __init__(self, asyncssh: types.ModuleType, config: Sequence[Path] | None) -> None:
        asyncssh.set_default_skip_rsa_key_validation(True)  # a key of 4096 bits takes 250 ms to validate
        self.asyncssh: Any = asyncssh
        self._config = [str(path) for path in (_readable(_CONFIGS) if config is None else config)]
        self._known: dict[tuple[tuple[Path, float], ...], Any] = {}
        self._keys: dict[Path, KeyState] = {}

    def way(self, name: str, to: Destination) -> Way:
        """Read the files for one destination; blocks for some milliseconds. Raises: OSError, ValueError."""
        options = self.asyncssh.SSHClientConnectionOptions(
            host=to.host, port=to.port or (), username=to.user or (), config=self._config, client_keys=None
        )
        config = options.config
        named = [Path(path).expanduser() for path in cast("list[str]", config.get("IdentityFile", ()))]
        keys = tuple(_readable(named or [f"~/.ssh/{key}" for key in _KEYS]))
        known = tuple(
            _readable([*self._user_known_hosts(config), *config.get("GlobalKnownHostsFile", _ALL_KNOWN_HOSTS)])
        )
        timeout_s = options.connect_timeout or CONNECT_S
        arguments: dict[str, Any] = {
            "host": to.host,
            "port": to.port or (),
            "username": to.user or (),
            "options": options,
            "config": None,
            "client_keys": [
                str(key) for key in keys if config.get("IdentitiesOnly") or self._key_state(key) == "ready"
            ],
            "ignore_encrypted": True,
            "known_hosts": self._trusted(known),
            "encryption_algs": () if config.get("Ciphers") else CIPHER,
            "compression_algs": None,
            "connect_timeout": timeout_s,
            "agent_forwarding": False,
            "x11_forwarding": False,
            "utf8_decode_errors": "replace",
        }
        return Way(name, options, arguments, options.tunnel or "", keys, known, timeout_s)

    def endpoint(self, way: Way, hops: str) -> Endpoint:
        """What the words for a failure on this way need to know."""
        options = way.options
        alias, port = options.host_key_alias or options.host, options.port
        return Endpoint(
            name=way.name,
            host=options.host,
            port=port,
            user=options.username,
            host_key_name=alias if port == 22 else f"[{alias}]:{port}",
            keys=way.keys,
            locked=tuple(key for key in way.keys if self._key_state(key) == "locked"),
            agent=bool(options.config.get("IdentityAgent") or os.environ.get("SSH_AUTH_SOCK")),
            known_in=next((path for path in way.known_hosts if self._knows(path, alias, port)), None),
            known_hosts=way.known_hosts,
            jump=hops or None,
        )

    @staticmethod
    def _user_known_hosts(config: Any) -> Sequence[str]:
        named = config.get("UserKnownHostsFile", None)
        return _KNOWN_HOSTS if named is None else named

    def _trusted(self, files: tuple[Path, ...]) -> Any:
        """The host keys in ``files``, parsed once as long as they do not change."""
        stamp = tuple((path, path.stat().st_mtime) for path in files)
        if stamp not in self._known:
            names = [str(path) for path in files]
            self._known[stamp] = (
                self.asyncssh.read_known_hosts(names) if names else self.asyncssh.import_known_hosts("")
            )
        return self._known[stamp]

    def _knows(self, path: Path, alias: str, port: int) -> bool:
        try:
            keys, *_ = self._trusted((path,)).match(alias, "", None if port == 22 else port)
        except (OSError, ValueError):
            return False
        return bool(keys)

    def _key_state(self, path: Path) -> KeyState:
        if path not in self._keys:
            try:
                self.asyncssh.read_private_key(path)
                self._keys[path] = "ready"
            except self.asyncssh.KeyImportError as error:
                self._keys[path] = "locked" if str(error).startswith("Passphrase") else "no key"
        return self._keys[path]


def _readable(paths: Sequence[str | Path]) -> list[Path]:
    expanded = (Path(path).expanduser() for path in paths)
    return [path for path in expanded if os.access(path, os.R_OK) and not path.is_dir()]
