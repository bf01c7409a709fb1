"""Exact scores of an array of points, and the best of them."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lorentzrec.base.threads import available_cores, thread_pool
from lorentzrec.data.arrays import make_mask
from lorentzrec.errors import InputError
from lorentzrec.geometry import FloatArray, euclidean
from lorentzrec.points.memory import SHARPNESS, Boosts, Memory
from lorentzrec.points.native import NO_MIDPOINT, Answer, Catalogue, Question, pack, rank
from lorentzrec.points.space import Space
from lorentzrec.points.topk import Rows

BLOCK_BYTES = 16 * 2**20
"""Memory that one thread spends on the scores of a block of queries."""
BOOSTS_AT_ONCE = 1 << 18
"""Scores that are raised at a time, which needs some 80 bytes for each of them."""
FARTHEST = 100.0
"""No two points of the hyperboloid have a larger distance in float32, where products of coordinates are finite."""
NO_ROWS: NDArray[np.int64] = np.empty(0, np.int64)

Ranked = tuple[NDArray[np.int64], NDArray[np.float32]]
"""Rows and scores, best first."""


class Scorer:
    """Ranks points by their scores for a query.

    All four scores have the order of a plain inner product, at most with a constant per item, so products in single
    precision find the contenders. Their rounding could still swap near neighbours, so all within the error bound of
    rank k are scored again in double precision, and that score decides. The ranking is therefore exact, and depends
    neither on threads nor on how queries are grouped.

    With offsets of items, scores in single precision have the offsets, too. With boosts, which are never negative, the
    best k are among the best k without boosts and the boosted items.
    """

    def __init__(
        self,
        item_points: NDArray[np.float32],
        space: Space,
        history_points: NDArray[np.float32] | None = None,
        memory: Memory | None = None,
        new_histories: NDArray[np.float32] | None = None,
        item_offsets: NDArray[np.float32] | None = None,
    ) -> None:
        """history_points: what histories are made of; by default the same points. new_histories: those of rows after
        the last item. item_offsets: what is added to the score of each item: its mass, and the trend."""
        self.item_points, self.space = np.ascontiguousarray(item_points, np.float32), space
        self._history_points, self._memory, self._new_histories = history_points, memory, new_histories
        self.item_offsets = item_offsets
        squared_norms = np.einsum("ij,ij->i", self.item_points, self.item_points)
        self._longest = float(np.sqrt(squared_norms.max(initial=0)))
        # -|u - v|^2 / 2 = u . v - |v|^2 / 2 - |u|^2 / 2, and the last term is the same for all items.
        self._half_squares = squared_norms / 2 if space.by_distance and not space.hyperbolic else None

    @property
    def nearest(self) -> Scorer:
        """The same points ranked by their distance from a query; itself if they are."""
        # Not kept if it is this scorer: a reference to itself would keep the points of a replaced version in memory.
        return self if self.space.by_distance else self._nearest

    @cached_property
    def _nearest(self) -> Scorer:
        return Scorer(self.item_points, self.space._replace(score="distance"))

    @cached_property
    def catalogue(self) -> Catalogue:
        """The points as the compiled ranking reads them."""
        histories, memory = self._history_points, self._memory
        return Catalogue(
            self.item_points,
            self.item_points if histories is None else np.ascontiguousarray(histories, np.float32),
            hyperbolic=self.space.hyperbolic,
            memory=None if memory is None else (memory.offsets, memory.columns, memory.values),
            ordered=memory is None or memory.ordered,
            memory_weight=0.0 if memory is None else memory.weight,
            sharpness=SHARPNESS,
            longest=self._longest,
            new_histories=self._new_histories,
            item_offsets=self.item_offsets,
        )

    def with_offsets(self, item_offsets: NDArray[np.float32] | None) -> Scorer:
        """The same with other offsets of items. This is cheap."""
        found = copy(self)
        found.__dict__.pop("catalogue", None)
        found.item_offsets = item_offsets
        return found

    def with_new_histories(self, points: NDArray[np.float32]) -> Scorer:
        """The same for histories that also contain new items, whose rows follow those of the others. This is cheap."""
        found = copy(self)
        found.__dict__.pop("catalogue", None)
        found._new_histories = np.ascontiguousarray(points, np.float32)
        return found

    def linear_scores(self, queries: FloatArray, rows: Rows | slice | None = None) -> NDArray[np.float32]:
        """Numbers in the order of the scores, up to rounding, of all items for each row of `queries`; one product.

        With `rows`, of these items only.
        """
        signed = queries.astype(np.float32)
        if self.space.hyperbolic:
            signed[:, 0] *= -1
        points = self.item_points if rows is None else self.item_points[rows]
        # One query is not for BLAS: einsum reads a large catalogue twice as fast, and has no threads to fight with.
        scores = np.einsum("ij,j->i", points, signed[0])[None] if len(signed) == 1 else signed @ points.T
        if self._half_squares is not None:
            scores -= self._half_squares if rows is None else self._half_squares[rows]
        return scores

    def ordered_scores(self, queries: FloatArray, rows: Rows | slice | None = None) -> NDArray[np.float32]:
        """`linear_scores`, or with offsets of items the scores themselves: numbers in the order of the scores."""
        scores = self.linear_scores(queries, rows)
        if self.item_offsets is not None:
            for start in range(0, len(scores), part := max(1, BLOCK_BYTES // (8 * max(1, scores.shape[1])))):
                block = scores[start : start + part]
                block[...] = self.to_scores(block, euclidean.squared_norm(queries[start : start + part])[:, None])
            scores += self.item_offsets if rows is None else self.item_offsets[rows]
        return scores

    def exact_scores(self, query: FloatArray, rows: Rows) -> FloatArray:
        """The scores of some items by points alone, in float64 and stable for near points."""
        return self.space.score_points(query, self.space.precise(self.item_points[rows]))

    def add_boosts(self, scores: NDArray[np.float32], queries: FloatArray, boosts: Boosts) -> None:
        """Raise `ordered_scores`, in place, so that they are in the order of the boosted scores."""
        norms = euclidean.squared_norm(queries)
        for start in range(0, len(boosts.items), BOOSTS_AT_ONCE):
            some = boosts.where(slice(start, start + BOOSTS_AT_ONCE))
            cells = some.history_indices, some.items
            if self.item_offsets is not None:
                scores[cells] += some.values
                continue
            squares = norms[some.history_indices]
            scores[cells] = self.to_linear(self.to_scores(scores[cells], squares) + some.values, squares)

    def rank(self, asked: Question) -> Answer | None:
        """The best items, or all that are left; best first, ties by row. None if candidates were to come from lists or
        were given, and fewer than `k` are left."""
        k, count = asked.k, len(self.item_points)
        found = rank(self.catalogue, asked._replace(k=max(1, min(k, count)), by_distance=self.space.by_distance))
        if found == NO_MIDPOINT:
            raise InputError(
                "the history has no midpoint: give it at least one item of positive weight, none of negative weight, "
                "and no point so far out that its digits are gone"
            )
        return None if isinstance(found, int) else found

    def rank_many(
        self, queries: FloatArray, ask: Callable[[int], Question], threads: int | None = None
    ) -> list[Answer]:
        """`rank` for each row of `queries` among all items, on all cores and in bounded memory.

        ask: the question about the query with this number. If it has a history, final scores are of the midpoint that
        `rank` computes of it, so they equal those of `rank` alone in all digits.
        """
        threads = threads or available_cores()
        size = max(1, min(BLOCK_BYTES // (4 * max(1, len(self.item_points))), -(-len(queries) // threads)))

        def rank_block(start: int) -> list[Answer]:
            points = np.ascontiguousarray(queries[start : start + size], np.float64)
            found = []
            for number, (point, linear) in enumerate(zip(points, self.linear_scores(points), strict=True), start):
                asked = ask(number)._replace(linear=linear)
                answer = self.rank(asked if asked.history is not None else asked._replace(query=point))
                assert answer is not None
                found.append(answer)
            return found

        starts = range(0, len(queries), size)
        if len(starts) == 1 and threads > 1:  # BLAS may use them; limiting it takes as long as a small catalogue
            return rank_block(0)
        with thread_pool(threads) as in_threads:
            return [answer for block in in_threads(rank_block, starts) for answer in block]

    def top(
        self,
        query: FloatArray,
        k: int,
        excluded: Rows | None = None,
        allowed: Rows | None = None,
        *,
        raised: bool = False,
    ) -> Ranked:
        """The rows and scores of the best `k` items by points alone, or of all that are left.

        raised: with offsets of items.
        """
        if not k:
            return NO_ROWS, np.empty(0, np.float32)
        asked = Question(
            k,
            np.ascontiguousarray(query, np.float64),
            excluded=None if excluded is None else np.ascontiguousarray(excluded, np.int64),
            raised=raised,
            eligible=None if allowed is None else pack(make_mask(allowed, len(self.item_points))),
        )
        found = self.rank(asked)
        assert found is not None
        return found.rows, found.scores

    def to_scores(self, linear: NDArray[np.float32], squared_norms: FloatArray) -> FloatArray:
        """Scores from linear ones, up to `_score_error`, and the squared norms of their queries."""
        values = linear.astype(np.float64)
        if not self.space.by_distance:
            return values
        if self.space.hyperbolic:
            return -np.arccosh(np.maximum(-values, 1))
        return -np.sqrt(np.maximum(squared_norms - 2 * values, 0))

    def to_linear(self, scores: FloatArray, squared_norms: FloatArray) -> FloatArray:
        """The inverse of `to_scores`; where a boost makes a score of a distance positive, anything that continues to
        rise."""
        if not self.space.by_distance:
            return scores
        below, above = np.minimum(scores, 0), np.maximum(scores, 0)
        if self.space.hyperbolic:
            return above - np.cosh(np.maximum(below, -FARTHEST))
        return above + (squared_norms - np.square(below)) / 2
