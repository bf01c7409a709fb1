"""Recommendations in rows: ranking, exclusion, diversity, popular items as a fallback, new items, reasons.

`Model.recommend` and the service translate ids to rows, call `recommend_rows`, and translate its rows to ids.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.vocabulary import UNKNOWN
from lorentzrec.geometry import FloatArray
from lorentzrec.points.diversity import diversify, pool_size
from lorentzrec.points.fallbacks import Cause, Fallback, history_fallbacks
from lorentzrec.points.points import History
from lorentzrec.points.ranking import Ranker
from lorentzrec.points.reasons import Contribution, strongest_reasons
from lorentzrec.points.scoring import NO_ROWS, Ranked
from lorentzrec.points.topk import Rows

EXPLORED = 1_000
"""New items that are drawn from in one query: the best ones, or all if there is no query."""


class RowQuery(NamedTuple):
    """One customer to recommend for."""

    history: Rows
    """The items they have interacted with, oldest first; `UNKNOWN` where an item has no row."""
    weights: NDArray[Any] | None = None
    """A number for each event of the history, as in training."""
    times: NDArray[Any] | None = None
    """See `History.times`."""
    order_ages: NDArray[Any] | None = None
    """How many orders back each event is; None if every event is an order."""
    point: FloatArray | None = None
    """A point of their own; None: the midpoint of the history."""
    empty: Cause = Cause.EMPTY_HISTORY
    """Why the history is empty, if it is."""


class RowOptions(NamedTuple):
    """How to recommend, for all queries of a call."""

    k: int = 10
    excluded: Rows = NO_ROWS
    """Items never to recommend."""
    exclude_seen: bool | None = None
    """Do not recommend items of the history. None: leave them out, unless the ranker has repeats; then, only what the
    customer did not buy is left out."""
    allowed: Rows | None = None
    """Recommend only these; None: all."""
    diversity: float = 0.0
    """Has no effect on popular items, which are meant to be just that."""
    reasons: bool = False
    by_distance: bool = False
    """Rank by the distance from the point of the query."""
    explore: float = 0.0
    """The share of the list for new items."""
    seed: int | None = None
    """Makes `explore` repeatable."""
    event_limit: int = 0
    """The largest number of new items by events in a list."""
    fallbacks: tuple[Fallback, ...] = ()
    """What else is different from what was requested."""
    with_user_points: bool = False
    """The model has points of customers, so that the midpoint of a history is a fallback."""
    id_type: str | None = None
    """See `Fallback`."""


class RowResult(NamedTuple):
    """Recommended items of one query, best first."""

    rows: NDArray[np.int64]
    scores: NDArray[np.float32]
    reasons: list[list[Contribution]] | None
    """For each item; None unless requested."""
    fallbacks: tuple[Fallback, ...]


class _Prepared(NamedTuple):
    """A query whose history has known items only."""

    history: History
    point: FloatArray | None
    """None: recommend popular items."""
    excluded: Rows
    fallbacks: tuple[Fallback, ...]
    explained: bool
    """Whether items of the history can be reasons."""


def recommend_rows(
    ranker: Ranker, queries: Sequence[RowQuery], options: RowOptions, threads: int | None = None
) -> list[RowResult]:
    """The best `k` items for each query, or all that are left.

    Many queries are ranked together, on all cores, if all items of the ranker are live and none is new.
    """
    prepared = [_prepare(ranker, query, options) for query in queries]
    size = pool_size(options.k, options.diversity)
    informed = [query for query in prepared if query.point is not None]
    if len(informed) == 1 or not ranker.whole:
        ranked = [
            ranker.top(
                query.point,
                size,
                query.excluded,
                options.allowed,
                query.history,
                by_distance=options.by_distance,
                event_limit=options.event_limit,
            )
            for query in informed
            if query.point is not None
        ]
    else:
        ranked = ranker.top_many(
            np.array([query.point for query in informed]).reshape(-1, ranker.points.item_points.shape[1]),
            size,
            [query.excluded for query in informed],
            options.allowed,
            threads,
            [query.history for query in informed],
            by_distance=options.by_distance,
        )
    found = iter(ranked)
    return [_complete(ranker, query, None if query.point is None else next(found), options) for query in prepared]


def _prepare(ranker: Ranker, query: RowQuery, options: RowOptions) -> _Prepared:
    history, total = History(query.history, query.weights, query.times, query.order_ages), len(query.history)
    known = query.history != UNKNOWN
    unknown = total - int(np.count_nonzero(known))
    if unknown:
        history = history.where(known)
    excluded, seen = options.excluded, history.items
    if options.exclude_seen is False:
        seen = NO_ROWS
    elif options.exclude_seen is None and ranker.repeats is not None and not options.by_distance:
        seen = NO_ROWS if history.times is None else seen[np.isnan(history.times)]
    if len(seen):
        excluded = np.concatenate([excluded, seen]) if len(excluded) else seen
    if query.point is not None:
        return _Prepared(history, query.point, excluded, options.fallbacks, explained=False)
    fallbacks: tuple[Fallback, ...] = (Fallback(query.empty),)
    if total:
        fallbacks = history_fallbacks(total, unknown, midpoint=options.with_user_points, id_type=options.id_type)
    point = ranker.query(*history.for_query) if len(history.items) else None
    return _Prepared(history, point, excluded, fallbacks + options.fallbacks, explained=point is not None)


def _complete(ranker: Ranker, query: _Prepared, ranked: Ranked | None, options: RowOptions) -> RowResult:
    """The result of a query from its best items; None: from the popular ones."""
    k, allowed = options.k, options.allowed
    if ranked is None:
        rows, scores = ranker.popular(k, query.excluded, allowed)
    else:
        rows, scores = ranked
        if options.diversity:
            chosen = diversify(ranker, rows, scores, k, options.diversity)
            rows, scores = rows[chosen], scores[chosen]
    if options.explore and ranker.new is not None:
        random = np.random.default_rng(options.seed)
        new, new_scores = ranker.top_new(
            query.point, max(k, EXPLORED), EXPLORED, query.excluded, allowed, by_distance=options.by_distance
        )
        if query.point is None:
            new = random.permutation(new)
        first = len(ranker.points) + len(ranker.new.live) - ranker.new.by_events
        limits = first, options.event_limit
        rows, scores = explore((rows, scores), (new, new_scores), k, options.explore, random, limits)
    fallbacks = query.fallbacks
    if not len(rows):
        fallbacks += (_explain_none(ranker.live_rows(new=query.point is not None), allowed),)
    reasons = None
    if options.reasons:
        reasons = strongest_reasons(ranker, query.history, rows) if query.explained else [[] for _ in rows]
    return RowResult(rows, scores, reasons, fallbacks)


def _explain_none(live: Rows, allowed: Rows | None) -> Fallback:
    """Why nothing was found. `live`: the rows that may be recommended; `allowed`: those that were requested."""
    if not len(live):
        return Fallback(Cause.NOTHING_LIVE)
    if allowed is not None and not np.isin(live, allowed).any():
        return Fallback(Cause.NOTHING_ALLOWED)
    return Fallback(Cause.ALL_EXCLUDED)


def explore(
    ranked: Ranked,
    new: Ranked,
    k: int,
    share: float,
    random: np.random.Generator,
    by_events: tuple[int, int] = (sys.maxsize, 0),
) -> Ranked:
    """`ranked` with new items in `share` of a list of `k`; those that are there by their score count.

    A fraction of an item is one with that probability. Items that are not in the list are drawn without replacement,
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
    # Positions among those that are kept, before which one is inserted.
    positions = ((np.arange(missing) + 0.5) * (len(kept) + missing) / missing).astype(np.int64) - np.arange(missing)
    return np.insert(rows[kept], positions, new[0][drawn]), np.insert(scores[kept], positions, new[1][drawn])
