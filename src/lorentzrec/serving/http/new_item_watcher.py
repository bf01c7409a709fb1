"""The new items of the store, placed in the version in use."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice

from lorentzrec.errors import RecordDamaged, StoreUnavailable
from lorentzrec.serving.http.guarded_store import GuardedStore
from lorentzrec.serving.http.metrics import Metrics
from lorentzrec.serving.recommending.new_items import NewItems, NewPoint, Placer, details_of
from lorentzrec.serving.recommending.recommender import Recommender
from lorentzrec.serving.stores.new_items import MOST_CUSTOMERS, NewItem
from lorentzrec.serving.stores.store import HistoryEvent, Store

HISTORIES_A_POLL = 200
"""Histories that are read at once to place items; the next poll, which follows at once, places the others."""
LONGEST_HISTORY = 100
"""The newest events of a customer that a query for a new item is made of."""
READ_SECONDS = 30.0
"""There may be thousands of new items, and a store that is sending them is not to be given up."""

logger = logging.getLogger("lorentzrec.serving")


class NewItemWatcher:
    """Follows the new items of the store and places those that the version does not contain.

    Used by the thread of `VersionWatcher`; only `missing_customers` is called by others.
    """

    def __init__(self, store: GuardedStore, metrics: Metrics, most: int) -> None:
        self.most = most
        self._store, self._metrics = store, metrics
        self._revision = 0
        self._items: dict[str, NewItem] = {}  # of the store, also those that the version contains
        self._placer: Placer | None = None
        self.waiting: dict[str, None] = {}
        """Ids that are to be placed; if there are any, the next poll should follow at once."""
        # Of those that the version does not contain; None: not placed.
        self._points: dict[str, tuple[NewPoint, ...] | None] = {}
        self._changed = False  # since the last recommender was extended
        self._full = False

    def extend(self, recommender: Recommender, revision: int) -> Recommender:
        """A recommender with the new items of the store, at this revision of theirs; the same one if none changed."""
        if not self.most:
            return recommender
        placer = self._placer_of(recommender)
        if revision != self._revision:
            self._read()
            self._make_room(placer)
        self._place_some(placer)
        if not self._changed and (recommender.new_items.items or not self._points):
            return recommender
        # In the order of their ids, so that all workers rank equal items in the same order.
        points = {id: point for id, point in sorted(self._points.items()) if point is not None}
        others = [id for id, point in self._points.items() if point is None]
        items = [details_of(self._items[id]) for id in (*points, *others)]
        self._metrics.new_items.set(len(points))
        self._changed = False
        return recommender.with_new_items(NewItems(items, list(points.values())))

    def _placer_of(self, recommender: Recommender) -> Placer:
        if self._placer is None or self._placer.version is not recommender.version:
            self._placer = Placer(recommender.version)
            self._points, self.waiting, self._changed = {}, {}, True
            self._wait_for(self._items)
            self._make_room(self._placer)
        return self._placer

    def _read(self) -> None:
        """Read what changed in the store."""
        found = self._store.call(lambda store: store.new_items(self._revision), seconds=READ_SECONDS)
        if found.complete:
            kept = {item.id for item in found.items}
            self._items = {id: item for id, item in self._items.items() if id in kept}
            self._points = {id: point for id, point in self._points.items() if id in kept}
            self.waiting = {id: None for id in self.waiting if id in kept}
        changed = [item.id for item in found.items if self._items.get(item.id) != item]
        self._items |= {item.id: item for item in found.items}
        self._wait_for(changed)
        self._revision, self._changed = found.revision, True

    def _wait_for(self, ids: Iterable[str]) -> None:
        """Place these items soon, except those that the version contains."""
        assert self._placer is not None
        listed = list(ids)
        rows = self._placer.version.items.rows(listed)
        self.waiting |= {id: None for id, row in zip(listed, rows.tolist(), strict=True) if row < 0}

    def _place_some(self, placer: Placer) -> None:
        """Place items that wait for it, or else try again one that could not be placed."""
        chosen: list[NewItem] = []
        users: dict[str, None] = {}
        for id in self.waiting or self._next_unplaced():
            item = self._items[id]
            if chosen and len(users) + len(item.customers) > HISTORIES_A_POLL:
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
        full = len(self._items) >= self.most
        if full:
            listed = list(self._items)
            rows = placer.version.items.rows(listed).tolist()
            if known := [id for id, row in zip(listed, rows, strict=True) if row >= 0]:
                with suppress(StoreUnavailable):  # which the guard has logged; it is tried again with the next change
                    self._store.call(lambda store: store.remove_new_items(known), writes=True)
                    logger.info("%d new items that version %s contains were removed", len(known), placer.version.name)
            elif not self._full:
                logger.warning(
                    "there are %d new items, and no more are added: publish a model that contains them, remove some, "
                    "or raise --new-items",
                    len(self._items),
                )
        self._full = full

    def missing_customers(self, pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
        """Of customers who interacted with items that the version does not contain (item, user): those to be noted."""
        missing: dict[str, list[str]] = {}
        if self.most:
            for item, user in pairs:
                found = self._items.get(item)
                if found is None or (len(found.customers) < MOST_CUSTOMERS and user not in found.customers):
                    missing.setdefault(item, []).append(user)
        return missing


def _read_histories(store: Store, users: Iterable[str]) -> dict[str, list[HistoryEvent]]:
    found = {}
    for user in users:
        try:
            found[user] = store.history(user, LONGEST_HISTORY)
        except RecordDamaged as error:
            logger.error("%s", error)
    return found
