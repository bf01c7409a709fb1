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
from lorentzrec.model.diversity import diversify, pool_size
from lorentzrec.model.fallbacks import Cause, Fallback, history_fallbacks, unknown_fallbacks
from lorentzrec.model.ranking import History, Rows
from lorentzrec.model.reasons import strongest_reasons
from lorentzrec.serving.recommending.live_ranker import LiveRanker, QueryPoint, Ranked, explore
from lorentzrec.serving.recommending.new_items import NewItems
from lorentzrec.serving.recommending.query import (
    Field,
    Id,
    ItemOptions,
    RankedItems,
    RankingOptions,
    Reason,
    RecommendedItem,
)
from lorentzrec.serving.stores.store import SPARE_LIVE_IDS
from lorentzrec.serving.versions.item_directory import Item
from lorentzrec.serving.versions.version import Version

EXPLORED = 1_000
"""New items that are drawn from in one query: the best ones, or all if there is no query."""
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
        event_item_share: of the places in a response, for new items by events, see `_limit_by_events`.
        """
        self.version, self._explore, self._event_item_share = version, explore, event_item_share
        self.new_items = NewItems([], [])
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
        self._own = LiveRanker(version.ranker, version.item_counts, live, version.index)
        twin = version.twin_ranker
        self._twin = None if twin is None else LiveRanker(twin, version.item_counts, live)
        self._symmetric = version.manifest["model"]["model"] == "symmetric"
        self._code_of = {name: code for code, name in enumerate(version.categories)}
        self._codes: NDArray[np.integer[Any]] = version.category_codes
        self._base: Recommender | None = None

    def with_new_items(self, new: NewItems) -> Recommender:
        """The same with new items; of those that are placed, the live ones may be recommended. This is cheap."""
        base = self._base or self
        extended = copy(base)
        extended._base, extended.new_items = base, new
        placed = new.items[: len(new.points)]
        if placed:
            names = sorted({item.category for item in placed if item.category is not None} - base._code_of.keys())
            extended._code_of = base._code_of | {name: len(base._code_of) + code for code, name in enumerate(names)}
            codes = [extended._code_of.get(item.category or "", UNKNOWN) for item in placed]
            extended._codes = np.concatenate([base._codes, codes])
            live = np.array([(item.id in self._unknown) == self._listed for item in placed])
            extended._own = base._own.extended(new.in_model(0), live, new.by_events)
            extended._twin = base._twin and base._twin.extended(new.in_model(1), live, new.by_events)
        return extended

    @property
    def recommendable_count(self) -> int:
        """The number of items that may be recommended: live ones of the version, and live new ones that are placed."""
        return len(self._own.live_rows(new=True))

    @property
    def unknown_live_count(self) -> int:
        """The number of ids in the list of live items that are neither in the version nor new items."""
        return len(self._unknown - self.new_items.places.keys()) if self._listed else 0

    def warm_up(self) -> None:
        """Run one query of each kind: the first reads all points from disk, which no client should wait for."""
        item = self.version.items.items([0])[0].id
        for twin in (False, True) if self._twin else (False,):
            self.recommend([item], RankingOptions(reasons=True, twin=twin))
            self.similar(item, RankingOptions(twin=twin))

    def recommend(
        self,
        history: Sequence[Id],
        options: RankingOptions = DEFAULTS,
        *,
        weights: Sequence[float] = (),
        exclude_seen: bool = True,
        without: Sequence[int] = (),
    ) -> RankedItems:
        """The best live items for a history, oldest first; the popular ones if no item of it is known.

        weights: one per item of the history, as in training; empty if all are equal.
        exclude_seen: do not recommend items of the history.
        without: codes of categories to leave out.
        """
        ranker, rows = self._ranker(options), self._rows(history)
        known = rows != UNKNOWN
        seen = rows[known]
        allowed, fallbacks = self._allowed(options, without)
        fallbacks = history_fallbacks(rows, midpoint=self._symmetric and not options.twin) + fallbacks
        excluded = self._known(options.exclude)
        if exclude_seen:
            excluded = np.concatenate([excluded, seen])
        used = History(seen, np.array(weights)[known] if weights else None)
        query = QueryPoint(ranker.all_items.query(*used), used) if len(seen) else None
        ranked = self._top(ranker, query, options, excluded, allowed)
        if not len(ranked[0]):
            fallbacks += (_explain_none(ranker.live_rows(new=query is not None), allowed),)
        because = self._reasons(ranker, used, ranked[0]) if options.reasons and query and len(ranked[0]) else None
        return RankedItems(self._describe(ranked, options.fields, because), fallbacks)

    def complete_basket(self, items: Sequence[Id], options: RankingOptions = DEFAULTS) -> RankedItems:
        """Items that complement a basket: the best ones of categories that are not in it."""
        in_basket = sorted({*self._codes[self._known(items)].tolist()} - {UNKNOWN})
        ranked = self.recommend(items, options, without=in_basket)
        if not items or (in_basket and ranked.items):
            return ranked
        cause = Cause.BASKET_WITHOUT_CATEGORIES
        if in_basket:
            ranked, cause = self.recommend(items, options), Cause.BASKET_OF_ALL_CATEGORIES
        return ranked._replace(fallbacks=(*ranked.fallbacks, Fallback(cause)))

    def similar(self, item: str, options: ItemOptions = DEFAULTS) -> RankedItems:
        """The live items nearest to an item, live or not, scored by minus the distance; never the item itself."""
        ranker = self._ranker(options)
        row = self._known([item])
        if not len(row):
            raise UnknownItem(item, self.version.name)
        allowed, fallbacks = self._allowed(options)
        excluded = np.concatenate([row, self._known(options.exclude)])
        query = QueryPoint(ranker.all_items.precise_items(row)[0], None)
        ranked = self._top(ranker, query, options, excluded, allowed)
        if not len(ranked[0]):
            fallbacks += (_explain_none(ranker.live_rows(new=True), allowed),)
        return RankedItems(self._describe(ranked, options.fields), fallbacks)

    def _describe(
        self, ranked: Ranked, fields: Sequence[Field], because: Sequence[tuple[Reason, ...]] | None = None
    ) -> tuple[RecommendedItem, ...]:
        """The ranked items with their details, with the requested fields, and with their reasons if given."""
        rows, scores = ranked
        found = zip(self._items(rows), scores.tolist(), because or [()] * len(rows), strict=True)
        price, image = "price" in fields, "image" in fields
        return tuple(
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
            for item, score, reasons in found
        )

    def _reasons(self, ranker: LiveRanker, history: History, rows: Rows) -> list[tuple[Reason, ...]]:
        found = strongest_reasons(ranker.all_items, history, rows)
        used = np.unique([part.row for reasons in found for part in reasons]).astype(np.int64)
        named = dict(zip(used.tolist(), self._items(used), strict=True))
        return [
            tuple(Reason(named[row].id, named[row].title, share, kind) for row, share, kind in reasons)
            for reasons in found
        ]

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

    def _ranker(self, options: ItemOptions) -> LiveRanker:
        ranker = self._twin if options.twin else self._own
        if ranker is None:
            raise InputError(
                f"version {self.version.name} has no twin: send the query without it, or publish with --twin"
            )
        return ranker

    def _rows(self, ids: Sequence[Id], *, placed: bool = True) -> NDArray[np.int64]:
        """Rows of the version, and after them those of the new items: of the placed ones, or of all."""
        texts = [str(id) for id in ids]
        rows, new = self.version.items.rows(texts), self.new_items
        count = len(new.points) if placed else len(new.items)
        for place in np.flatnonzero(rows == UNKNOWN) if count else ():
            if (found := new.places.get(texts[place], count)) < count:
                rows[place] = len(self.version.items) + found
        return rows

    def _items(self, rows: Rows) -> list[Item]:
        count, new = len(self.version.items), self.new_items.items
        known = iter(self.version.items.items(rows[rows < count]))
        return [next(known) if row < count else new[row - count] for row in rows.tolist()]

    def _known(self, ids: Sequence[Id]) -> NDArray[np.int64]:
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

    def _top(
        self,
        ranker: LiveRanker,
        query: QueryPoint | None,
        options: ItemOptions,
        excluded: Rows,
        allowed: Rows | None,
    ) -> Ranked:
        """The best `k` items for a query, diversified, or else the popular ones; and new ones that are to be explored.

        The most popular items are meant to be just that, so diversity has no effect on them.
        """
        k, diversity = options.k, options.diversity
        by_events = self._limit_by_events(k)
        if query is None:
            rows, scores = ranker.popular(k, excluded, allowed)
        else:
            rows, scores = ranker.top(query, pool_size(k, diversity), by_events, excluded, allowed)
            if diversity:
                chosen = diversify(ranker.all_items, rows, scores, k, diversity)
                rows, scores = rows[chosen], scores[chosen]
        share = self._explore if options.explore is None else options.explore
        if not share or not self.new_items.points:
            return rows, scores
        random = np.random.default_rng(options.seed)
        new, new_scores = ranker.new_items(query, max(k, EXPLORED), EXPLORED, excluded, allowed)
        if query is None:
            new = random.permutation(new)
        first = len(self.version.items) + len(self.new_items.points) - self.new_items.by_events
        return explore((rows, scores), (new, new_scores), k, share, random, (first, by_events))

    def _limit_by_events(self, k: int) -> int:
        """The largest number of new items by events among `k`: their share, and at least one if that is not 0."""
        share = self._event_item_share
        return max(1, int(share * k + 1e-9)) if share else 0


def _explain_none(live: Rows, allowed: Rows | None) -> Fallback:
    """Why nothing was found. `live`: the rows that may be recommended; `allowed`: those that were requested."""
    if not len(live):
        return Fallback(Cause.NOTHING_LIVE)
    if allowed is not None and not np.isin(live, allowed).any():
        return Fallback(Cause.NOTHING_ALLOWED)
    return Fallback(Cause.ALL_EXCLUDED)
