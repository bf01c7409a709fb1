"""Trending items: what is more popular than usual, by the same numbers as the trend in scores."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Floats, make_mask
from lorentzrec.points.fallbacks import Cause, Fallback
from lorentzrec.points.ranking import Ranker
from lorentzrec.points.reasons import Contribution
from lorentzrec.points.recommending import RowOptions, RowResult, make_list
from lorentzrec.points.scoring import NO_ROWS, Ranked
from lorentzrec.points.topk import Rows
from lorentzrec.points.trend import SMOOTHING

FEWEST_OF_ITEM = 3
"""An item is trending if it has this many customers in the last days, and more than usual."""


class TrendingItems:
    """Ranks items by log((r + a) / (e + a)), see `trend.py`. A new item has customers in the last days, and e = 0."""

    def __init__(self, ranker: Ranker, new_recent: NDArray[np.float32]) -> None:
        """new_recent: the customers of the new items in the last days."""
        self.ranker, self._new_recent = ranker, new_recent

    @cached_property
    def recent(self) -> NDArray[np.float32]:
        """The customers of each item, new ones included, in the last days."""
        trend = self.ranker.points.trend
        known = np.zeros(len(self.ranker.points), np.float32) if trend is None else trend.recent
        return np.concatenate([known, self._new_recent])

    @cached_property
    def expected(self) -> NDArray[np.float32]:
        """Those at its usual rate."""
        trend = self.ranker.points.trend
        known = np.zeros(len(self.ranker.points), np.float32) if trend is None else trend.expected
        return np.concatenate([known, np.zeros_like(self._new_recent)])

    @cached_property
    def _best(self) -> tuple[NDArray[np.int64], Floats]:
        """The trending items that may be recommended, best first, ties by row, with their scores."""
        rows = np.flatnonzero((self.recent >= FEWEST_OF_ITEM) & (self.recent > self.expected))
        rows = rows[make_mask(self.ranker.live_rows(new=True), len(self.recent))[rows]]
        scores = np.log((self.recent[rows] + SMOOTHING) / (self.expected[rows].astype(np.float64) + SMOOTHING))
        order = np.lexsort((rows, -scores))
        return rows[order], scores[order]

    def rank(self, count: int, excluded: Rows, allowed: Rows | None, event_limit: int) -> Ranked:
        """The best items. event_limit: the largest number of new items by events among them."""
        rows, scores = self._best
        kept = ~np.isin(rows, excluded)
        if allowed is not None:
            kept &= make_mask(allowed, len(self.recent))[rows]
        new = self.ranker.new
        if new is not None and new.by_events:
            by_events = kept & (rows >= len(self.recent) - new.by_events)
            kept &= ~by_events | (np.cumsum(by_events) <= event_limit)
        return rows[kept][:count], scores[kept][:count].astype(np.float32)


class _Trending(NamedTuple):
    """The query of what is trending."""

    items: TrendingItems
    excluded: Rows
    fallbacks: tuple[Fallback, ...]
    informed: bool = True

    def rank(self, ranker: Ranker, count: int, allowed: Rows | None, event_limit: int) -> Ranked:
        return self.items.rank(count, self.excluded, allowed, event_limit)

    def rank_new(self, ranker: Ranker, count: int, allowed: Rows | None) -> Ranked:
        return NO_ROWS, np.empty(0, np.float32)

    def find_reasons(self, ranker: Ranker, rows: Rows) -> list[list[Contribution]]:
        return [[] for _ in rows]


def find_trending(items: TrendingItems, options: RowOptions) -> RowResult:
    """The items that are trending, most of all first. Of the options, those about histories and new items have no
    effect."""
    if items.ranker.points.trend is None:
        nothing = NO_ROWS, np.empty(0, np.float32), None
        return RowResult(*nothing, (*options.fallbacks, Fallback(Cause.NO_TREND)))
    found = make_list(items.ranker, _Trending(items, options.excluded, options.fallbacks), options)
    if found.fallbacks and found.fallbacks[-1].cause is Cause.ALL_EXCLUDED:
        return found._replace(fallbacks=(*found.fallbacks[:-1], Fallback(Cause.NOTHING_TRENDING)))
    return found
