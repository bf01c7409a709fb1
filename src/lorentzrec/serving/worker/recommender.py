"""From a history to recommendations: its midpoint, the best live items, their reasons, and fallbacks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from lorentzrec.data.category_tree import CategoryTree
from lorentzrec.data.item_columns import ItemColumns
from lorentzrec.data.vocabulary import UNKNOWN
from lorentzrec.errors import InputError
from lorentzrec.points.alternatives import Alternatives, find_alternatives
from lorentzrec.points.fallbacks import Cause, Fallback, unknown_fallbacks
from lorentzrec.points.index import INDEXED_ITEMS, Index
from lorentzrec.points.outfits import OutfitOptions as RowOutfitOptions
from lorentzrec.points.outfits import Outfits, complete_rows
from lorentzrec.points.points import count_order_ages
from lorentzrec.points.ranking import LiveSet, NewPoints, Ranker
from lorentzrec.points.recommending import RowOptions, RowQuery, RowResult, recommend_rows
from lorentzrec.points.scoring import NO_ROWS
from lorentzrec.points.similar import SimilarItems, find_similar
from lorentzrec.points.topk import Rows
from lorentzrec.points.trend import USUAL_DAYS
from lorentzrec.points.trending import TrendingItems, find_trending
from lorentzrec.serving.rules.compiling import CompiledRules, RulesInForce
from lorentzrec.serving.rules.document import Route, RuleSet
from lorentzrec.serving.stores.catalogue import SPARE_LIVE_IDS
from lorentzrec.serving.versions.item_directory import Item
from lorentzrec.serving.versions.version import Version
from lorentzrec.serving.worker.live_trend import LiveTrend
from lorentzrec.serving.worker.new_items import NewItems
from lorentzrec.serving.worker.query import (
    FilledSlot,
    Id,
    ListOptions,
    OutfitOptions,
    RankedItems,
    RankingOptions,
    Reason,
    RecommendedItem,
    describe_trending,
)

DEFAULTS = RankingOptions()
WHOLE_OUTFIT = OutfitOptions()
"""One item of each category that is not in the basket."""
TUNING_QUERIES = 200
"""For the lists of live items; a query takes a few milliseconds, most of it for exact ranking."""
NARROWED_SHARE = 2
"""If fewer than one item in two is live, the lists of the index are those of the live items only."""

OUTFIT_PASSES = 20
"""An outfit scores all items by several arrays, as long as this many passes of NumPy."""
TRENDING_PASSES = 40
"""The first list of what is trending after customers were counted sorts all items: as long as many passes."""
QUOTA_PASSES = 100
"""A quota that leaves too few items reads the ranking to its end, item by item: as long as many passes of NumPy."""


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
        before: Recommender | None = None,
    ) -> None:
        """Histories may contain items that are not live.

        live_items: the only ids that may be recommended; None for all except those in `removed`.
        explore: for queries that do not set it.
        event_item_share: the largest share of new items by events in a response; at least one if it is not 0.
        before: another one of the same version, which may have found out how many lists of its index to scan.
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
        live_set = LiveSet(version.points, live)
        index = version.index if len(live) >= INDEXED_ITEMS else None
        if index is not None and live_set.mask is not None and len(live) * NARROWED_SHARE < len(version.items):
            index = index.narrow(live_set.mask, None if before is None else before.index)
        self._ranker = Ranker(version.points, index=index, live=live_set)
        self._similar = SimilarItems(self._ranker)
        self._symmetric = version.manifest["config"]["model"] == "symmetric"
        self._code_of = {name: code for code, name in enumerate(version.categories)}
        self._codes: NDArray[np.integer[Any]] = version.category_codes
        self._base: Recommender | None = None
        self.rules: RulesInForce | None = None
        self.rules_revision = 0
        """Of the rules in the store."""
        self._ruled_items: NewItems | None = None
        self.trend: LiveTrend | None = None
        """The trend in use; None: that of the version."""

    def with_new_items(self, new: NewItems) -> Recommender:
        """The same with new items; of those that are placed, the live ones may be recommended. This is cheap."""
        base = self._base or self
        extended = copy(base)
        extended._base, extended.new_items = base, new
        extended.rules, extended.rules_revision = self.rules, self.rules_revision
        for of_others in ("columns", "_alternatives", "_outfits", "_trending"):  # they are of other new items
            extended.__dict__.pop(of_others, None)
        placed = new.items[: new.placed_count]
        if new.points is not None:
            names = sorted({item.category for item in placed if item.category is not None} - base._code_of.keys())
            extended._code_of = base._code_of | {name: len(base._code_of) + code for code, name in enumerate(names)}
            codes = [extended._code_of.get(item.category or "", UNKNOWN) for item in placed]
            extended._codes = np.concatenate([base._codes, codes])
            live = np.array([(item.id in self._unknown) == self._listed for item in placed])
            extended._ranker = base._ranker.with_new(NewPoints(new.points, live, new.by_events))
            extended._similar = SimilarItems(extended._ranker)
        return extended

    def with_trend(self, trend: LiveTrend) -> Recommender:
        """The same with another trend. It takes a few nanoseconds per item, unless no number has changed."""
        base = copy(self._base or self)
        same = trend.trend is self._ranker.points.trend
        base._use_trend(trend, base._ranker if same else base._ranker.with_trend(trend.trend))
        if self._base is None:
            return base
        found, new = copy(self), self._ranker.new
        found._base = base
        changed = base._ranker if new is None else base._ranker.with_new(new)
        found._use_trend(trend, self._ranker if same else changed)
        return found

    def _use_trend(self, trend: LiveTrend, ranker: Ranker) -> None:
        """Only for a new copy. Similar items and alternatives have no trend."""
        self.trend, self._ranker = trend, ranker
        self.__dict__.pop("_trending", None)
        if (outfits := self.__dict__.get("_outfits")) is not None:
            self.__dict__["_outfits"] = outfits.with_ranker(ranker)

    @property
    def index(self) -> Index | None:
        """The index of the items that may be recommended; None if they are ranked exactly."""
        return self._ranker.index

    def tune(self) -> None:
        """Find out how many lists of the index to scan, unless that is known. It may be in use meanwhile."""
        index = self.index
        if index is not None and index.recall is None:
            index.tune(self._ranker.points.scorer, self._ranker.live.bitmap, limit=TUNING_QUERIES, threads=1)

    def compile(self, rules: RuleSet) -> CompiledRules:
        """Rules for the items of the version and the new items that are placed."""
        return CompiledRules(rules, self._rows, self.columns)

    def with_rules(self, rules: RulesInForce | None, revision: int = 0) -> Recommender:
        """The same with these rules, which were compiled by it. This is cheap."""
        ruled = copy(self)
        ruled.rules, ruled.rules_revision, ruled._ruled_items = rules, revision, self.new_items
        return ruled

    @property
    def rules_are_complete(self) -> bool:
        """Whether the rules were compiled for the new items as well."""
        return self._ruled_items is self.new_items

    @cached_property
    def columns(self) -> ItemColumns:
        """What filters and rules ask for, of the version and the new items that are placed."""
        return self.version.columns.append(self.new_items.columns)

    @cached_property
    def _alternatives(self) -> Alternatives:
        return Alternatives(self._similar, CategoryTree(self.columns))

    @cached_property
    def _outfits(self) -> Outfits:
        if self._base is not None:  # what it knows of categories takes a while to find out
            return self._base._outfits.with_new(self._ranker, self.columns)
        return Outfits(self._ranker, self.columns)

    @cached_property
    def _trending(self) -> TrendingItems:
        count = self.new_items.placed_count
        known = self.trend is not None and self.trend.new_items is self.new_items
        recent = self.trend.new_recent if self.trend is not None and known else np.zeros(count, np.float32)
        return TrendingItems(self._ranker, recent)

    @property
    def recommendable_count(self) -> int:
        """The number of items that may be recommended: live ones of the version, and live new ones that are placed."""
        return len(self._ranker.live_rows(new=True))

    @property
    def unknown_live_count(self) -> int:
        """The number of ids in the list of live items that are neither in the version nor new items."""
        return len(self._unknown - self.new_items.indices.keys()) if self._listed else 0

    def count_scanned(self, options: ListOptions, route: Route) -> int:
        """How many rows filters and rules look at, about: each pass over the catalogue has one per item."""
        passes = bool(options.categories) + (options.set is not None)
        passes += OUTFIT_PASSES * (route == "outfits") + TRENDING_PASSES * (route == "trending")
        for condition in options.where.values():
            passes += 1 + (len(condition).bit_length() if isinstance(condition, list | tuple) else 0)
        rules = None if self.rules is None else self.rules.by_route[route]
        if rules is not None:
            passes += (rules.only is not None) + bool(rules.pins) + (QUOTA_PASSES if rules.quotas else 0)
        return passes * len(self.version.items)

    def warm_up(self) -> None:
        """Run one query of each kind: the first reads all points from disk, which no client should wait for."""
        item = self.version.items.items([0])[0].id
        self.recommend([item], RankingOptions(reasons=True))
        self.similar(item)
        self.alternatives(item)
        self.complete([item], OutfitOptions(reasons=True))
        self.version.columns.texts["category"].rows_with([])  # the rows of each category, for filters

    def recommend(
        self,
        history: Sequence[Id],
        options: RankingOptions = DEFAULTS,
        *,
        weights: Sequence[float] = (),
        times: Sequence[float] = (),
        exclude_seen: bool | None = None,
    ) -> RankedItems:
        """The best live items for a history, oldest first; the popular ones if no item of it is known.

        weights: one per item of the history, as in training; empty if all are equal.
        times: unix seconds, one per item of the history; NaN for what the customer looks at and did not buy. Equal
        times form an order. Empty: every item is an order.
        exclude_seen: do not recommend items of the history. None: leave them out, unless customers buy again.
        """
        seconds = np.array(times) if times else None
        ages = None if seconds is None else count_order_ages(seconds)
        query = RowQuery(self._rows(history), np.array(weights) if weights else None, seconds, ages)
        chosen = self._options(options, "recommend", exclude_seen=exclude_seen, **self._choice(options))
        return self._describe(recommend_rows(self._ranker, [query], chosen)[0], options)

    def complete(self, basket: Sequence[Id], options: OutfitOptions = WHOLE_OUTFIT) -> RankedItems:
        """An outfit for the items of a basket: the best live items of other categories, or of the requested slots."""
        outfits = self._outfits
        slots = None if options.slots is None else outfits.find_slots(options.slots)
        wanted = RowOutfitOptions(options.per_category, slots, options.budget)
        chosen = self._options(options, "outfits", reasons=options.reasons)
        found = complete_rows(outfits, self._rows(basket), chosen, wanted)
        ranked = self._describe(found, options)
        filled: dict[str, list[str]] = {name: [] for name in options.slots or ()}
        for item in ranked.items:
            if item.category is not None:
                filled.setdefault(item.category, []).append(item.id)
        price = None if outfits.prices is None else round(float(outfits.prices[found.rows].sum()), 6)
        return ranked._replace(
            slots=tuple(FilledSlot(name, tuple(ids)) for name, ids in filled.items()),
            price=price if price is not None and math.isfinite(price) else None,
        )

    def similar(self, item: str, options: RankingOptions = DEFAULTS) -> RankedItems:
        """The live items most similar to an item, live or not; never the item itself."""
        chosen = self._options(options, "similar", **self._choice(options))
        return self._describe(find_similar(self._similar, [self._row(item)], chosen)[0], options)

    def alternatives(self, item: str, options: RankingOptions = DEFAULTS) -> RankedItems:
        """The best live items to buy instead of an item, live or not: of its category, or else of its parent."""
        chosen = self._options(options, "alternatives", **self._choice(options))
        return self._describe(find_alternatives(self._alternatives, [self._row(item)], chosen)[0], options)

    @property
    def trend_days(self) -> float:
        """The length of the last days."""
        trend = self._ranker.points.trend
        return self.trend.days if self.trend is not None else USUAL_DAYS if trend is None else trend.days

    def trending(self, options: ListOptions) -> RankedItems:
        """The live items that are more popular than usual in the last days."""
        items, trend = self._trending, self._ranker.points.trend
        ranked = self._describe(find_trending(items, self._options(options, "trending")), options)
        if trend is None:
            return ranked
        rows = self._rows([item.id for item in ranked.items])
        numbers = zip(ranked.items, items.recent[rows].tolist(), items.expected[rows].tolist(), strict=True)
        described = tuple(describe_trending(item, recent, usual, trend.days) for item, recent, usual in numbers)
        return ranked._replace(items=described)

    def _row(self, item: str) -> int:
        rows = self._known([item])
        if not len(rows):
            raise UnknownItem(item, self.version.name)
        return int(rows[0])

    def _choice(self, options: RankingOptions) -> dict[str, Any]:
        """The options of lists whose items are not chosen by their rank alone."""
        return {
            "reasons": options.reasons,
            "diversity": options.diversity,
            "explore": self._explore if options.explore is None else options.explore,
            "seed": options.seed,
        }

    def _options(self, options: ListOptions, route: Route, **others: Any) -> RowOptions:
        """The options in rows, with others that are no ids."""
        allowed, fallbacks = self._allowed(options)
        share, k = self._event_item_share, options.k
        return RowOptions(
            k=k,
            excluded=self._known(options.exclude),
            allowed=allowed,
            event_limit=max(1, int(share * k + 1e-9)) if share else 0,
            fallbacks=fallbacks,
            with_user_points=self._symmetric,
            rules=None if self.rules is None else self.rules.by_route[route],
            **others,
        )

    def _describe(self, found: RowResult, options: ListOptions) -> RankedItems:
        """A result with the ids of its items, and the details that were requested."""
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
        rules = self.rules.name(found.rules) if self.rules is not None else ()
        return RankedItems(items, found.fallbacks, rules)

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

    def _allowed(self, options: ListOptions) -> tuple[Rows | None, tuple[Fallback, ...]]:
        """The rows that the allow-list, the categories, the conditions and the set leave, None for all, with fallbacks
        for unknown ones."""
        categories = options.categories
        fallbacks: tuple[Fallback, ...] = ()
        allowed = None
        if options.allow is not None:
            allowed = self._rows(options.allow)
            fallbacks = unknown_fallbacks(Cause.UNKNOWN_ALLOWED_ITEMS, allowed)
            allowed = allowed[allowed != UNKNOWN]
        if categories:
            codes = np.array([self._code_of.get(name, UNKNOWN) for name in categories], np.int64)
            fallbacks += unknown_fallbacks(Cause.UNKNOWN_CATEGORIES, codes)
            codes = np.unique(codes[codes != UNKNOWN])
            if allowed is None:
                count, column = len(self.version.items), self.version.columns.texts["category"]
                new = count + np.flatnonzero(np.isin(self._codes[count:], codes))
                allowed = np.concatenate([column.rows_with(codes[codes < len(column.values)]), new])
            else:
                allowed = allowed[np.isin(self._codes[allowed], codes)]
        if options.where:
            fitting = self.columns.find(options.where, allowed)
            allowed = np.flatnonzero(fitting) if allowed is None else allowed[fitting]
        if options.set is not None:
            listed = self._find_set(options.set)
            allowed = listed if allowed is None else listed[np.isin(listed, allowed, kind="table")]
        return allowed, fallbacks

    def _find_set(self, name: str) -> NDArray[np.int64]:
        found = None if self.rules is None else self.rules.find_set(name)
        if found is None:
            known = ", ".join(sorted(self.rules.compiled.sets)[:20]) if self.rules is not None else ""
            raise InputError(
                f"there is no set {name!r} (sets: {known or 'none'}): check the name, or add it with the rules"
            )
        return found
