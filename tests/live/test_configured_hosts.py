"""Hosts, groups and logs of the configuration are watched as those of the command line are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

CONFIG = """\
hosts = ["@here"]

[groups]
here = ["localhost"]

[logs]
"@here" = "{log}"
"""


def snapshot(config: Path, *words: str) -> dict[str, Any]:
    env = {**os.environ, "XDG_CONFIG_HOME": str(config)}
    command = [sys.executable, "-m", "tui", "snapshot", "--json", *words]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def logs_of(seen: dict[str, Any]) -> list[str]:
    return [log["path"] for host in seen["hosts"] for log in host["logs"]]


def test_a_group_and_its_log_are_watched_and_the_command_line_goes_before(tmp_path: Path) -> None:
    """Without a word the file's hosts and logs; with a log of its own, that one alone; with a host, that host."""
    configured, given = tmp_path / "configured.log", tmp_path / "given.log"
    for log in (configured, given):
        log.write_text("starting\n")
    (tmp_path / "gputop-hang").mkdir()
    (tmp_path / "gputop-hang" / "config.toml").write_text(CONFIG.format(log=configured))

    seen = snapshot(tmp_path)
    assert [host["name"] for host in seen["hosts"]] == ["localhost"]
    assert str(configured) in logs_of(seen)

    seen = snapshot(tmp_path, "@here", "--log", f"localhost:{given}")
    assert str(given) in logs_of(seen) and str(configured) not in logs_of(seen)
