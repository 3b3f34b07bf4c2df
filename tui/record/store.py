"""Past launches in a SQLite file in the state directory, shared by all monitors of a machine.

Every call opens the file, does one thing and closes it; every call may block, and may raise: who asks does so off the
event loop and goes without. Never WAL: it does not work on network file systems (sqlite.org/wal.html), and one short
write a launch needs none.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path

from tui.record.likeness import Likeness
from tui.record.measured import Phase, Place
from tui.record.netfs import on_network
from tui.record.usual import Took

SCHEMA = 1
"""A file of a later schema is left alone, and nothing is known by it."""

KEPT_ALIKE, KEPT = 40, 2000
"""Launches that are kept of one likeness, and of all; the oldest leave."""

READ_WAIT_S, WRITE_WAIT_S = 0.5, 2.0
"""For so long others may hold the file locked."""

_ALIKE = "framework IS ? AND model IS ? AND world_size IS ? AND gpu IS ? AND hosts IS ?"

_CREATE = f"""
CREATE TABLE launch (
  id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, kept_at REAL NOT NULL,
  framework TEXT, version TEXT, model TEXT, world_size INTEGER, gpu TEXT, hosts TEXT
);
CREATE TABLE phase (
  launch INTEGER NOT NULL REFERENCES launch ON DELETE CASCADE,
  phase TEXT NOT NULL, nth INTEGER NOT NULL, seconds REAL NOT NULL, quiet_s REAL,
  PRIMARY KEY (launch, phase, nth)
);
PRAGMA user_version = {SCHEMA};
"""


class LaterSchema(Exception):
    """The file was made by a later release."""


class Store:
    def __init__(self, folder: Path) -> None:
        """``folder``: where the file lies or will lie; it need not be there."""
        self._folder = folder

    def keep(self, key: str, like: Likeness, phases: Sequence[Phase]) -> None:
        """Add what a launch taught; what is known of it already, by another monitor, is completed and not doubled.

        Raises: OSError, sqlite3.Error, LaterSchema.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._opened("rwc", WRITE_WAIT_S) as base:
            base.execute("BEGIN IMMEDIATE")
            if not _schema(base):
                for statement in _CREATE.strip().split(";\n"):
                    base.execute(statement)
            base.execute(
                "INSERT OR IGNORE INTO launch (key, kept_at, framework, version, model, world_size, gpu, hosts)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (key, time.time(), *astuple(like)),
            )
            (launch,) = base.execute("SELECT id FROM launch WHERE key = ?", (key,)).fetchone()
            base.executemany(
                "INSERT OR IGNORE INTO phase VALUES (?, ?, ?, ?, ?)",
                [(launch, p.phase, p.nth, p.took.seconds, p.took.quiet_s) for p in phases],
            )
            _forget_oldest(base, like)
            base.execute("COMMIT")

    def past(self, like: Likeness) -> Mapping[Place, list[Took]]:
        """What the phases of past launches like this one took.

        While its log has not told a version, that of the newest launch like it is taken for its own.

        Raises: OSError, sqlite3.Error, LaterSchema.
        """
        if not self._folder.exists() or not self.path.exists():
            return {}
        with self._opened("rw", READ_WAIT_S) as base:  # a file that may not be written is opened for reading alone
            if not _schema(base):
                return {}
            alike = _but_version(like)
            version = like.version
            if version is None:
                newest = f"SELECT version FROM launch WHERE {_ALIKE} ORDER BY id DESC LIMIT 1"
                version = next(iter(base.execute(newest, alike).fetchone() or ()), None)
            rows = base.execute(
                "SELECT phase, nth, seconds, quiet_s FROM phase JOIN launch ON launch.id = launch"
                f" WHERE {_ALIKE} AND version IS ? ORDER BY launch.id DESC LIMIT 10000",
                (*alike, version),
            )
            found: dict[Place, list[Took]] = {}
            for phase, nth, seconds, quiet_s in rows:
                if isinstance(seconds, float) and 0.0 <= seconds < 1e7:
                    quiet = quiet_s if isinstance(quiet_s, float) else None
                    found.setdefault((str(phase), int(nth)), []).append(Took(seconds, quiet))
            return found

    def fault(self) -> str | None:
        """What is wrong with the file where nothing can be known by it; ``None`` where it is sound, or can be made.

        One that is only locked, or may only be read, is sound.
        """
        try:
            if not self._folder.exists():
                there = next(one for one in self._folder.absolute().parents if one.exists())
                return None if there.is_dir() and os.access(there, os.W_OK) else "its folder cannot be made"
            if not self.path.exists():
                return None
            with self._opened("rw", READ_WAIT_S) as base:
                _schema(base)
                (said,) = base.execute("PRAGMA quick_check(1)").fetchone()
        except (OSError, sqlite3.Error, LaterSchema) as error:
            said = (error.strerror if isinstance(error, OSError) else None) or str(error)
            return None if "locked" in said else said
        return None if said == "ok" else str(said)

    @contextmanager
    def _opened(self, mode: str, wait_s: float) -> Generator[sqlite3.Connection]:
        uri = f"{self.path.as_uri()}?mode={mode}"
        base = sqlite3.connect(uri, uri=True, timeout=wait_s, isolation_level=None)
        try:
            base.execute("PRAGMA foreign_keys = ON")
            yield base
        finally:
            base.close()

    @property
    def path(self) -> Path:
        """On a network file system each machine has a file of its own: locks between machines are not to be trusted
        there (sqlite.org/faq.html, question 5)."""
        name = f"launches-{os.uname().nodename[:64]}.sqlite" if on_network(self._folder) else "launches.sqlite"
        return self._folder.absolute() / name.replace("/", "_")


def _schema(base: sqlite3.Connection) -> int:
    """The file's schema, 0 where it is new."""
    (version,) = base.execute("PRAGMA user_version").fetchone()
    if version > SCHEMA:
        raise LaterSchema(f"schema {version} is later than {SCHEMA}")
    return int(version)


def _but_version(like: Likeness) -> tuple[object, ...]:
    return (like.framework, like.model, like.world_size, like.gpu, like.hosts)


def _forget_oldest(base: sqlite3.Connection, like: Likeness) -> None:
    alike = f"SELECT id FROM launch WHERE {_ALIKE} AND version IS ? ORDER BY id DESC LIMIT -1 OFFSET {KEPT_ALIKE}"
    base.execute(f"DELETE FROM launch WHERE id IN ({alike})", (*_but_version(like), like.version))
    base.execute(f"DELETE FROM launch WHERE id IN (SELECT id FROM launch ORDER BY id DESC LIMIT -1 OFFSET {KEPT})")
