"""Items similar to an item, corrected for popularity.

The score of item j for item i is

    0.97 v_ij + 0.03 cos(p_i, p_j),

with v_ij from `Similarity`, 0 for items that are not stored as neighbours, and p the direction of an item as seen from
the origin: that of its point, or of the mean of the directions of both its points if histories have others. Popular
items are near the origin, and so near to everything; a direction does not depend on popularity. Without a `Similarity`
the score is the cosine.

Items without stored neighbours, such as new ones, count as if they had the v_ij that is usual at their angle: the slope
of a line through 0 fitted to the stored neighbours of i.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Booleans, Floats, Integers, make_mask
from lorentzrec.points.fallbacks import Fallback
from lorentzrec.points.points import Points
from lorentzrec.points.ranking import Ranker
from lorentzrec.points.reasons import Contribution, ReasonKind
from lorentzrec.points.recommending import RowOptions, RowResult, make_list
from lorentzrec.points.scoring import NO_ROWS, Ranked
from lorentzrec.points.similarity import Similarity
from lorentzrec.points.topk import Rows

ANGLE = 0.03
"""The weight of the angle, chosen with the exponents of `Similarity`."""
GATHERED_SHARE = 16
"""If fewer than one item in 16 is a candidate, only the directions of candidates are computed; else those of all items
are, once."""


class SimilarItems:
    """Ranks the items of a ranker by their similarity to one of them."""

    def __init__(self, ranker: Ranker) -> None:
        self.ranker = ranker
        self.count = len(ranker.points) + (0 if ranker.new is None else len(ranker.new.points))
        """The number of items, new ones included."""

    @property
    def similarity(self) -> Similarity | None:
        return self.ranker.points.similarity

    @cached_property
    def live(self) -> Booleans:
        """Which items may be recommended."""
        return make_mask(self.ranker.live_rows(new=True), self.count)

    @cached_property
    def uncounted(self) -> Rows:
        """The live items without stored neighbours, if other items have any."""
        if self.similarity is None:
            return NO_ROWS
        without = np.ones(self.count, bool)
        without[: self.similarity.item_count] = np.diff(self.similarity.offsets) == 0
        return np.flatnonzero(without & self.live)

    @cached_property
    def _directions(self) -> NDArray[np.float32]:
        return self._find_directions(np.arange(self.count))

    def _find_directions(self, rows: Rows) -> NDArray[np.float32]:
        """Of some items, as rows of length 1; 0 for a point at the origin."""
        ranker, known = self.ranker, rows < len(self.ranker.points)
        if known.all():
            return _directions(ranker.points, rows)
        assert ranker.new is not None
        found = np.empty((len(rows), ranker.points.dimension), np.float32)
        found[known] = _directions(ranker.points, rows[known])
        found[~known] = _directions(ranker.new.points, rows[~known] - len(ranker.points))
        return found

    def angles(self, item: int, rows: Rows) -> Floats:
        """The cosines of the angles between an item and some items, as seen from the origin."""
        if len(rows) * GATHERED_SHARE < self.count:
            directions = self._find_directions(np.append(rows, item))
            directions, own = directions[:-1], directions[-1]
        else:
            directions, own = self._directions[rows], self._directions[item]
        # A product of matrices would round a row differently depending on how many rows there are.
        cosines: Floats = np.einsum("ij,j->i", directions, own).astype(np.float64)
        return cosines

    def rank(
        self,
        item: int,
        k: int,
        excluded: Rows = NO_ROWS,
        allowed: Rows | None = None,
        event_limit: int = 0,
    ) -> Ranked:
        """The rows and scores of the best `k` items, or of all that are left; best first, ties by row; never `item`.

        event_limit: the largest number of new items by events among them.
        """
        eligible = self._eligible(item, excluded, allowed)
        neighbours: Rows = NO_ROWS if self.similarity is None else self.similarity.neighbours(item)[0]
        near = np.concatenate([neighbours, self.uncounted]).astype(np.int64)
        near = near[eligible[near]]
        rows, scores = self.best(k, near, self.score(item, near, self.angles(item, near)), event_limit)
        # Any other item scores at most its angle.
        if len(rows) < k or scores[-1] <= ANGLE or self.similarity is None:
            near = np.flatnonzero(eligible)
            rows, scores = self.best(k, near, self.score(item, near, self.angles(item, near)), event_limit)
        return rows, scores.astype(np.float32)

    def rank_new(self, item: int, excluded: Rows, allowed: Rows | None) -> Ranked:
        """All new items that may be recommended, best first."""
        eligible = self._eligible(item, excluded, allowed)
        first = len(self.ranker.points)
        rows = first + np.flatnonzero(eligible[first:])
        rows, scores = self.best(len(rows), rows, self.score(item, rows, self.angles(item, rows)), len(rows))
        return rows, scores.astype(np.float32)

    def values(self, item: int, rows: Rows) -> Floats:
        """v_ij of some items."""
        found = np.zeros(len(rows))
        if self.similarity is not None:
            neighbours, values = self.similarity.neighbours(item)
            if len(neighbours):
                index = np.minimum(np.searchsorted(neighbours, rows), len(neighbours) - 1)
                found = np.where(neighbours[index] == rows, values[index], 0.0)
        return found

    def explain(self, item: int, rows: Rows) -> list[list[Contribution]]:
        """The item is the one reason for all: they were bought by the same customers, or their points are near."""
        kinds = (ReasonKind.OFTEN_WITH if value > 0 else ReasonKind.NEAR for value in self.values(item, rows).tolist())
        return [[Contribution(item, 1.0, kind)] for kind in kinds]

    def _eligible(self, item: int, excluded: Rows, allowed: Rows | None) -> Booleans:
        eligible = self.live.copy() if allowed is None else make_mask(allowed, self.count) & self.live
        eligible[excluded] = False
        eligible[item] = False
        return eligible

    def score(self, item: int, rows: Rows, angles: Floats) -> Floats:
        """The similarity of some items to one. angles: of these items, see `angles`."""
        if self.similarity is None:
            return angles
        values = self.values(item, rows)
        if len(self.uncounted):
            neighbours, stored = self.similarity.neighbours(item)
            usual = self.angles(item, neighbours.astype(np.int64))
            slope = max(0.0, float(stored @ usual)) / max(float(usual @ usual), 1e-9)
            unknown = make_mask(self.uncounted, self.count)[rows]
            values = np.where(unknown, np.clip(slope * angles, 0, 1), values)
        return (1 - ANGLE) * values + ANGLE * angles

    def best(self, k: int, rows: Integers, scores: Floats, event_limit: int) -> tuple[Integers, Floats]:
        """The best `k` of distinct items, with at most `event_limit` new items by events."""
        order = np.lexsort((rows, -scores))
        rows, scores = rows[order], scores[order]
        if self.ranker.new is not None and self.ranker.new.by_events:
            by_events = rows >= self.count - self.ranker.new.by_events
            kept = ~by_events | (np.cumsum(by_events) <= event_limit)
            rows, scores = rows[kept], scores[kept]
        return rows[:k], scores[:k]


class _SimilarTo(NamedTuple):
    """The query of an item that others are similar to."""

    similar: SimilarItems
    item: int
    excluded: Rows
    fallbacks: tuple[Fallback, ...]
    informed: bool = True

    def rank(self, ranker: Ranker, count: int, allowed: Rows | None, event_limit: int) -> Ranked:
        return self.similar.rank(self.item, count, self.excluded, allowed, event_limit)

    def rank_new(self, ranker: Ranker, count: int, allowed: Rows | None) -> Ranked:
        return self.similar.rank_new(self.item, self.excluded, allowed)

    def find_reasons(self, ranker: Ranker, rows: Rows) -> list[list[Contribution]]:
        return self.similar.explain(self.item, rows)


def find_similar(similar: SimilarItems, items: Sequence[int], options: RowOptions) -> list[RowResult]:
    """The items most similar to each of `items`. Of the options, `exclude_seen` and `with_user_points` have no effect:
    an item is never similar to itself."""
    queries = (_SimilarTo(similar, item, options.excluded, options.fallbacks) for item in items)
    return [make_list(similar.ranker, query, options) for query in queries]


def _directions(points: Points, rows: Rows) -> NDArray[np.float32]:
    """See `similar.py`."""
    first = int(points.space.hyperbolic)
    directions = _unit(points.item_points[rows, first:])
    if points.separate:
        directions = _unit(directions + _unit(points.history_points[rows, first:]))
    return directions


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: NDArray[np.float32] = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return unit
