"""The embedded store: one folder, no server. Any number of processes of one machine may use it at once.

DIR/versions/NAME     a version; it is complete once its manifest is there, which comes last and goes first
DIR/current           the name of the current version, replaced by renaming
DIR/activated         the versions that were ever current, one per line, the one activated last at the end
DIR/publishing.lock   locked by whoever publishes, so that nobody cleans up meanwhile
DIR/store.sqlite      events, erasures and live items
"""

from __future__ import annotations

import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lorentzrec.atomic import MARKER, atomic_directory, atomic_file
from lorentzrec.errors import ArtifactError, InputError, StoreBroken, StoreUnavailable
from lorentzrec.serving.stores.store import (
    USUAL_HISTORY,
    Added,
    Event,
    State,
    Touch,
    after_erasures,
    check_events,
    check_ids,
    check_limit,
    checked_name,
    in_order,
    key_of,
    no_such_version,
    nothing_to_change,
    still_current,
)
from lorentzrec.serving.stores.version_files import (
    another_content,
    copy_file,
    damaged,
    file_lock,
    not_as_listed,
    read_manifest,
    removed_meanwhile,
)

DATABASE, CURRENT, VERSIONS = "store.sqlite", "current", "versions"
ACTIVATED, PUBLISHING = "activated", "publishing.lock"
BUSY_SECONDS = 20.0
"""How long a write waits for the writes of other processes. Each takes milliseconds, so only a stuck one is met."""

# Steps, as in `postgres_schema`: a released one is never edited, a new one follows it. Text compares by code points, as
# in Python. The table of events is its own index for ids; the other holds a history in its order, so that the newest
# events of a customer with a million are as near as those of one with ten, and finds the same item at the same time.
SCHEMA = (
    """
CREATE TABLE events (user TEXT, id TEXT, item TEXT NOT NULL, time REAL NOT NULL, PRIMARY KEY (user, id)) WITHOUT ROWID;
CREATE INDEX events_in_order ON events (user, time, item, id);
CREATE TABLE live_items (item TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE live (revision INTEGER NOT NULL, everything INTEGER NOT NULL);
INSERT INTO live VALUES (0, TRUE);
""",
    """
DELETE FROM events WHERE EXISTS (SELECT * FROM events AS other WHERE other.user = events.user
    AND other.time = events.time AND other.item = events.item AND other.id < events.id);
DROP INDEX events_in_order;
CREATE UNIQUE INDEX events_in_order ON events (user, time, item);
CREATE TABLE erasures (user_key TEXT PRIMARY KEY, time REAL NOT NULL) WITHOUT ROWID;
""",
)


class FileStore:
    """The store in the folder `folder`; see `Store` for what each method means."""

    def __init__(self, folder: Path, *, create: bool = False) -> None:
        self.url = f"file:{folder}"
        self._folder = folder.absolute()
        self._database = self._folder / DATABASE
        self._versions = self._folder / VERSIONS
        self._idle: list[sqlite3.Connection] = []
        self._closed = False
        # Threads queue here in turn; SQLite's own waiting, which is needed between processes, is by chance.
        self._writing = threading.Lock()
        if create:
            try:
                self._versions.mkdir(parents=True, exist_ok=True)
                self._database.touch()
            except OSError as error:
                raise InputError(f"cannot make a store in {folder}: {error.strerror}; choose another folder") from error
        elif not self._database.is_file():
            raise InputError(f"{folder} holds no store: publish a model to {self.url} first")
        with self._connection() as connection:
            if connection.execute("PRAGMA user_version").fetchone()[0] != len(SCHEMA):
                self._make_tables()

    # Versions

    def state(self) -> State:
        with self._connection() as connection:
            (revision,) = connection.execute("SELECT revision FROM live").fetchone()
        named, version = self._named(), self._current()
        if named != version:  # others may have activated and discarded versions between the two
            named, version = self._named(), self._current()
        # A store without a current version is not damaged, unless it has a file that should name one.
        if version == named and (named is not None or not (self._folder / CURRENT).exists()):
            return State(version, revision)
        use = "no other version was live" if version is None else f"version {version}, which was live before, is used"
        return State(version, revision, f"the file {CURRENT!r} names no complete version, so {use}: publish again")

    def versions(self) -> list[str]:
        return sorted((path.name for path in self._folders() if (path / MARKER).is_file()), reverse=True)

    def activated_versions(self) -> list[str]:
        return sorted(self._activations(), reverse=True)

    @contextmanager
    def publishing(self) -> Iterator[None]:
        with file_lock(self._folder / PUBLISHING, BUSY_SECONDS, shared=True) as locked:
            if not locked:
                raise StoreUnavailable(f"{self._folder / PUBLISHING} is locked by a clean-up that hangs: try again")
            yield

    def upload(self, folder: Path, progress: Callable[[int], None] | None = None) -> None:
        files = read_manifest(folder)
        place = self._versions / files.name
        with self._transaction():  # not for its tables: so that two uploads do not make the folder at once
            if not place.exists():
                with atomic_directory(place):
                    pass
        try:
            # A version that is complete already is repaired: its sound files are not touched.
            complete = (place / MARKER).is_file()
            if complete and (place / MARKER).read_bytes() != files.manifest:
                raise another_content(files.name, self.url)
            for file, size in files.sizes.items():
                if not files.is_whole(place, file):
                    if not files.is_whole(folder, file):
                        raise not_as_listed(folder, file)
                    with atomic_file(place / file) as partial:  # never in place: a service may have the old one open
                        copy_file(folder / file, partial)
                if progress is not None:
                    progress(size)
            if not complete:
                with atomic_file(place / MARKER) as partial:
                    partial.write_bytes(files.manifest)
        except (OSError, InputError):
            if not place.exists():
                raise removed_meanwhile(files.name, self.url) from None
            raise

    def fetch(self, name: str, cache: Path) -> Path:
        place = self._complete(name)
        if file := read_manifest(place).damage(place):
            raise damaged(name, file, self.url)
        return place

    def activate(self, name: str) -> None:
        with self._transaction():  # not for its tables: so that nobody discards the version meanwhile
            self._complete(name)
            activated = [other for other in self._activations() if other != name]
            with atomic_file(self._folder / CURRENT) as partial:
                partial.write_text(name)
            # Second: if this is cut short, the current version still counts as activated, and is recorded next time.
            with atomic_file(self._folder / ACTIVATED) as partial:
                partial.write_text("".join(f"{line}\n" for line in [*activated, name]))

    def discard(self, name: str) -> None:
        with self._transaction():
            place = self._versions / checked_name(name)
            if not place.is_dir():
                raise no_such_version(name, self.url, self.versions())
            if name == self._current():
                raise still_current(name, self.url)
            (place / MARKER).unlink(missing_ok=True)
        shutil.rmtree(place, ignore_errors=True)

    def clean(self) -> int:
        with self._transaction(), file_lock(self._folder / PUBLISHING, 0) as locked:
            if not locked:
                return 0
            activated = self._activations()
            leftovers = [path for path in self._folders() if path.name not in activated]
            # Files that a killed process was writing next to their target.
            strays = [path for name in (CURRENT, ACTIVATED) for path in self._folder.glob(f".{name}.*")]
            strays += [*self._versions.glob(".*"), *self._versions.glob("[!.]*/.*")]
            strays = [path for path in strays if path.parent not in leftovers]
            for path in leftovers:
                (path / MARKER).unlink(missing_ok=True)
            for path in (*leftovers, *strays):  # somebody who discards one may be removing it, too
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        return sum(not path.exists() for path in (*leftovers, *strays))

    def _folders(self) -> list[Path]:
        try:
            return [path for path in self._versions.iterdir() if not path.name.startswith(".")]
        except OSError as error:
            raise StoreUnavailable(f"cannot read {self._versions}: {error.strerror}; look at the disk") from error

    def _complete(self, name: str) -> Path:
        place = self._versions / checked_name(name)
        if not (place / MARKER).is_file():
            raise no_such_version(name, self.url, self.versions())
        return place

    def _current(self) -> str | None:
        """The current version; if the file does not name a complete one, the complete one that was activated last."""
        named = self._named()
        return named if named is not None else next(reversed(self._activations()), None)

    def _named(self) -> str | None:
        """The complete version that `current` names, if it does."""
        name = self._line_of(CURRENT)
        return name if name is not None and (self._versions / name / MARKER).is_file() else None

    def _activations(self) -> list[str]:
        """The complete versions that were ever current; the one activated last is at the end."""
        complete, named = sorted(self.versions()), self._named()
        try:
            lines = (self._folder / ACTIVATED).read_text("ascii", "replace").splitlines()
            activated = [name for name in lines if name in complete]
        except FileNotFoundError:
            # Written by 0.1. What is not newer than the current version was live, or was left by a failed publish.
            if not (self._folder / CURRENT).exists():
                return []
            newest = self._line_of(CURRENT)
            activated = [name for name in complete if newest is None or name <= newest]
        except OSError as error:
            raise self._unreadable(ACTIVATED, error) from error
        return activated if named is None else [*(name for name in activated if name != named), named]

    def _line_of(self, file: str) -> str | None:
        """The version name that a file holds; None if it holds something else or is not there."""
        try:
            return checked_name((self._folder / file).read_bytes().decode("ascii", "replace").strip())
        except (FileNotFoundError, InputError):
            return None
        except OSError as error:
            raise self._unreadable(file, error) from error

    def _unreadable(self, file: str, error: OSError) -> StoreUnavailable:
        return StoreUnavailable(f"cannot read {self._folder / file}: {error.strerror}; look at the disk")

    # Histories

    def add_events(self, events: Sequence[Event], *, respect_erasures: bool = False) -> Added:
        check_events(events)
        if not events:
            return Added(0, 0)
        erased: frozenset[str] = frozenset()
        with self._transaction() as connection:
            if respect_erasures:
                events, erased = after_erasures(events, self._erasures(connection, {event.user for event in events}))
            accepted = connection.executemany(
                "INSERT INTO events (user, id, item, time) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                [(event.user, event.id, event.item, float(event.time)) for event in in_order(events)],
            ).rowcount
        return Added(accepted, len(events) - accepted, erased)

    def _erasures(self, connection: sqlite3.Connection, users: Iterable[str]) -> dict[str, float]:
        """When each of these customers was erased; only those who were."""
        question = "SELECT time FROM erasures WHERE user_key = ?"
        found = ((user, connection.execute(question, (key_of(user),)).fetchone()) for user in users)
        return {user: row[0] for user, row in found if row}

    def history(self, user: str, limit: int = USUAL_HISTORY) -> list[Touch]:
        check_ids("user", [user])
        check_limit(limit)
        with self._connection() as connection:
            rows = connection.execute(
                "SELECT item, time FROM events WHERE user = ? ORDER BY time DESC, item DESC LIMIT ?",
                (user, limit),
            ).fetchall()
        return [Touch(item, moment) for item, moment in reversed(rows)]

    def forget(self, user: str) -> int:
        check_ids("user", [user])
        with self._transaction() as connection:
            connection.execute("REPLACE INTO erasures VALUES (?, ?)", (key_of(user), time.time()))
            return connection.execute("DELETE FROM events WHERE user = ?", (user,)).rowcount

    # Live items

    def live_items(self) -> list[str] | None:
        with self._connection() as connection:
            # One statement sees one state of the database: flag and items belong together.
            rows = connection.execute(
                "SELECT everything, item FROM live LEFT JOIN live_items ON NOT everything ORDER BY item"
            ).fetchall()
        everything, first = rows[0]
        return None if everything else [] if first is None else [item for _, item in rows]

    def set_live_items(self, items: Sequence[str] | None) -> int | None:
        check_ids("item", items or ())
        wanted = sorted(set(items or ()))
        with self._transaction() as connection:
            connection.execute("DELETE FROM live_items")
            connection.executemany("INSERT INTO live_items VALUES (?)", ((item,) for item in wanted))
            connection.execute("UPDATE live SET revision = revision + 1, everything = ?", (items is None,))
        return None if items is None else len(wanted)

    def change_live_items(self, add: Sequence[str] = (), remove: Sequence[str] = ()) -> int:
        check_ids("item", [*add, *remove])
        with self._transaction() as connection:
            if connection.execute("SELECT everything FROM live").fetchone()[0]:
                raise nothing_to_change()
            before = connection.total_changes
            connection.executemany("DELETE FROM live_items WHERE item = ?", ((item,) for item in remove))
            connection.executemany(
                "INSERT INTO live_items VALUES (?) ON CONFLICT DO NOTHING", ((item,) for item in sorted(add))
            )
            if connection.total_changes != before:
                connection.execute("UPDATE live SET revision = revision + 1")
            return int(connection.execute("SELECT count(*) FROM live_items").fetchone()[0])

    # Connections

    def close(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _make_tables(self) -> None:
        with self._transaction() as connection:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version > len(SCHEMA):
                raise ArtifactError(f"{self._database} was written by a newer lorentzrec: update lorentzrec")
            for step in SCHEMA[version:]:
                for statement in step.split(";"):
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {len(SCHEMA)}")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, and on disk when it ends."""
        with self._writing, self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """A connection that nobody else uses meanwhile; idle ones are kept."""
        if self._closed:
            raise StoreUnavailable(f"{self.url} is closed: open it again")
        if not self._database.is_file():
            # An open connection would go on writing to a file that no longer has a name.
            raise StoreUnavailable(f"{self._database} is gone: put the folder back or publish again")
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect()
        try:
            yield connection
        except sqlite3.Error as error:
            raise self._told(error) from error
        finally:
            # What is idle is open to the next one; after close() there is none.
            self._idle.append(connection)
            if self._closed:
                self.close()

    def _connect(self) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(
                self._database, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            _write_ahead(connection)
            connection.execute("PRAGMA synchronous = FULL")
            # In KiB, for each connection of each worker. Much more would not make a load of sorted events faster.
            connection.execute("PRAGMA cache_size = -8192")
        except sqlite3.Error as error:
            raise self._told(error) from error
        return connection

    def _told(self, error: sqlite3.Error) -> StoreBroken | StoreUnavailable:
        if isinstance(error, sqlite3.OperationalError):
            return StoreUnavailable(f"{self._database} cannot be used now ({error}): try again, and look at the disk")
        return StoreBroken(f"{self._database} is damaged ({error}): put a copy back")


def _write_ahead(connection: sqlite3.Connection) -> None:
    """A new file changes its mode with its first connection, and SQLite lets others fail meanwhile without waiting."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
