"""A whole store in SQL, for SQLite and PostgreSQL: read at one moment, measured, pruned, restored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from lorentzrec.serving.stores.activations import Activation
from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.stores.new_items import NewItem
from lorentzrec.serving.stores.snapshot import Erasure, Pruned, Snapshot, StoreSize
from lorentzrec.serving.stores.sql_store import LONG_SECONDS, SqlStore

PRUNED_EVENTS = 5000
"""Events of the customers that are looked at in one step: other writers wait for as long as these take to delete."""


class SqlUpkeep(SqlStore, Protocol):
    """The part of an SQL store that handles all of it at once; a subclass provides a state that does not change."""

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
            rank = f"row_number() OVER (PARTITION BY {sql.user} ORDER BY time DESC, {sql.item} DESC) AS number"
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
        ((backup,),) = self._rows(f"SELECT restoring FROM {self.dialect.schema}.{self.dialect.live}")
        return None if backup is None else str(backup)

    def begin_restore(self, backup: str, check: Callable[[], None]) -> None:
        sql = self.dialect
        mark = f"UPDATE {sql.schema}.{sql.live} SET restoring = {sql.parameter} WHERE restoring IS NULL"
        with self._connections.transaction() as cursor:
            # First, since it is also the lock: what another restore has written is there when `check` reads.
            if cursor.execute(mark, (backup,)).rowcount != 1:
                raise StoreFault.RESTORING.error(store=self.url)
            check()

    def end_restore(
        self, backup: str, salt: str | None, erasures: Sequence[Erasure], log: Sequence[Activation]
    ) -> None:
        sql = self.dialect
        end = f"UPDATE {sql.schema}.{sql.live} SET restoring = NULL WHERE restoring = {sql.parameter}"
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
