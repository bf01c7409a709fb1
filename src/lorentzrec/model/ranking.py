"""From a history to a query to the best items: the one place that ranks, for the model and for the web service."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lorentzrec import topk
from lorentzrec.counting import Count
from lorentzrec.data.arrays import spans_within
from lorentzrec.geometry import FloatArray, euclidean, hyperboloid
from lorentzrec.geometry.hyperboloid import squared_lorentzian_distance
from lorentzrec.geometry.midpoint import einstein_midpoint, normalise_sum
from lorentzrec.html import html_table
from lorentzrec.memory import Boosts, Memory, contains
from lorentzrec.model.fallbacks import Fallback, FallbackKind, render_fallbacks
from lorentzrec.tabular import Tabular
from lorentzrec.threads import available_cores, thread_pool
from lorentzrec.topk import contenders

if TYPE_CHECKING:
    import polars as pl

    from lorentzrec.data.vocabulary import Id
    from lorentzrec.model.reasons import Reason

Rows: TypeAlias = topk.Rows

BLOCK_BYTES = 16 * 2**20
"""Most memory that one thread spends on the scores of a block of queries."""

NO_ROWS: NDArray[np.int64] = np.empty(0, np.int64)

FARTHEST = 100.0
"""No two points of the hyperboloid have a larger distance in float32, where products of coordinates are finite."""

GATHERED_SHARE = 16
"""If fewer than one item in 16 is allowed, only the points of the allowed items are gathered and scored."""
SMALL_SHARE = 0.1
"""Most boosts are of sums below this share of the largest."""


@dataclass(frozen=True, eq=False)
class Recommendations(Tabular):
    """Item ids, best first, with their scores.

    Where they are not simply the best items for the query, `fallbacks` has the reasons, `fallback_kinds` their kinds,
    and `fallback` their text: words with a reason each, joined by "; ".
    """

    ids: list[Id]
    scores: NDArray[np.float32]
    fallbacks: tuple[Fallback, ...] = ()
    reasons: tuple[tuple[Reason, ...], ...] | None = None
    """For each item, the items of the history that contribute most to it; None unless requested."""

    @property
    def fallback(self) -> str | None:
        """`fallbacks` as text; None if there are none."""
        return render_fallbacks(self.fallbacks)

    @property
    def fallback_kinds(self) -> tuple[FallbackKind, ...]:
        return tuple(fallback.kind for fallback in self.fallbacks)

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[tuple[Id, float]]:
        return zip(self.ids, self.scores.tolist(), strict=True)

    def __getitem__(self, place: int) -> tuple[Id, float]:
        return self.ids[place], float(self.scores[place])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Recommendations):
            return NotImplemented
        same = (self.ids, self.fallbacks, self.reasons) == (other.ids, other.fallbacks, other.reasons)
        return same and np.array_equal(self.scores, other.scores)

    __hash__ = None  # type: ignore[assignment]  # lists and arrays have no hash

    def to_frame(self) -> pl.DataFrame:
        """A Polars frame: rank (from 1), item, score, and with reasons a list in the column because."""
        return RecommendationBatch([self]).to_frame().drop("query")

    def _repr_html_(self) -> str:
        """The items as a table, in notebooks."""
        rows = [(rank, item, f"{score:.4f}") for rank, (item, score) in enumerate(self, 1)]
        title = f"{Count(len(self)):item|items}"
        return html_table(title, ("rank", "item", "score"), rows, [self.fallback] if self.fallback else [])


class RecommendationBatch(list[Recommendations], Tabular):
    """What `recommend_many` returns: a list with the recommendations of each query, in the order of the queries.

    As a table: `to_frame()`, `to_pandas()`, `to_csv()`, `write_parquet("recommendations.parquet")`.
    """

    def __init__(
        self, results: Iterable[Recommendations], users: list[Id] | None = None, queries: Sequence[Id] | None = None
    ) -> None:
        """`users`: their ids, if the queries were users. `queries`: names for other queries; numbers by default."""
        super().__init__(results)
        self.users = users
        self._queries = range(len(self)) if queries is None else queries

    def to_frame(self) -> pl.DataFrame:
        """A Polars frame with a row per recommended item: user or query, rank, item, score.

        Queries are numbered from 0, unless they are items. With reasons there is also the column because.
        """
        import polars as pl

        lengths = [len(one) for one in self]
        queries = self._queries if self.users is None else self.users
        ranks = [rank for length in lengths for rank in range(1, length + 1)]
        frame = pl.DataFrame(
            {
                "query" if self.users is None else "user": [
                    query for query, length in zip(queries, lengths, strict=True) for _ in range(length)
                ],
                "rank": pl.Series(ranks, dtype=pl.Int64),
                "item": [item for one in self for item in one.ids],
                "score": np.concatenate([one.scores for one in self] or [np.empty(0, np.float32)]),
            }
        )
        if all(one.reasons is None for one in self):
            return frame
        lists = [[reason._asdict() for reason in reasons] for one in self for reasons in one.reasons or ()]
        kind = pl.List(pl.Struct({"item": frame["item"].dtype, "share": pl.Float64, "kind": pl.String}))
        return frame.with_columns(pl.Series("because", lists, dtype=kind))


class History(NamedTuple):
    """What a customer has done, as rows."""

    items: Rows
    """Oldest first."""
    weights: NDArray[Any] | None = None


class Ranker:
    """Ranks a catalogue of item points for histories and other queries.

    A score is, by `geometry` and `score`: hyperboloid inner <u, v>, hyperboloid distance -d(u, v), Euclidean inner
    u . v, Euclidean distance -|u - v|. All four have the order of a plain inner product, at most with a constant per
    item, so one float32 matrix product finds the contenders. Its rounding could still swap near neighbours, so all
    within the error bound of place k are scored again in float64, and that score decides. The ranking is therefore
    exact, and depends neither on threads nor on how queries are grouped.

    With a memory, the score of an item rises by its boost for the history, which is never negative: the best k are
    among the best k by points and the boosted items.
    """

    def __init__(
        self,
        item_points: NDArray[np.float32],
        history_points: NDArray[np.float32] | None = None,
        *,
        geometry: Literal["hyperboloid", "euclidean"],
        score: Literal["inner", "distance"],
        recency: float = 1.0,
        memory: Memory | None = None,
    ) -> None:
        """`history_points`: what histories are made of, if not the `item_points` themselves."""
        self.memory = memory if memory is not None and memory.weight > 0 else None
        self.item_points = np.ascontiguousarray(item_points, np.float32)
        self.history_points = self.item_points if history_points is None else history_points
        self.geometry, self.score, self.recency = geometry, score, recency
        self.hyperbolic, self.by_distance = geometry == "hyperboloid", score == "distance"
        squared_norms = np.einsum("ij,ij->i", self.item_points, self.item_points)
        self._longest = float(np.sqrt(squared_norms.max(initial=0)))
        # -|u - v|^2 / 2 = u . v - |v|^2 / 2 - |u|^2 / 2, and the last term is the same for all items.
        self._offsets = squared_norms / 2 if self.by_distance and not self.hyperbolic else None

    def nearest(self) -> Self:
        """The same with items ranked by their distance from a query; itself if they are."""
        if self.by_distance:
            return self
        nearest = copy(self)
        Ranker.__init__(nearest, self.item_points, geometry=self.geometry, score="distance")
        return nearest

    @cached_property
    def centre(self) -> FloatArray:
        """The midpoint of all items."""
        total = self.item_points.sum(axis=0, dtype=np.float64)
        return normalise_sum(total) if self.hyperbolic else total / len(self.item_points)

    def precise(self, points: NDArray[np.float32]) -> FloatArray:
        """See `hyperboloid.precise`."""
        return hyperboloid.precise(points) if self.hyperbolic else euclidean.precise(points)

    def precise_items(self, rows: Rows) -> FloatArray:
        """The points of some items, `precise`."""
        return self.precise(self.item_points[rows])

    def precise_histories(self, rows: Rows) -> FloatArray:
        """What histories of some items are made of, `precise`."""
        return self.precise(self.history_points[rows])

    def query(self, history: Rows, event_weights: NDArray[Any] | None = None) -> FloatArray:
        """The query point of a history (rows, oldest first, at least one): its midpoint, weighted by recency."""
        weights = recency_weights(len(history), self.recency, event_weights)
        return self.midpoint(self.precise_histories(history), weights)

    def midpoint(self, points: FloatArray, weights: FloatArray | None = None) -> FloatArray:
        """Hyperboloid: the Einstein midpoint, S / sqrt(-<S, S>) with S = sum_i w_i x_i. Euclidean: the mean."""
        return einstein_midpoint(points, weights) if self.hyperbolic else euclidean.midpoint(points, weights)

    def queries(
        self, histories: Rows, offsets: NDArray[np.int64], event_weights: NDArray[Any] | None = None
    ) -> FloatArray:
        """`query` for each of many histories, none empty: the g-th is `histories[offsets[g]:offsets[g + 1]]`."""
        found = np.empty((len(offsets) - 1, self.history_points.shape[1]))
        # Some histories at a time, because their points are copied in float64.
        for first, last in spans_within(np.diff(offsets), BLOCK_BYTES // (8 * found.shape[1])):
            start, end = offsets[first], offsets[last]
            steps_back = np.repeat(offsets[first + 1 : last + 1], np.diff(offsets[first : last + 1])) - 1
            weights = np.power(self.recency, (steps_back - np.arange(start, end)).astype(np.float64))
            if event_weights is not None:
                weights *= event_weights[start:end]
            groups = offsets[first:last] - start
            points = self.precise(self.history_points[histories[start:end]])
            sums = np.add.reduceat(weights[:, None] * points, groups, axis=0)
            totals = np.add.reduceat(weights, groups)[:, None]
            found[first:last] = normalise_sum(sums) if self.hyperbolic else sums / totals
        return found

    def linear_scores(self, queries: FloatArray, rows: Rows | slice | None = None) -> NDArray[np.float32]:
        """Numbers in the order of the scores, up to rounding, of all items for each row of `queries`; one product.

        With `rows`, of these items only.
        """
        signed = queries.astype(np.float32)
        if self.hyperbolic:
            signed[:, 0] *= -1
        points = self.item_points if rows is None else self.item_points[rows]
        # One query is not for BLAS: einsum reads a large catalogue twice as fast, and has no threads to fight with.
        scores = np.einsum("ij,j->i", points, signed[0])[None] if len(signed) == 1 else signed @ points.T
        if self._offsets is not None:
            scores -= self._offsets if rows is None else self._offsets[rows]
        return scores

    def exact_scores(self, query: FloatArray, rows: Rows) -> FloatArray:
        """The scores of some items, in float64 and stable for near points; without boosts."""
        return self.score_points(query, self.precise_items(rows))

    def score_points(self, query: FloatArray, points: FloatArray) -> FloatArray:
        """The scores of items with these points."""
        if self.by_distance:
            distance = hyperboloid.distance if self.hyperbolic else euclidean.distance
            return -distance(query, points)
        # <u, v> = -1 - q / 2, and q keeps the order of near points, whose <u, v> are all -1 within rounding.
        return -1 - squared_lorentzian_distance(query, points) / 2 if self.hyperbolic else euclidean.dot(query, points)

    def boosts(self, history: History | None) -> Boosts | None:
        """What the memory adds to the scores of items for a history; None without a memory, or a history of its items.

        Rows beyond those of the memory are new items, of which it has nothing.
        """
        if self.memory is None or history is None:
            return None
        held = history.items < self.memory.item_count
        items, weights = history.items[held], None if history.weights is None else history.weights[held]
        return self.memory.boosts(items, np.array([0, len(items)]), weights) if len(items) else None

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
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
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
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
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

        All of them are places in the linear `scores`; `excluded` are rows, of which `best` has none.
        """
        squares, error = euclidean.squared_norm(query), 2 * self._score_error(query)
        # Each of the first k scores at least as much as place k of either kind.
        bound = -np.inf
        if len(best) >= k:
            bound = np.partition(self._scores_of(scores[best], squares), -k)[-k]
            # Most items are too far away for their boost, which is small, and need no arccosh.
            small, any_boost = (
                self._linear_of(bound - boosts.boost_of_share(share) - error, squares) for share in (SMALL_SHARE, 1.0)
            )
            reach = np.where(boosts.sums <= SMALL_SHARE * boosts.sums.max(initial=0), small, any_boost)
            near = np.flatnonzero(scores[boosted] >= reach)
            boosted, boosts = boosted[near], boosts.where(near)
        if excluded is not None:
            left = ~contains(excluded, boosts.items)
            boosted, boosts = boosted[left], boosts.where(left)
        raised = self._scores_of(scores[boosted], squares) + boosts.values
        if len(raised) >= k:
            bound = max(bound, np.partition(raised, -k)[-k])
        return np.union1d(best, boosted[raised >= bound - error])

    def best(
        self, query: FloatArray, k: int, rows: NDArray[np.int64], boosts: Boosts | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
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
        histories: Sequence[History | None] | None = None,
    ) -> list[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """`top` for each row of `queries`, on all cores and in bounded memory.

        `excluded` and `histories` have one entry per query.
        """
        histories = [None] * len(queries) if histories is None else histories
        threads = threads or available_cores()
        size = max(1, min(BLOCK_BYTES // (4 * max(1, len(self.item_points))), -(-len(queries) // threads)))

        def rank_block(start: int) -> list[tuple[NDArray[np.int64], NDArray[np.float32]]]:
            block = slice(start, start + size)
            scores = self.linear_scores(queries[block])
            return [
                self._top_of(query, k, row, out, allowed, self.boosts(history))
                for query, row, out, history in zip(
                    queries[block], scores, excluded[block], histories[block], strict=True
                )
            ]

        starts = range(0, len(queries), size)
        if len(starts) == 1 and threads > 1:  # BLAS may use them; limiting it takes as long as a small catalogue
            return rank_block(0)
        with thread_pool(threads) as in_threads:
            return [ranked for block in in_threads(rank_block, starts) for ranked in block]

    def _scores_of(self, linear: NDArray[np.float32], squared_norms: FloatArray) -> FloatArray:
        """Scores from linear ones, up to `_score_error`, and the squared norms of their queries."""
        values = linear.astype(np.float64)
        if not self.by_distance:
            return values
        if self.hyperbolic:
            return -np.arccosh(np.maximum(-values, 1))
        return -np.sqrt(np.maximum(squared_norms - 2 * values, 0))

    def _linear_of(self, scores: FloatArray, squared_norms: FloatArray) -> FloatArray:
        """The inverse of `_scores_of`; where a boost makes a score of a distance positive, anything that continues to
        rise."""
        if not self.by_distance:
            return scores
        below, above = np.minimum(scores, 0), np.maximum(scores, 0)
        if self.hyperbolic:
            return above - np.cosh(np.maximum(below, -FARTHEST))
        return above + (squared_norms - np.square(below)) / 2

    def _score_error(self, query: FloatArray) -> float:
        """How far `_scores_of` may be from the true score."""
        slack = self._slack(query)
        if not self.by_distance:
            return slack
        # arccosh(1 + x) and sqrt(x) change most where x is 0.
        return float(np.arccosh(1 + slack) if self.hyperbolic else np.sqrt(2 * slack))

    def _slack(self, query: FloatArray) -> float:
        """How far apart two linear scores may be and still be in the wrong order."""
        # |computed - true| <= error = D eps / 2 (|u| |v| + |v|^2 / 2), once for each of the two that are compared.
        length = float(np.linalg.norm(query)) + (self._longest if self._offsets is not None else 0.0)
        return float((self.item_points.shape[1] + 4) * np.finfo(np.float32).eps * length * self._longest)


def recency_weights(count: int, recency: float, event_weights: NDArray[Any] | None = None) -> FloatArray:
    """Weights of a history, oldest first: event weight * recency^(steps back), and the newest is 0 steps back."""
    weights = np.power(recency, np.arange(count - 1, -1, -1, dtype=np.float64))
    return weights if event_weights is None else weights * event_weights
