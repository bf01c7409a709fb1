"""The log of activations, histories, catalogue and rules in SQL, for SQLite and PostgreSQL; and all of it as a whole.

What differs is a `Dialect`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from lorentzrec.serving.stores.activations import Activation, find_arms
from lorentzrec.serving.stores.catalogue import LiveCounts, LiveItems
from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.stores.histories import (
    LATEST_SECONDS,
    OVERLAP_SECONDS,
    Added,
    Event,
    EventMark,
    EventPage,
    RecentEvents,
    StoredEvent,
    drop_erased,
    sort_batch,
)
from lorentzrec.serving.stores.ids import make_key, salted_key
from lorentzrec.serving.stores.new_items import (
    Change,
    NewItem,
    Origin,
    plan_changes,
)
from lorentzrec.serving.stores.rules import KEPT_DOCUMENTS, Next, RuleChange
from lorentzrec.serving.stores.snapshot import Erasure, Pruned, Snapshot, StoreSize
from lorentzrec.serving.stores.store import Store
from lorentzrec.serving.stores.versions import State

if TYPE_CHECKING:
    from lorentzrec.serving.stores.postgres_connections import PostgresConnections
    from lorentzrec.serving.stores.sqlite_connections import SqliteConnections

RULES = "revision, time, reason, who"
"""The columns of a change of rules, in the order of `RuleChange`; the document is the last one."""
PAGE_EVENTS = 50_000
"""Events that `all_events` reads at a time: in a file store, a reader delays the removal of erased bytes."""
MARKED = (("max(arrived)", "events"), ("sum(CAST(time AS numeric))", "erasures"))
"""The numbers of an `EventMark`, with their tables. Clocks of machines differ, so an erasure may not be the newest."""
ENTRY = "version, time, reason, rejected, arm, share"
"""The columns of an entry of the log, in the order of `Activation`."""
PRUNED_EVENTS = 5000
"""Events of the customers that are looked at in one step: other writers wait for as long as these take to delete."""
LONG_SECONDS = 300.0
"""For what moves gigabytes inside the server, such as the removal of a version."""


Read = Callable[..., list[tuple[Any, ...]]]
"""The rows of a query with these parameters."""


@dataclass(frozen=True)
class Dialect:
    """The names and forms that the statements below use; by default those of SQLite."""

    schema: str = "main"
    user: str = "user_id"
    """The column that identifies a customer in the table of events."""
    event: str = "event_id"
    """The column that identifies an event of a customer."""
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

    _user_key: Callable[[str], str] = staticmethod(make_key)
    """The customer as the table of events knows them."""

    def _rows(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        with self._connections.statement() as cursor:
            return list(cursor.execute(query, parameters).fetchall())

    def activations(self) -> list[Activation]:
        return self._read_log(self._rows)

    def _read_log(self, read: Read) -> list[Activation]:
        query = f"SELECT {ENTRY} FROM {self.dialect.schema}.activations ORDER BY number"
        return [Activation(*row) for row in read(query)]

    def _read_state(self, read: Read) -> State:
        """The state according to the last entry of each arm, in one statement."""
        sql = self.dialect
        last = f"SELECT max(number) FROM {sql.schema}.activations GROUP BY arm"
        log = f"{sql.schema}.state LEFT JOIN {sql.schema}.activations ON number IN ({last})"
        newest = f"(SELECT coalesce(max(revision), 0) FROM {sql.schema}.rules)"
        rows = read(f"SELECT live_revision, items_revision, items_reset, {newest}, {ENTRY} FROM {log}")
        live, items, reset, rules = rows[0][:4]
        arms = find_arms(Activation(*row[4:]) for row in rows if row[4] is not None)
        return State(arms, live, items, reset, rules_revision=rules)

    def _record(self, cursor: Any, entry: Activation) -> None:
        values = ", ".join([self.dialect.parameter] * 6)
        row = (entry.version, entry.time, entry.reason, entry.rejected, entry.arm, entry.share)
        cursor.execute(f"INSERT INTO {self.dialect.schema}.activations ({ENTRY}) VALUES ({values})", row)

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
        by_key = {salted_key(make_key(user), salt): user for user in users}
        query = f"SELECT user_key, time FROM {sql.schema}.erasures WHERE user_key IN ({sql.keys})"
        found = cursor.execute(query, (json.dumps(list(by_key)),)).fetchall()
        return {by_key[str(key).replace("-", "")]: moment for key, moment in found}  # PostgreSQL returns UUIDs

    def _salt(self, cursor: Any) -> str:
        return str(cursor.execute(f"SELECT salt FROM {self.dialect.schema}.privacy").fetchall()[0][0])

    def _history(self, user: str, limit: int) -> list[StoredEvent]:
        sql = self.dialect
        query = (
            f"SELECT item_id, time, weight FROM {sql.schema}.events WHERE {sql.user} = {sql.key}"
            f" ORDER BY time DESC, item_id DESC LIMIT {sql.parameter}"
        )
        return [*map(StoredEvent._make, reversed(self._rows(query, self._user_key(user), limit)))]

    def all_events(self) -> Iterator[EventPage]:
        return self._read_pages(self._page)

    def _read_pages(self, read: Read) -> Iterator[EventPage]:
        sql = self.dialect
        order = f"{sql.user}, time, item_id"
        query = f"SELECT {order}, weight, user_id, event_id FROM {sql.schema}.events"
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

    def recent_events(
        self, since: float, take: Callable[[RecentEvents], None], after: EventMark | None = None
    ) -> EventMark:
        sql = self.dialect
        newest, erased = (f"(SELECT coalesce({number}, 0) FROM {sql.schema}.{table})" for number, table in MARKED)
        arrived_last, erasures, salt = self._rows(f"SELECT {newest}, {erased}, salt FROM {sql.schema}.privacy")[0]
        mark = EventMark(arrived_last, float(erasures), salt)
        start = since - LATEST_SECONDS if after is None else after.arrived - OVERLAP_SECONDS
        query = (
            f"SELECT arrived, user_id, item_id, time FROM {sql.schema}.events WHERE arrived >= {sql.parameter}"
            f" AND time > {sql.parameter} AND weight > 0 ORDER BY arrived LIMIT {sql.parameter}"
        )
        limit = PAGE_EVENTS
        while True:
            rows = self._page(query, start, since, limit)
            if rows:
                arrived, users, items, times = zip(*rows, strict=True)
                take(RecentEvents(users, items, times))
            if len(rows) < limit:
                return mark
            # The next page repeats what arrived at the last moment of this one.
            start, limit = (arrived[-1], limit) if arrived[-1] > start else (start, 2 * limit)

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
            cursor.execute(record, (salted_key(make_key(user), self._salt(cursor)), time.time()))
            remove = f"DELETE FROM {sql.schema}.events WHERE {sql.user} = {sql.key}"
            events = int(cursor.execute(remove, (self._user_key(user),)).rowcount)
            self._change_rows(cursor, None, lambda item: item.without_customer(user))
            return events

    # The table `live_items` has the live items or, if everything is live, those that were removed.

    def live_items(self) -> LiveItems:
        return self._read_live(self._rows)

    def _read_live(self, read: Read) -> LiveItems:
        sql = self.dialect
        # One statement sees one state of the database: flag and items belong together.
        rows = read(
            f"SELECT everything_live, item_id FROM {sql.schema}.state"
            f" LEFT JOIN {sql.schema}.live_items ON true ORDER BY item_id"
        )
        everything, first = rows[0]
        listed = [] if first is None else [item for _, item in rows]
        return LiveItems(None, listed) if everything else LiveItems(listed)

    def _set_live_items(self, items: list[str] | None) -> None:
        sql = self.dialect
        with self._connections.transaction(LONG_SECONDS) as cursor:
            # First, since it is also the lock.
            cursor.execute(f"{self._next_revision}, everything_live = {sql.parameter}", (items is None,))
            cursor.execute(f"DELETE FROM {sql.schema}.live_items")
            self._add_items(cursor, items or [])

    def _change_live_items(self, add: list[str], remove: list[str], limit: int) -> LiveCounts:
        sql = self.dialect
        with self._connections.transaction() as cursor:
            query = f"SELECT everything_live FROM {sql.schema}.state{sql.lock}"
            everything = bool(cursor.execute(query).fetchall()[0][0])
            listed, unlisted = (remove, add) if everything else (add, remove)
            statement = f"DELETE FROM {sql.schema}.live_items WHERE item_id IN (SELECT value FROM {sql.json_values})"
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
        return f"UPDATE {sql.schema}.state SET live_revision = live_revision + 1"

    def _add_items(self, cursor: Any, items: Sequence[str]) -> int:
        sql = self.dialect
        values = f"SELECT value FROM {sql.json_values} WHERE true"
        statement = f"INSERT INTO {sql.schema}.live_items {values} ON CONFLICT DO NOTHING"
        return int(cursor.execute(statement, (json.dumps(items),)).rowcount)

    # New items: a row each, with the revision of its last change. A removal leaves no row, so `items_reset` has the
    # revision of the last one: a reader who has an older revision reads all rows.

    def new_items(self, since: int = 0, limit: int = sys.maxsize) -> list[NewItem]:
        sql = self.dialect
        query = (
            f"SELECT item, content FROM {sql.schema}.new_items WHERE origin = {sql.parameter}"
            f" AND changed > {sql.parameter} ORDER BY item LIMIT {sql.parameter}"
        )
        found: list[NewItem] = []
        with self._connections.statement() as cursor:
            for origin in Origin:
                rows = cursor.execute(query, (origin.value, since, limit))
                found += [NewItem.from_json(item, content) for item, content in rows]  # the texts are not kept
        return sorted(found, key=lambda item: item.id)

    def _change_new_items(self, items: Sequence[str] | None, change: Change, limit: int = 0) -> tuple[int, int]:
        with self._connections.transaction() as cursor:
            return self._change_rows(cursor, items, change, limit)

    def _change_rows(self, cursor: Any, items: Sequence[str] | None, change: Change, limit: int = 0) -> tuple[int, int]:
        """As `_change_new_items`, inside of a transaction."""
        sql = self.dialect
        state, table = f"{sql.schema}.state", f"{sql.schema}.new_items"
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
        return len(changes), left_out

    # Rules: a row for each revision, of which the newest have their document.

    def _rules(self, revision: int | None) -> RuleChange | None:
        sql = self.dialect
        which = f"revision = (SELECT max(revision) FROM {sql.schema}.rules)"
        values: tuple[int, ...] = ()
        if revision is not None:
            which, values = f"revision = {sql.parameter}", (revision,)
        rows = self._rows(f"SELECT {RULES}, document FROM {sql.schema}.rules WHERE {which}", *values)
        return RuleChange(*rows[0]) if rows else None

    def rules_log(self) -> list[RuleChange]:
        query = f"SELECT {RULES} FROM {self.dialect.schema}.rules ORDER BY revision DESC"
        return [RuleChange(*row) for row in self._rows(query)]

    def _add_rules(self, decide: Next) -> RuleChange:
        sql = self.dialect
        with self._connections.transaction(LONG_SECONDS) as cursor:
            # First, since it is also the lock.
            cursor.execute(f"SELECT live_revision FROM {sql.schema}.state{sql.lock}").fetchall()
            newest = f"SELECT coalesce(max(revision), 0) FROM {sql.schema}.rules"
            change = decide(int(cursor.execute(newest).fetchall()[0][0]))
            self._insert_rules(cursor, change)
            remove = f"UPDATE {sql.schema}.rules SET document = NULL WHERE revision <= {sql.parameter}"
            cursor.execute(remove, (change.revision - KEPT_DOCUMENTS,))
        return change

    def _insert_rules(self, cursor: Any, change: RuleChange) -> None:
        values = ", ".join([self.dialect.parameter] * 5)
        row = (change.revision, change.time, change.reason, change.who, change.document)
        cursor.execute(f"INSERT INTO {self.dialect.schema}.rules ({RULES}, document) VALUES ({values})", row)

    def _put_rules(self, log: list[RuleChange]) -> None:
        with self._connections.transaction(LONG_SECONDS) as cursor:
            cursor.execute(f"DELETE FROM {self.dialect.schema}.rules")
            for change in log:
                self._insert_rules(cursor, change)

    # The whole store: read at one moment, measured, pruned, restored

    def _reading(self) -> AbstractContextManager[Any]:
        """A cursor that sees one state of the database, without a time limit."""

    def _count_bytes(self, cursor: Any) -> int:
        """The size of all files or tables."""

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        schema = self.dialect.schema
        with self._reading() as cursor:

            def read(query: str, *parameters: object) -> list[tuple[Any, ...]]:
                return list(cursor.execute(query, parameters).fetchall())

            erasures = read(f"SELECT user_key, time FROM {schema}.erasures ORDER BY user_key")
            yield Snapshot(
                activations=self._read_log(read),
                live=self._read_live(read),
                rules=[
                    RuleChange(*row) for row in read(f"SELECT {RULES}, document FROM {schema}.rules ORDER BY revision")
                ],
                new_items=[NewItem.from_json(*row) for row in read(f"SELECT item, content FROM {schema}.new_items")],
                salt=self._salt(cursor),
                erasures=[(str(key).replace("-", ""), moment) for key, moment in erasures],  # PostgreSQL returns UUIDs
                events=self._read_pages(read),
            )

    def measure(self) -> StoreSize:
        sql = self.dialect
        per_customer = f"SELECT count(*) AS events FROM {sql.schema}.events GROUP BY {sql.user}"
        with self._reading() as cursor:
            query = f"SELECT coalesce(sum(events), 0), count(*) FROM ({per_customer}) AS customers"
            ((events, customers),) = cursor.execute(query).fetchall()
            origins = cursor.execute(f"SELECT origin, count(*) FROM {sql.schema}.new_items GROUP BY origin").fetchall()
            return StoreSize(int(events), int(customers), self._count_bytes(cursor), dict(origins))

    def prune_events(self, before: float, newest: int, *, dry_run: bool = False) -> Iterator[Pruned]:
        sql = self.dialect
        delete = f"DELETE FROM {sql.schema}.events WHERE {sql.user} = {sql.key} AND {sql.event} = {sql.key}"
        last: tuple[Any, ...] = ()
        while True:
            after = f"{sql.user} > {sql.key}" if last else "true"
            end = f"SELECT {sql.user} FROM {sql.schema}.events WHERE {after} ORDER BY {sql.user}"
            until = tuple(self._page(f"{end} LIMIT 1 OFFSET {PRUNED_EVENTS}", *last)[:1])
            upper = f"{sql.user} <= {sql.key}" if until else "true"
            rank = f"row_number() OVER (PARTITION BY {sql.user} ORDER BY time DESC, item_id DESC) AS number"
            ranked = f"SELECT {sql.user}, {sql.event}, time, {rank} FROM {sql.schema}.events WHERE {after} AND {upper}"
            limits = f"number > {sql.parameter} AND time < {sql.parameter}"
            bounds = (*last, *(until[0] if until else ()))
            query = f"SELECT {sql.user}, {sql.event} FROM ({ranked}) AS ranked WHERE {limits}"
            old = self._page(query, *bounds, newest, before)
            removed = len(old)
            if old and not dry_run:
                with self._connections.transaction(LONG_SECONDS) as cursor:
                    removed = _execute_many(cursor, delete, old)
            yield Pruned(removed, len({customer for customer, _ in old}))
            if not until:
                return
            last = until[0]

    def find_restore(self) -> str | None:
        ((backup,),) = self._rows(f"SELECT restoring FROM {self.dialect.schema}.state")
        return None if backup is None else str(backup)

    def begin_restore(self, backup: str, check: Callable[[], None]) -> None:
        sql = self.dialect
        mark = f"UPDATE {sql.schema}.state SET restoring = {sql.parameter} WHERE restoring IS NULL"
        with self._connections.transaction() as cursor:
            # First, since it is also the lock: what another restore has written is there when `check` reads.
            if cursor.execute(mark, (backup,)).rowcount != 1:
                raise StoreFault.RESTORING.error(store=self.url)
            check()

    def end_restore(
        self, backup: str, salt: str | None, erasures: Sequence[Erasure], log: Sequence[Activation]
    ) -> None:
        sql = self.dialect
        end = f"UPDATE {sql.schema}.state SET restoring = NULL WHERE restoring = {sql.parameter}"
        record = f"INSERT INTO {sql.schema}.erasures (user_key, time) VALUES ({sql.key}, {sql.parameter})"
        with self._connections.transaction(LONG_SECONDS) as cursor:
            if cursor.execute(end, (backup,)).rowcount != 1:
                raise StoreFault.RESTORE_ENDED.error(store=self.url)
            for table in ("erasures", "activations"):
                cursor.execute(f"DELETE FROM {sql.schema}.{table}")
            if salt is not None:
                cursor.execute(f"UPDATE {sql.schema}.privacy SET salt = {sql.parameter}", (salt,))
            if erasures:
                cursor.executemany(record, erasures)
            for activation in log:
                self._record(cursor, activation)


def _execute_many(cursor: Any, statement: str, rows: Sequence[tuple[Any, ...]]) -> int:
    """The number of rows changed. The module of SQLite returns a cursor that knows it; psycopg changes its own."""
    return int((cursor.executemany(statement, rows) or cursor).rowcount)
