"""The new items of the store, placed in the version in use."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from itertools import islice

from lorentzrec.data.vocabulary import UNKNOWN
from lorentzrec.errors import RecordDamaged, StoreUnavailable
from lorentzrec.points.placement import Surroundings, find_surroundings
from lorentzrec.points.points import Points
from lorentzrec.serving.settings import ServiceSettings
from lorentzrec.serving.stores.histories import Histories, StoredEvent
from lorentzrec.serving.stores.new_items import NewItem, Origin
from lorentzrec.serving.stores.versions import State
from lorentzrec.serving.versions.version import Version
from lorentzrec.serving.worker.guarded_store import GuardedStore
from lorentzrec.serving.worker.metrics import Metrics
from lorentzrec.serving.worker.new_items import NewItems, place_in_version, show_item
from lorentzrec.serving.worker.recommender import Recommender

HISTORIES_A_POLL = 200
"""Histories that are read at once to place items; the next poll, which follows at once, places the others."""
PAIRS_A_POLL = 2_000
"""Pairs of an item and one of its customers that are placed at once: many items may have the same customers."""
LONGEST_HISTORY = 100
"""The newest events of a customer that a query for a new item is made of."""
READ_SECONDS = 30.0
"""Long timeout: a store may need this long to send thousands of new items."""

logger = logging.getLogger("lorentzrec.serving")


class NewItemWatcher:
    """Follows the new items of the store and places those that the version does not contain.

    An item by events is placed when enough customers have interacted with it. Until then it is only counted.

    Used by the thread of `VersionWatcher`; only `missing_customers` and `warnings` are used by others.
    """

    def __init__(self, store: GuardedStore, metrics: Metrics, settings: ServiceSettings, *, main: bool = True) -> None:
        """`main`: whether these are the new items of the arm `main`, which measures them and makes room for others."""
        self._main = main
        self.limit, self._customers = settings.new_items, settings.event_item_customers
        origins = {"events": (Origin.PUT, Origin.EVENTS), "put": (Origin.PUT,), "none": ()}
        self.origins: tuple[Origin, ...] = origins[settings.new_items_from]
        """Those that this service takes."""
        self._store, self._metrics = store, metrics
        self._version: Version | None = None  # the one that items are placed in
        self._surroundings: Surroundings | None = None  # in this version; None: not needed yet
        self._revision = -1  # nothing was read
        self._items: dict[str, NewItem] = {}  # of the store, also those that the version contains
        self.waiting: dict[str, None] = {}
        """Ids that are to be placed; if there are any, the next poll should follow at once."""
        # The points of the items that the version does not contain. None: the item could not be placed.
        self._points: dict[str, Points | None] = {}
        self._changed = False  # whether an item or a point has changed since the last recommender was extended
        self._overfull: set[Origin] = set()  # origins of which the store has more items than are used
        self.warnings: list[str] = []
        """About origins that are full."""

    def extend(self, recommender: Recommender, state: State) -> Recommender:
        """A recommender with the new items of the store in this state; the same one if none changed."""
        if not self.origins:
            return recommender
        version = recommender.version
        if version is not self._version:
            self._version, self._surroundings = version, None
            self._items, self._points, self.waiting, self._changed = {}, {}, {}, True
            self._revision = -1  # all items are read again: of those in `like`, others are known
        if state.items_revision != self._revision:
            self._read(version, state)
            if self._main:
                self._make_room(version)
        self._place_some(version)
        if not self._changed and (recommender.new_items.items or not self._points):
            return recommender
        # In the order of their ids, so that all workers rank equal items in the same order.
        points = {id: point for id, point in sorted(self._points.items()) if point is not None}
        by_put = [id for id in points if self._is_by_put(id)]
        by_events = [id for id in points if not self._is_by_put(id)]
        placed, unplaced = [*by_put, *by_events], [id for id in self._points if id not in points]
        items = [show_item(self._items[id]) for id in (*placed, *unplaced)]
        if self._main:
            self._metrics.new_items.set(len(placed))
        self._changed = False
        placed_points = Points.concatenate([points[id] for id in placed]) if placed else None
        attributes = [self._items[id].attributes for id in placed]
        return recommender.with_new_items(NewItems(items, placed_points, len(by_events), attributes))

    def _is_by_put(self, id: str) -> bool:
        return self._items[id].origin is Origin.PUT

    def _read(self, version: Version, state: State) -> None:
        """Read what changed in the store, or as many items as are used if it has more.

        Items may be newer than the state: these are read again with the next state, which does no harm.
        """
        since = 0 if self._overfull or self._revision < 0 else state.find_since(self._revision)
        found = self._read_since(since)
        if since and len(self._used(found)) < len(found):
            since, found = 0, self._read_since(0)
        read = {item.id: item for item in _drop_unknown_likes(found, version)}
        items = (self._items if since else {}) | read
        used = self._used(items.values())
        self._overfull = {item.origin for id, item in items.items() if id not in used}
        changed = [id for id, item in read.items() if id in used and self._items.get(id) != item]
        self._items = used
        self._points = {id: point for id, point in self._points.items() if id in used}
        self.waiting = {id: None for id in self.waiting if id in used}
        self._wait_for(changed, version)
        self._revision, self._changed = state.items_revision, True

    def _read_since(self, revision: int) -> list[NewItem]:
        """One more of each origin than is used, to find out whether there are more."""
        read = self._store.call(lambda store: store.new_items(revision, self.limit + 1), seconds=READ_SECONDS)
        return [item for item in read if item.origin in self.origins]

    def _used(self, items: Iterable[NewItem]) -> dict[str, NewItem]:
        """As many items of each origin as are allowed: the first by their ids, so that all workers use the same."""
        ordered = sorted(items, key=lambda item: item.id)
        parts = ([item for item in ordered if item.origin is origin][: self.limit] for origin in self.origins)
        return {item.id: item for part in parts for item in part}

    def _wait_for(self, ids: Iterable[str], version: Version) -> None:
        """Place these items soon, except those that the version contains and those that have too few customers."""
        listed = list(ids)
        rows = version.items.rows(listed).tolist()
        for id, row in zip(listed, rows, strict=True):
            if row == UNKNOWN and (self._is_by_put(id) or len(self._items[id].customers) >= self._customers):
                self.waiting[id] = None
            else:
                self.waiting.pop(id, None)
                self._points.pop(id, None)

    def _place_some(self, version: Version) -> None:
        """Place pending items; if there are none, retry one that could not be placed."""
        chosen: list[NewItem] = []
        users: dict[str, None] = {}
        pairs = 0
        for id in self.waiting or self._next_unplaced():
            item = self._items[id]
            pairs += len(item.customers)
            if chosen and (len(users) + len(item.customers) > HISTORIES_A_POLL or pairs > PAIRS_A_POLL):
                break
            chosen.append(item)
            users |= dict.fromkeys(item.customers)
        if not chosen:
            return
        histories = self._store.call(lambda store: _read_histories(store, users), seconds=READ_SECONDS)
        if self._surroundings is None:
            self._surroundings = find_surroundings(version.points)
        points = place_in_version(version, self._surroundings, chosen, histories)
        for item, point in zip(chosen, points, strict=True):
            tried_again = item.id in self._points and self._points.pop(item.id) is None  # what was tried last is last
            self._changed |= not (tried_again and point is None)
            self._points[item.id] = point
            self.waiting.pop(item.id, None)

    def _next_unplaced(self) -> list[str]:
        """The item that was tried first among those that have customers and no point: they may have a history now."""
        ids = (id for id, point in self._points.items() if point is None and self._items[id].customers)
        return [*islice(ids, 1)]

    def _make_room(self, version: Version) -> None:
        """If there are as many new items as allowed, remove those that the version contains."""
        counts = {origin: sum(item.origin is origin for item in self._items.values()) for origin in self.origins}
        full = [origin for origin, count in counts.items() if count >= self.limit]
        for origin in self.origins:
            self._metrics.new_items_full.labels(origin).set(origin in full)
        listed = [id for id, item in self._items.items() if item.origin in full]
        rows = version.items.rows(listed).tolist()
        if known := [id for id, row in zip(listed, rows, strict=True) if row >= 0]:
            with suppress(StoreUnavailable):  # which the guard has logged; it is tried again with the next change
                self._store.call(lambda store: store.remove_new_items(known), writes=True)
                logger.info("%d new items that version %s contains were removed", len(known), version.name)
                return  # the store has changed, so it is read again
        warnings = [self.describe_full(origin) for origin in full]
        for warning in warnings:
            if warning not in self.warnings:
                logger.warning("%s", warning)
        self.warnings = warnings

    def describe_full(self, origin: Origin) -> str:
        state = f"there are {self.limit:,} new items by {origin}, and no more are added"
        if origin in self._overfull:
            state = f"there are more than {self.limit:,} new items by {origin}, and this service uses {self.limit:,}"
        return f"{state}: publish a model that contains them, remove some, or raise --new-items"

    def missing_customers(self, pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
        """Of customers who interacted with items that the version does not contain (item, user): those to be noted."""
        missing: dict[str, list[str]] = {}
        items = self._items
        for item, user in pairs:
            found = items.get(item)
            if Origin.EVENTS in self.origins if found is None else found.with_customers([user]) != found:
                missing.setdefault(item, []).append(user)
        return missing


def _drop_unknown_likes(items: list[NewItem], version: Version) -> Iterable[NewItem]:
    """The items with only those similar items that the version contains: the others place nothing."""
    ids = sorted({id for item in items for id in item.like})
    rows = version.items.rows(ids).tolist()
    known = {id for id, row in zip(ids, rows, strict=True) if row != UNKNOWN}
    for item in items:
        yield item if known.issuperset(item.like) else replace(item, like=tuple(filter(known.__contains__, item.like)))


def _read_histories(store: Histories, users: Iterable[str]) -> dict[str, list[StoredEvent]]:
    found = {}
    for user in users:
        try:
            found[user] = store.history(user, LONGEST_HISTORY)
        except RecordDamaged as error:
            logger.error("%s", error)
    return found
