"""From a query to the best items: which of them are live, which are new, and whether an index finds candidates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Booleans, make_mask
from lorentzrec.geometry import FloatArray
from lorentzrec.points.index import CANDIDATES_PER_ITEM, MOST_CANDIDATES, Index, find_kind
from lorentzrec.points.memory import Boosts
from lorentzrec.points.native import Answer, Bitmap, Question, pack
from lorentzrec.points.points import History, Points
from lorentzrec.points.repeats import Repeats
from lorentzrec.points.scoring import NO_ROWS, Ranked, Scorer
from lorentzrec.points.topk import Rows
from lorentzrec.points.trend import Trend

INDEXED_SHARE = 16
"""If fewer than one item in 16 of an index is left by a filter, those that are left are ranked exactly."""


class LiveSet:
    """The items that may be recommended."""

    def __init__(self, points: Points, rows: Rows | None = None) -> None:
        """`rows`: of the live items, in rising order; None for all."""
        self._points, self._rows = points, rows
        self.count = len(points) if rows is None else len(rows)
        self.mask: Booleans | None = None if rows is None or self.count == len(points) else make_mask(rows, len(points))
        """Which items are live; None if all are."""
        self.bitmap: Bitmap | None = None if self.mask is None else pack(self.mask)

    @property
    def whole(self) -> bool:
        """Whether all items are live."""
        return self.mask is None

    @cached_property
    def _by_count(self) -> Rows:
        """The live items, those with the most events in training first, ties by row."""
        rows = np.arange(len(self._points)) if self._rows is None else self._rows
        by_count: Rows = rows[np.argsort(-self._points.item_counts[rows], kind="stable")]
        return by_count

    @cached_property
    def popular(self) -> Rows:
        """The live items, the most popular ones first: by customers in the last days if there is a trend, then by
        training events, ties by row."""
        trend, rows = self._points.trend, self._by_count
        if trend is None:
            return rows
        recent = trend.recent[rows]
        bought = np.flatnonzero(recent)
        first = rows[bought[_argsort_falling(recent[bought])]]
        return np.concatenate([first, rows[recent == 0]])

    def with_points(self, points: Points) -> LiveSet:
        """The same items of points that differ in their trend. This is cheap."""
        found = copy(self)
        found.__dict__.pop("popular", None)
        found.__dict__["_by_count"] = self._by_count
        found._points = points
        return found


def _argsort_falling(numbers: NDArray[np.float32]) -> NDArray[np.int64]:
    """The order of whole numbers, the largest first, ties by index."""
    behind = numbers.max(initial=0) - numbers
    # Numbers of 16 bits are sorted by their digits, in a fraction of the time.
    small = behind.max(initial=0) < 2**16
    return np.argsort(behind.astype(np.uint16) if small else behind, kind="stable")


class Variant(NamedTuple):
    """What boosts scores: another weight of the memory, and other repeats."""

    memory_weight: float
    """0: no memory."""
    repeats: Repeats | None


class NewPoints(NamedTuple):
    """The points of new items, whose rows follow those of the other items."""

    points: Points
    live: Booleans
    """Which of them may be recommended."""
    by_events: int = 0
    """How many of them are there by events and not by PUT: these are the last."""


_NOTHING = Answer(NO_ROWS, np.empty(0, np.float32), np.empty(0))


class _NewScorer(NamedTuple):
    """New items of one origin that may be recommended."""

    rows: NDArray[np.int64]
    scorer: Scorer

    def top(self, query: FloatArray | None, k: int, excluded: Rows, allowed: Rows | None) -> Ranked:
        never = np.isin(self.rows, excluded)
        if allowed is not None:
            never |= ~np.isin(self.rows, allowed)
        if query is None:
            rows = self.rows[~never]
            return rows, np.zeros(len(rows), np.float32)
        positions, scores = self.scorer.top(query, k, np.flatnonzero(never), raised=True)
        return self.rows[positions], scores


class Ranker:
    """Ranks items for histories and other queries. It has points, and may have an index, a live set and new points.

    Candidates come from the index where that is faster than scoring all items. It is not where a filter leaves few
    items, which are then ranked exactly; where very many are requested; and for the nearest items of a flat model of
    inner products, whose lists have another order. All items are also scored if the index finds too few.
    """

    def __init__(
        self,
        points: Points,
        *,
        index: Index | None = None,
        live: LiveSet | None = None,
        new: NewPoints | None = None,
    ) -> None:
        offsets = points.scorer.item_offsets
        self.points, self.index, self.new = points, None if index is None else index.raise_by(offsets), new
        self.live = LiveSet(points) if live is None else live
        self.memory = points.memory if points.memory is not None and points.memory.weight > 0 else None
        self.repeats = points.repeats
        self._scorer = points.scorer if new is None else points.scorer.with_new_histories(new.points.history_points)
        self._new: tuple[_NewScorer, ...] = ()
        if new is not None:
            eligible, first = np.flatnonzero(new.live), len(new.live) - new.by_events
            self._new = tuple(
                _NewScorer(len(points) + part, new.points.take(part).scorer)
                for part in (eligible[eligible < first], eligible[eligible >= first])
            )

    @property
    def whole(self) -> bool:
        """Whether all items are live, none is new, and no index is used."""
        return self.index is None and self.new is None and self.live.whole

    def with_trend(self, trend: Trend | None) -> Ranker:
        """The same with another trend, ready for use: it takes a few nanoseconds per item."""
        points = self.points.with_trend(trend)
        found = Ranker(points, index=self.index, live=self.live.with_points(points), new=self.new)
        _ = found.live.popular, found._scorer.catalogue  # not by the first request
        return found

    def with_new(self, new: NewPoints) -> Ranker:
        """The same with other new items. This is cheap."""
        return Ranker(self.points, index=self.index, live=self.live, new=new)

    def precise_items(self, rows: Rows) -> FloatArray:
        """The points of some items, new ones included, see `Space.precise`."""
        if self.new is None:
            return self.points.precise_items(rows)
        return self.points.space.precise(self._gather(self.points.item_points, self.new.points.item_points, rows))

    def precise_histories(self, rows: Rows) -> FloatArray:
        """What histories of some items, new ones included, are made of, see `Space.precise`."""
        if self.new is None:
            return self.points.precise_histories(rows)
        return self.points.space.precise(self._gather(self.points.history_points, self.new.points.history_points, rows))

    def _gather(self, known: NDArray[np.float32], new: NDArray[np.float32], rows: Rows) -> NDArray[np.float32]:
        found = known[np.minimum(rows, len(known) - 1)]
        later = rows >= len(known)
        found[later] = new[rows[later] - len(known)]
        return found

    def query(
        self, history: Rows, event_weights: NDArray[Any] | None = None, order_ages: NDArray[Any] | None = None
    ) -> FloatArray:
        """`Points.query`, also for histories with new items."""
        weights = self.points.space.recency_weights(len(history), event_weights, order_ages)
        return self.points.space.midpoint(self.precise_histories(history), weights)

    def boosts(self, history: History | None) -> Boosts | None:
        """What memory and repeats add to the scores of items for a history; None without both, or a history of their
        items.

        Rows beyond those of the points are new items, of which memory and repeats have nothing.
        """
        if history is None or (self.memory is None and self.repeats is None):
            return None
        history = history.liked
        if self.new is not None:
            history = history.where(history.items < len(self.points))
        if not len(history.items):
            return None
        offsets = np.array([0, len(history.items)])
        memory = None if self.memory is None else self.memory.boosts(history.items, offsets, history.weights)
        if self.repeats is None:
            return memory
        repeats = self.repeats.boosts(history.items, offsets, history.weights, history.times)
        return repeats if memory is None else memory.with_repeats(repeats, len(self.points))

    @property
    def variant(self) -> Variant:
        """What this ranker has."""
        return Variant(0.0 if self.memory is None else self.memory.weight, self.repeats)

    def score_each(
        self,
        variants: Iterable[Variant],
        queries: FloatArray,
        histories: Rows,
        offsets: NDArray[np.int64],
        weights: NDArray[Any] | None = None,
        times: NDArray[Any] | None = None,
    ) -> Iterator[NDArray[np.float32]]:
        """For each of the variants, numbers in the order of the scores of all items for each query: what evaluation
        ranks by. The caller may overwrite them.

        histories, offsets, weights, times: of the queries, for boosts; see `Points.queries`.
        Scores by points, and what the memory sums up, are computed once for all variants.
        """
        scorer = self.points.scorer
        plain = scorer.ordered_scores(queries)
        remembered, memory_weight, raised = None, 0.0, plain
        for variant in variants:
            if variant.memory_weight > 0 and remembered is None:
                assert self.points.memory is not None
                remembered = self.points.memory.boosts(histories, offsets, weights)
            if variant.memory_weight != memory_weight:
                memory_weight, raised = variant.memory_weight, plain
                if remembered is not None and memory_weight > 0:
                    raised = plain.copy()
                    scorer.add_boosts(raised, queries, remembered._replace(weight=memory_weight))
            scores = raised.copy()
            if variant.repeats is not None:
                boosts = variant.repeats.boosts(histories, offsets, weights, times)
                if remembered is not None and memory_weight > 0:
                    boosts = remembered._replace(weight=memory_weight).at(boosts, len(self.points))
                cells = boosts.history_indices, boosts.items
                scores[cells] = plain[cells]
                scorer.add_boosts(scores, queries, boosts)
            yield scores

    def score_all(self, queries: FloatArray, *history: Any) -> NDArray[np.float32]:
        """`score_each` with what this ranker has."""
        return next(self.score_each([self.variant], queries, *history))

    def top(
        self,
        query: FloatArray | None,
        k: int,
        excluded: Rows = NO_ROWS,
        allowed: Rows | None = None,
        history: History | None = None,
        *,
        event_limit: int = 0,
    ) -> Ranked:
        """The rows and scores of the best `k` items, or of all that are left; best first, ties by row.

        query: None for the midpoint of the history. history: what memory and repeats add boosts for. event_limit: the
        largest number of new items by events among them.
        """
        scorer = self._scorer
        asked = Question(
            k,
            None if query is None else np.ascontiguousarray(query, np.float64),
            excluded=np.ascontiguousarray(excluded, np.int64) if len(excluded) else None,
            raised=True,
        )
        asked = self.add_history(asked, history)
        eligible, left = self.live.bitmap, self.live.count
        if allowed is not None:
            mask = make_mask(self._known(allowed), len(self.points))
            eligible = pack(mask) if eligible is None else pack(mask) & eligible
            left = int(np.bitwise_count(eligible).sum())
        asked = asked._replace(eligible=eligible)
        index, found = self.index, None
        pays = index is not None and k <= MOST_CANDIDATES and left * INDEXED_SHARE >= index.count
        if index is not None and pays and index.kind is find_kind(scorer.space):
            probes = index.lists_for(k, left / index.count)
            found = scorer.rank(asked._replace(lists=index.lists, probes=probes, wanted=CANDIDATES_PER_ITEM * k))
        rows, scores, point = found or scorer.rank(asked) or _NOTHING
        if not self._new:
            return rows, scores
        new = self.top_new(point, k, event_limit, excluded, allowed)
        rows, scores = np.concatenate([rows, new[0]]), np.concatenate([scores, new[1]])
        order = np.argsort(-scores, kind="stable")[:k]
        return rows[order], scores[order]

    def add_history(self, asked: Question, history: History | None) -> Question:
        """The question with the midpoint of a history, if it has no query, and with what boosts items."""
        if history is None:
            return asked
        if asked.query is None:
            weights = self.points.space.recency_weights(len(history.items), history.weights, history.order_ages)
            items = np.ascontiguousarray(history.items, np.int64)
            if len(history.disliked):
                query = self.query(*history.for_query)
                asked = asked._replace(query=np.ascontiguousarray(query, np.float64))
            else:
                asked = asked._replace(history=items, weights=np.ascontiguousarray(weights, np.float64))
        history = history.liked
        if self.memory is None and self.repeats is None:
            return asked
        if self.new is not None:
            history = history.where(history.items < len(self.points))
        if self.memory is not None:
            known = np.ascontiguousarray(history.items, np.int64)
            shares = self.memory.item_weights(np.arange(len(known))[::-1], history.weights)
            asked = asked._replace(known=known, shares=np.ascontiguousarray(shares, np.float64))
        if self.repeats is not None and len(history.items):
            offsets = np.array([0, len(history.items)])
            repeats = self.repeats.boosts(history.items, offsets, history.weights, history.times)
            items, values = repeats.items.astype(np.int64, copy=False), np.ascontiguousarray(repeats.values, np.float64)
            asked = asked._replace(repeated=items, repeated_boosts=values)
        return asked

    def top_many(
        self,
        queries: FloatArray,
        k: int,
        excluded: Sequence[Rows | None],
        allowed: Rows | None = None,
        threads: int | None = None,
        histories: Sequence[History | None] | None = None,
        midpoints: Sequence[bool] | None = None,
    ) -> list[Ranked]:
        """`top` for each row of `queries`, among all items and without an index, on all cores and in bounded memory.

        `excluded`, `histories` and `midpoints` have one entry per query. midpoints: which queries are the midpoint of
        their history, which is then computed as in `top`.
        """
        scorer = self.points.scorer
        eligible = None if allowed is None else pack(make_mask(allowed, len(self.points)))

        def ask(number: int) -> Question:
            out = excluded[number]
            asked = Question(k, eligible=eligible, raised=True)
            if out is not None and len(out):
                asked = asked._replace(excluded=np.ascontiguousarray(out, np.int64))
            history = None if histories is None else histories[number]
            if midpoints is None or not midpoints[number]:
                asked = asked._replace(query=np.ascontiguousarray(queries[number], np.float64))
            return self.add_history(asked, history)

        return [(found.rows, found.scores) for found in scorer.rank_many(queries, ask, threads)]

    def top_new(
        self,
        query: FloatArray | None,
        k: int,
        event_limit: int,
        excluded: Rows,
        allowed: Rows | None,
    ) -> Ranked:
        """The best `k` new items by PUT and the best `event_limit` by events that may be recommended, best first;
        without a query all of them, with score 0."""
        if not self._new:
            return NO_ROWS, np.empty(0, np.float32)
        if allowed is not None:  # which may be most of the items
            allowed = allowed[allowed >= len(self.points)]
        limits = zip(self._new, (k, event_limit), strict=True)
        found = [new.top(query, limit, excluded, allowed) for new, limit in limits]
        rows, scores = (np.concatenate(column) for column in zip(*found, strict=True))
        order = np.argsort(-scores, kind="stable")
        return rows[order], scores[order]

    def popular(self, k: int, excluded: Rows, allowed: Rows | None) -> Ranked:
        """The `k` most popular live items, ties by row; scored by their customers in the last days if there is a trend,
        and else by their events in training."""
        rows, trend = self.live.popular, self.points.trend
        counts = self.points.item_counts if trend is None else trend.recent
        if allowed is not None:
            rows = rows[make_mask(self._known(allowed), len(counts))[rows]]
        rows = rows[: k + len(excluded)]
        best = rows[~np.isin(rows, excluded)][:k].astype(np.int64)
        return best, counts[best].astype(np.float32)

    def live_rows(self, *, new: bool) -> Rows:
        """The rows of the live items, with or without new ones."""
        return np.concatenate([self.live.popular, *(part.rows for part in self._new)]) if new else self.live.popular

    def _known(self, rows: Rows) -> Rows:
        """Without new items."""
        return rows if self.new is None else rows[rows < len(self.points)]
