"""Candidates of thousands of customers at once, from the lists of an index.

A search of one query reads each list that it scans from memory. Here the queries that scan a list share it: their
scores are one matrix product, and a heap per query holds the best so far.
"""

from __future__ import annotations

import numpy as np

from lorentzrec.batch.kernels import keep_best
from lorentzrec.data.arrays import Booleans, Integers, make_offsets
from lorentzrec.geometry import FloatArray
from lorentzrec.points.index import Index
from lorentzrec.points.points import Points
from lorentzrec.points.scoring import Scorer


class ListSearch:
    """The lists of an index, with the points of their items next to each other."""

    def __init__(self, index: Index, points: Points, permitted: Booleans | None = None) -> None:
        """`permitted`: the items that may be found; None for all."""
        offsets = points.scorer.item_offsets
        self._index = index.raise_by(offsets)
        lists, self._share = index.lists, 1.0
        if permitted is not None:
            lists = index.narrow(permitted).lists
            self._share = max(1, len(lists.rows)) / max(1, index.count)
        self._offsets, self._rows = lists.offsets, lists.rows.astype(np.int64)
        self._scorer = Scorer(
            points.item_points[self._rows], points.space, item_offsets=None if offsets is None else offsets[self._rows]
        )

    def search(self, queries: FloatArray, count: int, best: float) -> Integers:
        """(queries, count): items near each query, in no order, -1 where there are fewer; as `Index.search`."""
        # If one item in ten is permitted, the best ten are spread over as many lists as the best hundred of all.
        limit = self._index.lists_for(best, self._share)
        scanned = self._index.nearest_lists(self._scorer, queries, limit)
        order = np.argsort(scanned, axis=None, kind="stable")
        bounds = make_offsets(np.bincount(scanned.ravel(), minlength=len(self._offsets) - 1))
        owners = order // scanned.shape[1]
        scores, found = np.full((len(queries), count), -np.inf, np.float32), np.full((len(queries), count), -1)
        for number in np.flatnonzero(np.diff(bounds)):
            some = owners[bounds[number] : bounds[number + 1]]
            rows = np.s_[self._offsets[number] : self._offsets[number + 1]]
            keep_best(self._scorer.ordered_scores(queries[some], rows), some, self._rows[rows], scores, found)
        return found
