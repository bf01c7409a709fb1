"""Where new items go without training: points made of the events of their first customers.

The point of an item is the midpoint of the queries of the customers who interacted with it, as the query of a customer
is the midpoint of the items. With separate targets, its history point is the midpoint of the targets that followed it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Booleans, Floats, Integers, gather_groups, offsets_of
from lorentzrec.data.interactions import Interactions
from lorentzrec.geometry import FloatArray, euclidean, hyperboloid
from lorentzrec.geometry.midpoint import normalise_sum
from lorentzrec.model.ranking import Ranker

LEAST_WEIGHT = 1e-9
"""Events of a history that weigh less than this by recency are left out of the query of a new item."""


class PlacedItems(NamedTuple):
    """Points of new items, a row each; rows that are not `placed` are the origin."""

    item_points: NDArray[np.float32]
    history_points: NDArray[np.float32]
    placed: Booleans


def place_items(
    points: FloatArray, items: Integers, count: int, *, hyperbolic: bool, weights: NDArray[Any] | None = None
) -> tuple[NDArray[np.float32], Booleans]:
    """The midpoint of the points of each of `count` items, and whether it has any: `points[i]` is one of item
    `items[i]`, with `weights[i]`.

    points: for what is recommended, the query of each customer before their event with the item, see `Ranker.queries`;
    for what histories are made of, the item points of the events that followed.
    """
    origin = (hyperboloid if hyperbolic else euclidean).origin(points.shape[1] - hyperbolic)
    found = np.tile(origin, (count, 1))
    placed = np.bincount(items, minlength=count) > 0
    if placed.any():
        order = np.argsort(items, kind="stable")
        weight = np.ones(len(items)) if weights is None else np.asarray(weights, np.float64)[order]
        starts = np.flatnonzero(np.diff(items[order], prepend=-1))
        sums = np.add.reduceat(weight[:, None] * points[order].astype(np.float64), starts, axis=0)
        found[placed] = normalise_sum(sums) if hyperbolic else sums / np.add.reduceat(weight, starts)[:, None]
    return found.astype(np.float32), placed


def place_from_histories(
    ranker: Ranker, histories: Interactions, *, ordered: bool, user_points: NDArray[np.float32] | None = None
) -> PlacedItems:
    """Points for the items of `histories` that follow those of the `ranker`, from the histories they occur in.

    The query of an event is made of the known items before it; if there are none, or no order, of all others that its
    customer has. An item without any such event is not placed. One that nothing has followed yet gets the same point
    for histories as for recommendations.

    ordered: whether the order of events means something.
    user_points: a query of their own for the first customers, as in a symmetric model.
    """
    known, count = len(ranker.item_points), len(histories.items) - len(ranker.item_points)
    events = np.flatnonzero(histories.item_rows >= known)
    owners, new_rows = (
        histories.user_rows[events].astype(np.int64),
        histories.item_rows[events].astype(np.int64) - known,
    )
    weights = None if histories.weights is None else histories.weights[events].astype(np.float64)
    past = histories.select(histories.item_rows < known)
    before = offsets_of((histories.item_rows < known).astype(np.int64))[events]  # known events before each event
    starts, ends = past.offsets[owners], past.offsets[owners + 1]
    stops = np.where((before > starts) & ordered, before, ends)
    own = np.zeros(len(events), bool) if user_points is None else owners < len(user_points)
    right = own | (stops > starts)
    queries = np.empty((len(events), ranker.item_points.shape[1]))
    if user_points is not None:
        queries[own] = ranker.precise(user_points[owners[own]])
    made = right & ~own
    queries[made] = _queries(ranker, past, starts[made], stops[made])
    item_points, placed = place_items(
        queries[right],
        new_rows[right],
        count,
        hyperbolic=ranker.hyperbolic,
        weights=None if weights is None else weights[right],
    )
    if ranker.history_points is ranker.item_points:
        return PlacedItems(item_points, item_points, placed)
    followers, steps = _spans(before, np.minimum(ends, before + _reach(ranker.recency)))
    history_points, followed = place_items(
        ranker.precise(ranker.item_points[past.item_rows[followers]]),
        np.repeat(new_rows, steps),
        count,
        hyperbolic=ranker.hyperbolic,
        weights=_decay(ranker.recency, steps),
    )
    history_points[~followed] = item_points[~followed]
    return PlacedItems(item_points, history_points, placed)


def _queries(ranker: Ranker, past: Interactions, starts: Integers, stops: Integers) -> FloatArray:
    """The queries of the events `starts[i]` to `stops[i] - 1`, the newest last."""
    places, lengths = _spans(np.maximum(starts, stops - _reach(ranker.recency)), stops)
    weights = None if past.weights is None else past.weights[places]
    return ranker.queries(past.item_rows[places], offsets_of(lengths), weights)


def _spans(starts: Integers, stops: Integers) -> tuple[Integers, Integers]:
    """The numbers from `starts[i]` to `stops[i] - 1`, one group after another, and the sizes of the groups."""
    offsets = np.stack([starts, stops], axis=1).ravel()
    return gather_groups(offsets, np.arange(0, len(offsets), 2))[1], stops - starts


def _reach(recency: float) -> int:
    """How many events weigh `LEAST_WEIGHT` or more."""
    return np.iinfo(np.int32).max if recency == 1 else int(np.log(LEAST_WEIGHT) / np.log(recency)) + 1


def _decay(recency: float, lengths: Integers) -> Floats:
    """recency^steps within groups of these sizes, from the first on."""
    steps = np.arange(lengths.sum()) - np.repeat(offsets_of(lengths)[:-1], lengths)
    return np.power(recency, steps.astype(np.float64))
