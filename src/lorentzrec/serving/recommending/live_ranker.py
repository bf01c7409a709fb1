"""The items that may be recommended now, ranked for a query or by popularity."""

from __future__ import annotations

import sys
from copy import copy
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import mask_of
from lorentzrec.data.vocabulary import UNKNOWN
from lorentzrec.geometry import FloatArray
from lorentzrec.model.placement import PlacedItems
from lorentzrec.model.ranking import NO_ROWS, History, Ranker, Rows
from lorentzrec.serving.versions.index import INDEXED_ITEMS, Index, IndexedRanker

FEW_REMOVED = 50
"""With an index: up to this many items that are not live are excluded like a history, which needs no bitmap."""
REMOVED_SHARE = 16
"""Without an index: up to one item in 16 that is not live is scored and excluded, which needs no copy of the others."""
Ranked = tuple[NDArray[np.int64], NDArray[np.float32]]
"""Rows and scores, best first."""


class QueryPoint(NamedTuple):
    """A point to rank items for."""

    point: FloatArray
    history: History | None
    """What the point is the midpoint of; None: rank by distance from it."""


class _NewRanker(NamedTuple):
    """New items of one origin that may be recommended."""

    rows: NDArray[np.int64]
    ranker: Ranker

    def top(self, query: QueryPoint | None, k: int, excluded: Rows, allowed: Rows | None) -> Ranked:
        never = np.isin(self.rows, excluded)
        if allowed is not None:
            never |= ~np.isin(self.rows, allowed)
        if query is None:
            rows = self.rows[~never]
            return rows, np.zeros(len(rows), np.float32)
        ranker = self.ranker.nearest() if query.history is None else self.ranker
        places, scores = ranker.top(query.point, k, np.flatnonzero(never))
        return self.rows[places], scores


class ExtendedRanker(Ranker):
    """A ranker whose items are followed by new ones, without a copy of all points. It makes queries and explains, but
    does not rank new items: see `LiveRanker.top`."""

    def __init__(self, ranker: Ranker, new: PlacedItems) -> None:
        vars(self).update(vars(ranker))
        self._count, self._new = len(ranker.item_points), new

    def precise_items(self, rows: Rows) -> FloatArray:
        return self.precise(self._gather(self.item_points, self._new.item_points, rows))

    def precise_histories(self, rows: Rows) -> FloatArray:
        return self.precise(self._gather(self.history_points, self._new.history_points, rows))

    def _gather(self, known: NDArray[np.float32], new: NDArray[np.float32], rows: Rows) -> NDArray[np.float32]:
        found = known[np.minimum(rows, self._count - 1)]
        later = rows >= self._count
        found[later] = new[rows[later] - self._count]
        return found


class LiveRanker:
    """Ranks the live items of a version by its model, or by its twin; all rows are those of the version.

    Where not all items are live, the points of those that are get packed once, so that nothing else is ever scored:
    unless there is an index, and enough items are live for it to pay. If only a few items are not live, nothing is
    packed: these are excluded from every ranking.
    """

    def __init__(self, ranker: Ranker, counts: NDArray[np.int64], live: Rows, index: Index | None = None) -> None:
        """`live`: rows in rising order."""
        self.all_items = ranker
        self._counts, self._popular = counts, live[np.argsort(-counts[live], kind="stable")]
        index = index if len(live) >= INDEXED_ITEMS else None
        self._removed = NO_ROWS
        self._packed: Rows | None = None
        few = len(counts) // REMOVED_SHARE if index is None else FEW_REMOVED
        if len(counts) - len(live) <= few:
            self._removed = np.delete(np.arange(len(counts)), live)
            self._ranker = ranker if index is None else IndexedRanker(ranker, index)
        elif index is not None:
            self._ranker = IndexedRanker(ranker, index, live)
        else:
            self._packed, self._places = live, np.full(len(counts), UNKNOWN, np.int64)
            self._places[live] = np.arange(len(live))
            self._ranker = _rank_others(ranker, ranker.item_points[live])
        self._nearest = self._ranker.nearest()
        self._new: tuple[_NewRanker, ...] = ()

    def extended(self, new: PlacedItems, live: NDArray[np.bool_], by_events: int) -> LiveRanker:
        """The same with new items, whose rows follow those of the version; the last of them are by events.

        live: which of them may be recommended, if they are placed.
        """
        extended, places = copy(self), np.flatnonzero(live & new.placed)
        extended.all_items = ExtendedRanker(self.all_items, new)
        first = len(live) - by_events
        extended._new = tuple(
            _NewRanker(len(self._counts) + part, _rank_others(self.all_items, new.item_points[part]))
            for part in (places[places < first], places[places >= first])
        )
        return extended

    def top(self, query: QueryPoint, k: int, by_events: int, excluded: Rows, allowed: Rows | None) -> Ranked:
        """The best `k` by the model's score, or the nearest to a point; none of `excluded`, only of `allowed`.

        by_events: the largest number of new items by events among them.
        """
        boosts = self.all_items.boosts(query.history)
        if boosts is not None and self._packed is not None:
            places = self._places[boosts.items]
            boosts = boosts._replace(items=places).where(places != UNKNOWN)
        ranker = self._nearest if query.history is None else self._ranker
        never, among = np.concatenate([excluded, self._removed]), None if allowed is None else self._places_of(allowed)
        rows, scores = ranker.top(query.point, k, self._places_of(never), among, boosts)
        if self._packed is not None:
            rows = self._packed[rows].astype(np.int64)
        new = self.new_items(query, k, by_events, excluded, allowed)
        if not len(new[0]):
            return rows, scores
        rows, scores = np.concatenate([rows, new[0]]), np.concatenate([scores, new[1]])
        order = np.argsort(-scores, kind="stable")[:k]
        return rows[order], scores[order]

    def new_items(
        self, query: QueryPoint | None, k: int, by_events: int, excluded: Rows, allowed: Rows | None
    ) -> Ranked:
        """The best `k` new items by PUT and the best `by_events` by events that may be recommended, best first; without
        a query all of them, with score 0."""
        if not self._new:
            return NO_ROWS, np.empty(0, np.float32)
        if allowed is not None:  # which may be most of the version
            allowed = allowed[allowed >= len(self._counts)]
        found = [new.top(query, limit, excluded, allowed) for new, limit in zip(self._new, (k, by_events), strict=True)]
        rows, scores = (np.concatenate(column) for column in zip(*found, strict=True))
        order = np.argsort(-scores, kind="stable")
        return rows[order], scores[order]

    def live_rows(self, *, new: bool) -> Rows:
        """The rows of the live items, with or without new ones."""
        return np.concatenate([self._popular, *(part.rows for part in self._new)]) if new else self._popular

    def popular(self, k: int, excluded: Rows, allowed: Rows | None) -> Ranked:
        """The `k` items with the most events in training, scored by that number; ties by row."""
        rows = self._popular
        if allowed is not None:
            count = len(self._counts)
            rows = rows[mask_of(allowed[allowed < count], count)[rows]]
        rows = rows[: k + len(excluded)]
        best = rows[~np.isin(rows, excluded)][:k].astype(np.int64)
        return best, self._counts[best].astype(np.float32)

    def _places_of(self, rows: Rows) -> Rows:
        """Rows of the version as rows of the packed points; new items and those that are not live drop out."""
        if isinstance(self.all_items, ExtendedRanker):
            rows = rows[rows < len(self._counts)]
        if self._packed is None:
            return rows
        places = self._places[rows]
        packed: Rows = places[places != UNKNOWN]
        return packed


def _rank_others(ranker: Ranker, points: NDArray[np.float32]) -> Ranker:
    """A ranker of other points by the same score."""
    return Ranker(points, geometry=ranker.geometry, score=ranker.score)


def explore(
    ranked: Ranked,
    new: Ranked,
    k: int,
    share: float,
    random: np.random.Generator,
    by_events: tuple[int, int] = (sys.maxsize, 0),
) -> Ranked:
    """`ranked` with new items in `share` of `k` places; those that are there by their score count.

    A fraction of a place is one with that probability. Items that are not in the list are drawn without replacement,
    the r-th best of them with a probability proportional to 1 / r. They are spread evenly over the list, and the last
    items that are not new make room for them.

    new: all new items that may be recommended, best first.
    by_events: the first row of the new items by events, and the largest number of them in the list.
    """
    rows, scores = ranked
    candidates = np.flatnonzero(~np.isin(new[0], rows))
    there = np.isin(rows, new[0])
    # By their exponential clocks: the order of drawing without replacement, the r-th one at the rate 1 / r.
    candidates = candidates[np.argsort(random.exponential(np.arange(1, len(candidates) + 1)))]
    first, limit = by_events
    counted = new[0][candidates] >= first
    candidates = candidates[~counted | (np.cumsum(counted) <= limit - (rows >= first).sum())]
    missing = min(int(share * k + random.random()) - int(there.sum()), len(candidates))
    if missing <= 0:
        return ranked
    drawn = np.sort(candidates[:missing])
    surplus = max(0, len(rows) + missing - k)
    kept = np.delete(np.arange(len(rows)), np.flatnonzero(~there)[::-1][:surplus])
    # Places in the list of those that are kept, before which one is inserted.
    places = ((np.arange(missing) + 0.5) * (len(kept) + missing) / missing).astype(np.int64) - np.arange(missing)
    return np.insert(rows[kept], places, new[0][drawn]), np.insert(scores[kept], places, new[1][drawn])
