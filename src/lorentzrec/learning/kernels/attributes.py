"""Items with attributes: points that are normalised sums of an item's own vector and the vectors of its attributes.

The vectors of items and attributes are rows of one table, attributes after items, and it is the vectors that steps
move. The kernels of blocks see the composed points. A step begins with composing the points of its blocks' rows, the
rows divided among the threads, and the gradients of a block are passed on to the vectors before they are applied. Both
take the time of a few more rows per distinct item of a block; the kernels of blocks do not know of it.
"""

from __future__ import annotations

import numpy as np

from lorentzrec.learning.kernels.blocks import clear, draw_negatives, find_part
from lorentzrec.learning.kernels.compiling import fetch_add, kernel
from lorentzrec.learning.kernels.histories import add_point, write_midpoint
from lorentzrec.learning.kernels.numbers import DROPOUT, GOLDEN, NEGATIVES, key_for, mix
from lorentzrec.learning.kernels.steps import dot
from lorentzrec.learning.kernels.structures import HISTORY, NEITHER, TARGET

f32, f64, u64 = np.float32, np.float64, np.uint64
_ZERO, _ONE = f32(0), f32(1)


@kernel
def own_weight(row, side, attributes, key):
    """Whether an item has its own vector in this step, as its weight: 1 or 0."""
    chance = f32(mix(key + u64(2 * row + side) * GOLDEN) >> u64(40)) * f32(2.0**-24)
    return _ONE if chance >= attributes.dropouts[row] else _ZERO


@kernel
def compose(row, own, vectors, attributes, curved, composed, sums):
    """The point of one item: the normalised sum of its own vector, with weight `own`, and those of its attributes."""
    first, last = attributes.offsets[row], attributes.offsets[row + 1]
    for k in range(sums.shape[1]):
        sums[0, k] = 0.0
    total = f64(own)
    if own > _ZERO:
        add_point(vectors, row, f64(own), 1.0, sums, curved)
    for index in range(first, last):
        share = f64(attributes.shares[index])
        add_point(vectors, attributes.rows[index], share, 1.0, sums, curved)
        total += share
    write_midpoint(sums, total, row, curved, composed.points, composed.divisors)
    composed.own[row] = own


@kernel
def _compose_once(row, side, vectors, attributes, curved, key, number, composed, sums):
    if composed.stamps[row] != number:
        composed.stamps[row] = number
        compose(row, own_weight(row, side, attributes, key), vectors, attributes, curved, composed, sums)


@kernel
def compose_points(
    number, first, last, part, parts, order, bounds, events, histories, items, attributes, composed, settings, key, work
):
    """Compose the points of all rows of blocks first..last - 1 of an epoch, which are step `number`, in both sides.

    Only the rows of this part are composed, as in `apply_gradients`. `composed` is a pair, for histories and targets,
    with the same object twice where targets are shared.
    """
    own_key = key_for(key, DROPOUT, number)
    negatives, curved, item_count = work.negatives, settings.curved, composed[1].points.shape[0]
    for block in range(first, last):
        customers = order[bounds[block] : bounds[block + 1]]
        for index in range(customers.shape[0]):
            for t in range(events.offsets[customers[index]], events.offsets[customers[index] + 1]):
                row = events.items[t]
                if find_part(row, parts) == part:
                    for side in range(2):
                        vectors = histories.points if side == HISTORY else items.points
                        target = composed[0] if side == HISTORY else composed[1]
                        _compose_once(row, side, vectors, attributes, curved, own_key, number, target, work.sums)
        block_key = key_for(key, NEGATIVES, customers[0])
        draw_negatives(negatives.rows, negatives.bits, item_count, block_key)
        for index in range(negatives.rows.shape[0]):
            row = negatives.rows[index]
            clear(negatives.bits, row)
            if find_part(row, parts) == part:
                _compose_once(row, TARGET, items.points, attributes, curved, own_key, number, composed[1], work.sums)


@kernel
def pass_to_vectors(blocks, cursor, attributes, composed, curved, lookups, step):
    """Turn the gradients of blocks of a step, which are those of composed points, into those of vectors.

    Threads take the blocks 0..blocks - 1 from the cursor that they share. `lookups` are slots of attributes, one array
    for each side, all -1 between calls.
    """
    while True:
        block = fetch_add(cursor, 1)
        if block >= blocks:
            return
        _pass_block(block, attributes, composed, curved, lookups, step)


@kernel
def _pass_block(block, attributes, composed, curved, lookups, step):
    """h_S = (h + <x, h> x) / n of every row goes to its own vector and, in shares, to its attributes' vectors."""
    gradients, rows, sides = step.gradients[block], step.rows[block], step.sides[block]
    width, items = gradients.shape[1], attributes.dropouts.shape[0]
    count = step.used[block]
    used = count
    for slot in range(count):
        row, side = rows[slot], sides[slot]
        made = composed[0] if side == HISTORY else composed[1]
        lookup = lookups[0] if side == HISTORY else lookups[1]
        along = dot(made.points, row, gradients, slot) if curved else _ZERO
        factor = _ONE / made.divisors[row]
        for k in range(width):
            gradients[slot, k] = factor * (gradients[slot, k] + along * made.points[row, k])
        begin, end = attributes.offsets[row], attributes.offsets[row + 1]
        for index in range(begin, end):
            attribute = attributes.rows[index]
            found = lookup[attribute - items]
            if found < 0:
                found = used
                used += 1
                lookup[attribute - items] = found
                rows[found], sides[found] = attribute, side
                if step.mass_gradients.shape[1] > 1:
                    step.mass_gradients[block, found] = _ZERO
                for k in range(width):
                    gradients[found, k] = _ZERO
            share = attributes.shares[index]
            for k in range(width):
                gradients[found, k] += share * gradients[slot, k]
        if made.own[row] == _ZERO:
            sides[slot] = NEITHER
    for slot in range(count, used):
        lookup = lookups[0] if sides[slot] == HISTORY else lookups[1]
        lookup[rows[slot] - items] = -1
    step.used[block] = used
