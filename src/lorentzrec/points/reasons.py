"""Why an item is recommended: which items of the history contribute to its score, and by how much.

A query is a normalised sum of history points, so the score of an item v is, but for terms that all items share, the
sum over the history of w_i s(x_i, v), with s = <x, v> on the hyperboloid, x . v or -|x - v|^2 / 2 in flat space.
The parts mean little by themselves: on the hyperboloid every one is negative. So v is compared with the centre c of
the catalogue, the midpoint of all items:

    pull_i = w_i (s(x_i, v) - s(x_i, c)),      which add up to the difference of the scores of v and c.

On the hyperboloid, and wherever the score is a distance, a pull is positive exactly if v is nearer to x_i than the
centre is. The share of an item of the history is its positive pull, over the sum of all positive pulls. If there is
none, v is recommended for being near the centre, and no item of the history is a reason.

With a memory, v has a boost b as well, of which the item has the share w_i B_iv / m_v. The two shares are weighted
by what points and memory add to the score of v: its difference to the score of c, if positive, and b. The kind of
the reason is the larger of the two.

What the customer dislikes is no reason: reasons compare what is liked.

With a trend, an item that is more popular than usual is a reason for itself, with the share of the trend in the score.
With repeats, an item that the customer bought before is a reason for itself, and the first one: repeats have a part of
their own in the score.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.geometry import FloatArray, euclidean
from lorentzrec.points.points import History
from lorentzrec.points.ranking import Ranker
from lorentzrec.points.topk import Rows

if TYPE_CHECKING:
    from lorentzrec.data.vocabulary import Id

REASONS_SHOWN = 3
"""The largest number of reasons for one item."""
SHARES_AT_ONCE = 1_000_000
"""Shares that one query holds in memory: 8 MB of them, and 16 to sort them."""


class ReasonKind(StrEnum):
    """How an item of the history leads to a recommendation."""

    NEAR = "near"
    """The recommended item is near to it."""
    OFTEN_AFTER = "often_after"
    """The recommended item is often bought soon after it."""
    OFTEN_WITH = "often_with"
    """The recommended item is often bought by the same customers; for events without an order."""
    CATEGORY_WITH = "category_with"
    """Items of its category are often bought with items of the category of the recommended one; for outfits."""
    BOUGHT_BEFORE = "bought_before"
    """The customer bought the recommended item before."""
    TRENDING = "trending"
    """The recommended item is more popular than usual."""


class Reason(NamedTuple):
    """An item of the history that contributes to a recommendation; the recommended item itself if it is trending."""

    item: Id
    share: float
    """Its share of the contributions of the whole history."""
    kind: ReasonKind
    bought: int | None = None
    """How often the customer bought the item, if its kind is `BOUGHT_BEFORE`."""


class Contribution(NamedTuple):
    """A `Reason` with the row of the item."""

    row: int
    share: float
    kind: ReasonKind
    bought: int | None = None


class Shares(NamedTuple):
    """What items of a history contribute to recommended items."""

    items: Rows
    """The distinct items of the history."""
    shares: FloatArray
    """(recommended, items): each line and the share of the trend add up to 1, or all are 0."""
    remembered: NDArray[np.bool_]
    """Where most of a share comes from the memory, and not from the points."""
    repeated: NDArray[np.bool_]
    """Where the item of the history is the recommended one, and has a boost for it."""
    counts: Rows
    """How often the customer bought each of the items."""
    trends: FloatArray
    """The share of the trend of each recommended item."""


def strongest_reasons(ranker: Ranker, history: History, recommended: Rows) -> list[list[Contribution]]:
    """For each of `recommended`, the items of the history with the largest shares, `REASONS_SHOWN` at most."""
    if not len(recommended):
        return []
    size = max(1, SHARES_AT_ONCE // len(history.items))
    if len(recommended) > size:
        first, others = recommended[:size], recommended[size:]
        return strongest_reasons(ranker, history, first) + strongest_reasons(ranker, history, others)
    items, shares, remembered, repeated, counts, trends = find_shares(ranker, history, recommended)
    memory = ranker.memory
    often = ReasonKind.OFTEN_AFTER if memory is None or memory.ordered else ReasonKind.OFTEN_WITH
    best = np.argsort(-(shares + repeated), axis=1, kind="stable")[:, :REASONS_SHOWN]

    def describe(row: int, index: int) -> Contribution:
        item, share = int(items[index]), float(shares[row, index])
        if repeated[row, index]:
            return Contribution(item, share, ReasonKind.BOUGHT_BEFORE, int(counts[index]))
        return Contribution(item, share, often if remembered[row, index] else ReasonKind.NEAR)

    found = []
    for row, (strongest, item, trend) in enumerate(
        zip(best.tolist(), recommended.tolist(), trends.tolist(), strict=True)
    ):
        reasons = [describe(row, index) for index in strongest if shares[row, index] > 0]
        if trend > 0:
            later = sum(reason.share >= trend or reason.kind is ReasonKind.BOUGHT_BEFORE for reason in reasons)
            reasons.insert(later, Contribution(item, trend, ReasonKind.TRENDING))
        found.append(reasons[:REASONS_SHOWN])
    return found


def find_shares(ranker: Ranker, given: History, recommended: Rows) -> Shares:
    """What the items of a history contribute to `recommended`."""
    centre, space = ranker.points.centre, ranker.points.space
    shares_of_events = space.recency_weights(len(given.items), given.weights, given.order_ages)
    liked = given.liked
    history, times = liked.items, liked.times
    distinct, index = np.unique(history, return_inverse=True)
    weights = np.bincount(index, shares_of_events if given.weights is None else shares_of_events[given.weights > 0])
    points = ranker.precise_histories(distinct)
    items = ranker.precise_items(recommended)
    towards = items - centre
    if space.hyperbolic:
        towards[:, 0] *= -1
    pulls = towards @ points.T
    if space.by_distance and not space.hyperbolic:
        pulls -= (euclidean.squared_norm(items) - euclidean.squared_norm(centre))[:, None] / 2
    pulls *= weights
    positive = np.maximum(pulls, 0, out=pulls)
    total = positive.sum(axis=1, keepdims=True)
    by_points = np.divide(positive, total, out=positive, where=total > 0)
    bought = np.bincount(index, None if times is None else ~np.isnan(times), len(distinct)).astype(np.int64)
    neither = np.zeros(by_points.shape, bool)
    offsets, trend = _find_trend(ranker), np.zeros((len(recommended), 1))
    if offsets is not None:
        known = recommended < len(offsets)  # new items have no trend
        trend[known, 0] = np.maximum(offsets[recommended[known]], 0)
    if ranker.memory is None and ranker.repeats is None and offsets is None:
        return Shares(distinct, by_points, neither, neither, bought, trend[:, 0])
    boosts = ranker.boosts(given)
    boost, added = (np.zeros((len(recommended), 1)) for _ in range(2))
    if boosts is not None and len(boosts.items):
        found = np.minimum(np.searchsorted(boosts.items, recommended), len(boosts.items) - 1)
        of_items = boosts.where(found)
        boosted = boosts.items[found] == recommended
        boost[:, 0] = np.where(boosted, of_items.values, 0)
        if of_items.added is not None:
            added[:, 0] = np.where(boosted, of_items.added, 0)
    query = ranker.query(*given.for_query)
    gain = np.maximum(space.score_points(query, items) - space.score_points(query, centre), 0)[:, None]
    gain[total == 0] = 0
    total_gain = boost + gain + trend
    part, own, trending = (
        np.divide(value, total_gain, out=np.zeros_like(boost), where=total_gain > 0)
        for value in (boost - added, added, trend)
    )
    by_points *= 1 - (part + own + trending)
    repeated = (recommended[:, None] == distinct) & (added > 0)
    by_memory = part * _shares_of_memory(ranker, distinct, index, liked, recommended)
    shares = by_points + by_memory + own * repeated
    return Shares(distinct, shares, by_memory > by_points, repeated, bought, trending[:, 0])


def _find_trend(ranker: Ranker) -> NDArray[np.float32] | None:
    """What the trend adds to the score of each item; None if it adds nothing. The mass of an item is no reason: it is
    the same for all customers, and says only how popular an item is."""
    trend = ranker.points.trend
    return None if trend is None else trend.offsets


def _shares_of_memory(ranker: Ranker, distinct: Rows, index: Rows, given: History, recommended: Rows) -> FloatArray:
    """(recommended, items): what the `distinct` items of a history contribute to the sums of the memory."""
    history, event_weights, *_ = given
    parts = np.zeros((len(recommended), len(distinct)))
    memory = ranker.memory
    if memory is None:
        return parts
    in_memory = history < memory.item_count  # others are new items, of which the memory has nothing
    ages = np.arange(np.count_nonzero(in_memory))[::-1]
    memory_weights: FloatArray = np.zeros(len(distinct))
    event_shares = memory.item_weights(ages, None if event_weights is None else event_weights[in_memory])
    np.add.at(memory_weights, index[in_memory], event_shares)
    in_memory = distinct < memory.item_count
    parts[:, in_memory] = memory.contributions(distinct[in_memory], memory_weights[in_memory], recommended)
    sums = parts.sum(axis=1, keepdims=True)
    shares: FloatArray = np.divide(parts, sums, out=parts, where=sums > 0)
    return shares
