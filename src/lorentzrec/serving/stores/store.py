"""What a store is: published versions, customers' histories, live items and new items, behind one interface.

A history is item ids with times, never vectors: it outlives every version of the model. Everything is durable when a
call returns, and one store object may be used by any number of threads. Each process opens its own.
"""

from __future__ import annotations

import hashlib
import math
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

from lorentzrec.data.vocabulary import LONGEST_ID as LONGEST_ID
from lorentzrec.errors import InputError, LorentzrecError
from lorentzrec.serving.stores.activations import Activation, find_standing
from lorentzrec.serving.stores.faults import StoreFault
from lorentzrec.serving.stores.new_items import Change, ItemDetails, NewItem, NewItemsChanged, NewItemsRead, Origin
from lorentzrec.serving.stores.snapshot import CheckedPart, Erasure, Pruned, Snapshot, StoreSize

USUAL_HISTORY = 1000
"""Events that `Store.history` returns by default."""

REMOVED_AT_ONCE = 2_500
"""New items that are removed in one step."""
SPARE_LIVE_IDS = 100_000
"""How many more ids a list of live or removed items may have in a service than its version has items: ids that no
version contains yet, or contains any more."""

_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters, which PostgreSQL or a log line cannot take, and lone surrogates, which are not text."""
VERSION_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,127}")
LONGEST_REASON = 500
"""Characters of the reason of an activation."""


class _Any(Enum):
    VERSION = "any version"


ANY_VERSION = _Any.VERSION
"""Activate whichever version is current now."""
Expected: TypeAlias = str | _Any | None
"""The version that must be current for a change to be made; None if there must be none."""


@dataclass(frozen=True)
class Event:
    """One customer interacted with one item once.

    For a customer, the same id again is a duplicate, and so is the same item at the same time under any id: an event
    that arrives over HTTP and again with a dataset counts once.
    """

    user: str
    item: str
    time: float
    """Seconds since 1970."""
    id: str
    weight: float = 1.0
    """The weight of the event in the history, as in training; positive."""


@dataclass(frozen=True)
class Added:
    """The result of adding a batch of events."""

    accepted: int
    duplicates: int
    erased: frozenset[str] = frozenset()
    """Customers whose events from before their erasure were left out."""

    def __add__(self, other: Added) -> Added:
        return Added(self.accepted + other.accepted, self.duplicates + other.duplicates, self.erased | other.erased)


class HistoryEvent(NamedTuple):
    """One event of a history."""

    item: str
    time: float
    weight: float = 1.0


class EventPage(NamedTuple):
    """Some events of a store, in columns of equal length."""

    users: Sequence[str]
    items: Sequence[str]
    times: Sequence[float]
    weights: Sequence[float]
    ids: Sequence[str]


@dataclass(frozen=True)
class LiveItems:
    """The items that may be recommended: only `items`, or, if that is None, all except `removed`. Sorted by id."""

    items: list[str] | None = None
    removed: list[str] = field(default_factory=list)
    """Empty if there is a list of live items."""


class LiveCounts(NamedTuple):
    """The sizes of the two lists in `LiveItems`."""

    live: int | None
    removed: int = 0

    def check_growth(self, before: int, limit: int) -> None:
        """Refuse a list that has grown beyond its limit. `before`: its size."""
        kind, size = ("removed", self.removed) if self.live is None else ("live", self.live)
        if size > max(before, limit):
            raise StoreFault.LONG_LIVE_LIST.error(kind=kind, size=f"{size:,}", limit=f"{limit:,}")


@dataclass(frozen=True)
class State:
    """What a worker polls to find out whether it must load something: one cheap read."""

    version: str | None
    """The current version; None before the first one is activated."""
    live_revision: int
    """Grows whenever the set of live items changes."""
    items_revision: int = 0
    """Grows whenever new items change."""
    warning: str | None = None
    """What is wrong with the record of the current version. It is public: no paths, no hosts."""


Progress = Callable[[str, float], None]
"""Called with what is being done, and what share of it is done; 0 if that is not known."""
Migrating = Callable[[int, int], None]
"""Called before each step of a migration, with its number and the number of the last one."""


class Store(Protocol):
    """The interface of every store; `tests/serving/stores` checks all of them against it.

    Arguments are checked here, once for all stores; the methods with a leading underscore do the work.
    """

    url: str
    """Its address without secrets, for messages."""

    @property
    def notices(self) -> Sequence[str]:
        """What an operator should know although the store works, such as that it is read-only; without its address."""
        return ()

    def state(self) -> State:
        """The current version and the revisions of live and new items; `StoreUnavailable` if it cannot respond now."""

    def versions(self) -> list[str]:
        """The names of the complete versions, newest first: a name begins with its time."""

    def activations(self) -> list[Activation]:
        """The log of activations, oldest first; the last entry has the current version."""

    def standing_versions(self) -> list[str]:
        """The complete versions that a rollback may return to, the current one first: see `find_standing`."""
        standing, complete = find_standing(self.activations()), set(self.versions())
        return [name for name in standing if name in complete]

    def live_versions(self, log: Iterable[Activation]) -> list[str]:
        """The complete versions that are or were the current one according to a log of activations, newest first."""
        activated = {entry.version for entry in log}
        return [name for name in self.versions() if name in activated]

    def publishing(self) -> AbstractContextManager[None]:
        """While any process holds this, `clean` removes nothing; it ends with its process, too."""

    def upload(self, folder: Path, progress: Callable[[int], None] = lambda _: None) -> None:
        """Send a version folder, under the name in its manifest; it becomes visible only when complete.

        An interrupted upload resumes: what is there with the right checksum is not sent again. `progress` is called
        with the number of bytes of each part, sent or found there.
        """

    def fetch(self, name: str, cache: Path) -> Path:
        """A local folder that holds the version, checked; `ArtifactError` names the file that is damaged.

        A store of folders returns its own; others download to `cache`/NAME, which stays for the next time.
        """

    def fetch_file(self, name: str, file: str, folder: Path) -> Path:
        """One file of a version, checked; a store of folders returns its own, others download it to `folder`."""

    def fetch_manifest(self, name: str) -> bytes:
        """The manifest of a complete version, as it is stored."""

    def read_file(self, name: str, file: str) -> Iterator[bytes]:
        """The content of a file of a complete version in parts, as it is stored; it ends early if a part is missing."""

    def activate(self, name: str, reason: str = "activated", *, instead_of: Expected = ANY_VERSION) -> None:
        """Make a complete version the current one, by an entry in the log: one atomic step for all workers.

        instead_of: the version that must be current; a fault names the one that is current instead.
        """
        self._activate(Activation(check_name(name), time.time(), check_reason(reason)), instead_of)

    def roll_back(self, name: str, reason: str = "rolled back", *, instead_of: str) -> None:
        """Activate a complete version again, and reject the current one, which must be `instead_of`."""
        self._activate(Activation(check_name(name), time.time(), check_reason(reason), instead_of), instead_of)

    def discard(self, name: str) -> None:
        """Remove a version, complete or not; never the current one."""

    def clean(self) -> int:
        """Remove incomplete uploads and versions that were never activated; returns how many there were.

        Removes nothing while a process holds `publishing`. An upload outside of `publishing` is interrupted.
        """

    def add_events(self, events: Sequence[Event], *, respect_erasures: bool = False) -> Added:
        """Add events, in any order and of any number of customers; duplicates are only counted.

        `respect_erasures`: leave out what a customer did up to the moment of their erasure. This is for events that are
        read from a dataset; an event that is sent after an erasure is meant.
        """
        check_events(events)
        return self._add_events(events, respect_erasures) if events else Added(0, 0)

    def history(self, user: str, limit: int = USUAL_HISTORY) -> list[HistoryEvent]:
        """The newest `limit` events of a customer, oldest first, sorted by (time, item) in any order of arrival."""
        check_ids("user", [user])
        if limit < 1:
            raise InputError(f"a history of {limit} events is not possible: give 1 or more")
        return self._history(user, limit)

    def all_events(self) -> Iterator[EventPage]:
        """The events of all customers, many at a time: much faster than `history` for each.

        They come in any order. No event comes twice; one that is added or erased meanwhile may come or not.
        """

    def erasures(self, users: Sequence[str]) -> dict[str, float]:
        """When each of these customers was erased for the last time; only those who were. They may have returned."""

    def forget(self, user: str) -> int:
        """Erase a customer, also as a customer of new items; returns the number of events removed.

        A hash of the id and the time stay: see `add_events`.
        """
        check_ids("user", [user])
        return self._forget(user)

    def live_items(self) -> LiveItems:
        """The items that may be recommended."""

    def set_live_items(self, items: Sequence[str] | None) -> LiveCounts:
        """Replace the live items; None: every item is live again, also those that were removed."""
        check_ids("item", items or ())
        unique = None if items is None else sorted(set(items))
        self._set_live_items(unique)
        return LiveCounts(None if unique is None else len(unique))

    def change_live_items(
        self, add: Sequence[str] = (), remove: Sequence[str] = (), *, limit: int = sys.maxsize
    ) -> LiveCounts:
        """Make single items live, and others not; an item in both lists is live. The revision grows only with a change.

        This changes the list of live items or, if there is none, the list of removed items.

        limit: a change that makes the list longer than this is refused.
        """
        check_ids("item", [*add, *remove])
        return self._change_live_items(sorted(set(add)), sorted(set(remove) - set(add)), limit)

    def new_items(self, since: int = 0, limit: int = sys.maxsize) -> NewItemsRead:
        """The new items that changed after the revision `since`, or all: if one was removed, and if `since` is 0.

        limit: read only the first ones of each origin, in the order of their ids.
        """

    def describe_item(self, item: str, details: ItemDetails, *, limit: int) -> bool:
        """Add a new item, or replace its details; False if that would be more new items by PUT than `limit`."""
        check_ids("item", [item, *details.like])
        details.check_size()
        return not self._change_new_items([item], lambda found: replace(found, details=details), limit).left_out

    def note_customers(self, customers: Mapping[str, Sequence[str]], *, limit: int) -> NewItemsChanged:
        """Record customers as the first ones of new items, by item, which are added up to `limit` of them by events.

        Call it after their events were added. A customer who has no event with the item is left out.
        """
        check_ids("item", customers)
        check_ids("user", [user for users in customers.values() for user in users])
        noted = self._change_new_items(
            sorted(customers), lambda found: found.with_customers(customers[found.id]), limit
        )
        # After the change: an erasure that was too early to find the record has removed the events.
        for user in sorted({user for users in customers.values() for user in users}):
            gone = {item for item, users in customers.items() if user in users}
            for length in (USUAL_HISTORY, sys.maxsize):  # an event that has just arrived is usually one of the newest
                history = self._history(user, length)
                gone -= {event.item for event in history}
                if not gone or len(history) < length:
                    break
            if gone:
                self._change_new_items(sorted(gone), partial(NewItem.without_customer, user=user))
        return noted

    def remove_new_items(
        self, items: Sequence[str], origin: Origin | None = None, fewer_than: int | None = None
    ) -> int:
        """Remove new items, or only those of an origin, or with fewer customers than that; returns how many."""
        check_ids("item", items)
        return self._change_new_items(
            sorted(set(items)), lambda item: None if item.is_one_of(origin, fewer_than) else item
        ).changed

    def find_new_items_of(self, origin: Origin, fewer_than: int | None = None) -> list[list[str]]:
        """The ids of the new items of an origin, or only of those with fewer customers than that.

        They come in parts for `remove_new_items`, so that events can be written while many are removed.
        """
        found = [item.id for item in self.new_items().items if item.is_one_of(origin, fewer_than)]
        return [found[start : start + REMOVED_AT_ONCE] for start in range(0, len(found), REMOVED_AT_ONCE)]

    def remove_new_items_of(self, origin: Origin, fewer_than: int | None = None) -> int:
        """Remove all that `find_new_items_of` finds; returns how many. If it fails, call it again for the others."""
        parts = self.find_new_items_of(origin, fewer_than)
        return sum(self.remove_new_items(part, origin, fewer_than) for part in parts)

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """What the store holds now, while others go on writing: all that was acknowledged before is in it."""

    def measure(self) -> StoreSize:
        """How much the store holds. It counts all events, so it takes long in a large store."""

    def check_database(self) -> Iterator[CheckedPart]:
        """Look for damage in what the store keeps besides the files of versions. It reads everything."""

    def prune_events(self, before: float, newest: int, *, dry_run: bool = False) -> Iterator[Pruned]:
        """Remove events from before this time, except for the newest ones of each customer, in small steps.

        The newest events of a customer are those that `history` returns with this limit. `dry_run` only counts.
        """

    def find_restore(self) -> str | None:
        """The backup that is being restored, or whose restore was interrupted; None if there is none."""

    def begin_restore(self, backup: str, check: Callable[[], None]) -> None:
        """Mark the store as one into which a backup is being restored, until `end_restore`. `backup` identifies it.

        A store that has a mark is refused (`StoreFault.RESTORING`). `check` may refuse the store, too. No other restore
        begins or ends between the check and the mark.
        """

    def end_restore(
        self, backup: str, salt: str | None, erasures: Sequence[Erasure], log: Sequence[Activation]
    ) -> None:
        """Put in place erasures and the log of activations, which makes a version the current one; end the mark.

        If the mark is not that of `backup` any more, nothing changes (`StoreFault.RESTORE_ENDED`).
        """

    def close(self) -> None:
        """Release connections and files. The store cannot be used any more."""

    def _activate(self, activation: Activation, expected: Expected) -> None: ...

    def _add_events(self, events: Sequence[Event], respect_erasures: bool) -> Added: ...

    def _history(self, user: str, limit: int) -> list[HistoryEvent]: ...

    def _forget(self, user: str) -> int: ...

    def _set_live_items(self, items: list[str] | None) -> None: ...

    def _change_live_items(self, add: list[str], remove: list[str], limit: int) -> LiveCounts: ...

    def _change_new_items(self, items: Sequence[str] | None, change: Change, limit: int = 0) -> NewItemsChanged:
        """Change these new items, or all that are there; the limit is on those of one origin."""

    def _check_expected(self, expected: Expected, current: str | None) -> None:
        if expected is not ANY_VERSION and current != expected:
            raise StoreFault.OTHER_CURRENT.error(store=self.url, name=current or "none", expected=expected or "none")

    def _no_version(self, name: str) -> LorentzrecError:
        newest = ", ".join(self.versions()[:5]) or "none"
        return StoreFault.NO_VERSION.error(store=self.url, name=name, newest=newest)


def check_name(name: str) -> str:
    """The name of a version, safe as a file name and in a log line."""
    if not VERSION_NAME.fullmatch(name):
        raise InputError(f"version name {name!r} is not letters, digits, '.', '_' and '-': publish under such a name")
    return name


def check_reason(reason: str) -> str:
    """The reason of an activation, fit for every store and for one line of a table."""
    if not 0 < len(reason) <= LONGEST_REASON or _UNFIT.search(reason):
        raise InputError(
            f"the reason {reason[:60]!r} cannot be kept: give 1 to {LONGEST_REASON} characters without line breaks"
        )
    return reason


def check_ids(kind: str, ids: Iterable[str]) -> None:
    """Refuse ids that one of the stores could not keep, so that all stores keep the same ones."""
    listed = list(ids)
    # One search in all of them is much faster than a search in each.
    if not (all(listed) and max(map(len, listed), default=0) <= LONGEST_ID and not _UNFIT.search("".join(listed))):
        unfit = next(id for id in listed if not 0 < len(id) <= LONGEST_ID or _UNFIT.search(id))
        raise InputError(
            f"{kind} id {unfit[:60]!r} cannot be kept: give 1 to {LONGEST_ID} characters without control characters"
        )


def check_events(events: Sequence[Event]) -> None:
    """Refuse a whole batch if one of its events cannot be kept."""
    for kind in ("user", "item", "id"):
        check_ids("event" if kind == "id" else kind, [getattr(event, kind) for event in events])
    for event in events:
        if not math.isfinite(event.time):
            raise InputError(f"event {event.id!r} of user {event.user!r} has time {event.time}: give unix seconds")
        if not (math.isfinite(event.weight) and event.weight > 0):
            raise InputError(f"event {event.id!r} of user {event.user!r} has weight {event.weight}: give one above 0")


def sort_batch(events: Iterable[Event]) -> list[Event]:
    """A batch by customer, time and item, without events whose id occurs earlier in it.

    All processes use this order, so two batches with the same events cannot deadlock in a database.
    """
    first: dict[tuple[str, str], Event] = {}
    for event in events:
        first.setdefault((event.user, event.id), event)
    return sorted(first.values(), key=lambda event: (event.user, event.time, event.item))


def drop_erased(events: Sequence[Event], erasures: Mapping[str, float]) -> tuple[Sequence[Event], frozenset[str]]:
    """The events from after their customer's erasure, and the customers of the others. `erasures`: times by user."""
    left_out = frozenset(event.user for event in events if event.time <= erasures.get(event.user, -math.inf))
    return [event for event in events if event.time > erasures.get(event.user, -math.inf)], left_out


def key_of(*texts: str) -> str:
    """32 hexadecimal digits that represent texts of any length and content where a database limits its keys."""
    digest = hashlib.blake2b(digest_size=16)
    for text in texts:
        encoded = text.encode()
        digest.update(len(encoded).to_bytes(4, "big") + encoded)
    return digest.hexdigest()


def salted_key(key: str, salt: str) -> str:
    """What an erasure keeps of a customer's key: a different one in every store, so that two cannot be compared."""
    return hashlib.sha256(f"{salt}{key}".encode()).hexdigest()[:32]


def usual_id(item: str, time: float) -> str:
    """The id of an event that came without one: the same from every source of the event."""
    return key_of(item, repr(float(time)))
