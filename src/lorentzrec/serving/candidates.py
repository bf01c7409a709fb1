"""The best of the candidates of many customers, by their exact scores.

Candidates are the items that an index finds near a query, and those that the memory boosts. `Ranker.best` does the same
for one customer, in NumPy; here it takes some ten microseconds instead of a millisecond.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Integers
from lorentzrec.geometry import FloatArray
from lorentzrec.learning.kernels.compiling import kernel
from lorentzrec.memory import SHARPNESS, empty_memory
from lorentzrec.model.ranking import Ranker, Rows

_FREE, _SEEN, _SCORED, _NEVER = (np.uint8(bit) for bit in (0, 1, 2, 4))
_NOT_SEEN, _NOT_SCORED = np.uint8(255 - _SEEN), np.uint8(255 - _SCORED)


def best_candidates(
    ranker: Ranker,
    queries: FloatArray,
    found: Integers,
    k: int,
    histories: Rows,
    offsets: Integers,
    event_weights: NDArray[Any] | None = None,
    never: Integers | None = None,
) -> tuple[Integers, FloatArray]:
    """(customers, k): the rows of the best items and their scores, best first, ties by row.

    The history of customer g is `histories[offsets[g]:offsets[g + 1]]`; its items are not recommended, and neither are
    those in `never`. Row -1 and score -inf everywhere if fewer than `k` of the items `found` for a customer are left.

    A boosted item that was not found is scored only if its boost makes up for the distance at which items are no longer
    found: that of the 2 k-th by points.
    """
    count, ages = len(ranker.item_points), np.repeat(offsets[1:], np.diff(offsets)) - 1 - np.arange(offsets[-1])
    memory = empty_memory(count, ordered=True) if ranker.memory is None else ranker.memory
    marks = np.full(count, _FREE)
    marks[[] if never is None else never] = _NEVER
    rows, scores = np.full((len(queries), k), -1), np.full((len(queries), k), -np.inf)
    _best(
        np.ascontiguousarray(queries),
        found,
        histories,
        offsets,
        memory.item_weights(ages, event_weights),
        ranker.item_points,
        (ranker.hyperbolic, ranker.by_distance),
        (memory.offsets, memory.columns, memory.values),
        (memory.ordered, memory.weight),
        (np.zeros(count), np.empty(count, np.int32), marks, np.empty(2 * k)),
        rows,
        scores,
    )
    return rows, scores


@kernel
def _best(queries, found, histories, offsets, weights, points, kind, memory, rule, scratch, rows, scores):
    sums, touched, marks, near = scratch
    neighbour_offsets, neighbours, values = memory
    ordered, weight = rule
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
            marks[history[i]] |= _SEEN

        left = 0
        near[:] = -np.inf
        for i in range(found.shape[1]):
            item = found[g, i]
            if item < 0 or marks[item] != _FREE:
                continue
            marks[item] = _SCORED
            left += 1
            score = _score_of(queries, g, points, item, kind)
            _insert_number(near, score)
            boost = weight * np.log1p(SHARPNESS * sums[item] / unit)
            _insert(rows, scores, g, item, score + boost)
        if left >= k:
            # Beyond what the index finds, no item scores more than this by its point.
            beyond = near[min(left, len(near)) - 1]
            least = _sum_for(scores[g, k - 1] - beyond, weight, unit)
            for i in range(boosted):
                item = touched[i]
                if marks[item] == _FREE and sums[item] >= least:
                    boost = weight * np.log1p(SHARPNESS * sums[item] / unit)
                    score = _score_of(queries, g, points, item, kind) + boost
                    if _insert(rows, scores, g, item, score):
                        least = _sum_for(scores[g, k - 1] - beyond, weight, unit)
        else:
            rows[g] = -1
            scores[g] = -np.inf

        for i in range(boosted):
            sums[touched[i]] = 0
        for i in range(found.shape[1]):
            if found[g, i] >= 0:
                marks[found[g, i]] &= _NOT_SCORED
        for i in range(len(history)):
            marks[history[i]] &= _NOT_SEEN


@kernel
def _score_of(queries, g, points, item, kind):
    """The score of an item for query g: `Ranker.score_points`."""
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
def _sum_for(boost, weight, unit):
    """The least sum of the memory with this boost."""
    return (np.expm1(boost / weight) / SHARPNESS) * unit if boost > 0 else 0.0


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
