"""Outfits: for a basket, the best item of each category that goes with it, by what is bought together.

With t_ij from `complements.py`, c_i the category of item i, and h_i = 1 / (t_ii + s), item j has for a basket B

    x_j = sum over i in B of h_i (t_ij + s p(c_i, c_j) q_j),    score_j = log x_j - log(1 + t_jj) / 4 + g s_j.

p(c, d) = t_cd / t_c is how often items of two categories are bought together: t_cd is the sum of t_ij over their items,
and t_c that of t_ii. q_j = t_jj / t_(c_j) is the share of an item in its category. So an item that few orders have
counts like its category, and so does one that no order has, such as a new item; as a candidate, that one counts like
the median of its category. The second term takes from popular items what everybody buys anyway. s_j is the score of j
by points for the midpoint of the basket: what its customers like, of all categories. Of very many items, only those
that are best without it get s_j; the others count like the worst of these.

Categories that are not in the basket are open, and `Filling` says which of their items a list may still take. A model
without complements ranks by its points and its memory instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from decimal import Decimal
from functools import cached_property
from sys import float_info
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Booleans, Floats, gather_groups, make_mask, make_offsets, spans_within, strongest
from lorentzrec.data.category_tree import CategoryTree
from lorentzrec.data.item_columns import ItemColumns
from lorentzrec.data.vocabulary import UNKNOWN
from lorentzrec.errors import InputError
from lorentzrec.points.complements import PAIRS_AT_ONCE, POPULARITY, Complements
from lorentzrec.points.fallbacks import Cause, Fallback, history_fallbacks
from lorentzrec.points.points import History
from lorentzrec.points.ranking import Ranker
from lorentzrec.points.reasons import REASONS_SHOWN, Contribution, ReasonKind, strongest_reasons
from lorentzrec.points.recommending import NO_RULE, RowOptions, RowResult, explain_none, first_by_events
from lorentzrec.points.rules import Quota, RowRules, RuledRanking
from lorentzrec.points.scoring import Ranked
from lorentzrec.points.topk import Rows

PRICE = "price"
"""The column of the prices that a budget is about."""
PRIOR = 2.0
"""s: how many orders the category of an item counts as. It was chosen on Complete Journey."""
SCORED_BY_POINTS = 1_000
"""Items that get a score by points, at most."""
LEAST = 1e-12
"""An item that is never bought with the basket scores log of this, not of 0."""


class OutfitOptions(NamedTuple):
    """What an outfit may contain, in rows; see `RowOptions` for the rest."""

    per_category: int = 1
    """The largest number of items of one category."""
    slots: tuple[int, ...] | None = None
    """Codes of the categories to fill; None: those that are not in the basket."""
    budget: float | None = None
    """What all items together may cost. An item without a price is left out."""


WHOLE_OUTFIT = OutfitOptions()
"""One item of each category that is not in the basket, whatever it costs."""


class Outfits:
    """Ranks the items of a ranker by what they are bought together with."""

    def __init__(self, ranker: Ranker, columns: ItemColumns) -> None:
        self.ranker, self.tree = ranker, CategoryTree(columns)
        self.count = columns.count
        """The number of items, new ones included."""
        self.prices: Floats | None = columns.numbers.get(PRICE)
        self._pairs: Any = None

    def with_new(self, ranker: Ranker, columns: ItemColumns) -> Outfits:
        """The same with other new items. This is cheap."""
        found = Outfits(ranker, columns)
        if self.ranker.points.complements is not None:
            # The categories of other items keep their codes; the last row is that of items without a category.
            old, new = len(self.tree.names), len(found.tree.names)
            pairs = self.pairs
            if new > old:
                entries = pairs.tocoo()
                codes = tuple(np.where(indices == old, new, indices) for indices in entries.coords)
                pairs = type(pairs)((entries.data, codes), (new + 1, new + 1))
            found._pairs = pairs
        return found

    def with_ranker(self, ranker: Ranker) -> Outfits:
        """The same with a ranker of the same items that differs in its trend. This is cheap."""
        found = copy(self)
        found.ranker = ranker
        return found

    @property
    def complements(self) -> Complements | None:
        return self.ranker.points.complements

    @cached_property
    def codes(self) -> NDArray[np.int64]:
        """The code of the category of each item; items without one have a code of their own, the last."""
        codes = self.tree.codes.astype(np.int64)
        return np.where(codes == UNKNOWN, len(self.tree.names), codes)

    @cached_property
    def live(self) -> Booleans:
        """Which items may be recommended."""
        return make_mask(self.ranker.live_rows(new=True), self.count)

    @cached_property
    def counts(self) -> Floats:
        """t_ii; 0 of items that no order has."""
        assert self.complements is not None
        return np.pad(self.complements.counts.astype(np.float64), (0, self.count - self.complements.item_count))

    @cached_property
    def _category_counts(self) -> Floats:
        found: Floats = np.bincount(self.codes, self.counts, len(self.tree.names) + 1).astype(np.float64)
        return found

    @property
    def pairs(self) -> Any:
        """p(c, d) of all pairs of categories that are bought together, as a sparse matrix: shops have thousands of
        categories."""
        if self._pairs is None:
            from scipy import sparse

            complements = self.complements
            assert complements is not None
            size, codes = len(self.tree.names) + 1, self.codes[: complements.item_count]
            totals = np.bincount(codes, complements.counts, size)
            lengths, pairs = np.diff(complements.offsets), sparse.csr_array((size, size))
            for first, last in spans_within(lengths, PAIRS_AT_ONCE):
                span = slice(*complements.offsets[[first, last]])
                owners = np.repeat(codes[first:last], lengths[first:last])
                values = complements.values[span] / totals[owners]
                pairs = pairs + sparse.csr_array((values, (owners, codes[complements.columns[span]])), (size, size))
            self._pairs = pairs
        return self._pairs

    @cached_property
    def _usual_counts(self) -> Floats:
        """t_jj of each item as a candidate: the median of its category if no order has it."""
        known = np.flatnonzero(self.counts > 0)
        known = known[np.lexsort((self.counts[known], self.codes[known]))]
        numbers = np.bincount(self.codes[known], minlength=len(self.tree.names) + 1)
        starts, some = make_offsets(numbers)[:-1], numbers > 0
        sides = [self.counts[known[(starts + half)[some]]] for half in ((numbers - 1) // 2, numbers // 2)]
        medians = np.zeros(len(numbers))
        medians[some] = (sides[0] + sides[1]) / 2
        return np.where(self.counts > 0, self.counts, medians[self.codes])

    @cached_property
    def _shares(self) -> Floats:
        """q of each item."""
        totals = self._category_counts[self.codes]
        return np.divide(self._usual_counts, totals, out=np.zeros(self.count), where=totals > 0)

    @cached_property
    def _corrections(self) -> Floats:
        """What popularity takes from the score of each item."""
        return POPULARITY * np.log1p(self._usual_counts)

    @cached_property
    def no_rules(self) -> RowRules:
        return RowRules(np.zeros(self.count, np.int32), excluded_by=((),), lifted_by=((),))

    def find_slots(self, names: Sequence[str]) -> tuple[int, ...]:
        """The codes of categories."""
        if not names:
            raise InputError("slots is empty: name the categories to fill, or leave it out")
        code_of = {name: code for code, name in enumerate(self.tree.names)}
        for name in names:
            if name not in code_of:
                raise InputError(f"the slot {name!r} is no category of the items: check the name")
        return tuple(dict.fromkeys(code_of[name] for name in names))

    def score(self, basket: Rows, eligible: Booleans) -> Floats:
        """The score of every item for a basket of distinct items, at least one; right for eligible items only."""
        x = self._prior(basket)[self.codes] * self._shares
        positions, entries = self._entries(basket)
        complements = self.complements
        assert complements is not None
        values = complements.values[entries] / (self.counts[basket] + PRIOR)[positions]
        x += np.bincount(complements.columns[entries], values, self.count)
        scores: Floats = np.log(np.maximum(x, LEAST)) - self._corrections
        rows, weight = np.flatnonzero(eligible), complements.point_weight
        if not len(rows) or not weight:
            return scores
        first = rows[strongest(scores[rows], SCORED_BY_POINTS)]
        by_points = weight * self._score_points(basket, first)
        found: Floats = scores + by_points.min()
        found[first] = scores[first] + by_points
        return found

    def _score_points(self, basket: Rows, rows: Rows) -> Floats:
        """The scores of some items by points, for the midpoint of a basket; without masses and trend, since the counts
        of orders have the popularity of items."""
        ranker, space = self.ranker, self.ranker.points.space
        midpoint = space.midpoint(ranker.precise_histories(basket), np.ones(len(basket)))
        return np.asarray(space.score_points(midpoint, ranker.precise_items(rows)), np.float64)

    def _prior(self, basket: Rows) -> Floats:
        """By category: what the categories of the basket add to its items, but for their shares."""
        weights = PRIOR / (self.counts[basket] + PRIOR)
        found: Floats = self.pairs[self.codes[basket]].T @ weights
        return found

    def _entries(self, basket: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The stored pairs of a basket: for each the position of its first item in the basket, and its index."""
        assert self.complements is not None
        known = np.flatnonzero(basket < self.complements.item_count)
        positions, entries = gather_groups(self.complements.offsets, basket[known].astype(np.int64))
        return known[positions], entries

    def explain(self, basket: Rows, rows: Rows) -> list[list[Contribution]]:
        """For each of `rows`, what the items of the basket contribute most to its x."""
        complements = self.complements
        assert complements is not None
        weights = 1 / (self.counts[basket] + PRIOR)
        pairs = self.pairs[self.codes[basket]][:, self.codes[rows]].toarray() * self._shares[rows]
        by_category = PRIOR * weights[:, None] * pairs
        by_item = np.zeros((len(basket), len(rows)))
        for position, item in enumerate(basket.tolist()):
            columns, values = complements.partners(item)
            if len(columns):
                index = np.minimum(np.searchsorted(columns, rows), len(columns) - 1)
                by_item[position] = np.where(columns[index] == rows, values[index], 0) * weights[position]
        parts = by_item + by_category
        shares = parts / np.maximum(parts.sum(axis=0), LEAST)
        strongest = np.argsort(-shares, axis=0, kind="stable")[:REASONS_SHOWN].T

        def describe(position: int, index: int) -> Contribution:
            together = by_item[position, index] >= by_category[position, index]
            kind = ReasonKind.OFTEN_WITH if together else ReasonKind.CATEGORY_WITH
            return Contribution(int(basket[position]), float(shares[position, index]), kind)

        return [
            [describe(position, index) for position in positions if parts[position, index] > 0]
            for index, positions in enumerate(strongest.tolist())
        ]


class Filling:
    """Which items a list may still take: at most some of each category, within a budget, and the wanted slots first.

    Prices are decimal numbers as they are written, so that 0.1 + 0.2 is within a budget of 0.3. A wanted slot is filled
    before another one gets a second item, and its cheapest item stays affordable. If the cheapest items of all wanted
    slots together cost more than the budget, the slots whose cheapest items cost most stay open.
    """

    def __init__(self, outfits: Outfits, wanted: OutfitOptions, k: int, eligible: Booleans) -> None:
        self._codes, self._none = outfits.codes, len(outfits.tree.names)
        self._per_category, self._room = wanted.per_category, k
        self._prices = None if wanted.budget is None else outfits.prices
        self._left = Decimal(0) if wanted.budget is None else _decimal(wanted.budget)
        self._taken: dict[int, int] = {}
        self.too_expensive, self.without_items = 0, 0
        """Wanted slots that stay open: because of the budget, and because no item may fill them."""
        self._waiting: dict[int, Decimal] = {}
        """The wanted slots that are open, and what the cheapest item of each costs; cheapest first."""
        self._open = np.ones(self._none + 1, bool)
        if wanted.slots is not None:
            self._wait_for(wanted.slots, eligible)
            self._open = make_mask(np.array([*self._waiting], np.int64), self._none + 1)
        self._keep_slots_affordable()

    def _wait_for(self, slots: Sequence[int], eligible: Booleans) -> None:
        rows = np.flatnonzero(eligible)
        codes, cheapest = self._codes[rows], dict[int, Decimal]()
        for slot in slots:
            members = rows[codes == slot]
            if not len(members):
                self.without_items += 1
                continue
            cheapest[slot] = _decimal(0.0 if self._prices is None else float(self._prices[members].min()))
        total = Decimal(0)
        for slot, price in sorted(cheapest.items(), key=lambda one: one[1]):
            total += price
            if self._prices is not None and total > self._left:
                self.too_expensive += 1
            else:
                self._waiting[slot] = price

    @property
    def possible(self) -> Booleans:
        """Which items `fits` may still be true of: never more of them later."""
        open_codes = self._open.copy()
        if len(self._waiting) >= self._room:
            open_codes = make_mask(np.array([*self._waiting], np.int64), self._none + 1)
        full = [code for code, taken in self._taken.items() if taken >= self._per_category and code != self._none]
        open_codes[full] = False
        found: Booleans = open_codes[self._codes]
        if self._prices is not None:
            most = np.full(self._none + 1, float(self._most))
            most[[*self._most_of]] = [float(price) for price in self._most_of.values()]
            found &= self._prices <= most[self._codes]
        return found

    def fits(self, row: int) -> bool:
        code = int(self._codes[row])
        if not self._open[code] or (code != self._none and self._taken.get(code, 0) >= self._per_category):
            return False
        if code not in self._waiting and len(self._waiting) >= self._room:
            return False
        return self._prices is None or _decimal(float(self._prices[row])) <= self._most_of.get(code, self._most)

    def take(self, row: int) -> None:
        code = int(self._codes[row])
        self._taken[code] = self._taken.get(code, 0) + 1
        self._waiting.pop(code, None)
        self._room -= 1
        if self._prices is not None:
            self._left -= _decimal(float(self._prices[row]))
        self._keep_slots_affordable()

    def _keep_slots_affordable(self) -> None:
        """Find out what the next item may cost, so that the cheapest items of the other slots that have room fit, too:
        at most `_most`, or `_most_of` its slot, if that waits."""
        waiting, others = list(self._waiting.items()), max(self._room - 1, 0)
        self._most = self._left - sum((price for _, price in waiting[:others]), Decimal(0))
        after = waiting[others][1] if len(waiting) > others else Decimal(0)  # has room if one before it is filled
        self._most_of = {slot: self._most + price - after for slot, price in waiting[:others]}


def complete_rows(
    outfits: Outfits, basket: Rows, options: RowOptions, wanted: OutfitOptions = WHOLE_OUTFIT
) -> RowResult:
    """At most `k` items that complete a basket, best first; `UNKNOWN` items of the basket are left out.

    Of the options, `exclude_seen`, `diversity`, `explore` and `with_user_points` have no effect.
    """
    _check(outfits, wanted)
    ranker, fallbacks = outfits.ranker, options.fallbacks
    known = np.unique(basket[basket != UNKNOWN]).astype(np.int64)
    if not len(basket):
        fallbacks += (Fallback(Cause.EMPTY_BASKET),)
    else:
        fallbacks += history_fallbacks(len(basket), int((basket == UNKNOWN).sum()), id_type=options.id_type)
    if len(known) and outfits.complements is None:
        fallbacks += (Fallback(Cause.NO_COMPLEMENTS),)
    requested = _find_requested(outfits, options, wanted)
    eligible, unpriced = requested.copy(), 0
    eligible[options.excluded] = False
    eligible[known] = False
    if wanted.budget is not None:
        assert outfits.prices is not None
        priced = eligible & np.isfinite(outfits.prices)
        unpriced = int(eligible.sum() - priced.sum())
        if unpriced:
            fallbacks += (Fallback(Cause.ITEMS_WITHOUT_PRICE, unpriced, int(eligible.sum())),)
        eligible = priced
    in_basket = np.setdiff1d(outfits.codes[known], [len(outfits.tree.names)])
    if wanted.slots is None and len(basket):
        outside = eligible & ~make_mask(in_basket, len(outfits.tree.names) + 1)[outfits.codes]
        if not len(in_basket):
            fallbacks += (Fallback(Cause.BASKET_WITHOUT_CATEGORIES),)
        elif outside.any():
            eligible = outside
        elif eligible.any():
            fallbacks += (Fallback(Cause.BASKET_OF_ALL_CATEGORIES),)
    filling = Filling(outfits, wanted, options.k, eligible)
    ranking = _Ranking(outfits, known, eligible, filling)
    quotas = []
    if ranker.new is not None and ranker.new.by_events:
        first = first_by_events(ranker)
        quotas = [Quota(NO_RULE, options.event_limit, lambda row: 0 if row >= first else UNKNOWN)]
    ruled = RuledRanking(ranking.rank, options.rules or outfits.no_rules, options.k, None, quotas, filling)
    rows, scores = ruled.arrange(ruled.first(options.k))
    if filling.too_expensive:
        fallbacks += (Fallback(Cause.SLOTS_BEYOND_BUDGET, filling.too_expensive, len(wanted.slots or ())),)
    if filling.without_items:
        fallbacks += (Fallback(Cause.SLOTS_WITHOUT_ITEMS, filling.without_items, len(wanted.slots or ())),)
    if not len(rows):
        if wanted.budget is not None and (eligible.any() or unpriced):
            fallbacks += (Fallback(Cause.NOTHING_WITHIN_BUDGET),)
        else:
            fallbacks += (explain_none(ranker.live_rows(new=True), np.flatnonzero(requested), options.rules),)
    reasons = ranking.explain(rows) if options.reasons else None
    return RowResult(rows, scores, reasons, fallbacks, tuple(number for number in ruled.acted if number != NO_RULE))


class _Ranking:
    """The eligible items for a basket that the list may still take, best first; ties by row."""

    def __init__(self, outfits: Outfits, basket: Rows, eligible: Booleans, filling: Filling) -> None:
        self._outfits, self._basket, self._eligible, self._filling = outfits, basket, eligible, filling

    @property
    def _learned(self) -> bool:
        return self._outfits.complements is not None

    @cached_property
    def _scores(self) -> Floats:
        return self._outfits.score(self._basket, self._eligible)

    def rank(self, count: int, allowed: Rows | None) -> Ranked:
        eligible = self._eligible & self._filling.possible
        if allowed is not None:
            eligible &= make_mask(allowed, len(eligible))
        rows, ranker = np.flatnonzero(eligible), self._outfits.ranker
        if not len(self._basket):
            return ranker.popular(count, rows[:0], rows)
        if not self._learned:
            return ranker.top(None, count, allowed=rows, history=History(self._basket), event_limit=count)
        scores = self._scores[rows]
        if len(rows) > count:
            best = scores >= np.partition(scores, -count)[-count]
            rows, scores = rows[best], scores[best]
        order = np.argsort(-scores, kind="stable")[:count]
        return rows[order], scores[order].astype(np.float32)

    def explain(self, rows: Rows) -> list[list[Contribution]]:
        if not len(self._basket) or not len(rows):
            return [[] for _ in rows]
        if not self._learned:
            return strongest_reasons(self._outfits.ranker, History(self._basket), rows)
        return self._outfits.explain(self._basket, rows)


def _find_requested(outfits: Outfits, options: RowOptions, wanted: OutfitOptions) -> Booleans:
    """Which items an outfit may have, but for the basket, what is excluded, and the categories of the basket."""
    found = outfits.live.copy()
    if options.allowed is not None:
        found &= make_mask(options.allowed, outfits.count)
    if len(outfits.tree.names):
        found &= outfits.tree.codes != UNKNOWN
    if wanted.slots is not None:
        found &= make_mask(np.array(wanted.slots), len(outfits.tree.names) + 1)[outfits.codes]
    return found


def _check(outfits: Outfits, wanted: OutfitOptions) -> None:
    if not _is_number(wanted.per_category, int | np.integer) or wanted.per_category < 1:
        raise InputError(f"per_category={wanted.per_category!r}: give a whole number of at least 1")
    if wanted.budget is None:
        return
    if not _is_number(wanted.budget, int | float | np.number | Decimal) or not 0 < wanted.budget <= float_info.max:
        raise InputError(f"budget={wanted.budget!r}: give a number above 0")
    if outfits.prices is None:
        raise InputError(f"a budget needs prices, and the items have no column {PRICE!r} with numbers: give it")


def _is_number(value: object, kinds: Any) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


def _decimal(price: float) -> Decimal:
    """The shortest decimal number that reads as this float: what a price list says."""
    return Decimal(repr(float(price)))
