"""Kernels for thousands of customers at a time; numba compiles them."""

from __future__ import annotations

from lorentzrec.learning.kernels.compiling import kernel


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
                position = 0
                while True:
                    child = 2 * position + 1
                    if child >= count:
                        break
                    if child + 1 < count and heap[child + 1] < heap[child]:
                        child += 1
                    if heap[child] >= score:
                        break
                    heap[position] = heap[child]
                    items[position] = items[child]
                    position = child
                heap[position] = score
                items[position] = rows[j]
