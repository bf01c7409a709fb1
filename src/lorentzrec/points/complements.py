"""What is bought together: weighted counts of the orders that have two items, which outfits are made by.

    t_ij = sum over the orders o with i and j of w_o,    w_o = 2^(-age_o / 140 days) / |o|

A large order says less of two of its items, so an order with n items counts 1 / n. t_ii is the count of an item. Of
each item, the pairs with the largest t_ij / t_jj^0.25 are stored: what is left out is mostly what everybody buys, and
so what the category of j says. Orders of one item do not count. Without times, all orders have the same age.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lorentzrec.data.arrays import (
    Floats,
    Integers,
    are_lists_of_entries,
    count_pairs,
    make_offsets,
    spans_within,
    strongest,
    sum_columns,
)
from lorentzrec.data.interactions import Interactions
from lorentzrec.data.times import SECONDS_PER_DAY
from lorentzrec.errors import InputError
from lorentzrec.points.similarity import list_orders

NEIGHBOURS, FEWEST_NEIGHBOURS, STORED_PAIRS = 400, 50, 50_000_000
"""Pairs that are stored of each item, 8 bytes each: fewer if all of them would be more than `STORED_PAIRS`."""
POPULARITY = 0.25
"""How much the count of an item takes from its pairs, where the best are chosen."""
HALF_LIFE = 140.0
"""Days after which an order counts half. This and the exponents were chosen on Complete Journey."""
LARGEST_ORDER = 1_000
"""Larger orders, such as those of other shops, are not counted, which bounds time."""
PAIRS_AT_ONCE = 1_000_000
"""Pairs of items that building holds in memory, about 30 MB."""


@dataclass(frozen=True, eq=False)
class Complements:
    """The partners of item i are `columns[offsets[i]:offsets[i + 1]]`, in rising order, with their `values` t_ij."""

    offsets: Integers
    columns: NDArray[np.int32]
    values: NDArray[np.float32]
    counts: NDArray[np.float32]
    """t_ii of each item; 0 if no order of several items has it."""
    point_weight: float = 0.0
    """How much the scores of points count in an outfit; 0: not at all."""

    def __post_init__(self) -> None:
        if (
            not are_lists_of_entries(self.offsets, self.columns, self.values)
            or (self.counts.dtype.str, self.counts.shape) != ("<f4", (self.item_count,))
            or not (np.isfinite(self.values).all() and (self.values > 0).all())
            or not (np.isfinite(self.counts).all() and (self.counts >= 0).all())
            or not 0 <= self.point_weight < np.inf
        ):
            raise InputError("the arrays of the complements are not the partners of its items: train the model again")

    @property
    def item_count(self) -> int:
        return len(self.offsets) - 1

    def partners(self, item: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The partners of an item and their t_ij; none of an item beyond those that are stored."""
        span = slice(*self.offsets[item : item + 2]) if item < self.item_count else slice(0)
        return self.columns[span], self.values[span]

    def extend(self, item_count: int) -> Complements:
        """The same with more items, which have no partners."""
        more = item_count - self.item_count
        return replace(
            self, offsets=np.pad(self.offsets, (0, more), mode="edge"), counts=np.pad(self.counts, (0, more))
        )


def build_complements(
    data: Interactions, *, now: float = np.inf, point_weight: float = 0.0, neighbours: int | None = None
) -> Complements:
    """The partners of each item, by these orders.

    now: the age of an order counts to the newest one until this time; later ones are of a wrong clock, and of age 0.
    neighbours: those that are stored; None: see `choose_neighbours`.
    """
    from scipy import sparse

    neighbours = choose_neighbours(len(data.items)) if neighbours is None else neighbours
    orders = _weigh_orders(data, now)
    by_item, counts = orders.T.tocsr(), sum_columns(orders, 2)
    popularity: Floats = np.where(counts > 0, counts, 1) ** POPULARITY
    numbers, columns, values = [], [], []
    for start, end in spans_within(count_pairs(orders), PAIRS_AT_ONCE):
        block = sparse.csr_array(by_item[start:end] @ orders)
        own = np.repeat(np.arange(start, end), np.diff(block.indptr)) == block.indices
        block.data[own | (block.data.astype(np.float32) == 0)] = 0  # orders of 1970 weigh less than float32 can hold
        block.eliminate_zeros()
        block.sort_indices()
        ranked, bounds = block.data / popularity[block.indices], block.indptr.tolist()
        kept = [first + strongest(ranked[first:last], neighbours) for first, last in pairwise(bounds)]
        chosen = np.concatenate(kept)
        numbers += [len(one) for one in kept]
        columns.append(block.indices[chosen].astype(np.int32, copy=False))
        values.append(block.data[chosen].astype(np.float32))
    offsets, found = make_offsets(np.array(numbers, np.int64)), np.concatenate(columns)
    del columns
    return Complements(offsets, found, np.concatenate(values), counts.astype(np.float32), point_weight)


def choose_neighbours(items: int) -> int:
    """How many pairs are stored of each of this number of items."""
    return min(NEIGHBOURS, max(FEWEST_NEIGHBOURS, STORED_PAIRS // max(items, 1)))


def _weigh_orders(data: Interactions, now: float) -> Any:
    """Sparse (orders, items): the square root of w for each item of an order with several items."""
    orders, owners = list_orders(data)
    sizes = np.diff(orders.indptr)
    weights: Floats = 1 / np.maximum(sizes, 1)
    if data.times is not None:
        times = np.full(len(sizes), -np.inf)
        np.maximum.at(times, owners, data.times)
        newest = times[times <= now].max(initial=-np.inf)
        weights *= 2 ** (np.minimum(times - newest, 0) / (HALF_LIFE * SECONDS_PER_DAY))
    kept = (sizes > 1) & (sizes <= LARGEST_ORDER)
    del owners
    orders = orders[kept]
    orders.data = np.repeat(np.sqrt(weights[kept]), sizes[kept])
    return orders
