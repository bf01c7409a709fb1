"""The items that may be recommended now, and their order for a query or by popularity."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lorentzrec.geometry import FloatArray
from lorentzrec.ranking import Ranker, Rows, top_k
from lorentzrec.vocabulary import UNKNOWN

Geometry = Literal["hyperboloid", "euclidean"]
Ranked = tuple[NDArray[np.int64], NDArray[np.float32]]
"""Rows and scores, best first."""


class LiveItems:
    """Ranks the live items of a version; rows that go in and out are those of the version.

    Where not all items are live, the points of those that are get packed once, so that nothing else is ever scored.
    """

    def __init__(self, ranker: Ranker, counts: NDArray[np.int64], live: Rows | None = None) -> None:
        """`live`: rows in rising order; None if every item is live."""
        self._live = live
        self._counts = counts if live is None else counts[live]
        self._popular = np.argsort(-self._counts, kind="stable")
        points = ranker.item_points if live is None else ranker.item_points[live]
        geometry: Geometry = "hyperboloid" if ranker.hyperbolic else "euclidean"
        self._nearest = Ranker(points, geometry=geometry, score="distance")
        self._scored = self._nearest if ranker.by_distance else Ranker(points, geometry=geometry, score="inner")
        if live is not None:
            self._places = np.full(len(counts), UNKNOWN, np.int64)
            self._places[live] = np.arange(len(live))

    def __len__(self) -> int:
        return len(self._counts)

    def top(self, query: FloatArray, k: int, excluded: Rows, allowed: Rows | None, *, nearest: bool = False) -> Ranked:
        """The best `k` by the model's score, or the `nearest` to a point; none of `excluded`, only of `allowed`."""
        ranker = self._nearest if nearest else self._scored
        places, scores = ranker.top(
            query, k, self._packed(excluded), None if allowed is None else self._packed(allowed)
        )
        return self._rows(places), scores

    def popular(self, k: int, excluded: Rows, allowed: Rows | None) -> Ranked:
        """The `k` with the most events in training, scored by their number; equal ones by row."""
        excluded = self._packed(excluded)
        if allowed is None:
            places = self._popular[: k + len(excluded)]
            places = places[~np.isin(places, excluded)][:k]
        else:
            places = top_k(self._counts.astype(np.float64), k, excluded, self._packed(allowed))
        return self._rows(places), self._counts[places].astype(np.float32)

    def _packed(self, rows: Rows) -> Rows:
        if self._live is None:
            return rows
        places = self._places[rows]
        packed: Rows = places[places != UNKNOWN]
        return packed

    def _rows(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        return places if self._live is None else self._live[places].astype(np.int64)
