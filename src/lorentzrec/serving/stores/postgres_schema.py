"""The tables of the PostgreSQL store, as numbered steps: a released step is never changed, a new one follows it.

Keys of events are 128-bit digests of the ids, since an index entry of PostgreSQL holds at most 2,700 bytes, and two
ids of 512 characters may have more.
"""

from __future__ import annotations

import math
from typing import LiteralString

from lorentzrec.errors import InputError
from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.stores.postgres_connections import Cursor, PostgresConnections
from lorentzrec.serving.stores.store import Migrating, is_behind

MIGRATIONS: tuple[LiteralString, ...] = (
    """
    CREATE TABLE lorentzrec.versions (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text COLLATE "C" NOT NULL UNIQUE,
        manifest bytea NOT NULL, complete boolean NOT NULL DEFAULT false
    );
    CREATE TABLE lorentzrec.version_chunks (
        version bigint NOT NULL REFERENCES lorentzrec.versions ON DELETE CASCADE, file text NOT NULL,
        number integer NOT NULL, sha256 text NOT NULL, data bytea NOT NULL, PRIMARY KEY (version, file, number)
    );
    ALTER TABLE lorentzrec.version_chunks ALTER COLUMN data SET STORAGE EXTERNAL;  -- points do not compress
    CREATE TABLE lorentzrec.activations (  -- the last row of an arm has its current version
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, version text COLLATE "C" NOT NULL,
        time double precision NOT NULL, reason text NOT NULL, rejected text COLLATE "C",
        arm text COLLATE "C" NOT NULL, share double precision
    );
    CREATE INDEX activations_by_arm ON lorentzrec.activations (arm, number);
    CREATE TABLE lorentzrec.rules (
        revision bigint PRIMARY KEY, time double precision NOT NULL, reason text NOT NULL, who text, document text
    );
    CREATE TABLE lorentzrec.state (
        only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row), live_revision bigint NOT NULL DEFAULT 0,
        everything_live boolean NOT NULL DEFAULT true, items_revision bigint NOT NULL DEFAULT 0,
        items_reset bigint NOT NULL DEFAULT 0, restoring text
    );
    INSERT INTO lorentzrec.state DEFAULT VALUES;
    CREATE TABLE lorentzrec.live_items (item_id text COLLATE "C" PRIMARY KEY);
    CREATE TABLE lorentzrec.new_items (
        item text COLLATE "C" PRIMARY KEY, changed bigint NOT NULL, content text NOT NULL, origin text NOT NULL
    );
    CREATE INDEX new_items_by_origin ON lorentzrec.new_items (origin, item);
    CREATE TABLE lorentzrec.events (
        user_key uuid NOT NULL, event_key uuid NOT NULL, time double precision NOT NULL, user_id text NOT NULL,
        item_id text COLLATE "C" NOT NULL, event_id text COLLATE "C" NOT NULL, weight double precision NOT NULL,
        arrived double precision NOT NULL DEFAULT extract(epoch FROM clock_timestamp()),
        PRIMARY KEY (user_key, event_key)
    );
    CREATE UNIQUE INDEX events_in_order ON lorentzrec.events (user_key, time, item_id);
    CREATE INDEX events_by_arrival ON lorentzrec.events (arrived, time);  -- unix seconds
    -- Erasures keep no key that is the same in another store: see `salted_key`.
    CREATE TABLE lorentzrec.erasures (user_key uuid PRIMARY KEY, time double precision NOT NULL);
    CREATE TABLE lorentzrec.privacy (only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row), salt text NOT NULL);
    INSERT INTO lorentzrec.privacy (salt) VALUES (replace(gen_random_uuid()::text, '-', ''));
    """,
)

_LOCK = 0x6C6F72656E747A  # "lorentz"


def prepare_tables(connections: PostgresConnections, *, create: bool, migrate: Migrating | None) -> None:
    """Refuse tables of another release. `create` makes them if there are none, `migrate` changes those that are there.

    Any number of processes may do that at once.
    """
    with connections.statement() as cursor:
        done = _done(cursor)
        if done is None and not create:
            raise StoreFault.NO_STORE.error(store=connections.url)
        if not is_behind(connections.url, done, len(MIGRATIONS), migrate):
            return
    # Both limits are off: a step may have to process all events, and one that is cut short would begin again.
    with connections.transaction(math.inf) as cursor:
        cursor.execute("SET LOCAL statement_timeout = 0")
        (encoding,) = cursor.execute("SELECT current_setting('server_encoding')").fetchall()[0]
        if encoding != "UTF8":
            raise InputError(f"the database of {connections.url} has encoding {encoding}: create one with UTF8")
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        done = _done(cursor)
        if not is_behind(connections.url, done, len(MIGRATIONS), migrate):
            return  # another process was first
        if done is None:
            cursor.execute("CREATE SCHEMA IF NOT EXISTS lorentzrec")
            cursor.execute("CREATE TABLE lorentzrec.migrations (number integer PRIMARY KEY, applied timestamptz)")
            done = 0
        for number, statements in enumerate(MIGRATIONS[done:], done + 1):
            if migrate is not None:
                migrate(number, len(MIGRATIONS))
            cursor.execute(statements, binary=False)  # the binary protocol takes one statement at a time
            cursor.execute("INSERT INTO lorentzrec.migrations VALUES (%s, now())", (number,))


def _done(cursor: Cursor) -> int | None:
    """How many steps were taken; None if there is no store."""
    # Not by to_regclass, whose memory of what is missing may be older than another process's store.
    cursor.execute("SELECT FROM pg_tables WHERE schemaname = 'lorentzrec' AND tablename = 'migrations'")
    if cursor.rowcount == 0:
        return None
    return int(cursor.execute("SELECT count(*) FROM lorentzrec.migrations").fetchall()[0][0])
