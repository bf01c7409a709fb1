"""The items that may be recommended now, ranked for a query or by popularity."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.vocabulary import UNKNOWN
from lorentzrec.geometry import FloatArray
from lorentzrec.model.ranking import History, Ranker, Rows
from lorentzrec.model.reasons import Reasons
from lorentzrec.serving.versions.index import INDEXED_ITEMS, Index, IndexedRanker, Score

FEW_REMOVED = 50
"""With an index: up to this many items that are not live are excluded like a history, which needs no bitmap."""
REMOVED_SHARE = 16
"""Without an index: up to one item in 16 that is not live is scored and excluded, which needs no copy of the others."""
Ranked = tuple[NDArray[np.int64], NDArray[np.float32]]
"""Rows and scores, best first."""


class Query(NamedTuple):
    """A point to rank items for."""

    point: FloatArray
    history: History | None
    """What the point is the midpoint of; None: rank by distance from it."""


class LiveRanker:
    """Ranks the live items of a version by its model, or by its twin; all rows are those of the version.

    Where not all items are live, the points of those that are get packed once, so that nothing else is ever scored:
    unless there is an index, and enough items are live for it to pay. If only a few items are not live, nothing is
    packed: these are excluded from every ranking.
    """

    def __init__(
        self, ranker: Ranker, counts: NDArray[np.int64], live: Rows | None = None, index: Index | None = None
    ) -> None:
        """`live`: rows in rising order; None if every item is live."""
        self.all_items, self.reasons = ranker, Reasons(ranker)
        rows: Rows = np.arange(len(counts)) if live is None else live
        self._counts, self._popular = counts, rows[np.argsort(-counts[rows], kind="stable")]
        self._index = index if len(rows) >= INDEXED_ITEMS else None
        self._removed: Rows = np.empty(0, np.int64)
        few = len(counts) // REMOVED_SHARE if self._index is None else FEW_REMOVED
        if live is not None and len(counts) - len(live) <= few:
            self._removed, live = np.setdiff1d(np.arange(len(counts)), live, assume_unique=True), None
        self._live = live
        self._packed = live if self._index is None else None
        if self._packed is not None:
            self._places = np.full(len(counts), UNKNOWN, np.int64)
            self._places[self._packed] = np.arange(len(self._packed))
        points = ranker.item_points if self._packed is None else ranker.item_points[self._packed]
        self._nearest = self._make_ranker(points, ranker.hyperbolic, "distance")
        self._scored = self._nearest if ranker.by_distance else self._make_ranker(points, ranker.hyperbolic, "inner")

    def _make_ranker(self, points: NDArray[np.float32], hyperbolic: bool, score: Score) -> Ranker:
        if self._index is not None:
            return IndexedRanker(points, self._index, self._live, hyperbolic=hyperbolic, score=score)
        return Ranker(points, geometry="hyperboloid" if hyperbolic else "euclidean", score=score)

    def top(self, query: Query, k: int, excluded: Rows, allowed: Rows | None) -> Ranked:
        """The best `k` by the model's score, or the nearest to a point; none of `excluded`, only of `allowed`."""
        boosts = self.all_items.boosts(query.history)
        if boosts is not None and self._packed is not None:
            places = self._places[boosts.items]
            boosts = boosts._replace(items=places).where(places != UNKNOWN)
        ranker = self._nearest if query.history is None else self._scored
        if len(self._removed):
            excluded = np.concatenate([excluded, self._removed])
        places, scores = ranker.top(
            query.point, k, self._places_of(excluded), None if allowed is None else self._places_of(allowed), boosts
        )
        return places if self._packed is None else self._packed[places].astype(np.int64), scores

    def popular(self, k: int, excluded: Rows, allowed: Rows | None) -> Ranked:
        """The `k` items with the most events in training, scored by that number; ties by row."""
        rows = self._popular
        if allowed is not None:
            permitted = np.zeros(len(self._counts), bool)
            permitted[allowed] = True
            rows = rows[permitted[rows]]
        rows = rows[: k + len(excluded)]
        best = rows[~np.isin(rows, excluded)][:k].astype(np.int64)
        return best, self._counts[best].astype(np.float32)

    def _places_of(self, rows: Rows) -> Rows:
        """Rows of the version as rows of the packed points; those that are not live drop out."""
        if self._packed is None:
            return rows
        places = self._places[rows]
        packed: Rows = places[places != UNKNOWN]
        return packed
