"""Customers as midpoints of their histories: the queries of one customer in linear time, and their gradients back.

Two kinds of queries. Prefixes: the targets of an order are predicted from the orders before it; where orders are not
used, every event is an order. Folds: a history without order is
cut at random, and the targets of each part are predicted from all the other parts. Events that are not targets are part
of histories all the same.
"""

from __future__ import annotations

import numpy as np

from lorentzrec.learning.kernels.compiling import inlined, kernel
from lorentzrec.learning.kernels.numbers import permuted
from lorentzrec.learning.kernels.steps import dot
from lorentzrec.learning.kernels.structures import HISTORY

f32, f64 = np.float32, np.float64
_ZERO, _ONE = f32(0), f32(1)


@kernel
def find_slot(row, side, used, slots):
    """The slot of a row's gradient in this block, set to zero on first use; and the number of slots in use."""
    slot_of_row = slots.histories if side == HISTORY else slots.targets
    slot = slot_of_row[row]
    if slot < 0:
        slot = used
        slot_of_row[row] = slot
        slots.rows[slot] = row
        slots.sides[slot] = side
        for k in range(slots.gradients.shape[1]):
            slots.gradients[slot, k] = _ZERO
        if slots.mass_gradients.shape[0] > 1:
            slots.mass_gradients[slot] = _ZERO
        used += 1
    return slot, used


@kernel
def write_queries(first, last, owner, count, events, points, settings, key, queries, positives, sums):
    """The queries and positives of one customer, from row `count` on; the new count."""
    queries.starts[owner] = count
    if settings.folded:
        count = _write_folds(first, last, owner, count, events, points, settings, key, queries, positives, sums)
    else:
        count = _write_prefixes(first, last, owner, count, events, points, settings, queries, positives, sums)
    queries.starts[owner + 1] = count
    return count


@kernel
def spread_gradients(first, last, owner, events, settings, used, slots, queries, positives, sums):
    """Pass the gradients of one customer's queries on to the points of the history; the new number of slots."""
    for q in range(queries.starts[owner], queries.starts[owner + 1]):
        _gradient_of_sum(q, settings.curved, queries.points, queries.gradients, queries.divisors)
    if settings.folded:
        return _spread_over_folds(owner, used, slots, queries, positives, sums)
    return _spread_over_prefixes(first, last, owner, events, settings.recency, used, slots, queries, sums)


@kernel
def add_point(points, item, weight, decay, sums, curved):
    """S <- decay S + weight x in float64, where the time part of x is computed again from its space part.

    Far from the origin -<S, S> is the small difference of two large squares, and the rounding of a time part to float32
    is larger than it.
    """
    time = sums[0, 0]
    squares = 0.0
    for k in range(sums.shape[1]):
        x = f64(points[item, k])
        sums[0, k] = decay * sums[0, k] + weight * x
        squares += x * x
    if curved:
        x = f64(points[item, 0])
        sums[0, 0] = decay * time + weight * np.sqrt(1.0 + (squares - x * x))


@kernel
def write_midpoint(sums, weight, row, curved, points, divisors):
    """The midpoint of a history from its sum: S / sqrt(-<S, S>), on the sheet by its lift; and in flat space S / W."""
    divisor = weight
    if curved:
        # -<S, S> >= W^2 for a sum of points with weights W in all; only rounding takes it below
        divisor = np.sqrt(max(-dot(sums, 0, sums, 0), weight * weight))
    divisors[row] = divisor
    factor = 1.0 / divisor
    squares = 0.0
    for k in range(sums.shape[1]):
        x = f32(factor * sums[0, k])
        points[row, k] = x
        squares += f64(x) * f64(x)
    if curved:
        x = f64(points[row, 0])
        points[row, 0] = np.sqrt(1.0 + (squares - x * x))


@inlined
def _starts_order(t, first, events):
    """Whether event t is the first of its order; where orders are not known, every event is an order."""
    return t == first or events.orders.shape[0] == 1 or events.orders[t] != events.orders[t - 1]


@kernel
def _write_prefixes(first, last, owner, count, events, points, settings, queries, positives, sums):
    """A running sum of the orders before it is the history of every order after the first."""
    weighted, labelled = events.weights.shape[0] > 1, events.labels.shape[0] > 1
    for k in range(sums.shape[1]):
        sums[0, k] = 0.0
    weight_sum = 0.0
    front = queries.offsets[count]
    for t in range(first, last):
        decay = 1.0
        if _starts_order(t, first, events):
            decay = f64(settings.recency)
            begin = front
            later = t
            while t > first and later < last and (later == t or not _starts_order(later, first, events)):
                if not labelled or events.labels[later]:
                    positives.targets[front] = events.items[later]
                    positives.weights[front] = events.weights[later] if weighted else _ONE
                    front += 1
                later += 1
            if front > begin:
                queries.owners[count] = owner
                queries.ends[count] = front
                queries.offsets[count + 1] = front
                write_midpoint(sums, weight_sum, count, settings.curved, queries.points, queries.divisors)
                count += 1
        weight = events.weights[t] if weighted else _ONE
        weight_sum = decay * weight_sum + weight
        add_point(points, events.items[t], f64(weight), decay, sums, settings.curved)
    return count


@kernel
def _write_folds(first, last, owner, count, events, points, settings, key, queries, positives, sums):
    """The history of a fold is the sum of all events less those of the fold.

    Within the entries of a query, targets are written from the front and the other events of the fold from the back.
    """
    weighted, labelled = events.weights.shape[0] > 1, events.labels.shape[0] > 1
    length = last - first
    folds = min(length, settings.folds)
    for k in range(sums.shape[1]):
        sums[0, k] = 0.0
    weight_sum = 0.0
    for t in range(first, last):
        weight = events.weights[t] if weighted else _ONE
        weight_sum += weight
        add_point(points, events.items[t], f64(weight), 1.0, sums, settings.curved)
    for k in range(sums.shape[1]):
        sums[1, k] = sums[0, k]
    for fold in range(folds):
        rest = weight_sum
        begin, end = fold * length // folds, (fold + 1) * length // folds
        front = queries.offsets[count]
        back = front + end - begin
        queries.offsets[count + 1] = back
        for card in range(begin, end):
            t = first + permuted(card, length, key)
            weight = events.weights[t] if weighted else _ONE
            if not labelled or events.labels[t]:
                index = front
                front += 1
            else:
                back -= 1
                index = back
            positives.targets[index] = events.items[t]
            positives.weights[index] = weight
            rest -= weight
            add_point(points, events.items[t], -f64(weight), 1.0, sums, settings.curved)
        queries.owners[count] = owner
        queries.ends[count] = front
        write_midpoint(sums, rest, count, settings.curved, queries.points, queries.divisors)
        for k in range(sums.shape[1]):
            sums[0, k] = sums[1, k]
        count += 1
    return count


@kernel
def _gradient_of_sum(row, curved, points, gradients, divisors):
    """Turn the gradient of a query into that of the sum it was made from: (h + <u, h> u) / n."""
    along = dot(points, row, gradients, row) if curved else _ZERO
    factor = _ONE / divisors[row]
    for k in range(gradients.shape[1]):
        gradients[row, k] = factor * (gradients[row, k] + along * points[row, k])


@kernel
def _spread_over_prefixes(first, last, owner, events, recency, used, slots, queries, sums):
    """The recurrence of the running sum backwards."""
    weighted, labelled = events.weights.shape[0] > 1, events.labels.shape[0] > 1
    width = sums.shape[1]
    row = queries.starts[owner + 1]
    for k in range(width):
        sums[0, k] = _ZERO
    predicted = False  # whether the order of event t has a target
    for t in range(last - 1, first - 1, -1):
        weight = events.weights[t] if weighted else _ONE
        slot, used = find_slot(events.items[t], HISTORY, used, slots)
        for k in range(width):
            slots.gradients[slot, k] += weight * sums[0, k]
        predicted |= not labelled or events.labels[t]
        if t > first and _starts_order(t, first, events):
            for k in range(width):
                sums[0, k] *= recency
            if predicted:
                row -= 1
                for k in range(width):
                    sums[0, k] += queries.gradients[row, k]
            predicted = False
    return used


@kernel
def _spread_over_folds(owner, used, slots, queries, positives, sums):
    """To each event the gradients of all folds but its own."""
    first, last = queries.starts[owner], queries.starts[owner + 1]
    width = sums.shape[1]
    for k in range(width):
        sums[0, k] = _ZERO
    for q in range(first, last):
        for k in range(width):
            sums[0, k] += queries.gradients[q, k]
    for q in range(first, last):
        for p in range(queries.offsets[q], queries.offsets[q + 1]):
            slot, used = find_slot(positives.targets[p], HISTORY, used, slots)
            for k in range(width):
                slots.gradients[slot, k] += positives.weights[p] * (sums[0, k] - queries.gradients[q, k])
    return used
