"""The item directory: ids, titles, categories and search in one read-only SQLite file.

A file rather than a table in memory, so that a worker starts at once and all workers share the same pages.

    items       row, id, title, category, price, image, and `rank`, by popularity, from 0
    categories  code, name
    words       a full-text index of id and title; its rows are ranks, so that popular items come first without sorting
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import weakref
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from lorentzrec.base.counting import Count
from lorentzrec.base.library_faults import is_sqlite_damage
from lorentzrec.data.vocabulary import CONTROL_CHARACTERS, UNKNOWN
from lorentzrec.errors import ArtifactError, InputError

if TYPE_CHECKING:
    import polars as pl

DETAILS = ("title", "category", "price", "image")
IMAGE = r"^(?i:https?)://[^\s\x00-\x1f\x7f-\x9f]+$"
"""Addresses of images that pages may show."""
IDS_PER_STATEMENT = 50_000
"""Ids that one statement looks up; more are looked up in parts."""
CONNECTIONS = 4
"""Threads that may query at the same time; a query takes a fraction of a millisecond, so others wait for less."""
DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR)
"""What SQLite reports if the file was changed or cut short; no request can cause these."""
_SCHEMA = """
    PRAGMA journal_mode = OFF;
    PRAGMA synchronous = OFF;
    CREATE TABLE categories (code INTEGER PRIMARY KEY, name TEXT NOT NULL);
    CREATE TABLE items (row INTEGER PRIMARY KEY, id TEXT NOT NULL, title TEXT, category TEXT, price REAL, image TEXT,
                        rank INTEGER NOT NULL);
"""
WORDS = """
    CREATE VIRTUAL TABLE words USING fts5 (id, title, content = '', prefix = '1 2 3',
                                           tokenize = 'unicode61 remove_diacritics 2');
"""
"""What words of ids and titles are: between punctuation, without case and accents."""
SEARCH = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid LIMIT ?"
"""By a `match_expression` and a limit."""
_INDEXES = """
    CREATE UNIQUE INDEX items_by_id ON items (id);
    CREATE UNIQUE INDEX items_by_rank ON items (rank);
    INSERT INTO words (words) VALUES ('optimize');
"""


class DirectoryDamaged(ArtifactError):  # noqa: N818 - it becomes a 503
    """The file has changed or can no longer be read."""


@dataclass(slots=True)
class Item:
    """The details of one item; None where none were given. Not frozen, which would make it slower to create."""

    row: int
    """-1 for a new item, which is not on the map."""
    id: str
    title: str | None = None
    category: str | None = None
    price: float | None = None
    image: str | None = None
    new: bool = False
    """Whether the version does not contain it yet: see `Recommender.with_new_items`."""


def write_item_directory(path: Path, table: pl.DataFrame, categories: Sequence[str]) -> None:
    """Write the directory of a table that `describe_items` made: one row per item, in row order."""
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.executescript(_SCHEMA + WORDS)
            connection.execute("BEGIN")
            connection.executemany("INSERT INTO categories VALUES (?, ?)", enumerate(categories))
            connection.executemany("INSERT INTO items VALUES (?, ?, ?, ?, ?, ?, ?)", table.iter_rows())
            connection.execute("INSERT INTO words (rowid, id, title) SELECT rank, id, title FROM items ORDER BY rank")
            connection.executescript(_INDEXES)  # which first ends the transaction
    except sqlite3.OperationalError as error:
        codes = {sqlite3.SQLITE_FULL: errno.ENOSPC, sqlite3.SQLITE_IOERR: errno.EIO}
        if (code := codes.get(error.sqlite_errorcode & 0xFF)) is None:
            raise
        raise OSError(code, os.strerror(code), str(path)) from error


def describe_items(
    ids: pl.Series, counts: NDArray[np.int64], described: pl.DataFrame | None
) -> tuple[pl.DataFrame, NDArray[np.int32], list[str], list[str]]:
    """The table of the directory, the category code of each row (-1 for none), the names of the codes, and notes.

    described: a table with the column id and any of title, category, price and image. Of several categories the first
    counts (`first_category`). Items that are not in it have no details; items that are only in it are left out.
    """
    import polars as pl

    from lorentzrec.ingest.item_table import first_category

    order = np.argsort(-counts, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    table = pl.DataFrame({"row": np.arange(len(ids)), "id": ids.cast(pl.String)})
    types = {"id": pl.String, "title": pl.String, "category": pl.String, "price": pl.Float64, "image": pl.String}
    if described is not None:
        details = described.select(pl.col(name).cast(kind) for name, kind in types.items() if name in described)
        if twice := details.filter(details["id"].is_duplicated())["id"].head(1).to_list():
            raise InputError(f"the item {twice[0]!r} occurs twice in the item table: give each item one row")
        table = table.join(details, on="id", how="left", maintain_order="left")
    missing = [pl.lit(None, types[name]).alias(name) for name in DETAILS if name not in table.columns]
    table, notes = _clean(table.with_columns(missing))
    table = first_category(table).with_columns(rank=rank).select("row", "id", *DETAILS, "rank")
    categories = table["category"].drop_nulls().unique().sort()
    codes = table["category"].replace_strict(categories, np.arange(len(categories)), default=-1, return_dtype=pl.Int32)
    return table, codes.to_numpy(), categories.to_list(), notes


def _clean(table: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """The table without what a service refuses in new items, and notes on what was changed."""
    import polars as pl

    unsafe = table["image"].is_not_null() & ~table["image"].str.contains(IMAGE)
    texts = ("title", "category")
    changed = table.select(pl.any_horizontal(pl.col(texts).str.contains(CONTROL_CHARACTERS))).to_series().sum()
    notes = []
    if count := int(unsafe.sum()):
        left_out = f"{Count(count):image was|images were} left out, such as {table['image'].filter(unsafe)[0][:60]!r}"
        notes.append(f"{left_out}: give addresses with http:// or https://")
    if changed:
        notes.append(f"control characters became spaces in the texts of {Count(int(changed)):item|items}")
    return table.with_columns(
        pl.col(texts).str.replace_all(f"{CONTROL_CHARACTERS}+", " ").str.strip_chars(),
        image=pl.when(~unsafe).then("image"),
    ), notes


class ItemDirectory:
    """Ids to rows, rows to details, and search. Read-only, and safe to use from many threads.

    All connections are opened at once, so that requests under way can finish when the folder has been removed. The file
    is read, never mapped: if it is truncated, a query fails instead of the process.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage: str | None = None
        """Why a query has failed since the file was opened; None if none has."""
        self._idle: SimpleQueue[sqlite3.Connection] = SimpleQueue()
        weakref.finalize(self, _close, self._idle)
        try:
            for _ in range(CONNECTIONS):
                self._idle.put(_connect(path))
            self.categories: list[str] = [name for (name,) in self._query("SELECT name FROM categories ORDER BY code")]
            statement = "SELECT count(*), ifnull(min(row), 0), ifnull(max(row), -1) FROM items"
            ((count, first, last),) = self._query(statement)
            self._count = int(count)
            if (first, last) != (0, self._count - 1):
                raise self._damaged(f"its rows are {first} to {last} and not 0 to {self._count - 1}")
        except sqlite3.Error as error:
            raise self._damaged(str(error)) from error

    def __len__(self) -> int:
        return self._count

    def rows(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """The row of each id; -1 (`UNKNOWN`) for an id that is not in the directory."""
        found = np.full(len(ids), UNKNOWN, np.int64)
        statement = "SELECT sent.key, items.row, items.id FROM json_each(?) AS sent JOIN items ON items.id = sent.value"
        for start in range(0, len(ids), IDS_PER_STATEMENT):
            part = json.dumps(ids[start : start + IDS_PER_STATEMENT])
            for index, row, id in self._query(statement, part):
                # SQLite ends a text from JSON at its first NUL, so an id with one could match another.
                if id == ids[start + index]:
                    found[start + index] = row
        if len(found) and not UNKNOWN <= found.min() <= found.max() < self._count:
            raise self._damaged(f"it has a row outside of 0 to {self._count - 1}")
        return found

    def __contains__(self, id: str) -> bool:
        """Whether there is an item with this id: faster than `rows` for a single one."""
        return bool(self._query("SELECT 1 FROM items WHERE id = ?", id))

    def ids(self) -> list[str]:
        """All ids, in the order of their rows."""
        found = [id for (id,) in self._query("SELECT id FROM items ORDER BY row")]
        if len(found) != self._count:
            raise self._damaged(f"it holds {len(found)} of {self._count} items")
        return found

    def items(self, rows: Sequence[int] | NDArray[np.integer[Any]]) -> list[Item]:
        """The items in these rows, in the order of `rows`."""
        return self._items("JOIN items ON items.row = sent.value ORDER BY sent.key", rows)

    def table(self) -> pl.DataFrame:
        """All items in the order of their rows: id, title, category."""
        import polars as pl

        lines = self._query("SELECT id, title, category FROM items ORDER BY row")
        schema = {"id": pl.String, "title": pl.String, "category": pl.String}
        return pl.DataFrame(lines, schema, orient="row")

    def search(self, query: str, limit: int = 20) -> list[Item]:
        """Items whose id or title contains every word of `query`, or a word that begins with it; popular ones first.

        An item whose id is the query itself comes before all others. An empty query gives the most popular items.
        """
        if words := match_expression(query):
            found = self._query(SEARCH, words, limit)
        else:
            found = self._query("SELECT rank FROM items ORDER BY rank LIMIT ?", limit)
        items = self._items("JOIN items ON items.rank = sent.value ORDER BY sent.key", [rank for (rank,) in found])
        named = self.rows([query.strip()])
        exact = self.items(named[named != UNKNOWN])
        return (exact + [item for item in items if item not in exact])[:limit]

    def close(self) -> None:
        """Close all connections; no query may be under way."""
        _close(self._idle)

    def _items(self, condition: str, values: Sequence[int] | NDArray[np.integer[Any]]) -> list[Item]:
        columns = "items.row, items.id, items.title, items.category, items.price, items.image"
        sent = json.dumps(np.asarray(values, np.int64).tolist())
        lines = self._query(f"SELECT {columns} FROM json_each(?) AS sent {condition}", sent)
        if len(lines) != len(values):
            raise self._damaged(f"it holds {len(lines)} of {len(values)} items")
        return [Item(*line) for line in lines]

    def _query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        connection = self._idle.get()
        try:
            return connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            if is_sqlite_damage(error, DAMAGE):
                raise self._damaged(str(error)) from error
            raise
        finally:
            self._idle.put(connection)

    def _damaged(self, reason: str) -> DirectoryDamaged:
        self.damage = f"{self.path} is damaged ({reason}): publish the model again"
        return DirectoryDamaged(self.damage)


def match_expression(query: str) -> str:
    """What the table of words is to match for a query; empty if that has no word."""
    text = query.replace("\0", " ").encode("utf-8", "ignore").decode()
    return " ".join(f'"{word.replace(chr(34), chr(34) * 2)}"*' for word in text.split())


def _connect(path: Path) -> sqlite3.Connection:
    address = f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1"
    connection = sqlite3.connect(address, uri=True, check_same_thread=False)
    try:
        connection.execute("PRAGMA mmap_size = 0")
        # In KiB, allocated as needed: pages of frequent items stay in memory, as they would with a mapping.
        connection.execute("PRAGMA cache_size = -16384")
        connection.execute("SELECT count(*) FROM categories")  # else the first query would open the file
    except BaseException:
        connection.close()
        raise
    return connection


def _close(connections: SimpleQueue[sqlite3.Connection]) -> None:
    while not connections.empty():
        connections.get().close()
