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
from lorentzrec.serving.stores.store import Migrating

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
    CREATE TABLE lorentzrec.state (
        only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row), version bigint REFERENCES lorentzrec.versions,
        live_revision bigint NOT NULL DEFAULT 0, everything_live boolean NOT NULL DEFAULT true
    );
    INSERT INTO lorentzrec.state DEFAULT VALUES;
    CREATE TABLE lorentzrec.live_items (item_id text COLLATE "C" PRIMARY KEY);
    CREATE TABLE lorentzrec.events (
        user_key uuid NOT NULL, event_key uuid NOT NULL, time double precision NOT NULL, user_id text NOT NULL,
        item_id text COLLATE "C" NOT NULL, event_id text COLLATE "C" NOT NULL, PRIMARY KEY (user_key, event_key)
    );
    CREATE INDEX events_in_order ON lorentzrec.events (user_key, time);
    """,
    """
    DELETE FROM lorentzrec.events AS later USING lorentzrec.events AS other
        WHERE other.user_key = later.user_key AND other.time = later.time AND other.item_id = later.item_id
        AND other.event_id < later.event_id;
    DROP INDEX lorentzrec.events_in_order;
    CREATE UNIQUE INDEX events_in_order ON lorentzrec.events (user_key, time, item_id);
    CREATE TABLE lorentzrec.erasures (user_key uuid PRIMARY KEY, time double precision NOT NULL);
    """,
    # Which versions were ever current. 0.1 did not record it: complete versions up to the current one count.
    """
    ALTER TABLE lorentzrec.versions ADD COLUMN activated boolean NOT NULL DEFAULT false;
    UPDATE lorentzrec.versions SET activated = true WHERE complete
        AND name <= (SELECT current.name FROM lorentzrec.state JOIN lorentzrec.versions AS current ON id = version);
    """,
    # Erasures keep no key that is the same in another store: see `salted_key`, which this repeats for those of 0.1.
    """
    CREATE TABLE lorentzrec.privacy (only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row), salt text NOT NULL);
    INSERT INTO lorentzrec.privacy (salt) VALUES (replace(gen_random_uuid()::text, '-', ''));
    UPDATE lorentzrec.erasures SET user_key = substr(encode(sha256(convert_to(
        (SELECT salt FROM lorentzrec.privacy) || replace(user_key::text, '-', ''), 'UTF8')), 'hex'), 1, 32)::uuid;
    """,
    "ALTER TABLE lorentzrec.events ADD COLUMN weight double precision NOT NULL DEFAULT 1;",
    """
    CREATE TABLE lorentzrec.new_items (
        item text COLLATE "C" PRIMARY KEY, changed bigint NOT NULL, content text NOT NULL
    );
    ALTER TABLE lorentzrec.state ADD COLUMN items_revision bigint NOT NULL DEFAULT 0;
    ALTER TABLE lorentzrec.state ADD COLUMN items_reset bigint NOT NULL DEFAULT 0;
    """,
    # The log: its last row has the current version. What was live before gets entries in the order of its names.
    """
    CREATE TABLE lorentzrec.activations (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, version text COLLATE "C" NOT NULL,
        time double precision NOT NULL, reason text NOT NULL, rejected text COLLATE "C"
    );
    INSERT INTO lorentzrec.activations (version, time, reason)
        SELECT name, extract(epoch FROM now()), 'current before there was a log' FROM lorentzrec.versions
        LEFT JOIN lorentzrec.state ON id = version WHERE activated OR version IS NOT NULL
        ORDER BY version IS NOT NULL, name;
    ALTER TABLE lorentzrec.state DROP COLUMN version;
    ALTER TABLE lorentzrec.versions DROP COLUMN activated;
    """,
    """
    ALTER TABLE lorentzrec.new_items ADD COLUMN origin text NOT NULL DEFAULT 'put';
    UPDATE lorentzrec.new_items SET origin = 'events' WHERE content LIKE '{"details": null%';
    CREATE INDEX new_items_by_origin ON lorentzrec.new_items (origin, item);
    """,
    "ALTER TABLE lorentzrec.state ADD COLUMN restoring text;",
)

_LOCK = 0x6C6F72656E747A  # "lorentz"


def prepare_tables(connections: PostgresConnections, *, create: bool, migrate: Migrating | None) -> None:
    """Refuse tables of another release. `create` makes them if there are none, `migrate` changes those that are there.

    Any number of processes may do that at once.
    """
    with connections.statement() as cursor:
        if not _is_behind(connections, _done(cursor), create, migrate):
            return
    # Both limits are off: a step may have to process all events, and one that is cut short would begin again.
    with connections.transaction(math.inf) as cursor:
        cursor.execute("SET LOCAL statement_timeout = 0")
        (encoding,) = cursor.execute("SELECT current_setting('server_encoding')").fetchall()[0]
        if encoding != "UTF8":
            raise InputError(f"the database of {connections.url} has encoding {encoding}: create one with UTF8")
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        done = _done(cursor)
        if not _is_behind(connections, done, create, migrate):
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


def _is_behind(connections: PostgresConnections, done: int | None, create: bool, migrate: Migrating | None) -> bool:
    """Whether there are steps to take; an error if they may not be taken."""
    if done is None and not create:
        raise StoreFault.NO_STORE.error(store=connections.url)
    if done is not None and done > len(MIGRATIONS):
        raise StoreFault.NEWER.error(store=connections.url)
    if done is not None and done < len(MIGRATIONS) and migrate is None:
        raise StoreFault.OLDER.error(store=connections.url, done=done, steps=len(MIGRATIONS))
    return done != len(MIGRATIONS)


def _done(cursor: Cursor) -> int | None:
    """How many steps were taken; None if there is no store."""
    # Not by to_regclass, whose memory of what is missing may be older than another process's store.
    cursor.execute("SELECT FROM pg_tables WHERE schemaname = 'lorentzrec' AND tablename = 'migrations'")
    if cursor.rowcount == 0:
        return None
    return int(cursor.execute("SELECT count(*) FROM lorentzrec.migrations").fetchall()[0][0])
