"""What can be wrong with a store or with a version in it: the errors that all stores raise, and their texts."""

from __future__ import annotations

import sqlite3
import time
from enum import Enum

from lorentzrec.errors import (
    ArtifactError,
    InputError,
    LorentzrecError,
    RecordDamaged,
    StoreBroken,
    StoreUnavailable,
)

RECENT_SECONDS = 3600.0
"""How long `/readyz` reports that a file was replaced or a connection lost."""


CORRUPTED, NO_RIGHTS = ("XX001", "XX002"), "42501"
"""SQLSTATEs of PostgreSQL: damaged tables and indexes, and missing rights."""


class StoreFault(Enum):
    """The class of the error, what is wrong, and the next action; `error.kind` of an error that `error` makes.

    `store`: the address of the store without secrets, or the file at fault.
    """

    # The store cannot be used now.
    CLOSED = StoreUnavailable, "{store} is closed: open it again"
    BUSY = StoreUnavailable, "{store} is busy ({reason}): try again"
    LOCKED = StoreUnavailable, "{store} is locked by a {holder} that does not end: try again"
    UNREACHABLE = StoreUnavailable, "{store} cannot be reached ({reason}): check the network, try again"
    NOT_RESPONDING = StoreUnavailable, "{store} cannot respond now ({reason}): check its server, then try again"
    TIMED_OUT = StoreUnavailable, "{store} did not respond in time: check the network, try again"
    THROTTLED = StoreUnavailable, "{store} is throttled (429): give it more request units per second, try again"
    NO_CREDENTIAL = StoreUnavailable, "{store} has no credential ({reason}): set COSMOS_KEY or assign an identity"
    STATE_LOST = StoreUnavailable, "{store} has lost its state: publish a model to it again"
    FILE_GONE = StoreUnavailable, "{store} is gone: put the folder back or publish again"
    FILE_UNREADABLE = StoreUnavailable, "cannot read {store} ({reason}): check the folder and the disk"
    FILE_UNUSABLE = StoreUnavailable, "{store} cannot be used now ({reason}): try again, and check the disk"
    READ_ONLY = StoreUnavailable, "{store} is read-only: make the file and its folder writable"
    MOVED = StoreUnavailable, "{store} was moved or replaced during a write: send it again"
    LOG_REMOVED = (
        StoreUnavailable,
        "{store}-wal was removed or replaced: stop all services of this store, which saves what they have written,"
        " and start them again",
    )
    LOG_LEFT_BEHIND = (
        StoreUnavailable,
        "{store} was replaced, but {name}-wal belongs to the previous file: remove {name}-wal and {name}-shm, too",
    )
    # The store cannot be used until it is repaired.
    REFUSED = StoreBroken, "{store} refuses access ({reason}): check {check}"
    DAMAGED = StoreBroken, "{store} is damaged ({reason}): restore a backup"
    OLDER = (
        StoreBroken,
        "{store} was written by an older lorentzrec (schema {done} of {steps}): stop its services, then run"
        " lorentzrec store migrate {store}",
    )
    RESTORING = (
        StoreBroken,
        "{store} holds a part of a backup, whose restore runs or was interrupted: restore the same backup again, or"
        " remove the store",
    )
    NEWER = StoreBroken, "{store} was written by a newer lorentzrec: update lorentzrec"
    # A request that the store cannot fulfil.
    SEVERAL_REGIONS = InputError, "{store} accepts writes in several regions: use an account with one write region"
    NO_STORE = InputError, "{store} holds no store: publish a model to it first"
    NOT_EMPTY = InputError, "{store} holds {content}: restore into an empty store"
    RESTORE_ENDED = (
        InputError,
        "{store} is not being restored any more, because another run of this restore has ended: look at it with"
        " lorentzrec store status",
    )
    NO_VERSION = InputError, "{store} has no complete version {name!r} (newest: {newest}): publish it or name another"
    CURRENT_VERSION = InputError, "version {name!r} is the current one of {store}: activate another first"
    OTHER_CURRENT = InputError, "the current version of {store} is {name}, no longer {expected}: check it, try again"
    NO_ARM = InputError, "{store} has no arm {arm!r} (arms: {arms}): check the name, or publish a model to it"
    NO_MAIN = InputError, "{store} has no version in arm main: publish one without --arm before one in arm {arm}"
    SHARE_OF_MAIN = InputError, "arm main of {store} has the customers of no other arm: give the shares of the others"
    SHARES_ABOVE_1 = InputError, "the shares of the arms of {store} would sum up to more than 1 ({shares}): give less"
    MANY_ARMS = InputError, "{store} has {limit} arms ({arms}), and at most {limit} may be live: end one of them first"
    OTHER_CONTENT = InputError, "{store} has a version {name} with other content: publish under another name"
    VERSION_REMOVED = InputError, "version {name} was removed from {store} during its upload: upload it again"
    VERSION_DAMAGED = ArtifactError, "version {name} in {store}: {file} is damaged or missing: publish the model again"
    FILE_CHANGED = ArtifactError, "{file} is missing or not as its manifest lists it: publish the model again"
    # These are sent over HTTP as they are, so they do not name the store.
    HISTORY_DAMAGED = RecordDamaged, "the history of this customer is damaged: erase the customer or restore a backup"
    LONG_LIVE_LIST = (
        InputError,
        "the list of {kind} items would have {size} ids, and {limit} is its limit here: take ids off the list that no "
        "version contains any more, or replace the list",
    )
    LARGE_DETAILS = (
        InputError,
        "the details of the item are {size} bytes as JSON, and at most {limit} are kept: send shorter texts, or fewer "
        "items in `like` and fewer attributes",
    )
    OTHER_RULES = (
        InputError,
        "the rules have revision {revision} by now, not {expected}: read them again, then make your change",
    )
    NO_RULES = InputError, "{store} does not keep rules of revision {revision}: look at lorentzrec rules log"
    TOO_LARGE = InputError, "the store cannot keep this (status {status}): make it smaller or simpler"

    def error(self, **fields: object) -> LorentzrecError:
        error_class, text = self.value
        error: LorentzrecError = error_class(text.format(**fields))
        error.kind = self
        return error


def is_damage(error: Exception) -> bool:
    """Whether an error that reading has raised says that what was read is damaged. An outage and missing rights do not:
    the same may be read later, or by somebody else."""
    cause, kind = error.__cause__, getattr(error, "kind", None)
    state = getattr(cause, "sqlstate", None)  # of psycopg, which is not always installed
    if state in CORRUPTED or kind is StoreFault.STATE_LOST:
        return True
    if isinstance(cause, sqlite3.Error) and not hasattr(cause, "sqlite_errorcode"):
        return True  # of Python's module: a text that is not UTF-8
    if kind is StoreFault.REFUSED:
        return state is not None and state != NO_RIGHTS  # such as a table that is missing
    return not isinstance(error, StoreUnavailable | PermissionError)


def format_recent(moment: float | None) -> str | None:
    """The time of an incident, for a notice; None if there was none in the last hour."""
    recent = moment is not None and time.time() < moment + RECENT_SECONDS
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment)) if recent else None
