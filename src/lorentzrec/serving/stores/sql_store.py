"""The log of activations, histories, live items and new items in SQL, for SQLite and PostgreSQL.

What differs is a `Dialect`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from lorentzrec.serving.stores.activations import Activation
from lorentzrec.serving.stores.new_items import (
    Change,
    NewItem,
    NewItemsChanged,
    NewItemsRead,
    Origin,
    plan_changes,
)
from lorentzrec.serving.stores.store import (
    Added,
    Event,
    EventPage,
    HistoryEvent,
    LiveCounts,
    LiveItems,
    Store,
    drop_erased,
    key_of,
    salted_key,
    sort_batch,
)

if TYPE_CHECKING:
    from lorentzrec.serving.stores.postgres_connections import PostgresConnections
    from lorentzrec.serving.stores.sqlite_connections import SqliteConnections

PAGE_EVENTS = 50_000
"""Events that `all_events` reads at a time: in a file store, a reader delays the removal of erased bytes."""
LONG_SECONDS = 300.0
"""For what moves gigabytes inside the server, such as the removal of a version."""


Read = Callable[..., list[tuple[Any, ...]]]
"""The rows of a query with these parameters."""


@dataclass(frozen=True)
class Dialect:
    """The names and forms that the statements below use; by default those of SQLite."""

    schema: str = "main"
    live: str = "live"
    """The table with one row about live items."""
    everything: str = "everything"
    """Its column: whether every item is live."""
    revision: str = "revision"
    item: str = "item"
    user: str = "user"
    """The column that identifies a customer in the table of events."""
    user_id: str = "user"
    """The column with the id of the customer."""
    event: str = "id"
    """The column that identifies an event of a customer."""
    event_id: str = "id"
    """The column with the id of the event."""
    key: str = "?"
    """A parameter with the key of a customer."""
    keys: str = "SELECT value FROM json_each(?)"
    """The keys in a JSON array, which is its parameter."""
    parameter: str = "?"
    json_values: str = "json_each(?)"
    """A table of the values of a JSON array, which is its parameter."""
    lock: str = ""
    """Ends a query whose rows no other transaction may change."""


class SqlStore(Store, Protocol):
    """All but the files of versions; a subclass connects to its database, and inserts events."""

    dialect: Dialect = Dialect()
    _connections: SqliteConnections | PostgresConnections

    @property
    def notices(self) -> list[str]:
        return self._connections.notices

    def close(self) -> None:
        self._connections.close()

    def _adding(self, count: int, respect_erasures: bool) -> AbstractContextManager[Any]:
        """A cursor to add this many events; with `respect_erasures`, no customer can be erased in the meantime."""

    def _insert(self, cursor: Any, events: Sequence[Event]) -> int:
        """Insert events that are not duplicates; returns how many."""

    _user_key: Callable[[str], str] = staticmethod(key_of)
    """The customer as the table of events knows them."""

    def _rows(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        with self._connections.statement() as cursor:
            return list(cursor.execute(query, parameters).fetchall())

    def activations(self) -> list[Activation]:
        return self._read_log(self._rows)

    def _read_log(self, read: Read) -> list[Activation]:
        query = f"SELECT version, time, reason, rejected FROM {self.dialect.schema}.activations ORDER BY number"
        return [Activation(*row) for row in read(query)]

    def _record(self, cursor: Any, activation: Activation) -> None:
        values = ", ".join([self.dialect.parameter] * 4)
        statement = f"INSERT INTO {self.dialect.schema}.activations (version, time, reason, rejected) VALUES ({values})"
        cursor.execute(statement, (activation.version, activation.time, activation.reason, activation.rejected))

    def _add_events(self, events: Sequence[Event], respect_erasures: bool) -> Added:
        erased: frozenset[str] = frozenset()
        with self._adding(len(events), respect_erasures) as cursor:
            if respect_erasures:
                events, erased = drop_erased(events, self._erasures(cursor, {event.user for event in events}))
            accepted = self._insert(cursor, sort_batch(events)) if events else 0
        return Added(accepted, len(events) - accepted, erased)

    def _erasures(self, cursor: Any, users: Iterable[str]) -> dict[str, float]:
        """When each of these customers was erased; only those who were."""
        sql, salt = self.dialect, self._salt(cursor)
        by_key = {salted_key(key_of(user), salt): user for user in users}
        query = f"SELECT user_key, time FROM {sql.schema}.erasures WHERE user_key IN ({sql.keys})"
        found = cursor.execute(query, (json.dumps(list(by_key)),)).fetchall()
        return {by_key[str(key).replace("-", "")]: moment for key, moment in found}  # PostgreSQL returns UUIDs

    def _salt(self, cursor: Any) -> str:
        return str(cursor.execute(f"SELECT salt FROM {self.dialect.schema}.privacy").fetchall()[0][0])

    def _history(self, user: str, limit: int) -> list[HistoryEvent]:
        sql = self.dialect
        query = (
            f"SELECT {sql.item}, time, weight FROM {sql.schema}.events WHERE {sql.user} = {sql.key}"
            f" ORDER BY time DESC, {sql.item} DESC LIMIT {sql.parameter}"
        )
        return [*map(HistoryEvent._make, reversed(self._rows(query, self._user_key(user), limit)))]

    def all_events(self) -> Iterator[EventPage]:
        return self._read_pages(self._page)

    def _read_pages(self, read: Read) -> Iterator[EventPage]:
        sql = self.dialect
        order = f"{sql.user}, time, {sql.item}"
        query = f"SELECT {order}, weight, {sql.user_id}, {sql.event_id} FROM {sql.schema}.events"
        after = f" WHERE ({order}) > ({sql.key}, {sql.parameter}, {sql.parameter})"
        last: tuple[Any, ...] = ()
        while True:
            # A page begins after the last event of the one before, which the index finds at once.
            rows = read(f"{query}{after if last else ''} ORDER BY {order} LIMIT {PAGE_EVENTS}", *last)
            if rows:
                _, times, items, weights, users, ids = zip(*rows, strict=True)
                yield EventPage(users, items, times, weights, ids)
            if len(rows) < PAGE_EVENTS:
                return
            last = rows[-1][:3]

    def _page(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        """`_rows` of a query with many rows."""
        return self._rows(query, *parameters)

    def erasures(self, users: Sequence[str]) -> dict[str, float]:
        found: dict[str, float] = {}
        for start in range(0, len(users), PAGE_EVENTS):
            with self._connections.statement() as cursor:
                found |= self._erasures(cursor, users[start : start + PAGE_EVENTS])
        return found

    def _forget(self, user: str) -> int:
        sql = self.dialect
        record = (
            f"INSERT INTO {sql.schema}.erasures (user_key, time) VALUES ({sql.key}, {sql.parameter})"
            " ON CONFLICT (user_key) DO UPDATE SET time = excluded.time"
        )
        with self._connections.transaction() as cursor:
            cursor.execute(record, (salted_key(key_of(user), self._salt(cursor)), time.time()))
            remove = f"DELETE FROM {sql.schema}.events WHERE {sql.user} = {sql.key}"
            events = int(cursor.execute(remove, (self._user_key(user),)).rowcount)
            self._change_rows(cursor, None, lambda item: item.without_customer(user))
            return events

    # The table `live_items` has the live items or, if everything is live, the exceptions: those that were removed. 0.1
    # does not read it if everything is live.

    def live_items(self) -> LiveItems:
        return self._read_live(self._rows)

    def _read_live(self, read: Read) -> LiveItems:
        sql = self.dialect
        # One statement sees one state of the database: flag and items belong together.
        rows = read(
            f"SELECT {sql.everything}, {sql.item} FROM {sql.schema}.{sql.live}"
            f" LEFT JOIN {sql.schema}.live_items ON true ORDER BY {sql.item}"
        )
        everything, first = rows[0]
        listed = [] if first is None else [item for _, item in rows]
        return LiveItems(None, listed) if everything else LiveItems(listed)

    def _set_live_items(self, items: list[str] | None) -> None:
        sql = self.dialect
        with self._connections.transaction(LONG_SECONDS) as cursor:
            # First, since it is also the lock.
            cursor.execute(f"{self._next_revision}, {sql.everything} = {sql.parameter}", (items is None,))
            cursor.execute(f"DELETE FROM {sql.schema}.live_items")
            self._add_items(cursor, items or [])

    def _change_live_items(self, add: list[str], remove: list[str], limit: int) -> LiveCounts:
        sql = self.dialect
        with self._connections.transaction() as cursor:
            query = f"SELECT {sql.everything} FROM {sql.schema}.{sql.live}{sql.lock}"
            everything = bool(cursor.execute(query).fetchall()[0][0])
            listed, unlisted = (remove, add) if everything else (add, remove)
            statement = f"DELETE FROM {sql.schema}.live_items WHERE {sql.item} IN (SELECT value FROM {sql.json_values})"
            deleted = cursor.execute(statement, (json.dumps(unlisted),)).rowcount
            added = self._add_items(cursor, listed)
            if added + deleted:
                cursor.execute(self._next_revision)
            count = int(cursor.execute(f"SELECT count(*) FROM {sql.schema}.live_items").fetchall()[0][0])
            counts = LiveCounts(None, count) if everything else LiveCounts(count)
            counts.check_growth(count - added + deleted, limit)
        return counts

    @property
    def _next_revision(self) -> str:
        sql = self.dialect
        return f"UPDATE {sql.schema}.{sql.live} SET {sql.revision} = {sql.revision} + 1"

    def _add_items(self, cursor: Any, items: Sequence[str]) -> int:
        sql = self.dialect
        values = f"SELECT value FROM {sql.json_values} WHERE true"
        statement = f"INSERT INTO {sql.schema}.live_items {values} ON CONFLICT DO NOTHING"
        return int(cursor.execute(statement, (json.dumps(items),)).rowcount)

    # New items: a row each, with the revision of its last change. A removal leaves no row, so `items_reset` has the
    # revision of the last one: a reader who has an older revision reads all rows.

    def new_items(self, since: int = 0, limit: int = sys.maxsize) -> NewItemsRead:
        sql = self.dialect
        # First, so that rows may be newer than the revision, which does no harm, and never older.
        ((revision, reset),) = self._rows(f"SELECT items_revision, items_reset FROM {sql.schema}.{sql.live}")
        if reset > since or revision < since:
            since = 0
        query = (
            f"SELECT item, content FROM {sql.schema}.new_items WHERE origin = {sql.parameter}"
            f" AND changed > {sql.parameter} ORDER BY item LIMIT {sql.parameter}"
        )
        found: list[NewItem] = []
        with self._connections.statement() as cursor:
            for origin in Origin:
                rows = cursor.execute(query, (origin.value, since, limit))
                found += [NewItem.from_json(item, content) for item, content in rows]  # the texts are not kept
        return NewItemsRead(sorted(found, key=lambda item: item.id), revision, complete=since == 0)

    def _change_new_items(self, items: Sequence[str] | None, change: Change, limit: int = 0) -> NewItemsChanged:
        with self._connections.transaction() as cursor:
            return self._change_rows(cursor, items, change, limit)

    def _change_rows(self, cursor: Any, items: Sequence[str] | None, change: Change, limit: int = 0) -> NewItemsChanged:
        """As `_change_new_items`, inside of a transaction."""
        sql = self.dialect
        state, table = f"{sql.schema}.{sql.live}", f"{sql.schema}.new_items"
        # First, since it is also the lock.
        revision = cursor.execute(f"SELECT items_revision FROM {state}{sql.lock}").fetchall()[0][0] + 1
        query = f"SELECT item, content FROM {table}"
        values: tuple[str, ...] = ()
        if items is not None:
            query, values = f"{query} WHERE item IN (SELECT value FROM {sql.json_values})", (json.dumps(items),)
        found = {item: NewItem.from_json(item, content) for item, content in cursor.execute(query, values).fetchall()}

        def room(origin: Origin) -> int:
            count = f"SELECT count(*) FROM {table} WHERE origin = {sql.parameter}"
            return limit - int(cursor.execute(count, (origin.value,)).fetchall()[0][0])

        changes, left_out = plan_changes(items, found, change, room)
        insert = f"INSERT INTO {table} (item, changed, content, origin) VALUES ({', '.join([sql.parameter] * 4)})"
        insert += " ON CONFLICT (item) DO UPDATE SET (changed, content, origin) ="
        insert += " (excluded.changed, excluded.content, excluded.origin)"
        for item, after in changes.items():
            if after is None:
                cursor.execute(f"DELETE FROM {table} WHERE item = {sql.parameter}", (item,))
            else:
                cursor.execute(insert, (item, revision, after.to_json(), after.origin.value))
        if changes:
            reset = f", items_reset = {revision}" if None in changes.values() else ""
            cursor.execute(f"UPDATE {state} SET items_revision = {revision}{reset}")
        return NewItemsChanged(len(changes), left_out)
