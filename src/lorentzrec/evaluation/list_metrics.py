"""Metrics of recommended lists, whatever is held out: popularity, novelty, diversity, coverage and Gini coefficient.

As in `metrics.py`, items with equal scores have no order: where a list ends among tied items, each of them is in it
with the same probability, its `share`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import Floats, Integers
from lorentzrec.data.interactions import Interactions

LISTS_AT_ONCE = 64
"""Lists whose customers are summed at a time."""


class Listed(NamedTuple):
    """The items that may be in a list, as flat arrays."""

    indices: Integers
    items: Integers
    values: NDArray[np.floating[Any]]


class Lists(NamedTuple):
    """Lists of one length: items that are in them for sure, and tied items that share the slots left."""

    sure_places: Integers
    sure_items: Integers
    tied_indices: Integers
    tied_items: Integers
    sure: Integers
    """Sure items of each list."""
    tied: Integers
    """Tied items of each list."""
    share: Floats
    """The probability that a tied item is in the list."""

    @classmethod
    def of(cls, listed: Listed, last: NDArray[np.floating[Any]], k: int) -> Lists:
        """Lists of length k, whose last item has the score `last`: items above it are sure, and tied items share the
        slots that are left."""
        bounds = last[listed.indices]
        better, equal = listed.values > bounds, listed.values == bounds
        indices, tied_indices = listed.indices[better], listed.indices[equal]
        sure, tied = np.bincount(indices, minlength=len(last)), np.bincount(tied_indices, minlength=len(last))
        share = np.minimum((k - sure) / np.maximum(tied, 1), 1.0)
        return cls(indices, listed.items[better], tied_indices, listed.items[equal], sure, tied, share)

    def means(self, values: Floats) -> Floats:
        """The mean of a value of items over each list; 0 for an empty one.

        A list is empty if the history has every item and the item to find is unknown.
        """
        total: Floats = np.bincount(self.sure_places, values[self.sure_items], len(self.sure)).astype(float, copy=False)
        total += self.share * np.bincount(self.tied_indices, values[self.tied_items], len(self.sure))
        return total / np.maximum(self.sure + self.share * self.tied, np.finfo(float).tiny)

    def log_missed(self, item_count: int) -> Floats:
        """For each item, the logarithm of the probability that it is in no list."""
        with np.errstate(divide="ignore"):  # a share of 1 is sure too: log(0) = -inf
            logarithms = np.log1p(-self.share)[self.tied_indices]
        missed: Floats = np.bincount(self.tied_items, logarithms, item_count).astype(float, copy=False)
        missed[self.sure_items] = -np.inf
        return missed

    def appearances(self, item_count: int) -> Floats:
        """For each item, the expected number of lists that have it."""
        tied = np.bincount(self.tied_items, self.share[self.tied_indices], item_count)
        lists: Floats = np.bincount(self.sure_items, minlength=item_count) + tied.astype(float, copy=False)
        return lists


class CustomerSimilarity:
    """How similar items are: the cosine between the sets of customers who have them in their histories."""

    def __init__(self, histories: Interactions) -> None:
        from scipy import sparse

        customers = histories.incidence().T.tocsr()
        norms = np.sqrt(np.maximum(np.diff(customers.indptr), 1))
        self._customers = sparse.csr_array(sparse.diags_array(1 / norms) @ customers)
        self._squares = (np.diff(customers.indptr) > 0).astype(float)

    def diversity(self, lists: Lists) -> Floats:
        """1 - the mean similarity of two items of each list; 0 if there are fewer than two."""
        found = np.zeros(len(lists.sure))
        for start in range(0, len(found), LISTS_AT_ONCE):
            block = np.arange(start, min(start + LISTS_AT_ONCE, len(found)))
            sure, pairs_of_sure = self._sum(lists.sure_places, lists.sure_items, block)
            tied, pairs_of_tied = self._sum(lists.tied_indices, lists.tied_items, block)
            share = lists.share[block]
            drawn, of_tied = share * lists.tied[block], np.maximum(lists.tied[block] - 1, 1)
            share_of_pairs = share * np.maximum(drawn - 1, 0) / of_tied
            # |a + b|^2 = |a|^2 + 2 a.b + |b|^2, so squares of sums are sums over pairs.
            similar = (pairs_of_sure + share_of_pairs * pairs_of_tied) / 2
            similar += share * np.asarray((sure * tied).sum(axis=1))
            length = lists.sure[block] + drawn
            pairs = length * (length - 1) / 2
            found[block] = np.where(pairs > 0.5, 1 - similar / np.maximum(pairs, 0.5), 0)
        return found

    def _sum(self, indices: Integers, items: Integers, block: Integers) -> tuple[Any, Floats]:
        """The sums of the customers of the items of some lists, and their squares without those of single items."""
        from scipy import sparse

        inside = slice(*np.searchsorted(indices, [block[0], block[-1] + 1]))
        members = (np.ones(inside.stop - inside.start), (indices[inside] - block[0], items[inside]))
        lists = sparse.csr_array(members, (len(block), self._customers.shape[0]))
        sums = lists @ self._customers
        return sums, np.asarray((sums * sums).sum(axis=1)) - lists @ self._squares


def popularity_quantiles(item_counts: Integers) -> Floats:
    """The share of the catalogue with fewer training events than an item, half of those with equally many counted in.

    The mean over the catalogue is always 0.5.
    """
    _, inverse, equals = np.unique(item_counts, return_inverse=True, return_counts=True)
    quantiles: Floats = ((np.cumsum(equals) - equals / 2) / len(item_counts))[inverse]
    return quantiles


def novelties(item_counts: Integers) -> Floats:
    """The information in bits of each item, log2(all events / its events); an item without events counts as one."""
    novelty: Floats = np.log2(max(int(item_counts.sum()), 1) / np.maximum(item_counts, 1))
    return novelty


def coverage(log_missed: Floats) -> float:
    """The expected share of items in at least one list, over all orders of ties."""
    return float(np.mean(-np.expm1(log_missed)))


def gini(appearances: Floats) -> float:
    """How unequally items appear in lists: 0 if all equally often, near 1 if the lists show few items."""
    count, total = len(appearances), appearances.sum()
    if total == 0:
        return 0.0
    return float((2 * np.arange(1, count + 1) - count - 1) @ np.sort(appearances) / (count * total))
