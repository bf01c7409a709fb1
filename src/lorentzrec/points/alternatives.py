"""Alternatives to an item: what its customers would buy instead, of its category, or else of the parent category.

The score of item j for item i is

    s_ij + 0.1 cos(p_i, p_j) + 0.08 log(1 + n_j),

with s_ij and the directions p of `similar.py`, and n_j the training events of item j. Whoever looks for a replacement
takes what others take, so popularity counts here. Items of the parent category come after all of the category, and only
if there are fewer of these than requested.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from lorentzrec.data.arrays import Floats, Integers, make_mask
from lorentzrec.data.category_tree import CategoryTree
from lorentzrec.data.vocabulary import UNKNOWN
from lorentzrec.points.fallbacks import Cause, Fallback
from lorentzrec.points.ranking import Ranker
from lorentzrec.points.reasons import Contribution
from lorentzrec.points.recommending import RowOptions, RowResult, make_list
from lorentzrec.points.scoring import NO_ROWS, Ranked
from lorentzrec.points.similar import ANGLE, SimilarItems
from lorentzrec.points.topk import Rows

MORE_ANGLE, POPULARITY = 0.1, 0.08
"""The weights of the angle, in addition to that in s_ij, and of the logarithm of the events."""
BEHIND = 3.0
"""By how much less an item of the parent category scores: more than all other differences."""
FIRST_SCORED = 500
"""Of a larger category, the most popular items are scored first, and all others only if one of them could be better."""


class Alternatives:
    """Ranks the items of a category, or of its parent, as alternatives to one of them."""

    def __init__(self, similar: SimilarItems, tree: CategoryTree) -> None:
        self.similar, self.tree = similar, tree
        self._groups: dict[int | str, Integers] = {}

    @cached_property
    def _popularity(self) -> Floats:
        """What the popularity of each item, new ones included, adds to its score."""
        ranker = self.similar.ranker
        counts = [ranker.points.item_counts] + ([] if ranker.new is None else [ranker.new.points.item_counts])
        return POPULARITY * np.log1p(np.concatenate(counts))

    def group(self, item: int, *, wide: bool) -> Integers:
        """The items that may be recommended of the category of an item that has one, or if `wide` of its parent, in
        falling order of popularity."""
        code = int(self.tree.codes[item])
        parent = self.tree.parents[code] if wide else None
        key = code if parent is None else parent
        if key not in self._groups:
            rows = self.tree.rows_of_category(code) if parent is None else self.tree.rows_of_parent(code)
            rows = rows[self.similar.live[rows]]
            self._groups[key] = rows[np.argsort(-self._popularity[rows], kind="stable")]
        return self._groups[key]

    def rank(
        self,
        item: int,
        k: int,
        excluded: Rows = NO_ROWS,
        allowed: Rows | None = None,
        event_limit: int = 0,
        *,
        wide: bool = False,
        new_only: bool = False,
    ) -> Ranked:
        """The rows and scores of the best `k` alternatives, or of all that are left; best first, ties by row.

        event_limit: the largest number of new items by events among them. wide: also of the parent category. new_only:
        only new items.
        """
        rows, similar = self.group(item, wide=wide), self.similar
        kept = rows != item
        if new_only:
            kept &= rows >= len(similar.ranker.points)
        if len(excluded):
            kept &= ~np.isin(rows, excluded)
        if allowed is not None:
            kept &= make_mask(allowed, similar.count)[rows]
        rows = rows[kept]
        first = max(FIRST_SCORED, 2 * k)
        if similar.similarity is not None and len(rows) > first:
            # Of the others, only stored neighbours and items without any can have more than their angle.
            head = make_mask(rows[:first], similar.count)
            head[similar.similarity.neighbours(item)[0]] = True
            head[similar.uncounted] = True
            if wide:
                head[self.group(item, wide=False)] = True
            some = rows[head[rows]]
            found, scores = similar.best(k, some, self._score(item, some, wide=wide), event_limit)
            bound = ANGLE + MORE_ANGLE + self._popularity[rows[first]] - (BEHIND if wide else 0.0)
            if len(found) == k and scores[-1] > bound:
                return found, scores.astype(np.float32)
        found, scores = similar.best(k, rows, self._score(item, rows, wide=wide), event_limit)
        return found, scores.astype(np.float32)

    def _score(self, item: int, rows: Rows, *, wide: bool) -> Floats:
        angles = self.similar.angles(item, rows)
        scores = self.similar.score(item, rows, angles) + MORE_ANGLE * angles + self._popularity[rows]
        if wide:
            scores -= BEHIND * (self.tree.codes[rows] != self.tree.codes[item])
        return scores


class _AlternativesTo(NamedTuple):
    """The query of an item that others are alternatives to."""

    alternatives: Alternatives
    item: int
    excluded: Rows
    fallbacks: tuple[Fallback, ...]
    wide: bool
    informed: bool = True

    def rank(self, ranker: Ranker, count: int, allowed: Rows | None, event_limit: int) -> Ranked:
        return self.alternatives.rank(self.item, count, self.excluded, allowed, event_limit, wide=self.wide)

    def rank_new(self, ranker: Ranker, count: int, allowed: Rows | None) -> Ranked:
        size = self.alternatives.similar.count
        return self.alternatives.rank(self.item, size, self.excluded, allowed, size, wide=self.wide, new_only=True)

    def find_reasons(self, ranker: Ranker, rows: Rows) -> list[list[Contribution]]:
        return self.alternatives.similar.explain(self.item, rows)


def find_alternatives(alternatives: Alternatives, items: Sequence[int], options: RowOptions) -> list[RowResult]:
    """The best alternatives to each of `items`. If its category has fewer than `k`, items of the parent follow, and a
    fallback says so. Of the options, `exclude_seen` and `with_user_points` have no effect."""
    return [_find(alternatives, item, options) for item in items]


def _find(alternatives: Alternatives, item: int, options: RowOptions) -> RowResult:
    ranker, tree, given = alternatives.similar.ranker, alternatives.tree, options.fallbacks
    code = int(tree.codes[item])
    if code == UNKNOWN:
        reasons: list[list[Contribution]] | None = [] if options.reasons else None
        nothing = NO_ROWS, np.empty(0, np.float32), reasons
        return RowResult(*nothing, (*given, Fallback(Cause.ITEM_WITHOUT_CATEGORY)))
    query = _AlternativesTo(alternatives, item, options.excluded, given, wide=False)
    found = make_list(ranker, query, options)
    if (count := len(found.rows)) < options.k and tree.parents[code] is not None:
        widened = (*given, Fallback(Cause.FEW_OF_CATEGORY, count, options.k))
        wider = make_list(ranker, query._replace(fallbacks=widened, wide=True), options)
        found = wider if len(wider.rows) > count else found
    return found if len(found.rows) else found._replace(fallbacks=(*given, Fallback(Cause.NOTHING_OF_CATEGORY)))
