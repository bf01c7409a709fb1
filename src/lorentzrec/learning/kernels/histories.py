"""Customers as midpoints of their histories: the queries of one customer in linear time, and their gradients back.

Two ways to ask what a history tells. Prefixes: each item is to be found from those before it. Folds: a history without
order is cut at random, and the items of each part are to be found from all the others.
"""

from __future__ import annotations

import numpy as np

from lorentzrec.learning.kernels.compiling import kernel
from lorentzrec.learning.kernels.numbers import permuted
from lorentzrec.learning.kernels.slots import slot_of
from lorentzrec.learning.kernels.steps import dot
from lorentzrec.learning.kernels.structures import HISTORY

f32 = np.float32
_ZERO, _ONE = f32(0), f32(1)


@kernel
def query_count(length, settings):
    """Queries that a history of this length makes."""
    return min(length, settings.folds) if settings.leave_one_out else length - 1


@kernel
def write_queries(first, last, owner, count, events, points, settings, key, workspace):
    """The queries and positives of one customer, from row `count` on; the new count."""
    if settings.leave_one_out:
        return _write_folds(first, last, owner, count, events, points, settings, key, workspace)
    return _write_prefixes(first, last, owner, count, events, points, settings, workspace)


@kernel
def spread_gradients(first, last, row, events, settings, used, workspace):
    """Hand the gradients of one customer's queries, from `row` on, to the points of the history; the new number of
    slots."""
    for q in range(row, row + query_count(last - first, settings)):
        _gradient_of_sum(q, settings, workspace.queries)
    if settings.leave_one_out:
        return _spread_over_folds(last - first, row, settings, used, workspace)
    return _spread_over_prefixes(first, last, row, events, settings, used, workspace)


@kernel
def _begin_of(row, queries):
    """Where the positives of a query begin."""
    return queries.ends[row - 1] if row > 0 else 0


@kernel
def _write_query(sums, place, weight, row, settings, queries):
    """The midpoint of a history from its sum: S / sqrt(-<S, S>), and in flat space S / W."""
    divisor = weight
    if settings.curved:
        # -<S, S> >= W^2 for a sum of points with weights W in all; only rounding, or a torn row, takes it below
        divisor = np.sqrt(max(-dot(sums, place, sums, place), weight * weight))
    queries.divisors[row] = divisor
    for k in range(sums.shape[1]):
        queries.points[row, k] = sums[place, k] / divisor


@kernel
def _write_prefixes(first, last, owner, count, events, points, settings, workspace):
    """A running sum is the history of every event after the first."""
    queries, positives, sums = workspace.queries, workspace.positives, workspace.vectors
    weighted = events.weights.shape[0] > 1
    sums[0, :] = _ZERO
    weight_sum = _ZERO
    for t in range(first, last):
        weight = events.weights[t] if weighted else _ONE
        item = events.items[t]
        if t > first:
            queries.owners[count] = owner
            queries.ends[count] = count + 1
            positives.targets[count] = item
            positives.weights[count] = weight
            _write_query(sums, 0, weight_sum, count, settings, queries)
            count += 1
        weight_sum = settings.recency * weight_sum + weight
        for k in range(sums.shape[1]):
            sums[0, k] = settings.recency * sums[0, k] + weight * points[item, k]
    return count


@kernel
def _write_folds(first, last, owner, count, events, points, settings, key, workspace):
    """The history of a fold is the sum of all events less those of the fold."""
    queries, positives, sums = workspace.queries, workspace.positives, workspace.vectors
    weighted = events.weights.shape[0] > 1
    length = last - first
    folds = query_count(length, settings)
    sums[0, :] = _ZERO
    weight_sum = _ZERO
    for t in range(first, last):
        weight = events.weights[t] if weighted else _ONE
        weight_sum += weight
        for k in range(sums.shape[1]):
            sums[0, k] += weight * points[events.items[t], k]
    place = _begin_of(count, queries)
    for fold in range(folds):
        rest = weight_sum
        for k in range(sums.shape[1]):
            sums[1, k] = sums[0, k]
        for card in range(fold * length // folds, (fold + 1) * length // folds):
            t = first + permuted(card, length, key)
            weight = events.weights[t] if weighted else _ONE
            positives.targets[place] = events.items[t]
            positives.weights[place] = weight
            rest -= weight
            for k in range(sums.shape[1]):
                sums[1, k] -= weight * points[events.items[t], k]
            place += 1
        queries.owners[count] = owner
        queries.ends[count] = place
        _write_query(sums, 1, rest, count, settings, queries)
        count += 1
    return count


@kernel
def _gradient_of_sum(row, settings, queries):
    """Turn the gradient of a query into that of the sum it was made from: (h + <u, h> u) / n."""
    points, gradients = queries.points, queries.gradients
    along = dot(points, row, gradients, row) if settings.curved else _ZERO
    for k in range(gradients.shape[1]):
        gradients[row, k] = (gradients[row, k] + along * points[row, k]) / queries.divisors[row]


@kernel
def _spread_over_prefixes(first, last, row, events, settings, used, workspace):
    """The recurrence of the running sum backwards."""
    queries, slots, sums = workspace.queries, workspace.slots, workspace.vectors
    weighted = events.weights.shape[0] > 1
    width = sums.shape[1]
    sums[0, :] = _ZERO
    for t in range(last - 1, first - 1, -1):
        weight = events.weights[t] if weighted else _ONE
        slot, used = slot_of(events.items[t], HISTORY, used, slots)
        for k in range(width):
            slots.gradients[slot, k] += weight * sums[0, k]
        if t > first:
            for k in range(width):
                sums[0, k] = queries.gradients[row + t - first - 1, k] + settings.recency * sums[0, k]
    return used


@kernel
def _spread_over_folds(length, row, settings, used, workspace):
    """To each event the gradients of all folds but its own."""
    queries, positives, slots, sums = workspace.queries, workspace.positives, workspace.slots, workspace.vectors
    width = sums.shape[1]
    folds = query_count(length, settings)
    sums[0, :] = _ZERO
    for q in range(row, row + folds):
        for k in range(width):
            sums[0, k] += queries.gradients[q, k]
    for q in range(row, row + folds):
        for p in range(_begin_of(q, queries), queries.ends[q]):
            slot, used = slot_of(positives.targets[p], HISTORY, used, slots)
            for k in range(width):
                slots.gradients[slot, k] += positives.weights[p] * (sums[0, k] - queries.gradients[q, k])
    return used
