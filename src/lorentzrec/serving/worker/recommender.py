"""From a history to recommendations: its midpoint, the best live items, their reasons, and fallbacks."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from lorentzrec.data.vocabulary import UNKNOWN
from lorentzrec.errors import InputError
from lorentzrec.points.fallbacks import Cause, Fallback, unknown_fallbacks
from lorentzrec.points.index import INDEXED_ITEMS
from lorentzrec.points.points import count_order_ages
from lorentzrec.points.ranking import LiveSet, NewPoints, Ranker
from lorentzrec.points.recommending import RowOptions, RowQuery, recommend_rows
from lorentzrec.points.scoring import NO_ROWS
from lorentzrec.points.topk import Rows
from lorentzrec.serving.stores.catalogue import SPARE_LIVE_IDS
from lorentzrec.serving.versions.item_directory import Item
from lorentzrec.serving.versions.version import Version
from lorentzrec.serving.worker.new_items import NewItems
from lorentzrec.serving.worker.query import (
    Id,
    ItemOptions,
    RankedItems,
    RankingOptions,
    Reason,
    RecommendedItem,
)

DEFAULTS = RankingOptions()


class UnknownItem(InputError):  # noqa: N818 - it becomes a 404
    """The query is about an item that the version does not contain."""

    def __init__(self, item: str, version: str) -> None:
        super().__init__(f"the item {item!r} is not in version {version}: check the id")


class Recommender:
    """Recommends from one version, one set of live items and some new items. Immutable, and safe for many threads."""

    def __init__(
        self,
        version: Version,
        live_items: Sequence[str] | None = None,
        removed: Sequence[str] = (),
        *,
        explore: float = 0.0,
        event_item_share: float = 0.2,
    ) -> None:
        """Histories may contain items that are not live.

        live_items: the only ids that may be recommended; None for all except those in `removed`.
        explore: for queries that do not set it.
        event_item_share: the largest share of new items by events in a response; at least one if it is not 0.
        """
        self.version, self._explore, self._event_item_share = version, explore, event_item_share
        self.new_items = NewItems([])
        self._listed = live_items is not None
        listed = removed if live_items is None else live_items
        rows = version.items.rows(listed)
        unknown = np.flatnonzero(rows == UNKNOWN).tolist()
        limit = len(version.items) + SPARE_LIVE_IDS
        self._unknown = frozenset(listed[index] for index in unknown[:limit])
        self.ignored_live_ids = max(0, len(unknown) - limit)
        """The last ones of the list, which would take too much memory. They only matter for new items."""
        rows = rows[rows != UNKNOWN]
        live = np.unique(rows) if self._listed else np.delete(np.arange(len(version.items)), rows)
        self.live_count = len(live)
        self.listed_count = len(listed) if self._listed else 0
        """The ids in the list of live items; 0 if there is none."""
        index = version.index if len(live) >= INDEXED_ITEMS else None
        live_set = LiveSet(version.points, live, indexed=index is not None)
        self._ranker = Ranker(version.points, index=index, live=live_set)
        self._symmetric = version.manifest["config"]["model"] == "symmetric"
        self._code_of = {name: code for code, name in enumerate(version.categories)}
        self._codes: NDArray[np.integer[Any]] = version.category_codes
        self._base: Recommender | None = None

    def with_new_items(self, new: NewItems) -> Recommender:
        """The same with new items; of those that are placed, the live ones may be recommended. This is cheap."""
        base = self._base or self
        extended = copy(base)
        extended._base, extended.new_items = base, new
        placed = new.items[: new.placed_count]
        if new.points is not None:
            names = sorted({item.category for item in placed if item.category is not None} - base._code_of.keys())
            extended._code_of = base._code_of | {name: len(base._code_of) + code for code, name in enumerate(names)}
            codes = [extended._code_of.get(item.category or "", UNKNOWN) for item in placed]
            extended._codes = np.concatenate([base._codes, codes])
            live = np.array([(item.id in self._unknown) == self._listed for item in placed])
            extended._ranker = base._ranker.with_new(NewPoints(new.points, live, new.by_events))
        return extended

    @property
    def recommendable_count(self) -> int:
        """The number of items that may be recommended: live ones of the version, and live new ones that are placed."""
        return len(self._ranker.live_rows(new=True))

    @property
    def unknown_live_count(self) -> int:
        """The number of ids in the list of live items that are neither in the version nor new items."""
        return len(self._unknown - self.new_items.indices.keys()) if self._listed else 0

    def warm_up(self) -> None:
        """Run one query of each kind: the first reads all points from disk, which no client should wait for."""
        item = self.version.items.items([0])[0].id
        self.recommend([item], RankingOptions(reasons=True))
        self.similar(item)

    def recommend(
        self,
        history: Sequence[Id],
        options: RankingOptions = DEFAULTS,
        *,
        weights: Sequence[float] = (),
        times: Sequence[float] = (),
        exclude_seen: bool | None = None,
        without: Sequence[int] = (),
    ) -> RankedItems:
        """The best live items for a history, oldest first; the popular ones if no item of it is known.

        weights: one per item of the history, as in training; empty if all are equal.
        times: unix seconds, one per item of the history; NaN for what the customer looks at and did not buy. Equal
        times form an order. Empty: every item is an order.
        exclude_seen: do not recommend items of the history. None: leave them out, unless customers buy again.
        without: codes of categories to leave out.
        """
        seconds = np.array(times) if times else None
        ages = None if seconds is None else count_order_ages(seconds)
        query = RowQuery(self._rows(history), np.array(weights) if weights else None, seconds, ages)
        chosen = self._options(options, without, exclude_seen=exclude_seen, reasons=options.reasons)
        return self._recommend(query, chosen, options)

    def complete_basket(self, items: Sequence[Id], options: RankingOptions = DEFAULTS) -> RankedItems:
        """Items that complement a basket: the best ones of categories that are not in it."""
        in_basket = sorted({*self._codes[self._known(items)].tolist()} - {UNKNOWN})
        ranked = self.recommend(items, options, without=in_basket, exclude_seen=True)
        if not items or (in_basket and ranked.items):
            return ranked
        cause = Cause.BASKET_WITHOUT_CATEGORIES
        if in_basket:
            ranked, cause = self.recommend(items, options, exclude_seen=True), Cause.BASKET_OF_ALL_CATEGORIES
        return ranked._replace(fallbacks=(*ranked.fallbacks, Fallback(cause)))

    def similar(self, item: str, options: ItemOptions = DEFAULTS) -> RankedItems:
        """The live items nearest to an item, live or not, scored by minus the distance; never the item itself."""
        rows = self._known([item])
        if not len(rows):
            raise UnknownItem(item, self.version.name)
        query = RowQuery(rows, point=self._ranker.precise_items(rows)[0])
        return self._recommend(query, self._options(options, by_distance=True), options)

    def _options(self, options: ItemOptions, without: Sequence[int] = (), **others: Any) -> RowOptions:
        """The options in rows, with others that are no ids; `without`: codes of categories to leave out."""
        allowed, fallbacks = self._allowed(options, without)
        share, k = self._event_item_share, options.k
        return RowOptions(
            k=k,
            excluded=self._known(options.exclude),
            allowed=allowed,
            diversity=options.diversity,
            explore=self._explore if options.explore is None else options.explore,
            seed=options.seed,
            event_limit=max(1, int(share * k + 1e-9)) if share else 0,
            fallbacks=fallbacks,
            with_user_points=self._symmetric,
            **others,
        )

    def _recommend(self, query: RowQuery, chosen: RowOptions, options: ItemOptions) -> RankedItems:
        """The result of a query, with the details of items that were requested."""
        (found,) = recommend_rows(self._ranker, [query], chosen)
        because: Sequence[tuple[Reason, ...]] = [()] * len(found.rows)
        if found.reasons is not None:
            used = np.unique([part.row for reasons in found.reasons for part in reasons]).astype(np.int64)
            named = dict(zip(used.tolist(), self._items(used), strict=True))
            because = [
                tuple(Reason(named[part.row].id, named[part.row].title, *part[1:]) for part in reasons)
                for reasons in found.reasons
            ]
        price, image = "price" in options.fields, "image" in options.fields
        items = tuple(
            RecommendedItem(
                item.id,
                item.row,
                score,
                item.title,
                item.category,
                reasons,
                item.new,
                item.price if price else UNSET,
                item.image if image else UNSET,
            )
            for item, score, reasons in zip(self._items(found.rows), found.scores.tolist(), because, strict=True)
        )
        return RankedItems(items, found.fallbacks)

    def find_items(self, ids: Sequence[str]) -> list[Item | None]:
        """The details of items, also of new ones that are not placed; None for an unknown id."""
        rows = self._rows(ids, placed=False)
        known = iter(self._items(rows[rows != UNKNOWN]))
        return [None if row == UNKNOWN else next(known) for row in rows.tolist()]

    def count_known(self, ids: Sequence[str]) -> int:
        """How many of some ids are items of the version or new items, placed or not."""
        return int((self._rows(ids, placed=False) != UNKNOWN).sum())

    def search(self, words: str, limit: int) -> list[Item]:
        """Items by the words of their ids and titles: that with this very id, popular ones, and then new ones."""
        found = self.version.items.search(words, limit) + self.new_items.search(words, limit)
        return sorted(found, key=lambda item: item.id != words.strip())[:limit]

    def _rows(self, ids: Sequence[Id], *, placed: bool = True) -> NDArray[np.int64]:
        """Rows of the version, and after them those of the new items: of the placed ones, or of all."""
        texts = [str(id) for id in ids]
        rows, new = self.version.items.rows(texts), self.new_items
        count = new.placed_count if placed else len(new.items)
        for index in np.flatnonzero(rows == UNKNOWN) if count else ():
            if (found := new.indices.get(texts[index], count)) < count:
                rows[index] = len(self.version.items) + found
        return rows

    def _items(self, rows: Rows) -> list[Item]:
        count, new = len(self.version.items), self.new_items.items
        if not new:
            return self.version.items.items(rows)
        known = iter(self.version.items.items(rows[rows < count]))
        return [next(known) if row < count else new[row - count] for row in rows.tolist()]

    def _known(self, ids: Sequence[Id]) -> NDArray[np.int64]:
        if not ids:
            return NO_ROWS
        rows = self._rows(ids)
        known: NDArray[np.int64] = rows[rows != UNKNOWN]
        return known

    def _allowed(self, options: ItemOptions, without: Sequence[int] = ()) -> tuple[Rows | None, tuple[Fallback, ...]]:
        """The rows that the allow-list and the categories leave, None for all, with fallbacks for unknown ones.

        without: codes of categories to leave out.
        """
        categories = options.categories
        fallbacks: tuple[Fallback, ...] = ()
        allowed = None
        if options.allow is not None:
            allowed = self._rows(options.allow)
            fallbacks = unknown_fallbacks(Cause.UNKNOWN_ALLOWED_ITEMS, allowed)
            allowed = allowed[allowed != UNKNOWN]
        if categories or without:
            codes = np.array([self._code_of.get(name, UNKNOWN) for name in categories], np.int64)
            fallbacks += unknown_fallbacks(Cause.UNKNOWN_CATEGORIES, codes)
            # The last entry is that of code -1, items without a category: they are in none of the requested ones.
            wanted = np.full(len(self._code_of) + 1, not categories)
            wanted[codes[codes != UNKNOWN]] = True
            wanted[list(without)] = False
            allowed = np.flatnonzero(wanted[self._codes]) if allowed is None else allowed[wanted[self._codes[allowed]]]
        return allowed, fallbacks
