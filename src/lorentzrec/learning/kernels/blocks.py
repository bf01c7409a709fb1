"""Blocks of customers that share their negatives: both models, all losses, one step per distinct point of a block.

A block is: queries (the customers' points at each target), targets, and one set of negatives. Scoring is a matrix
product per tile of queries; so are the gradients of queries and negatives. Gradients are taken at the points as they
stand when the block begins, summed over all the roles a point plays in it, and applied once.
"""

from __future__ import annotations

import numpy as np

from lorentzrec.learning.kernels.compiling import kernel
from lorentzrec.learning.kernels.histories import query_count, spread_gradients, write_queries
from lorentzrec.learning.kernels.numbers import GOLDEN, below, mix, permuted
from lorentzrec.learning.kernels.scores import FAR, MASKED, chain, distances_of, losses_of_row, score_of
from lorentzrec.learning.kernels.slots import slot_of
from lorentzrec.learning.kernels.steps import dot, row_step
from lorentzrec.learning.kernels.structures import HISTORY, RUN, SATURATED, TARGET, TILE

f32, u32, u64 = np.float32, np.uint32, np.uint64
_ZERO, _ONE = f32(0), f32(1)


@kernel
def _is_set(bits, item):
    return (bits[item >> 5] >> u32(item & 31)) & u32(1) != 0


@kernel
def _set(bits, item):
    bits[item >> 5] |= u32(1) << u32(item & 31)


@kernel
def _clear(bits, item):
    bits[item >> 5] &= ~(u32(1) << u32(item & 31))


@kernel
def draw_negatives(rows, bits, items, item_count, popular, key):
    """Fill `rows` with distinct items and set their bits, from nothing but the key; returns how many.

    Few of many are drawn and drawn again when taken; more than half are chosen in one pass over all (Knuth's
    selection sampling).
    """
    wanted = min(rows.shape[0], item_count)
    state = mix(key)
    if 2 * wanted > item_count:
        count = 0
        for item in range(item_count):
            state += GOLDEN
            if below(state, item_count - item) < wanted - count:
                rows[count] = item
                _set(bits, item)
                count += 1
        return wanted
    for place in range(wanted):
        tries = 0
        drawn = 0
        while True:
            state += GOLDEN
            # a popular item is the item of a random event; where nearly all that occur are taken, any item will do
            drawn = (
                np.int64(items[below(state, items.shape[0])]) if popular and tries < 64 else below(state, item_count)
            )
            tries += 1
            if not _is_set(bits, drawn):
                break
        rows[place] = drawn
        _set(bits, drawn)
    return wanted


@kernel
def _gather_negatives(items, events, settings, key, negatives):
    """Draw the block's negatives and copy their points together."""
    rows = negatives.rows
    draw_negatives(rows, negatives.bits, events.items, items.points.shape[0], settings.popular, key)
    for place in range(rows.shape[0]):
        negatives.places[rows[place]] = place
        for k in range(items.points.shape[1]):
            negatives.points[place, k] = items.points[rows[place], k]
        negatives.sizes[place] = (
            negatives.points[place, 0] if settings.curved else dot(negatives.points, place, negatives.points, place)
        )
    negatives.gradients[:] = _ZERO


@kernel
def _mask_history(first, last, owner, items, negatives, counters):
    """List the negatives that one customer has touched."""
    bits, masks, offsets = negatives.bits, negatives.masks, negatives.mask_offsets
    count = offsets[owner]
    for t in range(first, last):
        item = items[t]
        if (bits[u32(item) >> u32(5)] >> u32(item & 31)) & u32(1):  # written out: this line is met most often of all
            masks[count] = negatives.places[item]
            count += 1
            _clear(bits, item)  # so that a repeated item is listed once
    for m in range(offsets[owner], count):
        _set(bits, negatives.rows[masks[m]])
    if count - offsets[owner] == negatives.rows.shape[0]:
        counters[SATURATED] += 1
    offsets[owner + 1] = count


@kernel
def _mask(scores, start, value, queries, negatives):
    """Give the negatives that a customer has touched this score, in the tile of queries from `start` on."""
    for t in range(scores.shape[0]):
        owner = queries.owners[start + t]
        for m in range(negatives.mask_offsets[owner], negatives.mask_offsets[owner + 1]):
            scores[t, negatives.masks[m]] = value


@kernel
def _compare(count, items, settings, queries, positives, negatives, slots, tile, counters):
    """Score `count` queries against their positives and the negatives: the loss, the gradients of all three, and the
    number of slots in use."""
    total = 0.0
    used = 0
    targets = items.points
    size_of_all, width = negatives.points.shape
    flat_distance = settings.distance and not settings.curved
    for start in range(0, count, TILE):
        size = min(TILE, count - start)
        points, gradients = queries.points[start : start + size], queries.gradients[start : start + size]
        scores, slopes = tile.scores[:size], tile.slopes[:size]
        # <u, v> is the plain product with u's time coordinate turned
        points[:, 0] *= -_ONE
        np.dot(points, negatives.points.T, scores)
        points[:, 0] *= -_ONE
        if settings.distance:
            # far away for the time being, so that none of them is counted as coinciding with its query
            _mask(scores, start, FAR, queries, negatives)
            distances_of(scores, slopes, points, negatives.points, negatives.sizes, settings, counters)
        _mask(scores, start, MASKED, queries, negatives)
        for t in range(size):
            first, last = queries.ends[start + t - 1] if start + t > 0 else 0, queries.ends[start + t]
            for p in range(first, last):
                row = positives.targets[p]
                product = dot(points, t, targets, row)
                score, slope = score_of(product, points, t, targets, row, settings, counters)
                positives.scores[p], positives.slopes[p] = score, slope
            total += losses_of_row(scores, t, first, last, positives, tile.sums, settings)
            own = chain(scores, slopes, t, settings)
            gradients[t, :] = _ZERO
            for p in range(first, last):
                row = positives.targets[p]
                pull = positives.pulls[p] * positives.slopes[p]
                own += pull
                slot, used = slot_of(row, TARGET, used, slots)
                for k in range(width):
                    u, v = points[t, k], targets[row, k]
                    slots.gradients[slot, k] += pull * (u - v if flat_distance else u)
                    gradients[t, k] += pull * v
            if flat_distance:
                for k in range(width):
                    gradients[t, k] -= own * points[t, k]
        products = tile.products[:size]
        np.dot(scores, negatives.points, products)
        gradients += products
        products = tile.products[:size_of_all]
        np.dot(scores.T, points, products)
        negatives.gradients[:] += products
        if flat_distance:
            for k in range(size_of_all):
                negatives.gradients[k] -= scores[:, k].sum() * negatives.points[k]
    return total, used


@kernel
def _apply(histories, items, settings, used, negatives, slots, counters):
    """Add the negatives' gradients, step once per distinct row, and leave the workspace as it was found."""
    for place in range(negatives.rows.shape[0]):
        row = negatives.rows[place]
        slot, used = slot_of(row, TARGET, used, slots)
        for k in range(negatives.gradients.shape[1]):
            slots.gradients[slot, k] += negatives.gradients[place, k]
        _clear(negatives.bits, row)
    for slot in range(used):
        row = slots.rows[slot]
        if slots.sides[slot] == HISTORY:
            row_step(histories, row, slots.gradients, slot, settings, counters)
            slots.histories[row] = -1
        else:
            row_step(items, row, slots.gradients, slot, settings, counters)
            slots.targets[row] = -1


# --- symmetric: a block is some events of any customers


@kernel
def symmetric_steps(start, stop, rows, events, users, items, settings, key, workspace):
    """Blocks start..stop-1 of an epoch, each of `rows` events: runs of neighbours in an order that the key chooses.

    Returns the summed loss.
    """
    queries, positives, negatives, slots, tile, _, counters = workspace
    total = 0.0
    event_count = events.items.shape[0]
    run_count = -(-event_count // RUN)
    weighted = events.weights.shape[0] > 1
    for block in range(start, stop):
        _gather_negatives(items, events, settings, mix(key + u64(block) * GOLDEN), negatives)
        count = 0
        owner = -1
        for place in range(block * rows // RUN, min((block + 1) * rows // RUN, run_count)):
            first = permuted(place, run_count, key) * RUN
            user = np.searchsorted(events.offsets, first, side="right") - 1
            for event in range(first, min(first + RUN, event_count)):
                if event == first or event >= events.offsets[user + 1]:
                    while event >= events.offsets[user + 1]:
                        user += 1
                    owner += 1
                    begin, end = events.offsets[user], events.offsets[user + 1]
                    _mask_history(begin, end, owner, events.items, negatives, counters)
                queries.owners[count] = owner
                queries.customers[count] = user
                queries.ends[count] = count + 1
                positives.targets[count] = events.items[event]
                positives.weights[count] = events.weights[event] if weighted else _ONE
                for k in range(users.points.shape[1]):
                    queries.points[count, k] = users.points[user, k]
                count += 1
        loss, used = _compare(count, items, settings, queries, positives, negatives, slots, tile, counters)
        total += loss
        for t in range(count):
            slot, used = slot_of(queries.customers[t], HISTORY, used, slots)
            for k in range(queries.gradients.shape[1]):
                slots.gradients[slot, k] += queries.gradients[t, k]
        _apply(users, items, settings, used, negatives, slots, counters)
    return total


# --- asymmetric: a block is some customers, whole


@kernel
def asymmetric_steps(order, bounds, start, stop, events, histories, items, settings, key, workspace):
    """Blocks start..stop-1 of an epoch: block b is the customers order[bounds[b]:bounds[b + 1]]; the summed loss.

    Customers with fewer than two events have nothing to be predicted from: the caller leaves them out of `order`.
    """
    queries, positives, negatives, slots, tile, _, counters = workspace
    total = 0.0
    for block in range(start, stop):
        customers = order[bounds[block] : bounds[block + 1]]
        _gather_negatives(items, events, settings, mix(key + u64(customers[0]) * GOLDEN), negatives)
        count = 0
        for owner in range(customers.shape[0]):
            first, last = events.offsets[customers[owner]], events.offsets[customers[owner] + 1]
            own_key = mix(key + u64(customers[owner]) * GOLDEN)
            count = write_queries(first, last, owner, count, events, histories.points, settings, own_key, workspace)
            _mask_history(first, last, owner, events.items, negatives, counters)
        loss, used = _compare(count, items, settings, queries, positives, negatives, slots, tile, counters)
        total += loss
        row = 0
        for owner in range(customers.shape[0]):
            first, last = events.offsets[customers[owner]], events.offsets[customers[owner] + 1]
            used = spread_gradients(first, last, row, events, settings, used, workspace)
            row += query_count(last - first, settings)
        _apply(histories, items, settings, used, negatives, slots, counters)
    return total
