"""Recommendations in rows: ranking, exclusion, diversity, popular items as a fallback, new items, reasons.

`Model.recommend` and the service translate ids to rows, call `recommend_rows`, and translate its rows to ids.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.vocabulary import UNKNOWN
from lorentzrec.geometry import FloatArray
from lorentzrec.points.dislikes import settle
from lorentzrec.points.diversity import diversify, pool_size
from lorentzrec.points.fallbacks import Cause, Fallback, FallbackKind, history_fallbacks, unknown_fallbacks
from lorentzrec.points.points import History
from lorentzrec.points.ranking import Ranker
from lorentzrec.points.reasons import Contribution, strongest_reasons
from lorentzrec.points.rules import Quota, RowRules, RuledRanking
from lorentzrec.points.scoring import NO_ROWS, Ranked
from lorentzrec.points.topk import Rows

EXPLORED = 1_000
"""New items that are drawn from in one query: the best ones, or all if there is no query."""
NO_RULE = -1
"""The number of a limit that is no rule of the shop."""


class RowQuery(NamedTuple):
    """One customer to recommend for."""

    history: Rows
    """The items they have interacted with, oldest first; `UNKNOWN` where an item has no row."""
    weights: NDArray[Any] | None = None
    """A number for each event of the history, as in training; negative for a dislike."""
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
    rules: RowRules | None = None
    """The rules of the shop that are in force."""


class RowResult(NamedTuple):
    """Recommended items of one query, best first."""

    rows: NDArray[np.int64]
    scores: NDArray[np.float32]
    reasons: list[list[Contribution]] | None
    """For each item; None unless requested."""
    fallbacks: tuple[Fallback, ...]
    rules: tuple[int, ...] = ()
    """The rules that acted, by number."""


class RankedQuery(Protocol):
    """What a list is made from: a history, or an item that others are similar to."""

    @property
    def fallbacks(self) -> tuple[Fallback, ...]: ...

    @property
    def informed(self) -> bool:
        """Whether something is known of the query; if not, it ranks popular items."""
        ...

    def rank(self, ranker: Ranker, count: int, allowed: Rows | None, event_limit: int) -> Ranked:
        """The best `count` items. event_limit: the largest number of new items by events among them."""
        ...

    def rank_new(self, ranker: Ranker, count: int, allowed: Rows | None) -> Ranked:
        """The best new items, `count` of those by PUT at most; in any order if nothing is known of the query."""
        ...

    def find_reasons(self, ranker: Ranker, rows: Rows) -> list[list[Contribution]]: ...


class _Prepared(NamedTuple):
    """A query whose history has known items only."""

    history: History
    point: FloatArray | None
    """None: the midpoint of the history."""
    excluded: Rows
    fallbacks: tuple[Fallback, ...]

    @property
    def informed(self) -> bool:
        """Whether anything is known of the customer; if not, popular items are recommended."""
        return self.point is not None or len(self.history.items) > 0

    def locate(self, ranker: Ranker) -> FloatArray:
        """The point of an informed query."""
        return ranker.query(*self.history.for_query) if self.point is None else self.point

    def rank(self, ranker: Ranker, count: int, allowed: Rows | None, event_limit: int) -> Ranked:
        if not self.informed:
            return ranker.popular(count, self.excluded, allowed)
        return ranker.top(self.point, count, self.excluded, allowed, self.history, event_limit=event_limit)

    def rank_new(self, ranker: Ranker, count: int, allowed: Rows | None) -> Ranked:
        point = self.locate(ranker) if self.informed else None
        return ranker.top_new(point, count, EXPLORED, self.excluded, allowed)

    def find_reasons(self, ranker: Ranker, rows: Rows) -> list[list[Contribution]]:
        explained = self.informed and self.point is None
        return strongest_reasons(ranker, self.history, rows) if explained else [[] for _ in rows]


def recommend_rows(
    ranker: Ranker, queries: Sequence[RowQuery], options: RowOptions, threads: int | None = None
) -> list[RowResult]:
    """The best `k` items for each query, or all that are left.

    Many queries are ranked together, on all cores, if all items of the ranker are live and none is new.
    """
    prepared = [_prepare(ranker, query, options) for query in queries]
    informed = [query for query in prepared if query.informed]
    if options.rules is not None or len(informed) == 1 or not ranker.whole:
        return [make_list(ranker, query, options) for query in prepared]
    ranked = ranker.top_many(
        np.array([query.locate(ranker) for query in informed]).reshape(-1, ranker.points.item_points.shape[1]),
        pool_size(options.k, options.diversity),
        [query.excluded for query in informed],
        options.allowed,
        threads,
        [query.history for query in informed],
        [query.point is None for query in informed],
    )
    found = iter(ranked)
    return [
        _complete(ranker, query, next(found), options) if query.informed else make_list(ranker, query, options)
        for query in prepared
    ]


def make_list(ranker: Ranker, query: RankedQuery, options: RowOptions) -> RowResult:
    """The list of one query, under the rules of the shop if there are any."""
    if options.rules is None:
        size = pool_size(options.k, options.diversity) if query.informed else options.k
        return _complete(ranker, query, query.rank(ranker, size, options.allowed, options.event_limit), options)

    def rank(count: int, allowed: Rows | None) -> Ranked:
        return query.rank(ranker, count, allowed, count)

    # The limit on new items by events is one on the list, not on the ranking that rules start from.
    quotas = []
    if ranker.new is not None and ranker.new.by_events:
        first = first_by_events(ranker)
        quotas = [Quota(NO_RULE, options.event_limit, lambda row: 0 if row >= first else UNKNOWN)]
    ruled = RuledRanking(rank, options.rules, options.k, options.allowed, quotas)
    return _complete(ranker, query, ruled.first(pool_size(options.k, options.diversity)), options, ruled)


def _prepare(ranker: Ranker, query: RowQuery, options: RowOptions) -> _Prepared:
    history, total = History(query.history, query.weights, query.times, query.order_ages), len(query.history)
    known = query.history != UNKNOWN
    unknown = total - int(np.count_nonzero(known))
    if unknown:
        history = history.where(known)
    history = settle(history)
    excluded, disliked, seen = options.excluded, history.disliked, history.liked.items
    if options.exclude_seen is False:
        seen = NO_ROWS
    elif options.exclude_seen is None and ranker.repeats is not None:
        seen = NO_ROWS if history.times is None else history.items[np.isnan(history.times)]
    never = [part for part in (excluded, seen, disliked) if len(part)]
    excluded = np.concatenate(never) if len(never) > 1 else never[0] if never else NO_ROWS
    if query.point is not None:
        return _Prepared(history, query.point, excluded, options.fallbacks)
    fallbacks: tuple[Fallback, ...] = (Fallback(query.empty),)
    if total:
        fallbacks = history_fallbacks(total, unknown, midpoint=options.with_user_points, id_type=options.id_type)
    if len(disliked) and len(disliked) == len(history.items):
        history = History(NO_ROWS)
        fallbacks = (Fallback(Cause.ONLY_DISLIKES), *unknown_fallbacks(Cause.UNKNOWN_HISTORY_ITEMS, query.history))
    if (trend := ranker.points.trend) is not None and any(one.kind is FallbackKind.POPULAR for one in fallbacks):
        fallbacks += (Fallback(Cause.RECENT_CUSTOMERS, days=trend.days),)
    return _Prepared(history, None, excluded, fallbacks + options.fallbacks)


def _complete(
    ranker: Ranker, query: RankedQuery, ranked: Ranked, options: RowOptions, ruled: RuledRanking | None = None
) -> RowResult:
    """The result of a query from its best items, or from the popular ones. `ruled`: their ranking under rules."""
    k, allowed = options.k, options.allowed
    rows, scores = ranked
    if options.diversity and query.informed:
        chosen = diversify(ranker, rows, scores, k, options.diversity)
        rows, scores = rows[chosen], scores[chosen]
    if options.explore and ranker.new is not None:
        random = np.random.default_rng(options.seed)
        new, new_scores = query.rank_new(ranker, max(k, EXPLORED), allowed)
        if options.rules is not None:
            shown = options.rules.may_be_shown(new)
            new, new_scores = new[shown], new_scores[shown]
        if not query.informed:
            new = random.permutation(new)
        limits = first_by_events(ranker), options.event_limit
        rows, scores = explore((rows[:k], scores[:k]), (new, new_scores), k, options.explore, random, limits)
    acted: tuple[int, ...] = ()
    if ruled is not None:
        rows, scores = ruled.arrange((rows, scores))
        acted = tuple(number for number in ruled.acted if number != NO_RULE)
    fallbacks = query.fallbacks
    if not len(rows):
        fallbacks += (explain_none(ranker.live_rows(new=query.informed), allowed, options.rules),)
    reasons = query.find_reasons(ranker, rows) if options.reasons else None
    return RowResult(rows, scores, reasons, fallbacks, acted)


def first_by_events(ranker: Ranker) -> int:
    """The first row of the new items by events."""
    return len(ranker.points) + (0 if ranker.new is None else len(ranker.new.live) - ranker.new.by_events)


def explain_none(live: Rows, allowed: Rows | None, rules: RowRules | None) -> Fallback:
    """Why nothing was found. `live`: the rows that may be recommended; `allowed`: those that were requested."""
    if not len(live):
        return Fallback(Cause.NOTHING_LIVE)
    if allowed is not None and not np.isin(live, allowed).any():
        return Fallback(Cause.NOTHING_ALLOWED)
    left = live if allowed is None else np.intersect1d(live, allowed)
    if rules is not None and not rules.may_be_shown(left).any():
        return Fallback(Cause.NOTHING_BY_RULES)
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
