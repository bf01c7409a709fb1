"""Ranking metrics, exact under ties.

Items with equal scores have no order, so each metric is its expected value over all orders of equal scores. An
item with `above` better candidates and `tied` equal ones (itself among them) is at each of the ranks above + 1 ...
above + tied with the same probability, and everything below follows from that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lorentzrec.data.arrays import Floats, Integers


class Ranks(NamedTuple):
    """The ranks of the held-out items of some customers. An item missing from the first three arrays is never found."""

    owners: Integers
    """The customer of each item, from 0, ascending."""
    above: Integers
    """Candidates with a higher score."""
    tied: Integers
    """Candidates with the same score, the item itself among them."""
    positives: Integers
    """For each customer, the number of items to find, including those missing from the arrays above."""


def hit_rate(ranks: Ranks, k: int) -> Floats:
    """HR@k: the probability that at least one held-out item is among the first k."""
    return 1.0 - _all_missed(ranks, np.array([k]))[:, 0]


def recall(ranks: Ranks, k: int) -> Floats:
    """Recall@k: held-out items among the first k, over all held-out items."""
    return _expected_sum(ranks, k, np.ones(k)) / ranks.positives


def ndcg(ranks: Ranks, k: int) -> Floats:
    """NDCG@k: the sum of 1 / log2(rank + 1) over held-out items among the first k, over the same sum of a perfect list.

    The perfect list has min(k, positives) held-out items at its head.
    """
    discounts = 1.0 / np.log2(np.arange(2, k + 2))
    ideal: Floats = np.cumsum(discounts)[np.minimum(k, ranks.positives) - 1]
    return _expected_sum(ranks, k, discounts) / ideal


def reciprocal_rank(ranks: Ranks, k: int) -> Floats:
    """MRR@k: 1 / rank of the first held-out item, 0 if it is not among the first k.

    The first one is at rank r with probability HR@r - HR@(r-1), so the expectation is a sum over hit rates.
    """
    hits = 1.0 - _all_missed(ranks, np.arange(k + 1))
    return np.diff(hits, axis=1) @ (1.0 / np.arange(1, k + 1))


def precision(ranks: Ranks, k: int) -> Floats:
    """Precision@k: held-out items among the first k, over k."""
    return _expected_sum(ranks, k, np.ones(k)) / k


def average_precision(ranks: Ranks, k: int) -> Floats:
    """MAP@k: the sum of precision@rank over held-out items among the first k, over min(k, positives).

    In a tie group with h held-out items of t, whose first position is a + 1 and which comes after H held-out items,
    position r has one with probability h / t. Before it are then H + (r - a - 1) (h - 1) / (t - 1) others, in
    expectation.
    """
    if len(ranks.owners) == 0:
        return np.zeros(len(ranks.positives))
    order, starts, sizes = _tie_groups(ranks)
    owners, above, tied = (column[order] for column in ranks[:3])
    group_starts, held = np.repeat(starts, sizes), np.repeat(sizes, sizes)
    before = group_starts - np.searchsorted(owners, owners)
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, k + 1))])
    first, last = np.minimum(above, k), np.minimum(above + tied, k)
    inverse = harmonic[last] - harmonic[first]
    earlier_positions = last - first - (above + 1) * inverse  # the sum of (r - a - 1) / r over positions of the group
    within = (held - 1) / np.maximum(tied - 1, 1) * earlier_positions
    gained = ((1 + before) * inverse + within) / tied
    return np.bincount(owners, gained, len(ranks.positives)) / np.minimum(k, ranks.positives)


METRICS = {
    "hr": hit_rate,
    "recall": recall,
    "ndcg": ndcg,
    "mrr": reciprocal_rank,
    "precision": precision,
    "map": average_precision,
}
"""What is computed from ranks, for each customer."""


def _tie_groups(ranks: Ranks) -> tuple[Integers, Integers, Integers]:
    """The order of the items by customer and rank; where groups of tied items begin in it, and their sizes."""
    order = np.lexsort((ranks.above, ranks.owners))
    starts = np.flatnonzero(np.diff(ranks.owners[order], prepend=-1) | np.diff(ranks.above[order], prepend=-1))
    return order, starts, np.diff(starts, append=len(order))


def _expected_sum(ranks: Ranks, k: int, gains: Floats) -> Floats:
    """For each customer, the sum over held-out items of E[gains[rank - 1]], gains beyond rank k being 0."""
    total = np.concatenate([[0.0], np.cumsum(gains)])
    gained = total[np.minimum(k, ranks.above + ranks.tied)] - total[np.minimum(k, ranks.above)]
    return np.bincount(ranks.owners, gained / ranks.tied, len(ranks.positives)).astype(np.float64, copy=False)


def _all_missed(ranks: Ranks, cutoffs: Integers) -> Floats:
    """(customers, cutoffs): the probability that no held-out item is among the first `cutoff`.

    A cutoff gives each tie group `slots` of its `tied` positions. Its held-out items miss them one after another: the
    i-th (from 0) falls on one of the tied - i positions left, of which tied - slots - i are behind the cutoff. Their
    product is the hypergeometric C(tied - held_out, slots) / C(tied, slots).
    """
    missed = np.ones((len(ranks.positives), len(cutoffs)))
    if len(ranks.owners) == 0:
        return missed
    order, starts, sizes = _tie_groups(ranks)
    owners, above, tied = (column[order] for column in ranks[:3])
    earlier = np.arange(len(order)) - np.repeat(starts, sizes)
    slots = np.clip(cutoffs - above[:, None], 0, tied[:, None])
    behind = np.maximum(tied[:, None] - slots - earlier[:, None], 0)
    present, first = np.unique(owners, return_index=True)
    missed[present] = np.multiply.reduceat(behind / (tied - earlier)[:, None], first, axis=0)
    return missed
