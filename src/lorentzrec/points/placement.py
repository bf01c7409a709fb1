"""Where new items go without training: at points made of what is known about them.

**Events.** The midpoint of the queries of the customers who interacted with an item gives its direction from the centre
of all queries, as the query of a customer is the midpoint of items. Its distance from there is that of the median item:
midpoints of more queries are nearer to the centre, and so to everyone, and new items would be recommended before all
others. With separate targets, the history point of an item is the midpoint of the targets that followed it.

**Similar items** are points as they are, and **attributes** count by their midpoint. The **category** counts if neither
is known: the midpoint of its items, at the distance of the median item.

An item is placed between all of these points, at the mean of their distances from the centre, for the same reason. Its
events weigh as many as there are, each similar item and the category 1, and all attributes `EVENTS_OF_ATTRIBUTES`.

Its mass, if items have masses, is the mean of those that its evidence suggests, with the same weights: of a similar
item its own, of a category the median of its items, and of events and attributes that of the median item. Numbers of
events say nothing here: an item that is new has few of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Booleans, Floats, Groups, Integers, gather_groups, make_offsets
from lorentzrec.data.attributes import ItemAttributes
from lorentzrec.data.vocabulary import UNKNOWN
from lorentzrec.geometry import FloatArray, euclidean, hyperboloid
from lorentzrec.points.attribute_points import compose
from lorentzrec.points.points import Points
from lorentzrec.points.space import Space

EVENTS_OF_ATTRIBUTES = 3.0
"""How many events the attributes of a new item are worth: with as many, both count equally."""
LEAST_WEIGHT = 1e-9
"""Events of a history that weigh less than this by recency are left out of the query of a new item."""
SAMPLED_ITEMS = 20_000
"""Items, in equal steps from the most popular to the rarest, that the median distance is taken of."""


class Surroundings(NamedTuple):
    """The centre of all queries, and the median item: its distance from the centre, and its mass."""

    centre: FloatArray
    distance: float
    mass: float = 0.0


class CustomerEvents(NamedTuple):
    """The events of some customers, oldest first: those of customer u are `item_rows[offsets[u]:offsets[u + 1]]`.

    The rows of new items follow those of the known ones.
    """

    offsets: Integers
    item_rows: NDArray[np.integer[Any]]
    weights: NDArray[Any] | None = None
    ordered: bool = True
    """Whether the order of events means something."""
    user_points: NDArray[np.float32] | None = None
    """In a symmetric model: the points of customers, which are the queries of those who have one."""
    with_point: Booleans | None = None
    """Which customers have a point; None if none has."""
    order_marks: NDArray[Any] | None = None
    """Equal for neighbouring events of one order; None if every event is an order."""


def find_surroundings(points: Points, user_points: NDArray[np.float32] | None = None) -> Surroundings:
    """The surroundings of new items, from what queries are made of: the history points of known items, weighted by
    their events, or in a symmetric model the points of customers."""
    sources = points.history_points if user_points is None else user_points
    weights = points.item_counts if user_points is None and points.item_counts.any() else np.ones(len(sources))
    total = np.einsum("i,ij->j", weights, sources, dtype=np.float64, casting="same_kind")
    centre = points.space.midpoints_from_sums(total, weights.sum())
    sampled = np.linspace(0, len(points) - 1, min(len(points), SAMPLED_ITEMS)).astype(np.int64)
    distance = float(np.median(points.space.distance(centre, points.precise_items(sampled))))
    return Surroundings(centre, distance, 0.0 if points.masses is None else float(np.median(points.masses)))


def place_new_items(
    points: Points,
    count: int,
    histories: CustomerEvents,
    surroundings: Surroundings,
    *,
    like: Groups | None = None,
    attributes: Groups | ItemAttributes | None = None,
    categories: tuple[Integers, NDArray[np.integer[Any]]] | None = None,
) -> tuple[Points, Booleans]:
    """Points and masses of `count` new items, with the numbers of their events, and which of them are placed.

    An item about which nothing helpful is known is not placed. Its point is the origin.

    points: of the known items, and of the attributes if `attributes` are given.
    like: for each new item, the rows of similar items.
    attributes: for each new item, the rows of its attributes.
    categories: the category of each new item, `UNKNOWN` if it has none, and that of each known item.
    """
    space = points.space
    masses = None if points.masses is None else np.full(count, surroundings.mass, np.float32)
    events = np.bincount(histories.item_rows[histories.item_rows >= len(points)] - len(points), minlength=count)
    item_points, history_points, placed = _place_by_events(points, count, histories, surroundings)
    if like is not None or attributes is not None or categories is not None:
        by_events = np.flatnonzero(placed)
        usual = surroundings.mass
        parts = [_Part(by_events, item_points[by_events], history_points[by_events], events[by_events], usual)]
        known = np.zeros(count, bool)
        if like is not None:
            ones = np.ones(len(like.rows))
            own = usual if points.masses is None else points.masses[like.rows]
            parts.append(_Part(like.owners, points.item_points[like.rows], points.history_points[like.rows], ones, own))
            known |= like.counts > 0
        if attributes is not None:
            parts.append(_compose_attributes(points, attributes, usual))
            known |= attributes.counts > 0
        if categories is not None:
            parts.append(_find_categories(points, np.where(known, UNKNOWN, categories[0]), categories[1], surroundings))
        owners = np.concatenate([part.items for part in parts])
        weights = np.concatenate([part.weights for part in parts])
        between = space.precise(np.concatenate([part.item_points for part in parts]))
        item_points, placed = midpoints(between, owners, count, space, weights)
        distances = np.bincount(owners, weights * space.distance(surroundings.centre, between), count)
        mean = distances[placed] / np.bincount(owners, weights, count)[placed]
        item_points[placed] = move_to_distance(item_points[placed], surroundings.centre, mean, space)
        if masses is not None:
            suggested = np.concatenate([np.broadcast_to(part.masses, len(part.items)) for part in parts])
            mean = np.bincount(owners, weights * suggested, count)[placed] / np.bincount(owners, weights, count)[placed]
            masses[placed] = mean
        history_points = item_points
        if points.separate:
            between = space.precise(np.concatenate([part.history_points for part in parts]))
            history_points = midpoints(between, owners, count, space, weights)[0]
    return Points(item_points, history_points, events, space, masses=masses), placed


class _Part(NamedTuple):
    """Points between which new items are placed: `item_points[i]` is one of item `items[i]`."""

    items: Integers
    item_points: NDArray[np.float32]
    history_points: NDArray[np.float32]
    weights: NDArray[Any]
    masses: NDArray[Any] | float
    """One for each, or one for all."""


def _place_by_events(
    points: Points, count: int, histories: CustomerEvents, surroundings: Surroundings
) -> tuple[NDArray[np.float32], NDArray[np.float32], Booleans]:
    """Item points, history points and which are placed, from the histories that the new items occur in.

    The query of an event is made of the known items before it, in a model of orders of those of the orders before its
    own; if there are none, or no order, of all others that its customer has. An item without any such event is not
    placed. One that nothing has followed yet gets the same point for histories as for recommendations.
    """
    space, item_rows, weights = points.space, histories.item_rows, histories.weights
    old = item_rows < len(points)
    events = np.flatnonzero(~old)
    users = np.searchsorted(histories.offsets, events, side="right") - 1
    new_items = item_rows[events].astype(np.int64) - len(points)
    past, past_weights = item_rows[old], None if weights is None else weights[old]
    old_before = make_offsets(old.astype(np.int64))  # known events before each event
    runs = _number_orders(histories, by_orders=space.by_orders)
    bounds = np.searchsorted(runs, [runs[events], runs[events] + 1])  # where the order of an event begins and ends
    before, after = old_before[bounds]
    starts = old_before[histories.offsets[users]]
    ends = old_before[histories.offsets[users + 1]]
    stops = np.where((before > starts) & histories.ordered, before, ends)
    with_point = np.zeros(len(events), bool) if histories.with_point is None else histories.with_point[users]
    eligible = with_point | (stops > starts)
    queries = np.empty((len(events), points.item_points.shape[1]))
    if histories.user_points is not None:
        queries[with_point] = space.precise(histories.user_points[users[with_point]])
    from_items = eligible & ~with_point
    unlimited = space.recency == 1 or space.by_orders
    reach = np.iinfo(np.int32).max if unlimited else int(np.log(LEAST_WEIGHT) / np.log(space.recency)) + 1
    used, lengths = _spans(np.maximum(starts, stops - reach)[from_items], stops[from_items])
    used_weights = None if past_weights is None else past_weights[used]
    past_runs = runs[old]
    ages = np.repeat(past_runs[stops[from_items] - 1], lengths) - past_runs[used]
    queries[from_items] = points.queries(past[used], make_offsets(lengths), used_weights, ages)
    event_weights = None if weights is None else weights[events[eligible]]
    item_points, placed = midpoints(queries[eligible], new_items[eligible], count, space, event_weights)
    item_points[placed] = move_to_distance(item_points[placed], surroundings.centre, surroundings.distance, space)
    if not points.separate:
        return item_points, item_points, placed
    followers, lengths = _spans(after, np.minimum(ends, after + reach))
    steps = np.arange(lengths.sum()) - np.repeat(make_offsets(lengths)[:-1], lengths)
    if space.by_orders:
        steps = past_runs[followers] - np.repeat(runs[events], lengths) - 1
    decay = np.power(space.recency, steps.astype(np.float64))
    targets = points.precise_items(past[followers])
    history_points, followed = midpoints(targets, np.repeat(new_items, lengths), count, space, decay)
    history_points[~followed] = item_points[~followed]
    return item_points, history_points, placed


def _number_orders(histories: CustomerEvents, *, by_orders: bool) -> Integers:
    """Rising numbers of the orders of all events; every event is an order where orders are not known or not used."""
    numbers: Integers = np.arange(len(histories.item_rows))
    marks = histories.order_marks
    if by_orders and marks is not None and len(numbers):
        changes = np.append(True, marks[1:] != marks[:-1])
        starts = histories.offsets[:-1]
        changes[starts[starts < len(numbers)]] = True
        numbers = np.cumsum(changes) - 1
    return numbers


def _spans(starts: Integers, stops: Integers) -> tuple[Integers, Integers]:
    """The numbers from `starts[i]` to `stops[i] - 1`, one group after another, and the sizes of the groups."""
    offsets = np.stack([starts, stops], axis=1).ravel()
    return gather_groups(offsets, np.arange(0, len(offsets), 2))[1], stops - starts


def _compose_attributes(points: Points, described: Groups | ItemAttributes, mass: float) -> _Part:
    """The midpoints of the attributes of the new items that have any."""
    attributes, space = points.attributes, points.space
    assert attributes is not None
    with_any = described.counts > 0
    items = np.flatnonzero(with_any)
    own = np.zeros((len(with_any), points.item_points.shape[1]), np.float32)  # not used: new items have no own vectors
    weight, hyperbolic = attributes.weight, space.hyperbolic
    item_points, history_points = (
        compose(own, ~with_any, described, vectors, weight=weight, hyperbolic=hyperbolic)[items]
        for vectors in (attributes.points, attributes.history_points)
    )
    return _Part(items, item_points, history_points, np.full(len(items), EVENTS_OF_ATTRIBUTES), mass)


def _find_categories(
    points: Points, codes: Integers, known_codes: NDArray[np.integer[Any]], surroundings: Surroundings
) -> _Part:
    """The midpoints of the items of categories, at the distance of the median item, and of their history points."""
    space, items = points.space, np.flatnonzero(codes != UNKNOWN)
    distinct, indices = np.unique(codes[items], return_inverse=True)
    rows = [np.flatnonzero(known_codes == code) for code in distinct]
    width = points.item_points.shape[1]
    middles = np.array([space.midpoint(points.precise_items(some)) for some in rows]).reshape(-1, width)
    histories = np.array([space.midpoint(points.precise_histories(some)) for some in rows]).reshape(-1, width)
    moved = move_to_distance(middles, surroundings.centre, surroundings.distance, space)
    usual = (
        np.zeros(len(rows)) if points.masses is None else np.array([np.median(points.masses[some]) for some in rows])
    )
    return _Part(items, moved[indices], histories[indices], np.ones(len(items)), usual[indices])


def move_to_distance(
    points: NDArray[Any], centre: FloatArray, distance: float | FloatArray, space: Space
) -> NDArray[np.float32]:
    """Points in the same directions from `centre`, at another distance; one for all, or one each."""
    geometry = hyperboloid if space.hyperbolic else euclidean
    towards = geometry.log_map(centre, geometry.precise(points))
    lengths = geometry.tangent_norm(centre, towards)[:, None]
    # A point at the centre has no direction and stays there.
    scaled = np.reshape(distance, (-1, 1)) * towards
    towards = np.divide(scaled, lengths, out=np.zeros_like(towards), where=lengths > 0)
    moved: NDArray[np.float32] = geometry.exp_map(centre, towards).astype(np.float32)
    return moved


def midpoints(
    points: NDArray[Any], groups: Integers, count: int, space: Space, weights: NDArray[Any] | None = None
) -> tuple[NDArray[np.float32], Booleans]:
    """The midpoint of the points of each of `count` groups, and whether it has any; those without are the origin."""
    origin = (hyperboloid if space.hyperbolic else euclidean).origin(points.shape[1] - space.hyperbolic)
    found = np.tile(origin, (count, 1))
    filled = np.bincount(groups, minlength=count) > 0
    if filled.any():
        order = np.argsort(groups, kind="stable")
        weight: Floats = np.ones(len(groups)) if weights is None else np.asarray(weights, np.float64)[order]
        starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
        sums = np.add.reduceat(weight[:, None] * points[order].astype(np.float64), starts, axis=0)
        found[filled] = space.midpoints_from_sums(sums, np.add.reduceat(weight, starts)[:, None])
    return found.astype(np.float32), filled
