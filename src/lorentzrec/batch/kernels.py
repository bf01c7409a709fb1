"""Kernels for thousands of customers at a time; numba compiles them."""

from __future__ import annotations

import numpy as np

from lorentzrec.learning.kernels.compiling import kernel

FREE, SEEN, SCORED, NEVER = (np.uint8(bit) for bit in (0, 1, 2, 4))
"""Marks of items: may be recommended; in the history; scored already; excluded for everybody."""
_NOT_SEEN, _NOT_SCORED = np.uint8(255 - SEEN), np.uint8(255 - SCORED)


@kernel
def keep_best(given, owners, rows, scores, found):
    """Put the scores of a list, a row for each of its queries, into the heaps of the queries."""
    count = scores.shape[1]
    for i in range(len(owners)):
        heap = scores[owners[i]]
        items = found[owners[i]]
        for j in range(len(rows)):
            score = given[i, j]
            if score > heap[0]:
                place = 0
                while True:
                    child = 2 * place + 1
                    if child >= count:
                        break
                    if child + 1 < count and heap[child + 1] < heap[child]:
                        child += 1
                    if heap[child] >= score:
                        break
                    heap[place] = heap[child]
                    items[place] = items[child]
                    place = child
                heap[place] = score
                items[place] = rows[j]


@kernel
def rank_candidates(
    queries, found, histories, offsets, weights, points, kind, memory, rule, repeats, seen, scratch, rows, scores
):
    """Write the rows and scores of the best of each query's candidates, and of the items that its history boosts.

    kind: hyperbolic, by distance. rule: of the memory, whether it is ordered, its weight and sharpness. repeats: for
    each query, the items that were bought before, with their boosts. seen: the mark of items of the history, `FREE` if
    they may be recommended. scratch: zeros, again zeros and marks per item, which are restored, room for items, and for
    the best scores by points.
    """
    sums, added, touched, marks, near = scratch
    repeat_offsets, repeat_items, repeat_boosts = repeats
    neighbour_offsets, neighbours, values = memory
    ordered, weight, sharpness = rule
    k = rows.shape[1]
    for g in range(len(queries)):
        history = histories[offsets[g] : offsets[g + 1]]
        boosted = 0
        greatest = 0.0
        for i in range(len(history)):
            item = history[i]
            share = weights[offsets[g] + i]
            if share == 0:
                continue
            for pair in range(neighbour_offsets[item], neighbour_offsets[item + 1]):
                other = neighbours[pair]
                if sums[other] == 0:
                    touched[boosted] = other
                    boosted += 1
                sums[other] += share * values[pair]
                greatest = max(greatest, sums[other])
        unit = 1.0 if ordered or greatest == 0 else greatest
        for i in range(len(history)):
            marks[history[i]] |= seen
        for i in range(repeat_offsets[g], repeat_offsets[g + 1]):
            added[repeat_items[i]] = repeat_boosts[i]

        left = 0
        near[:] = -np.inf
        for i in range(found.shape[1]):
            item = found[g, i]
            if item < 0 or marks[item] != FREE:
                continue
            marks[item] = SCORED
            left += 1
            score = _score_of(queries, g, points, item, kind)
            _insert_number(near, score)
            boost = weight * np.log1p(sharpness * sums[item] / unit) + added[item]
            _insert(rows, scores, g, item, score + boost)
        if left >= k:
            for i in range(repeat_offsets[g], repeat_offsets[g + 1]):
                item = repeat_items[i]
                if marks[item] == FREE:
                    marks[item] = SCORED
                    boost = weight * np.log1p(sharpness * sums[item] / unit) + added[item]
                    _insert(rows, scores, g, item, _score_of(queries, g, points, item, kind) + boost)
            # Beyond what the index finds, no item scores more than this by its point.
            beyond = near[min(left, len(near)) - 1]
            least = _sum_for(scores[g, k - 1] - beyond, unit, rule)
            for i in range(boosted):
                item = touched[i]
                if marks[item] == FREE and sums[item] >= least:
                    boost = weight * np.log1p(sharpness * sums[item] / unit)
                    score = _score_of(queries, g, points, item, kind) + boost
                    if _insert(rows, scores, g, item, score):
                        least = _sum_for(scores[g, k - 1] - beyond, unit, rule)
        else:
            rows[g] = -1
            scores[g] = -np.inf

        for i in range(boosted):
            sums[touched[i]] = 0
        for i in range(found.shape[1]):
            if found[g, i] >= 0:
                marks[found[g, i]] &= _NOT_SCORED
        for i in range(repeat_offsets[g], repeat_offsets[g + 1]):
            added[repeat_items[i]] = 0
            marks[repeat_items[i]] &= _NOT_SCORED
        for i in range(len(history)):
            marks[history[i]] &= _NOT_SEEN


@kernel
def _score_of(queries, g, points, item, kind):
    """The score of an item for query g: `Space.score_points`."""
    hyperbolic, by_distance = kind
    squared = 0.0
    if hyperbolic:
        cross = 0.0
        norm = 0.0
        for axis in range(1, queries.shape[1]):
            here, there = queries[g, axis], np.float64(points[item, axis])
            squared += (there - here) * (there - here)
            cross += (there - here) * (there + here)
            norm += there * there
        time = cross / (queries[g, 0] + np.sqrt(1 + norm))
        squared = max(squared - time * time, 0.0)
        return -2 * np.arcsinh(np.sqrt(squared) / 2) if by_distance else -1 - squared / 2
    product = 0.0
    for axis in range(queries.shape[1]):
        here, there = queries[g, axis], np.float64(points[item, axis])
        squared += (there - here) * (there - here)
        product += here * there
    return -np.sqrt(squared) if by_distance else product


@kernel
def _sum_for(boost, unit, rule):
    """The least sum of the memory with this boost."""
    _, weight, sharpness = rule
    return np.expm1(boost / weight) / sharpness * unit if boost > 0 else 0.0


@kernel
def _insert(rows, scores, g, item, score):
    """Put an item in its place among the best of customer g; False if it is not one of them."""
    place = rows.shape[1]
    while place > 0 and (score > scores[g, place - 1] or (score == scores[g, place - 1] and item < rows[g, place - 1])):
        place -= 1
    for later in range(rows.shape[1] - 1, place, -1):
        rows[g, later] = rows[g, later - 1]
        scores[g, later] = scores[g, later - 1]
    if place == rows.shape[1]:
        return False
    rows[g, place] = item
    scores[g, place] = score
    return True


@kernel
def _insert_number(numbers, number):
    """Put a number in its place among the greatest."""
    place = len(numbers)
    while place > 0 and number > numbers[place - 1]:
        place -= 1
    for later in range(len(numbers) - 1, place, -1):
        numbers[later] = numbers[later - 1]
    if place < len(numbers):
        numbers[place] = number
