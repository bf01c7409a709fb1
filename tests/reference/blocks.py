"""Whole blocks of training: float64, one example after another, every history summed on its own, every gradient by the
chain rule as on paper. A kernel may be clever; what it computes is what these lines compute.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from lorentzrec.geometry import FloatArray
from lorentzrec.geometry.sums import total_weight, weighted_sum
from lorentzrec.learning.kernels.structures import COINCIDENT, RUN, SATURATED, Events, Loss, Settings, Table
from tests.reference import euclidean, hyperboloid, losses, midpoint, sampling
from tests.reference.losses import Geometry, LossName, ScoreKind
from tests.reference.optimisers import Counters, mass_step, row_step
from tests.reference.sampling import draw_negatives, folds, key_for, permuted, unseen

Rows = NDArray[np.int64]
LOSS_NAMES: dict[Loss, LossName] = {Loss.BPR: "bpr", Loss.WMRB: "wmrb", Loss.SOFTMAX: "softmax"}


def triplet_steps(
    order: Rows, events: Events, users: Table, items: Table, settings: Settings, key: int, counters: Counters
) -> float:
    """Symmetric BPR over the customers in `order`: three steps for every (customer, item, unseen item); the
    summed loss."""
    total = 0.0
    item_count = len(items.points)
    for user in order.tolist():
        rows, weights = _history(events, user)
        if len(set(rows)) == item_count:
            counters[SATURATED] += 1
            continue
        state = key_for(key, sampling.TRIPLETS, user)
        for item, weight, label in zip(rows, weights, _labels(events, user), strict=True):
            for _ in range(settings.negative_count if label else 0):
                other, state = unseen(state, set(rows), item_count)
                block = Block(users, items, [other], settings, counters)
                value, gradient = block.compare(users.points[user], item, weight, [])
                block.of_histories[user] += gradient
                total += value
                block.step()
    return total


def symmetric_gradients(
    number: int,
    rows: int,
    events: Events,
    users: Table,
    items: Table,
    settings: Settings,
    key: int,
    counters: Counters,
) -> Block:
    """Block `number` of an epoch, of `rows` targets: runs of neighbours in an order that the key chooses."""
    targets = events.targets if len(events.labels) > 1 else np.arange(len(events.items))
    run_count = -(-len(targets) // RUN)
    runs = rows // RUN
    negatives = _negatives(items, events, settings, key_for(key, sampling.NEGATIVES, number))
    block = Block(users, items, negatives, settings, counters)
    for place in range(number * runs, min(number * runs + runs, run_count)):
        first = permuted(place, run_count, key_for(key, sampling.ORDER, 0)) * RUN
        before = None
        for event in targets[first : first + RUN].tolist():
            user = int(np.flatnonzero(events.offsets <= event)[-1])
            history, weights = _history(events, user)
            if user != before:
                block.note_saturation(history)
            before = user
            weight = weights[event - int(events.offsets[user])]
            value, gradient = block.compare(users.points[user], int(events.items[event]), weight, history)
            block.of_histories[user] += gradient
            block.loss += value
    return block


def asymmetric_gradients(
    number: int,
    order: Rows,
    bounds: Rows,
    events: Events,
    histories: Table,
    items: Table,
    settings: Settings,
    key: int,
    counters: Counters,
) -> Block:
    """Block `number` of an epoch: the customers order[bounds[number]:bounds[number + 1]].

    Every labelled event with a history is a target. Its history is all events before it, weighed down by the recency
    with every step back, or all events outside its fold; the customer is the midpoint of that.
    """
    customers = order[bounds[number] : bounds[number + 1]].tolist()
    negatives = _negatives(items, events, settings, key_for(key, sampling.NEGATIVES, customers[0]))
    block = Block(histories, items, negatives, settings, counters)
    for customer in customers:
        rows, weights = _history(events, customer)
        labels = _labels(events, customer)
        block.note_saturation(rows)
        for row in rows:
            block.of_histories[row] += 0.0  # all points of a block step once, also where nothing pulls at them
        orders = _orders(events, customer)
        for target, others, shares in histories_of(weights, settings, key_for(key, sampling.FOLDS, customer), orders):
            history = [rows[place] for place in others]
            if labels[target]:
                block.loss += block.compare_history(history, shares, rows[target], weights[target], rows)
    return block


def apply_gradients(blocks: Sequence[Block]) -> float:
    """Move the points of a step, whose blocks were computed from the same points: one step per row and block, in the
    order of the blocks. The summed loss."""
    for block in blocks:
        block.step()
    return sum(block.loss for block in blocks)


def histories_of(
    weights: list[float], settings: Settings, key: int, orders: list[int] | None = None
) -> list[tuple[int, list[int], list[float]]]:
    """Each event that has a history, with the places of its history and their weights, from the weights and the orders
    of all events. Without orders, every event is one."""
    length = len(weights)
    orders = list(range(length)) if orders is None else orders
    if settings.folded:
        fold = folds(length, settings.folds, key)
        others = [[place for place in range(length) if fold[place] != fold[target]] for target in range(length)]
        return [(target, rest, [weights[place] for place in rest]) for target, rest in enumerate(others)]
    decay = float(settings.recency)
    earlier = [[place for place in range(length) if orders[place] < orders[target]] for target in range(length)]
    return [
        (target, rest, [weights[place] * decay ** (orders[target] - 1 - orders[place]) for place in rest])
        for target, rest in enumerate(earlier)
        if rest
    ]


class Block:
    """Events that are learned from at once: their loss, and the gradients at the current points, summed for each
    row."""

    def __init__(
        self, histories: Table, items: Table, negatives: list[int], settings: Settings, counters: Counters
    ) -> None:
        self.histories, self.items, self.negatives = histories, items, negatives
        self.settings, self.counters = settings, counters
        self.loss = 0.0
        self.geometry: Geometry = "hyperboloid" if settings.curved else "euclidean"
        self.kind: ScoreKind = "distance" if settings.distance else "inner"

        def zeros() -> FloatArray:
            return np.zeros(items.points.shape[1])

        self.of_items: defaultdict[int, FloatArray] = defaultdict(zeros, {row: zeros() for row in negatives})
        self.of_histories = self.of_items if histories is items else defaultdict(zeros)
        self.of_masses: defaultdict[int, float] = defaultdict(float)

    def note_saturation(self, seen: Collection[int]) -> None:
        if set(self.negatives) <= set(seen):
            self.counters[SATURATED] += 1

    def compare(self, query: FloatArray, target: int, weight: float, seen: Collection[int]) -> tuple[float, FloatArray]:
        """The loss of one target against the negatives that are not in `seen`, and the gradient in the customer's
        point."""
        rows = [target, *(row for row in self.negatives if row not in seen)]
        points = self.items.points[rows]
        settings = self.settings
        value, slopes = losses.loss(
            LOSS_NAMES[Loss(settings.loss)],
            losses.score(self.geometry, self.kind, query, points) + (self.items.masses[rows] if settings.masses else 0),
            scale=float(settings.scale),
            margin=float(settings.margin),
            weight=weight,
        )
        self.counters[COINCIDENT] += losses.coincide(self.geometry, self.kind, query, points).sum()
        in_query, in_items = self._score_gradients(query, points)
        for row, gradient in zip(rows, slopes[:, None] * in_items, strict=True):
            self.of_items[row] += gradient
        for row, slope in zip(rows, slopes.tolist(), strict=True):
            self.of_masses[row] += slope
        return value, slopes @ in_query

    def _score_gradients(self, query: FloatArray, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Those of `losses`, on the hyperboloid without their part along the point itself.

        The projection of a step removes that part, but a step can start from another point than the gradient was taken
        at: where an earlier block of the same step has moved it. -d(u, v) has v / sinh(d) and u / sinh(d).
        """
        if not (self.settings.curved and self.settings.distance):
            return losses.score_gradients(self.geometry, self.kind, query, points)
        apart = ~losses.coincide(self.geometry, self.kind, query, points)
        sinh = np.sinh(hyperboloid.distance(query, points))
        slopes = np.divide(1.0, sinh, out=np.zeros_like(sinh), where=apart)[:, None]
        return slopes * points, slopes * query

    def compare_history(
        self, history: list[int], shares: list[float], target: int, weight: float, seen: Collection[int]
    ) -> float:
        """The same for the midpoint of a history, with the gradient handed on to the points that the midpoint is made
        of."""
        points, factors = self.histories.points[history], np.array(shares)
        if self.settings.curved:
            value, gradient = self.compare(midpoint.einstein_midpoint(points, factors), target, weight, seen)
            in_sum = midpoint.midpoint_gradient(weighted_sum(points, factors), gradient)
        else:
            value, gradient = self.compare(euclidean.midpoint(points, factors), target, weight, seen)
            in_sum = euclidean.midpoint_gradient(total_weight(points, factors), gradient)
        for row, share in zip(history, shares, strict=True):
            self.of_histories[row] += share * in_sum
        return value

    def step(self) -> None:
        for row, gradient in self.of_items.items():
            row_step(self.items, row, gradient, self.settings, self.counters)
        if self.histories is not self.items:
            for row, gradient in self.of_histories.items():
                row_step(self.histories, row, gradient, self.settings, self.counters)
        if self.settings.masses:
            for row, slope in self.of_masses.items():
                mass_step(self.items, row, slope, self.settings)


def _history(events: Events, user: int) -> tuple[list[int], list[float]]:
    """The item rows of a customer and their weights, oldest first."""
    places = slice(events.offsets[user], events.offsets[user + 1])
    rows = events.items[places].tolist()
    return rows, events.weights[places].tolist() if len(events.weights) > 1 else [1.0] * len(rows)


def _labels(events: Events, user: int) -> list[bool]:
    """Which events of a customer are targets."""
    places = slice(events.offsets[user], events.offsets[user + 1])
    length = int(events.offsets[user + 1] - events.offsets[user])
    labels: list[bool] = events.labels[places].tolist() if len(events.labels) > 1 else [True] * length
    return labels


def _orders(events: Events, user: int) -> list[int] | None:
    """The number of the order of each event of a customer, 0 for the oldest; None without orders."""
    places = slice(events.offsets[user], events.offsets[user + 1])
    return events.orders[places].tolist() if len(events.orders) > 1 else None


def _negatives(items: Table, events: Events, settings: Settings, key: int) -> list[int]:
    return draw_negatives(settings.negative_count, len(items.points), key)
