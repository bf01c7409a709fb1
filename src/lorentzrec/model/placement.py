"""Where new items go without training: points made of the events of their first customers.

The midpoint of the queries of the customers who interacted with an item, as the query of a customer is the midpoint of
items, gives its direction from the centre of all queries. Its distance from there is that of the median item: midpoints
of more queries are nearer to the centre, and so to everyone, and new items would be recommended in place of all others.
With separate targets, the history point of an item is the midpoint of the targets that followed it.

What else is known about an item, such as its attributes, are further points. The item is placed between all of them, at
the mean of their distances from the centre, for the same reason.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Booleans, Floats, Integers, gather_groups, offsets_of
from lorentzrec.geometry import FloatArray, euclidean, hyperboloid
from lorentzrec.geometry.midpoint import normalise_sum
from lorentzrec.model.ranking import Ranker

LEAST_WEIGHT = 1e-9
"""Events of a history that weigh less than this by recency are left out of the query of a new item."""


SAMPLED_ITEMS = 20_000
"""Items, in equal steps from the most popular to the rarest, that the median distance is taken of."""


class Surroundings(NamedTuple):
    """The centre of all queries, and the distance of the median item from it."""

    centre: FloatArray
    distance: float


class PlacedItems(NamedTuple):
    """Points of new items, a row each; rows that are not `placed` are the origin."""

    item_points: NDArray[np.float32]
    history_points: NDArray[np.float32]
    placed: Booleans


def surroundings_of(
    ranker: Ranker, item_counts: Integers, user_points: NDArray[np.float32] | None = None
) -> Surroundings:
    """What new items are placed in, from what queries are made of: the history points of known items, with the events
    of each as its weight, or the points of customers, in a symmetric model."""
    sources = ranker.history_points if user_points is None else user_points
    weights = item_counts if user_points is None and item_counts.any() else np.ones(len(sources))
    total = np.einsum("i,ij->j", weights, sources, dtype=np.float64, casting="same_kind")
    centre = normalise_sum(total) if ranker.hyperbolic else total / weights.sum()
    known = len(ranker.item_points)
    some = np.linspace(0, known - 1, min(known, SAMPLED_ITEMS)).astype(np.int64)
    distance = hyperboloid.distance if ranker.hyperbolic else euclidean.distance
    return Surroundings(centre, float(np.median(distance(centre, ranker.precise_items(some)))))


def move_to_distance(
    points: NDArray[np.float32], centre: FloatArray, distance: float | FloatArray, *, hyperbolic: bool
) -> NDArray[np.float32]:
    """Points in the same directions from `centre`, at another distance; one for all, or one each."""
    geometry = hyperboloid if hyperbolic else euclidean
    towards = geometry.log_map(centre, geometry.precise(points))
    lengths = geometry.tangent_norm(centre, towards)[:, None]
    # A point at the centre has no direction and stays there.
    scaled = np.reshape(distance, (-1, 1)) * towards
    towards = np.divide(scaled, lengths, out=np.zeros_like(towards), where=lengths > 0)
    moved: NDArray[np.float32] = geometry.exp_map(centre, towards).astype(np.float32)
    return moved


def midpoints(
    points: FloatArray, groups: Integers, count: int, *, hyperbolic: bool, weights: NDArray[Any] | None = None
) -> tuple[NDArray[np.float32], Booleans]:
    """The midpoint of the points of each of `count` groups, and whether it has any; those without are the origin."""
    origin = (hyperboloid if hyperbolic else euclidean).origin(points.shape[1] - hyperbolic)
    found = np.tile(origin, (count, 1))
    placed = np.bincount(groups, minlength=count) > 0
    if placed.any():
        order = np.argsort(groups, kind="stable")
        weight = np.ones(len(groups)) if weights is None else np.asarray(weights, np.float64)[order]
        starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
        sums = np.add.reduceat(weight[:, None] * points[order].astype(np.float64), starts, axis=0)
        found[placed] = normalise_sum(sums) if hyperbolic else sums / np.add.reduceat(weight, starts)[:, None]
    return found.astype(np.float32), placed


def place_between(
    points: FloatArray,
    histories: FloatArray | None,
    items: Integers,
    count: int,
    weights: Floats,
    centre: FloatArray,
    *,
    hyperbolic: bool,
) -> PlacedItems:
    """`count` items between some points each, which have weights: `points[i]` is one of item `items[i]`.

    Their midpoint gives the direction from `centre`, and the mean of their distances from there the distance, since a
    midpoint is nearer to the centre than they are.

    histories: what is known of an item's history point, next to each point; None if it is the same as its point.
    """
    found, placed = midpoints(points, items, count, hyperbolic=hyperbolic, weights=weights)
    distances = (hyperboloid if hyperbolic else euclidean).distance(centre, points)
    sums = np.bincount(items, weights * distances, count), np.bincount(items, weights, count)
    mean = sums[0][placed] / sums[1][placed]
    found[placed] = move_to_distance(found[placed], centre, mean, hyperbolic=hyperbolic)
    if histories is None:
        return PlacedItems(found, found, placed)
    return PlacedItems(found, midpoints(histories, items, count, hyperbolic=hyperbolic, weights=weights)[0], placed)


def place_from_histories(
    ranker: Ranker,
    offsets: Integers,
    item_rows: NDArray[np.integer[Any]],
    weights: NDArray[Any] | None,
    count: int,
    surroundings: Surroundings,
    *,
    ordered: bool,
    user_points: NDArray[np.float32] | None = None,
    own: Booleans | None = None,
) -> PlacedItems:
    """Points for the `count` items that follow those of the `ranker`, from the histories they occur in.

    The query of an event is made of the known items before it; if there are none, or no order, of all others that its
    customer has. An item without any such event is not placed. One that nothing has followed yet gets the same point
    for histories as for recommendations.

    offsets, item_rows, weights: histories, as in `Interactions`.
    ordered: whether the order of events means something.
    user_points: the points of customers, in a symmetric model: the query of those who are `own`.
    """
    old = item_rows < len(ranker.item_points)
    events = np.flatnonzero(~old)
    owners = np.searchsorted(offsets, events, side="right") - 1
    new_rows = item_rows[events].astype(np.int64) - len(ranker.item_points)
    past, past_weights = item_rows[old], None if weights is None else weights[old]
    counts = offsets_of(old.astype(np.int64))  # known events before each event
    before, starts, ends = counts[events], counts[offsets[owners]], counts[offsets[owners + 1]]
    stops = np.where((before > starts) & ordered, before, ends)
    with_point = np.zeros(len(events), bool) if own is None else own[owners]
    right = with_point | (stops > starts)
    queries = np.empty((len(events), ranker.item_points.shape[1]))
    if user_points is not None:
        queries[with_point] = ranker.precise(user_points[owners[with_point]])
    made = right & ~with_point
    places, lengths = _spans(np.maximum(starts, stops - _reach(ranker.recency))[made], stops[made])
    used_weights = None if past_weights is None else past_weights[places]
    queries[made] = ranker.queries(past[places], offsets_of(lengths), used_weights)
    event_weights = None if weights is None else weights[events[right]]
    item_points, placed = midpoints(
        queries[right], new_rows[right], count, hyperbolic=ranker.hyperbolic, weights=event_weights
    )
    item_points[placed] = move_to_distance(item_points[placed], *surroundings, hyperbolic=ranker.hyperbolic)
    if ranker.history_points is ranker.item_points:
        return PlacedItems(item_points, item_points, placed)
    followers, steps = _spans(before, np.minimum(ends, before + _reach(ranker.recency)))
    history_points, followed = midpoints(
        ranker.precise_items(past[followers]),
        np.repeat(new_rows, steps),
        count,
        hyperbolic=ranker.hyperbolic,
        weights=_decay(ranker.recency, steps),
    )
    history_points[~followed] = item_points[~followed]
    return PlacedItems(item_points, history_points, placed)


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
