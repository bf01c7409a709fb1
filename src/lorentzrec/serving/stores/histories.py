"""The histories of customers in a store, and their erasure.

A history is item ids with times, never vectors: it outlives every version of the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from lorentzrec.errors import InputError
from lorentzrec.serving.stores.ids import check_ids, make_key
from lorentzrec.serving.stores.snapshot import Pruned

DISLIKE, DISLIKE_WEIGHT = "dislike", -1.0
"""The kind of events that need no weight of their own, and the weight that they have."""
USUAL_HISTORY = 1000
"""Events that `Store.history` returns by default."""
LATEST_SECONDS = 86_400.0
"""An event arrives at most this long before it happens: `Histories.recent_events` counts on it."""
OVERLAP_SECONDS = 120.0
"""What arrived this long before a mark is read again, since a transaction may end after one that began later."""


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
    """The weight of the event in the history, as in training; negative for a dislike."""


@dataclass(frozen=True)
class Added:
    """The result of adding a batch of events."""

    accepted: int
    duplicates: int
    erased: frozenset[str] = frozenset()
    """Customers whose events from before their erasure were left out."""

    def __add__(self, other: Added) -> Added:
        return Added(self.accepted + other.accepted, self.duplicates + other.duplicates, self.erased | other.erased)


class StoredEvent(NamedTuple):
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


class RecentEvents(NamedTuple):
    """Some events of `Histories.recent_events`, in columns of equal length."""

    users: Sequence[str]
    items: Sequence[str]
    times: Sequence[float]


class EventMark(NamedTuple):
    """Up to where the events of a store were read."""

    arrived: float
    """When the newest event arrived, by the clock of the store."""
    erased: float
    """Differs after a customer was erased."""
    store: str = ""
    """Differs in another store, which may have taken the place of the first one."""


class Histories(Protocol):
    """The histories of a store; `tests/serving/stores/test_history_contract.py` checks every store against this."""

    def add_events(self, events: Sequence[Event], *, respect_erasures: bool = False) -> Added:
        """Add events, in any order and of any number of customers; duplicates are only counted.

        `respect_erasures`: leave out what a customer did up to the moment of their erasure. This is for events that are
        read from a dataset; an event that is sent after an erasure is meant.
        """
        check_events(events)
        return self._add_events(events, respect_erasures) if events else Added(0, 0)

    def add_batches(self, batches: Sequence[Sequence[Event]]) -> list[Added]:
        """`add_events` of one batch after the other. A store may use one transaction: an error then concerns all."""
        return [self.add_events(batch) for batch in batches]

    def history(self, user: str, limit: int = USUAL_HISTORY) -> list[StoredEvent]:
        """The newest `limit` events of a customer, oldest first, sorted by (time, item) in any order of arrival."""
        check_ids("user", [user])
        if limit < 1:
            raise InputError(f"a history of {limit} events is not possible: give 1 or more")
        return self._history(user, limit)

    def all_events(self) -> Iterator[EventPage]:
        """The events of all customers, many at a time: much faster than `history` for each.

        They come in any order. No event comes twice; one that is added or erased meanwhile may come or not.
        """

    def recent_events(
        self, since: float, take: Callable[[RecentEvents], None], after: EventMark | None = None
    ) -> EventMark:
        """Call `take` with the events from after this time that are no dislikes, some at a time and in any order.

        after: the mark of an earlier reading: only what arrived later is read, and what arrived shortly before, so an
        event may come again. What was read is worth nothing if the new mark is of another store; and without `after`,
        events of customers who were erased since then do not come again.
        """

    def erasures(self, users: Sequence[str]) -> dict[str, float]:
        """When each of these customers was erased for the last time; only those who were. They may have returned."""

    def forget(self, user: str) -> int:
        """Erase a customer, also as a customer of new items; returns the number of events removed.

        A hash of the id and the time stay: see `add_events`.
        """
        check_ids("user", [user])
        return self._forget(user)

    def prune_events(self, before: float, newest: int, *, dry_run: bool = False) -> Iterator[Pruned]:
        """Remove events from before this time, except for the newest ones of each customer, in small steps.

        The newest events of a customer are those that `history` returns with this limit. `dry_run` only counts.
        """

    # What a store does for the methods above, whose arguments are checked there.

    def _add_events(self, events: Sequence[Event], respect_erasures: bool) -> Added: ...

    def _history(self, user: str, limit: int) -> list[StoredEvent]: ...

    def _forget(self, user: str) -> int: ...


def check_events(events: Sequence[Event]) -> None:
    """Refuse a whole batch if one of its events cannot be kept."""
    for kind in ("user", "item", "id"):
        check_ids("event" if kind == "id" else kind, [getattr(event, kind) for event in events])
    for event in events:
        if not math.isfinite(event.time):
            raise InputError(f"event {event.id!r} of user {event.user!r} has time {event.time}: give unix seconds")
        if not (math.isfinite(event.weight) and event.weight != 0):
            raise InputError(
                f"event {event.id!r} of user {event.user!r} has weight {event.weight}: give a positive number, or a "
                "negative one for a dislike"
            )


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


def derive_event_id(item: str, time: float) -> str:
    """The id of an event that came without one: the same from every source of the event."""
    return make_key(item, repr(float(time)))
