"""The new items of the store, placed in the version in use."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from itertools import islice

from lorentzrec.data.vocabulary import UNKNOWN
from lorentzrec.errors import RecordDamaged, StoreUnavailable
from lorentzrec.serving.http.guarded_store import GuardedStore
from lorentzrec.serving.http.metrics import Metrics
from lorentzrec.serving.http.settings import ServiceSettings
from lorentzrec.serving.recommending.new_items import NewItems, NewPoint, Placer, details_of
from lorentzrec.serving.recommending.recommender import Recommender
from lorentzrec.serving.stores.new_items import NewItem, NewItemsRead, Origin
from lorentzrec.serving.stores.store import HistoryEvent, Store

HISTORIES_A_POLL = 200
"""Histories that are read at once to place items; the next poll, which follows at once, places the others."""
PAIRS_A_POLL = 2_000
"""Pairs of an item and one of its customers that are placed at once: many items may have the same customers."""
LONGEST_HISTORY = 100
"""The newest events of a customer that a query for a new item is made of."""
READ_SECONDS = 30.0
"""There may be thousands of new items, and a store that is sending them is not to be given up."""

logger = logging.getLogger("lorentzrec.serving")


class NewItemWatcher:
    """Follows the new items of the store and places those that the version does not contain.

    An item by events is placed when enough customers have interacted with it. Until then it is only counted.

    Used by the thread of `VersionWatcher`; only `missing_customers` and `warnings` are used by others.
    """

    def __init__(self, store: GuardedStore, metrics: Metrics, settings: ServiceSettings) -> None:
        self.limit, self._customers = settings.new_items, settings.event_item_customers
        origins = {"events": (Origin.PUT, Origin.EVENTS), "put": (Origin.PUT,), "none": ()}
        self.origins: tuple[Origin, ...] = origins[settings.new_items_from]
        """Those that this service takes."""
        self._store, self._metrics = store, metrics
        self._revision = -1  # nothing was read
        self._items: dict[str, NewItem] = {}  # of the store, also those that the version contains
        self._placer: Placer | None = None
        self.waiting: dict[str, None] = {}
        """Ids that are to be placed; if there are any, the next poll should follow at once."""
        # Of those that the version does not contain; None: not placed.
        self._points: dict[str, tuple[NewPoint, ...] | None] = {}
        self._changed = False  # since the last recommender was extended
        self._overfull: set[Origin] = set()  # the store has more items of these origins than are used
        self.warnings: list[str] = []
        """About origins that are full."""

    def extend(self, recommender: Recommender, revision: int) -> Recommender:
        """A recommender with the new items of the store, at this revision of theirs; the same one if none changed."""
        if not self.origins:
            return recommender
        if self._placer is None or self._placer.version is not recommender.version:
            self._placer = Placer(recommender.version)
            self._items, self._points, self.waiting, self._changed = {}, {}, {}, True
            self._revision = -1  # all items are read again: of those in `like`, others are known
        if revision != self._revision:
            self._read(self._placer)
            self._make_room(self._placer)
        self._place_some(self._placer)
        if not self._changed and (recommender.new_items.items or not self._points):
            return recommender
        # In the order of their ids, so that all workers rank equal items in the same order.
        points = {id: point for id, point in sorted(self._points.items()) if point is not None}
        placed = [*filter(self._is_by_put, points), *(id for id in points if not self._is_by_put(id))]
        items = [details_of(self._items[id]) for id in (*placed, *(id for id in self._points if id not in points))]
        self._metrics.new_items.set(len(points))
        self._changed = False
        by_events = len(points) - sum(map(self._is_by_put, points))
        return recommender.with_new_items(NewItems(items, [points[id] for id in placed], by_events))

    def _is_by_put(self, id: str) -> bool:
        return self._items[id].origin is Origin.PUT

    def _read(self, placer: Placer) -> None:
        """Read what changed in the store, or as many items as are used if it has more."""
        found = self._read_since(0 if self._overfull else max(0, self._revision))
        if not found.complete and len(self._used(found.items)) < len(found.items):
            found = self._read_since(0)
        read = {item.id: item for item in _with_known_items(found.items, placer)}
        items = ({} if found.complete else self._items) | read
        used = self._used(items.values())
        self._overfull = {item.origin for id, item in items.items() if id not in used}
        changed = [id for id, item in read.items() if id in used and self._items.get(id) != item]
        self._items = used
        self._points = {id: point for id, point in self._points.items() if id in used}
        self.waiting = {id: None for id in self.waiting if id in used}
        self._wait_for(changed, placer)
        self._revision, self._changed = found.revision, True

    def _read_since(self, revision: int) -> NewItemsRead:
        """One more of each origin than is used, to find out whether there are more."""
        read = self._store.call(lambda store: store.new_items(revision, self.limit + 1), seconds=READ_SECONDS)
        return read._replace(items=[item for item in read.items if item.origin in self.origins])

    def _used(self, items: Iterable[NewItem]) -> dict[str, NewItem]:
        """As many items of each origin as are allowed: the first by their ids, so that all workers use the same."""
        ordered = sorted(items, key=lambda item: item.id)
        parts = ([item for item in ordered if item.origin is origin][: self.limit] for origin in self.origins)
        return {item.id: item for part in parts for item in part}

    def _wait_for(self, ids: Iterable[str], placer: Placer) -> None:
        """Place these items soon, except those that the version contains and those that have too few customers."""
        listed = list(ids)
        rows = placer.version.items.rows(listed).tolist()
        for id, row in zip(listed, rows, strict=True):
            if row == UNKNOWN and (self._is_by_put(id) or len(self._items[id].customers) >= self._customers):
                self.waiting[id] = None
            else:
                self.waiting.pop(id, None)
                self._points.pop(id, None)

    def _place_some(self, placer: Placer) -> None:
        """Place items that wait for it, or else try again one that could not be placed."""
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
        points = placer.place(chosen, histories)
        for item, point in zip(chosen, points, strict=True):
            tried_again = item.id in self._points and self._points.pop(item.id) is None  # what was tried last is last
            self._changed |= not (tried_again and point is None)
            self._points[item.id] = point
            self.waiting.pop(item.id, None)

    def _next_unplaced(self) -> list[str]:
        """The item that was tried first among those that have customers and no point: they may have a history now."""
        ids = (id for id, point in self._points.items() if point is None and self._items[id].customers)
        return [*islice(ids, 1)]

    def _make_room(self, placer: Placer) -> None:
        """If there are as many new items as allowed, remove those that the version contains."""
        counts = {origin: sum(item.origin is origin for item in self._items.values()) for origin in self.origins}
        full = [origin for origin, count in counts.items() if count >= self.limit]
        for origin in self.origins:
            self._metrics.new_items_full.labels(origin).set(origin in full)
        listed = [id for id, item in self._items.items() if item.origin in full]
        rows = placer.version.items.rows(listed).tolist()
        if known := [id for id, row in zip(listed, rows, strict=True) if row >= 0]:
            with suppress(StoreUnavailable):  # which the guard has logged; it is tried again with the next change
                self._store.call(lambda store: store.remove_new_items(known), writes=True)
                logger.info("%d new items that version %s contains were removed", len(known), placer.version.name)
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


def _with_known_items(items: list[NewItem], placer: Placer) -> Iterable[NewItem]:
    """The same, with only those similar items that the version contains: the others place nothing."""
    ids = sorted({id for item in items if item.details is not None for id in item.details.like})
    rows = placer.version.items.rows(ids).tolist()
    known = {id for id, row in zip(ids, rows, strict=True) if row != UNKNOWN}
    for item in items:
        if item.details is None or known.issuperset(item.details.like):
            yield item
        else:
            like = tuple(id for id in item.details.like if id in known)
            yield replace(item, details=replace(item.details, like=like))


def _read_histories(store: Store, users: Iterable[str]) -> dict[str, list[HistoryEvent]]:
    found = {}
    for user in users:
        try:
            found[user] = store.history(user, LONGEST_HISTORY)
        except RecordDamaged as error:
            logger.error("%s", error)
    return found
