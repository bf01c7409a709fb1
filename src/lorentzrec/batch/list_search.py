"""Candidates of thousands of customers at once, from the lists of an index.

A search of one query reads each list that it scans from memory. Here the queries that scan a list share it: their
scores are one matrix product, and a heap per query holds the best so far.
"""

from __future__ import annotations

import numpy as np

from lorentzrec.batch.kernels import keep_best
from lorentzrec.data.arrays import Booleans, Integers, offsets_of
from lorentzrec.geometry import FloatArray
from lorentzrec.points.index import Index
from lorentzrec.points.points import Points
from lorentzrec.points.scoring import Scorer


class ListSearch:
    """The lists of an index, with the points of their items next to each other."""

    def __init__(self, index: Index, points: Points, permitted: Booleans | None = None) -> None:
        """`permitted`: the items that may be found; None for all."""
        import faiss

        self._index = index
        lists = index.lists.invlists
        sizes = [lists.list_size(number) for number in range(index.lists.nlist)]
        self._offsets = offsets_of(np.array(sizes))
        self._rows = np.empty(self._offsets[-1], np.int64)
        for number, (start, size) in enumerate(zip(self._offsets, sizes, strict=False)):
            self._rows[start : start + size] = faiss.rev_swig_ptr(lists.get_ids(number), size)
        self._share = 1.0
        if permitted is not None:
            kept = permitted[self._rows]
            numbers = np.repeat(np.arange(len(sizes)), sizes)[kept]
            self._offsets = offsets_of(np.bincount(numbers, minlength=len(sizes)))
            self._rows, self._share = self._rows[kept], max(1, len(numbers)) / len(kept)
        self._scorer = Scorer(points.item_points[self._rows], points.space)

    def search(self, queries: FloatArray, count: int, best: float) -> Integers:
        """(queries, count): items near each query, in no order, -1 where there are fewer; as `Index.search`."""
        # If one item in ten is permitted, the best ten are spread over as many lists as the best hundred of all.
        scanned = self._index.nearest_lists(queries, best / self._share)
        order = np.argsort(scanned, axis=None, kind="stable")
        bounds = offsets_of(np.bincount(scanned.ravel(), minlength=len(self._offsets) - 1))
        owners = order // scanned.shape[1]
        scores, found = np.full((len(queries), count), -np.inf, np.float32), np.full((len(queries), count), -1)
        for number in np.flatnonzero(np.diff(bounds)):
            some = owners[bounds[number] : bounds[number + 1]]
            rows = np.s_[self._offsets[number] : self._offsets[number + 1]]
            keep_best(self._scorer.linear_scores(queries[some], rows), some, self._rows[rows], scores, found)
        return found
