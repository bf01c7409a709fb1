"""What a store is: published versions, customers' histories, and the set of live items, behind one interface.

A history is item ids with times, never vectors: it outlives every version of the model. Everything is durable when a
call returns, and one store object may be used by any number of threads. Each process opens its own.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from lorentzrec.data.vocabulary import LONGEST_ID as LONGEST_ID
from lorentzrec.errors import InputError

USUAL_HISTORY = 1000
"""Events that a history gives unless asked for another number."""

_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters, which PostgreSQL or a log line would choke on, and halves of characters, which are no text."""
_VERSION_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,127}")


@dataclass(frozen=True)
class Event:
    """One customer touched one item once.

    Of a customer, the same id again is a duplicate, and so is the same item at the same time, whatever its id: an event
    that comes over HTTP and again with a dataset counts once.
    """

    user: str
    item: str
    time: float
    """Seconds since 1970."""
    id: str
    weight: float = 1.0
    """What the event counts for in the history, as in training; positive."""


@dataclass(frozen=True)
class Added:
    """What became of a batch of events."""

    accepted: int
    duplicates: int
    erased: frozenset[str] = frozenset()
    """Customers whose events from before their erasure were left out."""


class Touch(NamedTuple):
    """One step of a history."""

    item: str
    time: float
    weight: float = 1.0


@dataclass(frozen=True)
class State:
    """What a worker polls to learn whether it must load something: one cheap read."""

    version: str | None
    """The current version; None before the first one is activated."""
    live_revision: int
    """Grows whenever the set of live items changes."""
    warning: str | None = None
    """What is wrong with the record of the current version, in words for everybody: no paths, no hosts."""


class Store(Protocol):
    """The interface that every store keeps, whole; `tests/serving/stores` holds them all to it."""

    @property
    def url(self) -> str:
        """Its address without secrets, for messages."""

    @property
    def notices(self) -> Sequence[str]:
        """What an operator should know although the store works, such as that it is read-only; without its address."""

    def state(self) -> State:
        """The current version and the revision of the live items; `StoreUnavailable` if it cannot answer now."""

    def versions(self) -> list[str]:
        """The names of the complete versions, newest first: a name begins with its time."""

    def activated_versions(self) -> list[str]:
        """The complete versions that are or were the current one, newest first.

        Stores written by 0.1 kept no record: there, complete versions up to the current one count as activated.
        """

    def publishing(self) -> AbstractContextManager[None]:
        """While this is held, by any process, `clean` removes nothing; it ends with its process, too."""

    def upload(self, folder: Path, progress: Callable[[int], None] | None = None) -> None:
        """Send a version folder, named as its manifest says; it becomes visible only when complete.

        An upload that was cut short is taken up again: what is there with the right checksum is not sent twice.
        `progress` is told how many more bytes are dealt with, sent or found there.
        """

    def fetch(self, name: str, cache: Path) -> Path:
        """A local folder that holds the version, checked; `ArtifactError` names the file that is damaged.

        A store of folders gives its own; others download to `cache`/NAME, which is kept for the next time.
        """

    def activate(self, name: str) -> None:
        """Make a complete version the current one, in one step that every worker sees whole, and record it."""

    def discard(self, name: str) -> None:
        """Remove a version, complete or not; never the current one."""

    def clean(self) -> int:
        """Remove incomplete uploads and versions that were never activated; how many there were.

        Nothing while somebody holds `publishing`. An upload outside of `publishing` is cut short.
        """

    def add_events(self, events: Sequence[Event], *, respect_erasures: bool = False) -> Added:
        """Keep events, in any order and of any number of customers; those that are there already are only counted.

        `respect_erasures`: leave out what a customer did up to the moment of their erasure. This is for events that are
        read from somewhere; whoever sends one event after an erasure means it.
        """

    def history(self, user: str, limit: int = USUAL_HISTORY) -> list[Touch]:
        """The newest `limit` events of a customer, oldest first, ordered by (time, item) however they arrived."""

    def forget(self, user: str) -> int:
        """Erase a customer; the number of events removed. A hash of the id stays, with the time, see `add_events`."""

    def live_items(self) -> list[str] | None:
        """The items that may be recommended, in order of id; None if every item of the version may."""

    def set_live_items(self, items: Sequence[str] | None) -> int | None:
        """Replace the live items (None: every item is live again); how many are live now (None: all)."""

    def change_live_items(self, add: Sequence[str] = (), remove: Sequence[str] = ()) -> int:
        """Add and remove single live items; how many are live now. The revision grows only if something changed.

        `InputError` while every item is live: there is no set yet to add to or to remove from.
        """

    def close(self) -> None:
        """Give back connections and files. The store answers no more."""


def checked_name(name: str) -> str:
    """The name of a version, sure to be neither a path nor anything else that means something to somebody."""
    if not _VERSION_NAME.fullmatch(name):
        raise InputError(f"version name {name!r} is not letters, digits, '.', '_' and '-': publish under such a name")
    return name


def check_ids(kind: str, ids: Iterable[str]) -> None:
    """Refuse ids that some store could not keep, so that all stores keep the same ones."""
    listed = list(ids)
    # One search in all of them is much faster than a search in each.
    if not (all(listed) and max(map(len, listed), default=0) <= LONGEST_ID and not _UNFIT.search("".join(listed))):
        unfit = next(id for id in listed if not 0 < len(id) <= LONGEST_ID or _UNFIT.search(id))
        raise InputError(
            f"{kind} id {unfit[:60]!r} cannot be kept: give 1 to {LONGEST_ID} characters without control characters"
        )


def check_events(events: Sequence[Event]) -> None:
    """Refuse a batch, whole, if one of its events cannot be kept."""
    for kind in ("user", "item", "id"):
        check_ids("event" if kind == "id" else kind, [getattr(event, kind) for event in events])
    for event in events:
        if not math.isfinite(event.time):
            raise InputError(f"event {event.id!r} of user {event.user!r} has time {event.time}: give unix seconds")
        if not (math.isfinite(event.weight) and event.weight > 0):
            raise InputError(f"event {event.id!r} of user {event.user!r} has weight {event.weight}: give one above 0")


def in_order(events: Iterable[Event]) -> list[Event]:
    """A batch by customer, time and item, without events whose id stood there before.

    In one order for everybody, two batches with the same events wait for one another in a database, and never both.
    """
    first: dict[tuple[str, str], Event] = {}
    for event in events:
        first.setdefault((event.user, event.id), event)
    return sorted(first.values(), key=lambda event: (event.user, event.time, event.item))


def after_erasures(events: Sequence[Event], erasures: Mapping[str, float]) -> tuple[Sequence[Event], frozenset[str]]:
    """The events from after their customer's erasure, and the customers of the others. `erasures`: times by user."""
    left_out = frozenset(event.user for event in events if event.time <= erasures.get(event.user, -math.inf))
    return [event for event in events if event.time > erasures.get(event.user, -math.inf)], left_out


def check_limit(limit: int) -> None:
    if limit < 1:
        raise InputError(f"a history of {limit} events cannot be given: ask for 1 or more")


def key_of(*texts: str) -> str:
    """32 hexadecimal digits that stand for texts of any length and content where a database limits its keys."""
    digest = hashlib.blake2b(digest_size=16)
    for text in texts:
        encoded = text.encode()
        digest.update(len(encoded).to_bytes(4, "big") + encoded)
    return digest.hexdigest()


def salted_key(key: str, salt: str) -> str:
    """What an erasure keeps of a customer's key: another one in every store, so that two cannot be compared."""
    return hashlib.sha256(f"{salt}{key}".encode()).hexdigest()[:32]


def usual_id(item: str, time: float) -> str:
    """The id of an event that was given none: the same wherever the event comes from."""
    return key_of(item, repr(float(time)))


def nothing_to_change() -> InputError:
    """Goes out over HTTP as it is, so it must not name the store's address."""
    return InputError("every item is live: set the live items first, then add to them or remove some")


def no_such_version(name: str, url: str, versions: Sequence[str]) -> InputError:
    known = ", ".join(versions[:5]) or "none"
    return InputError(f"{url} has no complete version {name!r} (newest: {known}): publish it or name another")


def still_current(name: str, url: str) -> InputError:
    return InputError(f"version {name!r} is the current one of {url}: activate another first")
