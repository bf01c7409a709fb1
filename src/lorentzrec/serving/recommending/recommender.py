"""From a history to recommendations: its midpoint, the best live items, their reasons, and fallbacks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.vocabulary import UNKNOWN
from lorentzrec.errors import InputError
from lorentzrec.model.diversity import diversify, pool_size
from lorentzrec.model.fallbacks import Cause, Fallback, history_fallbacks, unknown_fallbacks
from lorentzrec.model.ranking import History, Rows
from lorentzrec.serving.recommending.live_ranker import LiveRanker, Query, Ranked
from lorentzrec.serving.recommending.query import Id, RankedItems, RankingOptions, Reason, RecommendedItem
from lorentzrec.serving.versions.version import Version

DEFAULTS = RankingOptions()


class UnknownItem(InputError):  # noqa: N818 - it becomes a 404
    """The query is about an item that the version does not contain."""

    def __init__(self, item: str, version: str) -> None:
        super().__init__(f"the item {item!r} is not in version {version}: check the id")


class Recommender:
    """Recommends from one version and one set of live items. Immutable, and safe to use from many threads."""

    def __init__(self, version: Version, live_items: Sequence[str] | None = None, removed: Sequence[str] = ()) -> None:
        """Histories may contain items that are not live.

        live_items: the only ids that may be recommended; None for all except those in `removed`.
        """
        self.version = version
        live = None
        if live_items is not None:
            live = np.unique(self._known(live_items))
        elif removed:
            live = np.delete(np.arange(len(version.items)), self._known(removed))
        if live is not None and len(live) == len(version.items):
            live = None
        self.live_count = len(version.items) if live is None else len(live)
        self._own = LiveRanker(version.ranker, version.item_counts, live, version.index)
        twin = version.twin_ranker
        self._twin = None if twin is None else LiveRanker(twin, version.item_counts, live)
        self._symmetric = version.manifest["model"]["model"] == "symmetric"
        self._code_of = {name: code for code, name in enumerate(version.categories)}

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
    ) -> RankedItems:
        """The best live items for a history, oldest first; the popular ones if no item of it is known.

        weights: one per item of the history, as in training; empty if all are equal.
        exclude_seen: do not recommend items of the history.
        """
        return self._recommend(self._rows(history), options, weights, exclude_seen)

    def complete_basket(self, items: Sequence[Id], options: RankingOptions = DEFAULTS) -> RankedItems:
        """Items that complement a basket: the best ones of categories that are not in it."""
        basket = self._rows(items)
        codes = self.version.category_codes[basket[basket != UNKNOWN]]
        in_basket = sorted({int(code) for code in codes if code >= 0})
        ranked = self._recommend(basket, options, without=in_basket)
        if not items or (in_basket and ranked.items):
            return ranked
        cause = Cause.BASKET_WITHOUT_CATEGORIES
        if in_basket:
            ranked, cause = self._recommend(basket, options), Cause.BASKET_OF_ALL_CATEGORIES
        return ranked._replace(fallbacks=(*ranked.fallbacks, Fallback(cause)))

    def similar(self, item: str, options: RankingOptions = DEFAULTS) -> RankedItems:
        """The live items nearest to an item, live or not, scored by minus the distance; never the item itself."""
        ranker = self._ranker(options)
        row = self._known([item])
        if not len(row):
            raise UnknownItem(item, self.version.name)
        allowed, fallbacks = self._allowed(options)
        excluded = np.concatenate([row, self._known(options.exclude)])
        query = Query(ranker.all_items.precise(ranker.all_items.item_points[row[0]]), None)
        return RankedItems(self._describe(_top(ranker, query, options, excluded, allowed)), fallbacks)

    def _recommend(
        self,
        history: NDArray[np.int64],
        options: RankingOptions,
        weights: Sequence[float] = (),
        exclude_seen: bool = True,
        without: Sequence[int] = (),
    ) -> RankedItems:
        ranker, known = self._ranker(options), history != UNKNOWN
        seen = history[known]
        allowed, fallbacks = self._allowed(options, without)
        fallbacks = history_fallbacks(history, midpoint=self._symmetric and not options.twin) + fallbacks
        excluded = self._known(options.exclude)
        if exclude_seen:
            excluded = np.concatenate([excluded, seen])
        if not len(seen):  # the most popular items are meant to be just that, so diversity has no effect
            return RankedItems(self._describe(ranker.popular(options.k, excluded, allowed)), fallbacks)
        used = History(seen, np.array(weights)[known] if weights else None)
        ranked = _top(ranker, Query(ranker.all_items.query(*used), used), options, excluded, allowed)
        because = self._reasons(ranker, used, ranked[0]) if options.reasons and len(ranked[0]) else None
        return RankedItems(self._describe(ranked, because), fallbacks)

    def _describe(
        self, ranked: Ranked, because: Sequence[tuple[Reason, ...]] | None = None
    ) -> tuple[RecommendedItem, ...]:
        """The ranked items with their details, and with their reasons if given."""
        rows, scores = ranked
        found = zip(self.version.items.items(rows), scores.tolist(), because or [()] * len(rows), strict=True)
        return tuple(
            RecommendedItem(item.id, item.row, score, item.title, item.category, reasons)
            for item, score, reasons in found
        )

    def _reasons(self, ranker: LiveRanker, history: History, rows: Rows) -> list[tuple[Reason, ...]]:
        found = ranker.reasons.strongest(history, rows)
        used = np.unique([part.row for reasons in found for part in reasons]).astype(np.int64)
        named = dict(zip(used.tolist(), self.version.items.items(used), strict=True))
        return [
            tuple(Reason(named[row].id, named[row].title, share, kind) for row, share, kind in reasons)
            for reasons in found
        ]

    def _ranker(self, options: RankingOptions) -> LiveRanker:
        ranker = self._twin if options.twin else self._own
        if ranker is None:
            raise InputError(
                f"version {self.version.name} has no twin: send the query without it, or publish with --twin"
            )
        return ranker

    def _rows(self, ids: Sequence[Id]) -> NDArray[np.int64]:
        return self.version.items.rows([str(id) for id in ids])

    def _known(self, ids: Sequence[Id]) -> NDArray[np.int64]:
        rows = self._rows(ids)
        known: NDArray[np.int64] = rows[rows != UNKNOWN]
        return known

    def _allowed(
        self, options: RankingOptions, without: Sequence[int] = ()
    ) -> tuple[Rows | None, tuple[Fallback, ...]]:
        """The rows that the allow-list and the categories leave, None for all, with fallbacks for unknown ones.

        without: codes of categories to leave out.
        """
        codes_of_items, categories = self.version.category_codes, options.categories
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
            right = wanted[codes_of_items if allowed is None else codes_of_items[allowed]]
            allowed = np.flatnonzero(right) if allowed is None else allowed[right]
        return allowed, fallbacks


def _top(
    ranker: LiveRanker,
    query: Query,
    options: RankingOptions,
    excluded: Rows,
    allowed: Rows | None,
) -> Ranked:
    """The best `k` items for a query, diversified."""
    k, diversity = options.k, options.diversity
    rows, scores = ranker.top(query, pool_size(k, diversity), excluded, allowed)
    if diversity:
        chosen = diversify(ranker.all_items, rows, scores, k, diversity)
        rows, scores = rows[chosen], scores[chosen]
    return rows, scores
