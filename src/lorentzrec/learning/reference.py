"""Whole blocks of training, slowly: every compiled kernel has its twin here or in the modules named in `TWINS`.

Float64, one example after another, every history summed anew, every gradient by the chain rule as one would write it on
paper. A kernel may be clever; what it computes is what these lines compute. The arguments are those of the kernels,
without a workspace.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.geometry import FloatArray, euclidean, hyperboloid, midpoint
from lorentzrec.geometry.sums import total_weight, weighted_sum
from lorentzrec.learning import losses, optimisers, sampling
from lorentzrec.learning.kernels.structures import COINCIDENT, RUN, SATURATED, Events, Settings, Table
from lorentzrec.learning.losses import Geometry, LossName, ScoreKind
from lorentzrec.learning.optimisers import Counters, row_step
from lorentzrec.learning.sampling import GOLDEN, WORD, draw_negatives, folds, mix, permuted, unseen

Rows = NDArray[np.int64]
LOSSES: tuple[LossName, ...] = ("bpr", "wmrb", "softmax")


def triplet_steps(
    order: Rows,
    start: int,
    stop: int,
    events: Events,
    users: Table,
    items: Table,
    settings: Settings,
    key: int,
    counters: Counters,
) -> float:
    """Symmetric BPR over the customers order[start:stop]: three steps for every (customer, item, unseen item); the
    summed loss."""
    total = 0.0
    item_count = len(items.points)
    for user in order[start:stop].tolist():
        rows, weights = _history(events, user)
        if len(set(rows)) == item_count:
            counters[SATURATED] += 1
            continue
        state = mix(key + user * GOLDEN & WORD)
        for item, weight in zip(rows, weights, strict=True):
            for _ in range(settings.negative_count):
                other, state = unseen(state, set(rows), events.items, item_count, settings.popular)
                block = _Block(users, items, [other], settings, counters)
                value, gradient = block.compare(users.points[user], item, weight, [])
                block.of_histories[user] += gradient
                total += value
                block.step()
    return total


def symmetric_steps(
    start: int,
    stop: int,
    rows: int,
    events: Events,
    users: Table,
    items: Table,
    settings: Settings,
    key: int,
    counters: Counters,
) -> float:
    """Blocks start..stop-1 of an epoch, each of `rows` events: runs of neighbours in an order that the key chooses.

    Returns the summed loss.
    """
    total = 0.0
    event_count = len(events.items)
    run_count = -(-event_count // RUN)
    runs = rows // RUN
    for number in range(start, stop):
        block = _Block(users, items, _negatives(items, events, settings, key + number * GOLDEN), settings, counters)
        for place in range(number * runs, min(number * runs + runs, run_count)):
            first = permuted(place, run_count, key) * RUN
            before = None
            for event in range(first, min(first + RUN, event_count)):
                user = int(np.flatnonzero(events.offsets <= event)[-1])
                history, weights = _history(events, user)
                if user != before:
                    block.note_saturation(history)
                before = user
                weight = weights[event - int(events.offsets[user])]
                value, gradient = block.compare(users.points[user], int(events.items[event]), weight, history)
                block.of_histories[user] += gradient
                total += value
        block.step()
    return total


def asymmetric_steps(
    order: Rows,
    bounds: Rows,
    start: int,
    stop: int,
    events: Events,
    histories: Table,
    items: Table,
    settings: Settings,
    key: int,
    counters: Counters,
) -> float:
    """Blocks start..stop-1 of an epoch: block b is the customers order[bounds[b]:bounds[b + 1]]; the summed loss.

    Every event with a history is a target. Its history is all events before it, weighed down by the recency with every
    step back, or all events outside its fold; the customer is the midpoint of that.
    """
    total = 0.0
    for number in range(start, stop):
        customers = order[bounds[number] : bounds[number + 1]].tolist()
        negatives = _negatives(items, events, settings, key + customers[0] * GOLDEN)
        block = _Block(histories, items, negatives, settings, counters)
        for customer in customers:
            rows, weights = _history(events, customer)
            block.note_saturation(rows)
            for row in rows:
                block.of_histories[row] += 0.0  # all points of a block step once, also where nothing pulls at them
            for target, others, shares in histories_of(weights, settings, key + customer * GOLDEN):
                history = [rows[place] for place in others]
                total += block.compare_history(history, shares, rows[target], weights[target], rows)
        block.step()
    return total


def histories_of(weights: list[float], settings: Settings, key: int) -> list[tuple[int, list[int], list[float]]]:
    """Each target of a customer with the places of its history and their weights, from the weights of all events."""
    length = len(weights)
    if settings.leave_one_out:
        fold = folds(length, settings.folds, mix(key & WORD))
        others = [[place for place in range(length) if fold[place] != fold[target]] for target in range(length)]
        return [(target, rest, [weights[place] for place in rest]) for target, rest in enumerate(others)]
    decay = float(settings.recency)
    return [
        (target, list(range(target)), [weights[place] * decay ** (target - 1 - place) for place in range(target)])
        for target in range(1, length)
    ]


class _Block:
    """Events that are learned from at once: gradients at the points as they stand, summed for each row, then one step
    for each row."""

    def __init__(
        self, histories: Table, items: Table, negatives: list[int], settings: Settings, counters: Counters
    ) -> None:
        self.histories, self.items, self.negatives = histories, items, negatives
        self.settings, self.counters = settings, counters
        self.geometry: Geometry = "hyperboloid" if settings.curved else "euclidean"
        self.kind: ScoreKind = "distance" if settings.distance else "inner"

        def zeros() -> FloatArray:
            return np.zeros(items.points.shape[1])

        self.of_items: defaultdict[int, FloatArray] = defaultdict(zeros, {row: zeros() for row in negatives})
        self.of_histories = self.of_items if histories is items else defaultdict(zeros)

    def note_saturation(self, seen: Collection[int]) -> None:
        if set(self.negatives) <= set(seen):
            self.counters[SATURATED] += 1

    def compare(self, query: FloatArray, target: int, weight: float, seen: Collection[int]) -> tuple[float, FloatArray]:
        """The loss of one target against the negatives the customer has not touched, and the gradient in the customer's
        point."""
        rows = [target, *(row for row in self.negatives if row not in seen)]
        points = self.items.points[rows]
        settings = self.settings
        value, slopes = losses.loss(
            LOSSES[settings.loss],
            losses.score(self.geometry, self.kind, query, points),
            scale=float(settings.scale),
            margin=float(settings.margin),
            weight=weight,
        )
        self.counters[COINCIDENT] += losses.coincide(self.geometry, self.kind, query, points).sum()
        in_query, in_items = losses.score_gradients(self.geometry, self.kind, query, points)
        for row, gradient in zip(rows, slopes[:, None] * in_items, strict=True):
            self.of_items[row] += gradient
        return value, slopes @ in_query

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


def _history(events: Events, user: int) -> tuple[list[int], list[float]]:
    """The item rows of a customer and their weights, oldest first."""
    places = slice(events.offsets[user], events.offsets[user + 1])
    rows = events.items[places].tolist()
    return rows, events.weights[places].tolist() if len(events.weights) > 1 else [1.0] * len(rows)


def _negatives(items: Table, events: Events, settings: Settings, key: int) -> list[int]:
    return draw_negatives(settings.negative_count, len(items.points), events.items, settings.popular, mix(key & WORD))


def cosh_and_sinhc(squared: FloatArray) -> tuple[FloatArray, FloatArray]:
    """cosh(t) and sinh(t) / t from t^2; the ratio is 1 at 0."""
    length = np.sqrt(squared)
    return np.cosh(length), np.divide(np.sinh(length), length, out=np.ones_like(length), where=length != 0)


def chain(derivatives: FloatArray, slopes: FloatArray) -> tuple[FloatArray, float]:
    """The derivatives by inner products, from those by scores; and their sum."""
    products = derivatives * slopes
    return products, float(products.sum())


TWINS: dict[str, Callable[..., Any]] = {
    "mix": sampling.mix,
    "below": sampling.below,
    "permuted": sampling.permuted,
    "draw_negatives": sampling.draw_negatives,
    "unseen": sampling.unseen,
    "is_finite": np.isfinite,
    "fast_exp": np.exp,
    "fast_log": np.log,
    "cosh_and_sinhc": cosh_and_sinhc,
    "dot": hyperboloid.minkowski_dot,
    "score_of": losses.score,
    "distances_of": losses.score,
    "offset_of": losses.score_gradients,
    "losses_of_row": losses.loss,
    "chain": chain,
    "pull_to_origin": losses.penalty,
    "clipping_of": optimisers.clipping_of,
    "capped": optimisers.capped,
    "step_factor": optimisers.row_step,
    "shrink_of": optimisers.shrink_of,
    "time_of": hyperboloid.lift,
    "row_step": optimisers.row_step,
    "slot_of": dict.setdefault,
    "query_count": histories_of,
    "write_queries": histories_of,
    "spread_gradients": histories_of,
    "triplet_steps": triplet_steps,
    "symmetric_steps": symmetric_steps,
    "asymmetric_steps": asymmetric_steps,
}
"""The function that says what the kernel of this name computes."""
