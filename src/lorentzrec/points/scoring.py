"""Exact scores of an array of points, and the best of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lorentzrec.base.threads import available_cores, thread_pool
from lorentzrec.geometry import FloatArray, euclidean
from lorentzrec.points.memory import Boosts, contains
from lorentzrec.points.space import Space
from lorentzrec.points.topk import Rows, contenders

BLOCK_BYTES = 16 * 2**20
"""Memory that one thread spends on the scores of a block of queries."""
FARTHEST = 100.0
"""No two points of the hyperboloid have a larger distance in float32, where products of coordinates are finite."""
GATHERED_SHARE = 16
"""If fewer than one item in 16 is allowed, only the points of the allowed items are gathered and scored."""
SMALL_SHARE = 0.1
"""Most boosts come from sums below this fraction of the largest sum."""
NO_ROWS: NDArray[np.int64] = np.empty(0, np.int64)

Ranked = tuple[NDArray[np.int64], NDArray[np.float32]]
"""Rows and scores, best first."""


class Scorer:
    """Ranks points by their scores for a query.

    All four scores have the order of a plain inner product, at most with a constant per item, so one float32 matrix
    product finds the contenders. Its rounding could still swap near neighbours, so all within the error bound of rank k
    are scored again in float64, and that score decides. The ranking is therefore exact, and depends neither on threads
    nor on how queries are grouped.

    With boosts, which are never negative, the best k are among the best k by points and the boosted items.
    """

    def __init__(self, item_points: NDArray[np.float32], space: Space) -> None:
        self.item_points, self.space = np.ascontiguousarray(item_points, np.float32), space
        squared_norms = np.einsum("ij,ij->i", self.item_points, self.item_points)
        self._longest = float(np.sqrt(squared_norms.max(initial=0)))
        # -|u - v|^2 / 2 = u . v - |v|^2 / 2 - |u|^2 / 2, and the last term is the same for all items.
        self._offsets = squared_norms / 2 if space.by_distance and not space.hyperbolic else None

    @property
    def nearest(self) -> Scorer:
        """The same points ranked by their distance from a query; itself if they are."""
        # Not kept if it is this scorer: a reference to itself would keep the points of a replaced version in memory.
        return self if self.space.by_distance else self._nearest

    @cached_property
    def _nearest(self) -> Scorer:
        return Scorer(self.item_points, self.space._replace(score="distance"))

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
        if self._offsets is not None:
            scores -= self._offsets if rows is None else self._offsets[rows]
        return scores

    def exact_scores(self, query: FloatArray, rows: Rows) -> FloatArray:
        """The scores of some items, in float64 and stable for near points; without boosts."""
        return self.space.score_points(query, self.space.precise(self.item_points[rows]))

    def add_boosts(self, scores: NDArray[np.float32], queries: FloatArray, boosts: Boosts) -> None:
        """Raise `linear_scores`, in place, so that they are in the order of the boosted scores."""
        cells = boosts.places, boosts.items
        squares = euclidean.squared_norm(queries)[boosts.places]
        scores[cells] = self._linear_of(self._scores_of(scores[cells], squares) + boosts.values, squares)

    def top(
        self,
        query: FloatArray,
        k: int,
        excluded: Rows | None = None,
        allowed: Rows | None = None,
        boosts: Boosts | None = None,
    ) -> Ranked:
        """The rows and scores of the best `k` items, or of all that are left; best first, ties by row.

        boosts: those of the history; without them, points alone decide.
        """
        if allowed is not None and len(allowed) * GATHERED_SHARE < len(self.item_points):
            rows = np.setdiff1d(allowed, NO_ROWS if excluded is None else excluded).astype(np.int64)
            scores = self.linear_scores(query[None], rows)[0]
            best = contenders(scores, k, slack=self._slack(query))
            if boosts is None:
                return self.best(query, k, rows[best])
            boosts = boosts.among(rows)
            boosted = np.searchsorted(rows, boosts.items)
            return self.best(query, k, rows[self._with_boosted(query, k, best, scores, boosted, boosts)], boosts)
        return self._top_of(query, k, self.linear_scores(query[None])[0], excluded, allowed, boosts)

    def _top_of(
        self,
        query: FloatArray,
        k: int,
        scores: NDArray[np.float32],
        excluded: Rows | None,
        allowed: Rows | None,
        boosts: Boosts | None,
    ) -> Ranked:
        """`top`, from the linear scores of all items, which are overwritten."""
        rows = contenders(scores, k, excluded, allowed, self._slack(query))
        if boosts is not None:
            boosts = boosts.among(allowed)
            rows = self._with_boosted(query, k, rows, scores, boosts.items, boosts, excluded)
        return self.best(query, k, rows, boosts)

    def _with_boosted(
        self,
        query: FloatArray,
        k: int,
        best: NDArray[np.int64],
        scores: NDArray[np.float32],
        boosted: Rows,
        boosts: Boosts,
        excluded: Rows | None = None,
    ) -> NDArray[np.int64]:
        """The contenders by points alone and the boosted items that may be among the first `k`, in rising order.

        All of them are positions in the linear `scores`; `excluded` are rows, of which `best` has none.
        """
        squares, error = euclidean.squared_norm(query), 2 * self._score_error(query)
        # Each of the first k scores at least as much as rank k of either kind.
        bound = -np.inf
        if len(best) >= k:
            bound = np.partition(self._scores_of(scores[best], squares), -k)[-k]
            # Most items are too far away for their boost, which is small, and need no arccosh.
            small, any_boost = (
                self._linear_of(bound - boosts.boost_of_share(share) - error, squares) for share in (SMALL_SHARE, 1.0)
            )
            reach = np.where(boosts.sums <= SMALL_SHARE * boosts.sums.max(initial=0), small, any_boost)
            if boosts.added is not None:
                reach[boosts.added > 0] = -np.inf
            near = np.flatnonzero(scores[boosted] >= reach)
            boosted, boosts = boosted[near], boosts.where(near)
        if excluded is not None:
            left = ~contains(excluded, boosts.items)
            boosted, boosts = boosted[left], boosts.where(left)
        raised = self._scores_of(scores[boosted], squares) + boosts.values
        if len(raised) >= k:
            bound = max(bound, np.partition(raised, -k)[-k])
        return np.union1d(best, boosted[raised >= bound - error])

    def best(self, query: FloatArray, k: int, rows: NDArray[np.int64], boosts: Boosts | None = None) -> Ranked:
        """The best `k` of some items, by the exact score of each; `rows` are distinct and in rising order."""
        exact = self.exact_scores(query, rows)
        if boosts is not None and len(boosts.items):
            found = np.minimum(np.searchsorted(boosts.items, rows), len(boosts.items) - 1)
            exact += np.where(boosts.items[found] == rows, boosts.where(found).values, 0)
        order = np.argsort(-exact, kind="stable")[:k]
        return rows[order], exact[order].astype(np.float32)

    def top_many(
        self,
        queries: FloatArray,
        k: int,
        excluded: Sequence[Rows | None],
        allowed: Rows | None = None,
        threads: int | None = None,
        boosts: Callable[[int], Boosts | None] = lambda query: None,
    ) -> list[Ranked]:
        """`top` for each row of `queries`, on all cores and in bounded memory.

        excluded: an entry per query. boosts: those of the query with this number.
        """
        threads = threads or available_cores()
        size = max(1, min(BLOCK_BYTES // (4 * max(1, len(self.item_points))), -(-len(queries) // threads)))

        def rank_block(start: int) -> list[Ranked]:
            scores = self.linear_scores(queries[start : start + size])
            return [
                self._top_of(queries[query], k, row, excluded[query], allowed, boosts(query))
                for query, row in enumerate(scores, start)
            ]

        starts = range(0, len(queries), size)
        if len(starts) == 1 and threads > 1:  # BLAS may use them; limiting it takes as long as a small catalogue
            return rank_block(0)
        with thread_pool(threads) as in_threads:
            return [ranked for block in in_threads(rank_block, starts) for ranked in block]

    def _scores_of(self, linear: NDArray[np.float32], squared_norms: FloatArray) -> FloatArray:
        """Scores from linear ones, up to `_score_error`, and the squared norms of their queries."""
        values = linear.astype(np.float64)
        if not self.space.by_distance:
            return values
        if self.space.hyperbolic:
            return -np.arccosh(np.maximum(-values, 1))
        return -np.sqrt(np.maximum(squared_norms - 2 * values, 0))

    def _linear_of(self, scores: FloatArray, squared_norms: FloatArray) -> FloatArray:
        """The inverse of `_scores_of`; where a boost makes a score of a distance positive, anything that continues to
        rise."""
        if not self.space.by_distance:
            return scores
        below, above = np.minimum(scores, 0), np.maximum(scores, 0)
        if self.space.hyperbolic:
            return above - np.cosh(np.maximum(below, -FARTHEST))
        return above + (squared_norms - np.square(below)) / 2

    def _score_error(self, query: FloatArray) -> float:
        """How far `_scores_of` may be from the true score."""
        slack = self._slack(query)
        if not self.space.by_distance:
            return slack
        # arccosh(1 + x) and sqrt(x) change most where x is 0.
        return float(np.arccosh(1 + slack) if self.space.hyperbolic else np.sqrt(2 * slack))

    def _slack(self, query: FloatArray) -> float:
        """How far apart two linear scores may be and still be in the wrong order."""
        # |computed - true| <= error = D eps / 2 (|u| |v| + |v|^2 / 2), once for each of the two that are compared.
        length = float(np.linalg.norm(query)) + (self._longest if self._offsets is not None else 0.0)
        return float((self.item_points.shape[1] + 4) * np.finfo(np.float32).eps * length * self._longest)
