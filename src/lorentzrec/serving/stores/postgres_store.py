"""The store in PostgreSQL, for several machines. Its tables are in the schema `lorentzrec`: see `postgres_schema`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from psycopg import IsolationLevel, errors

from lorentzrec.errors import LorentzrecError
from lorentzrec.serving.stores.activations import Arms
from lorentzrec.serving.stores.faults import StoreFault, is_damage
from lorentzrec.serving.stores.histories import Event
from lorentzrec.serving.stores.ids import make_key
from lorentzrec.serving.stores.postgres_connections import RESPONSE_SECONDS, Cursor, PostgresConnections
from lorentzrec.serving.stores.postgres_schema import prepare_tables
from lorentzrec.serving.stores.snapshot import CheckedPart
from lorentzrec.serving.stores.sql_store import LONG_SECONDS, Dialect, SqlStore
from lorentzrec.serving.stores.store import Migrating
from lorentzrec.serving.stores.version_files import ChunkedVersions
from lorentzrec.serving.stores.versions import Decide, State, check_name

PUBLISHING = 0x7075626C697368
"""The advisory lock of publishers ("publish"), which prevents others from cleaning up."""
SEPARATOR = "\x1f"
"""A control character, so no id holds it. Columns are sent as one text each: psycopg's arrays are several times
slower."""
EVENT_TYPES = ("uuid", "uuid", "double precision", "text", "text", "text", "double precision")
ADD_EVENTS = (
    "INSERT INTO lorentzrec.events SELECT * FROM unnest("
    + ", ".join(f"string_to_array(%s, e'\\x1f')::{kind}[]" for kind in EVENT_TYPES)
    + ") ON CONFLICT DO NOTHING"
)


TABLES = {
    "versions": "id, name, manifest, complete",
    "version_chunks": "version, file, number, sha256, data",
    "state": "live_revision, everything_live, items_revision, items_reset, restoring",
    "activations": "number, version, time, reason, rejected, arm, share",
    "live_items": "item_id",
    "new_items": "item, changed, content, origin",
    "events": "user_key, event_key, time, user_id, item_id, event_id, weight, arrived",
    "erasures": "user_key, time",
    "privacy": "salt",
}
MOST_NAMED = 20
"""Damaged events that are named."""


class PostgresStore(ChunkedVersions, SqlStore):
    """The store at a PostgreSQL `address`; see `Store` for what each method means."""

    _connections: PostgresConnections
    chunk_bytes = 4 * 2**20
    dialect = Dialect(
        schema="lorentzrec",
        user="user_key",
        event="event_key",
        key="%s::uuid",
        keys="SELECT value::uuid FROM json_array_elements_text(%s::json)",
        parameter="%s",
        json_values="json_array_elements_text(%s::json)",
        lock=" FOR UPDATE",
    )

    def __init__(self, address: str, *, create: bool, connections: int, migrate: Migrating | None = None) -> None:
        self._connections = PostgresConnections(address, connections)
        self.url = self._connections.url
        try:
            prepare_tables(self._connections, create=create, migrate=migrate)
        except BaseException:
            self.close()
            raise

    # Versions

    def state(self) -> State:
        return self._read_state(self._rows)

    def versions(self) -> list[str]:
        found = self._rows("SELECT name FROM lorentzrec.versions WHERE complete ORDER BY name DESC")
        return [name for (name,) in found]

    @contextmanager
    def publishing(self) -> Iterator[None]:
        with self._connections.session(LONG_SECONDS) as cursor:
            cursor.execute("SELECT pg_advisory_lock_shared(%s)", (PUBLISHING,))
            try:
                yield
            finally:
                # The server would notice a moment after the end of the connection, too late for a `clean` that follows.
                with suppress(errors.Error):
                    cursor.execute("SELECT pg_advisory_unlock_shared(%s)", (PUBLISHING,))

    def _activate(self, decide: Decide) -> None:
        with self._connections.transaction() as cursor:
            entry = decide(self._lock_arms(cursor))
            if not entry.ends:
                self._lock_version(cursor, entry.version, "complete")
            self._record(cursor, entry)

    def discard(self, name: str) -> None:
        with self._connections.transaction(LONG_SECONDS) as cursor:
            arms = self._lock_arms(cursor)
            version = self._lock_version(cursor, name, "true")
            if name in [arm.version for arm in arms.values()]:
                raise StoreFault.CURRENT_VERSION.error(name=name, store=self.url)
            cursor.execute("DELETE FROM lorentzrec.versions WHERE id = %s", (version,))

    def clean(self) -> int:
        with self._connections.transaction(LONG_SECONDS) as cursor:
            if cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", (PUBLISHING,)).fetchall() == [(False,)]:
                return 0
            leftover = "NOT (complete AND name IN (SELECT version FROM lorentzrec.activations))"
            # Two statements: the second one sees an activation that the first one has waited for.
            cursor.execute(f"SELECT FROM lorentzrec.versions WHERE {leftover} FOR UPDATE")
            return cursor.execute(f"DELETE FROM lorentzrec.versions WHERE {leftover}").rowcount

    def _lock_arms(self, cursor: Cursor) -> Arms:
        """The live arms, which no other process can change until the transaction ends.

        Before `_lock_version` in every transaction: two that take both locks cannot wait for one another.
        """
        cursor.execute("SELECT FROM lorentzrec.state FOR UPDATE")
        # A statement of its own: it sees what was committed while the lock was waited for.
        return self._read_state(lambda query: list(cursor.execute(query.encode()).fetchall())).arms

    def _lock_version(self, cursor: Cursor, name: str, condition: str) -> int:
        """The number of a version, which no other process can remove until the transaction ends."""
        query = f"SELECT id FROM lorentzrec.versions WHERE name = %s AND {condition} FOR UPDATE"
        if (row := cursor.execute(query, (check_name(name),)).fetchone()) is None:
            raise self._no_version(name)
        return int(row[0])

    # Chunks of versions: each is its own transaction, so what is sent stays sent

    def _begin_upload(self, name: str, manifest: bytes) -> int:
        with self._connections.transaction() as cursor:
            # An interrupted upload of other content under this name has nothing that could be resumed.
            outdated = "DELETE FROM lorentzrec.versions WHERE name = %s AND manifest <> %s AND NOT complete"
            cursor.execute(outdated, (name, manifest))
            insert = "INSERT INTO lorentzrec.versions (name, manifest) VALUES (%s, %s) ON CONFLICT DO NOTHING"
            cursor.execute(insert, (name, manifest))
            query = "SELECT id, manifest FROM lorentzrec.versions WHERE name = %s"
            ((version, present),) = cursor.execute(query, (name,)).fetchall()
        if present != manifest:
            raise StoreFault.OTHER_CONTENT.error(name=name, store=self.url)
        return int(version)

    def _end_upload(self, version: int) -> bool:
        return bool(self._rows("UPDATE lorentzrec.versions SET complete = true WHERE id = %s RETURNING id", version))

    def _find_version(self, name: str) -> tuple[int, bytes]:
        query = "SELECT id, manifest FROM lorentzrec.versions WHERE name = %s AND complete"
        if not (found := self._rows(query, check_name(name))):
            raise self._no_version(name)
        return found[0][0], found[0][1]

    def _list_chunks(self, version: int) -> dict[tuple[str, int], str]:
        query = "SELECT file, number, sha256 FROM lorentzrec.version_chunks WHERE version = %s"
        return {(file, number): digest for file, number, digest in self._rows(query, version)}

    def _write_chunk(self, version: int, file: str, number: int, digest: str, data: bytes) -> bool:
        insert = (
            "INSERT INTO lorentzrec.version_chunks VALUES (%s, %s, %s, %s, %s)"
            " ON CONFLICT (version, file, number) DO UPDATE SET sha256 = excluded.sha256, data = excluded.data"
        )
        with self._connections.statement() as cursor, suppress(errors.ForeignKeyViolation):
            cursor.execute(insert, (version, file, number, digest, data))
            return True
        return False

    def _read_chunk(self, version: int, file: str, number: int) -> bytes | None:
        query = "SELECT data FROM lorentzrec.version_chunks WHERE version = %s AND file = %s AND number = %s"
        found = self._rows(query, version, file, number)
        return bytes(found[0][0]) if found else None

    # Histories

    @contextmanager
    def _adding(self, count: int, respect_erasures: bool) -> Iterator[Cursor]:
        begin = self._connections.transaction if respect_erasures else self._connections.statement
        with begin(RESPONSE_SECONDS + count / 1000) as cursor:
            if respect_erasures:
                # An erasure that begins now waits until these events are there, and then removes them, too.
                cursor.execute("LOCK TABLE lorentzrec.erasures IN SHARE MODE")
            yield cursor

    def _page(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        with self._connections.statement(LONG_SECONDS) as cursor:
            return list(cursor.execute(query.encode(), parameters).fetchall())

    def _insert(self, cursor: Cursor, events: Sequence[Event]) -> int:
        keys = {user: make_key(user) for user in {event.user for event in events}}
        rows = (
            (keys[e.user], make_key(e.id), repr(float(e.time)), e.user, e.item, e.id, repr(float(e.weight)))
            for e in events
        )
        return cursor.execute(ADD_EVENTS, [SEPARATOR.join(column) for column in zip(*rows, strict=True)]).rowcount

    @contextmanager
    def _reading(self) -> Iterator[Cursor]:
        with self._connections.session(math.inf) as cursor:
            cursor.connection.isolation_level = IsolationLevel.REPEATABLE_READ
            with cursor.connection.transaction():
                cursor.execute("SET LOCAL statement_timeout = 0")
                yield cursor

    def check_database(self) -> Iterator[CheckedPart]:
        damage = []
        for table, columns in TABLES.items():
            try:
                self._rows(f"SELECT {columns} FROM lorentzrec.{table} LIMIT 0")
            except LorentzrecError as error:
                if not is_damage(error):
                    raise
                damage.append(f"table {table}: {' '.join(str(error.__cause__).split())}")
        yield CheckedPart("tables", f"{len(TABLES)} tables with their columns", damage)
        if not damage:
            yield self._check_keys()
            yield self._check_indexes()

    def _check_keys(self) -> CheckedPart:
        """The index finds events by digests of their ids: with a wrong one, an event is not found, or counts twice."""
        query = "SELECT user_key, user_id, event_key, event_id FROM lorentzrec.events"
        count, damage = 0, list[str]()
        with self._reading() as cursor, cursor.connection.cursor("keys", binary=True) as rows:
            for user_key, user, event_key, event in rows.execute(query):
                count += 1
                if (user_key.hex, event_key.hex) != (make_key(user), make_key(event)) and len(damage) < MOST_NAMED:
                    damage.append(f"event {event!r} of user {user!r} has a wrong key")
        return CheckedPart("keys of events", f"{count:,} events", damage)

    def _check_indexes(self) -> CheckedPart:
        query = "SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace AS space ON space.oid = extnamespace"
        if not (schemas := self._rows(f"{query} WHERE extname = 'amcheck'")):
            return CheckedPart("indexes", "not checked: the database has no amcheck (CREATE EXTENSION amcheck)")
        query = "SELECT indexrelid, indexrelid::regclass::text FROM pg_index JOIN pg_class ON oid = indexrelid"
        found = self._rows(f"{query} WHERE relnamespace = 'lorentzrec'::regnamespace")
        check, damage = f"{schemas[0][0]}.bt_index_check", []
        for index, name in found:
            try:
                with self._reading() as cursor:
                    cursor.execute(f"SELECT {check}(%s::oid)".encode(), (index,))
            except LorentzrecError as error:
                cause = " ".join(str(error.__cause__).split())
                if isinstance(error.__cause__, errors.InsufficientPrivilege):
                    grant = f"GRANT EXECUTE ON FUNCTION {check}(regclass) TO the user of the store"
                    return CheckedPart("indexes", f"not checked: {cause} ({grant})")
                if not isinstance(error.__cause__, errors.IndexCorrupted | errors.DataCorrupted):
                    raise
                damage.append(f"{name}: {cause}")
        return CheckedPart("indexes", f"{len(found)} indexes, by amcheck", damage, "REINDEX SCHEMA lorentzrec")

    def _count_bytes(self, cursor: Cursor) -> int:
        query = "SELECT sum(pg_total_relation_size(oid)) FROM pg_class"
        query += " WHERE relnamespace = 'lorentzrec'::regnamespace AND relkind = 'r'"
        return int(cursor.execute(query.encode()).fetchall()[0][0])
