"""The store in PostgreSQL, for several machines. Its tables lie in the schema `lorentzrec`: see `postgres_schema`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from psycopg import errors

from lorentzrec.serving.stores.postgres_connections import (
    ANSWER_SECONDS,
    LONG_ANSWER_SECONDS,
    Cursor,
    PostgresConnections,
)
from lorentzrec.serving.stores.postgres_schema import migrate
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
    salted_key,
    still_current,
)
from lorentzrec.serving.stores.version_files import another_content, read_manifest, receive, removed_meanwhile, send

CHUNK_BYTES = 4 * 2**20
PUBLISHING = 0x7075626C697368
"""The advisory lock of publishers ("publish"), which keeps others from cleaning up."""
SEPARATOR = "\x1f"
"""A control character, so no id holds it. Columns go as one text each: psycopg's arrays are several times slower."""
WAS_LIVE = "(activated OR id IS NOT DISTINCT FROM (SELECT version FROM lorentzrec.state))"
"""The current version counts even if it is not recorded: a process of 0.1 may have activated it."""
NEXT_REVISION = "UPDATE lorentzrec.state SET live_revision = live_revision + 1"
ADD_EVENTS = """
INSERT INTO lorentzrec.events SELECT * FROM unnest(
    string_to_array(%s, e'\\x1f')::uuid[],
    string_to_array(%s, e'\\x1f')::uuid[],
    string_to_array(%s, e'\\x1f')::double precision[],
    string_to_array(%s, e'\\x1f'),
    string_to_array(%s, e'\\x1f'),
    string_to_array(%s, e'\\x1f'),
    string_to_array(%s, e'\\x1f')::double precision[]
) ON CONFLICT DO NOTHING
"""


class PostgresStore:
    """The store at a PostgreSQL `address`; see `Store` for what each method means."""

    def __init__(self, address: str, *, create: bool = False) -> None:
        self._connections = PostgresConnections(address)
        self.url = self._connections.url
        try:
            migrate(self._connections, create=create)
        except BaseException:
            self.close()
            raise

    @property
    def notices(self) -> Sequence[str]:
        return self._connections.notices

    # Versions

    def state(self) -> State:
        with self._connections.statement() as cursor:
            row = cursor.execute(
                "SELECT name, live_revision FROM lorentzrec.state LEFT JOIN lorentzrec.versions ON id = version"
            ).fetchall()[0]
        return State(*row)

    def versions(self) -> list[str]:
        with self._connections.statement() as cursor:
            cursor.execute("SELECT name FROM lorentzrec.versions WHERE complete ORDER BY name DESC")
            return [name for (name,) in cursor]

    def activated_versions(self) -> list[str]:
        with self._connections.statement() as cursor:
            cursor.execute(f"SELECT name FROM lorentzrec.versions WHERE complete AND {WAS_LIVE} ORDER BY name DESC")
            return [name for (name,) in cursor]

    @contextmanager
    def publishing(self) -> Iterator[None]:
        with self._connections.session(LONG_ANSWER_SECONDS) as cursor:
            cursor.execute("SELECT pg_advisory_lock_shared(%s)", (PUBLISHING,))
            try:
                yield
            finally:
                # The server would notice a moment after the end of the connection, too late for a `clean` that follows.
                with suppress(errors.Error):
                    cursor.execute("SELECT pg_advisory_unlock_shared(%s)", (PUBLISHING,))

    def upload(self, folder: Path, progress: Callable[[int], None] | None = None) -> None:
        files = read_manifest(folder)
        with self._connections.transaction() as cursor:
            # An interrupted upload of other content under this name has nothing that could be resumed.
            cursor.execute(
                "DELETE FROM lorentzrec.versions WHERE name = %s AND manifest <> %s AND NOT complete",
                (files.name, files.manifest),
            )
            cursor.execute(
                "INSERT INTO lorentzrec.versions (name, manifest) VALUES (%s, %s) ON CONFLICT DO NOTHING",
                (files.name, files.manifest),
            )
            cursor.execute("SELECT id, manifest FROM lorentzrec.versions WHERE name = %s", (files.name,))
            ((version, manifest),) = cursor.fetchall()
        if manifest != files.manifest:
            raise another_content(files.name, self.url)
        send(folder, files, _PostgresChunks(self._connections, version, files.name), progress)
        with self._connections.statement() as cursor:
            cursor.execute("UPDATE lorentzrec.versions SET complete = true WHERE id = %s", (version,))
            if cursor.rowcount == 0:
                raise removed_meanwhile(files.name, self.url)

    def fetch(self, name: str, cache: Path) -> Path:
        with self._connections.statement() as cursor:
            cursor.execute(
                "SELECT id, manifest FROM lorentzrec.versions WHERE name = %s AND complete", (checked_name(name),)
            )
            found = cursor.fetchone()
        if found is None:
            raise no_such_version(name, self.url, self.versions())
        version, manifest = found
        return receive(name, manifest, _PostgresChunks(self._connections, version, name), cache, self.url)

    def activate(self, name: str) -> None:
        with self._connections.transaction() as cursor:
            version = self._complete(cursor, name)
            cursor.execute(f"UPDATE lorentzrec.versions SET activated = true WHERE id = %s OR {WAS_LIVE}", (version,))
            cursor.execute("UPDATE lorentzrec.state SET version = %s", (version,))

    def discard(self, name: str) -> None:
        with self._connections.transaction(LONG_ANSWER_SECONDS) as cursor:
            version = self._locked(cursor, name)
            # The lock makes an activation at the same moment wait, or be seen here.
            cursor.execute("SELECT version FROM lorentzrec.state FOR UPDATE")
            if cursor.fetchall() == [(version,)]:
                raise still_current(name, self.url)
            cursor.execute("DELETE FROM lorentzrec.versions WHERE id = %s", (version,))

    def clean(self) -> int:
        with self._connections.transaction(LONG_ANSWER_SECONDS) as cursor:
            cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", (PUBLISHING,))
            if cursor.fetchall() == [(False,)]:
                return 0
            return cursor.execute(f"DELETE FROM lorentzrec.versions WHERE NOT (complete AND {WAS_LIVE})").rowcount

    def _complete(self, cursor: Cursor, name: str) -> int:
        """The number of a complete version, which nobody can remove until the transaction ends."""
        return self._locked(cursor, name, complete=True)

    def _locked(self, cursor: Cursor, name: str, *, complete: bool = False) -> int:
        cursor.execute(
            "SELECT id FROM lorentzrec.versions WHERE name = %s AND (complete OR NOT %s) FOR UPDATE",
            (checked_name(name), complete),
        )
        if (row := cursor.fetchone()) is None:
            cursor.execute("SELECT name FROM lorentzrec.versions WHERE complete ORDER BY name DESC")
            raise no_such_version(name, self.url, [known for (known,) in cursor])
        return int(row[0])

    # Histories

    def add_events(self, events: Sequence[Event], *, respect_erasures: bool = False) -> Added:
        check_events(events)
        if not events:
            return Added(0, 0)
        keys = {user: key_of(user) for user in {event.user for event in events}}
        patience = ANSWER_SECONDS + len(events) / 1000
        if not respect_erasures:
            with self._connections.statement(patience) as cursor:
                accepted = self._insert(cursor, events, keys)
            return Added(accepted, len(events) - accepted)
        with self._connections.transaction(patience) as cursor:
            # Whoever erases somebody now waits until these events are there, and then removes them, too.
            cursor.execute("LOCK TABLE lorentzrec.erasures IN SHARE MODE")
            salt = self._salt(cursor)
            salted = {user: salted_key(key, salt) for user, key in keys.items()}
            cursor.execute(
                "SELECT user_key, time FROM lorentzrec.erasures WHERE user_key = ANY(%s::uuid[])",
                (list(salted.values()),),
            )
            times = {key.hex: moment for key, moment in cursor}
            erasures = {user: times[key] for user, key in salted.items() if key in times}
            events, erased = after_erasures(events, erasures)
            accepted = self._insert(cursor, events, keys)
        return Added(accepted, len(events) - accepted, erased)

    def _insert(self, cursor: Cursor, events: Sequence[Event], keys: dict[str, str]) -> int:
        """How many of the events are new. `keys`: of the users."""
        rows = [
            (
                keys[event.user],
                key_of(event.id),
                repr(float(event.time)),
                event.user,
                event.item,
                event.id,
                repr(float(event.weight)),
            )
            for event in in_order(events)
        ]
        if not rows:
            return 0
        return cursor.execute(ADD_EVENTS, [SEPARATOR.join(column) for column in zip(*rows, strict=True)]).rowcount

    def history(self, user: str, limit: int = USUAL_HISTORY) -> list[Touch]:
        check_ids("user", [user])
        check_limit(limit)
        with self._connections.statement() as cursor:
            rows = cursor.execute(
                "SELECT item_id, time, weight FROM lorentzrec.events WHERE user_key = %s::uuid"
                " ORDER BY time DESC, item_id DESC LIMIT %s",
                (key_of(user), limit),
            ).fetchall()
        return [Touch(*row) for row in reversed(rows)]

    def forget(self, user: str) -> int:
        check_ids("user", [user])
        with self._connections.transaction() as cursor:
            cursor.execute(
                "INSERT INTO lorentzrec.erasures VALUES (%s::uuid, %s)"
                " ON CONFLICT (user_key) DO UPDATE SET time = excluded.time",
                (salted_key(key_of(user), self._salt(cursor)), time.time()),
            )
            return cursor.execute("DELETE FROM lorentzrec.events WHERE user_key = %s::uuid", (key_of(user),)).rowcount

    def _salt(self, cursor: Cursor) -> str:
        return str(cursor.execute("SELECT salt FROM lorentzrec.privacy").fetchall()[0][0])

    # Live items

    def live_items(self) -> list[str] | None:
        with self._connections.statement() as cursor:
            # One statement sees one state of the database: flag and items belong together.
            rows = cursor.execute(
                "SELECT everything_live, item_id FROM lorentzrec.state"
                " LEFT JOIN lorentzrec.live_items ON NOT everything_live ORDER BY item_id"
            ).fetchall()
        everything, first = rows[0]
        return None if everything else [] if first is None else [item for _, item in rows]

    def set_live_items(self, items: Sequence[str] | None) -> int | None:
        check_ids("item", items or ())
        wanted = sorted(set(items or ()))
        with self._connections.transaction(LONG_ANSWER_SECONDS) as cursor:
            # First, since it is also the lock.
            cursor.execute(f"{NEXT_REVISION}, everything_live = %s", (items is None,))
            cursor.execute("DELETE FROM lorentzrec.live_items")
            cursor.execute("INSERT INTO lorentzrec.live_items SELECT unnest(%s::text[])", (wanted,))
        return None if items is None else len(wanted)

    def change_live_items(self, add: Sequence[str] = (), remove: Sequence[str] = ()) -> int:
        check_ids("item", [*add, *remove])
        with self._connections.transaction() as cursor:
            cursor.execute("SELECT everything_live FROM lorentzrec.state FOR UPDATE")
            if cursor.fetchall() == [(True,)]:
                raise nothing_to_change()
            cursor.execute("DELETE FROM lorentzrec.live_items WHERE item_id = ANY(%s::text[])", (list(remove),))
            changed = cursor.rowcount
            cursor.execute(
                "INSERT INTO lorentzrec.live_items SELECT unnest(%s::text[]) ON CONFLICT DO NOTHING", (list(add),)
            )
            if changed + cursor.rowcount:
                cursor.execute(NEXT_REVISION)
            return int(cursor.execute("SELECT count(*) FROM lorentzrec.live_items").fetchall()[0][0])

    def close(self) -> None:
        self._connections.close()


class _PostgresChunks:
    """The chunks of one version; see `Chunks`. Each is its own transaction, so what is sent stays sent."""

    size = CHUNK_BYTES

    def __init__(self, connections: PostgresConnections, version: int, name: str) -> None:
        self._connections = connections
        self._version = version
        self._name = name

    def present(self) -> dict[tuple[str, int], str]:
        with self._connections.statement() as cursor:
            cursor.execute(
                "SELECT file, number, sha256 FROM lorentzrec.version_chunks WHERE version = %s", (self._version,)
            )
            return {(file, number): digest for file, number, digest in cursor}

    def put(self, file: str, number: int, digest: str, data: bytes) -> None:
        with self._connections.statement() as cursor:
            try:
                cursor.execute(
                    "INSERT INTO lorentzrec.version_chunks VALUES (%s, %s, %s, %s, %s)"
                    " ON CONFLICT (version, file, number) DO UPDATE SET sha256 = excluded.sha256, data = excluded.data",
                    (self._version, file, number, digest, data),
                )
            except errors.ForeignKeyViolation:
                raise removed_meanwhile(self._name, self._connections.url) from None

    def get(self, file: str, number: int) -> bytes | None:
        with self._connections.statement() as cursor:
            cursor.execute(
                "SELECT data FROM lorentzrec.version_chunks WHERE version = %s AND file = %s AND number = %s",
                (self._version, file, number),
            )
            row = cursor.fetchone()
        return None if row is None else bytes(row[0])
