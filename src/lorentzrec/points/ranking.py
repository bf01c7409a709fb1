"""From a query to the best items: which of them are live, which are new, and whether an index finds candidates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Booleans, mask_of
from lorentzrec.data.vocabulary import UNKNOWN
from lorentzrec.geometry import FloatArray
from lorentzrec.points.index import FEW_EXCLUDED, MOST_BOOSTED, MOST_CANDIDATES, Index, find_kind
from lorentzrec.points.memory import Boosts
from lorentzrec.points.points import History, Points
from lorentzrec.points.scoring import GATHERED_SHARE, NO_ROWS, Ranked, Scorer
from lorentzrec.points.topk import Rows

FEW_REMOVED = 50
"""With an index: up to this many items that are not live are excluded like a history, which needs no bitmap."""
REMOVED_SHARE = 16
"""Without an index: up to one item in 16 that is not live is scored and excluded, which needs no copy of the others."""


class LiveSet:
    """The items that may be recommended.

    Where not all items are live, the points of those that are get packed once, so that nothing else is ever scored:
    unless there is an index. If only a few items are not live, nothing is packed: these are excluded from every
    ranking.
    """

    def __init__(self, points: Points, rows: Rows | None = None, *, indexed: bool = False) -> None:
        """`rows`: of the live items, in rising order; None for all. `indexed`: whether an index finds candidates."""
        self.removed: Rows = NO_ROWS
        """Items to exclude."""
        self.packed: Rows | None = None
        """The row of each packed point; None if nothing is packed."""
        self.mask: Booleans | None = None
        """Which items are live, for an index; None if all are, but for those in `removed`."""
        self.scorer = points.scorer
        self._counts, self._rows, count = points.item_counts, rows, len(points)
        if rows is None:
            return
        if count - len(rows) <= (FEW_REMOVED if indexed else count // REMOVED_SHARE):
            self.removed = np.delete(np.arange(count), rows)
        elif indexed:
            self.mask = mask_of(rows, count)
        else:
            self.packed, self._positions = rows, np.full(count, UNKNOWN, np.int64)
            self._positions[rows] = np.arange(len(rows))
            self.scorer = Scorer(points.item_points[rows], points.space)

    @property
    def whole(self) -> bool:
        """Whether all items are live."""
        return self._rows is None

    @cached_property
    def popular(self) -> Rows:
        """The live items, those with the most training events first, ties by row."""
        rows = np.arange(len(self._counts)) if self._rows is None else self._rows
        popular: Rows = rows[np.argsort(-self._counts[rows], kind="stable")]
        return popular

    def find_positions(self, rows: Rows) -> Rows:
        """Rows as positions in the points of the `scorer`, without items that are not there."""
        if self.packed is None:
            return rows
        positions = self._positions[rows]
        known: Rows = positions[positions != UNKNOWN]
        return known

    def move_boosts(self, boosts: Boosts) -> Boosts:
        """Boosts of rows as boosts of positions in the points of the `scorer`."""
        if self.packed is None:
            return boosts
        positions = self._positions[boosts.items]
        return boosts._replace(items=positions).where(positions != UNKNOWN)


class NewPoints(NamedTuple):
    """The points of new items, whose rows follow those of the other items."""

    points: Points
    live: Booleans
    """Which of them may be recommended."""
    by_events: int = 0
    """How many of them are there by events and not by PUT: these are the last."""


class _NewScorer(NamedTuple):
    """New items of one origin that may be recommended."""

    rows: NDArray[np.int64]
    scorer: Scorer

    def top(self, query: FloatArray | None, k: int, excluded: Rows, allowed: Rows | None, by_distance: bool) -> Ranked:
        never = np.isin(self.rows, excluded)
        if allowed is not None:
            never |= ~np.isin(self.rows, allowed)
        if query is None:
            rows = self.rows[~never]
            return rows, np.zeros(len(rows), np.float32)
        scorer = self.scorer.nearest if by_distance else self.scorer
        positions, scores = scorer.top(query, k, np.flatnonzero(never))
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
        self.points, self.index, self.new = points, index, new
        self.live = LiveSet(points) if live is None else live
        self.memory = points.memory if points.memory is not None and points.memory.weight > 0 else None
        self.repeats = points.repeats
        self._new: tuple[_NewScorer, ...] = ()
        if new is not None:
            eligible, first = np.flatnonzero(new.live), len(new.live) - new.by_events
            self._new = tuple(
                _NewScorer(len(points) + part, Scorer(new.points.item_points[part], points.space))
                for part in (eligible[eligible < first], eligible[eligible >= first])
            )

    @property
    def whole(self) -> bool:
        """Whether all items are live, none is new, and no index is used."""
        return self.index is None and self.new is None and self.live.whole

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
        if self.new is not None:
            history = history.where(history.items < len(self.points))
        if not len(history.items):
            return None
        return self._boosts(history.items, np.array([0, len(history.items)]), history.weights, history.times)

    def _boosts(
        self,
        histories: Rows,
        offsets: NDArray[np.int64],
        weights: NDArray[Any] | None,
        times: NDArray[Any] | None,
    ) -> Boosts | None:
        """The boosts of many histories; see `Memory.boosts` and `Repeats.boosts`."""
        memory = None if self.memory is None else self.memory.boosts(histories, offsets, weights)
        if self.repeats is None:
            return memory
        repeats = self.repeats.boosts(histories, offsets, weights, times)
        return repeats if memory is None else memory.with_repeats(repeats, len(self.points))

    def score_all(
        self,
        queries: FloatArray,
        histories: Rows,
        offsets: NDArray[np.int64],
        weights: NDArray[Any] | None = None,
        times: NDArray[Any] | None = None,
    ) -> NDArray[np.float32]:
        """Numbers in the order of the scores of all items for each query: what evaluation ranks by.

        histories, offsets, weights, times: of the queries, for boosts; see `Points.queries`.
        """
        scores = self.points.scorer.linear_scores(queries)
        boosts = self._boosts(histories, offsets, weights, times)
        if boosts is not None:
            self.points.scorer.add_boosts(scores, queries, boosts)
        return scores

    def top(
        self,
        query: FloatArray,
        k: int,
        excluded: Rows = NO_ROWS,
        allowed: Rows | None = None,
        history: History | None = None,
        *,
        by_distance: bool = False,
        event_limit: int = 0,
    ) -> Ranked:
        """The rows and scores of the best `k` items, or of all that are left; best first, ties by row.

        history: what memory and repeats add boosts for. by_distance: rank by the distance from the query, without
        boosts. event_limit: the largest number of new items by events among them.
        """
        live, boosts = self.live, None if by_distance else self.boosts(history)
        scorer = live.scorer.nearest if by_distance else live.scorer
        never, among = self._known(excluded), None if allowed is None else self._known(allowed)
        if len(live.removed):
            never = np.concatenate([never, live.removed])
        if self.index is None:
            among = None if among is None else live.find_positions(among)
            moved = None if boosts is None else live.move_boosts(boosts)
            rows, scores = scorer.top(query, k, live.find_positions(never), among, moved)
            if live.packed is not None:
                rows = live.packed[rows].astype(np.int64)
        else:
            rows, scores = self._search(self.index, scorer, query, k, never, among, boosts)
        if not self._new:
            return rows, scores
        new = self.top_new(query, k, event_limit, excluded, allowed, by_distance=by_distance)
        rows, scores = np.concatenate([rows, new[0]]), np.concatenate([scores, new[1]])
        order = np.argsort(-scores, kind="stable")[:k]
        return rows[order], scores[order]

    def _search(
        self,
        index: Index,
        scorer: Scorer,
        query: FloatArray,
        k: int,
        excluded: Rows,
        allowed: Rows | None,
        boosts: Boosts | None,
    ) -> Ranked:
        """`top` among candidates of the index, or among all items where that is faster."""
        count, permitted, few_excluded = len(self.points), self.live.mask, excluded
        if allowed is not None:
            permitted = mask_of(allowed, count)
            if self.live.mask is not None:
                permitted &= self.live.mask
        if len(excluded) > FEW_EXCLUDED:
            permitted = np.ones(count, bool) if permitted is None else permitted.copy()
            permitted[excluded] = False
            few_excluded = excluded[:0]
        left = count if permitted is None else int(np.count_nonzero(permitted))
        if index.kind is find_kind(scorer.space) and k <= MOST_CANDIDATES and left * GATHERED_SHARE >= count:
            rows = index.candidates(query, k, permitted, len(few_excluded))
            rows = rows[~np.isin(rows, few_excluded)]
            if len(rows) >= k:
                if boosts is not None:
                    boosts = boosts.among(None, excluded).strongest(MOST_BOOSTED)
                    boosts = boosts if permitted is None else boosts.where(permitted[boosts.items])
                    rows = np.union1d(rows, boosts.items)
                return scorer.best(query, k, rows, boosts)
        return scorer.top(query, k, few_excluded, None if permitted is None else np.flatnonzero(permitted), boosts)

    def top_many(
        self,
        queries: FloatArray,
        k: int,
        excluded: Sequence[Rows | None],
        allowed: Rows | None = None,
        threads: int | None = None,
        histories: Sequence[History | None] | None = None,
        *,
        by_distance: bool = False,
    ) -> list[Ranked]:
        """`top` for each row of `queries`, among all items and without an index, on all cores and in bounded memory.

        `excluded` and `histories` have one entry per query.
        """
        scorer = self.points.scorer.nearest if by_distance else self.points.scorer
        if histories is None or by_distance:
            return scorer.top_many(queries, k, excluded, allowed, threads)
        return scorer.top_many(queries, k, excluded, allowed, threads, lambda query: self.boosts(histories[query]))

    def top_new(
        self,
        query: FloatArray | None,
        k: int,
        event_limit: int,
        excluded: Rows,
        allowed: Rows | None,
        *,
        by_distance: bool = False,
    ) -> Ranked:
        """The best `k` new items by PUT and the best `event_limit` by events that may be recommended, best first;
        without a query all of them, with score 0."""
        if not self._new:
            return NO_ROWS, np.empty(0, np.float32)
        if allowed is not None:  # which may be most of the items
            allowed = allowed[allowed >= len(self.points)]
        limits = zip(self._new, (k, event_limit), strict=True)
        found = [new.top(query, limit, excluded, allowed, by_distance) for new, limit in limits]
        rows, scores = (np.concatenate(column) for column in zip(*found, strict=True))
        order = np.argsort(-scores, kind="stable")
        return rows[order], scores[order]

    def popular(self, k: int, excluded: Rows, allowed: Rows | None) -> Ranked:
        """The `k` live items with the most events in training, scored by that number; ties by row."""
        rows, counts = self.live.popular, self.points.item_counts
        if allowed is not None:
            rows = rows[mask_of(self._known(allowed), len(counts))[rows]]
        rows = rows[: k + len(excluded)]
        best = rows[~np.isin(rows, excluded)][:k].astype(np.int64)
        return best, counts[best].astype(np.float32)

    def live_rows(self, *, new: bool) -> Rows:
        """The rows of the live items, with or without new ones."""
        return np.concatenate([self.live.popular, *(part.rows for part in self._new)]) if new else self.live.popular

    def _known(self, rows: Rows) -> Rows:
        """Without new items."""
        return rows if self.new is None else rows[rows < len(self.points)]
