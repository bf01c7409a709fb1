"""The embedded store: one folder, no server. Any number of processes of one machine may use it at once.

DIR/versions/NAME     a version; it is complete once its manifest is there, which is written last and removed first
DIR/publishing.lock   locked by every process that publishes, so that no other process cleans up meanwhile
DIR/store.sqlite      the log of activations, events, erasures, live items, new items and rules

Only the owner may read the folder and the database, since they hold what customers did.
"""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from lorentzrec.base.atomic import MARKER, atomic_directory, atomic_file
from lorentzrec.base.library_faults import is_sqlite_damage
from lorentzrec.errors import InputError, LorentzrecError
from lorentzrec.serving.stores.activations import MAIN
from lorentzrec.serving.stores.faults import StoreFault, is_damage
from lorentzrec.serving.stores.histories import Added, Event, StoredEvent, check_events, sort_batch
from lorentzrec.serving.stores.snapshot import CheckedPart
from lorentzrec.serving.stores.sql_store import SqlStore
from lorentzrec.serving.stores.sqlite_connections import BUSY_SECONDS, SqliteConnections, run_transaction
from lorentzrec.serving.stores.store import Migrating, is_behind
from lorentzrec.serving.stores.version_files import file_lock, read_manifest
from lorentzrec.serving.stores.versions import VERSION_NAME, Decide, State, check_name

DATABASE, VERSIONS, PUBLISHING = "store.sqlite", "versions", "publishing.lock"
COMPACT_BYTES = 64 * 2**20
"""A file up to this size is checked when it is opened, and rewritten after an erasure: either takes under a second."""
ERASURE_SECONDS = 3.0
"""How long an erasure waits for readers that prevent it from emptying the write-ahead log."""
DAMAGE = (sqlite3.SQLITE_CORRUPT,)
"""What SQLite reports if pages of a history are damaged."""
BYTES_REMAIN = "data of erased customers may still be in the files of the store: this is retried every second"

# Steps, as in `postgres_schema`: a released one never changes, a new one follows it. Text compares by code points as in
# Python. The table of events is its own index for ids; the second index holds each history in order, so that reading
# the newest events takes the same time for a long history as for a short one, and finds duplicates by time and item.
# The third one finds what arrived last, in unix seconds.
# Erasures keep no key that is the same in another store. `compacted` is when no byte of what was erased was left.
# The last row of an arm in the log of activations has its current version.
SCHEMA = (
    """
CREATE TABLE events (
    user_id TEXT, event_id TEXT, item_id TEXT NOT NULL, time REAL NOT NULL, weight REAL NOT NULL,
    arrived REAL NOT NULL DEFAULT ((julianday('now') - 2440587.5) * 86400.0), PRIMARY KEY (user_id, event_id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX events_in_order ON events (user_id, time, item_id);
CREATE INDEX events_by_arrival ON events (arrived, time);
CREATE TABLE erasures (user_key TEXT PRIMARY KEY, time REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE privacy (salt TEXT NOT NULL, compacted REAL NOT NULL);
INSERT INTO privacy VALUES (lower(hex(randomblob(16))), 0);
CREATE TABLE live_items (item_id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE new_items (
    item TEXT PRIMARY KEY, changed INTEGER NOT NULL, content TEXT NOT NULL, origin TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX new_items_by_origin ON new_items (origin, item);
CREATE TABLE state (
    live_revision INTEGER NOT NULL, everything_live INTEGER NOT NULL, items_revision INTEGER NOT NULL,
    items_reset INTEGER NOT NULL, restoring TEXT
);
INSERT INTO state VALUES (0, TRUE, 0, 0, NULL);
CREATE TABLE activations (
    number INTEGER PRIMARY KEY AUTOINCREMENT, version TEXT NOT NULL, time REAL NOT NULL, reason TEXT NOT NULL,
    rejected TEXT, arm TEXT NOT NULL, share REAL
);
CREATE INDEX activations_by_arm ON activations (arm, number);
CREATE TABLE rules (
    revision INTEGER PRIMARY KEY, time REAL NOT NULL, reason TEXT NOT NULL, who TEXT, document TEXT
);
""",
)

logger = logging.getLogger("lorentzrec.serving")


class FileStore(SqlStore):
    """The store in the folder `folder`; see `Store` for what each method means."""

    _connections: SqliteConnections
    _user_key = staticmethod(str)

    def __init__(self, folder: Path, *, create: bool = False, migrate: Migrating | None = None) -> None:
        self.url = f"file:{folder}"
        self._folder = folder.absolute()
        self._database = self._folder / DATABASE
        self._versions = self._folder / VERSIONS
        self._bytes_remain = False
        self._damage: str | None = None
        self._migrating = migrate
        if create:
            try:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._versions.mkdir(exist_ok=True)
                with suppress(FileExistsError):
                    self._database.touch(0o600, exist_ok=False)
            except OSError as error:
                raise InputError(f"cannot make a store in {folder}: {error.strerror}; choose another folder") from error
        elif not self._database.is_file():
            raise StoreFault.NO_STORE.error(store=self.url)
        self._connections = SqliteConnections(self._database, self._prepare)
        with self._connections.statement():  # which makes the tables of a new file
            pass

    @property
    def nearby(self) -> bool:
        """Not while another file has the name that is not open yet: it is checked first, which may take a second."""
        return self._connections.is_prepared

    @property
    def writes_in_turn(self) -> bool:
        return True

    @property
    def notices(self) -> list[str]:
        found = self._connections.notices
        if self._damage is not None:
            found.append("the database of the store is damaged, see the log of the service: restore a backup")
        if self._bytes_remain:
            found.append(BYTES_REMAIN)
        return found

    # Versions

    def state(self) -> State:
        if self._bytes_remain:
            self._remove_bytes(seconds=0)
        for _ in range(2):  # other processes may activate and discard versions while this is read
            state = self._read_state(self._rows)
            missing = [name for name, arm in state.arms.items() if not self._is_complete(arm.version)]
            if not missing:
                return state
        arms, warnings = dict(state.arms), dict[str, str]()
        for name in missing:
            arm, usable = state.arms[name], next(iter(self.standing_versions(name)), None)
            if usable is not None:
                arms[name], use = arm._replace(version=usable), f"version {usable}, which was live before, is used"
            elif name == MAIN:
                arms.pop(name)
                use = "no other version was live"
            else:  # the arm keeps its share, so that no customer moves to another arm than `main`
                use = "main answers for it"
            what = "the current version" if name == MAIN else f"the current version of arm {name},"
            warnings[name] = f"{what} {arm.version} is missing or not complete, so {use}: publish again"
        return replace(state, arms=arms if MAIN in arms else {}, warnings=warnings)

    def versions(self) -> list[str]:
        return sorted((path.name for path in self._folders() if (path / MARKER).is_file()), reverse=True)

    @contextmanager
    def publishing(self) -> Iterator[None]:
        with file_lock(self._folder / PUBLISHING, BUSY_SECONDS, shared=True) as locked:
            if not locked:
                raise StoreFault.LOCKED.error(store=self._folder / PUBLISHING, holder="clean-up")
            yield

    def upload(self, folder: Path, progress: Callable[[int], None] = lambda _: None) -> None:
        manifest, content = read_manifest(folder)
        version_folder = self._versions / manifest.name
        with self._connections.transaction():  # not for its tables: so that two uploads do not make the folder at once
            if not version_folder.exists():
                with atomic_directory(version_folder):
                    pass
        try:
            # A version that is complete already is repaired: its intact files do not change.
            complete = (version_folder / MARKER).is_file()
            if complete and (version_folder / MARKER).read_bytes() != content:
                raise StoreFault.OTHER_CONTENT.error(name=manifest.name, store=self.url)
            for name, file in manifest.files.items():
                if not file.is_whole(version_folder / name):
                    if not file.is_whole(folder / name):
                        raise StoreFault.FILE_CHANGED.error(file=folder / name)
                    # Never in place, since a service may have the old file open. `shutil.copyfile` would report a full
                    # disk under the name of the source.
                    with (
                        atomic_file(version_folder / name) as partial,
                        (folder / name).open("rb") as source,
                        partial.open("wb") as target,
                    ):
                        shutil.copyfileobj(source, target, 2**20)
                progress(file.bytes)
            if not complete:
                with atomic_file(version_folder / MARKER) as partial:
                    partial.write_bytes(content)
        except (OSError, InputError):
            if not version_folder.exists():
                raise StoreFault.VERSION_REMOVED.error(name=manifest.name, store=self.url) from None
            raise

    def fetch(self, name: str, cache: Path) -> Path:
        version_folder = self._complete(name)
        if file := read_manifest(version_folder)[0].find_damage(version_folder):
            raise StoreFault.VERSION_DAMAGED.error(name=name, store=self.url, file=file)
        return version_folder

    def fetch_file(self, name: str, file: str, folder: Path) -> Path:
        version_folder = self._complete(name)
        if not read_manifest(version_folder)[0].has_whole(version_folder, file):
            raise StoreFault.VERSION_DAMAGED.error(name=name, store=self.url, file=file)
        return version_folder / file

    def fetch_manifest(self, name: str) -> bytes:
        return (self._complete(name) / MARKER).read_bytes()

    def read_file(self, name: str, file: str) -> Iterator[bytes]:
        with suppress(FileNotFoundError), (self._complete(name) / file).open("rb") as content:
            yield from iter(partial(content.read, 2**20), b"")

    def _activate(self, decide: Decide) -> None:
        with self._connections.transaction() as connection:  # no process discards the version meanwhile
            entry = decide(self.state().arms)
            if not entry.ends:
                self._complete(entry.version)
            self._record(connection, entry)

    def discard(self, name: str) -> None:
        with self._connections.transaction():
            version_folder = self._versions / check_name(name)
            if not version_folder.is_dir():
                raise self._no_version(name)
            if name in [arm.version for arm in self.state().arms.values()]:
                raise StoreFault.CURRENT_VERSION.error(name=name, store=self.url)
            (version_folder / MARKER).unlink(missing_ok=True)
        shutil.rmtree(version_folder, ignore_errors=True)

    def clean(self) -> int:
        with self._connections.transaction(), file_lock(self._folder / PUBLISHING, 0) as locked:
            if not locked:
                return 0
            activated = {entry.version for entry in self.activations()}
            leftovers = [
                path for path in self._folders() if path.name not in activated or not self._is_complete(path.name)
            ]
            # Files that a killed process was writing next to their target.
            strays = [*self._versions.glob(".*"), *self._versions.glob("[!.]*/.*")]
            strays = [path for path in strays if path.parent not in leftovers]
            for path in leftovers:
                (path / MARKER).unlink(missing_ok=True)
            for path in (*leftovers, *strays):  # another process that discards one may remove it, too
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        return sum(not path.exists() for path in (*leftovers, *strays))

    def _folders(self) -> list[Path]:
        try:
            return [path for path in self._versions.iterdir() if not path.name.startswith(".")]
        except OSError as error:
            raise StoreFault.FILE_UNREADABLE.error(store=self._versions, reason=error.strerror) from error

    def _is_complete(self, name: str) -> bool:
        return VERSION_NAME.fullmatch(name) is not None and (self._versions / name / MARKER).is_file()

    def _complete(self, name: str) -> Path:
        if not self._is_complete(check_name(name)):
            raise self._no_version(name)
        return self._versions / name

    # Histories

    def _adding(self, count: int, respect_erasures: bool) -> AbstractContextManager[sqlite3.Connection]:
        return self._connections.transaction()

    def add_batches(self, batches: Sequence[Sequence[Event]]) -> list[Added]:
        for batch in batches:
            check_events(batch)
        with self._connections.transaction() as connection:
            accepted = [self._insert(connection, sort_batch(batch)) for batch in batches]
        return [Added(count, len(batch) - count) for count, batch in zip(accepted, batches, strict=True)]

    def _insert(self, cursor: sqlite3.Connection, events: Sequence[Event]) -> int:
        insert = "INSERT INTO events (user_id, event_id, item_id, time, weight) VALUES (?, ?, ?, ?, ?)"
        rows = [(event.user, event.id, event.item, float(event.time), event.weight) for event in events]
        return cursor.executemany(f"{insert} ON CONFLICT DO NOTHING", rows).rowcount

    def _history(self, user: str, limit: int) -> list[StoredEvent]:
        try:
            return super()._history(user, limit)
        except LorentzrecError as error:
            if isinstance(error.__cause__, sqlite3.Error) and is_sqlite_damage(error.__cause__, DAMAGE):
                # Without its text, which may hold what the customer did.
                raise StoreFault.HISTORY_DAMAGED.error() from None
            raise

    def _forget(self, user: str) -> int:
        removed = super()._forget(user)
        self._bytes_remain = True
        self._remove_bytes(ERASURE_SECONDS)
        if self._bytes_remain:
            logger.warning("%s: %s", self._database, BYTES_REMAIN)
        return removed

    def _remove_bytes(self, seconds: float) -> None:
        """Rewrite what still holds bytes of deleted rows, unless another process is in the way for this long.

        The write-ahead log has the rows as they were written. Also the file itself keeps copies in the unused parts of
        pages, from when rows moved to another page: `secure_delete` overwrites only the place where a row was last.
        """
        with suppress(OSError, LorentzrecError), self._connections.exclusive(seconds) as connection:
            moment = time.time()
            # First, because VACUUM writes the whole file to the log, which would grow at each retry.
            if not _empty_log(connection):
                return
            if compact := self._database.stat().st_size <= COMPACT_BYTES:
                connection.execute("PRAGMA temp_store = MEMORY")
                connection.execute("VACUUM")
                if not _empty_log(connection):
                    return
            self._bytes_remain = False
            if compact:
                connection.execute("UPDATE privacy SET compacted = ?", (moment,))
            else:
                logger.warning("%s is large: run VACUUM to remove erased data from unused space", self._database)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with self._connections.session() as connection:
            connection.execute("BEGIN")
            yield connection

    def check_database(self) -> Iterator[CheckedPart]:
        try:
            with self._reading() as connection:
                found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check").fetchall()]
        except LorentzrecError as error:  # damage can be such that the check fails itself
            if not is_damage(error):
                raise
            found = [str(error.__cause__)]
        yield CheckedPart(DATABASE, "PRAGMA integrity_check", [] if found == ["ok"] else found)

    def _count_bytes(self, cursor: sqlite3.Connection) -> int:
        total = 0
        for path in self._folder.rglob("*"):
            with suppress(OSError):  # removed meanwhile
                total += path.stat().st_size if path.is_file() else 0
        return total

    def _prepare(self, connection: sqlite3.Connection, writable: bool) -> None:
        """Make the tables of a new file; check one that is opened for the first time."""
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if is_behind(self.url, version or None, len(SCHEMA), self._migrating):
            if not writable:
                raise StoreFault.READ_ONLY.error(store=self._database)
            self._make_tables(connection)
        found = self._database.stat()
        self._damage = None
        if found.st_size <= COMPACT_BYTES:
            (result,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if result != "ok":
                self._damage = result
                logger.error("%s is damaged (%s): restore a backup", self._database, result)
            elif writable:
                # Also after a crash in the middle of an erasure.
                (self._bytes_remain,) = connection.execute(
                    "SELECT coalesce(max(time), 0) > (SELECT compacted FROM privacy) FROM erasures"
                ).fetchone()
        if writable and os.name != "nt" and found.st_mode & stat.S_IRWXO:
            logger.warning("%s is open to all users of this machine: chmod 600", self._database)

    def _make_tables(self, connection: sqlite3.Connection) -> None:
        with run_transaction(connection):
            (version,) = connection.execute("PRAGMA user_version").fetchone()  # another process may have been faster
            for number, step in enumerate(SCHEMA[version:], version + 1):
                if self._migrating is not None:
                    self._migrating(number, len(SCHEMA))
                for statement in step.split(";"):
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {len(SCHEMA)}")


def _empty_log(connection: sqlite3.Connection) -> bool:
    """Move the write-ahead log to the file; False if a reader needs it."""
    (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy
