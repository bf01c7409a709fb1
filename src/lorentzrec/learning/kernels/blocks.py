"""Blocks of customers that share their negatives: both models, all losses.

A block is: queries (the customers' points at each target), targets, and one set of negatives. Scoring is a matrix
product per tile of queries; so are the gradients of queries and negatives. The gradients of a block are taken at the
points as they are when its step begins, and summed over all the roles that a point has in the block.

A step is a fixed number of blocks. Threads compute the gradients of its blocks, in any order, from the same points.
Then `apply_gradients` moves the points: each row in the order of the blocks, the rows divided among the threads. So the
result does not depend on the number of threads.
"""

from __future__ import annotations

import numpy as np

from lorentzrec.learning.kernels.compiling import counted_kernel, fetch_add, inlined, kernel
from lorentzrec.learning.kernels.histories import find_slot, spread_gradients, write_queries
from lorentzrec.learning.kernels.numbers import (
    FOLDS,
    GOLDEN,
    NEGATIVES,
    ORDER,
    below,
    find_bit,
    key_for,
    mix,
    permuted,
)
from lorentzrec.learning.kernels.scores import FAR, MASKED, chain, find_distances, find_score, losses_of_row
from lorentzrec.learning.kernels.steps import dot, step_mass, step_rows
from lorentzrec.learning.kernels.structures import HISTORY, RUN, SATURATED, TARGET, TILE, Slots

f32, u32, u64 = np.float32, np.uint32, np.uint64
_ZERO, _ONE = f32(0), f32(1)


@kernel
def _set(bits, item):
    bits[item >> 5] |= u32(1) << u32(item & 31)


@kernel
def clear(bits, item):
    bits[item >> 5] &= ~(u32(1) << u32(item & 31))


@kernel
def draw_negatives(rows, bits, item_count, key):
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
    for index in range(wanted):
        state += GOLDEN
        drawn = below(state, item_count)
        while find_bit(bits[drawn >> 5], drawn) != 0:
            state += GOLDEN
            drawn = below(state, item_count)
        rows[index] = drawn
        _set(bits, drawn)
    return wanted


@kernel
def _gather_negatives(items, settings, key, negatives):
    """Draw the block's negatives and copy their points and masses together."""
    rows, points, curved = negatives.rows, items.points, settings.curved
    draw_negatives(rows, negatives.bits, points.shape[0], key)
    for position in range(rows.shape[0]):
        negatives.positions[rows[position]] = position
        for k in range(points.shape[1]):
            negatives.points[position, k] = points[rows[position], k]
            negatives.gradients[position, k] = _ZERO
        negatives.sizes[position] = (
            negatives.points[position, 0] if curved else dot(negatives.points, position, negatives.points, position)
        )
        if settings.masses:
            negatives.masses[position] = items.masses[rows[position]]
            negatives.mass_gradients[position] = _ZERO


@kernel
def _mask_history(first, last, owner, items, negatives, counters):
    """List the negatives that one customer has interacted with."""
    bits, masks, offsets = negatives.bits, negatives.masks, negatives.mask_offsets
    count = offsets[owner]
    for t in range(first, last):
        item = items[t]
        if find_bit(bits[item >> 5], item):
            masks[count] = negatives.positions[item]
            count += 1
            clear(bits, item)  # so that a repeated item is listed once
    for m in range(offsets[owner], count):
        _set(bits, negatives.rows[masks[m]])
    if count - offsets[owner] == negatives.rows.shape[0]:
        counters[SATURATED] += 1
    offsets[owner + 1] = count


@kernel
def _mask(scores, start, value, owners, masks, offsets):
    """Give the negatives that a customer has interacted with this score, in the tile of queries from `start` on."""
    for t in range(scores.shape[0]):
        owner = owners[start + t]
        for m in range(offsets[owner], offsets[owner + 1]):
            scores[t, masks[m]] = value


@counted_kernel
def _multiply(left, right, product):
    """The matrix product of two contiguous matrices or their transposes, by BLAS."""
    np.dot(left, right, product)


@kernel
def _add(totals, values):
    for i in range(totals.shape[0]):
        for k in range(totals.shape[1]):
            totals[i, k] += values[i, k]


@kernel
def _add_masses(scores, masses):
    for t in range(scores.shape[0]):
        for k in range(masses.shape[0]):
            scores[t, k] += masses[k]


@kernel
def _add_mass_gradients(derivatives, gradients):
    """A score rises with the mass of its item, so the derivatives by scores add up to those by masses."""
    for t in range(derivatives.shape[0]):
        for k in range(gradients.shape[0]):
            gradients[k] += derivatives[t, k]


@kernel
def _compare(count, items, settings, queries, positives, negatives, slots, tile, counters):
    """Score `count` queries against their positives and the negatives: the loss, the gradients of all three, and the
    number of slots in use."""
    total = 0.0
    used = 0
    targets, masses = items.points, items.masses
    size_of_all, width = negatives.points.shape
    flat_distance = settings.distance and not settings.curved
    for start in range(0, count, TILE):
        size = min(TILE, count - start)
        points, gradients = queries.points[start : start + size], queries.gradients[start : start + size]
        scores, slopes = tile.scores[:size], tile.slopes[:size]
        # <u, v> is the plain product with u's time coordinate turned
        for t in range(size):
            points[t, 0] = -points[t, 0]
        _multiply(points, negatives.points.T, scores)
        for t in range(size):
            points[t, 0] = -points[t, 0]
        if settings.distance:
            # far away for the time being, so that none of them is counted as coinciding with its query
            _mask(scores, start, FAR, queries.owners, negatives.masks, negatives.mask_offsets)
            find_distances(scores, slopes, points, negatives.points, negatives.sizes, settings, counters)
        if settings.masses:
            _add_masses(scores, negatives.masses)
        _mask(scores, start, MASKED, queries.owners, negatives.masks, negatives.mask_offsets)
        for t in range(size):
            first, last = queries.offsets[start + t], queries.ends[start + t]
            for p in range(first, last):
                row = positives.targets[p]
                product = dot(points, t, targets, row)
                score, slope = find_score(product, points, t, targets, row, settings, counters)
                if settings.masses:
                    score += masses[row]
                positives.scores[p], positives.slopes[p] = score, slope
            total += losses_of_row(scores, t, first, last, positives, tile, settings)
            if settings.masses:
                _add_mass_gradients(scores[t : t + 1], negatives.mass_gradients)
            own = chain(scores, slopes, t, settings)
            for k in range(width):
                gradients[t, k] = _ZERO
            for p in range(first, last):
                row = positives.targets[p]
                pull = positives.pulls[p] * positives.slopes[p]
                own += pull
                slot, used = find_slot(row, TARGET, used, slots)
                if settings.masses:
                    slots.mass_gradients[slot] += positives.pulls[p]
                for k in range(width):
                    u, v = points[t, k], targets[row, k]
                    slots.gradients[slot, k] += pull * (u - v if flat_distance else u)
                    gradients[t, k] += pull * v
            if flat_distance:
                for k in range(width):
                    gradients[t, k] -= own * points[t, k]
        products = tile.products[:size]
        _multiply(scores, negatives.points, products)
        _add(gradients, products)
        products = tile.products[:size_of_all]
        _multiply(scores.T, points, products)
        _add(negatives.gradients, products)
        if flat_distance:
            for k in range(size_of_all):
                total_pull = _ZERO
                for t in range(size):
                    total_pull += scores[t, k]
                for j in range(width):
                    negatives.gradients[k, j] -= total_pull * negatives.points[k, j]
    return total, used


@kernel
def _find_parts(workspace):
    """What both kinds of blocks use of a workspace."""
    return workspace.queries, workspace.positives, workspace.negatives, workspace.tile, workspace.counters


@kernel
def _find_slots(block, step, workspace):
    """The slots of one block of a step, with this thread's lookup arrays."""
    return Slots(
        step.gradients[block],
        step.mass_gradients[block],
        step.rows[block],
        step.sides[block],
        workspace.histories,
        workspace.targets,
    )


@kernel
def _finish(used, negatives, settings, slots):
    """Add the negatives' gradients to the slots, and reset the lookup arrays; the number of slots in use."""
    for position in range(negatives.rows.shape[0]):
        row = negatives.rows[position]
        slot, used = find_slot(row, TARGET, used, slots)
        for k in range(negatives.gradients.shape[1]):
            slots.gradients[slot, k] += negatives.gradients[position, k]
        if settings.masses:
            slots.mass_gradients[slot] += negatives.mass_gradients[position]
        clear(negatives.bits, row)
    for slot in range(used):
        if slots.sides[slot] == HISTORY:
            slots.histories[slots.rows[slot]] = -1
        else:
            slots.targets[slots.rows[slot]] = -1
    return used


@inlined
def find_part(row, parts):
    """The thread that moves a row: runs of 16 rows are divided by a multiplicative hash, since a modulus is slow."""
    return np.int64((u64(u32(u32(row >> 4) * u32(0x9E3779B9))) * u64(parts)) >> u64(32))


@kernel
def apply_gradients(blocks, part, parts, histories, items, settings, chosen, counters, step):
    """Move the points of a step of this many blocks: one step per row and block, in the order of the blocks.

    Only the rows of this part are moved: runs of 16 rows belong to one part, so that the optimiser's state of two parts
    does not share a cache line. `chosen` is scratch space.
    """
    for block in range(blocks):
        rows, sides = step.rows[block], step.sides[block]
        for side in range(2):
            count = 0
            for slot in range(step.used[block]):
                # without a branch, which could not be predicted
                chosen[count] = slot
                count += (sides[slot] == side) & (find_part(rows[slot], parts) == part)
            # one call: numba would compile another into the kernel a second time
            table = histories if side == HISTORY else items
            step_rows(table, rows, chosen[:count], step.gradients[block], settings, counters)
        if settings.masses:
            for slot in range(step.used[block]):
                # with attributes, slots of other vectors follow, and those of items may move no vector
                gradient = step.mass_gradients[block, slot]
                if gradient != _ZERO and find_part(rows[slot], parts) == part:
                    step_mass(items, rows[slot], gradient, settings)


@kernel
def symmetric_gradients(first, blocks, cursor, most, rows, events, users, items, settings, key, workspace, step):
    """`_symmetric_block` for blocks of a step, whose first is block `first` of the epoch.

    Threads take them in the order of `blocks`, from the cursor that they share; at most `most` of them per call.
    One call for several: unpacking the arguments takes a twentieth of the time of a block.
    """
    for _ in range(most):
        taken = fetch_add(cursor, 1)
        if taken >= blocks.shape[0]:
            return
        block = blocks[taken]
        _symmetric_block(first + block, rows, events, users, items, settings, key, workspace, step, block)


@kernel
def asymmetric_gradients(
    first, blocks, cursor, most, order, bounds, events, histories, items, settings, key, workspace, step
):
    """`_asymmetric_block` for blocks of a step, as `symmetric_gradients`."""
    for _ in range(most):
        taken = fetch_add(cursor, 1)
        if taken >= blocks.shape[0]:
            return
        block = blocks[taken]
        _asymmetric_block(first + block, order, bounds, events, histories, items, settings, key, workspace, step, block)


@kernel
def _symmetric_block(number, rows, events, users, items, settings, key, workspace, step, block):
    """Block `number` of an epoch, of `rows` targets of any customers: its loss and gradients, as a block of a step.

    Its targets are runs of neighbours in an order that the key chooses. `rows` is a multiple of RUN.
    """
    queries, positives, negatives, tile, counters = _find_parts(workspace)
    slots = _find_slots(block, step, workspace)
    weighted, labelled = events.weights.shape[0] > 1, events.labels.shape[0] > 1
    target_count = events.targets.shape[0] if labelled else events.items.shape[0]
    run_count = -(-target_count // RUN)
    own_key = key_for(key, NEGATIVES, number)
    _gather_negatives(items, settings, own_key, negatives)
    order_key = key_for(key, ORDER, 0)
    count = 0
    owner = -1
    for position in range(number * rows // RUN, min((number + 1) * rows // RUN, run_count)):
        first = permuted(position, run_count, order_key) * RUN
        user = -1
        for target in range(first, min(first + RUN, target_count)):
            event = events.targets[target] if labelled else target
            if user < 0 or event >= events.offsets[user + 1]:
                user = np.searchsorted(events.offsets, event, side="right") - 1
                owner += 1
                begin, end = events.offsets[user], events.offsets[user + 1]
                _mask_history(begin, end, owner, events.items, negatives, counters)
            queries.owners[count] = owner
            queries.customers[count] = user
            queries.ends[count] = count + 1
            queries.offsets[count + 1] = count + 1
            positives.targets[count] = events.items[event]
            positives.weights[count] = events.weights[event] if weighted else _ONE
            for k in range(users.points.shape[1]):
                queries.points[count, k] = users.points[user, k]
            count += 1
    step.losses[block], used = _compare(count, items, settings, queries, positives, negatives, slots, tile, counters)
    for t in range(count):
        slot, used = find_slot(queries.customers[t], HISTORY, used, slots)
        for k in range(queries.gradients.shape[1]):
            slots.gradients[slot, k] += queries.gradients[t, k]
    step.used[block] = _finish(used, negatives, settings, slots)


@kernel
def _asymmetric_block(number, order, bounds, events, histories, items, settings, key, workspace, step, block):
    """Block `number` of an epoch, the customers order[bounds[number]:bounds[number + 1]]: its loss and gradients, as a
    block of a step.

    The caller leaves customers without a target that has a history out of `order`.
    """
    queries, positives, negatives, tile, counters = _find_parts(workspace)
    slots = _find_slots(block, step, workspace)
    customers = order[bounds[number] : bounds[number + 1]]
    own_key = key_for(key, NEGATIVES, customers[0])
    _gather_negatives(items, settings, own_key, negatives)
    count = 0
    for owner in range(customers.shape[0]):
        first, last = events.offsets[customers[owner]], events.offsets[customers[owner] + 1]
        own_key = key_for(key, FOLDS, customers[owner])
        count = write_queries(
            first, last, owner, count, events, histories.points, settings, own_key, queries, positives, workspace.sums
        )
        _mask_history(first, last, owner, events.items, negatives, counters)
    step.losses[block], used = _compare(count, items, settings, queries, positives, negatives, slots, tile, counters)
    for owner in range(customers.shape[0]):
        first, last = events.offsets[customers[owner]], events.offsets[customers[owner] + 1]
        used = spread_gradients(
            first, last, owner, events, settings, used, slots, queries, positives, workspace.vectors
        )
    step.used[block] = _finish(used, negatives, settings, slots)
